//! Tasks in the background, as hosts and models come to know of them.

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Scratch, TestServer};

/// A command that goes on until the test writes the file `go`.
fn held(then: &str) -> String {
    format!("while [ ! -e go ]; do sleep 0.01; done; {then}")
}

/// A script whose first turn makes these calls, one a step; everything else is answered by `ok`.
fn script(scratch: &Scratch, calls: &[Value]) {
    let steps = calls
        .iter()
        .map(|call| json!({"steps": [{"tool_call": call}]}));
    let turns: Vec<Value> = steps.chain([json!({"steps": [{"text": "ok"}]})]).collect();
    scratch.script(&json!({"turns": turns, "on_exhausted": "repeat_last"}).to_string());
}

fn background(command: &str) -> Value {
    json!({"name": "Bash", "args": {
        "command": command,
        "run_in_background": true,
        "description": "the test's command",
    }})
}

fn open(scratch: &Scratch) -> (TestServer, String) {
    let mut server = TestServer::open(scratch);
    server.answer_approvals("allow_once");
    let session = server.create(scratch, json!({"mode": "yolo"}));
    (server, session)
}

/// The text that began a turn, or was added to one.
fn input(params: &Value) -> String {
    let parts = params["input"].as_array().unwrap();
    let texts = parts.iter().map(|part| part["text"].as_str().unwrap());
    texts.collect::<Vec<_>>().join("\n")
}

/// How often the model was told of the end of a task: by a notice, or by what a call returned.
fn n_told(seen: &[Value], task: &str) -> usize {
    let by_notice = format!("source_id=\"{task}\"");
    let by_wait = format!("---\ntask_id: {task}\n");
    seen.iter()
        .filter(|message| match message["method"].as_str() {
            Some("turn/started" | "turn/steered") => input(&message["params"]).contains(&by_notice),
            Some("tool/completed") => {
                let output = message["params"]["output"][0]["text"].as_str();
                output.is_some_and(|text| {
                    text.starts_with("wait_status: ended") && text.contains(&by_wait)
                })
            }
            _ => false,
        })
        .count()
}

#[test]
fn a_command_in_the_background_is_told_in_a_turn_of_its_own() {
    let scratch = Scratch::new();
    script(&scratch, &[background(&held("echo boom >&2; exit 3"))]);
    let (mut server, session) = open(&scratch);
    let turn = server.turn(&session, "Go.");
    let task = server.event("task/started")["task"].clone();
    let id = task["taskId"].as_str().unwrap().to_owned();
    assert_eq!(
        (&task["status"], &task["kind"], &task["detached"]),
        (&json!("running"), &json!("process"), &json!(true))
    );
    server.ended(&turn);
    scratch.write("go", "");
    let ended = server.event("task/ended");
    assert_eq!(
        (
            &ended["task"]["status"],
            &ended["task"]["exitCode"],
            &ended["tail"]
        ),
        (&json!("failed"), &json!(3), &json!("boom\n"))
    );
    let log = ended["task"]["outputPath"].as_str().unwrap();
    assert_eq!(fs::read_to_string(log).unwrap(), "boom\n");
    let told = server.event_where("turn/started", |params| params["origin"] == "task");
    let text = input(&told);
    for part in [
        "type=\"task.failed\"",
        "exit_code: 3\n",
        "duration_ms: ",
        "\nboom\n",
        log,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    server.ended(told["turnId"].as_str().unwrap());
    assert_eq!(n_told(server.seen(), &id), 1);
    let listed = server.request("task/list", json!({"sessionId": session}));
    assert_eq!(listed["items"][0]["taskId"], id.as_str());
    let active = server.request(
        "task/list",
        json!({"sessionId": session, "activeOnly": true}),
    );
    assert_eq!(active["items"], json!([]));
    let over = server.refused("task/stop", json!({"sessionId": session, "taskId": id}));
    assert_eq!(over["data"]["kind"], "task_finished");
}

#[test]
fn what_a_wait_returns_is_not_told_again() {
    let scratch = Scratch::new();
    let mut calls: Vec<Value> = (0..5)
        .map(|n| background(&held(&format!("echo {n}"))))
        .collect();
    calls.extend((0..5).map(|_| json!({"name": "WaitFor", "args": {"timeout": 60}})));
    script(&scratch, &calls);
    let (mut server, session) = open(&scratch);
    let turn = server.turn(&session, "Go.");
    let ids: Vec<String> = (0..5)
        .map(|_| {
            let task = server.event("task/started")["task"].clone();
            task["taskId"].as_str().unwrap().to_owned()
        })
        .collect();
    server.event_where("tool/started", |params| params["name"] == "WaitFor");
    scratch.write("go", "");
    server.ended(&turn);
    // Whatever still were to be told would join the next turn.
    for _ in 0..2 {
        let turn = server.turn(&session, "And?");
        server.ended(&turn);
    }
    for id in &ids {
        assert_eq!(n_told(server.seen(), id), 1, "{id}");
    }
    let by_engine = server.seen().iter().filter(|message| {
        message["method"] == "turn/started" && message["params"]["origin"] == "task"
    });
    assert_eq!(by_engine.count(), 0);
}

#[test]
fn a_host_lets_a_command_go_follows_it_and_ends_it() {
    let scratch = Scratch::new();
    let command = format!("echo first; {}", held("echo second; exec sleep 600"));
    let call = json!({"name": "Bash", "args": {"command": command}});
    script(&scratch, &[call]);
    let (mut server, session) = open(&scratch);
    let turn = server.turn(&session, "Go.");
    server.event("tool/progress");
    let active = server.request(
        "task/list",
        json!({"sessionId": session, "activeOnly": true}),
    );
    let task = active["items"][0].clone();
    assert_eq!(task["detached"], false);
    let of_it = json!({"sessionId": session, "taskId": task["taskId"]});
    let detached = server.request("task/detach", of_it.clone());
    assert_eq!(detached["task"]["detached"], true);
    let completed = server.event("tool/completed");
    let output = completed["output"][0]["text"].as_str().unwrap();
    assert!(
        completed["isError"] == false && output.contains("first"),
        "{completed}"
    );
    server.ended(&turn);
    let read = |offset: u64| json!({"sessionId": session, "taskId": task["taskId"], "offset": offset, "wait": 60_000});
    let first = server.request("task/output", read(0));
    assert_eq!(
        (&first["text"], &first["eof"]),
        (&json!("first\n"), &json!(false))
    );
    let waiting = server.send("task/output", read(6));
    scratch.write("go", "");
    let second = server.reply(&waiting).unwrap();
    assert_eq!(second["text"], "second\n");
    let stopped = server.request("task/stop", of_it);
    assert_eq!(
        (&stopped["task"]["status"], &stopped["task"]["stopReason"]),
        (&json!("killed"), &json!("stopped by user"))
    );
    let rest = server.request("task/output", read(13));
    assert_eq!((&rest["text"], &rest["eof"]), (&json!(""), &json!(true)));
    let told = server.event_where("turn/started", |params| params["origin"] == "task");
    assert!(input(&told).contains("reason: stopped by user"), "{told}");
    server.ended(told["turnId"].as_str().unwrap());
}

/// Resumes a session and gives what its next turn is told outside the user's words.
fn next_turn_is_told(scratch: &Scratch, session: &str) -> (Vec<String>, Vec<Value>) {
    let mut server = TestServer::open(scratch);
    server.request("session/resume", json!({"sessionId": session}));
    let turn = server.turn(session, "And now?");
    server.ended(&turn);
    let seen = server.seen().to_vec();
    let told = seen
        .iter()
        .filter(|message| message["method"] == "turn/steered")
        .map(|message| input(&message["params"]))
        .collect();
    let n_begun = seen
        .iter()
        .filter(|message| message["method"] == "turn/started")
        .count();
    assert_eq!(n_begun, 1, "a restart begins no turn");
    (told, seen)
}

#[test]
fn what_ends_with_its_session_is_told_once_when_that_goes_on() {
    let scratch = Scratch::new();
    script(
        &scratch,
        &[background("exec sleep 600"), background("exec sleep 600")],
    );
    let (mut server, session) = open(&scratch);
    let turn = server.turn(&session, "Go.");
    server.ended(&turn);
    assert_eq!(server.close(Duration::from_secs(60)).code(), Some(0));
    scratch.mark.assert_gone(&[], Duration::from_secs(5));
    let (told, _) = next_turn_is_told(&scratch, &session);
    assert_eq!(told.len(), 1, "one message: {told:?}");
    assert_eq!(
        told[0].matches("the session was closed").count(),
        2,
        "{told:?}"
    );
    let (told, _) = next_turn_is_told(&scratch, &session);
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn what_a_killed_server_left_is_lost_once() {
    let scratch = Scratch::new();
    script(&scratch, &[background("echo begun; exec sleep 600")]);
    let (mut server, session) = open(&scratch);
    let turn = server.turn(&session, "Go.");
    let id = server.event("task/started")["task"]["taskId"].clone();
    server.ended(&turn);
    server.kill();
    let (told, seen) = next_turn_is_told(&scratch, &session);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("type=\"task.lost\""), "{told:?}");
    let ended: Vec<&Value> = seen
        .iter()
        .filter(|message| message["method"] == "task/ended")
        .map(|message| &message["params"]["task"]["taskId"])
        .collect();
    assert!(ended.len() <= 1 && ended.iter().all(|ended| **ended == id));
    scratch.mark.assert_gone(&[], Duration::from_secs(5));
    let (told, _) = next_turn_is_told(&scratch, &session);
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn kept_alive_it_outlives_servers_and_is_told_with_its_real_end() {
    let scratch = Scratch::new();
    script(&scratch, &[background(&held("echo over; exit 7"))]);
    scratch.configure_more("[task]\nkeep_alive_on_exit = true\n");
    let (mut server, session) = open(&scratch);
    let turn = server.turn(&session, "Go.");
    let begun = server.event("task/started")["task"].clone();
    server.ended(&turn);
    let of_task = json!({"sessionId": session, "taskId": begun["taskId"]});

    // An orderly end leaves it alone, a kill too.
    assert_eq!(server.close(Duration::from_secs(60)).code(), Some(0));
    let mut server = TestServer::open(&scratch);
    server.request("session/resume", json!({"sessionId": session}));
    server.kill();
    let mut server = TestServer::open(&scratch);
    server.request("session/resume", json!({"sessionId": session}));
    let now = server.request("task/get", of_task)["task"].clone();
    assert_eq!(
        (&now["status"], &now["pid"], &now["startedAt"]),
        (&json!("running"), &begun["pid"], &begun["startedAt"])
    );
    scratch.write("go", "");
    let ended = server.event("task/ended")["task"].clone();
    assert_eq!(
        (&ended["taskId"], &ended["status"], &ended["exitCode"]),
        (&begun["taskId"], &json!("failed"), &json!(7))
    );
    let told = server.event("turn/started");
    assert!(input(&told).contains("exit_code: 7") && input(&told).contains("over"));
    server.ended(told["turnId"].as_str().unwrap());
    assert_eq!(n_told(server.seen(), begun["taskId"].as_str().unwrap()), 1);
    assert_eq!(server.close(Duration::from_secs(60)).code(), Some(0));
    scratch.mark.assert_gone(&[], Duration::from_secs(20));
}

#[test]
fn a_crowd_of_tasks_is_told_once_each_in_few_turns() {
    let n = if std::env::var_os("LONGSHORE_TEST_SCALE").is_some() {
        1000
    } else {
        200
    };
    let scratch = Scratch::new();
    // Each waits for a line at the gate, so that all of them end together.
    let call = json!({"tool_call": background("read line < gate; sleep 0.01")});
    let turns = json!([{"steps": vec![call; n]}, {"steps": [{"text": "ok"}]}]);
    scratch.script(&json!({"turns": turns, "on_exhausted": "repeat_last"}).to_string());
    scratch.configure_more(&format!("[task]\nmax_running = {n}\n"));
    let (mut server, session) = open(&scratch);
    let gate = scratch.file("gate");
    let made = scratch.command("mkfifo").arg(&gate).status().unwrap();
    assert!(made.success());
    let turn = server.turn(&session, "Go.");
    server.ended(&turn);
    let mut gate = fs::OpenOptions::new().write(true).open(gate).unwrap();
    gate.write_all(&vec![b'\n'; n]).unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..n {
        let ended = server.event("task/ended")["task"].clone();
        assert_eq!(ended["status"], "completed", "{ended}");
        ids.insert(ended["taskId"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), n);
    loop {
        let got = server.request("session/get", json!({"sessionId": session}));
        let left = &got["pending"];
        if (&left["tasks"], &left["notices"], &left["turns"]) == (&json!(0), &json!(0), &json!(0)) {
            break;
        }
        server.event_where("turn/ended", |_| true);
    }
    let mut told = Vec::new();
    let mut n_turns = 0;
    for message in server.seen() {
        if let Some("turn/started" | "turn/steered") = message["method"].as_str() {
            n_turns += usize::from(message["method"] == "turn/started");
            let text = input(&message["params"]);
            let of_notice = |piece: &str| piece.split('"').next().unwrap().to_owned();
            told.extend(text.split(" source_id=\"").skip(1).map(of_notice));
        }
    }
    assert!(n_turns <= 3, "the user's and {} more", n_turns - 1);
    assert_eq!(told.len(), n, "each once");
    assert_eq!(
        told.into_iter().collect::<std::collections::BTreeSet<_>>(),
        ids
    );
}

#[test]
fn the_users_own_command_needs_no_turn() {
    let scratch = Scratch::new();
    script(&scratch, &[]);
    let (mut server, session) = open(&scratch);
    let run = |command: &str| json!({"sessionId": session, "command": command, "commandId": "c1"});
    let done = server.request(
        "shell/run",
        run("cat greeting.txt; echo 'task_id: 1'; exit 3"),
    );
    assert_eq!(
        (&done["commandId"], &done["exitCode"], &done["taskId"]),
        (&json!("c1"), &json!(3), &Value::Null)
    );
    assert!(done["stdout"].as_str().unwrap().ends_with("task_id: 1\n"));
    server.event("shell/started");
    assert_eq!(server.event("shell/ended")["isError"], true);
    let running = server.send("shell/run", run("echo begun; exec sleep 600"));
    server.event_where("shell/output", |params| params["text"] == "begun\n");
    let of_it = json!({"sessionId": session, "commandId": "c1"});
    let cancelled = server.request("shell/cancel", of_it.clone());
    assert_eq!(cancelled["cancelled"], true);
    let ended = server.reply(&running).unwrap();
    assert!(
        ended["stderr"]
            .as_str()
            .unwrap()
            .contains("interrupted by user"),
        "{ended}"
    );
    assert_eq!(server.request("shell/cancel", of_it)["cancelled"], false);
    assert!(!server.event_names(&session).contains(&"turn/started"));
}
