#![expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]

use std::ffi::OsStr;
use std::fs as disk;
use std::os::unix::ffi::OsStrExt;
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

#[tokio::test]
async fn ignored_secrets_are_told_too_and_stay_closed() {
    let bench = Bench::new();
    for git in [false, true] {
        if git {
            disk::create_dir(bench.path(".git")).unwrap();
        }
        bench.put(".gitignore", ".env\nsub/\n");
        bench.put(".env", "KEY=1\n");
        bench.put("sub/.env", "KEY=1\n");
        bench.put("a", "KEY\n");
        let skipped = "[Skipped 1 protected file without opening it: .env.]";
        assert_eq!(
            grep(&bench, json!({"pattern": "KEY"})).await,
            format!("a\n{skipped}"),
            "what is in an ignored directory is out of scope"
        );
        assert_eq!(
            grep(&bench, json!({"pattern": "KEY", "glob": "a"})).await,
            "a",
            "nor is what the glob doesn't ask for"
        );
        assert_eq!(
            grep(&bench, json!({"pattern": "KEY", "include_ignored": true})).await,
            "a\n[Skipped 2 protected files without opening them: .env, sub/.env.]"
        );
    }
}

#[tokio::test]
async fn version_control_is_never_searched_even_when_it_is_named() {
    let bench = Bench::new();
    bench.put(".git/config", "hit\n");
    bench.put("sub/.hg", "hit\n");
    bench.put("sub/a", "hit\n");
    let tool = Grep::new(bench.deps.clone());
    for path in [".git", ".git/config", "sub/.hg"] {
        let outcome = bench
            .run(&tool, with(content("hit"), json!({"path": path})))
            .await;
        assert!(failed(&outcome).contains("version control"), "{path}");
    }
    for more in [
        json!({"include_ignored": true}),
        json!({"glob": "**/*"}),
        json!({"glob": ".git/**", "pattern": "nothing"}),
    ] {
        let found = grep(&bench, with(content("hit"), more.clone())).await;
        assert!(
            ["sub/a:1:hit", "No matches found."].contains(&found.as_str()),
            "{more}: {found}"
        );
    }
}

#[tokio::test]
async fn across_lines() {
    let bench = Bench::new();
    bench.put("crlf", "one\r\ntwo end\r\nthree\r\n");
    bench.put("long", format!("begin\n{}needle\n", "x".repeat(5000)));
    for (more, expected) in [
        (json!({"pattern": "end$"}), "crlf:2:two end"),
        (
            json!({"pattern": "one\\r?\\ntwo"}),
            "crlf:1:one\ncrlf:2:two end",
        ),
        (json!({"pattern": "^three"}), "crlf:3:three"),
    ] {
        let args = with(content(""), json!({"multiline": true}));
        assert_eq!(grep(&bench, with(args, more)).await, expected);
    }
    let args =
        json!({"pattern": "(?-s)begin\\n.*needle", "multiline": true, "output_mode": "content"});
    let found = grep(&bench, args).await;
    assert!(
        found.starts_with("long:1:begin\nlong:2:xxx") && found.len() < 600,
        "{found}"
    );
    let counts =
        json!({"pattern": "\\w+\\r?\\n", "multiline": true, "output_mode": "count_matches"});
    assert_eq!(
        grep(&bench, counts).await,
        "5 matches in 2 files.\ncrlf:3\nlong:2"
    );
}

#[tokio::test]
async fn a_file_that_turns_out_to_be_binary_is_left_there() {
    let bench = Bench::new();
    bench.put("early", b"hit\n\0\n");
    let mut late = b"hit\n".repeat(20_000);
    late.extend_from_slice(b"\0\nhit\n");
    bench.put("late", &late);
    bench.put("text", "hit\n");
    let found = grep(
        &bench,
        with(content("hit"), json!({"head_limit": 2, "glob": "late"})),
    )
    .await;
    assert!(found.starts_with("late:1:hit\nlate:2:hit\n[Showing lines 1 to 2 of "));
    assert!(found.ends_with(
        "[1 of these files turned out to be binary and were searched up to there only.]"
    ));
    let counts = json!({"pattern": "hit", "output_mode": "count_matches"});
    assert_eq!(grep(&bench, counts).await, "1 match in 1 file.\ntext:1");
}

#[tokio::test]
async fn lines_of_any_length_in_bounded_memory() {
    let bench = Bench::new();
    let mut line = vec![b'x'; 3 << 20];
    line.extend_from_slice(b"needle\n");
    bench.put("three", &line);
    line.splice(0..0, vec![b'x'; 32 << 20]);
    bench.put("too-long", &line);
    bench.put("z", "needle\n");
    let found = grep(&bench, content("needle")).await;
    let lines: Vec<_> = found.lines().collect();
    assert!(
        lines[0].starts_with("three:1:[column 3145729] …xxx") && lines[0].ends_with("xneedle"),
        "{found}"
    );
    assert_eq!(
        lines[1..],
        [
            "z:1:needle",
            "[Not everything could be looked at (1): too-long (a line of it is longer than 32 MiB).]"
        ]
    );
}

#[tokio::test]
async fn holes_of_gigabytes_are_no_hindrance() {
    let bench = Bench::new();
    let path = bench.put("sparse", "");
    let file = disk::File::options().write(true).open(path).unwrap();
    file.set_len(5 << 30).unwrap();
    bench.put("a", "needle\n");
    for multiline in [false, true] {
        let args = json!({"pattern": "needle", "multiline": multiline});
        assert_eq!(grep(&bench, args).await, "a");
    }
}

#[tokio::test]
async fn names_that_are_odd() {
    let bench = Bench::new();
    bench.put("new\nline", "hit\n");
    disk::write(bench.ws.join(OsStr::from_bytes(b"bad\xFF")), "hit\n").unwrap();
    assert_eq!(
        grep(&bench, content("hit")).await,
        "bad\u{FFFD}:1:hit\nnew\\nline:1:hit\n\
         [Names that are not UTF-8 are shown with \u{FFFD} for what can't be shown, and can't be given to other tools (1).]"
    );
}

#[tokio::test]
async fn a_place_too_deep_to_be_reached_is_told() {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let bench = Bench::new();
    bench.put("a", "hit\n");
    let name = "d".repeat(250);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut dir = openat(CWD, &bench.ws, flags, Mode::empty()).unwrap();
    for _ in 0..18 {
        mkdirat(&dir, &name, Mode::RWXU).unwrap();
        dir = openat(&dir, &name, flags, Mode::empty()).unwrap();
    }
    let found = grep(&bench, json!({"pattern": "hit"})).await;
    assert!(
        found.starts_with("a\n[Not everything could be looked at (1): d"),
        "{found}"
    );
    let none = grep(&bench, json!({"pattern": "nothing"})).await;
    assert!(none.starts_with("No matches found in what could be looked at.\n["));
}

#[tokio::test]
async fn what_was_found_when_the_time_is_up_is_shown() {
    let bench = Bench::new();
    bench.put("a", "hit\n");
    let tool = Grep::new(bench.deps.clone());
    let (call, accesses) = bench.judge(&tool, content("hit")).await.unwrap();
    assert_eq!(call.title, "Search hit");
    let target = target::of_call(&accesses, ".").unwrap();
    for (pattern, expected) in [
        (
            "hit",
            "a:1:hit\n[The search was stopped after 20 seconds; the results are incomplete. Narrow it down.]",
        ),
        (
            "nothing",
            "The search was stopped after 20 seconds and had found nothing until then.",
        ),
    ] {
        let args: GrepArgs = serde_json::from_value(content(pattern)).unwrap();
        let job = GrepJob {
            engine: Engine::new(pattern, args.engine_options()).unwrap(),
            args,
            types: None,
            deps: bench.deps.clone(),
            workspace: Arc::clone(&bench.workspace),
        };
        let shared = Shared::default();
        let walk = shared.walk.get_or_init(|| job.walk(&target));
        job.search(walk.as_ref().unwrap(), &shared, &Crew::alone())
            .unwrap();
        let text = match job.outcome(&shared, Ended::TimedOut) {
            Ok(outcome) => ok(&outcome),
            Err(failed) => failed.message,
        };
        assert!(text.starts_with(expected), "{text}");
    }
}

#[tokio::test]
async fn many_files_in_one_directory() {
    // 200,000 of them with a scale of 40.
    let scale = std::env::var("LONGSHORE_TEST_SCALE").map_or(1, |scale| scale.parse().unwrap());
    let n_files = 5000 * scale;
    let bench = Bench::new();
    disk::create_dir(bench.path("many")).unwrap();
    for n in 0..n_files {
        disk::write(bench.path(&format!("many/{n}")), "hit\n").unwrap();
    }
    let counts = json!({"pattern": "hit", "output_mode": "count_matches", "head_limit": 1});
    let found = grep(&bench, counts).await;
    assert!(
        found.starts_with(&format!("{n_files} matches in {n_files} files.")),
        "{found}"
    );
}
