//! Two hosts of one session, one of which does not read: the whole server but its process, over pipes in memory.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test with a home and a memory gauge of its own"
)]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use longshore::app::{App, Options, settings};
use longshore::face::native::Native;
use longshore::os::env::Env;
use longshore::os::process::Processes;
use longshore::rpc;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A host's end of its connection.
struct Host {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Host {
    async fn connect(native: &Arc<Native>, serving: &mut JoinSet<()>) -> Self {
        let (ours, theirs) = rpc::pipe(1 << 16);
        let native = native.clone();
        serving.spawn(async move {
            let served = native.serve(theirs.reader, theirs.writer).await;
            served.close(Duration::from_secs(1)).await;
        });
        let mut host = Self {
            reader: BufReader::new(ours.reader),
            writer: ours.writer,
        };
        let hello = json!({"protocolVersion": 1, "host": {"name": "wire", "version": "1"}});
        host.request(1, "initialize", hello).await;
        host
    }

    async fn send(&mut self, id: u64, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.writer
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn next(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(
            self.reader.read_line(&mut line).await.unwrap(),
            0,
            "the server hung up"
        );
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request and skips to its result.
    async fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(id, method, params).await;
        loop {
            let message = self.next().await;
            if message["id"] == id && message.get("method").is_none() {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// Reads to the end of the turn: the numbers of durable events, how many deltas there were, and how often some were
    /// dropped.
    async fn to_the_end(&mut self) -> (Vec<u64>, usize, usize) {
        let (mut seqs, mut deltas, mut resyncs) = (Vec::new(), 0, 0);
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(
                self.reader.read_line(&mut line).await.unwrap(),
                0,
                "the server hung up"
            );
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

/// Proportional memory of this process, in bytes.
fn pss_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .unwrap();
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<u64>()
        .unwrap()
        * 1024
}

const PIECES: usize = 100_000;

/// A short turn, then two calls whose argument pieces come by turns, so that neighbours cannot be put together. Pauses
/// let a host that reads keep up.
fn script() -> String {
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
    for piece in 0..PIECES {
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
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (home, workspace) = (root.join("home"), root.join("workspace"));
    fs::create_dir_all(&workspace).unwrap();
    let env = Env::of([
        ("HOME", root.as_os_str()),
        ("LONGSHORE_HOME", home.as_os_str()),
    ]);
    let app = App::new(
        settings(env, &Options::default()).unwrap(),
        Processes::new(None),
    );
    let native = Native::new(app.native_deps(CancellationToken::new()));
    let mut serving = JoinSet::new();
    let mut reading = Host::connect(&native, &mut serving).await;
    let mut still = Host::connect(&native, &mut serving).await;

    let params = json!({"cwd": workspace, "model": "demo", "mode": "yolo", "script": script()});
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
    let (first, ..) = reading.to_the_end().await;
    let before = pss_bytes();
    reading
        .send(
            4,
            "turn/start",
            json!({"sessionId": session, "input": "Write much."}),
        )
        .await;
    let (seqs, deltas, resyncs) = reading.to_the_end().await;
    let grown = pss_bytes().saturating_sub(before);
    assert!(grown <= 32 << 20, "grew by {} MiB", grown >> 20);
    assert!(
        deltas >= PIECES && resyncs == 0,
        "the host that reads has everything: {deltas} and {resyncs}"
    );
    let numbers = |from: u64, count: usize| (from..from + count as u64).collect::<Vec<_>>();
    assert_eq!(seqs, numbers(first.len() as u64 + 1, seqs.len()));

    // The other one wakes up: told what it missed, and given every durable event.
    assert_eq!(still.to_the_end().await.0, first);
    let (late, deltas, resyncs) = still.to_the_end().await;
    assert_eq!((late, resyncs), (seqs, 1));
    assert!(deltas < PIECES, "{deltas}");
    assert_eq!(
        fs::read(workspace.join("0.txt")).unwrap().len(),
        PIECES / 2 * 10
    );
    app.shutdown(Duration::from_secs(5)).await;
}
