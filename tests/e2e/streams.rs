//! Standard streams and the ends of life: what is written where, and what is left behind.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::processes::{assert_ended, heeds_interrupts, peak_bytes};
use crate::support::server::DEADLINE;
use crate::support::{Answer, Scratch, TestServer};
use crate::turn::{SLEEPER, sleeper};

#[test]
fn nothing_but_messages_is_written_to_stdout() {
    let scratch = Scratch::new();
    // Writes to every descriptor that it can have inherited.
    scratch.script(
        r#"
turns:
  - steps: [{tool_call: {name: Bash, args: {command: "for n in 0 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do eval \"echo RUBBISH >&$n\"; done; echo done > done.txt", description: "Write"}}}]
  - steps: [{text: "Written."}]
"#,
    );
    let mut command = scratch.longshore();
    command.args(["serve", "--log-level", "debug"]);
    let mut server = TestServer::spawn(&scratch, command);
    server.initialize(json!({"approvals": true}));
    server.answer_approvals("allow_once");
    let session = server.create(&scratch, json!({}));
    let turn = server.turn(&session, "Write.");
    assert_eq!(server.ended(&turn)["reason"], "completed");
    assert_eq!(scratch.read("done.txt"), "done\n");
    server.request("shutdown", json!({}));
    // Reading asserts of each line that it is one message; what is left is read here.
    assert_eq!(server.exit(Duration::from_secs(6)).code(), Some(0));
    assert!(server.raw().iter().all(|line| line.starts_with('{')));
    let log = fs::read_to_string(scratch.longshore_home().join("logs/longshore.log")).unwrap();
    assert!(log.contains("DEBUG"), "debug logging was on");
}

#[test]
fn an_output_pipe_that_breaks_ends_the_server_in_peace() {
    let scratch = Scratch::new();
    scratch.script("defaults: {chunk: whole, delay_ms: 5}\nturns: [{steps: [{repeat: {count: 100000, step: {text: \"word \"}}}]}]");
    let mut child = scratch
        .longshore()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut say = |message: Value| writeln!(stdin, "{message}").unwrap();
    let mut read = |wanted: &dyn Fn(&Value) -> bool| loop {
        let mut line = String::new();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0);
        let message: Value = serde_json::from_str(&line).unwrap();
        if wanted(&message) {
            return message;
        }
    };
    say(
        json!({"id": 1, "method": "initialize", "params": {"protocolVersion": 1, "host": {"name": "e2e", "version": "1"}}}),
    );
    say(json!({"id": 2, "method": "session/create", "params": {"cwd": scratch.repository()}}));
    let created = read(&|message| message["id"] == 2);
    let session = created["result"]["session"]["sessionId"].clone();
    say(
        json!({"id": 3, "method": "turn/start", "params": {"sessionId": session, "input": "Go on."}}),
    );
    read(&|message| message["method"] == "message/delta");
    drop(stdout);
    let end = Instant::now() + Duration::from_secs(10);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < end, "still there");
        thread::sleep(Duration::from_millis(10));
    };
    drop(stdin);
    let mut stderr = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut stderr).unwrap();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    // The session was left in order.
    let mut server = TestServer::open(&scratch);
    server.request("session/resume", json!({"sessionId": session}));
}

#[test]
fn the_end_of_input_ends_the_turn_and_its_processes() {
    let scratch = Scratch::new();
    scratch.script(SLEEPER);
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    server.answer_approvals("allow_once");
    server.turn(&session, "Sleep.");
    let pid = sleeper(&scratch, &mut server);
    assert_eq!(server.close(Duration::from_secs(6)).code(), Some(0));
    assert_ended(pid, Duration::from_secs(1));
    scratch.mark.assert_gone(&[], Duration::from_secs(1));
}

#[test]
fn a_termination_signal_is_an_end_like_any_other() {
    for signal in ["TERM", "INT"] {
        if signal == "INT" && !heeds_interrupts() {
            continue;
        }
        let scratch = Scratch::new();
        scratch.script(SLEEPER);
        let mut server = TestServer::open(&scratch);
        let session = server.create(&scratch, json!({}));
        server.answer_approvals("allow_once");
        server.turn(&session, "Sleep.");
        sleeper(&scratch, &mut server);
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &server.pid().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
        assert_eq!(
            server.exit(Duration::from_secs(6)).code(),
            Some(0),
            "{signal}"
        );
        scratch.mark.assert_gone(&[], Duration::from_secs(1));
    }
}

#[test]
fn the_death_of_the_parent_is_noticed_without_end_of_input() {
    let scratch = Scratch::new();
    // The shell is the server's parent; this test keeps the other ends of its pipes.
    let mut command = scratch.command("/bin/sh");
    command.args([
        "-c",
        "exec 3<&0; \"$0\" serve <&3 & echo $! > server.txt; wait",
        env!("CARGO_BIN_EXE_longshore"),
    ]);
    let mut parent = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = parent.stdin.take().unwrap();
    let mut stdout = BufReader::new(parent.stdout.take().unwrap());
    writeln!(stdin, "{}", json!({"id": 1, "method": "initialize", "params": {"protocolVersion": 1, "host": {"name": "e2e", "version": "1"}}})).unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let pid: u32 = scratch.read("server.txt").trim().parse().unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert_ended(pid, Duration::from_secs(6));
    scratch.mark.assert_gone(&[], Duration::from_secs(1));
    drop(stdin);
}

/// Plays the same turn twice, for a host that reads it and for one that does not until it is over; gives the server,
/// the session and by how much the most memory it ever took grew by the second.
fn unread_turn(scratch: &Scratch, script: &str) -> (TestServer, String, u64) {
    scratch.script(script);
    let mut server = TestServer::open(scratch);
    let session = server.create(scratch, json!({}));
    // What the model and the tools need is taken here already.
    let first = server.turn(&session, "Ready?");
    server.ended(&first);
    let before = peak_bytes(server.pid());
    server.pause();
    server.send(
        "turn/start",
        json!({"sessionId": session, "input": "Much."}),
    );
    // Only the journal can tell how far the turn is.
    let end = Instant::now() + DEADLINE;
    while journal(scratch, &session).matches("turn_ended").count() < 2 {
        assert!(
            Instant::now() < end,
            "the turn waits for its host: {}",
            journal(scratch, &session)
        );
        thread::sleep(Duration::from_millis(20));
    }
    let after = peak_bytes(server.pid());
    server.read_on();
    assert_eq!(server.event("turn/ended")["reason"], "completed");
    // Durable events are all there, once and in order.
    let seqs: Vec<u64> = server
        .seen()
        .iter()
        .filter_map(|message| message["params"]["seq"].as_u64())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let events = server.request(
        "session/events",
        json!({"sessionId": session, "limit": 200}),
    );
    assert_eq!(events["lastSeq"], seqs.len());
    (server, session, after - before)
}

#[test]
fn pieces_that_a_host_does_not_read_are_put_together() {
    let scratch = Scratch::new();
    let script = "defaults: {chunk: whole}\non_exhausted: loop\nturns: [{steps: [{repeat: {count: 100000, step: {text: \"0123456789012345678 \"}}}]}]";
    let (mut server, _, grown) = unread_turn(&scratch, script);
    assert!(grown <= 32 << 20, "grew by {} MiB", grown >> 20);
    let completed = server.event_where("message/completed", |params| params["turnId"] == "t2");
    let whole = completed["text"].as_str().unwrap();
    assert_eq!(whole.len(), 2_000_000);
    let mut text = String::new();
    let mut pieces = 0;
    for delta in server.seen().iter().filter(|message| {
        message["params"]["itemId"] == completed["itemId"]
            && message["params"].get("offset").is_some()
    }) {
        assert_eq!(delta["params"]["offset"], text.len());
        text.push_str(delta["params"]["text"].as_str().unwrap());
        pieces += 1;
    }
    assert!(
        text == whole && pieces < 50_000,
        "{pieces} pieces of {} bytes",
        text.len()
    );
}

#[test]
fn a_host_that_does_not_read_costs_no_memory_and_catches_up() {
    // Pieces of two calls by turns cannot be put together: some are dropped, and the place is marked.
    let scratch = Scratch::new();
    let content = "012345678 ".repeat(50_000);
    let script = format!(
        "on_exhausted: loop\nturns:\n  - steps:\n      - parallel:\n\
         {0}{{tool_call: {{name: Write, split: 50000, args: {{path: a.txt, content: \"{content}\"}}}}}}\n\
         {0}{{tool_call: {{name: Write, split: 50000, args: {{path: b.txt, content: \"{content}\"}}}}}}\n\
         {1}- steps: [{{text: Written.}}]\n",
        "          - ", "  "
    );
    let (mut server, session, grown) = unread_turn(&scratch, &script);
    assert!(grown <= 32 << 20, "grew by {} MiB", grown >> 20);
    assert_eq!(scratch.read("a.txt").len(), 500_000);
    let resync = server.event("resync");
    assert_eq!(resync["sessionId"], session.as_str());
    assert!(resync["fromSeq"].is_u64());
    let pieces = server
        .seen()
        .iter()
        .filter(|message| message["method"] == "tool/delta")
        .filter(|message| {
            ["call_3", "call_4"]
                .iter()
                .any(|call| message["params"]["toolCallId"] == *call)
        })
        .count();
    assert!((1..100_000).contains(&pieces), "{pieces}");
    let waited = server.request("turn/wait", json!({"sessionId": session, "turnId": "t2"}));
    assert_eq!(waited["text"], "Written.");
}

/// The text of a session's journal.
fn journal(scratch: &Scratch, session: &str) -> String {
    let sessions = scratch.longshore_home().join("sessions");
    fs::read_dir(sessions)
        .unwrap()
        .filter_map(|entry| {
            fs::read_to_string(entry.unwrap().path().join(session).join("journal.jsonl")).ok()
        })
        .collect()
}

#[test]
fn a_host_that_attaches_again_gets_what_it_missed() {
    let scratch = Scratch::new();
    scratch.script("turns: [{steps: [{tool_call: {name: AskUserQuestion, args: {questions: [{question: \"Go on?\", header: Go, options: [{label: Yes, description: y}, {label: No, description: n}]}]}}}]}, {steps: [{text: \"On.\"}]}]");
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    let turn = server.turn(&session, "Ask.");
    let request = server.wait("the question", |message| {
        message["method"] == "question/request"
    });
    let known = server
        .seen()
        .iter()
        .filter_map(|message| message["params"]["seq"].as_u64())
        .max()
        .unwrap();
    server.request("session/detach", json!({"sessionId": session}));
    let question = &request["params"]["questions"][0];
    let answers =
        json!({question["id"].as_str().unwrap(): {"optionIds": [question["options"][0]["id"]]}});
    let resolve = json!({"sessionId": session, "questionId": request["params"]["questionId"], "answers": answers});
    server.request("question/resolve", resolve);
    let waited = server.request("turn/wait", json!({"sessionId": session, "turnId": turn}));
    assert_eq!(waited["text"], "On.");
    let missed = |message: &Value| {
        message["params"]["seq"]
            .as_u64()
            .is_some_and(|seq| seq > known)
    };
    assert!(
        !server.seen().iter().any(missed),
        "a host that is not attached is told nothing"
    );

    let attached = server.request(
        "session/attach",
        json!({"sessionId": session, "afterSeq": known}),
    );
    assert!(attached.get("resync").is_none());
    let last = attached["lastSeq"].as_u64().unwrap();
    server.event_where("turn/ended", |params| params["turnId"] == turn.as_str());
    server.request("ping", json!({}));
    let got: Vec<u64> = server
        .seen()
        .iter()
        .filter(|message| missed(message))
        .filter_map(|message| message["params"]["seq"].as_u64())
        .collect();
    assert_eq!(
        got,
        (known + 1..=last).collect::<Vec<_>>(),
        "each once, in order"
    );

    for beyond in [last as i64 + 1, -1] {
        let attached = server.request(
            "session/attach",
            json!({"sessionId": session, "afterSeq": beyond}),
        );
        assert_eq!(attached["resync"], true, "{beyond}");
        assert_eq!(attached["snapshot"]["lastSeq"], last);
        assert_eq!(attached["snapshot"]["turns"][0]["turnId"], turn.as_str());
    }
    let error = server.refused(
        "session/attach",
        json!({"sessionId": session, "afterSeq": "soon"}),
    );
    assert_eq!(
        (&error["code"], &error["data"]["path"]),
        (&json!(-32602), &json!("/afterSeq"))
    );
}

#[test]
fn a_host_that_cannot_answer_stops_nobody() {
    let script = r#"
turns:
  - steps: [{tool_call: {name: Bash, args: {command: "touch x", description: "Touch"}}}]
  - steps: [{text: "Not done."}]
"#;
    // It says that it does not know the request.
    let scratch = Scratch::new();
    scratch.script(script);
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    server.answer(|_, _| Answer::Error(-32601));
    let turn = server.turn(&session, "Touch.");
    assert_eq!(server.ended(&turn)["reason"], "completed");
    assert_eq!(server.event("tool/completed")["isError"], true);
    drop(server);

    // It says nothing at all.
    let config = fs::read_to_string(scratch.longshore_home().join("config.toml")).unwrap();
    scratch.configure(&format!("{config}[permission]\napproval_timeout_s = 1\n"));
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    server.answer(|_, _| Answer::Silence);
    let turn = server.turn(&session, "Touch.");
    assert_eq!(server.ended(&turn)["reason"], "completed");
    assert_eq!(server.event("approval/resolved")["outcome"], "expired");
    let request = server.wait("the request", |message| {
        message["method"] == "approval/request"
    });
    let withdrawn = server.wait("its end", |message| message["method"] == "$/cancelRequest");
    assert_eq!(withdrawn["params"]["id"], request["id"]);
    drop(server);

    // It never said that it could.
    let mut server = TestServer::start(&scratch);
    server.initialize(json!({}));
    let session = server.create(&scratch, json!({}));
    let turn = server.turn(&session, "Touch.");
    assert_eq!(server.ended(&turn)["reason"], "completed");
    assert!(
        !server
            .seen()
            .iter()
            .any(|message| message["method"] == "approval/request")
    );
    assert!(!scratch.file("x").exists());
}
