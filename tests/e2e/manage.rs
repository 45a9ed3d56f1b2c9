//! Stored sessions from the command line, and runs that go on with one.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::{Scratch, TestServer};

const ECHOES: &str = "turns: [{steps: [{text: \"{{last_user}} it is.\"}]}]\non_exhausted: loop";

fn output(mut command: Command, arguments: &[&str]) -> Output {
    command.args(arguments).stdin(std::process::Stdio::null());
    command.output().unwrap()
}

/// Runs the binary to its end and gives what it printed.
#[track_caller]
fn longshore(scratch: &Scratch, arguments: &[&str]) -> String {
    let ran = output(scratch.longshore(), arguments);
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{arguments:?}: {stderr}");
    assert_eq!(stderr, "", "{arguments:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// The same where it fails: its exit code and what it complained of.
fn refused(scratch: &Scratch, arguments: &[&str]) -> (i32, String) {
    let ran = output(scratch.longshore(), arguments);
    let stderr = String::from_utf8(ran.stderr).unwrap();
    (ran.status.code().unwrap(), stderr)
}

fn run(scratch: &Scratch, arguments: &[&str]) -> Value {
    let mut all = vec!["run", "--output", "json"];
    all.extend(arguments);
    serde_json::from_str(&longshore(scratch, &all)).unwrap()
}

fn listed(scratch: &Scratch, arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["sessions", "list", "--json"];
    all.extend(arguments);
    let lines = longshore(scratch, &all);
    lines
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_run_goes_on_with_the_newest_session_of_its_directory_or_with_a_named_one() {
    let scratch = Scratch::new();
    scratch.script(ECHOES);
    let (code, complaint) = refused(&scratch, &["run", "--continue", "one"]);
    assert_eq!(code, 2, "{complaint}");
    assert!(complaint.contains("no session"), "{complaint}");
    let (code, complaint) = refused(&scratch, &["run", "--session", "nope", "one"]);
    assert_eq!(code, 2, "{complaint}");
    assert!(complaint.contains("session not found"), "{complaint}");

    let first = run(&scratch, &["apple"]);
    let second = run(&scratch, &["pear"]);
    assert_ne!(first["sessionId"], second["sessionId"]);
    let more = run(&scratch, &["--continue", "plum"]);
    assert_eq!(
        (&more["sessionId"], &more["turnId"], &more["text"]),
        (&second["sessionId"], &json!("t2"), &json!("plum it is."))
    );
    assert_eq!(scratch.sent(), ["pear", "pear it is.", "plum"]);
    let id = first["sessionId"].as_str().unwrap();
    let more = run(&scratch, &["--session", id, "fig", "--mode", "yolo"]);
    assert_eq!(
        (&more["sessionId"], &more["turnId"]),
        (&json!(id), &json!("t2"))
    );
    assert_eq!(scratch.sent(), ["apple", "apple it is.", "fig"]);
    assert_eq!(listed(&scratch, &["--text", "fig"])[0]["mode"], "yolo");

    // By another path it is the same directory, and another directory has none of it.
    let link = scratch.root().join("link");
    std::os::unix::fs::symlink(scratch.repository(), &link).unwrap();
    let more = run(
        &scratch,
        &["--continue", "--cwd", link.to_str().unwrap(), "lime"],
    );
    assert_eq!(more["sessionId"], id);
    let elsewhere = scratch.home();
    let (code, _) = refused(
        &scratch,
        &[
            "run",
            "--continue",
            "--cwd",
            elsewhere.to_str().unwrap(),
            "x",
        ],
    );
    assert_eq!(code, 2);
}

#[test]
fn sessions_are_looked_after_without_a_host() {
    let scratch = Scratch::new();
    scratch.script(ECHOES);
    assert_eq!(
        longshore(&scratch, &["sessions"]),
        "There are no sessions.\n"
    );
    let ids: Vec<String> = ["apple", "pear", "plum"]
        .iter()
        .map(|word| {
            run(&scratch, &[word])["sessionId"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let id = ids[0].as_str();
    run(&scratch, &["--session", id, "fig"]);
    let list = longshore(&scratch, &["sessions"]);
    let first = list.lines().next().unwrap();
    assert!(
        first.starts_with(id) && first.contains("2 turns  apple"),
        "{list}"
    );
    assert_eq!(listed(&scratch, &["--limit", "2"]).len(), 2);
    assert_eq!(
        listed(&scratch, &["--text", "PEAR"])[0]["sessionId"],
        ids[1].as_str()
    );
    let here = scratch.repository();
    assert_eq!(
        listed(&scratch, &["--cwd", here.to_str().unwrap()]).len(),
        3
    );
    assert_eq!(listed(&scratch, &["--cwd", "/"]).len(), 0);

    let shown = longshore(&scratch, &["sessions", "show", id]);
    for part in ["title: apple", "> apple", "apple it is.", "> fig"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    longshore(&scratch, &["sessions", "rename", id, "Fruit"]);
    assert_eq!(listed(&scratch, &["--text", "fruit"])[0]["sessionId"], id);
    let forked = longshore(&scratch, &["sessions", "fork", id, "t1"]);
    let shown = longshore(&scratch, &["sessions", "show", forked.trim()]);
    assert!(shown.contains(&format!("fork of: {id}")), "{shown}");
    assert!(
        shown.contains("> apple") && !shown.contains("> fig"),
        "{shown}"
    );

    longshore(&scratch, &["sessions", "archive", &ids[1], &ids[2]]);
    assert_eq!(listed(&scratch, &[]).len(), 2);
    assert_eq!(listed(&scratch, &["--archived"]).len(), 2);
    longshore(&scratch, &["sessions", "unarchive", &ids[1]]);
    // What can be done is done.
    let ran = output(
        scratch.longshore(),
        &["sessions", "delete", &ids[1], "nope", forked.trim()],
    );
    let (stdout, stderr) = (
        String::from_utf8(ran.stdout).unwrap(),
        String::from_utf8(ran.stderr).unwrap(),
    );
    assert_eq!(ran.status.code(), Some(1));
    assert_eq!(stdout.lines().count(), 2, "{stdout}");
    assert!(stderr.contains("session not found: nope"), "{stderr}");
    assert_eq!(listed(&scratch, &[]).len(), 1);

    // One that somebody has open is left alone, but can be looked at.
    let mut server = TestServer::open(&scratch);
    server.request("session/resume", json!({"sessionId": id}));
    for what in ["delete", "archive"] {
        let (code, complaint) = refused(&scratch, &["sessions", what, id]);
        assert_eq!(code, 1);
        let owner = format!("in use by process {}", server.pid());
        assert!(complaint.contains(&owner), "{complaint}");
    }
    longshore(&scratch, &["sessions", "show", id]);
    let exported = longshore(&scratch, &["export", id]);
    let zip = scratch.repository().join(format!("longshore-{id}.zip"));
    assert_eq!(Path::new(exported.lines().next().unwrap()), zip);
    assert!(zip.is_file());
    let (code, complaint) = refused(&scratch, &["export", id]);
    assert_eq!(code, 1);
    assert!(complaint.contains("there is a file already"), "{complaint}");
    longshore(&scratch, &["export", id, "-o", "other.zip"]);
    assert!(scratch.repository().join("other.zip").is_file());
}
