#![expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]

use std::fs as disk;
use std::time::Duration;

use longshore_protocol::error::ErrorKind;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::read::Read;
use super::super::testing::{Bench, failed, ok, text};
use super::*;

/// Puts a file changed `age` seconds ago.
fn aged(bench: &Bench, name: &str, age: u64) {
    let path = bench.put(name, "x");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 - age);
    disk::OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

async fn glob(bench: &Bench, args: Value) -> String {
    ok(&bench.run(&Glob::new(bench.deps.clone()), args).await)
}

#[tokio::test]
async fn newest_first_and_from_the_working_directory() {
    let bench = Bench::new();
    aged(&bench, "src/old.ts", 30);
    aged(&bench, "src/a.ts", 10);
    aged(&bench, "b.ts", 10);
    aged(&bench, "src/deep/new.ts", 1);
    aged(&bench, "other.rs", 1);
    for (args, expected) in [
        (
            json!({"pattern": "*.ts"}),
            "src/deep/new.ts\nb.ts\nsrc/a.ts\nsrc/old.ts",
        ),
        (json!({"pattern": "src/*.ts"}), "src/a.ts\nsrc/old.ts"),
        (json!({"pattern": "a.ts", "path": "src"}), "src/a.ts"),
        (
            json!({"pattern": "*.{rs,md}", "include_dirs": true}),
            "other.rs",
        ),
        (json!({"pattern": "*.TS"}), "No files found."),
        (
            json!({"pattern": bench.path("src/*.ts")}),
            "src/a.ts\nsrc/old.ts",
        ),
    ] {
        assert_eq!(glob(&bench, args.clone()).await, expected, "{args}");
    }
    let read = Read::new(bench.deps.clone());
    ok(&bench
        .run(
            &read,
            json!({"path": glob(&bench, json!({"pattern": "a.ts", "path": "src"})).await}),
        )
        .await);
    aged(&bench, "../out/far.ts", 0);
    let outside = bench.path("../out").canonicalize().unwrap();
    assert_eq!(
        glob(&bench, json!({"pattern": "*", "path": outside})).await,
        outside.join("far.ts").display().to_string()
    );
}

#[tokio::test]
async fn ignored_hidden_and_version_control() {
    let bench = Bench::new();
    for name in [
        ".git/config",
        ".hidden",
        "node_modules/m/x.js",
        "src/x.js",
        ".jj/y",
        "debug.log",
        ".longshore-tmp-1",
    ] {
        aged(&bench, name, 1);
    }
    bench.put(".gitignore", "node_modules/\n*.log\n");
    disk::File::options()
        .write(true)
        .open(bench.path(".gitignore"))
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH)
        .unwrap();
    assert_eq!(
        glob(&bench, json!({"pattern": "**/*"})).await,
        ".hidden\nsrc/x.js\n.gitignore"
    );
    assert_eq!(
        glob(&bench, json!({"pattern": "*.log"})).await,
        "No files found.",
        "a glob is no way around"
    );
    assert_eq!(
        glob(
            &bench,
            json!({"pattern": "**/*.{js,log}", "include_ignored": true})
        )
        .await,
        "debug.log\nnode_modules/m/x.js\nsrc/x.js"
    );
    assert_eq!(
        glob(
            &bench,
            json!({"pattern": ".git/**", "include_ignored": true})
        )
        .await,
        "No files found."
    );
}

#[tokio::test]
async fn without_a_repository_ignore_files_from_above_do_not_count() {
    let bench = Bench::new();
    bench.put("../.gitignore", "*\n");
    bench.put(".gitignore", "b\n");
    bench.put("a", "");
    bench.put("b", "");
    assert_eq!(glob(&bench, json!({"pattern": "[ab]"})).await, "a");
}

#[tokio::test]
async fn protected_files_are_told_and_not_listed() {
    let bench = Bench::new();
    for name in [".env", "keys/id_rsa", ".env.example", ".aws/credentials/x"] {
        aged(&bench, name, 1);
    }
    assert_eq!(
        glob(
            &bench,
            json!({"pattern": "**/.env*", "include_ignored": true})
        )
        .await,
        ".env.example\n[Skipped 1 protected file without opening it: .env.]"
    );
    assert_eq!(
        glob(&bench, json!({"pattern": "id_*"})).await,
        "No files found that are not protected.\n[Skipped 1 protected file without opening it: keys/id_rsa.]"
    );
}

#[tokio::test]
async fn at_most_a_hundred() {
    let bench = Bench::new();
    for n in 0..100 {
        aged(&bench, &format!("f{n:03}"), n);
    }
    let all = glob(&bench, json!({"pattern": "f*"})).await;
    assert_eq!(all.lines().count(), 101);
    assert!(all.starts_with("f000\nf001\n") && all.ends_with("f099\n[100 files found.]"));
    aged(&bench, "fzz", 500);
    let outcome = bench
        .run(&Glob::new(bench.deps.clone()), json!({"pattern": "f*"}))
        .await;
    let cut = ok(&outcome);
    assert!(outcome.truncated && cut.starts_with("[Truncated: only the newest 100 of 101 files"));
    assert!(cut.ends_with("f099") && !cut.contains("fzz"));
}

#[tokio::test]
async fn brackets_may_be_meant_literally() {
    let bench = Bench::new();
    aged(&bench, "app/[id]/page.tsx", 1);
    aged(&bench, "app/(group)/x.tsx", 1);
    assert_eq!(
        glob(&bench, json!({"pattern": "app/[id]/*.tsx"})).await,
        "app/[id]/page.tsx"
    );
    assert_eq!(
        glob(&bench, json!({"pattern": "app/(group)/*"})).await,
        "app/(group)/x.tsx"
    );
}

#[tokio::test]
async fn nothing_found_is_not_the_same_as_could_not_look() {
    let bench = Bench::new();
    bench.put("file", "");
    disk::create_dir(bench.path("empty")).unwrap();
    let tool = Glob::new(bench.deps.clone());
    for (path, expected) in [
        ("missing", "does not exist"),
        ("file", "a file, not a directory"),
    ] {
        let text = failed(
            &bench
                .run(&tool, json!({"pattern": "*.rs", "path": path}))
                .await,
        );
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(
        glob(&bench, json!({"pattern": "*.rs", "path": "empty"})).await,
        "No files found."
    );
    // The superuser can read everything.
    if !rustix::process::geteuid().is_root() {
        use std::os::unix::fs::PermissionsExt;
        disk::create_dir(bench.path("closed")).unwrap();
        disk::set_permissions(bench.path("closed"), disk::Permissions::from_mode(0o000)).unwrap();
        let closed = failed(
            &bench
                .run(&tool, json!({"pattern": "*.rs", "path": "closed"}))
                .await,
        );
        assert!(closed.contains("permission denied"), "{closed}");
    }
}

#[tokio::test]
async fn refusals() {
    let bench = Bench::new();
    let tool = Glob::new(bench.deps.clone());
    for (args, expected) in [
        (json!({"pattern": ""}), "/pattern"),
        (json!({"pattern": "!x"}), "begins with !"),
        (json!({"pattern": "../x"}), "leads out"),
        (json!({"pattern": "{a"}), "not valid"),
    ] {
        assert!(failed(&bench.run(&tool, args).await).contains(expected));
    }
    let outside = json!({"pattern": "*", "path": "../.."});
    assert_eq!(
        bench.refused(&tool, outside).await,
        Some(ErrorKind::PathOutsideWorkspace)
    );
}

#[tokio::test]
async fn calls_say_what_they_touch() {
    let bench = Bench::new();
    let call = bench
        .resolve(
            &Glob::new(bench.deps.clone()),
            json!({"pattern": "*.rs", "path": "src"}),
        )
        .unwrap();
    assert_eq!(call.accesses, [Access::search(bench.path("src"))]);
    assert_eq!(call.title, "Search *.rs");
    assert_eq!(call.subject, Subject::Text("*.rs".to_owned()));
    let path = bench.path("src").display().to_string();
    assert_eq!(
        call.display,
        Display::Search {
            query: "*.rs".to_owned(),
            path,
            glob: None
        }
    );
}

#[tokio::test]
async fn a_cancelled_search_says_so() {
    let bench = Bench::new();
    let (call, accesses) = bench
        .judge(&Glob::new(bench.deps.clone()), json!({"pattern": "*"}))
        .await
        .unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = (call.execute)(bench.cx(accesses, &cancel)).await;
    assert!(outcome.is_error && text(&outcome).contains("cancelled"));
}

#[tokio::test]
async fn the_walk_begins_where_the_pattern_does() {
    let bench = Bench::new();
    aged(&bench, "a/b/c/x.rs", 1);
    aged(&bench, "a/y.rs", 2);
    bench.put(".gitignore", "hidden/\n");
    aged(&bench, "hidden/z.rs", 1);
    disk::create_dir_all(bench.path("a/.git/d")).unwrap();
    std::os::unix::fs::symlink("a", bench.path("link")).unwrap();
    for (pattern, expected) in [
        ("a/b/**", "a/b/c/x.rs"),
        ("a/*.rs", "a/y.rs"),
        ("hidden/**", "No files found."),
        ("missing/**", "No files found."),
        ("a/y.rs/**", "No files found."),
        ("a/.git/**", "No files found."),
        ("link/**", "No files found."),
    ] {
        assert_eq!(
            glob(&bench, json!({"pattern": pattern})).await,
            expected,
            "{pattern}"
        );
    }
    let ignored = json!({"pattern": "hidden/**", "include_ignored": true});
    assert_eq!(glob(&bench, ignored).await, "hidden/z.rs");
}

#[tokio::test]
async fn brackets_that_are_no_class_are_meant_literally() {
    let bench = Bench::new();
    aged(&bench, "app/[z-a]/page.tsx", 1);
    assert_eq!(
        glob(&bench, json!({"pattern": "app/[z-a]/*"})).await,
        "app/[z-a]/page.tsx"
    );
    let tool = Glob::new(bench.deps.clone());
    let outcome = bench.run(&tool, json!({"pattern": "{a,[b"})).await;
    assert!(failed(&outcome).contains("The glob {a,[b is not valid"));
}

#[tokio::test]
async fn names_that_are_odd_stay_one_result_each() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    aged(&bench, "new\nline", 1);
    disk::write(bench.ws.join(std::ffi::OsStr::from_bytes(b"bad\xFF")), "").unwrap();
    assert_eq!(
        glob(&bench, json!({"pattern": "*"})).await,
        "bad\u{FFFD}\nnew\\nline\n\
         [Names that are not UTF-8 are shown with \u{FFFD} for what can't be shown, and can't be given to other tools (1).]"
    );
}
