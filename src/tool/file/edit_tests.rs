#![expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]

use std::fs as disk;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use longshore_protocol::error::ErrorKind;
use serde_json::json;

use super::super::read::Read;
use super::super::testing::{Bench, failed, note, ok};
use super::*;
use crate::os::fs::is_temp_name;

fn edit_args(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old_string": old, "new_string": new})
}

#[tokio::test]
async fn edits_only_what_matches() {
    let bench = Bench::new();
    let edit = Edit::new(bench.deps.clone());
    for (file, old, new, expected) in [
        (&b"a\r\nb\r\nc\r\n"[..], "b", "B", &b"a\r\nB\r\nc\r\n"[..]),
        (
            b"x = 1\r\ny = 2\r\n",
            "x = 1\ny = 2",
            "x = 1\ny = 3\nz = 4",
            b"x = 1\r\ny = 3\r\nz = 4\r\n",
        ),
        (
            b"\xEF\xBB\xBFhello\n",
            "hello",
            "hello2",
            b"\xEF\xBB\xBFhello2\n",
        ),
        (b"cost", "cost", "$& $1", b"$& $1"),
        (b"\xFF\xFEa\0\r\0\n\0", "a", "b", b"\xFF\xFEb\0\r\0\n\0"),
        (
            b"# \xB2\xE2\xCA\xD4\n",
            "# ",
            "// ",
            b"// \xB2\xE2\xCA\xD4\n",
        ),
    ] {
        bench.put("f", file);
        let outcome = bench.run(&edit, edit_args("f", old, new)).await;
        assert!(ok(&outcome).starts_with("Edited f: replaced 1 occurrence"));
        assert_eq!(bench.bytes("f"), expected);
    }
    assert!(
        note(&bench.run(&edit, edit_args("f", "//", "#")).await).contains("GBK text and stays so")
    );
}

#[tokio::test]
async fn failures_leave_the_file_alone() {
    let bench = Bench::new();
    let edit = Edit::new(bench.deps.clone());
    disk::create_dir(bench.path("dir")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.path("fifo"), 0o600.into()).unwrap();
    bench.put("main.rs", "x");
    for (file, path, old, expected) in [
        (&b"x x x"[..], "f", "x", "matches 3 places"),
        (
            b"abc\n\xFF",
            "f",
            "abc",
            "not valid UTF-8 (first bad byte at offset 4)",
        ),
        (b"a\r\nb\nc\r", "f", "a\nb", "line endings"),
        (b"abc", "f", "xyz", "not found in f"),
        (b"", "dir", "x", "a directory, not a file"),
        (b"", "fifo", "x", "a named pipe, not a file"),
        (
            b"",
            "mian.rs",
            "x",
            "does not exist. Did you mean main.rs? To make a new file, use Write.",
        ),
        (
            b"a\r\nb\r\n",
            "f",
            "a\r\n",
            "old_string and new_string are the same there",
        ),
    ] {
        let path_on_disk = bench.put("f", file);
        let before = disk::metadata(&path_on_disk).unwrap();
        let new = if old == "a\r\n" { "a\n" } else { "new" };
        let outcome = bench.run(&edit, edit_args(path, old, new)).await;
        let text = failed(&outcome);
        assert!(text.contains(expected), "{text}");
        assert_eq!(bench.bytes("f"), file);
        assert_eq!(
            disk::metadata(&path_on_disk).unwrap().mtime_nsec(),
            before.mtime_nsec()
        );
    }
    let all = json!({"path": "f", "old_string": "x", "new_string": "y", "replace_all": true});
    bench.put("f", "x x x");
    assert!(ok(&bench.run(&edit, all).await).contains("3 occurrences"));
    assert_eq!(bench.text("f"), "y y y");
}

#[tokio::test]
async fn refusals_come_before_any_look_at_the_disk() {
    let bench = Bench::new();
    let edit = Edit::new(bench.deps.clone());
    let outcome = bench.run(&edit, edit_args("f", "same", "same")).await;
    assert!(failed(&outcome).contains("the same"));
    assert!(failed(&bench.run(&edit, edit_args("f", "", "x")).await).contains("old_string"));
    assert_eq!(
        bench.refused(&edit, edit_args(".env", "a", "b")).await,
        Some(ErrorKind::PathSensitive)
    );
    assert_eq!(
        bench.refused(&edit, edit_args("../x", "a", "b")).await,
        Some(ErrorKind::PathOutsideWorkspace)
    );
}

#[tokio::test]
async fn calls_say_what_they_touch() {
    let bench = Bench::new();
    let call = bench
        .resolve(
            &Edit::new(bench.deps.clone()),
            edit_args("src/../f", "a\n", "b\nc\n"),
        )
        .unwrap();
    let path = bench.path("f");
    assert_eq!(call.accesses, [Access::read_write(&path)]);
    assert_eq!(call.title, "Edit f");
    assert_eq!(call.subject, Subject::Path(path));
    match call.display {
        Display::Diff {
            hunks,
            added,
            removed,
            line,
            ..
        } => {
            assert_eq!(
                (hunks.as_str(), added, removed, line),
                ("@@ -1 +1,2 @@\n-a\n+b\n+c\n", 2, 1, None)
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn previews_and_results_are_real_diffs() {
    let bench = Bench::new();
    let edit = Edit::new(bench.deps.clone());
    let file: String = (1..=9).map(|n| n.to_string() + "\n").collect();
    bench.put("f", &file);
    let hunks = "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
    let expect = Display::Diff {
        path: bench.path("f").display().to_string(),
        hunks: hunks.to_owned(),
        added: 1,
        removed: 1,
        old_text: Some(file.clone()),
        new_text: Some(file.replace('5', "five")),
        line: Some(5),
        truncated: false,
    };
    assert_eq!(
        bench
            .preview(&edit, edit_args("f", "5", "five"))
            .await
            .as_ref(),
        Some(&expect)
    );
    assert_eq!(bench.text("f"), file, "a preview changes nothing");
    let outcome = bench.run(&edit, edit_args("f", "5", "five")).await;
    assert_eq!(outcome.display, Some(expect));
    assert!(
        note(&outcome).contains("Around the change:\n2\t2\n3\t3\n4\t4\n5\tfive\n6\t6\n7\t7\n8\t8")
    );
    match bench.preview(&edit, edit_args("f", "gone", "x")).await {
        Some(Display::Error { message, .. }) => assert!(message.contains("not found"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn mode_links_and_second_names_survive() {
    let bench = Bench::new();
    let edit = Edit::new(bench.deps.clone());
    let path = bench.put("run.sh", "echo world\n");
    disk::set_permissions(&path, disk::Permissions::from_mode(0o755)).unwrap();
    symlink("run.sh", bench.path("link.sh")).unwrap();
    let link = bench
        .run(&edit, edit_args("link.sh", "world", "there"))
        .await;
    ok(&link);
    assert!(
        disk::symlink_metadata(bench.path("link.sh"))
            .unwrap()
            .is_symlink()
    );
    assert_eq!(
        disk::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o755
    );
    assert_eq!(bench.text("run.sh"), "echo there\n");

    disk::hard_link(&path, bench.path("second.sh")).unwrap();
    ok(&bench
        .run(&edit, edit_args("second.sh", "there", "all"))
        .await);
    assert_eq!(bench.text("run.sh"), "echo all\n");
    let leftovers = disk::read_dir(&bench.ws)
        .unwrap()
        .filter(|entry| is_temp_name(&entry.as_ref().unwrap().file_name()));
    assert_eq!(leftovers.count(), 0);
}

#[tokio::test]
async fn changes_by_others_are_noticed() {
    let bench = Bench::new();
    let (edit, read) = (Edit::new(bench.deps.clone()), Read::new(bench.deps.clone()));
    bench.put("f", "one\ntwo\n");
    ok(&bench.run(&read, json!({"path": "f"})).await);
    bench.put("f", "one\ntwo\nthree\n");
    let all = json!({"path": "f", "old_string": "two", "new_string": "2", "replace_all": true});
    assert!(
        failed(&bench.run(&edit, all.clone()).await).contains("changed since you last read it")
    );
    assert_eq!(bench.text("f"), "one\ntwo\nthree\n");
    let outcome = bench.run(&edit, edit_args("f", "one", "1")).await;
    ok(&outcome);
    assert!(note(&outcome).contains("had changed on disk"));
    assert_eq!(bench.text("f"), "1\ntwo\nthree\n");
    ok(&bench.run(&edit, all).await);
}

#[tokio::test]
async fn a_path_that_moved_since_it_was_judged_is_not_written() {
    let bench = Bench::new();
    let edit = Edit::new(bench.deps.clone());
    bench.put("d/f", "abc");
    bench.put("elsewhere/f", "abc");
    let (call, accesses) = bench
        .judge(&edit, edit_args("d/f", "abc", "x"))
        .await
        .unwrap();
    disk::rename(bench.path("d"), bench.path("old")).unwrap();
    symlink(bench.path("elsewhere"), bench.path("d")).unwrap();
    let outcome = (call.execute)(bench.cx(accesses, &CancellationToken::new())).await;
    assert!(failed(&outcome).contains("changed since it was approved"));
    assert_eq!(
        (bench.text("elsewhere/f"), bench.text("old/f")),
        ("abc".to_owned(), "abc".to_owned())
    );
}

#[tokio::test]
async fn a_cancel_before_the_effect_prevents_it() {
    let bench = Bench::new();
    let edit = Edit::new(bench.deps.clone());
    bench.put("f", "abc");
    let (call, accesses) = bench
        .judge(&edit, edit_args("f", "abc", "x"))
        .await
        .unwrap();
    let cancel = CancellationToken::new();
    let held = bench.deps.locks.lock(&bench.path("f")).await;
    let mut running = (call.execute)(bench.cx(accesses, &cancel));
    assert!(
        (&mut running).now_or_never().is_none(),
        "waits for the lock"
    );
    cancel.cancel();
    assert!(failed(&running.await).contains("cancelled"));
    drop(held);
    assert_eq!(bench.text("f"), "abc");
}

#[tokio::test]
async fn edits_of_one_file_at_once_all_land() {
    let bench = Bench::new();
    let numbers: String = (1..=100)
        .map(|n| "<".to_owned() + &n.to_string() + ">\n")
        .collect();
    bench.put("f", &numbers);
    let edits: Vec<Edit> = (0..6).map(|_| Edit::new(bench.other_agent())).collect();
    let runs = edits
        .iter()
        .zip([50, 75, 10, 20, 30, 40])
        .map(|(edit, n)| bench.run(edit, edit_args("f", &format!("<{n}>"), "<x>")));
    for outcome in futures::future::join_all(runs).await {
        ok(&outcome);
    }
    assert_eq!(bench.text("f").matches("<x>").count(), 6);
}
