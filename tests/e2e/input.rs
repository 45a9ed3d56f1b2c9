//! What hosts may send and should not: malformed lines, ids of all sorts, batches, lines without end.

use std::io::Write;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::processes::peak_bytes;
use crate::support::{Scratch, TestServer};

/// An error code, or any result.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Error(i64),
    Result,
}
use Expected::{Error, Result as Answered};

/// A line, and all that is said about it: pairs of id and outcome.
type Case = (&'static [u8], &'static [(&'static str, Expected)]);

/// Sends a line and checks all that is said about it: pairs of id and outcome, the id as it must stand on the wire.
fn check(server: &mut TestServer, line: &[u8], expected: &[(&str, Expected)]) {
    let from = server.raw().len();
    server.write(line);
    // A request of its own marks the end of what is said to this line.
    server.request("ping", json!({}));
    let said: Vec<&String> = server.raw()[from..server.raw().len() - 1].iter().collect();
    let line = String::from_utf8_lossy(line);
    assert_eq!(
        said.len(),
        expected.len(),
        "{line:?} was answered by {said:#?}"
    );
    for (said, (id, outcome)) in said.iter().zip(expected) {
        check_reply(said, id, *outcome, &line);
    }
}

fn check_reply(said: &str, id: &str, outcome: Expected, line: &str) {
    assert!(
        said.contains(&format!("\"id\":{id},")) || said.contains(&format!("\"id\":{id}}}")),
        "{line:?}: {said}"
    );
    let reply: Value = serde_json::from_str(said).unwrap();
    match outcome {
        Error(code) => {
            assert_eq!(reply["error"]["code"], code, "{line:?}: {said}");
            assert!(
                reply["error"]["data"]["kind"].is_string(),
                "{line:?}: {said}"
            );
            assert_eq!(
                reply["error"]["data"]["retryable"], false,
                "{line:?}: {said}"
            );
        }
        Answered => assert!(reply.get("result").is_some(), "{line:?}: {said}"),
    }
}

#[test]
fn malformed_lines_are_answered_and_the_connection_goes_on() {
    let scratch = Scratch::new();
    let mut server = TestServer::open(&scratch);
    let cases: &[Case] = &[
        // Not JSON, not UTF-8.
        (b"{\n", &[("null", Error(-32700))]),
        (b"[1\n", &[("null", Error(-32700))]),
        (b"{\"id\":1,\"method\":\"ping\"} rubbish\n", &[("null", Error(-32700))]),
        (b"{\"id\":\"a\",\"method\":\"\xff\"}\n", &[("null", Error(-32700))]),
        // Not a request.
        (b"5\n", &[("null", Error(-32600))]),
        (b"\"ping\"\n", &[("null", Error(-32600))]),
        (b"null\n", &[("null", Error(-32600))]),
        (b"{}\n", &[("null", Error(-32600))]),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"n1\"}\n", &[("\"n1\"", Error(-32600))]),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"method\":5}\n", &[("\"7\"", Error(-32600))]),
        (b"{\"jsonrpc\":\"1.0\",\"id\":\"v1\",\"method\":\"ping\"}\n", &[("\"v1\"", Error(-32600))]),
        (b"{\"jsonrpc\":2.0,\"id\":\"v2\",\"method\":\"ping\"}\n", &[("\"v2\"", Error(-32600))]),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}\n", &[("null", Error(-32600))]),
        // A reply to nothing that was asked.
        (b"{\"jsonrpc\":\"2.0\",\"id\":4711,\"result\":{}}\n", &[]),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"never\",\"error\":{\"code\":1,\"message\":\"x\"}}\n", &[]),
        // Unknown methods.
        (b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"nope\"}\n", &[("0", Error(-32601))]),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"nope\"}\n", &[]),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":\"never\"}}\n", &[]),
        // Params.
        (b"{\"id\":\"p1\",\"method\":\"session/get\",\"params\":[1]}\n", &[("\"p1\"", Error(-32602))]),
        (b"{\"id\":\"p2\",\"method\":\"session/get\"}\n", &[("\"p2\"", Error(-32602))]),
        (b"{\"id\":\"p3\",\"method\":\"session/get\",\"params\":{\"sessionId\":5}}\n", &[("\"p3\"", Error(-32602))]),
        (b"{\"id\":\"p4\",\"method\":\"ping\",\"params\":[]}\n", &[("\"p4\"", Error(-32602))]),
        (b"{\"id\":\"p5\",\"method\":\"ping\",\"params\":{\"unknown\":1}}\n", &[("\"p5\"", Answered)]),
        // A second `initialize`.
        (
            b"{\"id\":\"i\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,\"host\":{\"name\":\"x\",\"version\":\"1\"}}}\n",
            &[("\"i\"", Error(-32600))],
        ),
        // Framing that is fine.
        (b"\r\n \n\n", &[]),
        (b"{\"id\":\"f1\",\"method\":\"ping\"}\r\n", &[("\"f1\"", Answered)]),
        (b"  {\"id\" : \"f2\" , \"method\" : \"p\\u0069ng\"}\t\n", &[("\"f2\"", Answered)]),
        // Ids, as they came.
        (b"{\"id\":1.50,\"method\":\"ping\"}\n", &[("1.50", Answered)]),
        (b"{\"id\":-0,\"method\":\"ping\"}\n", &[("-0", Answered)]),
        (b"{\"id\":1e3,\"method\":\"ping\"}\n", &[("1e3", Answered)]),
        (b"{\"id\":123456789012345678901234567890,\"method\":\"ping\"}\n", &[("123456789012345678901234567890", Answered)]),
        (b"{\"id\":null,\"method\":\"ping\"}\n", &[("null", Answered)]),
        (b"{\"id\":\"\\u00e9\\u2028 \\/\",\"method\":\"ping\"}\n", &[("\"\\u00e9\\u2028 \\/\"", Answered)]),
    ];
    for (line, expected) in cases {
        check(&mut server, line, expected);
    }
}

#[test]
fn nothing_is_answered_before_initialize() {
    let scratch = Scratch::new();
    let mut server = TestServer::start(&scratch);
    let error = server.refused("session/list", json!({}));
    assert_eq!(
        (&error["code"], &error["data"]["kind"]),
        (&json!(-32002), &json!("not_initialized"))
    );
    let error = server.refused("initialize", json!({"protocolVersion": "1"}));
    assert_eq!(error["code"], -32602, "{error}");
    let initialized = server.request(
        "initialize",
        json!({"protocolVersion": 99, "host": {"name": "new", "version": "9"}, "strict": true}),
    );
    assert_eq!(initialized["protocolVersion"], 1);
    // What it asked for: unknown fields are told.
    let error = server.refused("ping", json!({"unknown": 1}));
    assert_eq!(error["code"], -32602, "{error}");
    assert!(error.to_string().contains("unknown"), "{error}");
}

#[test]
fn batches_are_answered_as_batches() {
    let scratch = Scratch::new();
    let mut server = TestServer::open(&scratch);
    check(&mut server, b"[]\n", &[("null", Error(-32600))]);
    check(&mut server, b"[{\"method\":\"nope\"}]\n", &[]);
    server.write(b"[{\"id\":\"a\",\"method\":\"ping\"},7,{\"method\":\"nope\"},{\"id\":\"b\",\"method\":\"nope\"}]\n");
    let replies = server.wait("the batch", Value::is_array);
    let mut found: Vec<(String, i64)> = replies
        .as_array()
        .unwrap()
        .iter()
        .map(|reply| {
            (
                reply["id"].to_string(),
                reply["error"]["code"].as_i64().unwrap_or(0),
            )
        })
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            ("\"a\"".to_owned(), 0),
            ("\"b\"".to_owned(), -32601),
            ("null".to_owned(), -32600)
        ]
    );
}

#[test]
fn requests_can_be_cancelled_and_ids_in_flight_cannot_be_used_again() {
    let scratch = Scratch::new();
    scratch.script("turns: [{steps: [{hang: true}]}]");
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    let turn = server.turn(&session, "Hang.");
    server.event("step/started");
    let id = json!("in flight");
    server.may_reuse(&id);
    let wait = json!({"jsonrpc": "2.0", "id": id, "method": "turn/wait", "params": {"sessionId": session, "turnId": turn}});
    server.write_value(&wait);
    server.write_value(&wait);
    let error = server.reply(&id).unwrap_err();
    assert_eq!(error["code"], -32600, "{error}");
    server.notify("$/cancelRequest", json!({"id": id}));
    let error = server.reply(&id).unwrap_err();
    assert_eq!(
        (&error["code"], &error["data"]["kind"]),
        (&json!(-32800), &json!("request_cancelled"))
    );
    // The turn itself goes on.
    assert_eq!(
        server.request("session/get", json!({"sessionId": session}))["session"]["status"],
        "running"
    );
    server.request("turn/cancel", json!({"sessionId": session, "turnId": turn}));
    assert_eq!(server.ended(&turn)["reason"], "cancelled");
}

#[test]
fn long_lines_are_read_whole() {
    let scratch = Scratch::new();
    let mut server = TestServer::open(&scratch);
    for bytes in [300 << 10, 12 << 20] {
        server.request("ping", json!({"pad": "x".repeat(bytes)}));
    }
    // In pieces that end inside a character.
    let line = "{\"id\":\"ü潮\",\"method\":\"ping\"}\n".as_bytes();
    let mut stdin = server.take_stdin();
    for byte in line {
        stdin.write_all(&[*byte]).unwrap();
        stdin.flush().unwrap();
    }
    server.put_stdin(stdin);
    server.reply(&json!("ü潮")).unwrap();
}

#[test]
fn a_line_without_end_takes_no_memory_and_the_next_one_is_read() {
    const SIZE: usize = 200 << 20;
    let scratch = Scratch::new();
    for (config, most) in [
        ("", 80 << 20),
        ("[limits]\nmax_message_bytes = 1048576\n", 16 << 20),
    ] {
        scratch.configure(config);
        let mut server = TestServer::start(&scratch);
        let initialized = server.initialize(json!({}));
        let cap = initialized["limits"]["maxMessageBytes"].as_u64().unwrap();
        assert_eq!(cap, if config.is_empty() { 64 << 20 } else { 1 << 20 });
        let before = peak_bytes(server.pid());
        let mut stdin = server.take_stdin();
        let writer = thread::spawn(move || {
            let chunk = vec![b'a'; 1 << 20];
            for _ in 0..SIZE / chunk.len() {
                stdin.write_all(&chunk).unwrap();
            }
            stdin.write_all(b"\n").unwrap();
            stdin
        });
        let error = server.reply(&Value::Null).unwrap_err();
        assert_eq!(error["code"], -32600, "{error}");
        server.put_stdin(writer.join().unwrap());
        server.request("ping", json!({}));
        let grown = peak_bytes(server.pid()) - before;
        assert!(
            grown < most,
            "grew by {} MiB at a cap of {} MiB",
            grown >> 20,
            cap >> 20
        );
    }
}

#[test]
fn only_a_line_feed_ends_a_line() {
    let scratch = Scratch::new();
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"model": "demo"}));
    let text = "a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\rg\r\nh";
    let turn = server.turn(&session, text);
    server.ended(&turn);
    drop(server);
    let mut server = TestServer::open(&scratch);
    server.request("session/resume", json!({"sessionId": session}));
    let transcript = server.request("session/transcript", json!({"sessionId": session}));
    assert_eq!(transcript["items"][0]["input"][0]["text"], text);
    assert_eq!(server.close(Duration::from_secs(6)).code(), Some(0));
}

#[test]
fn requests_beyond_the_limit_are_told_to_come_again() {
    let scratch = Scratch::new();
    scratch.script("turns: [{steps: [{hang: true}]}]");
    let mut server = TestServer::start(&scratch);
    let limit = server.initialize(json!({}))["limits"]["maxInFlight"]
        .as_u64()
        .unwrap();
    let session = server.create(&scratch, json!({}));
    let turn = server.turn(&session, "Hang.");
    let waits: Vec<Value> = (0..limit)
        .map(|_| server.send("turn/wait", json!({"sessionId": session, "turnId": turn})))
        .collect();
    let error = server.refused("ping", json!({}));
    assert_eq!(
        (&error["code"], &error["data"]["kind"]),
        (&json!(-32001), &json!("server_busy")),
        "{error}"
    );
    assert_eq!(error["data"]["retryable"], true);
    assert!(error["data"]["retryAfterMs"].is_u64());
    server.notify("$/cancelRequest", json!({"id": waits[0]}));
    server.reply(&waits[0]).unwrap_err();
    server.request("turn/cancel", json!({"sessionId": session}));
    for wait in &waits[1..] {
        assert_eq!(server.reply(wait).unwrap()["reason"], "cancelled");
    }
}
