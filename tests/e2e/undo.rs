//! Turns that are taken back, and conversations that begin anew.

use serde_json::{Value, json};

use crate::support::{Scratch, TestServer};

/// Says what was said to it, and keeps a list where it is told to.
const ECHOES: &str = r#"
turns:
  - steps: [{text: "{{last_user}} it is."}]
on_exhausted: loop
"#;

fn say(server: &mut TestServer, session: &str, words: &str) -> String {
    let turn = server.turn(session, words);
    server.ended(&turn);
    turn
}

/// The turns of the transcript.
fn turns(server: &mut TestServer, session: &str) -> Vec<String> {
    let page = server.request("session/transcript", json!({"sessionId": session}));
    let turns = page["items"].as_array().unwrap();
    turns
        .iter()
        .map(|turn| turn["turnId"].as_str().unwrap().to_owned())
        .collect()
}

fn found(server: &mut TestServer, text: &str) -> usize {
    let listed = server.request("session/list", json!({"text": text}));
    listed["items"].as_array().unwrap().len()
}

fn numbers(server: &mut TestServer, session: &str) -> Vec<u64> {
    let events = server.request(
        "session/events",
        json!({"sessionId": session, "limit": 200}),
    );
    let items = events["items"].as_array().unwrap();
    items
        .iter()
        .map(|event| event["params"]["seq"].as_u64().unwrap())
        .collect()
}

#[test]
fn turns_are_undone_as_a_whole_or_not_at_all() {
    let scratch = Scratch::new();
    scratch.script(ECHOES);
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    for n in 1..=10 {
        say(&mut server, &session, &format!("word{n}"));
    }
    let undone = server.request("session/undo", json!({"sessionId": session, "turns": 2}));
    assert_eq!(undone["undone"], json!(["t9", "t10"]));
    assert_eq!(undone["undoable"], 8);
    assert_eq!(undone["filesRestored"], false);
    assert_eq!(undone["session"]["turnCount"], 8);
    assert_eq!(undone["session"]["lastPrompt"], "word8");
    let event = server.event("turn/undone");
    assert_eq!(event["turnIds"], json!(["t9", "t10"]));
    assert_eq!(turns(&mut server, &session).last().unwrap(), "t8");

    let refused = server.refused("session/undo", json!({"sessionId": session, "turns": 50}));
    assert_eq!(refused["data"]["kind"], "undo_unavailable", "{refused}");
    assert_eq!(refused["data"]["undoable"], 8);
    assert_eq!(turns(&mut server, &session).len(), 8, "not even a part");
    let refused = server.refused("session/undo", json!({"sessionId": session, "turns": 0}));
    assert_eq!(refused["data"]["path"], "/turns", "{refused}");

    // The model has nothing of it, and numbers are not given out again.
    assert_eq!(say(&mut server, &session, "word11"), "t11");
    let texts = scratch.sent().join("|");
    assert!(
        texts.contains("word8 it is.") && texts.ends_with("word11"),
        "{texts}"
    );
    assert!(
        !texts.contains("word9") && !texts.contains("word10"),
        "{texts}"
    );
    // A second undo goes further back.
    let undone = server.request("session/undo", json!({"sessionId": session, "turns": 2}));
    assert_eq!(undone["undone"], json!(["t8", "t11"]));
    drop(server);

    // It holds after a restart, and so does what is left.
    let mut server = TestServer::open(&scratch);
    assert_eq!(
        (found(&mut server, "word9"), found(&mut server, "word7")),
        (0, 1)
    );
    let resumed = server.request("session/resume", json!({"sessionId": session}));
    assert_eq!(resumed["session"]["turnCount"], 7);
    assert_eq!(resumed["session"]["lastPrompt"], "word7");
    assert_eq!(turns(&mut server, &session).len(), 7);
    assert_eq!(say(&mut server, &session, "word12"), "t12");
    let texts = scratch.sent().join("|");
    assert!(texts.ends_with("word7|word7 it is.|word12"), "{texts}");
    let undone = server.request("session/undo", json!({"sessionId": session, "turns": 8}));
    assert_eq!(undone["undoable"], 0);
    assert_eq!(
        (
            &undone["session"]["title"],
            &undone["session"]["lastPrompt"]
        ),
        (&json!(""), &Value::Null)
    );
    // Everything that ever happened can still be read, without a gap.
    let numbers = numbers(&mut server, &session);
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

#[test]
fn nothing_is_undone_while_a_turn_runs() {
    let scratch = Scratch::new();
    scratch.script("turns: [{steps: [{text: ok}]}, {steps: [{text: Half}, {hang: true}]}]");
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    say(&mut server, &session, "One");
    let turn = server.turn(&session, "Two");
    server.event("message/delta");
    for method in ["session/undo", "session/clear"] {
        let refused = server.refused(method, json!({"sessionId": session}));
        assert_eq!(refused["data"]["kind"], "session_busy", "{refused}");
        assert_eq!(refused["data"]["retryable"], true);
    }
    server.request("turn/cancel", json!({"sessionId": session}));
    server.ended(&turn);
    let undone = server.request("session/undo", json!({"sessionId": session}));
    assert_eq!(undone["undone"], json!([turn]));
    let refused = server.refused("session/undo", json!({"sessionId": "nope"}));
    assert_eq!(refused["data"]["kind"], "session_not_found");
}

/// A kill right after the answer loses nothing of an undo.
#[test]
fn an_undo_outlives_a_kill() {
    let scratch = Scratch::new();
    scratch.script(ECHOES);
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    for word in ["apple", "pear", "plum"] {
        say(&mut server, &session, word);
    }
    server.request("session/undo", json!({"sessionId": session}));
    server.kill();

    let mut server = TestServer::open(&scratch);
    // The index did not hear of it: the session itself is asked.
    assert_eq!(
        (found(&mut server, "plum"), found(&mut server, "pear")),
        (0, 1)
    );
    server.request("session/resume", json!({"sessionId": session}));
    assert_eq!(turns(&mut server, &session), ["t1", "t2"]);
    say(&mut server, &session, "fig");
    let texts = scratch.sent().join("|");
    assert!(texts.ends_with("pear|pear it is.|fig"), "{texts}");
}

#[test]
fn the_checklist_goes_back_and_files_do_not() {
    let scratch = Scratch::new();
    scratch.script(
        r#"
turns:
  - steps: [{tool_call: {name: TodoList, args: {todos: [{title: first, status: pending}]}}}]
  - steps: [{text: ok}]
  - steps:
      - tool_call: {name: Write, args: {path: new.txt, content: "made\n"}}
      - tool_call: {name: TodoList, args: {todos: [{title: second, status: done}]}}
  - steps: [{text: ok}]
  - steps: [{text: ok}]
"#,
    );
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"mode": "yolo"}));
    say(&mut server, &session, "One");
    let before = server.request("session/get", json!({"sessionId": session}))["session"].clone();
    say(&mut server, &session, "Two");
    server.request("session/undo", json!({"sessionId": session}));
    let todos = server.request("todo/get", json!({"sessionId": session}));
    assert_eq!(todos["todos"][0]["title"], "first", "{todos}");
    let told = server.event_where("todo/updated", |params| {
        params["todos"][0]["title"] == "first" && params["seq"].as_u64() > Some(10)
    });
    assert_eq!(told["todos"].as_array().unwrap().len(), 1);
    assert_eq!(scratch.read("new.txt"), "made\n");
    let after = server.request("session/get", json!({"sessionId": session}))["session"].clone();
    let spent = |session: &Value| session["usage"]["output"].as_u64().unwrap();
    assert!(spent(&after) > spent(&before), "what was spent stays spent");
}

#[test]
fn a_cleared_conversation_begins_anew() {
    let scratch = Scratch::new();
    scratch.script(ECHOES);
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    let job = json!({"sessionId": session, "cron": "0 9 * * *", "prompt": "Look."});
    server.request("cron/create", job);
    say(&mut server, &session, "apple");
    say(&mut server, &session, "pear");
    let cleared = server.request("session/clear", json!({"sessionId": session}));
    assert_eq!(
        (
            &cleared["session"]["turnCount"],
            &cleared["session"]["title"]
        ),
        (&json!(0), &json!("apple"))
    );
    server.event("session/cleared");
    let refused = server.refused("session/undo", json!({"sessionId": session}));
    assert_eq!(refused["data"]["undoable"], 0, "{refused}");
    let jobs = server.request("cron/list", json!({"sessionId": session}));
    assert_eq!(jobs["items"].as_array().unwrap().len(), 1);
    say(&mut server, &session, "plum");
    assert_eq!(scratch.sent(), ["plum"]);
    server.kill();

    let mut server = TestServer::open(&scratch);
    assert_eq!(
        (found(&mut server, "pear"), found(&mut server, "plum")),
        (0, 1)
    );
    let attached = server.request("session/attach", json!({"sessionId": session}));
    let shown = attached["snapshot"]["turns"].as_array().unwrap();
    assert_eq!((shown.len(), &shown[0]["turnId"]), (1, &json!("t3")));
    say(&mut server, &session, "fig");
    assert_eq!(scratch.sent(), ["plum", "plum it is.", "fig"]);
}
