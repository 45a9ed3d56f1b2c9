//! A command that does all it can to stay: after whatever ends it, nothing of it is left.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::processes::peak_bytes;
use crate::support::{Scratch, TestServer};

/// How long the last of it may take to go: the grace, the rounds of KILL, and a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Says `ready.txt` when all of it runs: a shell, children and a grandchild that ignore TERM, one in a session of its
/// own, one that was forked twice, one that is stopped, holders of the output, and a crowd.
const TREE: &str = r#"
trap '' TERM
(trap '' TERM; sleep 600; sleep 600) &
setsid sh -c "trap '' TERM; sleep 600; sleep 600" &
(setsid sh -c 'sleep 600 & exec sleep 600' &)
(setsid sh -c 'sleep 600 & exec sleep 600' > /dev/null 2>&1 &)
sleep 600 & kill -STOP $!
for i in $(seq CROWD); do sleep 600 & done
echo > ready.tmp; mv ready.tmp ready.txt
"#;

/// A server whose command has started all of the tree. `last` is what its shell does then.
fn started(scratch: &Scratch, server: &mut TestServer, last: &str) -> (String, String) {
    let crowd = if std::env::var_os("LONGSHORE_TEST_SCALE").is_some() {
        "200"
    } else {
        "40"
    };
    scratch.write("tree.sh", TREE.replace("CROWD", crowd) + last);
    server.initialize(json!({"approvals": true}));
    let session = server.create(scratch, json!({}));
    server.answer_approvals("allow_once");
    let turn = server.turn(&session, "Go.");
    server.until("the tree to stand", || scratch.file("ready.txt").exists());
    (session, turn)
}

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.script(
        r#"
turns:
  - steps: [{tool_call: {name: Bash, args: {command: "bash tree.sh", description: "Grow", timeout: 300}}}]
  - steps: [{text: "Done."}]
"#,
    );
    scratch.configure_more("[task]\nkill_grace_ms = 500\n");
    scratch
}

#[test]
fn after_a_cancelled_turn() {
    let scratch = scratch();
    let mut server = TestServer::start(&scratch);
    let (session, turn) = started(&scratch, &mut server, "wait\n");
    server.request("turn/cancel", json!({"sessionId": session}));
    assert_eq!(server.ended(&turn)["reason"], "cancelled");
    scratch.mark.assert_gone(&[server.pid()], SOON);
}

#[test]
fn after_its_task_was_stopped() {
    let scratch = scratch();
    let mut server = TestServer::start(&scratch);
    let (session, turn) = started(&scratch, &mut server, "wait\n");
    // The call goes on as a task, and is ended as one.
    let of_session = json!({"sessionId": session});
    let running = server.request("task/list", of_session);
    let id = &running["items"][0]["taskId"];
    let of_task = json!({"sessionId": session, "taskId": id});
    server.request("task/detach", of_task.clone());
    assert_eq!(server.ended(&turn)["reason"], "completed");
    let stopped = server.request("task/stop", of_task);
    assert_eq!(stopped["task"]["status"], "killed", "{stopped}");
    scratch.mark.assert_gone(&[server.pid()], SOON);
}

#[test]
fn after_the_session_is_closed() {
    let scratch = scratch();
    let mut server = TestServer::start(&scratch);
    // The shell goes by itself, and leaves the others to the session.
    let (session, turn) = started(&scratch, &mut server, "exit 0\n");
    assert_eq!(server.ended(&turn)["reason"], "completed");
    server.request("session/close", json!({"sessionId": session}));
    scratch.mark.assert_gone(&[server.pid()], SOON);
}

#[test]
fn after_the_host_was_killed() {
    let scratch = scratch();
    // The shell is the server's parent. It dies without a word while the server's input stays open.
    let mut command = scratch.command("/bin/sh");
    let line = "exec 3<&0; \"$0\" serve <&3 & wait";
    command.args(["-c", line, env!("CARGO_BIN_EXE_longshore")]);
    let mut host = TestServer::spawn(&scratch, command);
    started(&scratch, &mut host, "wait\n");
    host.kill();
    scratch.mark.assert_gone(&[], SOON);
}

#[test]
fn after_the_server_was_asked_to_end() {
    let scratch = scratch();
    let mut server = TestServer::start(&scratch);
    started(&scratch, &mut server, "wait\n");
    let pid = Pid::from_raw(server.pid() as i32).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    server.exit(SOON);
    scratch.mark.assert_gone(&[], SOON);
}

#[test]
fn after_the_server_was_killed_and_started_again() {
    for last in ["wait\n", "exit 0\n"] {
        let scratch = scratch();
        let mut server = TestServer::start(&scratch);
        let (session, turn) = started(&scratch, &mut server, last);
        if last == "exit 0\n" {
            server.ended(&turn);
        }
        server.kill();
        let mut server = TestServer::open(&scratch);
        server.request("session/resume", json!({"sessionId": session}));
        scratch.mark.assert_gone(&[server.pid()], SOON);
    }
}

#[test]
fn a_flood_passes_through_without_staying() {
    let n_bytes: u64 = if std::env::var_os("LONGSHORE_TEST_SCALE").is_some() {
        1 << 30
    } else {
        96 << 20
    };
    let scratch = Scratch::new();
    let command = |n: u64| format!("yes 'twenty bytes of text' | head -c {n}");
    let call = |n: u64| {
        let command = command(n);
        format!(
            "  - steps: [{{tool_call: {{name: Bash, args: {{command: \"{command}\", timeout: 300}}}}}}]\n  - steps: [{{text: Done}}]\n"
        )
    };
    scratch.script(&format!("turns:\n{}{}", call(4 << 20), call(n_bytes)));
    scratch.configure_more("[shell]\noutput_kill_bytes = 0\n");
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"mode": "yolo"}));
    let mut run = || {
        let turn = server.turn(&session, "Go.");
        let completed = server.event("tool/completed");
        server.ended(&turn);
        (completed["output"].to_string(), peak_bytes(server.pid()))
    };
    // The first one takes what every such command takes.
    let (_, before) = run();
    let (output, after) = run();
    let expected = format!("output_size_bytes: {n_bytes}");
    assert!(output.contains(&expected), "{output}");
    let grown = after.saturating_sub(before);
    assert!(
        grown < 8 << 20,
        "{n_bytes} bytes took {grown} bytes of memory"
    );
}
