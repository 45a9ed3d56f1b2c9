//! Files in every form that editors leave them in: what the model sees, what is asked, and the bytes that are left.

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::{Answer, Scratch, TestServer};

/// What came of a call: what the model was told and what the host was shown.
#[derive(Debug)]
struct Told {
    is_error: bool,
    text: String,
    note: String,
    display: Value,
}

/// A model that makes these calls, one after another.
fn script(scratch: &Scratch, calls: &[(&str, Value)]) {
    let mut turns: Vec<Value> = calls
        .iter()
        .map(|(name, args)| json!({"steps": [{"tool_call": {"name": name, "args": args}}]}))
        .collect();
    turns.push(json!({"steps": [{"text": "Done."}]}));
    scratch.script(&json!({"turns": turns}).to_string());
}

/// Plays the calls in a session of the repository.
fn play(scratch: &Scratch, calls: &[(&str, Value)]) -> Vec<Told> {
    script(scratch, calls);
    let mut server = TestServer::open(scratch);
    let session = server.create(scratch, json!({}));
    play_in(scratch, &mut server, &session)
}

/// Plays what the script says.
fn play_in(scratch: &Scratch, server: &mut TestServer, session: &str) -> Vec<Told> {
    let turn = server.turn(session, "Go on.");
    let ended = server.ended(&turn);
    assert_eq!(ended["reason"], "completed", "{ended}");
    let trace = fs::read_to_string(scratch.trace()).unwrap();
    let last: Value = serde_json::from_str(trace.lines().last().unwrap()).unwrap();
    let results = last["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool");
    let completed = server
        .seen()
        .iter()
        .filter(|message| message["method"] == "tool/completed");
    results
        .zip(completed)
        .map(|(result, completed)| {
            let content: String = result["content"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect();
            // A failure is marked in front; the note stands behind the output, in marks of its own.
            let content = content
                .strip_prefix("<system>The call failed.</system>\n")
                .unwrap_or(&content);
            let (text, note) = content.split_once("\n<system>").unwrap_or((content, ""));
            Told {
                is_error: result["is_error"] == true,
                text: text.to_owned(),
                note: note.trim_end_matches("</system>").to_owned(),
                display: completed["params"]["display"].clone(),
            }
        })
        .collect()
}

fn read(path: &str) -> (&'static str, Value) {
    ("Read", json!({"path": path}))
}

fn edit(path: &str, old: &str, new: &str) -> (&'static str, Value) {
    (
        "Edit",
        json!({"path": path, "old_string": old, "new_string": new}),
    )
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("Write", json!({"path": path, "content": content}))
}

#[test]
fn line_endings_stay_as_they_are() {
    let scratch = Scratch::new();
    scratch.write("one.txt", "a\r\nb\r\nc\r\n");
    scratch.write("two.txt", "x = 1\r\ny = 2\r\n");
    scratch.write("mixed.txt", "a\r\nb\nc\rd\n");
    scratch.write("whole.txt", "old\r\ntext\r\n");
    let told = play(
        &scratch,
        &[
            edit("one.txt", "b", "B"),
            edit("two.txt", "x = 1\ny = 2", "x = 1\ny = 3\nz = 4"),
            edit("mixed.txt", "a\nb", "x"),
            edit("mixed.txt", "c\rd", "C\rD"),
            read("whole.txt"),
            write("whole.txt", "new\ntext\n"),
            read("mixed.txt"),
        ],
    );
    let bytes = |name: &str| fs::read(scratch.file(name)).unwrap();
    assert_eq!(bytes("one.txt"), b"a\r\nB\r\nc\r\n");
    assert_eq!(bytes("two.txt"), b"x = 1\r\ny = 3\r\nz = 4\r\n");
    assert!(
        told[2].is_error
            && told[2]
                .text
                .contains("Line 1 differs from it in line endings only"),
        "{:?}",
        told[2]
    );
    assert_eq!(bytes("mixed.txt"), b"a\r\nb\nC\rD\n");
    assert_eq!(told[4].text, "1\told\n2\ttext");
    assert_eq!(bytes("whole.txt"), b"new\r\ntext\r\n");
    assert!(told[5].note.contains("CRLF"), "{:?}", told[5]);
    assert_eq!(told[6].text, "1\ta\\r\n2\tb\n3\tC\\rD");
    assert!(told[6].note.contains("Line endings are mixed"));
}

#[test]
fn byte_order_marks_stay_and_are_never_shown() {
    let scratch = Scratch::new();
    scratch.write("marked.txt", "\u{FEFF}hello\n中文\n");
    let told = play(
        &scratch,
        &[
            edit("marked.txt", "hello", "hello2"),
            read("marked.txt"),
            write("marked.txt", "whole new\n"),
            read("marked.txt"),
            write("new.txt", "new\n"),
        ],
    );
    assert!(
        told[0].note.ends_with("1\thello2\n2\t中文"),
        "{:?}",
        told[0]
    );
    assert_eq!(told[1].text, "1\thello2\n2\t中文");
    assert_eq!(told[3].text, "1\twhole new");
    assert_eq!(scratch.read("marked.txt"), "\u{FEFF}whole new\n");
    assert_eq!(scratch.read("new.txt"), "new\n");
}

#[test]
fn other_encodings_are_named_and_kept() {
    let scratch = Scratch::new();
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let damaged = b"Gr\xC3\xBC\xC3\x9Fe aus M\xC3\xBCnchen\nabc\n\xFF\n";
    scratch.write("gbk.py", b"# \xB2\xE2\xCA\xD4\nadd = 1\n");
    scratch.write("wide.txt", utf16("\u{FEFF}eins\r\nzwei\r\n"));
    scratch.write("damaged.txt", damaged);
    scratch.write(
        "zeros.txt",
        [b"text\n".repeat(1000).as_slice(), b"\0more\n"].concat(),
    );
    let told = play(
        &scratch,
        &[
            read("gbk.py"),
            edit("gbk.py", "add = 1", "add = 2"),
            edit("gbk.py", "测试", "测试🌍"),
            read("wide.txt"),
            edit("wide.txt", "eins\nzwei", "один\nzwei"),
            edit("damaged.txt", "abc", "xyz"),
            read("zeros.txt"),
        ],
    );
    assert_eq!(told[0].text, "1\t# 测试\n2\tadd = 1");
    assert!(told[0].note.contains("GBK"), "{:?}", told[0]);
    assert!(
        told[2].is_error && told[2].text.contains("is GBK text, which has no '🌍'"),
        "{:?}",
        told[2]
    );
    let bytes = |name: &str| fs::read(scratch.file(name)).unwrap();
    assert_eq!(bytes("gbk.py"), b"# \xB2\xE2\xCA\xD4\nadd = 2\n");
    assert_eq!(told[3].text, "1\teins\n2\tzwei");
    assert!(told[3].note.contains("UTF-16 (little endian)"));
    assert_eq!(bytes("wide.txt"), utf16("\u{FEFF}один\r\nzwei\r\n"));
    assert!(
        told[5].is_error && told[5].text.contains("first bad byte at offset 25"),
        "{:?}",
        told[5]
    );
    assert_eq!(bytes("damaged.txt"), damaged);
    assert!(
        told[6].is_error && told[6].text.contains("NUL byte at offset 5000"),
        "{:?}",
        told[6]
    );
}

#[test]
fn an_edit_is_asked_for_and_shown_as_a_diff_of_the_file() {
    let scratch = Scratch::new();
    // Outside of any git work tree, so that it has to be asked for.
    let dir = scratch.root().join("plain");
    fs::create_dir(&dir).unwrap();
    let lines: String = (1..=9)
        .map(|n| "line ".to_owned() + &n.to_string() + "\r\n")
        .collect();
    fs::write(dir.join("f.txt"), &lines).unwrap();
    script(
        &scratch,
        &[
            edit("f.txt", "line 5\n", "five\nand a half\n"),
            edit("f.txt", "line 7", "seven"),
        ],
    );
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"cwd": dir}));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let record = asked.clone();
    server.answer(move |method, params| {
        assert_eq!(method, "approval/request");
        let mut asked = record.lock().unwrap();
        asked.push(params["display"].clone());
        let option = if asked.len() == 1 {
            "allow_once"
        } else {
            "reject"
        };
        Answer::Result(json!({"optionId": option}))
    });
    let told = play_in(&scratch, &mut server, &session);
    let asked = asked.lock().unwrap();
    assert_eq!(
        asked[0]["hunks"],
        "@@ -2,7 +2,8 @@\n line 2\r\n line 3\r\n line 4\r\n-line 5\r\n+five\r\n+and a half\r\n line 6\r\n line 7\r\n \
         line 8\r\n"
    );
    assert_eq!(
        (&asked[0]["added"], &asked[0]["removed"], &asked[0]["line"]),
        (&json!(2), &json!(1), &json!(5))
    );
    let mut done = told[0].display.clone();
    let old_hash = done.as_object_mut().unwrap().remove("oldSha256");
    assert!(
        old_hash.is_some(),
        "what was there can be told apart: {done}"
    );
    assert_eq!(asked[0], done, "what was asked is what was done");
    // The second is drawn against the file as the first has left it.
    assert!(
        asked[1]["hunks"]
            .as_str()
            .unwrap()
            .starts_with("@@ -5,6 +5,6 @@\n five\r\n and a half\r\n"),
        "{}",
        asked[1]
    );
    assert!(told[1].is_error);
    assert_eq!(
        fs::read_to_string(dir.join("f.txt")).unwrap(),
        lines.replace("line 5\r\n", "five\r\nand a half\r\n")
    );
}

#[test]
fn what_an_edit_may_have_meant_is_told() {
    let scratch = Scratch::new();
    let long = format!("start {}\nlast\n", "x".repeat(3000));
    scratch.write("long.txt", &long);
    scratch.write("code.rs", "fn main() {\n\tlet x = “1”;\n}\nx\nx\nx\n");
    let told = play(
        &scratch,
        &[
            read("long.txt"),
            edit("long.txt", &format!("start {}...", "x".repeat(1991)), "y"),
            edit("code.rs", "1\tfn main() {\n2\t\tlet", "y"),
            edit("code.rs", "fn main() {\n    let", "y"),
            edit("code.rs", "let x = \"1\";", "y"),
            edit("code.rs", "\nx", "\ny"),
            edit("code.rs", "$&", "y"),
            edit("code.rs", "fn main", "$& $1"),
        ],
    );
    assert!(told[0].note.contains("Lines cut at 2,000 characters: 1."));
    for (nth, said) in [
        (1, "Line 1 goes on where Read cut it"),
        (2, "leave the numbers and tabs out (see line 1)"),
        (
            3,
            "Line 1 differs from it in whitespace or indentation only",
        ),
        (4, "Line 2 differs from it in quotation marks"),
        (5, "matches 3 places in code.rs (lines 3, 4, 5)"),
        (6, "The file may have changed"),
    ] {
        let told = &told[nth];
        assert!(told.is_error && told.text.contains(said), "{told:?}");
    }
    assert_eq!(scratch.read("long.txt"), long);
    assert!(scratch.read("code.rs").starts_with("$& $1() {\n"));
}
