//! `longshore acp` driven by client libraries that nobody here wrote.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::processes::assert_ended;
use crate::support::server::DEADLINE;
use crate::support::{Scratch, peers};
use crate::turn::{SLEEPER, sleeper_pid};

/// A file is read, edited, and a command is run that must be asked about.
const TURN: &str = r#"
turns:
  - steps:
      - think: "Look first."
      - text: "I mend the greeting."
      - tool_call: {name: Read, args: {path: greeting.txt}}
  - steps: [{tool_call: {name: Edit, args: {path: greeting.txt, old_string: wrold, new_string: world}}}]
  - steps: [{tool_call: {name: Bash, args: {command: "touch ran.txt", description: "Touch a file"}}}]
  - steps: [{text: "All done: ü潮."}]
"#;

/// What a client saw of one prompt.
struct Seen {
    stop_reason: String,
    updates: Vec<Value>,
    permissions: Vec<Value>,
    /// Everything that a driver script printed.
    result: Value,
}

impl Seen {
    fn updates(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.updates
            .iter()
            .filter(move |update| update["sessionUpdate"] == kind)
    }

    fn text(&self, kind: &str) -> String {
        self.updates(kind)
            .filter_map(|update| update["content"]["text"].as_str())
            .collect()
    }

    /// The states that the call of this command went through.
    fn states(&self, command: &str) -> Vec<String> {
        let call = self
            .updates
            .iter()
            .find(|update| update["rawInput"]["command"] == command);
        let id = &call.unwrap_or_else(|| panic!("no call of {command}: {:#?}", self.updates))["toolCallId"];
        assert!(
            self.updates("tool_call")
                .any(|call| call["toolCallId"] == *id),
            "updated before it was told"
        );
        let mut states: Vec<String> = self
            .updates
            .iter()
            .filter(|update| update["toolCallId"] == *id)
            .filter_map(|update| match update["sessionUpdate"].as_str() {
                // The state of a new call where none is named.
                Some("tool_call") => {
                    Some(update["status"].as_str().unwrap_or("pending").to_owned())
                }
                _ => update["status"].as_str().map(str::to_owned),
            })
            .collect();
        states.dedup();
        states
    }
}

/// The client under test: plays one prompt, answering permissions so. With `cancel` it cancels when the tool runs.
type Client = fn(&Scratch, &Path, permission: &str, cancel: bool) -> Seen;

fn check(client: Client, peers: &Path) {
    for (permission, runs) in [("allow", true), ("reject", false)] {
        let scratch = Scratch::new();
        scratch.script(TURN);
        let seen = client(&scratch, peers, permission, false);
        assert_eq!(seen.stop_reason, "end_turn");
        assert_eq!(seen.text("agent_thought_chunk"), "Look first.");
        assert_eq!(
            seen.text("agent_message_chunk")
                .replace("greeting.All", "greeting. All"),
            "I mend the greeting. All done: ü潮."
        );
        assert!(
            scratch
                .git(&["diff"])
                .contains("\n-Hello, wrold!\n+Hello, world!\n")
        );
        assert_eq!(scratch.file("ran.txt").exists(), runs, "{permission}");
        assert_eq!(seen.permissions.len(), 1, "{:?}", seen.permissions);
        let options = seen.permissions[0]["options"].as_array().unwrap();
        for kind in ["allow_once", "reject_once"] {
            assert!(
                options.iter().any(|option| option["kind"] == kind),
                "{options:?}"
            );
        }
        let ends = if runs {
            &["pending", "in_progress", "completed"][..]
        } else {
            &["pending", "failed"]
        };
        assert_eq!(seen.states("touch ran.txt"), ends);
        let diff = seen
            .updates
            .iter()
            .flat_map(|update| update["content"].as_array().into_iter().flatten());
        let diff: Vec<&Value> = diff.filter(|content| content["type"] == "diff").collect();
        assert_eq!(
            diff.last().unwrap()["newText"],
            "Hello, world!\nGoodbye.\n",
            "{diff:?}"
        );
        scratch.mark.assert_gone(&[], Duration::from_secs(5));
    }

    let scratch = Scratch::new();
    scratch.script(SLEEPER);
    let seen = client(&scratch, peers, "allow", true);
    assert_eq!(seen.stop_reason, "cancelled");
    let last = seen
        .updates
        .iter()
        .rev()
        .find(|update| update["toolCallId"].is_string() && update["status"].is_string());
    assert_eq!(last.unwrap()["status"], "failed", "{:#?}", seen.updates);
    assert_ended(sleeper_pid(&scratch), Duration::from_secs(1));
    scratch.mark.assert_gone(&[], Duration::from_secs(5));
}

/// Runs a driver script, which prints one line of JSON about what its library saw.
fn drive(
    peer: &str,
    mut command: Command,
    scratch: &Scratch,
    permission: &str,
    cancel: bool,
) -> Seen {
    command.arg("--cwd").arg(scratch.repository()).args([
        "--prompt",
        "Do it.",
        "--permission",
        permission,
    ]);
    if cancel {
        command.arg("--cancel-when").arg(scratch.file("pid.txt"));
    }
    command.args(["--", env!("CARGO_BIN_EXE_longshore"), "acp"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{peer} ({permission}): {stdout}\n{stderr}"
    );
    assert_eq!(stderr, "", "{peer}");
    let result: Value =
        serde_json::from_str(stdout.trim()).unwrap_or_else(|error| panic!("{error}: {stdout}"));
    assert_eq!(result["initialized"]["protocolVersion"], 1);
    assert_eq!(result["initialized"]["agentInfo"]["name"], "longshore");
    assert_eq!(result["exit"]["code"], 0, "{peer}: the agent's exit");
    if cancel {
        assert_eq!(result["processGone"], true);
        assert!(
            result["cancelMs"].as_u64().unwrap() < 4_000,
            "{}",
            result["cancelMs"]
        );
    }
    peers::met(peer, result["version"].as_str().unwrap());
    Seen {
        stop_reason: result["stopReason"].as_str().unwrap().to_owned(),
        updates: result["updates"].as_array().unwrap().clone(),
        permissions: result["permissions"].as_array().unwrap().clone(),
        result,
    }
}

#[test]
fn the_official_node_library_plays_a_turn() {
    let Some(folder) = peers::folder("acp-node", "node/node_modules/@agentclientprotocol/sdk")
    else {
        return;
    };
    let client: Client = |scratch, folder, permission, cancel| {
        let mut command = scratch.command(peers::node(folder));
        command
            .arg(peers::script("acp_node.mjs"))
            .arg("--peers")
            .arg(folder);
        drive("acp-node", command, scratch, permission, cancel)
    };
    check(client, &folder);
}

#[test]
fn what_the_official_node_library_holds_is_read_and_edited() {
    let Some(folder) = peers::folder("acp-node", "node/node_modules/@agentclientprotocol/sdk")
    else {
        return;
    };
    let scratch = Scratch::new();
    scratch.script(
        r#"
turns:
  - steps: [{tool_call: {name: Read, args: {path: greeting.txt}}}]
  - steps: [{tool_call: {name: Edit, args: {path: greeting.txt, old_string: unsaved, new_string: kept}}}]
  - steps: [{tool_call: {name: Write, args: {path: new/file.txt, content: "new\n"}}}]
  - steps: [{tool_call: {name: Read, args: {path: other.txt}}}]
  - steps: [{text: "Done."}]
"#,
    );
    scratch.write("other.txt", "on the disk\n");
    let (greeting, new) = (scratch.file("greeting.txt"), scratch.file("new/file.txt"));
    let held = scratch.root().join("held.json");
    let key = greeting.to_str().unwrap();
    std::fs::write(&held, json!({key: "unsaved\n"}).to_string()).unwrap();
    let mut command = scratch.command(peers::node(&folder));
    command
        .arg(peers::script("acp_node.mjs"))
        .arg("--peers")
        .arg(&folder)
        .arg("--fs")
        .arg(&held);
    let seen = drive("acp-node", command, &scratch, "allow", false);
    assert_eq!(seen.stop_reason, "end_turn");
    let texts = &seen.result["texts"];
    assert_eq!(texts[key], "kept\n", "{:#?}", seen.result["files"]);
    assert_eq!(texts[new.to_str().unwrap()], "new\n");
    assert_eq!(
        scratch.read("greeting.txt"),
        "Hello, wrold!\nGoodbye.\n",
        "it is the client's to save"
    );
    assert!(!new.exists() && new.parent().unwrap().is_dir());
    let shown = json!(seen.updates).to_string();
    assert!(
        shown.contains("on the disk"),
        "what it does not hold is on the disk: {shown}"
    );
}

#[test]
fn the_official_python_library_plays_a_turn() {
    let Some(folder) = peers::folder("acp-python", "python/bin/python") else {
        return;
    };
    let client: Client = |scratch, folder, permission, cancel| {
        let mut command = scratch.command(folder.join("python/bin/python"));
        command.arg(peers::script("acp_python.py"));
        drive("acp-python", command, scratch, permission, cancel)
    };
    check(client, &folder);
}

#[test]
fn acpx_plays_a_turn() {
    const VERSION: &str = "0.19.1";
    let Some(folder) = peers::folder("acpx", "node/node_modules/.bin/acpx") else {
        return;
    };
    let version = Command::new(peers::node(&folder))
        .arg(folder.join("node/node_modules/.bin/acpx"))
        .arg("--version")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&version.stdout).trim(), VERSION);
    let client: Client = |scratch, folder, permission, cancel| {
        let mut command = scratch.command(peers::node(folder));
        let output = scratch.root().join("acpx.jsonl");
        let errors = scratch.root().join("acpx.err");
        command
            .arg(folder.join("node/node_modules/.bin/acpx"))
            .args(["--agent", concat!(env!("CARGO_BIN_EXE_longshore"), " acp")])
            .arg("--cwd")
            .arg(scratch.repository())
            .args(["--format", "json", "--json-strict", "--timeout", "60"])
            .arg(if permission == "allow" {
                "--approve-all"
            } else {
                "--deny-all"
            })
            // It takes its own refusal of everything to mean files too; allowed, the edit goes through it.
            .args((permission == "reject").then_some("--no-fs"))
            // Its own terminal would run the command; this is about ours.
            .args(["--no-terminal", "exec", "Do it."])
            .stdin(Stdio::null())
            .stdout(File::create(&output).unwrap())
            .stderr(File::create(&errors).unwrap());
        let mut child = command.spawn().unwrap();
        if cancel {
            let end = Instant::now() + DEADLINE;
            while !scratch.file("pid.txt").exists() {
                assert!(
                    Instant::now() < end,
                    "{}",
                    std::fs::read_to_string(&output).unwrap()
                );
                std::thread::sleep(Duration::from_millis(10));
            }
            let sent = Command::new("kill")
                .args(["-INT", &child.id().to_string()])
                .status()
                .unwrap();
            assert!(sent.success());
        }
        let end = Instant::now() + DEADLINE + DEADLINE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > end {
                child.kill().unwrap();
                panic!(
                    "acpx does not end: {}",
                    std::fs::read_to_string(&output).unwrap()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let said = std::fs::read_to_string(&output).unwrap();
        // It tells by its exit code that a permission was denied.
        let expected = if permission == "reject" { 5 } else { 0 };
        let errors = std::fs::read_to_string(&errors).unwrap();
        assert_eq!(
            status.code(),
            Some(expected),
            "{permission}: {said}\n{errors}"
        );
        peers::met("acpx", VERSION);
        seen_by_acpx(&said)
    };
    check(client, &folder);
}

/// It prints every message of both sides.
fn seen_by_acpx(said: &str) -> Seen {
    let messages: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |method: &str| {
        messages
            .iter()
            .filter(|message| message["method"] == method)
            .map(|message| message["params"].clone())
            .collect::<Vec<_>>()
    };
    let stop = messages
        .iter()
        .find_map(|message| message["result"]["stopReason"].as_str());
    Seen {
        stop_reason: stop
            .unwrap_or_else(|| panic!("no stop reason: {said}"))
            .to_owned(),
        updates: of("session/update")
            .into_iter()
            .map(|params| params["update"].clone())
            .collect(),
        permissions: of("session/request_permission"),
        result: Value::Null,
    }
}

#[test]
fn without_a_model_the_client_is_told_to_sign_in() {
    use crate::support::TestServer;
    let scratch = Scratch::new();
    let mut command = scratch.longshore();
    command.arg("acp");
    let mut server = TestServer::spawn(&scratch, command);
    let error = server.refused(
        "session/new",
        json!({"cwd": scratch.repository(), "mcpServers": []}),
    );
    assert_eq!(error["code"], -32600, "before initialize: {error}");
    server.request(
        "initialize",
        json!({"protocolVersion": 1, "clientCapabilities": {}}),
    );
    let error = server.refused(
        "session/new",
        json!({"cwd": scratch.repository(), "mcpServers": []}),
    );
    assert_eq!(error["code"], -32000, "{error}");
    let listed = server.request("session/list", json!({}));
    assert_eq!(listed["sessions"], json!([]));
}
