use std::fs as disk;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::testing::{Bench, failed, ok, text};
use super::*;

async fn grep(bench: &Bench, args: Value) -> String {
    ok(&bench.run(&Grep::new(bench.deps.clone()), args).await)
}

fn content(pattern: &str) -> Value {
    json!({"pattern": pattern, "output_mode": "content"})
}

fn with(mut args: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        args[name] = value.clone();
    }
    args
}

#[tokio::test]
async fn lines_with_and_without_context() {
    let bench = Bench::new();
    bench.put("b.txt", "one\ntwo hit\nthree\nfour\nfive\nsix hit\nseven\n");
    bench.put("a.txt", "hit\n");
    for (more, expected) in [
        (json!({}), "a.txt:1:hit\nb.txt:2:two hit\nb.txt:6:six hit"),
        (
            json!({"-n": false}),
            "a.txt:hit\nb.txt:two hit\nb.txt:six hit",
        ),
        (
            json!({"-C": 1, "-A": 9}),
            "a.txt:1:hit\n--\nb.txt-1-one\nb.txt:2:two hit\nb.txt-3-three\n--\nb.txt-5-five\nb.txt:6:six hit\nb.txt-7-seven",
        ),
        (
            json!({"-B": 1, "path": "b.txt"}),
            "b.txt-1-one\nb.txt:2:two hit\n--\nb.txt-5-five\nb.txt:6:six hit",
        ),
        (json!({"-A": 1, "-n": false, "path": "a.txt"}), "a.txt:hit"),
        (json!({"-i": true, "pattern": "SIX"}), "b.txt:6:six hit"),
        (json!({"pattern": "nothing"}), "No matches found."),
        (json!({"pattern": "one$"}), "b.txt:1:one"),
        (
            json!({"pattern": "four.five", "multiline": true}),
            "b.txt:4:four\nb.txt:5:five",
        ),
    ] {
        assert_eq!(
            grep(&bench, with(content("hit"), more.clone())).await,
            expected,
            "{more}"
        );
    }
}

#[tokio::test]
async fn files_newest_first_and_counts_by_path() {
    let bench = Bench::new();
    for (name, text, age) in [
        ("a", "x x x", 50),
        ("b", "x\n", 10),
        ("c", "x x\nx\n", 90),
        ("d", "y", 1),
    ] {
        let path = bench.put(name, text);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
        disk::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(time)
            .unwrap();
    }
    assert_eq!(grep(&bench, json!({"pattern": "x"})).await, "b\na\nc");
    let counts = json!({"pattern": "x", "output_mode": "count_matches"});
    assert_eq!(
        grep(&bench, counts.clone()).await,
        "7 matches in 3 files.\na:3\nb:1\nc:3"
    );
    assert_eq!(
        grep(&bench, with(counts, json!({"head_limit": 2}))).await,
        "7 matches in 3 files. Showing files 1 to 2 of 3; for more set offset to 2.\na:3\nb:1"
    );
    let old_name = json!({"pattern": "x", "output_mode": "count"});
    assert!(
        failed(&bench.run(&Grep::new(bench.deps.clone()), old_name).await).contains("/output_mode")
    );
}

#[tokio::test]
async fn pages_are_disjoint_complete_and_in_one_order() {
    let bench = Bench::new();
    for file in 0..30 {
        bench.put(&format!("d{}/f{file}", file % 7), "hit\n".repeat(20));
    }
    let all = with(content("hit"), json!({"head_limit": 0}));
    let whole = grep(&bench, all.clone()).await;
    assert_eq!(whole.lines().count(), 600);
    assert_eq!(grep(&bench, all).await, whole);
    let mut pages = Vec::new();
    for offset in [0, 250, 500] {
        let page = grep(&bench, with(content("hit"), json!({"offset": offset}))).await;
        let (lines, notice): (Vec<_>, Vec<_>) = page
            .lines()
            .map(str::to_owned)
            .partition(|line| !line.starts_with('['));
        let next = if offset == 500 {
            String::new()
        } else {
            format!("; for more set offset to {}", offset + 250)
        };
        let last = (offset + 250).min(600);
        assert_eq!(
            notice,
            [format!(
                "[Showing lines {} to {last} of 600{next}.]",
                offset + 1
            )]
        );
        pages.extend(lines);
    }
    assert_eq!(pages.join("\n"), whole);
    let beyond = grep(&bench, with(content("hit"), json!({"offset": 1000}))).await;
    assert_eq!(
        beyond,
        "[There are 600 lines; the offset is behind the last.]"
    );
}

#[tokio::test]
async fn the_limit_of_characters_is_a_page_limit_too() {
    let bench = Bench::new();
    bench.put("f", format!("hit {}\n", "x".repeat(490)).repeat(200));
    let outcome = bench
        .run(&Grep::new(bench.deps.clone()), content("hit"))
        .await;
    let first = ok(&outcome);
    assert!(outcome.truncated && first.chars().count() < 51_000);
    let n_shown = first.lines().filter(|line| line.starts_with("f:")).count();
    assert!(first.ends_with(&format!(
        "[Showing lines 1 to {n_shown} of 200; for more set offset to {n_shown}.]"
    )));
    let rest = grep(&bench, with(content("hit"), json!({"offset": n_shown}))).await;
    assert!(rest.starts_with(&format!("f:{}:", n_shown + 1)));
}

#[tokio::test]
async fn globs_and_types_filter_and_never_bring_back() {
    let bench = Bench::new();
    for name in [
        "src/a/x.ts",
        "src/y.rs",
        "z.ts",
        "ignored/w.ts",
        ".git/v.ts",
    ] {
        bench.put(name, "hit\n");
    }
    bench.put(".gitignore", "ignored/\n");
    for (more, expected) in [
        (json!({"glob": "src/**/*.ts"}), "src/a/x.ts:1:hit"),
        (json!({"glob": "*.ts"}), "src/a/x.ts:1:hit\nz.ts:1:hit"),
        (json!({"glob": "!*.ts"}), "src/y.rs:1:hit"),
        (
            json!({"glob": "**/*", "path": "src"}),
            "src/a/x.ts:1:hit\nsrc/y.rs:1:hit",
        ),
        (json!({"glob": "a/*.ts", "path": "src"}), "src/a/x.ts:1:hit"),
        (json!({"type": "rust"}), "src/y.rs:1:hit"),
        (
            json!({"glob": "*.ts", "include_ignored": true}),
            "ignored/w.ts:1:hit\nsrc/a/x.ts:1:hit\nz.ts:1:hit",
        ),
    ] {
        assert_eq!(
            grep(&bench, with(content("hit"), more.clone())).await,
            expected,
            "{more}"
        );
    }
}

#[tokio::test]
async fn secrets_stay_closed_and_the_answer_tells_nothing_about_them() {
    let bench = Bench::new();
    bench.put("a.ts", "TEST_KEY\n");
    bench.put(".env.example", "TEST_KEY=\n");
    let skipped = "[Skipped 1 protected file without opening it: .env.local.]";
    for secret in ["TEST_KEY=s3cret\n", "nothing\n"] {
        bench.put(".env.local", secret);
        assert_eq!(
            grep(&bench, content("TEST_KEY")).await,
            format!(".env.example:1:TEST_KEY=\na.ts:1:TEST_KEY\n{skipped}")
        );
        let counts = json!({"pattern": "TEST_KEY", "output_mode": "count_matches"});
        assert_eq!(
            grep(&bench, counts).await,
            format!("2 matches in 2 files.\n.env.example:1\na.ts:1\n{skipped}")
        );
        assert_eq!(
            grep(
                &bench,
                with(content("TEST_KEY"), json!({"path": ".env.local"}))
            )
            .await,
            format!("No matches found in files that are not protected.\n{skipped}")
        );
    }
    std::os::unix::fs::symlink(".env.local", bench.path("link")).unwrap();
    let through_link = grep(
        &bench,
        with(content("s3cret|nothing"), json!({"path": "link"})),
    )
    .await;
    assert!(
        through_link.starts_with("No matches found in files that are not protected."),
        "{through_link}"
    );
}

#[tokio::test]
async fn endings_encodings_and_binaries() {
    let bench = Bench::new();
    bench.put("crlf", "the end\r\nmore\r\n");
    bench.put(
        "wide",
        "\u{FEFF}the end\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<_>>(),
    );
    bench.put("latin", b"caf\xE9 the end\n");
    bench.put("binary", b"\0\0the end\n\0the end\n");
    assert_eq!(
        grep(&bench, content("end$")).await,
        "crlf:1:the end\nlatin:1:caf\u{FFFD} the end\nwide:1:the end"
    );
    assert_eq!(
        grep(&bench, with(content("end"), json!({"path": "binary"}))).await,
        "binary is a binary file; it holds the pattern 2 times."
    );
}

#[tokio::test]
async fn long_lines_show_the_match() {
    let bench = Bench::new();
    bench.put(
        "min.js",
        format!("{}needle{}\n", "x".repeat(5000), "y".repeat(5000)),
    );
    let line = grep(&bench, content("needle")).await;
    assert!(
        line.starts_with("min.js:1:[column 5001] …")
            && line.contains("xneedley")
            && line.len() < 600,
        "{line}"
    );
}

#[tokio::test]
async fn what_cannot_be_searched_is_told_at_once() {
    let bench = Bench::new();
    let tool = Grep::new(bench.deps.clone());
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.path("fifo"), 0o600.into()).unwrap();
    bench.put("a", "hit");
    for (more, expected) in [
        (
            json!({"path": "fifo"}),
            "a named pipe; only files and directories",
        ),
        (json!({"path": "missing"}), "does not exist"),
        (json!({"pattern": "("}), "not a valid regex"),
        (json!({"pattern": "a\\nb"}), "Set multiline"),
        (json!({"pattern": "a(?!b)"}), "look-around"),
        (json!({"type": "rost"}), "or rust?"),
        (json!({"glob": "{a"}), "not valid"),
        (json!({"glob": "/elsewhere/*"}), "not below"),
        (json!({"head_limit": -1}), "/head_limit"),
    ] {
        let text = failed(&bench.run(&tool, with(content("hit"), more)).await);
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(
        grep(&bench, content("hit")).await,
        "a:1:hit",
        "a pipe in a tree is passed over"
    );
    // The superuser can read everything.
    if !rustix::process::geteuid().is_root() {
        use std::os::unix::fs::PermissionsExt;
        bench.put("closed/b", "hit");
        disk::set_permissions(bench.path("closed"), disk::Permissions::from_mode(0o000)).unwrap();
        let partial = grep(&bench, content("hit")).await;
        assert_eq!(
            partial,
            "a:1:hit\n[Not everything could be looked at (1): closed (permission denied).]"
        );
        disk::set_permissions(bench.path("closed"), disk::Permissions::from_mode(0o700)).unwrap();
    }
}

#[tokio::test]
async fn calls_say_what_they_touch() {
    let bench = Bench::new();
    let args = json!({"pattern": "x+", "path": "src", "glob": "*.rs"});
    let call = bench.resolve(&Grep::new(bench.deps.clone()), args).unwrap();
    assert_eq!(call.accesses, [Access::search(bench.path("src"))]);
    assert_eq!(
        (call.title.as_str(), call.subject),
        ("Search x+", Subject::Text("x+".to_owned()))
    );
    let path = bench.path("src").display().to_string();
    assert_eq!(
        call.display,
        Display::Search {
            query: "x+".to_owned(),
            path,
            glob: Some("*.rs".to_owned())
        }
    );
}

#[tokio::test]
async fn results_are_drawn() {
    let bench = Bench::new();
    bench.put("a", "hit\n");
    let outcome = bench
        .run(&Grep::new(bench.deps.clone()), content("hit"))
        .await;
    let text = "a:1:hit".to_owned();
    assert_eq!(
        outcome.display,
        Some(Display::SearchResults {
            query: "hit".to_owned(),
            text,
            truncated: false
        })
    );
}

#[tokio::test]
async fn a_cancelled_search_says_so() {
    let bench = Bench::new();
    bench.put("a", "hit");
    let (call, accesses) = bench
        .judge(&Grep::new(bench.deps.clone()), content("hit"))
        .await
        .unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = (call.execute)(bench.cx(accesses, &cancel)).await;
    assert!(outcome.is_error && text(&outcome).contains("cancelled"));
}
