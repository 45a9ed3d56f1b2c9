//! Calls of one step: side by side where they do not touch the same, in order where they do.

use serde_json::{Value, json};

use crate::support::{Scratch, TestServer};

/// Plays one step of calls and gives its events about calls as `name call`, calls numbered from 0.
fn step(scratch: &Scratch, calls: &str) -> (Vec<String>, Vec<Value>) {
    scratch.script(&format!(
        "turns:\n  - steps:\n      - parallel:\n{calls}\n  - steps: [{{text: Done.}}]\n"
    ));
    let mut server = TestServer::open(scratch);
    let session = server.create(scratch, json!({}));
    let turn = server.turn(&session, "Do.");
    let ended = server.ended(&turn);
    assert_eq!(ended["reason"], "completed", "{ended}");
    let ids: Vec<Value> = server
        .seen()
        .iter()
        .filter(|message| message["method"] == "tool/started")
        .map(|message| message["params"]["toolCallId"].clone())
        .collect();
    let mut outputs = vec![Value::Null; ids.len()];
    let mut order = Vec::new();
    for message in server.seen() {
        let Some(call) = ids
            .iter()
            .position(|id| *id == message["params"]["toolCallId"])
        else {
            continue;
        };
        match message["method"].as_str() {
            Some("tool/running") => order.push(format!("running {call}")),
            Some("tool/completed") => {
                assert_eq!(message["params"]["isError"], false, "{message}");
                outputs[call] = message["params"]["output"].clone();
                order.push(format!("completed {call}"));
            }
            _ => {}
        }
    }
    (order, outputs)
}

#[test]
fn calls_on_one_file_run_in_their_order() {
    let scratch = Scratch::new();
    let read = "          - tool_call: {name: Read, args: {path: greeting.txt}}";
    let again = "          - tool_call: {name: Read, args: {path: greeting.txt, n_lines: 1}}";
    let edit = "          - tool_call: {name: Edit, args: {path: greeting.txt, old_string: wrold, new_string: world}}";
    let (order, outputs) = step(&scratch, &format!("{read}\n{edit}\n{again}"));
    assert_eq!(
        order,
        [
            "running 0",
            "completed 0",
            "running 1",
            "completed 1",
            "running 2",
            "completed 2"
        ],
        "a read before, the edit, a read after"
    );
    assert!(outputs[0].to_string().contains("wrold"), "{outputs:?}");
    assert!(outputs[2].to_string().contains("world"), "{outputs:?}");
    assert_eq!(scratch.read("greeting.txt"), "Hello, world!\nGoodbye.\n");
}
