#![expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]

use std::ffi::OsStr;
use std::fs as disk;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::super::edit::Edit;
use super::super::read::Read;
use super::super::testing::{Bench, failed, note, ok};
use super::super::write::Write;
use super::*;
use crate::config::values::Freshness as Policy;
use crate::os::fs::{TempLog, TempUse, is_temp_name};
use crate::path::Workspace;

fn write_args(path: &str, content: &str) -> Value {
    json!({"path": path, "content": content})
}

fn edit_args(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old_string": old, "new_string": new})
}

fn all_args(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old_string": old, "new_string": new, "replace_all": true})
}

fn append_args(path: &str, content: &str) -> Value {
    json!({"path": path, "content": content, "mode": "append"})
}

#[tokio::test]
async fn what_must_have_been_read_is_the_users_choice() {
    let calls = [
        ("one place", edit_args("f", "a", "x")),
        ("every place", all_args("f", "a", "x")),
        ("end", append_args("f", "x")),
        ("whole", write_args("f", "x")),
    ];
    // What is refused of a file that was never read, and of one that has changed since.
    for (policy, never, changed) in [
        (
            Policy::Default,
            &["whole"][..],
            &["every place", "whole"][..],
        ),
        (
            Policy::Strict,
            &["one place", "every place", "end", "whole"],
            &["one place", "every place", "end", "whole"],
        ),
        (Policy::Off, &[], &[]),
    ] {
        for (change, args) in &calls {
            let mut bench = Bench::new();
            bench.deps.must_be_fresh = policy;
            let (read, write, edit) = (
                Read::new(bench.deps.clone()),
                Write::new(bench.deps.clone()),
                Edit::new(bench.deps.clone()),
            );
            let tool: &dyn crate::tool::Tool = match *change {
                "one place" | "every place" => &edit,
                _ => &write,
            };
            bench.put("f", "a\n");
            let outcome = bench.run(tool, args.clone()).await;
            assert_eq!(
                outcome.is_error,
                never.contains(change),
                "{policy:?} {change}"
            );
            if outcome.is_error {
                assert!(failed(&outcome).contains("Read it first"));
                assert_eq!(bench.text("f"), "a\n");
            }
            bench.put("f", "a\n");
            ok(&bench.run(&read, json!({"path": "f"})).await);
            bench.put("f", "a\nmore\n");
            let outcome = bench.run(tool, args.clone()).await;
            assert_eq!(
                outcome.is_error,
                changed.contains(change),
                "{policy:?} {change}"
            );
            if outcome.is_error {
                assert!(failed(&outcome).contains("Read it again"));
                assert_eq!(bench.text("f"), "a\nmore\n");
            } else {
                assert!(
                    note(&outcome).contains("had changed"),
                    "{policy:?} {change}"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_result_says_what_was_there_before() {
    let bench = Bench::new();
    let (write, edit) = (
        Write::new(bench.deps.clone()),
        Edit::new(bench.deps.clone()),
    );
    let sha256 = |outcome: &Outcome| match &outcome.display {
        Some(Display::Diff { old_sha256, .. }) => old_sha256.clone(),
        other => panic!("{other:?}"),
    };
    let of = |text: &str| Some(BlobId::of(text.as_bytes()).to_string());
    let made = bench.run(&write, write_args("f", "one\n")).await;
    assert_eq!(sha256(&made), None);
    let written = bench.run(&write, write_args("f", "two\n")).await;
    assert_eq!(sha256(&written), of("one\n"));
    let added = bench.run(&write, append_args("f", "more\n")).await;
    assert_eq!(sha256(&added), of("two\n"));
    let edited = bench.run(&edit, edit_args("f", "two", "three")).await;
    assert_eq!(sha256(&edited), of("two\nmore\n"));
}

/// An account that knows the moment when a temporary file is made.
#[derive(Debug, Default)]
struct Account {
    cancel: Option<CancellationToken>,
    made: Mutex<Vec<PathBuf>>,
    settled: Mutex<Vec<PathBuf>>,
}

impl TempLog for Account {
    fn making(&self, path: &std::path::Path, _: TempUse<'_>) {
        if let Some(cancel) = &self.cancel {
            cancel.cancel();
        }
        self.made.lock().unwrap().push(path.to_owned());
    }

    fn settled(&self, path: &std::path::Path) {
        self.settled.lock().unwrap().push(path.to_owned());
    }

    fn kept(&self, path: &std::path::Path) {
        panic!("{} was not to be kept", path.display());
    }
}

#[tokio::test]
async fn a_cancel_while_the_new_content_is_written_leaves_the_old() {
    for args in [edit_args("f", "old", "new"), write_args("new/dir/f", "new")] {
        let mut bench = Bench::new();
        let cancel = CancellationToken::new();
        let account = Arc::new(Account {
            cancel: Some(cancel.clone()),
            ..Account::default()
        });
        bench.deps.temps = Some(account.clone());
        bench.put("f", "old\n");
        let (edit, write) = (
            Edit::new(bench.deps.clone()),
            Write::new(bench.deps.clone()),
        );
        let tool: &dyn crate::tool::Tool = if args.get("content").is_some() {
            &write
        } else {
            &edit
        };
        let (call, accesses) = bench.judge(tool, args).await.unwrap();
        let outcome = (call.execute)(bench.cx(accesses, &cancel)).await;
        assert!(failed(&outcome).contains("cancelled before it did anything"));
        assert_eq!(bench.text("f"), "old\n");
        assert!(!bench.path("new").exists());
        assert_eq!(disk::read_dir(&bench.ws).unwrap().count(), 1);
        let made = account.made.lock().unwrap().clone();
        assert_eq!((made.len(), &made), (1, &*account.settled.lock().unwrap()));
    }
}

#[tokio::test]
async fn hard_links_are_written_with_a_copy_in_the_session_directory() {
    let mut bench = Bench::new();
    let account = Arc::new(Account::default());
    bench.deps.temps = Some(account.clone());
    let edit = Edit::new(bench.deps.clone());
    let path = bench.put("f", "old\n");
    disk::hard_link(&path, bench.path("g")).unwrap();
    ok(&bench.run(&edit, edit_args("f", "old", "new")).await);
    assert_eq!(
        (bench.text("f"), bench.text("g")),
        ("new\n".into(), "new\n".into())
    );
    assert_eq!(disk::metadata(&path).unwrap().nlink(), 2);
    let made = account.made.lock().unwrap().clone();
    assert_eq!(made.len(), 1);
    let results = bench.ws.join("../results").canonicalize().unwrap();
    assert_eq!(made[0].parent(), Some(results.as_path()));
    assert!(is_temp_name(made[0].file_name().unwrap()) && !made[0].exists());
}

#[tokio::test]
async fn a_directory_that_vanished_is_said_to_be_missing() {
    let bench = Bench::new();
    let (read, edit, write) = (
        Read::new(bench.deps.clone()),
        Edit::new(bench.deps.clone()),
        Write::new(bench.deps.clone()),
    );
    for (tool, args) in [
        (&read as &dyn crate::tool::Tool, json!({"path": "d/f"})),
        (&edit, edit_args("d/f", "a", "b")),
    ] {
        bench.put("d/f", "a\n");
        let (call, accesses) = bench.judge(tool, args).await.unwrap();
        disk::remove_dir_all(bench.path("d")).unwrap();
        let outcome = (call.execute)(bench.cx(accesses, &CancellationToken::new())).await;
        assert!(
            failed(&outcome).contains("d/f does not exist"),
            "{outcome:?}"
        );
        assert!(!bench.path("d").exists());
    }
    // Writing makes what is missing, the workspace itself included.
    let (call, accesses) = bench.judge(&write, write_args("d/f", "x")).await.unwrap();
    disk::remove_dir_all(&bench.ws).unwrap();
    let outcome = (call.execute)(bench.cx(accesses, &CancellationToken::new())).await;
    ok(&outcome);
    assert!(note(&outcome).contains(&bench.path("d").display().to_string()));
    assert_eq!(bench.text("d/f"), "x");
}

#[tokio::test]
async fn a_sparse_file_of_5_gib_is_neither_loaded_nor_compared() {
    let bench = Bench::new();
    let (read, edit, write) = (
        Read::new(bench.deps.clone()),
        Edit::new(bench.deps.clone()),
        Write::new(bench.deps.clone()),
    );
    let path = bench.put("big", "first\n");
    let set_len = || {
        let file = disk::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(5 << 30).unwrap();
    };
    set_len();
    assert!(
        failed(&bench.run(&edit, edit_args("big", "first", "x")).await).contains("can't be edited")
    );
    assert!(failed(&bench.run(&write, write_args("big", "x")).await).contains("Read it first"));
    assert!(
        bench
            .run(&read, json!({"path": "big", "n_lines": 1}))
            .await
            .is_error,
        "it holds NUL"
    );
    ok(&bench.run(&write, append_args("big", "end\n")).await);
    assert_eq!(disk::metadata(&path).unwrap().len(), (5 << 30) + 4);
    // What was added to is known; with that it may be overwritten.
    ok(&bench.run(&write, write_args("big", "small\n")).await);
    assert_eq!(bench.text("big"), "small\n");
}

#[tokio::test]
async fn a_workspace_of_a_name_that_is_not_utf_8() {
    let mut bench = Bench::new();
    let odd = bench.ws.join(OsStr::from_bytes(b"odd\xFF"));
    disk::create_dir(&odd).unwrap();
    bench.workspace = Arc::new(Workspace::of_dir(&odd));
    let (write, edit) = (
        Write::new(bench.deps.clone()),
        Edit::new(bench.deps.clone()),
    );
    ok(&bench.run(&write, write_args("f", "one\n")).await);
    ok(&bench.run(&edit, edit_args("f", "one", "two")).await);
    assert_eq!(disk::read(odd.join("f")).unwrap(), b"two\n");
    // Names that cannot be written down are not offered.
    disk::write(odd.join(OsStr::from_bytes(b"name\xFF")), "x").unwrap();
    let missing = bench.run(&edit, edit_args("name", "a", "b")).await;
    assert!(!failed(&missing).contains('\u{FFFD}'), "{missing:?}");
}

/// 200,000 names with `LONGSHORE_TEST_SCALE=1`.
#[tokio::test]
async fn a_missing_file_in_a_huge_directory_is_missing_at_once() {
    let n: usize = if std::env::var_os("LONGSHORE_TEST_SCALE").is_some() {
        200_000
    } else {
        10_000
    };
    let bench = Bench::new();
    let first = bench.put("d/name-0", "x");
    for n in 1..n {
        // A name costs less than a file.
        if disk::hard_link(&first, bench.path(&format!("d/name-{n}"))).is_err() {
            bench.put(&format!("d/name-{n}"), "x");
        }
    }
    let read = Read::new(bench.deps.clone());
    let outcome = bench.run(&read, json!({"path": "d/name-x"})).await;
    assert!(failed(&outcome).contains("d/name-x does not exist. Did you mean d/name-"));
}
