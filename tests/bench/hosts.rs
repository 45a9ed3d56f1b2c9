//! A healthy host beside nine bad ones, while a model says much.
//!
//! The server runs in this process, since a host of a spawned one has its pipes to itself. Every event says when it
//! happened; its delay is from then until the healthy host has it.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore::app::{App, Options, settings};
use longshore::face::native::Native;
use longshore::os::env::Env;
use longshore::os::process::Processes;
use longshore::rpc;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Size;
use super::rows::home;
use super::table::{Bar, Table};

/// One message of the model: 256 KiB in deltas of 256 bytes.
const DELTAS: usize = 1024;

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
        let hello = json!({"protocolVersion": 1, "host": {"name": "bench", "version": "1"}});
        host.request("initialize", hello).await;
        host
    }

    async fn send(&mut self, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let line = format!("{line}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.reader.read_line(&mut line).await.unwrap(), 0);
        line
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params).await;
        loop {
            let message: Value = serde_json::from_str(&self.line().await).unwrap();
            if message["id"] == 1 && message.get("method").is_none() {
                assert!(message.get("error").is_none(), "{message}");
                return message["result"].clone();
            }
        }
    }
}

/// Measures the row.
pub(crate) fn measure(size: Size, table: &mut Table) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut delays = runtime.block_on(delays(size.of(80, 2)));
    delays.sort_by(f64::total_cmp);
    let p99 = delays[(delays.len() * 99).div_ceil(100) - 1];
    let row = format!(
        "delay of an event at a healthy host beside nine bad ones, p99 of {}",
        delays.len()
    );
    table.row(&row, "ms", Bar::AtMost(50.0), p99);
}

async fn delays(n_messages: usize) -> Vec<f64> {
    let home = home();
    let root = home.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("workspace")).unwrap();
    let longshore_home = root.join("home");
    let env = Env::of([
        ("HOME", root.as_os_str()),
        ("LONGSHORE_HOME", longshore_home.as_os_str()),
    ]);
    let settings = settings(env, &Options::default()).unwrap();
    let app = App::new(settings, Processes::new(None));
    let native = Native::new(app.native_deps(CancellationToken::new()));
    let mut serving = JoinSet::new();
    let mut healthy = Host::connect(&native, &mut serving).await;
    let text = "0123456789abcdef".repeat(16);
    let step = json!({"repeat": {"count": DELTAS, "step": {"text": text}}});
    let script = json!({
        "defaults": {"chunk": "whole"},
        "on_exhausted": "repeat_last",
        "turns": [{"steps": [step]}],
    });
    let params = json!({
        "cwd": root.join("workspace"),
        "model": "demo",
        "script": script.to_string(),
    });
    let created = healthy.request("session/create", params).await;
    let session = created["session"]["sessionId"].clone();
    let attach = json!({"sessionId": session, "afterSeq": 0});
    // Six that read nothing at all, one that reads a byte a second, two that leave and come back.
    let (mut still, mut bad) = (Vec::new(), JoinSet::new());
    for _ in 0..6 {
        let mut host = Host::connect(&native, &mut serving).await;
        host.request("session/attach", attach.clone()).await;
        still.push(host);
    }
    let mut dripping = Host::connect(&native, &mut serving).await;
    dripping.request("session/attach", attach.clone()).await;
    bad.spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            dripping.reader.read_u8().await.unwrap();
        }
    });
    for n in 0..2 {
        let (native, attach) = (native.clone(), attach.clone());
        bad.spawn(async move {
            let mut serving = JoinSet::new();
            loop {
                let mut host = Host::connect(&native, &mut serving).await;
                host.request("session/attach", attach.clone()).await;
                for _ in 0..50 * (n + 1) {
                    host.line().await;
                }
            }
        });
    }
    let mut delays = Vec::new();
    for _ in 0..n_messages {
        let input = json!({"sessionId": session, "input": "go"});
        healthy.send("turn/start", input).await;
        loop {
            let line = healthy.line().await;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if let Some(at) = message["params"]["at"].as_str() {
                let at: jiff::Timestamp = at.parse().unwrap();
                // The time of an event is cut to milliseconds, which makes its delay seem longer.
                delays.push(now.as_secs_f64() * 1e3 - at.as_millisecond() as f64);
            }
            if message["method"] == "turn/ended" {
                break;
            }
        }
    }
    bad.abort_all();
    drop(still);
    app.shutdown(Duration::from_secs(5)).await;
    delays
}
