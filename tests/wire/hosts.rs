//! Two hosts of one session, one of which does not read: the whole server but its process, over pipes in memory.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test with a home and a memory gauge of its own"
)]

use std::fs;
use std::sync::Arc;

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
            native.serve(theirs.reader, theirs.writer).await;
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

    /// Reads to the end of the turn: the numbers of durable events, how many deltas there were, and whether some were
    /// dropped.
    async fn to_the_end(&mut self) -> (Vec<u64>, usize, usize) {
        let (mut seqs, mut deltas, mut resyncs) = (Vec::new(), 0, 0);
        loop {
            let message = self.next().await;
            seqs.extend(message["params"]["seq"].as_u64());
            match message["method"].as_str() {
                Some("tool/delta") => deltas += 1,
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

/// Two calls whose 100,000 argument pieces come by turns, so that neighbours cannot be put together.
fn script() -> String {
    let content = "0123456789012345678 ".repeat(50_000);
    let call = |path: &str| json!({"tool_call": {"name": "Write", "split": 50_000, "args": {"path": path, "content": content}}});
    json!({"turns": [
        {"steps": [{"parallel": [call("a.txt"), call("b.txt")]}]},
        {"steps": [{"text": "Written."}]},
    ]})
    .to_string()
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

    let before = pss_bytes();
    reading
        .send(
            3,
            "turn/start",
            json!({"sessionId": session, "input": "Write much."}),
        )
        .await;
    let (seqs, deltas, resyncs) = reading.to_the_end().await;
    let grown = pss_bytes().saturating_sub(before);
    assert!(grown <= 32 << 20, "grew by {} MiB", grown >> 20);
    assert_eq!(
        (deltas, resyncs),
        (100_000, 0),
        "the host that reads has everything"
    );
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());

    // The other one wakes up: told what it missed, and given every durable event.
    let (late, deltas, resyncs) = still.to_the_end().await;
    assert_eq!(late, seqs);
    assert_eq!(resyncs, 1);
    assert!(deltas < 100_000, "{deltas}");
    assert_eq!(fs::read(workspace.join("a.txt")).unwrap().len(), 1_000_000);
    app.shutdown(std::time::Duration::from_secs(5)).await;
}
