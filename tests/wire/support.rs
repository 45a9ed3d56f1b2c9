//! The whole server but its process, and hosts that talk to it over pipes in memory.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore::app::{App, Options, settings};
use longshore::face::native::Native;
use longshore::os::env::Env;
use longshore::os::process::Processes;
use longshore::rpc;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What a pipe holds, like that of a Unix system.
const PIPE_BYTES: usize = 1 << 16;

/// Held by tests that measure the memory of this process: it is one for all of them.
pub(crate) static MEMORY: Mutex<()> = Mutex::const_new(());

/// A server in this process, with a home of its own.
pub(crate) struct Server {
    dir: TempDir,
    app: App,
    native: Arc<Native>,
    serving: JoinSet<()>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::configured("")
    }

    pub(crate) fn configured(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("workspace")).unwrap();
        let home = root.join("home");
        fs::create_dir_all(&home).unwrap();
        fs::write(home.join("config.toml"), config).unwrap();
        let env = Env::of([
            ("HOME", root.as_os_str()),
            ("LONGSHORE_HOME", home.as_os_str()),
        ]);
        let app = App::new(
            settings(env, &Options::default()).unwrap(),
            Processes::new(None),
        );
        let native = Native::new(app.native_deps(CancellationToken::new()));
        Self {
            dir,
            app,
            native,
            serving: JoinSet::new(),
        }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("workspace")
    }

    /// A host that has been initialized and answers nothing.
    pub(crate) async fn host(&mut self) -> Host {
        Host::connect(&self.native, &mut self.serving).await
    }

    /// A host that has been initialized with these capabilities.
    pub(crate) async fn able(&mut self, capabilities: Value) -> Host {
        Host::able(&self.native, &mut self.serving, capabilities).await
    }

    /// What makes hosts beside this server's own task.
    pub(crate) fn native(&self) -> Arc<Native> {
        self.native.clone()
    }

    pub(crate) async fn stop(self) {
        self.app.shutdown(Duration::from_secs(5)).await;
    }
}

/// A host's end of its connection. Dropping it is a host that vanished.
pub(crate) struct Host {
    pub(crate) reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Host {
    pub(crate) async fn connect(native: &Arc<Native>, serving: &mut JoinSet<()>) -> Self {
        Self::able(native, serving, json!({})).await
    }

    async fn able(native: &Arc<Native>, serving: &mut JoinSet<()>, capabilities: Value) -> Self {
        let (ours, theirs) = rpc::pipe(PIPE_BYTES);
        let native = native.clone();
        serving.spawn(async move {
            let served = native.serve(theirs.reader, theirs.writer).await;
            served.close(Duration::from_secs(1)).await;
        });
        let mut host = Self {
            reader: BufReader::new(ours.reader),
            writer: ours.writer,
        };
        let hello = json!({
            "protocolVersion": 1,
            "host": {"name": "wire", "version": "1"},
            "capabilities": capabilities,
        });
        host.request(1, "initialize", hello).await;
        host
    }

    pub(crate) async fn send(&mut self, id: u64, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(&line).await;
    }

    /// Answers a request of the server.
    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        let line = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.write(&line).await;
    }

    /// Refuses a request of the server.
    pub(crate) async fn refuse(&mut self, request: &Value, code: i64) {
        let error = json!({"code": code, "message": "the test says so"});
        let line = json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
        self.write(&line).await;
    }

    async fn write(&mut self, message: &Value) {
        self.writer
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    /// Skips to the next message of this method.
    pub(crate) async fn until(&mut self, method: &str) -> Value {
        let waited = async {
            loop {
                let message = self.next().await;
                if message["method"] == method {
                    return message;
                }
            }
        };
        // Only a hang meets it.
        let waited = tokio::time::timeout(Duration::from_secs(60), waited).await;
        waited.unwrap_or_else(|_| panic!("no {method} came"))
    }

    pub(crate) async fn next(&mut self) -> Value {
        let mut line = String::new();
        self.line(&mut line).await;
        serde_json::from_str(&line).unwrap()
    }

    /// The next line, as it comes.
    pub(crate) async fn line(&mut self, line: &mut String) {
        line.clear();
        assert_ne!(
            self.reader.read_line(line).await.unwrap(),
            0,
            "the server hung up"
        );
    }

    /// Sends a request and skips to its result.
    pub(crate) async fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(id, method, params).await;
        loop {
            let message = self.next().await;
            if message["id"] == id && message.get("method").is_none() {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }
}

/// Proportional memory of this process, in bytes.
pub(crate) fn pss_bytes() -> u64 {
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
