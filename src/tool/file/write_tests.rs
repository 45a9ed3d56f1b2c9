#![expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]

use std::fs as disk;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use longshore_protocol::error::ErrorKind;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::read::Read;
use super::super::testing::{Bench, failed, note, ok};
use super::*;

fn write_args(path: &str, content: &str) -> Value {
    json!({"path": path, "content": content})
}

fn append_args(path: &str, content: &str) -> Value {
    json!({"path": path, "content": content, "mode": "append"})
}

#[tokio::test]
async fn new_files_and_their_directories() {
    let bench = Bench::new();
    let write = Write::new(bench.deps.clone());
    let outcome = bench.run(&write, write_args("a/b/f.txt", "héllo🌍")).await;
    assert_eq!(ok(&outcome), "Wrote 10 bytes to a/b/f.txt.");
    assert!(note(&outcome).contains(&format!(
        "{}, {}",
        bench.path("a").display(),
        bench.path("a/b").display()
    )));
    assert_eq!(bench.text("a/b/f.txt"), "héllo🌍");
    match outcome.display {
        Some(Display::Diff {
            old_text,
            new_text,
            added,
            ..
        }) => {
            assert_eq!(
                (old_text, new_text.as_deref(), added),
                (None, Some("héllo🌍"), 1)
            );
        }
        other => panic!("{other:?}"),
    }
    // What one wrote one has seen.
    assert_eq!(
        ok(&bench.run(&write, write_args("a/b/f.txt", "x")).await),
        "Wrote 1 byte to a/b/f.txt."
    );
    ok(&bench.run(&write, append_args("log", "1\n")).await);
    assert_eq!(
        ok(&bench.run(&write, append_args("log", "2\n")).await),
        "Appended 2 bytes to log."
    );
    assert_eq!(bench.text("log"), "1\n2\n");
}

#[tokio::test]
async fn content_nobody_saw_is_not_overwritten() {
    let bench = Bench::new();
    let (write, read) = (
        Write::new(bench.deps.clone()),
        Read::new(bench.deps.clone()),
    );
    bench.put("f", "old\n");
    assert!(failed(&bench.run(&write, write_args("f", "new\n")).await).contains("Read it first"));
    assert_eq!(bench.text("f"), "old\n");
    ok(&bench.run(&read, json!({"path": "f"})).await);

    // Another agent's read does not count.
    let other = Write::new(bench.other_agent());
    assert!(failed(&bench.run(&other, write_args("f", "new\n")).await).contains("Read it first"));

    // The same bytes saved again are no change.
    bench.put("f", "old\n");
    ok(&bench.run(&write, write_args("f", "new\n")).await);
    assert_eq!(bench.text("f"), "new\n");

    bench.put("f", "new\nfrom outside\n");
    assert!(failed(&bench.run(&write, write_args("f", "mine\n")).await).contains("changed since"));
    assert_eq!(bench.text("f"), "new\nfrom outside\n");
    let outcome = bench.run(&write, append_args("f", "more\n")).await;
    ok(&outcome);
    assert!(note(&outcome).contains("had changed"));
    assert_eq!(bench.text("f"), "new\nfrom outside\nmore\n");

    bench.put("empty", "");
    ok(&bench.run(&write, write_args("empty", "x")).await);
}

#[tokio::test]
async fn the_form_of_the_old_file_is_kept() {
    for (old, content, expected, said) in [
        (&b"a\r\nb\r\n"[..], "x\ny\n", &b"x\r\ny\r\n"[..], "CRLF"),
        (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\n", ""),
        (b"a\nb\n", "x\ny\n", b"x\ny\n", ""),
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n", ""),
        (b"\xEF\xBB\xBFa\n", "x\n", b"\xEF\xBB\xBFx\n", ""),
        (b"\xEF\xBB\xBFa\n", "\u{FEFF}x\n", b"\xEF\xBB\xBFx\n", ""),
        (b"\xFF\xFEa\0", "x\n", b"x\n", "UTF-8 now"),
    ] {
        let bench = Bench::new();
        let (write, read) = (
            Write::new(bench.deps.clone()),
            Read::new(bench.deps.clone()),
        );
        bench.put("f", old);
        ok(&bench.run(&read, json!({"path": "f"})).await);
        let outcome = bench.run(&write, write_args("f", content)).await;
        assert_eq!(
            ok(&outcome),
            format!("Wrote {} bytes to f.", expected.len())
        );
        assert_eq!(bench.bytes("f"), expected, "{old:?}");
        assert!(note(&outcome).contains(said), "{}", note(&outcome));
    }
}

#[tokio::test]
async fn the_same_content_is_not_written() {
    let bench = Bench::new();
    let write = Write::new(bench.deps.clone());
    let path = bench.put("f", "same\r\n");
    let before = disk::metadata(&path).unwrap();
    for content in ["same\r\n", "same\n"] {
        assert!(
            ok(&bench.run(&write, write_args("f", content)).await).contains("nothing was written")
        );
    }
    let after = disk::metadata(&path).unwrap();
    assert_eq!(
        (before.ino(), before.mtime_nsec()),
        (after.ino(), after.mtime_nsec())
    );
}

#[tokio::test]
async fn what_is_in_the_way_is_named() {
    let bench = Bench::new();
    let write = Write::new(bench.deps.clone());
    disk::create_dir(bench.path("dir")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.path("fifo"), 0o600.into()).unwrap();
    let read_only = bench.put("ro", "");
    disk::set_permissions(&read_only, disk::Permissions::from_mode(0o444)).unwrap();
    bench.put("file", "x");
    for (path, expected) in [
        ("dir", "a directory, not a file"),
        ("fifo", "a named pipe, not a file"),
        ("file/below", "file is a regular file, not a directory"),
        ("file/deep/below", "file is a regular file, not a directory"),
        ("ro", "read-only"),
    ] {
        for args in [write_args(path, "new"), append_args(path, "new")] {
            let text = failed(&bench.run(&write, args).await);
            assert!(text.contains(expected), "{path}: {text}");
        }
    }
    assert_eq!(bench.text("file"), "x");
    assert_eq!(
        bench.refused(&write, write_args(".env", "x")).await,
        Some(ErrorKind::PathSensitive)
    );
    symlink("/nowhere/at/all", bench.path("dangling")).unwrap();
    assert_eq!(
        bench.refused(&write, write_args("dangling", "x")).await,
        Some(ErrorKind::PathInvalid)
    );
}

#[tokio::test]
async fn a_directory_swapped_for_a_link_is_not_written_into() {
    let bench = Bench::new();
    let write = Write::new(bench.deps.clone());
    disk::create_dir_all(bench.path("d")).unwrap();
    disk::create_dir_all(bench.path("../outside")).unwrap();
    let (call, accesses) = bench.judge(&write, write_args("d/f", "x")).await.unwrap();
    disk::remove_dir(bench.path("d")).unwrap();
    symlink(bench.path("../outside"), bench.path("d")).unwrap();
    let outcome = (call.execute)(bench.cx(accesses, &CancellationToken::new())).await;
    assert!(failed(&outcome).contains("changed since it was approved"));
    assert_eq!(disk::read_dir(bench.path("../outside")).unwrap().count(), 0);
}

#[tokio::test]
async fn drawings() {
    let bench = Bench::new();
    let write = Write::new(bench.deps.clone());
    let call = bench.resolve(&write, write_args("f", "a\n")).unwrap();
    assert_eq!(call.title, "Write f");
    assert_eq!(call.accesses, [Access::write(bench.path("f"))]);
    let path = bench.path("f").display().to_string();
    assert_eq!(
        call.display,
        Display::FileWrite {
            path,
            content: "a\n".to_owned(),
            truncated: false
        }
    );

    assert_eq!(
        bench.preview(&write, write_args("f", "a\n")).await,
        None,
        "a new file is all new"
    );
    bench.put("f", "a\n");
    for (args, expected) in [
        (write_args("f", "b\n"), "@@ -1 +1 @@\n-a\n+b\n"),
        (append_args("f", "b\n"), "@@ -1 +1,2 @@\n a\n+b\n"),
    ] {
        match bench.preview(&write, args).await {
            Some(Display::Diff { hunks, .. }) => assert_eq!(hunks, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_cancel_before_the_effect_prevents_it() {
    let bench = Bench::new();
    let write = Write::new(bench.deps.clone());
    let (call, accesses) = bench.judge(&write, write_args("new/f", "x")).await.unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert!(failed(&(call.execute)(bench.cx(accesses, &cancel)).await).contains("cancelled"));
    assert!(!bench.path("new").exists());
}
