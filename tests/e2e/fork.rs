//! Sessions made from sessions.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Scratch, TestServer};

const ECHOES: &str = "turns: [{steps: [{text: \"{{last_user}} it is.\"}]}]\non_exhausted: loop";

fn say(server: &mut TestServer, session: &str, words: &str) -> String {
    let turn = server.turn(session, words);
    server.ended(&turn);
    turn
}

fn transcript(server: &mut TestServer, session: &str) -> Vec<Value> {
    let page = server.request(
        "session/transcript",
        json!({"sessionId": session, "limit": 200}),
    );
    page["items"].as_array().unwrap().clone()
}

/// Makes a fork and gives its id.
fn fork(server: &mut TestServer, session: &str, more: Value) -> String {
    let mut params = json!({"sessionId": session});
    let members = params.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    let forked = server.request("session/fork", params);
    assert_eq!(forked["session"]["parentSessionId"], session);
    forked["session"]["sessionId"].as_str().unwrap().to_owned()
}

fn dir_of(scratch: &Scratch, session: &str) -> PathBuf {
    let keys = fs::read_dir(scratch.longshore_home().join("sessions")).unwrap();
    keys.map(|key| key.unwrap().path().join(session))
        .find(|dir| dir.is_dir())
        .unwrap()
}

fn journal(scratch: &Scratch, session: &str) -> Vec<u8> {
    fs::read(dir_of(scratch, session).join("journal.jsonl")).unwrap()
}

#[test]
fn a_fork_has_the_turns_up_to_the_one_that_is_named() {
    let scratch = Scratch::new();
    scratch.script(ECHOES);
    let mut server = TestServer::open(&scratch);
    let mut watcher = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"metadata": {"k": 1}}));
    for n in 1..=10 {
        say(&mut server, &session, &format!("word{n}"));
    }
    // What does not count any more does not go along.
    server.request("session/undo", json!({"sessionId": session, "turns": 2}));
    say(&mut server, &session, "word11");
    let (before, original) = (
        journal(&scratch, &session),
        transcript(&mut server, &session),
    );
    let forked = server.request(
        "session/fork",
        json!({"sessionId": session, "turnId": "t6", "title": "Six"}),
    );
    let six = forked["session"]["sessionId"].as_str().unwrap().to_owned();
    let created = server.event_where("session/created", |params| {
        params["session"]["sessionId"] == six.as_str()
    });
    assert_eq!(created["session"], forked["session"]);
    let expected = json!({"title": "Six", "turnCount": 6, "lastPrompt": "word6", "metadata": {"k": 1}, "status": "idle"});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(forked["session"][name], *value, "{name}");
    }
    assert_eq!(transcript(&mut server, &six)[..], original[..6]);
    assert_eq!(
        journal(&scratch, &session),
        before,
        "the other is untouched"
    );

    // It is attached to its maker, goes on by itself, and numbers go on where they were.
    assert_eq!(say(&mut server, &six, "word12"), "t7");
    assert!(
        scratch
            .sent()
            .join("|")
            .ends_with("word6|word6 it is.|word12")
    );
    let events = server.request("session/events", json!({"sessionId": six, "limit": 200}));
    let items = events["items"].as_array().unwrap();
    let numbers: Vec<u64> = items
        .iter()
        .map(|event| event["params"]["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    for event in items {
        assert_eq!(event["params"]["sessionId"], six.as_str());
    }
    let whole = fork(&mut server, &session, json!({}));
    let turns = transcript(&mut server, &whole);
    assert_eq!(turns[..], original[..]);
    assert_eq!(turns.last().unwrap()["turnId"], "t11");

    for (turn, kind) in [("t9", "turn_not_found"), ("t99", "turn_not_found")] {
        let params = json!({"sessionId": session, "turnId": turn});
        assert_eq!(server.refused("session/fork", params)["data"]["kind"], kind);
    }
    let missing = server.refused(
        "session/fork",
        json!({"sessionId": session, "cwd": "/no/such"}),
    );
    assert_eq!(missing["data"]["path"], "/cwd");

    // Another process may make one of a session that is in use.
    let there = watcher.request(
        "session/fork",
        json!({"sessionId": session, "turnId": "t1"}),
    );
    assert_eq!(there["session"]["turnCount"], 1);
    let found = watcher
        .request("session/list", json!({"text": "word5"}))
        .to_string();
    assert!(found.contains(&six) && found.contains(&whole), "{found}");
    server.kill();

    // What it knows is what its own journal says.
    server = TestServer::open(&scratch);
    server.request("session/resume", json!({"sessionId": six}));
    assert_eq!(transcript(&mut server, &six).len(), 7);
    assert_eq!(say(&mut server, &six, "word13"), "t8");
    assert!(
        scratch
            .sent()
            .join("|")
            .ends_with("word12|word12 it is.|word13")
    );
    assert!(
        !scratch
            .longshore_home()
            .join("run/aside")
            .join(&six)
            .exists()
    );
}

#[test]
fn a_fork_of_a_running_session_ends_with_the_last_turn_that_has_ended() {
    let scratch = Scratch::new();
    scratch.script(
        r"
turns:
  - choose:
      - when: {last_user: Two}
        steps: [{tool_call: {name: Bash, args: {command: sleep 100}}}]
      - steps: [{text: ok}]
on_exhausted: loop
",
    );
    let mut server = TestServer::open(&scratch);
    server.answer_approvals("allow_once");
    let session = server.create(&scratch, json!({}));
    say(&mut server, &session, "One");
    let running = server.turn(&session, "Two");
    server.event("tool/running");
    let refused = server.refused(
        "session/fork",
        json!({"sessionId": session, "turnId": running}),
    );
    assert_eq!(refused["data"]["kind"], "session_busy", "{refused}");
    let forked = fork(&mut server, &session, json!({}));
    assert_eq!(transcript(&mut server, &forked).len(), 1);
    let turn = say(&mut server, &forked, "Three");
    assert_eq!(turn, "t2");
    assert_eq!(scratch.sent(), ["One", "ok", "Three"]);
    // The other one runs on.
    let status = server.request("session/get", json!({"sessionId": session}));
    assert_eq!(status["session"]["status"], "running");
    server.request("turn/cancel", json!({"sessionId": session}));
    server.ended(&running);
}

#[test]
fn grants_and_running_tasks_stay_behind_and_jobs_come_paused() {
    let scratch = Scratch::new();
    scratch.script(
        r#"
turns:
  - steps: [{tool_call: {name: Bash, args: {command: "echo granted"}}}]
  - steps: [{text: ok}]
  - steps: [{tool_call: {name: Bash, args: {command: "echo done", run_in_background: true, description: short}}}]
  - steps: [{tool_call: {name: WaitFor, args: {timeout: 60}}}]
  - steps: [{tool_call: {name: Bash, args: {command: "sleep 100", run_in_background: true, description: long}}}]
  - steps: [{tool_call: {name: TodoList, args: {todos: [{title: t, status: pending}]}}}]
  - steps: [{text: ok}]
  - steps: [{tool_call: {name: Bash, args: {command: "echo granted"}}}]
  - steps: [{text: ok}]
on_exhausted: repeat_last
"#,
    );
    let mut server = TestServer::open(&scratch);
    server.answer_approvals("allow_session");
    let session = server.create(&scratch, json!({}));
    say(&mut server, &session, "One");
    let job = json!({"sessionId": session, "cron": "0 9 * * *", "prompt": "Look."});
    server.request("cron/create", job);
    say(&mut server, &session, "Two");
    let tasks = server.request("task/list", json!({"sessionId": session}));
    assert_eq!(tasks["items"].as_array().unwrap().len(), 2, "{tasks}");

    let forked = fork(&mut server, &session, json!({}));
    let tasks = server.request("task/list", json!({"sessionId": forked}));
    let tasks = tasks["items"].as_array().unwrap();
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    assert_eq!(tasks[0]["description"], "short");
    let path = Path::new(tasks[0]["outputPath"].as_str().unwrap());
    assert!(path.starts_with(dir_of(&scratch, &forked)), "{path:?}");
    let output = server.request(
        "task/output",
        json!({"sessionId": forked, "taskId": tasks[0]["taskId"]}),
    );
    assert_eq!(output["text"], "done\n");
    let jobs = server.request("cron/list", json!({"sessionId": forked}));
    assert_eq!(jobs["items"][0]["paused"], "forked");
    let jobs = server.request("cron/list", json!({"sessionId": session}));
    assert_eq!(jobs["items"][0]["paused"], Value::Null);
    let todos = server.request("todo/get", json!({"sessionId": forked}));
    assert_eq!(todos["todos"][0]["title"], "t");

    // What was allowed there is asked about here.
    let n_asked = |server: &TestServer| {
        let asked = server.seen().iter().filter(|message| {
            message["method"] == "approval/request" && message["params"]["sessionId"] == forked
        });
        asked.count()
    };
    assert_eq!(n_asked(&server), 0);
    say(&mut server, &forked, "Again");
    assert_eq!(n_asked(&server), 1);
    // Deleting the one leaves the other whole.
    server.request("session/delete", json!({"sessionId": session}));
    let output = server.request(
        "task/output",
        json!({"sessionId": forked, "taskId": tasks[0]["taskId"]}),
    );
    assert_eq!(output["text"], "done\n");
}

#[test]
fn a_fork_of_a_cleared_conversation_begins_after_that() {
    let scratch = Scratch::new();
    scratch.script(ECHOES);
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    say(&mut server, &session, "apple");
    server.request("session/clear", json!({"sessionId": session}));
    say(&mut server, &session, "pear");
    say(&mut server, &session, "plum");
    server.request("session/undo", json!({"sessionId": session}));
    let forked = fork(&mut server, &session, json!({}));
    assert_eq!(transcript(&mut server, &forked).len(), 1);
    say(&mut server, &forked, "fig");
    assert_eq!(scratch.sent(), ["pear", "pear it is.", "fig"]);
    // Its journal knows nothing of what was taken away there.
    let journal = String::from_utf8(journal(&scratch, &forked)).unwrap();
    for gone in ["plum", "session_cleared", "turns_undone", &session] {
        let lines: Vec<&str> = journal.lines().filter(|line| line.contains(gone)).collect();
        let in_head = lines.iter().filter(|line| line.contains("\"created\""));
        assert_eq!(lines.len(), in_head.count(), "{gone}: {lines:?}");
    }
}

/// Large values and long outputs are the fork's own.
#[test]
fn a_fork_needs_nothing_of_the_other_session() {
    let scratch = Scratch::new();
    scratch.script(
        "turns: [{steps: [{tool_call: {name: Bash, args: {command: \"seq 1 60000\"}}}]}, {steps: [{text: ok}]}]\non_exhausted: repeat_last",
    );
    let mut server = TestServer::open(&scratch);
    server.answer_approvals("allow_once");
    let session = server.create(&scratch, json!({}));
    let turn = server.turn(&session, &"long ".repeat(20_000));
    server.ended(&turn);
    let original = transcript(&mut server, &session);
    let forked = fork(&mut server, &session, json!({}));
    let (old, new) = (dir_of(&scratch, &session), dir_of(&scratch, &forked));
    assert!(fs::read_dir(new.join("blobs")).unwrap().count() > 0);
    server.request("session/delete", json!({"sessionId": session}));
    let text = serde_json::to_string(&original).unwrap();
    assert!(
        text.contains(old.to_str().unwrap()),
        "a long output names its file"
    );
    let moved = text.replace(old.to_str().unwrap(), new.to_str().unwrap());
    let copy = serde_json::to_string(&transcript(&mut server, &forked)).unwrap();
    assert_eq!(copy, moved);
}

/// Whenever the process dies, a fork is there as a whole or not at all, and the other session is as it was.
#[test]
fn a_kill_leaves_no_half_of_a_fork() {
    let scratch = Scratch::new();
    scratch.script("turns: [{steps: [{text: \"{{last_user}}\"}]}]\non_exhausted: loop");
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    for n in 0..20 {
        let turn = server.turn(&session, &format!("{n} {}", "long ".repeat(20_000)));
        server.ended(&turn);
    }
    server.request("session/close", json!({"sessionId": session}));
    drop(server);
    let before = journal(&scratch, &session);
    let mut server = TestServer::open(&scratch);
    let begun = Instant::now();
    fork(&mut server, &session, json!({}));
    let whole = begun.elapsed();
    drop(server);
    let mut n_made = 0;
    for n in 0..10 {
        let mut server = TestServer::open(&scratch);
        server.send("session/fork", json!({"sessionId": session}));
        // No message tells how far it is: any moment will do.
        std::thread::sleep(whole * n / 8);
        server.kill();
    }
    let mut server = TestServer::open(&scratch);
    let aside = scratch.longshore_home().join("run/aside");
    server.until("what was aside to be removed", || {
        fs::read_dir(&aside).map_or(true, |mut left| left.next().is_none())
    });
    let listed = server.request("session/list", json!({}));
    for there in listed["items"].as_array().unwrap() {
        let id = there["sessionId"].as_str().unwrap();
        assert_eq!(there["turnCount"], 20, "{there}");
        assert_eq!(transcript(&mut server, id).len(), 20);
        if id != session {
            n_made += 1;
            server.request("session/resume", json!({"sessionId": id}));
            assert_eq!(say(&mut server, id, "on"), "t21");
        }
    }
    assert_eq!(journal(&scratch, &session), before);
    assert!(n_made > 0, "the one that nobody killed is there");
}
