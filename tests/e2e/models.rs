//! Turns against Chat Completions servers that nobody here wrote.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Scratch, TestServer, peers};

/// A model server; ends when dropped.
struct ModelServer {
    child: Child,
    stdin: Option<ChildStdin>,
    url: String,
    version: String,
}

impl ModelServer {
    /// Starts one that prints its address as JSON once it listens.
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let text = |key: &str| told[key].as_str().unwrap().to_owned();
        Self {
            stdin: child.stdin.take(),
            child,
            url: text("url"),
            version: text("version"),
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// A Read, its result, and the answer; `think` where the server can stream reasoning.
fn check(peer: &str, command: Command, scratch: &Scratch, think: Option<&str>) {
    let name = "a-thinking-model";
    scratch.write("note.txt", "the tide turns at noon\n");
    let model = ModelServer::start(command);
    scratch.configure(&format!(
        "default_model = \"m\"\n\
         [providers.p]\ntype = \"openai\"\nbase_url = \"{}\"\napi_key = \"sk-not-used\"\n\
         headers = {{ X-Test = \"longshore\" }}\n\
         [models.m]\nprovider = \"p\"\nmodel = \"{name}\"\nmax_context_size = 128000\ncapabilities = [\"thinking\"]\n",
        model.url
    ));
    let mut server = TestServer::open(scratch);
    let session = server.create(scratch, json!({}));
    let turn = server.turn(&session, "What does note.txt say?");
    let waited = server.request("turn/wait", json!({"sessionId": session, "turnId": turn}));
    assert_eq!(waited["reason"], "completed", "{waited}");
    assert_eq!(
        waited["text"],
        "It says that the tide turns at noon. Wörter wie Füße und 潮 bleiben ganz."
    );
    assert!(waited["usage"]["output"].as_u64().unwrap() > 0, "{waited}");
    let read = server.event("tool/completed");
    assert!(
        read["output"]
            .to_string()
            .contains("the tide turns at noon"),
        "{read}"
    );
    if let Some(think) = think {
        assert_eq!(server.event("thinking/completed")["text"], think);
        assert_eq!(
            server.event("message/completed")["text"],
            "I read the note."
        );
    }
    let deltas = server
        .seen()
        .iter()
        .filter(|message| message["method"] == "message/delta")
        .count();
    assert!(deltas > 1, "the answer came in one piece");

    // What the server refuses fails the turn in plain words.
    let turn = server.turn(&session, "Something nobody wrote down.");
    let ended = server.ended(&turn);
    if ended["reason"] == "failed" {
        assert!(
            ended["error"]["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty()),
            "{ended}"
        );
    }
    peers::met(peer, &model.version);
}

#[test]
fn aimock_serves_a_turn() {
    let Some(folder) = peers::folder("aimock", "node/node_modules/@copilotkit/aimock") else {
        return;
    };
    let scratch = Scratch::new();
    let mut command = scratch.command(peers::node(&folder));
    command.arg(peers::script("model_aimock.mjs")).arg(&folder);
    check("aimock", command, &scratch, Some("The file will tell."));
}

#[test]
fn fakellm_serves_a_turn() {
    let Some(folder) = peers::folder("fakellm", "python/bin/fakellm") else {
        return;
    };
    let scratch = Scratch::new();
    let mut command = scratch.command(folder.join("python/bin/python"));
    command
        .arg(peers::script("model_fakellm.py"))
        .arg(scratch.root());
    check("fakellm", command, &scratch, None);
}
