//! Death in mid-turn, and what a second process makes of it.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Scratch, TestServer};
use crate::turn::{SLEEPER, sleeper};

#[test]
fn a_killed_host_takes_everything_with_it_and_its_session_goes_on() {
    let scratch = Scratch::new();
    scratch.script(SLEEPER);
    // The shell is the server's parent. It dies without a word while the server's input stays open.
    let mut command = scratch.command("/bin/sh");
    let line = "exec 3<&0; \"$0\" serve <&3 & wait";
    command.args(["-c", line, env!("CARGO_BIN_EXE_longshore")]);
    let host = TestServer::spawn(&scratch, command);
    let (session, turn, shown) = killed_in_mid_turn(&scratch, host);
    scratch.mark.assert_gone(&[], Duration::from_secs(5));
    goes_on(&scratch, &session, &turn, &shown, "interrupted by user");
}

#[test]
fn the_session_of_a_killed_server_goes_on() {
    let scratch = Scratch::new();
    scratch.script(SLEEPER);
    let server = TestServer::start(&scratch);
    let (session, turn, shown) = killed_in_mid_turn(&scratch, server);
    // What it had started lives on without it; the server that resumes its session ends that.
    goes_on(&scratch, &session, &turn, &shown, "unknown");
}

/// Starts a turn, kills the process while its command runs, and gives the session, the turn and the durable events
/// that were shown.
fn killed_in_mid_turn(scratch: &Scratch, mut server: TestServer) -> (String, String, Vec<Value>) {
    server.initialize(json!({"approvals": true}));
    let session = server.create(scratch, json!({}));
    server.answer_approvals("allow_once");
    let turn = server.turn(&session, "Sleep.");
    sleeper(scratch, &mut server);
    server.event("tool/running");
    let shown = durable(server.seen());
    server.kill();
    (session, turn, shown)
}

/// A second process resumes the session: nothing that was shown is lost, what was cut off is said to be, and the next
/// model request is valid.
fn goes_on(scratch: &Scratch, session: &str, turn: &str, shown: &[Value], how: &str) {
    let mut server = TestServer::open(scratch);
    let resumed = server.request(
        "session/resume",
        json!({"sessionId": session, "replay": "events"}),
    );
    let last = resumed["lastSeq"].as_u64().unwrap();
    scratch
        .mark
        .assert_gone(&[server.pid()], Duration::from_secs(5));
    server.wait("the last event", |message| message["params"]["seq"] == last);
    let replayed = durable(server.seen());
    assert_eq!(
        replayed[..shown.len()],
        shown[..],
        "what was shown is what was written"
    );
    let ended = replayed
        .iter()
        .find(|message| message["method"] == "turn/ended")
        .unwrap();
    assert_eq!(ended["params"]["turnId"], turn);
    let running = replayed
        .iter()
        .find(|message| message["method"] == "tool/running")
        .unwrap();
    let call = &running["params"]["toolCallId"];
    let completed = replayed
        .iter()
        .find(|message| message["method"] == "tool/completed")
        .unwrap();
    assert_eq!(
        (
            &completed["params"]["toolCallId"],
            &completed["params"]["isError"]
        ),
        (call, &json!(true))
    );
    let output = completed["params"]["output"].to_string();
    assert!(output.contains(how), "{how}: {output}");

    // The transcript says what the journal says.
    let events = server.request(
        "session/events",
        json!({"sessionId": session, "limit": 200}),
    );
    assert_eq!(events["items"].as_array().unwrap()[..], replayed[..]);
    let transcript = server.request("session/transcript", json!({"sessionId": session}));
    let turns = transcript["items"].as_array().unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0]["turnId"], turn);
    assert_eq!(turns[0]["reason"], ended["params"]["reason"]);
    assert_eq!(
        turns[0]["input"],
        json!([{"type": "text", "text": "Sleep."}])
    );
    let item = &turns[0]["items"][0];
    assert_eq!(
        (&item["kind"], &item["id"], &item["isError"]),
        (&json!("tool"), call, &json!(true))
    );

    // The next request is one that any model takes: each call has its result, and the turn goes where it should.
    let turn = server.turn(session, "Still there?");
    let ended = server.ended(&turn);
    assert_eq!(ended["reason"], "completed", "{ended}");
    let requests = fs::read_to_string(scratch.trace()).unwrap();
    let last: Value = serde_json::from_str(requests.lines().last().unwrap()).unwrap();
    let messages = last["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages
        .iter()
        .filter(|message| message["reminder"] != true)
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"], "{last}");
    let call = messages
        .iter()
        .find(|message| message["role"] == "assistant")
        .unwrap();
    let result = messages
        .iter()
        .find(|message| message["role"] == "tool")
        .unwrap();
    assert_eq!(call["calls"][0]["id"], result["call"]);
    assert_eq!(result["is_error"], true);
}

/// The durable events among what a host was sent.
fn durable(seen: &[Value]) -> Vec<Value> {
    let is_durable =
        |message: &&Value| message.get("id").is_none() && message["params"]["seq"].is_u64();
    let mut events: Vec<Value> = seen.iter().filter(is_durable).cloned().collect();
    for event in &mut events {
        event.as_object_mut().unwrap().remove("jsonrpc");
    }
    events
}

#[test]
fn a_session_goes_on_in_another_process() {
    let scratch = Scratch::new();
    scratch.script(
        r#"
turns:
  - steps: [{text: "First."}]
  - steps: [{text: "Second: {{last_user}}"}]
"#,
    );
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"title": "Two turns"}));
    let turn = server.turn(&session, "One");
    server.ended(&turn);
    let before = server.request("session/transcript", json!({"sessionId": session}));
    drop(server);

    let mut server = TestServer::open(&scratch);
    let listed = server.request("session/list", json!({"cwd": scratch.repository()}));
    assert_eq!(listed["items"][0]["sessionId"], session.as_str());
    assert_eq!(listed["items"][0]["title"], "Two turns");
    let resumed = server.request(
        "session/resume",
        json!({"sessionId": session, "replay": "transcript"}),
    );
    assert_eq!(resumed["transcript"]["items"], before["items"]);
    // The script goes on where it was.
    let turn = server.turn(&session, "Two");
    let waited = server.request("turn/wait", json!({"sessionId": session, "turnId": turn}));
    assert_eq!(waited["text"], "Second: Two");
}

#[test]
fn one_process_owns_a_session() {
    let scratch = Scratch::new();
    let mut first = TestServer::open(&scratch);
    let session = first.create(&scratch, json!({"model": "demo"}));
    let mut second = TestServer::open(&scratch);
    let error = second.refused("session/resume", json!({"sessionId": session}));
    assert_eq!(error["data"]["kind"], "session_locked", "{error}");
    assert_eq!(error["data"]["pid"], first.pid());
    // Looking needs no lock.
    assert_eq!(
        second.request("session/get", json!({"sessionId": session}))["session"]["sessionId"],
        session.as_str()
    );
    drop(first);
    second.request("session/resume", json!({"sessionId": session}));
}
