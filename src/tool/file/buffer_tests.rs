#![expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]

use std::os::unix::fs::symlink;

use longshore_protocol::value::display::Display;
use serde_json::{Value, json};

use super::super::edit::Edit;
use super::super::read::Read;
use super::super::testing::{Bench, failed, note, ok, text};
use super::super::write::Write;
use super::*;
use crate::path::WorkspaceOptions;
use crate::tool::{Outcome, Tool};

/// A workspace whose host holds files.
struct Editor {
    bench: Bench,
    read: Read,
    edit: Edit,
    write: Write,
}

impl Editor {
    fn new() -> Self {
        Self::on(Bench::new())
    }

    fn on(bench: Bench) -> Self {
        bench.host.offer(true, true);
        Self {
            read: Read::new(bench.deps.clone()),
            edit: Edit::new(bench.deps.clone()),
            write: Write::new(bench.deps.clone()),
            bench,
        }
    }

    fn key(&self, name: &str) -> String {
        self.bench.path(name).to_str().unwrap().to_owned()
    }

    fn hold(&self, name: &str, text: &str) {
        self.bench.host.hold(&self.key(name), text);
    }

    /// What the host holds of a file.
    fn held(&self, name: &str) -> Option<String> {
        self.bench.host.text(&self.key(name))
    }

    /// What the host was asked, with the names of files alone.
    fn asked(&self) -> Vec<String> {
        let root = format!("{}/", self.bench.ws.display());
        let asked = self.bench.host.asked();
        asked.iter().map(|line| line.replace(&root, "")).collect()
    }

    async fn run(&self, tool: &dyn Tool, args: Value) -> Outcome {
        self.bench.run(tool, args).await
    }

    async fn read(&self, name: &str) -> Outcome {
        self.run(&self.read, json!({"path": name})).await
    }

    async fn edit(&self, name: &str, old: &str, new: &str) -> Outcome {
        let args = json!({"path": name, "old_string": old, "new_string": new});
        self.run(&self.edit, args).await
    }

    async fn edit_all(&self, name: &str, old: &str, new: &str) -> Outcome {
        let args = json!({"path": name, "old_string": old, "new_string": new, "replace_all": true});
        self.run(&self.edit, args).await
    }

    async fn write(&self, name: &str, content: &str) -> Outcome {
        self.run(&self.write, json!({"path": name, "content": content}))
            .await
    }

    async fn append(&self, name: &str, content: &str) -> Outcome {
        let args = json!({"path": name, "content": content, "mode": "append"});
        self.run(&self.write, args).await
    }
}

fn broken() -> HostFsError {
    HostFsError::said("It is locked.")
}

#[tokio::test]
async fn read_shows_what_the_host_holds_and_says_whether_the_disk_has_it() {
    let editor = Editor::new();
    editor.bench.put("f", "one\ntwo\n");
    for (held, shown, is_unsaved) in [
        ("one\nTWO\n", "1\tone\n2\tTWO", true),
        ("one\ntwo\n", "1\tone\n2\ttwo", false),
        // What hosts do to marks and line endings is no change.
        ("one\r\ntwo\r\n", "1\tone\n2\ttwo", false),
        ("\u{feff}one\ntwo\n", "1\tone\n2\ttwo", false),
        ("", "", true),
    ] {
        editor.hold("f", held);
        let outcome = editor.read("f").await;
        assert_eq!(ok(&outcome), shown);
        assert_eq!(note(&outcome).contains(UNSAVED), is_unsaved, "{held:?}");
    }
    assert_eq!(editor.asked(), ["read f"; 5]);

    // A file that only the host has.
    editor.hold("new", "text\n");
    let outcome = editor.read("new").await;
    assert_eq!(ok(&outcome), "1\ttext");
    assert!(note(&outcome).contains(UNSAVED));
    editor.hold("bin", "a\0b");
    assert!(failed(&editor.read("bin").await).contains("NUL"));
}

#[tokio::test]
async fn read_falls_back_to_the_disk_and_says_so() {
    let editor = Editor::new();
    editor.bench.put("f", "on the disk\n");
    for (error, is_told) in [
        (HostFsError::NotFound, false),
        (HostFsError::Unsupported, false),
        (HostFsError::TimedOut, true),
        (HostFsError::Left, true),
        (broken(), true),
    ] {
        editor.bench.host.fail(Some(error.clone()), None);
        let outcome = editor.read("f").await;
        assert_eq!(ok(&outcome), "1\ton the disk");
        let told = note(&outcome).contains(&format!("could not be asked ({error})"));
        assert_eq!(told, is_told, "{error}");
        assert!(failed(&editor.read("none").await).contains("does not exist"));
    }
}

#[tokio::test]
async fn edit_changes_what_the_host_holds_and_leaves_the_disk_to_it() {
    let editor = Editor::new();
    editor.bench.put("f", "one\ntwo\n");
    for (held, expected) in [
        ("one\nTWO\n", "ONE\nTWO\n"),
        ("\u{feff}one\r\ntwo\r\n", "\u{feff}ONE\r\ntwo\r\n"),
        ("one", "ONE"),
    ] {
        editor.hold("f", held);
        let outcome = editor.edit("f", "one", "ONE").await;
        assert!(ok(&outcome).starts_with("Edited f: replaced 1 occurrence"));
        assert!(note(&outcome).contains(NOT_SAVED));
        let Some(Display::Diff { hunks, .. }) = &outcome.display else {
            panic!("{outcome:?}");
        };
        assert!(hunks.contains("+ONE"), "{hunks}");
        assert_eq!(editor.held("f").unwrap(), expected);
        assert_eq!(editor.bench.text("f"), "one\ntwo\n");
    }
    assert_eq!(editor.asked(), ["read f", "write f"].repeat(3));
    // What is only on the disk is not found, and nothing is given to the host.
    editor.hold("f", "other\n");
    assert!(failed(&editor.edit("f", "two", "x").await).contains("not found"));
    assert_eq!(editor.asked(), ["read f"]);
}

#[tokio::test]
async fn a_preview_shows_the_change_of_what_the_host_holds() {
    let editor = Editor::new();
    editor.bench.put("f", "one\n");
    editor.hold("f", "zero\nunsaved\n");
    let args = json!({"path": "f", "old_string": "unsaved", "new_string": "kept"});
    let drawn = editor.bench.preview(&editor.edit, args).await;
    let Some(Display::Diff { hunks, .. }) = drawn else {
        panic!("{drawn:?}");
    };
    assert_eq!(hunks, "@@ -1,2 +1,2 @@\n zero\n-unsaved\n+kept\n");
    let args = json!({"path": "f", "content": "zero\n"});
    let drawn = editor.bench.preview(&editor.write, args).await;
    let Some(Display::Diff { hunks, .. }) = drawn else {
        panic!("{drawn:?}");
    };
    assert_eq!(hunks, "@@ -1,2 +1 @@\n zero\n-unsaved\n");
    assert_eq!(editor.asked(), ["read f", "read f"]);
}

#[tokio::test]
async fn a_change_needs_an_answer() {
    let editor = Editor::new();
    editor.bench.put("f", "one\n");
    editor.read("f").await;
    for error in [HostFsError::TimedOut, HostFsError::Left, broken()] {
        editor.bench.host.fail(Some(error), None);
        for outcome in [
            editor.edit("f", "one", "two").await,
            editor.write("f", "two\n").await,
            editor.append("f", "two\n").await,
        ] {
            assert!(
                failed(&outcome).contains("could not be asked"),
                "{outcome:?}"
            );
        }
    }
    // It does not know the file, or files at all: then the disk is all there is.
    for error in [HostFsError::NotFound, HostFsError::Unsupported] {
        editor.bench.put("f", "one\n");
        editor.bench.host.fail(Some(error), None);
        ok(&editor.edit("f", "one", "two").await);
        assert_eq!(editor.bench.text("f"), "two\n");
    }
}

#[tokio::test]
async fn a_file_that_exists_is_not_written_behind_the_host() {
    let editor = Editor::new();
    editor.bench.put("f", "one\n");
    editor.hold("f", "one\n");
    editor.read("f").await;
    for (error, words) in [
        (broken(), "did not say that it took it"),
        (HostFsError::TimedOut, "did not say that it took it"),
        (HostFsError::Left, "did not say that it took it"),
        (HostFsError::Unsupported, "was not changed"),
        (HostFsError::NotFound, "was not changed"),
    ] {
        editor.bench.host.fail(None, Some(error));
        for outcome in [
            editor.edit("f", "one", "two").await,
            editor.write("f", "two\n").await,
            editor.append("f", "two\n").await,
        ] {
            assert!(failed(&outcome).contains(words), "{outcome:?}");
        }
    }
    assert_eq!(editor.bench.text("f"), "one\n");
    assert_eq!(editor.held("f").unwrap(), "one\n");
}

#[tokio::test]
async fn write_respects_what_was_not_seen() {
    let editor = Editor::new();
    editor.bench.put("f", "one\n");
    editor.hold("f", "one\nunsaved\n");
    assert!(failed(&editor.write("f", "new\n").await).contains("has not been read"));
    editor.read("f").await;
    let outcome = editor.write("f", "new\n").await;
    assert!(ok(&outcome).starts_with("Wrote 4 bytes to f."));
    assert!(note(&outcome).contains(NOT_SAVED));
    assert_eq!(editor.held("f").unwrap(), "new\n");
    // Its own text is known; what the user types then is not.
    ok(&editor.write("f", "newer\n").await);
    editor.hold("f", "newer\ntyped\n");
    assert!(failed(&editor.write("f", "x\n").await).contains("was changed since"));
    assert!(failed(&editor.edit_all("f", "newer", "x").await).contains("was changed since"));
    ok(&editor.edit("f", "typed", "seen").await);
    ok(&editor.write("f", "x\n").await);
    // What is on the disk is not what was seen: without the host it has to be read.
    editor.bench.host.offer(false, false);
    assert!(failed(&editor.write("f", "y\n").await).contains("was changed since"));
    assert_eq!(editor.bench.text("f"), "one\n");
    // Nothing to do is nothing to send.
    editor.bench.host.offer(true, true);
    editor.asked();
    assert!(ok(&editor.write("f", "x\n").await).contains("exactly this content"));
    assert_eq!(editor.asked(), ["read f"]);
}

#[tokio::test]
async fn append_reads_and_writes() {
    let editor = Editor::new();
    editor.bench.put("f", "one\n");
    editor.hold("f", "one\r\nunsaved\r\n");
    let outcome = editor.append("f", "more\r\n").await;
    assert!(
        ok(&outcome).starts_with("Appended 6 bytes to f."),
        "{outcome:?}"
    );
    assert_eq!(editor.held("f").unwrap(), "one\r\nunsaved\r\nmore\r\n");
    assert_eq!(editor.bench.text("f"), "one\n");
    assert_eq!(editor.asked(), ["read f", "write f"]);
}

#[tokio::test]
async fn a_new_file_is_the_hosts_and_the_disks_where_it_does_not_take_it() {
    let editor = Editor::new();
    for outcome in [
        editor.write("a/b", "new\n").await,
        editor.append("a/c", "new\n").await,
    ] {
        assert!(ok(&outcome).contains("4 bytes"));
        assert!(note(&outcome).contains("new file"), "{outcome:?}");
        assert!(note(&outcome).contains(NOT_SAVED), "{outcome:?}");
    }
    assert_eq!(editor.held("a/b").unwrap(), "new\n");
    assert_eq!(editor.held("a/c").unwrap(), "new\n");
    assert!(editor.bench.path("a").is_dir() && !editor.bench.path("a/b").exists());
    // Clients refuse files that do not exist in many ways, also when asked what they hold of them.
    for (n, error) in [broken(), HostFsError::TimedOut, HostFsError::NotFound]
        .into_iter()
        .enumerate()
    {
        editor.bench.host.fail(Some(error.clone()), Some(error));
        let name = format!("d{n}/f");
        let outcome = editor.write(&name, "new\n").await;
        ok(&outcome);
        assert!(
            note(&outcome).contains("written to the disk"),
            "{outcome:?}"
        );
        assert_eq!(editor.bench.text(&name), "new\n");
    }
}

#[tokio::test]
async fn hosts_that_only_tell_or_only_take() {
    let editor = Editor::new();
    editor.bench.put("f", "one\n");
    editor.bench.host.offer(true, false);
    editor.hold("f", "one\nunsaved\n");
    editor.read("f").await;
    for outcome in [
        editor.edit("f", "one", "two").await,
        editor.write("f", "two\n").await,
    ] {
        assert!(failed(&outcome).contains("not saved"), "{outcome:?}");
    }
    // Saved, or all the same: the disk can be changed.
    editor.hold("f", "one\n");
    ok(&editor.edit("f", "one", "two").await);
    assert_eq!(editor.bench.text("f"), "two\n");
    assert_eq!(
        editor.held("f").unwrap(),
        "one\n",
        "it is not given anything"
    );

    editor.bench.host.offer(false, true);
    editor.asked();
    assert_eq!(ok(&editor.read("f").await), "1\ttwo");
    ok(&editor.edit("f", "two", "three").await);
    assert_eq!(editor.held("f").unwrap(), "three\n");
    assert_eq!(editor.asked(), ["write f"]);
}

#[tokio::test]
async fn what_is_not_utf8_is_changed_on_the_disk_or_not_at_all() {
    let editor = Editor::new();
    let utf16: Vec<u8> = [0xFF, 0xFE]
        .into_iter()
        .chain("one\n".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    editor.bench.put("f", &utf16);
    editor.hold("f", "one\nunsaved\n");
    assert_eq!(ok(&editor.read("f").await), "1\tone\n2\tunsaved");
    assert!(failed(&editor.edit("f", "one", "two").await).contains("not saved"));
    assert_eq!(editor.bench.bytes("f"), utf16);
    editor.hold("f", "one\n");
    ok(&editor.edit("f", "one", "two").await);
    assert_eq!(editor.bench.bytes("f")[2..6], *b"t\0w\0");
    assert_eq!(editor.held("f").unwrap(), "one\n");
}

#[tokio::test]
async fn some_files_are_not_for_hosts() {
    let editor = Editor::new();
    editor.bench.put("bin", b"a\0b\n");
    let large = editor.bench.put("large", "");
    let large = std::fs::File::options().write(true).open(large).unwrap();
    large.set_len(HOST_TEXT_BYTES + 1).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, editor.bench.path("fifo"), 0o600.into()).unwrap();
    let outside = editor.bench.path("../outside");
    std::fs::write(&outside, "text\n").unwrap();
    symlink(&outside, editor.bench.path("link")).unwrap();
    for name in ["bin", "large", "fifo", "link", ".", "../outside", ".env"] {
        editor.read(name).await;
        editor.edit(name, "text", "x").await;
        editor.write(name, "x").await;
    }
    assert_eq!(editor.asked(), [] as [&str; 0]);
}

#[tokio::test]
async fn hosts_know_files_by_the_directory_as_it_was_given() {
    let mut bench = Bench::new();
    bench.put("real/f", "text\n");
    symlink("f", bench.path("real/link")).unwrap();
    symlink("real", bench.path("given")).unwrap();
    let given = bench.path("given");
    let workspace = Arc::new(Workspace::open(WorkspaceOptions {
        cwd: given.clone(),
        ..WorkspaceOptions::default()
    }));
    bench.workspace = workspace;
    let editor = Editor::on(bench);
    for path in ["f", "link", given.join("f").to_str().unwrap()] {
        editor.read(path).await;
        let asked = editor.asked();
        assert_eq!(asked, ["read given/f"], "{path}");
    }
    let real = editor.key("real/f");
    editor.read(&real).await;
    assert_eq!(editor.asked(), ["read given/f"], "by whatever name");
}

#[tokio::test]
async fn a_saved_change_is_known_as_the_disk_has_it() {
    let editor = Editor::new();
    editor.bench.put("f", "one\n");
    editor.hold("f", "one\n");
    editor.read("f").await;
    // The editor saves what it takes, in its own form.
    let buffers = Buffers {
        files: Some(crate::tool::host_files::HostFiles::new(
            editor.bench.host.clone(),
            "s".into(),
            "t1".into(),
        )),
        workspace: Arc::clone(&editor.bench.workspace),
    };
    let accesses = editor
        .bench
        .workspace
        .real_accesses(&[crate::kernel::access::Access::write(editor.bench.path("f"))])
        .await
        .unwrap();
    let target = target::of_call(&accesses, "f").unwrap();
    let buffer = buffers.find(&target).unwrap();
    let freshness = &editor.bench.deps.freshness;
    let Ok(Look::Held(held)) = buffer.look(&target, freshness).await else {
        panic!("it is held");
    };
    let before = held.disk.map(|disk| disk.stamp);
    let two = || "two\n".to_owned();
    assert_eq!(
        buffer.write(&target, before, two(), freshness).await,
        Ok(Taken::Held)
    );
    editor.bench.put("f", "two \r\n");
    assert_eq!(
        buffer.write(&target, before, two(), freshness).await,
        Ok(Taken::Saved)
    );
    editor.bench.host.offer(false, false);
    assert!(ok(&editor.write("f", "three\n").await).starts_with("Wrote"));
    assert!(text(&editor.read("f").await).contains("three"));
}
