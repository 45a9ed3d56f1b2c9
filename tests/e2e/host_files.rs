//! Hosts that hold text of their own: what is not saved is read and edited, and never overwritten unseen.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::{Answer, Scratch, TestServer};

/// What an editor holds, and what it was asked.
#[derive(Default)]
struct Editor {
    texts: BTreeMap<String, String>,
    asked: Vec<String>,
    /// How it answers reading and writing instead of doing it.
    refuses: [Option<Value>; 2],
    saves: bool,
}

type Shared = Arc<Mutex<Editor>>;

impl Editor {
    fn answer(&mut self, method: &str, params: &Value) -> Answer {
        let path = params["path"].as_str().unwrap().to_owned();
        let name = Path::new(&path).file_name().unwrap().to_string_lossy();
        let writes = method == "fs/writeTextFile";
        self.asked
            .push(format!("{} {name}", if writes { "write" } else { "read" }));
        if let Some(error) = &self.refuses[usize::from(writes)] {
            return Answer::Refusal(error.clone());
        }
        if writes {
            let content = params["content"].as_str().unwrap().to_owned();
            if self.saves {
                std::fs::write(&path, &content).unwrap();
            }
            self.texts.insert(path, content);
            return Answer::Result(json!({}));
        }
        match self.texts.get(&path) {
            Some(content) => Answer::Result(json!({"content": content})),
            None => Answer::Refusal(
                json!({"code": -32010, "message": "No such file.", "data": {"kind": "file_not_found", "retryable": false}}),
            ),
        }
    }
}

/// A server with an editor as its host.
fn open(scratch: &Scratch, capabilities: Value) -> (TestServer, Shared) {
    let editor = Shared::default();
    let mut server = TestServer::start(scratch);
    server.initialize(capabilities);
    let answers = Arc::clone(&editor);
    server.answer(move |method, params| answers.lock().unwrap().answer(method, params));
    (server, editor)
}

fn both() -> Value {
    json!({"approvals": true, "questions": true, "fs": {"read": true, "write": true}})
}

/// Plays calls one after another, each in a step of its own, and gives the ends of the calls.
fn play(scratch: &Scratch, server: &mut TestServer, calls: &[&str]) -> Vec<Value> {
    let steps: Vec<String> = calls
        .iter()
        .map(|call| format!("  - steps: [{{tool_call: {call}}}]"))
        .collect();
    let script = format!(
        "turns:\n{}\n  - steps: [{{text: Done.}}]\n",
        steps.join("\n")
    );
    let session = server.create(
        scratch,
        json!({"model": "demo", "script": script, "mode": "yolo"}),
    );
    let turn = server.turn(&session, "Do.");
    assert_eq!(server.ended(&turn)["reason"], "completed");
    server
        .seen()
        .iter()
        .filter(|message| {
            message["method"] == "tool/completed"
                && message["params"]["sessionId"] == session.as_str()
        })
        .map(|message| message["params"].clone())
        .collect()
}

fn key(scratch: &Scratch, name: &str) -> String {
    scratch.file(name).to_str().unwrap().to_owned()
}

const READ: &str = "{name: Read, args: {path: greeting.txt}}";
const EDIT: &str =
    "{name: Edit, args: {path: greeting.txt, old_string: unsaved, new_string: kept}}";

#[test]
fn what_is_not_saved_is_read_and_edited_and_stays_with_the_host() {
    let scratch = Scratch::new();
    let (mut server, editor) = open(&scratch, both());
    let greeting = key(&scratch, "greeting.txt");
    editor
        .lock()
        .unwrap()
        .texts
        .insert(greeting.clone(), "Hello\r\nunsaved\r\n".into());
    let ends = play(&scratch, &mut server, &[READ, EDIT, READ]);
    for end in &ends {
        assert_eq!(end["isError"], false, "{end}");
    }
    assert!(
        ends[0]["output"].to_string().contains("unsaved"),
        "{}",
        ends[0]
    );
    assert!(
        ends[1]["display"]["hunks"]
            .as_str()
            .unwrap()
            .contains("+kept"),
        "{}",
        ends[1]
    );
    assert!(
        ends[2]["output"].to_string().contains("kept"),
        "{}",
        ends[2]
    );
    assert_eq!(editor.lock().unwrap().texts[&greeting], "Hello\r\nkept\r\n");
    assert_eq!(scratch.read("greeting.txt"), "Hello, wrold!\nGoodbye.\n");
}

#[test]
fn a_new_file_goes_to_the_host_and_to_the_disk_where_that_fails() {
    let scratch = Scratch::new();
    let (mut server, editor) = open(&scratch, both());
    let write = "{name: Write, args: {path: a/b.txt, content: \"new\\n\"}}";
    let ends = play(&scratch, &mut server, &[write]);
    assert_eq!(ends[0]["isError"], false, "{}", ends[0]);
    assert_eq!(
        editor.lock().unwrap().texts[&key(&scratch, "a/b.txt")],
        "new\n"
    );
    assert!(scratch.file("a").is_dir() && !scratch.file("a/b.txt").exists());

    editor.lock().unwrap().refuses[1] = Some(json!({"code": -32603, "message": "ENOENT"}));
    let write = "{name: Write, args: {path: c/d.txt, content: \"new\\n\"}}";
    let ends = play(&scratch, &mut server, &[write]);
    assert_eq!(ends[0]["isError"], false, "{}", ends[0]);
    assert_eq!(scratch.read("c/d.txt"), "new\n");
}

#[test]
fn a_file_that_exists_is_never_written_behind_the_hosts_back() {
    let scratch = Scratch::new();
    let (mut server, editor) = open(&scratch, both());
    let greeting = key(&scratch, "greeting.txt");
    let text = "Hello, wrold!\nunsaved\n";
    editor
        .lock()
        .unwrap()
        .texts
        .insert(greeting.clone(), text.into());
    let write = "{name: Write, args: {path: greeting.txt, content: \"all new\\n\"}}";
    // It holds what the model has not read.
    let ends = play(&scratch, &mut server, &[write]);
    assert_eq!(ends[0]["isError"], true, "{}", ends[0]);
    assert_eq!(editor.lock().unwrap().texts[&greeting], text);

    let refusal = json!({"code": -32603, "message": "It is locked."});
    editor.lock().unwrap().refuses = [None, Some(refusal.clone())];
    let ends = play(&scratch, &mut server, &[READ, write, EDIT]);
    for end in &ends[1..] {
        assert_eq!(end["isError"], true, "{end}");
        assert!(end["output"].to_string().contains("It is locked"), "{end}");
    }
    // A host that does not tell what it holds: reading goes to the disk, changing does not.
    editor.lock().unwrap().refuses = [Some(refusal), None];
    let ends = play(&scratch, &mut server, &[READ, write, EDIT]);
    assert!(
        ends[0]["output"].to_string().contains("Hello, wrold!"),
        "{}",
        ends[0]
    );
    for end in &ends[1..] {
        assert_eq!(end["isError"], true, "{end}");
    }
    assert_eq!(editor.lock().unwrap().texts[&greeting], text);
    assert_eq!(scratch.read("greeting.txt"), "Hello, wrold!\nGoodbye.\n");
}

#[test]
fn only_text_inside_the_directories_is_asked_for_and_secrets_never_are() {
    let scratch = Scratch::new();
    scratch.write(".env", "KEY=1\n");
    scratch.write("data.bin", b"\x00\x01\x02");
    let outside = scratch.root().join("outside.txt");
    std::fs::write(&outside, "outside\n").unwrap();
    std::os::unix::fs::symlink(&outside, scratch.file("link.txt")).unwrap();
    let (mut server, editor) = open(&scratch, both());
    let outside = format!("{{name: Read, args: {{path: {}}}}}", outside.display());
    let ends = play(
        &scratch,
        &mut server,
        &[
            &outside,
            "{name: Read, args: {path: .env}}",
            "{name: Read, args: {path: data.bin}}",
            "{name: Read, args: {path: link.txt}}",
            "{name: Grep, args: {pattern: Hello}}",
        ],
    );
    let failed: Vec<bool> = ends.iter().map(|end| end["isError"] == true).collect();
    assert_eq!(failed, [false, true, true, false, false], "{ends:#?}");
    assert_eq!(editor.lock().unwrap().asked, [] as [&str; 0]);
}

#[test]
fn a_host_that_does_not_know_files_after_all_is_asked_once() {
    let scratch = Scratch::new();
    let (mut server, editor) = open(&scratch, both());
    editor.lock().unwrap().refuses[0] = Some(json!({"code": -32601, "message": "Unknown."}));
    let edit = "{name: Edit, args: {path: greeting.txt, old_string: wrold, new_string: world}}";
    let ends = play(&scratch, &mut server, &[READ, edit]);
    for end in &ends {
        assert_eq!(end["isError"], false, "{end}");
    }
    assert_eq!(editor.lock().unwrap().asked, ["read greeting.txt"]);
    assert_eq!(scratch.read("greeting.txt"), "Hello, world!\nGoodbye.\n");
}

#[test]
fn hosts_that_declared_nothing_are_never_asked() {
    let scratch = Scratch::new();
    let (mut server, editor) = open(&scratch, json!({"approvals": true, "fs": {}}));
    let edit = "{name: Edit, args: {path: greeting.txt, old_string: wrold, new_string: world}}";
    play(&scratch, &mut server, &[READ, edit]);
    assert_eq!(editor.lock().unwrap().asked, [] as [&str; 0]);
    assert_eq!(scratch.read("greeting.txt"), "Hello, world!\nGoodbye.\n");
}

#[test]
fn a_host_that_saves_leaves_one_truth() {
    let scratch = Scratch::new();
    let (mut server, editor) = open(&scratch, both());
    let greeting = key(&scratch, "greeting.txt");
    {
        let mut editor = editor.lock().unwrap();
        editor
            .texts
            .insert(greeting.clone(), "Hello, wrold!\nGoodbye.\n".into());
        editor.saves = true;
    }
    let edit = "{name: Edit, args: {path: greeting.txt, old_string: wrold, new_string: world}}";
    let append = "{name: Write, args: {path: greeting.txt, content: \"More.\\n\", mode: append}}";
    let write = "{name: Write, args: {path: greeting.txt, content: \"All new.\\n\"}}";
    for end in play(&scratch, &mut server, &[READ, edit, append, write]) {
        assert_eq!(end["isError"], false, "{end}");
    }
    assert_eq!(scratch.read("greeting.txt"), "All new.\n");
    assert_eq!(editor.lock().unwrap().texts[&greeting], "All new.\n");
}
