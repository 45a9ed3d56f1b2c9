//! Asks go round the hosts of a session, which come, go, answer badly and answer late.

#![expect(clippy::disallowed_methods, reason = "a test that looks at files")]

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Host, Server};

/// One command that is asked about, then words.
const ONE_CALL: &str = r#"{"turns": [
    {"steps": [{"tool_call": {"name": "Bash", "args": {"command": "echo one >> ran.txt", "description": "Note one"}}}]},
    {"steps": [{"text": "Done."}]}
], "on_exhausted": "repeat_last"}"#;

/// A session, and a turn of it that has asked the host for an approval: the session and the request.
async fn asked(server: &Server, host: &mut Host) -> (Value, Value) {
    let session = create(server, host, ONE_CALL).await;
    start(host, &session).await;
    let request = host.until("approval/request").await;
    (session, request)
}

async fn create(server: &Server, host: &mut Host, script: &str) -> Value {
    let params = json!({"cwd": server.workspace(), "model": "demo", "script": script});
    let created = host.request(10, "session/create", params).await;
    created["session"]["sessionId"].clone()
}

async fn start(host: &mut Host, session: &Value) {
    let params = json!({"sessionId": session, "input": "Go."});
    host.send(11, "turn/start", params).await;
}

async fn attach(host: &mut Host, session: &Value) -> Value {
    let params = json!({"sessionId": session});
    host.request(12, "session/attach", params).await
}

fn ran(server: &Server) -> String {
    fs::read_to_string(server.workspace().join("ran.txt")).unwrap_or_default()
}

fn able() -> Value {
    json!({"approvals": true, "questions": true})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_goes_on_with_the_next_host() {
    let mut server = Server::start();
    let mut first = server.able(able()).await;
    let (session, request) = asked(&server, &mut first).await;
    drop(first);

    // One that can't answer changes nothing; one that can gets it after its attach is answered.
    let mut watcher = server.host().await;
    let attached = attach(&mut watcher, &session).await;
    assert_eq!(attached["snapshot"]["status"], "waiting");
    let mut second = server.able(able()).await;
    let attached = attach(&mut second, &session).await;
    let open = &attached["snapshot"]["openAsks"]["approvals"];
    assert_eq!(*open, json!([request["params"]]));
    let again = second.until("approval/request").await;
    assert_eq!(again["params"], request["params"], "the same ask");
    second
        .answer(&again, json!({"optionId": "allow_once"}))
        .await;
    for host in [&mut watcher, &mut second] {
        let resolved = host.until("approval/resolved").await;
        assert_eq!(resolved["params"]["outcome"], "answered");
        let ended = host.until("turn/ended").await;
        assert_eq!(ended["params"]["reason"], "completed");
    }
    assert_eq!(ran(&server), "one\n");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_answers_at_once_one_counts() {
    let mut server = Server::start();
    let mut one = server.able(able()).await;
    let session = create(&server, &mut one, ONE_CALL).await;
    let mut other = server.able(able()).await;
    attach(&mut other, &session).await;
    start(&mut one, &session).await;
    let (to_one, to_other) = (
        one.until("approval/request").await,
        other.until("approval/request").await,
    );
    assert_eq!(to_one["params"], to_other["params"]);
    tokio::join!(
        one.answer(&to_one, json!({"optionId": "allow_once"})),
        other.answer(&to_other, json!({"optionId": "reject"}))
    );
    let mut options = Vec::new();
    for host in [&mut one, &mut other] {
        let resolved = host.until("approval/resolved").await;
        options.push(resolved["params"]["optionId"].clone());
        host.until("turn/ended").await;
        // The late answer gets no error, and the connection goes on.
        host.request(20, "ping", json!({})).await;
    }
    assert_eq!(options[0], options[1]);
    let allowed = options[0] == "allow_once";
    assert_eq!(ran(&server), if allowed { "one\n" } else { "" });
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_none_leaves_the_ask_open() {
    let mut server = Server::start();
    let mut host = server.able(able()).await;
    let mut other = server.able(able()).await;
    let (session, request) = asked(&server, &mut host).await;
    attach(&mut other, &session).await;
    let to_other = other.until("approval/request").await;
    host.answer(&request, json!({"optionId": "allow_project"}))
        .await;
    let warning = host.until("warning").await;
    assert!(
        warning["params"]["seq"].is_null(),
        "for this host alone: {warning}"
    );
    let again = host.until("approval/request").await;
    assert_eq!(again["params"], request["params"]);
    host.answer(&again, json!("allow")).await;
    host.until("warning").await;
    // It is not asked any more; the other one is, still.
    let params = json!({"sessionId": session});
    let open = host.request(20, "approval/list", params).await;
    assert_eq!(open["items"][0]["approvalId"], "a1");
    other
        .answer(&to_other, json!({"decision": "allow", "scope": "once"}))
        .await;
    let ended = host.until("turn/ended").await;
    assert_eq!(ended["params"]["reason"], "completed");
    assert_eq!(ran(&server), "one\n");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_knows_no_asks_refuses_the_call_and_not_the_turn() {
    let mut server = Server::start();
    let mut host = server.able(able()).await;
    let (_, request) = asked(&server, &mut host).await;
    host.refuse(&request, -32601).await;
    let resolved = host.until("approval/resolved").await;
    assert_eq!(resolved["params"]["outcome"], "expired");
    let completed = host.until("tool/completed").await;
    assert_eq!(completed["params"]["isError"], true);
    let output = completed["params"]["output"].to_string();
    assert!(output.contains("No attached host can answer"), "{output}");
    let ended = host.until("turn/ended").await;
    assert_eq!(ended["params"]["reason"], "completed");
    assert_eq!(ran(&server), "");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_refuses_one_call_and_says_that_the_request_is_void() {
    let mut server = Server::configured("[permission]\napproval_timeout_s = 1\n");
    let mut host = server.able(able()).await;
    let two = r#"{"turns": [
        {"steps": [
            {"tool_call": {"name": "Bash", "args": {"command": "echo one >> ran.txt", "description": "Note one"}}},
            {"tool_call": {"name": "Glob", "args": {"pattern": "*"}}}
        ]},
        {"steps": [{"text": "Done."}]}
    ]}"#;
    let session = create(&server, &mut host, two).await;
    start(&mut host, &session).await;
    let request = host.until("approval/request").await;
    let cancelled = host.until("$/cancelRequest").await;
    assert_eq!(cancelled["params"]["id"], request["id"]);
    let mut failed = Vec::new();
    for _ in 0..2 {
        let completed = host.until("tool/completed").await;
        failed.push(completed["params"]["isError"].clone());
    }
    assert_eq!(failed, [true, false], "the other call goes on");
    let ended = host.until("turn/ended").await;
    assert_eq!(ended["params"]["reason"], "completed");
    assert_eq!(ran(&server), "");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_withdraws_the_request_and_the_next_turn_begins_at_once() {
    let mut server = Server::start();
    let mut host = server.able(able()).await;
    let (session, request) = asked(&server, &mut host).await;
    let begun = tokio::time::Instant::now();
    host.send(20, "turn/cancel", json!({"sessionId": session}))
        .await;
    let params = json!({"sessionId": session, "input": "Next.", "whenBusy": "queue"});
    host.send(21, "turn/start", params).await;
    let cancelled = host.until("$/cancelRequest").await;
    assert_eq!(cancelled["params"]["id"], request["id"]);
    let resolved = host.until("approval/resolved").await;
    assert_eq!(resolved["params"]["outcome"], "withdrawn");
    let ended = host.until("turn/ended").await;
    assert_eq!(ended["params"]["reason"], "cancelled");
    let started = host.until("turn/started").await;
    assert_eq!(started["params"]["turnId"], "t2");
    // A cancel has a grace of 2 s for what runs; nothing ran here. Generous for a machine with other work.
    assert!(begun.elapsed() < Duration::from_secs(2));
    let ended = host.until("turn/ended").await;
    assert_eq!(ended["params"]["reason"], "completed");
    assert_eq!(ran(&server), "");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_gets_an_answer_that_was_on_offer_and_no_other() {
    let mut server = Server::start();
    let script = r#"{"turns": [
        {"steps": [{"tool_call": {"name": "AskUserQuestion", "args": {"questions": [{
            "question": "Which?", "header": "W",
            "options": [{"label": "left", "description": "l"}, {"label": "right", "description": "r"}]
        }]}}}]},
        {"steps": [{"text": "Done."}]}
    ]}"#;
    let mut deaf = server.able(json!({"approvals": true})).await;
    let session = create(&server, &mut deaf, script).await;
    let of = json!({"sessionId": session});
    let offered = |tools: &Value| tools.to_string().contains("\"AskUserQuestion\"");
    let tools = deaf.request(20, "tool/list", of.clone()).await;
    assert!(!offered(&tools), "nobody could answer");
    let mut host = server.able(able()).await;
    attach(&mut host, &session).await;
    let tools = host.request(21, "tool/list", of).await;
    assert!(offered(&tools));

    start(&mut host, &session).await;
    let request = host.until("question/request").await;
    let unknown = json!({"answers": {"q_0": {"optionIds": ["opt_7"]}}});
    host.answer(&request, unknown).await;
    host.until("warning").await;
    let again = host.until("question/request").await;
    assert_eq!(again["params"], request["params"]);
    let right = json!({"answers": {"q_0": {"optionIds": ["opt_0_1"]}}});
    host.answer(&again, right).await;
    let completed = host.until("tool/completed").await;
    let output = completed["params"]["output"].to_string();
    assert!(
        output.contains("right") && !output.contains("left"),
        "{output}"
    );
    let ended = host.until("turn/ended").await;
    assert_eq!(ended["params"]["reason"], "completed");
    server.stop().await;
}
