//! A server dies while it waits for a person. The next one asks the same, and the answer lets the turn go on.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Scratch, TestServer};

/// Two commands that are asked about, and a call behind them that is not.
const THREE_CALLS: &str = r#"
turns:
  - steps:
      - text: "I note it."
      - tool_call: {name: Bash, args: {command: "echo one >> ran.txt", description: "Note one"}}
      - tool_call: {name: Bash, args: {command: "echo two >> ran.txt", description: "Note two"}}
      - tool_call: {name: Read, args: {path: README.md}}
  - steps: [{text: "Done."}]
  - steps: [{text: "Here."}]
"#;

/// Starts a turn and kills the server once it has asked something that the host leaves open; gives the session and the
/// params of the request.
fn killed_while_asking(scratch: &Scratch, input: &str) -> (String, Value) {
    let mut server = TestServer::open(scratch);
    server.answer(|_, _| Answer::Silence);
    let session = server.create(scratch, json!({}));
    server.turn(&session, input);
    let asked = request(&mut server);
    server.kill();
    (session, asked)
}

/// The params of the next reverse request.
fn request(server: &mut TestServer) -> Value {
    let asked = server.wait("a reverse request", |message| {
        message.get("method").is_some() && message.get("id").is_some()
    });
    asked["params"].clone()
}

/// The durable events of a session, whole and without gaps.
fn events(server: &mut TestServer, session: &str) -> Vec<Value> {
    let params = json!({"sessionId": session, "limit": 200});
    let events = server.request("session/events", params)["items"].clone();
    let events = events.as_array().unwrap().clone();
    let seqs: Vec<u64> = events
        .iter()
        .map(|event| event["params"]["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    events
}

/// What the events of these names say, one line each.
fn lines(events: &[Value], names: &[&str]) -> Vec<String> {
    let member = |params: &Value, name: &str| params[name].as_str().unwrap_or("").to_owned();
    events
        .iter()
        .filter(|event| names.iter().any(|name| event["method"] == *name))
        .map(|event| {
            let params = &event["params"];
            let of = ["approvalId", "questionId", "toolCallId", "turnId"]
                .map(|name| member(params, name));
            let of = of.iter().find(|id| !id.is_empty()).unwrap();
            let how = ["outcome", "reason"].map(|name| member(params, name));
            format!(
                "{} {of} {}",
                event["method"].as_str().unwrap(),
                how.concat()
            )
            .trim()
            .to_owned()
        })
        .collect()
}

/// The messages of the last model request, without reminders: role and text or calls.
fn last_request(scratch: &Scratch) -> Vec<Value> {
    let requests = fs::read_to_string(scratch.trace()).unwrap();
    let last: Value = serde_json::from_str(requests.lines().last().unwrap()).unwrap();
    let messages = last["messages"].as_array().unwrap().iter();
    messages
        .filter(|message| message["reminder"] != true)
        .cloned()
        .collect()
}

const ASKS: [&str; 4] = [
    "approval/requested",
    "approval/resolved",
    "question/requested",
    "question/resolved",
];

#[test]
fn an_open_approval_outlives_its_server() {
    let scratch = Scratch::new();
    scratch.script(THREE_CALLS);
    scratch.write("README.md", "read me\n");
    let (session, first) = killed_while_asking(&scratch, "Note it.");
    assert_eq!(first["approvalId"], "a1");

    // It dies once more without an answer: nothing changes.
    for _ in 0..2 {
        let mut server = TestServer::open(&scratch);
        server.answer(|_, _| Answer::Silence);
        let resumed = server.request("session/resume", json!({"sessionId": session}));
        assert_eq!(resumed["session"]["status"], "waiting");
        assert_eq!(request(&mut server), first, "the same ask, as it was");
        server.kill();
    }

    let mut server = TestServer::open(&scratch);
    server.answer(|_, _| Answer::Silence);
    let attached = server.request("session/attach", json!({"sessionId": session}));
    let snapshot = &attached["snapshot"];
    assert_eq!(snapshot["status"], "waiting");
    assert_eq!(snapshot["openAsks"]["approvals"], json!([first]));
    let listed = server.request("approval/list", json!({"sessionId": session}));
    assert_eq!(listed["items"], json!([first]));
    let asked = server.wait("the approval", |message| {
        message["method"] == "approval/request"
    });
    assert_eq!(asked["params"], first);
    let place = |wanted: &Value| server.seen().iter().position(|seen| seen == wanted);
    let replied = server
        .seen()
        .iter()
        .position(|seen| seen["result"].get("snapshot").is_some());
    assert!(
        replied < place(&asked),
        "asked after the attach is answered"
    );
    assert!(!scratch.file("ran.txt").exists());

    // The answer lets the turn go on: the calls behind it follow as they would have.
    server.answer_approvals("allow_once");
    server.write_value(
        &json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"optionId": "allow_once"}}),
    );
    let ended = server.ended("t1");
    assert_eq!(ended["reason"], "completed", "{ended}");
    assert_eq!(scratch.read("ran.txt"), "one\ntwo\n");
    let events = events(&mut server, &session);
    assert_eq!(
        lines(&events, &ASKS),
        [
            "approval/requested a1",
            "approval/resolved a1 answered",
            "approval/requested a2",
            "approval/resolved a2 answered"
        ]
    );
    for name in ["tool/started", "tool/running", "tool/completed"] {
        let mut calls = lines(&events, &[name]);
        calls.sort();
        let each = [1, 2, 3].map(|n| format!("{name} call_{n}"));
        assert_eq!(calls, each, "each once");
    }
    assert_eq!(
        lines(&events, &["turn/started", "turn/ended"]),
        ["turn/started t1", "turn/ended t1 completed"]
    );
    let request = last_request(&scratch);
    let results: Vec<&Value> = request
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| &message["call"])
        .collect();
    assert_eq!(results, ["call_1", "call_2", "call_3"]);
    let listed = server.request("approval/list", json!({"sessionId": session}));
    assert_eq!(listed["items"], json!([]));

    let turn = server.turn(&session, "Still there?");
    assert_eq!(server.ended(&turn)["reason"], "completed");
}

#[test]
fn an_open_question_outlives_its_server() {
    let scratch = Scratch::new();
    scratch.script(
        r#"
turns:
  - steps:
      - tool_call: {name: AskUserQuestion, args: {questions: [{question: "Which?", header: W, options: [{label: left, description: l}, {label: right, description: r}]}]}}
  - steps: [{text: "Then {{last_tool_result}}"}]
"#,
    );
    let (session, first) = killed_while_asking(&scratch, "Ask me.");
    assert_eq!(first["questionId"], "q1");
    let mut server = TestServer::open(&scratch);
    let asked = first.clone();
    server.answer(move |method, params| {
        assert_eq!((method, params), ("question/request", &asked));
        Answer::Result(json!({"answers": {"q_0": {"optionIds": ["opt_0_1"]}}}))
    });
    let attached = server.request("session/attach", json!({"sessionId": session}));
    assert_eq!(
        attached["snapshot"]["openAsks"]["questions"],
        json!([first])
    );
    assert_eq!(server.ended("t1")["reason"], "completed");
    let events = events(&mut server, &session);
    assert_eq!(
        lines(&events, &ASKS),
        ["question/requested q1", "question/resolved q1 answered"]
    );
    assert_eq!(
        lines(&events, &["tool/running", "tool/completed"]),
        ["tool/running call_1", "tool/completed call_1"]
    );
    let request = last_request(&scratch);
    assert!(
        request.last().unwrap().to_string().contains("right"),
        "{request:?}"
    );
}

#[test]
fn an_ask_of_a_dead_server_is_answered_out_of_band_refused_and_withdrawn() {
    for (how, outcome, reason) in [
        ("reject", "answered", "completed"),
        ("reject_stop", "answered", "cancelled"),
        ("cancel", "withdrawn", "cancelled"),
    ] {
        let scratch = Scratch::new();
        scratch.script(THREE_CALLS);
        let (session, _) = killed_while_asking(&scratch, "Note it.");
        let mut server = TestServer::start(&scratch);
        // It shows asks elsewhere.
        server.initialize(json!({}));
        server.request("session/resume", json!({"sessionId": session}));
        let of = json!({"sessionId": session});
        let listed = server.request("approval/list", of.clone());
        assert_eq!(listed["items"][0]["approvalId"], "a1");
        if how == "cancel" {
            let cancelled = server.request("turn/cancel", of.clone());
            assert_eq!(cancelled["cancelled"], true);
        } else {
            let mut params = json!({"approvalId": "a1", "optionId": how});
            params["sessionId"] = json!(session);
            server.request("approval/resolve", params.clone());
            let again = server.refused("approval/resolve", params);
            assert_eq!(again["data"]["kind"], "already_resolved");
        }
        let ended = server.ended("t1");
        assert_eq!(ended["reason"], reason, "{how}: {ended}");
        let events = events(&mut server, &session);
        assert_eq!(
            lines(&events, &ASKS)[1],
            format!("approval/resolved a1 {outcome}"),
            "{how}"
        );
        let n_ended = lines(&events, &["tool/completed"]).len();
        assert_eq!(n_ended, 3, "{how}: each call has a result");
        assert!(!scratch.file("ran.txt").exists(), "{how}");
        let turn = server.turn(&session, "Go on.");
        assert_eq!(server.ended(&turn)["reason"], "completed", "{how}");
    }
}

#[test]
fn an_ask_of_a_session_that_nobody_has_loaded_is_listed_and_answered() {
    let scratch = Scratch::new();
    scratch.script(THREE_CALLS);
    let (session, first) = killed_while_asking(&scratch, "Note it.");
    let mut server = TestServer::open(&scratch);
    server.answer_approvals("allow_once");
    let of = json!({"sessionId": session});
    let listed = server.request("approval/list", of.clone());
    assert_eq!(listed["items"], json!([first]));
    let status = server.request("server/status", json!({}));
    assert_eq!(status["loadedSessions"], 0, "{status}");
    let params = json!({"sessionId": session, "approvalId": "a9", "optionId": "reject"});
    let refused = server.refused("approval/resolve", params);
    assert_eq!(refused["data"]["kind"], "approval_not_found");
    let params = json!({"sessionId": session, "approvalId": "a1", "optionId": "allow_once"});
    server.request("approval/resolve", params);
    // It is loaded now, and whoever attaches gets the next ask.
    server.request("session/attach", of.clone());
    let waited = server.request("turn/wait", json!({"sessionId": session, "turnId": "t1"}));
    assert_eq!(waited["reason"], "completed");
    assert_eq!(scratch.read("ran.txt"), "one\ntwo\n");
}

#[test]
fn what_ran_when_the_server_died_is_not_run_again_beside_an_open_ask() {
    let scratch = Scratch::new();
    scratch.script(
        r#"
turns:
  - steps:
      - tool_call: {name: Bash, args: {command: "echo one >> ran.txt; sleep 300", description: "Wait", timeout: 300}}
      - tool_call: {name: Bash, args: {command: "echo two >> ran.txt", description: "Note two"}}
  - steps: [{text: "Done."}]
"#,
    );
    let mut server = TestServer::open(&scratch);
    server.answer(|_, params| match params["approvalId"].as_str() {
        Some("a1") => Answer::Result(json!({"optionId": "allow_once"})),
        _ => Answer::Silence,
    });
    let session = server.create(&scratch, json!({}));
    server.turn(&session, "Run both.");
    let second = server.wait("the second approval", |message| {
        message["method"] == "approval/request" && message["params"]["approvalId"] == "a2"
    });
    server.until("the first command to start", || {
        scratch.file("ran.txt").exists()
    });
    server.kill();

    let mut server = TestServer::open(&scratch);
    let asked = second["params"].clone();
    server.answer(move |_, params| {
        assert_eq!(*params, asked);
        Answer::Result(json!({"optionId": "allow_once"}))
    });
    server.request(
        "session/resume",
        json!({"sessionId": session, "replay": "events"}),
    );
    assert_eq!(server.ended("t1")["reason"], "completed");
    scratch
        .mark
        .assert_gone(&[server.pid()], Duration::from_secs(5));
    assert_eq!(scratch.read("ran.txt"), "one\ntwo\n");
    let events = events(&mut server, &session);
    let first = events
        .iter()
        .find(|event| {
            event["method"] == "tool/completed" && event["params"]["toolCallId"] == "call_1"
        })
        .unwrap();
    assert!(
        first["params"]["output"].to_string().contains("unknown"),
        "{first}"
    );
}

#[test]
fn input_that_was_taken_in_outlives_its_server() {
    let scratch = Scratch::new();
    scratch.script("turns: [{steps: [{text: I think}, {hang: true}]}]");
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    server.turn(&session, "Begin.");
    server.event("message/delta");
    for (method, input, more) in [
        ("turn/steer", "be", json!({})),
        ("turn/start", "Later.", json!({"whenBusy": "queue"})),
        ("turn/steer", "quick", json!({})),
    ] {
        let mut params = json!({"sessionId": session, "input": input});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        server.request(method, params);
    }
    server.kill();

    scratch.script("turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last");
    let mut server = TestServer::open(&scratch);
    // Loading alone starts nothing; a host does by coming.
    server.request("tool/list", json!({"sessionId": session}));
    server.request(
        "session/resume",
        json!({"sessionId": session, "replay": "events"}),
    );
    for turn in ["t3", "t2"] {
        assert_eq!(server.ended(turn)["reason"], "completed");
    }
    let events = events(&mut server, &session);
    assert_eq!(
        lines(&events, &["turn/queued", "turn/started", "turn/ended"]),
        [
            "turn/started t1",
            "turn/queued t2",
            "turn/ended t1 failed",
            "turn/queued t3",
            "turn/started t3",
            "turn/ended t3 completed",
            "turn/started t2",
            "turn/ended t2 completed"
        ]
    );
    let began: Vec<&Value> = events
        .iter()
        .filter(|event| event["method"] == "turn/started")
        .map(|event| &event["params"]["input"])
        .collect();
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        began,
        [
            &json!([text("Begin.")]),
            &json!([text("be"), text("quick")]),
            &json!([text("Later.")])
        ]
    );
    // It is all said now.
    server.request("session/close", json!({"sessionId": session}));
    let resumed = server.request("session/resume", json!({"sessionId": session}));
    assert_eq!(resumed["session"]["turnCount"], 3);
    assert_eq!(resumed["session"]["status"], "idle");
}

#[test]
fn words_for_a_turn_that_waits_outlive_its_server_with_it() {
    let scratch = Scratch::new();
    scratch.script(THREE_CALLS);
    let mut server = TestServer::open(&scratch);
    server.answer(|_, _| Answer::Silence);
    let session = server.create(&scratch, json!({}));
    server.turn(&session, "Note it.");
    request(&mut server);
    let params = json!({"sessionId": session, "input": "and be brief"});
    server.request("turn/steer", params);
    server.kill();
    let mut server = TestServer::open(&scratch);
    server.answer_approvals("allow_once");
    server.request("session/resume", json!({"sessionId": session}));
    assert_eq!(server.ended("t1")["reason"], "completed");
    let events = events(&mut server, &session);
    assert_eq!(lines(&events, &["turn/steered"]), ["turn/steered t1"]);
    let request = last_request(&scratch);
    assert!(
        request.last().unwrap().to_string().contains("and be brief"),
        "{request:?}"
    );
}

/// A host that goes, or is killed, while a turn waits for it and a task runs: nothing is left, and all of it is recorded.
#[test]
fn a_host_that_goes_leaves_no_process_and_no_open_ask() {
    for is_killed in [false, true] {
        let scratch = Scratch::new();
        scratch.script(
            r#"
turns:
  - steps: [{tool_call: {name: Bash, args: {command: "sleep 300", description: "Wait", run_in_background: true}}}]
  - steps: [{tool_call: {name: Bash, args: {command: "echo one >> ran.txt", description: "Note one"}}}]
  - steps: [{text: "Done."}]
on_exhausted: repeat_last
"#,
        );
        let mut server = if is_killed {
            // The shell is the server's parent; the server's input stays open when it dies.
            let mut command = scratch.command("/bin/sh");
            let line = "exec 3<&0; \"$0\" serve <&3 & wait";
            command.args(["-c", line, env!("CARGO_BIN_EXE_longshore")]);
            let mut server = TestServer::spawn(&scratch, command);
            server.initialize(json!({"approvals": true}));
            server
        } else {
            TestServer::open(&scratch)
        };
        server.answer(|_, params| match params["approvalId"].as_str() {
            Some("a1") => Answer::Result(json!({"optionId": "allow_once"})),
            _ => Answer::Silence,
        });
        let session = server.create(&scratch, json!({}));
        server.turn(&session, "Go.");
        server.event("task/started");
        server.wait("the second approval", |message| {
            message["method"] == "approval/request" && message["params"]["approvalId"] == "a2"
        });
        if is_killed {
            server.kill();
        } else {
            let status = server.close(Duration::from_secs(5));
            assert_eq!(status.code(), Some(0));
        }
        scratch.mark.assert_gone(&[], Duration::from_secs(7));
        drop(server);

        let mut server = TestServer::open(&scratch);
        server.request("session/resume", json!({"sessionId": session}));
        let events = events(&mut server, &session);
        assert_eq!(
            lines(&events, &["approval/resolved", "turn/ended"]),
            [
                "approval/resolved a1 answered",
                "approval/resolved a2 withdrawn",
                "turn/ended t1 cancelled"
            ],
            "killed: {is_killed}"
        );
        let task = events
            .iter()
            .find(|event| event["method"] == "task/ended")
            .unwrap();
        assert_eq!(task["params"]["task"]["status"], "killed", "{task}");
        assert!(!scratch.file("ran.txt").exists());
    }
}

#[test]
fn every_call_of_a_step_that_was_cut_off_has_a_result() {
    let scratch = Scratch::new();
    scratch.script(
        r#"
turns:
  - steps:
      - tool_call: {name: Bash, args: {command: "echo one >> ran.txt", description: "Note one"}}
      - tool_call: {name: Bash, args: {command: "echo two >> ran.txt; sleep 300", description: "Wait", timeout: 300}}
      - tool_call: {name: Bash, args: {command: "echo three >> ran.txt", description: "Note three"}}
  - steps: [{text: "Done."}]
"#,
    );
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"mode": "yolo"}));
    server.turn(&session, "Run all.");
    server.until("the second command to start", || {
        scratch.file("ran.txt").exists() && scratch.read("ran.txt").contains("two")
    });
    server.event("tool/completed");
    server.kill();

    let mut server = TestServer::open(&scratch);
    server.request("session/resume", json!({"sessionId": session}));
    let turn = server.turn(&session, "Go on.");
    assert_eq!(server.ended(&turn)["reason"], "completed");
    assert_eq!(scratch.read("ran.txt"), "one\ntwo\n", "nothing ran twice");
    let request = last_request(&scratch);
    let results: Vec<(String, bool, String)> = request
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| {
            (
                message["call"].as_str().unwrap().to_owned(),
                message["is_error"].as_bool().unwrap_or(false),
                message.to_string(),
            )
        })
        .collect();
    let calls: Vec<(&str, bool)> = results
        .iter()
        .map(|(call, is_error, _)| (call.as_str(), *is_error))
        .collect();
    assert_eq!(
        calls,
        [("call_1", false), ("call_2", true), ("call_3", true)]
    );
    assert!(results[1].2.contains("unknown"), "{:?}", results[1]);
    assert!(results[2].2.contains("no effect"), "{:?}", results[2]);
}

#[test]
fn a_client_of_the_other_protocol_gets_the_ask_too() {
    let scratch = Scratch::new();
    scratch.script(THREE_CALLS);
    let (session, _) = killed_while_asking(&scratch, "Note it.");
    let mut command = scratch.longshore();
    command.arg("acp");
    let mut client = TestServer::spawn(&scratch, command);
    client.answer(|method, params| {
        assert_eq!(method, "session/request_permission", "{params}");
        Answer::Result(json!({"outcome": {"outcome": "selected", "optionId": "approve_once"}}))
    });
    let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
    client.request("initialize", hello);
    let load = json!({"sessionId": session, "cwd": scratch.repository(), "mcpServers": []});
    client.request("session/load", load);
    client.until("both commands to run", || {
        scratch.file("ran.txt").exists() && scratch.read("ran.txt") == "one\ntwo\n"
    });
    let prompt = json!([{"type": "text", "text": "Still there?"}]);
    let params = json!({"sessionId": session, "prompt": prompt});
    let answered = client.request("session/prompt", params);
    assert_eq!(answered["stopReason"], "end_turn");
}
