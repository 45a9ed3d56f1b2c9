//! What longshore started may not answer what longshore asks.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::daemon::{Daemon, until};
use crate::support::TestServer;
use crate::support::server::DEADLINE;

const SAYS_OK: &str = "turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last";

fn hello() -> Value {
    json!({"protocolVersion": 1, "host": {"name": "e2e", "version": "1"}, "capabilities": {"approvals": true}})
}

/// It is told why, and cut off.
fn assert_denied(host: &mut TestServer) {
    let early = host.refused("session/list", json!({}));
    assert_eq!(early["data"]["kind"], "not_initialized");
    let error = host.refused("initialize", hello());
    assert_eq!(
        (
            &error["code"],
            &error["data"]["kind"],
            &error["data"]["policy"]
        ),
        (&json!(-32016), &json!("denied"), &json!("self_approval"))
    );
    assert_eq!(host.exit(DEADLINE).code(), Some(0));
}

fn marked(mut command: Command) -> Command {
    command.env("LONGSHORE_TASK_ID", "bash-01234567");
    command
}

#[test]
fn a_bearer_of_a_tasks_mark_is_refused() {
    let at = Daemon::with_script(SAYS_OK);
    // It starts no daemon, which would be as its variables say.
    let attach = || TestServer::spawn(&at.scratch, marked(at.command(&["attach"])));
    assert_denied(&mut attach());
    assert!(!at.socket().exists());
    let refused = marked(at.command(&["daemon", "start"])).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(!at.socket().exists());
    // Nor does it stop one, or come in.
    let mut host = at.host();
    assert_denied(&mut attach());
    let refused = marked(at.command(&["daemon", "stop"])).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    // Shed by the bridge, borne by the shell that started it.
    let mut shell = marked(at.scratch.command("/bin/sh"));
    let line = "env -u LONGSHORE_TASK_ID \"$0\" attach; exit $?";
    shell.args(["-c", line, env!("CARGO_BIN_EXE_longshore")]);
    assert_denied(&mut TestServer::spawn(&at.scratch, shell));
    host.request("ping", json!({}));
}

#[test]
fn a_command_that_sheds_its_mark_does_not_stop_the_daemon() {
    // Alone in its shell, it takes the shell's place: nothing between it and the daemon bears the mark.
    let command = format!(
        "env -u LONGSHORE_TASK_ID {} daemon stop",
        env!("CARGO_BIN_EXE_longshore")
    );
    let call = json!({"tool_call": {"name": "Bash", "args": {"command": command, "timeout": 60}}});
    let script = json!({"turns": [{"steps": [call]}, {"steps": [{"text": "ok"}]}]});
    let at = Daemon::with_script(&script.to_string());
    let mut host = at.host();
    let session = host.create(&at.scratch, json!({"mode": "yolo"}));
    let turn = host.turn(&session, "Go.");
    let refused = host.event("tool/completed");
    assert!(
        refused
            .to_string()
            .contains("can't start or stop the daemon"),
        "{refused}"
    );
    assert_eq!(host.ended(&turn)["reason"], "completed");
}

/// What an approved command would do to approve the next one.
fn command_of_an_accomplice(attach: &str) -> Value {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello()});
    json!({"name": "Bash", "args": {"command": format!("echo '{hello}' | {attach} > answer"), "timeout": 60}})
}

#[test]
fn a_command_can_not_approve_the_next_one() {
    let bin = env!("CARGO_BIN_EXE_longshore");
    for attach in [
        format!("{bin} attach"),
        // Neither by shedding its mark, nor by leaving its group and its parent.
        format!("env -i HOME=$HOME LONGSHORE_HOME=$LONGSHORE_HOME {bin} attach"),
        format!("env -i HOME=$HOME LONGSHORE_HOME=$LONGSHORE_HOME setsid --fork {bin} attach"),
    ] {
        let call = json!({"steps": [{"tool_call": command_of_an_accomplice(&attach)}]});
        let script =
            json!({"turns": [call, {"steps": [{"text": "ok"}]}], "on_exhausted": "repeat_last"});
        let at = Daemon::with_script(&script.to_string());
        let mut host = at.host();
        let session = host.create(&at.scratch, json!({"mode": "yolo"}));
        let turn = host.turn(&session, "Go.");
        assert_eq!(host.ended(&turn)["reason"], "completed");
        let answer = at.scratch.file("answer");
        until("the answer", || {
            fs::read_to_string(&answer).is_ok_and(|text| text.ends_with('\n'))
        });
        let answer: Value =
            serde_json::from_str(fs::read_to_string(&answer).unwrap().lines().next().unwrap())
                .unwrap();
        assert_eq!(
            answer["error"]["data"]["policy"], "self_approval",
            "{attach}: {answer}"
        );
    }
}
