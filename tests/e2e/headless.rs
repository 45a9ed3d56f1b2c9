//! `longshore run` with work in the background: what it waits for, and what its end leaves.

use std::fs;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Scratch;

/// A first turn that begins this command in the background and says so; every further turn only says something.
fn script(scratch: &Scratch, command: &str) {
    let call = json!({"name": "Bash", "args": {
        "command": command,
        "run_in_background": true,
        "description": "the test's command",
    }});
    let turns = json!([
        {"steps": [{"tool_call": call}]},
        {"steps": [{"text": "Begun."}]},
        {"steps": [{"text": "Heard."}]},
    ]);
    scratch.script(&json!({"turns": turns, "on_exhausted": "repeat_last"}).to_string());
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(scratch: &Scratch, arguments: &[&str]) -> Ran {
    let Output {
        status,
        stdout,
        stderr,
    } = scratch
        .longshore()
        .args(["run", "--mode", "yolo", "-p", "Go."])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    scratch.mark.assert_gone(&[], Duration::from_secs(5));
    Ran {
        code: status.code(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

fn events(ran: &Ran, method: &str) -> Vec<Value> {
    ran.stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|message| message["method"] == method)
        .map(|mut message| message["params"].take())
        .collect()
}

#[test]
fn the_end_of_a_task_begins_a_turn() {
    let scratch = Scratch::new();
    script(&scratch, "sleep 0.3; echo one > made");
    let ran = run(&scratch, &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(ran.stdout, "Begun.\nHeard.\n");
    assert_eq!(scratch.read("made"), "one\n");

    script(&scratch, "sleep 0.3");
    let ran = run(&scratch, &["--output", "stream-json"]);
    assert_eq!(events(&ran, "turn/ended").len(), 2, "{}", ran.stdout);
    assert_eq!(events(&ran, "turn/started")[1]["origin"], "task");
    // Who waits for the end needs no other limit.
    let begun = events(&ran, "task/started");
    assert_eq!(begun[0]["task"]["timeoutMs"], Value::Null, "{begun:?}");

    script(&scratch, "sleep 0.3");
    let ran = run(&scratch, &["--output", "json"]);
    let last: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(last["text"], "Heard.");
}

#[test]
fn without_waiting_what_runs_is_ended() {
    let scratch = Scratch::new();
    script(&scratch, "sleep 60; echo one > made");
    let ran = run(&scratch, &["-c", "task.headless_mode=exit"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Begun.\n"));
    assert!(!scratch.file("made").exists());
}

#[test]
fn draining_waits_and_begins_no_turn() {
    let scratch = Scratch::new();
    script(&scratch, "sleep 0.5; echo one > made");
    let ran = run(
        &scratch,
        &["-c", "task.headless_mode=drain", "--output", "stream-json"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(scratch.read("made"), "one\n");
    assert_eq!(events(&ran, "turn/ended").len(), 1, "{}", ran.stdout);
    assert_eq!(events(&ran, "task/ended")[0]["task"]["status"], "completed");
}

#[test]
fn waiting_has_its_limits_and_says_so() {
    let scratch = Scratch::new();
    script(&scratch, "sleep 60");
    let ran = run(&scratch, &["-c", "task.headless_wait_ceiling_s=1"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Begun.\n"));
    assert!(
        ran.stderr.contains("headless_wait_ceiling_s") && ran.stderr.contains("tasks (1)"),
        "{}",
        ran.stderr
    );
    let ran = run(&scratch, &["-c", "task.headless_max_turns=1"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Begun.\n"));
    assert!(ran.stderr.contains("headless_max_turns"), "{}", ran.stderr);
}

#[test]
fn a_job_keeps_the_run_alive_until_it_has_fired() {
    let scratch = Scratch::new();
    let turns = json!([
        {"steps": [{"tool_call": {"name": "CronCreate", "args": {
            "cron": "1 10 30 11 *", "prompt": "Wake up.", "recurring": false, "timezone": "UTC",
        }}}]},
        {"steps": [{"text": "Planned."}]},
        {"steps": [{"text": "Awake."}]},
    ]);
    scratch.script(&json!({"turns": turns, "on_exhausted": "repeat_last"}).to_string());
    let clock = scratch.root().join("clock");
    let set = |now: &str| {
        let ms = now.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        fs::write(clock.with_extension("new"), ms.to_string()).unwrap();
        fs::rename(clock.with_extension("new"), &clock).unwrap();
    };
    set("2026-11-30T10:00:30Z");
    let mut child = scratch
        .longshore()
        .env("LONGSHORE_CLOCK_FILE", &clock)
        .args([
            "run",
            "--mode",
            "yolo",
            "-p",
            "Go.",
            "--output",
            "stream-json",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut origins = Vec::new();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    for line in lines {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match message["method"].as_str() {
            Some("turn/started") => origins.push(message["params"]["origin"].clone()),
            Some("turn/ended") if origins.len() == 1 => set("2026-11-30T10:01:00Z"),
            _ => {}
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(origins, ["user", "cron"]);
}
