//! A coding turn over the native protocol, and the commands that play one.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::processes::assert_ended;
use crate::support::{Answer, Scratch, TestServer};

#[test]
fn a_turn_streams_asks_edits_and_ends() {
    let scratch = Scratch::new();
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"model": "demo"}));
    // One approval given, one refused.
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let record = asked.clone();
    server.answer(move |method, params| {
        assert_eq!(method, "approval/request");
        let command = params["input"]["command"].as_str().unwrap().to_owned();
        let option = if command.starts_with("git diff") {
            "allow_once"
        } else {
            "reject"
        };
        record.lock().unwrap().push(command);
        Answer::Result(json!({"optionId": option, "feedback": "not today"}))
    });

    let turn = server.turn(&session, "Play the demo.");
    let wait = server.send("turn/wait", json!({"sessionId": session, "turnId": turn}));
    let ended = server.ended(&turn);
    assert_eq!(ended["reason"], "completed", "{ended}");
    assert_eq!(ended["stopReason"], "endTurn");
    assert_eq!(
        *asked.lock().unwrap(),
        ["git diff --stat", "git push --force origin main"]
    );

    let blob = |text: &str| {
        scratch.write("blob", text);
        let hash = scratch.git(&["hash-object", "blob"]);
        std::fs::remove_file(scratch.file("blob")).unwrap();
        hash.trim().to_owned()
    };
    let (before, after) = (
        blob("Hello, wrold!\nGoodbye.\n"),
        blob("Hello, world!\nGoodbye.\n"),
    );
    assert_eq!(
        scratch.git(&["diff", "--full-index"]),
        format!(
            "diff --git a/greeting.txt b/greeting.txt\nindex {before}..{after} 100644\n--- a/greeting.txt\n\
             +++ b/greeting.txt\n@@ -1,2 +1,2 @@\n-Hello, wrold!\n+Hello, world!\n Goodbye.\n"
        )
    );
    assert_eq!(scratch.git(&["status", "--short"]), " M greeting.txt\n");

    let waited = server.reply(&wait).unwrap();
    assert_eq!(waited["reason"], "completed");
    let text = waited["text"].as_str().unwrap();
    assert!(text.starts_with("You refused the push"), "{text}");

    // The words came in pieces that make up the whole, each naming where it goes on.
    let mut items: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
    let mut complete = 0;
    for message in server.seen() {
        let params = &message["params"];
        let item = params["itemId"].as_str().unwrap_or_default();
        match message["method"].as_str() {
            Some("message/delta" | "thinking/delta") => {
                let so_far = items.entry(item).or_default();
                assert_eq!(params["offset"], so_far.len());
                so_far.push_str(params["text"].as_str().unwrap());
            }
            Some("message/completed" | "thinking/completed") => {
                assert_eq!(items[item], params["text"].as_str().unwrap());
                complete += 1;
            }
            _ => {}
        }
    }
    assert!(
        complete > 5 && items.len() == complete,
        "{complete} complete of {}",
        items.len()
    );
}

#[test]
fn events_come_in_their_order() {
    let scratch = Scratch::new();
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"model": "demo"}));
    server.answer_approvals("allow_once");
    let turn = server.turn(&session, "Play the demo.");
    server.ended(&turn);
    server.event_where("session/status", |params| params["status"] == "idle");

    // Numbers without gaps.
    let seqs: Vec<u64> = server
        .seen()
        .iter()
        .filter_map(|message| message["params"]["seq"].as_u64())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());

    let place = |wanted: &dyn Fn(&Value) -> bool| server.seen().iter().position(wanted).unwrap();
    let replied = |field: &str| place(&|message| message["result"].get(field).is_some());
    let event = |name: &str| place(&|message| message["method"] == name);
    assert!(
        replied("session") < event("session/status") && replied("turnId") < event("turn/started")
    );
    let call = |name: &str, command: &str| {
        let started = server
            .seen()
            .iter()
            .find(|message| {
                message["method"] == "tool/started"
                    && message["params"]["input"]["command"] == command
            })
            .unwrap();
        let id = &started["params"]["toolCallId"];
        place(&|message| message["method"] == name && message["params"]["toolCallId"] == *id)
    };
    let order = [
        call("tool/started", "git diff --stat"),
        call("approval/requested", "git diff --stat"),
        call("approval/request", "git diff --stat"),
        call("tool/running", "git diff --stat"),
        call("tool/completed", "git diff --stat"),
        event("turn/ended"),
    ];
    assert!(order.is_sorted(), "{order:?}");
    let after_end = &server.event_names(&session)[..];
    let end = after_end
        .iter()
        .position(|name| *name == "turn/ended")
        .unwrap();
    let later = &after_end[end + 1..];
    assert!(
        later.iter().all(|name| name.starts_with("session/")),
        "after the end of the turn: {later:?}"
    );
}

#[test]
fn a_refused_command_does_not_run() {
    let scratch = Scratch::new();
    scratch.script(
        r#"
turns:
  - steps: [{tool_call: {name: Bash, args: {command: "touch refused.txt", description: "Touch"}}}]
  - expect: {tool_failed: true}
    steps: [{tool_call: {name: Bash, args: {command: "touch allowed.txt", description: "Touch"}}}]
  - expect: {tool_failed: false}
    steps: [{text: "Done."}]
"#,
    );
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    server.answer(|_, params| {
        let refuse = params["input"]["command"] == "touch refused.txt";
        Answer::Result(json!({"decision": if refuse { "reject" } else { "allow" }, "feedback": "use the other name"}))
    });
    let turn = server.turn(&session, "Touch.");
    let ended = server.ended(&turn);
    assert_eq!(ended["reason"], "completed", "{ended}");
    assert!(!scratch.file("refused.txt").exists());
    assert!(scratch.file("allowed.txt").exists());
    let refused = server.event_where("tool/completed", |params| params["isError"] == true);
    assert!(
        refused["output"].to_string().contains("use the other name"),
        "the model is told: {refused}"
    );
    let never_ran = server.seen().iter().all(|message| {
        message["method"] != "tool/running"
            || message["params"]["toolCallId"] != refused["toolCallId"]
    });
    assert!(never_ran);
}

#[test]
fn an_answer_for_the_session_holds_for_the_same_command() {
    let scratch = Scratch::new();
    scratch.script(
        r#"
turns:
  - steps: [{tool_call: {name: Bash, args: {command: "echo one >> log.txt", description: "Log"}}}]
  - steps: [{tool_call: {name: Bash, args: {command: "echo one >> log.txt", description: "Log"}}}]
  - steps: [{text: "Done."}]
"#,
    );
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    server.answer_approvals("allow_session");
    let turn = server.turn(&session, "Log twice.");
    assert_eq!(server.ended(&turn)["reason"], "completed");
    assert_eq!(scratch.read("log.txt"), "one\none\n");
    let asked: Vec<&Value> = server
        .seen()
        .iter()
        .filter(|message| message["method"] == "approval/request")
        .collect();
    assert_eq!(asked.len(), 1);
    let offered = asked[0]["params"]["options"].as_array().unwrap();
    let session_option = offered
        .iter()
        .find(|option| option["optionId"] == "allow_session")
        .unwrap();
    assert!(
        session_option["rule"]
            .as_str()
            .unwrap()
            .contains("echo one >> log.txt"),
        "{session_option}"
    );
}

#[test]
fn a_cancelled_turn_leaves_no_process() {
    let scratch = Scratch::new();
    scratch.script(SLEEPER);
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    server.answer_approvals("allow_once");
    let turn = server.turn(&session, "Sleep.");
    let pid = sleeper(&scratch, &mut server);
    let asked = Instant::now();
    assert_eq!(
        server.request("turn/cancel", json!({"sessionId": session})),
        json!({"cancelled": true})
    );
    let ended = server.ended(&turn);
    assert_eq!(
        (&ended["reason"], &ended["stopReason"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    assert!(
        asked.elapsed() < Duration::from_secs(4),
        "{:?}",
        asked.elapsed()
    );
    assert_ended(pid, Duration::from_secs(8));
    scratch
        .mark
        .assert_gone(&[server.pid()], Duration::from_secs(8));
    assert_eq!(
        server.request("turn/cancel", json!({"sessionId": session})),
        json!({"cancelled": false})
    );
    // The session goes on.
    let turn = server.turn(&session, "Still there?");
    assert_eq!(server.ended(&turn)["reason"], "completed");
}

/// A command that says its process's id in `pid.txt` and then runs until it is stopped, with a child of its own.
pub(crate) const SLEEPER: &str = r#"
turns:
  - steps: [{tool_call: {name: Bash, args: {command: "sleep 300 & echo $$ > pid.tmp; mv pid.tmp pid.txt; wait", description: "Sleep", timeout: 300}}}]
  - steps: [{text: "Awake."}]
"#;

/// Waits for the process of [`SLEEPER`], answering the server meanwhile.
pub(crate) fn sleeper(scratch: &Scratch, server: &mut TestServer) -> u32 {
    server.until("the command to start", || scratch.file("pid.txt").exists());
    sleeper_pid(scratch)
}

/// The process of [`SLEEPER`], which has started.
pub(crate) fn sleeper_pid(scratch: &Scratch) -> u32 {
    scratch.read("pid.txt").trim().parse().unwrap()
}

#[test]
fn every_tool_and_every_argument_is_described() {
    let scratch = Scratch::new();
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"model": "demo"}));
    let tools = server.request("tool/list", json!({"sessionId": session}));
    let names: Vec<&str> = tools["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    for name in [
        "Read",
        "Write",
        "Edit",
        "Glob",
        "Grep",
        "Bash",
        "TodoList",
        "AskUserQuestion",
    ] {
        assert!(names.contains(&name), "no {name} among {names:?}");
    }
    fn undescribed(schema: &Value, at: &str, found: &mut Vec<String>) {
        if let Some(properties) = schema["properties"].as_object() {
            for (name, property) in properties {
                let at = format!("{at}.{name}");
                if property["description"].as_str().is_none_or(str::is_empty) {
                    found.push(at.clone());
                }
                undescribed(property, &at, found);
            }
        }
        if schema["items"].is_object() {
            undescribed(&schema["items"], &format!("{at}[]"), found);
        }
    }
    for tool in tools["items"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        assert!(
            !tool["description"].as_str().unwrap().trim().is_empty(),
            "{name}"
        );
        assert_eq!(
            tool["inputSchema"]["additionalProperties"], false,
            "{name} takes unknown arguments"
        );
        let mut found = Vec::new();
        undescribed(&tool["inputSchema"], name, &mut found);
        assert!(found.is_empty(), "no description: {found:?}");
    }
}

#[test]
fn the_demo_needs_nothing() {
    let scratch = Scratch::new();
    let output = scratch.longshore().arg("demo").output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert_eq!(stderr, "");
    for words in [
        "approval/request",
        "turn/ended",
        "+Hello, world!",
        "-Hello, wrold!",
    ] {
        assert!(stdout.contains(words), "{words} is not in:\n{stdout}");
    }
    scratch.mark.assert_gone(&[], Duration::from_secs(5));
    // The user's own repository is left alone.
    assert_eq!(scratch.git(&["status", "--short"]), "");
}

#[test]
fn run_prints_the_answer_and_its_exit_code_says_how_it_ended() {
    let scratch = Scratch::new();
    let run = |script: &str, arguments: &[&str]| {
        scratch.script(script);
        let output = scratch
            .longshore()
            .arg("run")
            .args(arguments)
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, stdout, stderr) = run(
        "turns: [{steps: [{text: \"Good day.\"}]}]",
        &["-p", "Hello"],
    );
    assert_eq!(
        (code, stdout.trim(), stderr.as_str()),
        (Some(0), "Good day.", "")
    );

    let (code, stdout, _) = run(
        "turns: [{steps: [{text: \"Good day.\"}]}]",
        &["--output", "stream-json", "Hello"],
    );
    assert_eq!(code, Some(0));
    assert!(
        stdout
            .lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{stdout}"
    );
    assert!(stdout.contains("turn/ended"), "{stdout}");

    let (code, _, stderr) = run(
        "turns: [{error: {kind: auth, message: \"no such key\"}}]",
        &["-p", "Hello"],
    );
    assert_eq!(code, Some(1), "{stderr}");

    // Nobody is there to ask: the command is refused, and that is told.
    let refused = "turns:\n  - steps: [{tool_call: {name: Bash, args: {command: \"touch x\", description: T}}}]\n  - steps: [{text: No.}]\n";
    let (code, _, stderr) = run(refused, &["-p", "Hello"]);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(!scratch.file("x").exists());

    let (code, ..) = run("turns: [{steps: [{text: x}]}]", &["--no-such-flag"]);
    assert_eq!(code, Some(2));
}

#[test]
fn small_commands_answer() {
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| {
        let output = scratch.longshore().args(arguments).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(
        run(&["--version"]),
        format!("longshore {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert!(run(&["--help"]).contains("longshore [COMMAND]"));
    for what in ["protocol", "config", "script"] {
        let schema: Value = serde_json::from_str(&run(&["schema", what])).unwrap();
        assert!(schema.is_object(), "{what}");
    }
    let committed = include_str!("../../protocol/schema/longshore.schema.json");
    assert_eq!(
        serde_json::from_str::<Value>(&run(&["schema"])).unwrap(),
        serde_json::from_str::<Value>(committed).unwrap()
    );
}

#[test]
fn doctor_says_what_to_fix() {
    let scratch = Scratch::new();
    let output = scratch.longshore().arg("doctor").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("config.toml") && text.contains("default_model"),
        "{text}"
    );
    scratch.configure("default_model = [\n");
    let output = scratch.longshore().arg("doctor").output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("config.toml:"),
        "where it is broken"
    );
}
