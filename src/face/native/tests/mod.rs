//! The face over real sessions and the scripted model, spoken to in lines.

mod connection;
mod events;

use std::path::Path;
use std::time::Duration;

use longshore_protocol::id::SessionId;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::*;
use crate::background::TaskSlots;
use crate::config::{self, LoadInput};
use crate::cron::index::Index;
use crate::cron::scheduler::Scheduler;
use crate::http::Http;
use crate::hub::AskLimits;
use crate::kernel::time::Timestamp;
use crate::os::clock::FakeClock;
use crate::os::env::Env;
use crate::os::ids::SeededIds;
use crate::os::process::Processes;
use crate::provider::registry::{Registry, ScriptSources};
use crate::rpc;
use crate::session::deps::{Deps, Loads, OwnTurns, Running};
use crate::session::store::Store;
use crate::tool::file::FileLocks;
use crate::tool::shell::Shell;

/// What any wait in these tests may take.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server in a home of its own.
struct Server {
    native: Arc<Native>,
    dir: TempDir,
    tasks: TaskTracker,
}

impl Server {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let clock: Arc<dyn Clock> = Arc::new(FakeClock::at(Timestamp(0)));
        let config = Arc::new(config::load(LoadInput::default()));
        let now: crate::hub::Now = Arc::new(|| Timestamp(0));
        let hub = Arc::new(Hub::new(AskLimits::default(), Arc::clone(&now)));
        let store = Arc::new(Store::new(&home));
        let env = Arc::new(Env::of([("HOME", dir.path())]));
        let scripts = ScriptSources {
            env_script: None,
            read: Arc::new(|_: &Path| Err(std::io::ErrorKind::NotFound.into())),
            trace: None,
        };
        let (tasks, index) = (TaskTracker::new(), Index::new(&home));
        let sessions = Sessions::new(Deps {
            home,
            config: Arc::clone(&config),
            models: Arc::new(Registry::new(&config, Arc::new(Http::new(now)), scripts)),
            store: Arc::clone(&store),
            publish: Arc::clone(&hub) as Arc<dyn crate::kernel::port::Publish>,
            own_turns: OwnTurns::WhileAttended,
            leaves_turns: false,
            asks: Arc::clone(&hub) as Arc<dyn crate::kernel::port::AskHost>,
            host_fs: Arc::clone(&hub) as Arc<dyn crate::kernel::port::HostFs>,
            clock: Arc::clone(&clock),
            ids: Arc::new(SeededIds::new(7)),
            shell: Arc::new(Shell::new(&env, &config.shell, &config.task)),
            task_slots: TaskSlots::new(64),
            supervisor: None,
            processes: Processes::new(None),
            env,
            file_locks: Arc::new(FileLocks::default()),
            temps: None,
            search: Arc::default(),
            cron: Scheduler::new(Arc::clone(&clock), tasks.clone()),
            cron_index: Arc::new(index),
            images: crate::media::pool::ImagePool::default(),
            tasks: tasks.clone(),
            running: Arc::new(Running::default()),
            loaded: Loads::default(),
        });
        let native = Native::new(NativeDeps {
            on_shutdown: OnShutdown::Server,
            sessions,
            hub,
            log: store,
            clock,
            server: ServerInfo {
                name: "longshore".into(),
                version: "0".into(),
                pid: 1,
            },
            limits: config.limits.clone(),
            warnings: Box::new(|| vec![Warning::new("config", "a problem")]),
            stop: CancellationToken::new(),
        });
        Self { native, dir, tasks }
    }

    fn connect(&self) -> Host {
        let (ours, theirs) = rpc::pipe(1 << 16);
        let native = Arc::clone(&self.native);
        let serving = TaskTracker::new()
            .spawn(async move { native.serve(theirs.reader, theirs.writer).await });
        Host {
            reader: BufReader::new(ours.reader),
            writer: ours.writer,
            serving,
            n_requests: 0,
        }
    }

    /// A host that has said hello, with these capabilities.
    async fn host(&self, capabilities: Value) -> Host {
        let mut host = self.connect();
        let hello = json!({
            "protocolVersion": 1, "host": {"name": "test", "version": "1"}, "capabilities": capabilities,
        });
        host.result("initialize", hello).await;
        host
    }

    fn cwd(&self) -> String {
        std::fs::canonicalize(self.dir.path())
            .unwrap()
            .display()
            .to_string()
    }

    /// A session of the scripted model, made by this host; `session/created` is read.
    async fn session(&self, host: &mut Host, script: &str) -> String {
        let params = json!({"cwd": self.cwd(), "model": "demo", "script": script});
        let result = host.result("session/create", params).await;
        host.event("session/created").await;
        result["session"]["sessionId"].as_str().unwrap().to_owned()
    }
}

/// The other end of a connection.
struct Host {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    serving: JoinHandle<Served>,
    n_requests: u64,
}

impl Host {
    async fn send(&mut self, message: Value) {
        self.writer
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn next(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(DEADLINE, self.reader.read_line(&mut line)).await;
        read.expect("something to read in time").unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    /// Sends a request and returns its id.
    async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.n_requests += 1;
        let id = self.n_requests;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    /// Asks, and takes the very next message for the reply.
    async fn reply(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        let reply = self.next().await;
        assert_eq!(reply["id"], id, "{method}: {reply}");
        reply
    }

    async fn result(&mut self, method: &str, params: Value) -> Value {
        let mut reply = self.reply(method, params).await;
        assert!(reply.get("error").is_none(), "{method}: {reply}");
        reply["result"].take()
    }

    /// The kind and code of the refusal.
    async fn refusal(&mut self, method: &str, params: Value) -> (String, i64) {
        let reply = self.reply(method, params).await;
        let kind = reply["error"]["data"]["kind"]
            .as_str()
            .unwrap_or_else(|| panic!("{method}: {reply}"));
        (kind.to_owned(), reply["error"]["code"].as_i64().unwrap())
    }

    /// The next message, an event of this name.
    async fn event(&mut self, name: &str) -> Value {
        let mut event = self.next().await;
        assert_eq!(event["method"], name, "{event}");
        event["params"].take()
    }

    /// The events up to the one of this name.
    async fn until(&mut self, name: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            let is_last = event["method"] == name;
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    /// Closes our side and waits for the server's.
    async fn leave(self) -> Served {
        drop((self.reader, self.writer));
        tokio::time::timeout(DEADLINE, self.serving)
            .await
            .unwrap()
            .unwrap()
    }
}

fn seqs(events: &[Value]) -> Vec<u64> {
    events
        .iter()
        .filter_map(|event| event["params"]["seq"].as_u64())
        .collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| event["method"].as_str())
        .collect()
}

const HELLO: &str =
    "version: 1\nturns:\n  - steps: [{text: Hello there}]\n  - steps: [{text: Again}]\n";
const HANG: &str = "version: 1\nturns:\n  - steps: [{hang: true}]\n";
