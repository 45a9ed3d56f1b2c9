//! Two hosts of one session, one of which does not read: the whole server but its process, over pipes in memory.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test with a home and a memory gauge of its own"
)]

use std::fs;

use serde_json::{Value, json};

use crate::support::{Host, MEMORY, Server, pss_bytes};

impl Host {
    /// Reads to the end of the turn: the numbers of durable events, how many deltas there were, and how often some were
    /// dropped.
    async fn read_turn(&mut self) -> (Vec<u64>, usize, usize) {
        let (mut seqs, mut deltas, mut resyncs) = (Vec::new(), 0, 0);
        let mut line = String::new();
        loop {
            self.line(&mut line).await;
            // Most lines are these; a host that is to keep up with a machine does not take them apart.
            if line.starts_with("{\"jsonrpc\":\"2.0\",\"method\":\"tool/delta\"") {
                deltas += 1;
                continue;
            }
            let message: Value = serde_json::from_str(&line).unwrap();
            seqs.extend(message["params"]["seq"].as_u64());
            match message["method"].as_str() {
                Some("resync") => resyncs += 1,
                Some("turn/ended") => {
                    assert_eq!(message["params"]["reason"], "completed", "{message}");
                    return (seqs, deltas, resyncs);
                }
                _ => {}
            }
        }
    }
}

const PIECES: usize = 100_000;

/// A short turn, then two calls whose argument pieces come by turns, so that neighbours cannot be put together. Pauses
/// let a host that reads keep up.
fn script(n_pieces: usize) -> String {
    let delta = |call: usize, head: Value, arguments: &str| {
        let mut delta = json!({"index": call, "function": {"arguments": arguments}});
        if let (Some(delta), Some(head)) = (delta.as_object_mut(), head.as_object()) {
            delta.extend(head.clone());
        }
        json!({"raw_delta": {"tool_calls": [delta]}})
    };
    let mut steps = Vec::new();
    for call in [0, 1] {
        let mut first = delta(
            call,
            json!({"id": format!("c{call}"), "type": "function"}),
            "",
        );
        first["raw_delta"]["tool_calls"][0]["function"] = json!({"name": "Write", "arguments": format!("{{\"path\":\"{call}.txt\",\"content\":\"")});
        steps.push(first);
    }
    for piece in 0..n_pieces {
        steps.push(delta(piece % 2, json!({}), "0123456789"));
        if piece % 500 == 0 {
            steps.push(json!({"delay_ms": 4}));
        }
    }
    steps.extend([0, 1].map(|call| delta(call, json!({}), "\"}")));
    json!({"turns": [{"steps": [{"text": "Ready."}]}, {"steps": steps}, {"steps": [{"text": "Written."}]}]}).to_string()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_never_reads_costs_the_other_nothing() {
    let _gauge = MEMORY.lock().await;
    let mut server = Server::start();
    let workspace = server.workspace();
    let mut reading = server.host().await;
    let mut still = server.host().await;

    let params =
        json!({"cwd": workspace, "model": "demo", "mode": "yolo", "script": script(PIECES)});
    let created = reading.request(2, "session/create", params).await;
    let session = created["session"]["sessionId"].clone();
    still
        .request(2, "session/attach", json!({"sessionId": session}))
        .await;

    // The script is in memory from the first turn on.
    reading
        .send(
            3,
            "turn/start",
            json!({"sessionId": session, "input": "Ready?"}),
        )
        .await;
    let (first, ..) = reading.read_turn().await;
    let before = pss_bytes();
    reading
        .send(
            4,
            "turn/start",
            json!({"sessionId": session, "input": "Write much."}),
        )
        .await;
    let (seqs, deltas, resyncs) = reading.read_turn().await;
    let grown = pss_bytes().saturating_sub(before);
    assert!(grown <= 32 << 20, "grew by {} MiB", grown >> 20);
    assert!(
        deltas >= PIECES && resyncs == 0,
        "the host that reads has everything: {deltas} and {resyncs}"
    );
    let numbers = |from: u64, count: usize| (from..from + count as u64).collect::<Vec<_>>();
    assert_eq!(seqs, numbers(first.len() as u64 + 1, seqs.len()));

    // The other one wakes up: told what it missed, and given every durable event.
    assert_eq!(still.read_turn().await.0, first);
    let (late, deltas, resyncs) = still.read_turn().await;
    assert_eq!((late, resyncs), (seqs, 1));
    assert!(deltas < PIECES, "{deltas}");
    assert_eq!(
        fs::read(workspace.join("0.txt")).unwrap().len(),
        PIECES / 2 * 10
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_events_do_not_wait_for_a_host_that_wants_none() {
    let mut server = Server::start();
    let mut reading = server.host().await;
    let mut quiet = server.able(json!({"liveEvents": false})).await;
    // More pieces than a queue takes; the quiet host reads nothing meanwhile.
    let params = json!({"cwd": server.workspace(), "model": "demo", "mode": "yolo", "script": script(10_000)});
    let created = reading.request(2, "session/create", params).await;
    let session = created["session"]["sessionId"].clone();
    let attach = json!({"sessionId": session, "afterSeq": 0});
    quiet.request(2, "session/attach", attach).await;
    let mut seqs = Vec::new();
    for id in [3, 4] {
        let params = json!({"sessionId": session, "input": "Go."});
        reading.send(id, "turn/start", params).await;
        seqs.extend(reading.read_turn().await.0);
    }
    let status = reading.request(5, "server/status", json!({})).await;
    let hosts = status["hosts"].as_array().unwrap();
    let waiting: u64 = hosts
        .iter()
        .map(|host| host["queuedMessages"].as_u64().unwrap())
        .sum();
    assert!(waiting <= seqs.len() as u64, "{status}");
    let mut line = String::new();
    let mut got = Vec::new();
    while got.len() < seqs.len() {
        quiet.line(&mut line).await;
        let message: Value = serde_json::from_str(&line).unwrap();
        got.push(message["params"]["seq"].as_u64());
    }
    assert_eq!(got, seqs.into_iter().map(Some).collect::<Vec<_>>());
    server.stop().await;
}
