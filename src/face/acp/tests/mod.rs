//! The face over real sessions and the scripted model, spoken to in lines. Every message it sends is checked against
//! the protocol's own schema.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files by themselves"
)]

mod asks;
mod connection;
mod prompts;
mod sessions;

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

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
use crate::kernel::port::{AskHost, Publish};
use crate::kernel::time::Timestamp;
use crate::os::clock::FakeClock;
use crate::os::env::Env;
use crate::os::ids::SeededIds;
use crate::os::process::Processes;
use crate::provider::registry::{Registry, ScriptSources};
use crate::rpc;
use crate::schema::Validator;
use crate::session::deps::{Deps, Loads, OwnTurns, Running};
use crate::session::store::Store;
use crate::tool::file::FileLocks;
use crate::tool::shell::Shell;

/// What any wait in these tests may take.
const DEADLINE: Duration = Duration::from_secs(20);

/// What the scripted model does, by the first or last word of the prompt. Words of a turn that got no answer stand before
/// those of the next one, so what is to happen once is asked for by the last word.
const SCRIPT: &str = r#"
version: 1
turns:
  - name: start
    choose:
      - when: {last_user: '^write'}
        steps:
          - think: "I write."
          - text: "Writing."
          - tool_call: {id: w, name: Write, args: {path: a.txt, content: "hello\n"}}
      - when: {last_user: '^todo'}
        steps:
          - tool_call: {id: t, name: TodoList, args: {todos: [{title: one, status: done}]}}
      - when: {last_user: '^ask'}
        steps:
          - tool_call:
              id: q
              name: AskUserQuestion
              args:
                questions:
                  - {question: "Which?", header: W, options: [{label: A, description: a}, {label: B, description: b}]}
                  - {question: "How?", header: H, options: [{label: C, description: c}, {label: D, description: d}]}
      - when: {last_user: 'hang$'}
        goto: start
        steps: [{text: "Begun."}, {hang: true}]
      - when: {last_user: 'fail$'}
        goto: start
        steps: [{error: {kind: status, status: 400, message: "no such parameter"}}]
      - when: {last_user: 'filter$'}
        goto: start
        steps: [{error: {kind: filtered, message: "not that"}}]
      - goto: start
        steps: [{text: "You said: {{last_user}}"}]
        usage: {input_other: 7, output: 5}
  - goto: start
    steps: [{text: "Done."}]
"#;

/// Params that name nothing but a prompt.
fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

/// An agent in a home of its own.
struct Agent {
    acp: Acp,
    sessions: Sessions,
    hub: Arc<Hub>,
    dir: Arc<TempDir>,
}

impl Agent {
    fn new() -> Self {
        Self::with(LoadInput {
            model: Some("demo".to_owned()),
            ..LoadInput::default()
        })
    }

    fn without_model() -> Self {
        Self::with(LoadInput::default())
    }

    fn with(input: LoadInput<'_>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::at(Arc::new(dir), input)
    }

    /// Another process over the same home.
    fn again(self) -> Self {
        Self::at(
            self.dir,
            LoadInput {
                model: Some("demo".to_owned()),
                ..LoadInput::default()
            },
        )
    }

    fn at(dir: Arc<TempDir>, input: LoadInput<'_>) -> Self {
        let home = dir.path().join("home");
        let clock: Arc<dyn Clock> = Arc::new(FakeClock::at(Timestamp(0)));
        let config = Arc::new(config::load(input));
        let now: crate::hub::Now = Arc::new(|| Timestamp(0));
        let hub = Arc::new(Hub::new(AskLimits::default(), Arc::clone(&now)));
        let store = Arc::new(Store::new(&home));
        let env = Arc::new(Env::of([("HOME", dir.path())]));
        let scripts = ScriptSources {
            env_script: Some("script.yaml".into()),
            read: Arc::new(|_: &Path| Ok(SCRIPT.to_owned())),
            trace: None,
        };
        // Ids must differ from those of an earlier process over this home.
        let seed = std::fs::read_dir(dir.path()).unwrap().count() as u64 + 1;
        let (shared_clock, processes) = (Arc::clone(&clock), Processes::new(None));
        let (tasks, index) = (TaskTracker::new(), Index::new(&home));
        let sessions = Sessions::new(Deps {
            home,
            config: Arc::clone(&config),
            models: Arc::new(Registry::new(&config, Arc::new(Http::new(now)), scripts)),
            store: Arc::clone(&store),
            publish: Arc::clone(&hub) as Arc<dyn Publish>,
            own_turns: OwnTurns::WhileAttended,
            leaves_turns: false,
            asks: Arc::clone(&hub) as Arc<dyn AskHost>,
            host_fs: Arc::clone(&hub) as Arc<dyn crate::kernel::port::HostFs>,
            clock,
            ids: Arc::new(SeededIds::new(seed)),
            shell: Arc::new(Shell::new(&env, &config.shell, &config.task)),
            task_slots: TaskSlots::new(64),
            supervisor: None,
            processes,
            env,
            file_locks: Arc::new(FileLocks::default()),
            temps: None,
            search: Arc::default(),
            images: crate::media::pool::ImagePool::default(),
            cron: Scheduler::new(Arc::clone(&shared_clock), tasks.clone()),
            cron_index: Arc::new(index),
            tasks,
            running: Arc::new(Running::default()),
            loaded: Loads::default(),
        });
        let acp = Acp::new(AcpDeps {
            sessions: sessions.clone(),
            hub: Arc::clone(&hub),
            log: store,
            clock: shared_clock,
            limits: config.limits.clone(),
            stop: CancellationToken::new(),
        });
        Self {
            acp,
            sessions,
            hub,
            dir,
        }
    }

    fn cwd(&self) -> String {
        std::fs::canonicalize(self.dir.path())
            .unwrap()
            .display()
            .to_string()
    }

    fn connect(&self) -> Client {
        let (ours, theirs) = rpc::pipe(1 << 16);
        let serving = TaskTracker::new().spawn(self.acp.serve(theirs.reader, theirs.writer));
        Client {
            reader: BufReader::new(ours.reader),
            writer: ours.writer,
            serving,
            n_requests: 0,
            methods: HashMap::new(),
            seen: Vec::new(),
            _home: self.dir.clone(),
        }
    }

    /// A client that has been initialized, with these capabilities.
    async fn client(&self, capabilities: Value) -> Client {
        let mut client = self.connect();
        client
            .result(
                "initialize",
                json!({"protocolVersion": 1, "clientCapabilities": capabilities}),
            )
            .await;
        client
    }

    /// A client with a session.
    async fn session(&self) -> (Client, String) {
        let mut client = self.client(json!({})).await;
        let session = client.new_session(&self.cwd()).await;
        (client, session)
    }
}

/// The other end of a connection.
struct Client {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    serving: JoinHandle<Served>,
    n_requests: u64,
    /// What was asked under each id.
    methods: HashMap<u64, String>,
    /// What came while something else was waited for.
    seen: Vec<Value>,
    /// A session whose directory is gone would write no more.
    _home: Arc<TempDir>,
}

impl Client {
    async fn line(&mut self, line: &str) {
        self.writer
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn send(&mut self, message: Value) {
        self.line(&message.to_string()).await;
    }

    /// The next message, once it has been checked.
    async fn next(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(DEADLINE, self.reader.read_line(&mut line)).await;
        let Ok(read) = read else {
            panic!("nothing comes; seen: {:#?}", self.seen)
        };
        read.unwrap();
        let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        self.check(&message);
        message
    }

    fn check(&self, message: &Value) {
        assert_eq!(message["jsonrpc"], "2.0");
        let (method, of, value) = match (message["method"].as_str(), message["id"].as_u64()) {
            (Some(method), _) => (
                method.to_owned(),
                &["Request", "Notification"][..],
                &message["params"],
            ),
            (None, Some(id)) if message.get("result").is_some() => (
                self.methods[&id].clone(),
                &["Response"][..],
                &message["result"],
            ),
            _ => {
                assert!(message["error"]["data"].is_object(), "{message}");
                return;
            }
        };
        if method == "session/set_model" {
            return;
        }
        // Not stable yet, so not in this schema; its answer is that of a new session.
        let method = if method == "session/fork" {
            "session/new".to_owned()
        } else {
            method
        };
        let checked = SCHEMA.check(&method, of, value);
        assert_eq!(checked, Ok(()), "{method}: {message}");
    }

    /// Sends a request and returns its id.
    async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.n_requests += 1;
        let id = self.n_requests;
        self.methods.insert(id, method.to_owned());
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await;
    }

    async fn cancel(&mut self, session: &str) {
        self.notify("session/cancel", json!({"sessionId": session}))
            .await;
    }

    /// Waits for the answer to a request; what comes before it is kept in `seen`.
    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.seen.push(message);
        }
    }

    /// Waits for a request of the agent; what comes before it is kept in `seen`.
    async fn asked(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await;
            if message["method"] == method {
                return message;
            }
            self.seen.push(message);
        }
    }

    /// Waits for an update of this kind; what comes before it is kept in `seen`.
    async fn update(&mut self, kind: &str) -> Value {
        loop {
            let mut message = self.next().await;
            if message["params"]["update"]["sessionUpdate"] == kind {
                return message["params"]["update"].take();
            }
            self.seen.push(message);
        }
    }

    async fn respond(&mut self, request: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
            .await;
    }

    async fn select(&mut self, request: &Value, option: &str) {
        self.respond(
            request,
            json!({"outcome": {"outcome": "selected", "optionId": option}}),
        )
        .await;
    }

    async fn reply(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    async fn result(&mut self, method: &str, params: Value) -> Value {
        let mut reply = self.reply(method, params).await;
        assert!(reply.get("error").is_none(), "{method}: {reply}");
        reply["result"].take()
    }

    /// The code of the refusal, and the path it names.
    async fn refusal(&mut self, method: &str, params: Value) -> (i64, Option<String>) {
        let reply = self.reply(method, params).await;
        let error = &reply["error"];
        let code = error["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("{method}: {reply}"));
        (code, error["data"]["path"].as_str().map(str::to_owned))
    }

    async fn new_session(&mut self, cwd: &str) -> String {
        let result = self
            .result("session/new", json!({"cwd": cwd, "mcpServers": []}))
            .await;
        result["sessionId"].as_str().unwrap().to_owned()
    }

    /// Plays a prompt that asks nothing; its stop reason.
    async fn play(&mut self, session: &str, text: &str) -> String {
        let result = self.result("session/prompt", prompt(session, text)).await;
        result["stopReason"].as_str().unwrap().to_owned()
    }

    /// The updates seen so far, which are forgotten.
    fn updates(&mut self) -> Vec<Value> {
        let seen = std::mem::take(&mut self.seen);
        seen.into_iter()
            .filter(|message| message["method"] == "session/update")
            .map(|mut message| message["params"]["update"].take())
            .collect()
    }

    /// Their kinds.
    fn kinds(&mut self) -> Vec<String> {
        self.updates()
            .iter()
            .map(|update| update["sessionUpdate"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The states that calls went through.
    fn states(&mut self) -> Vec<String> {
        let states = self
            .updates()
            .into_iter()
            .filter_map(|update| update["status"].as_str().map(str::to_owned));
        states.collect()
    }

    /// Nothing waits to be read: what was sent before is answered, and nothing else comes.
    async fn is_silent(&mut self) -> bool {
        let id = self.ask("nothing/of/this/name", json!({})).await;
        self.next().await["id"] == id
    }
}

/// The protocol's schema, by method.
struct Schema {
    whole: Value,
    by_definition: Mutex<HashMap<String, Arc<Validator>>>,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let text = include_str!("../../../../tests/fixtures/acp/v1.schema.json");
    Schema {
        whole: serde_json::from_str(text).unwrap(),
        by_definition: Mutex::default(),
    }
});

impl Schema {
    fn check(&self, method: &str, endings: &[&str], value: &Value) -> Result<(), String> {
        let definitions = self.whole["$defs"].as_object().unwrap();
        let name = definitions
            .iter()
            .find(|(name, definition)| {
                definition["x-method"] == method
                    && endings.iter().any(|ending| name.ends_with(ending))
            })
            .map(|(name, _)| name.clone())
            .ok_or_else(|| format!("the schema has no {method}"))?;
        let mut known = self.by_definition.lock().unwrap();
        let validator = known.entry(name.clone()).or_insert_with(|| {
            let schema = json!({
                "$schema": self.whole["$schema"],
                "$ref": format!("#/$defs/{name}"),
                "$defs": self.whole["$defs"],
            });
            Arc::new(Validator::compile(&schema).unwrap())
        });
        validator.check(value)
    }
}

#[test]
fn the_schema_judges() {
    let update = |update: Value| {
        SCHEMA.check(
            "session/update",
            &["Notification"],
            &json!({"sessionId": "s", "update": update}),
        )
    };
    assert_eq!(
        update(json!({"sessionUpdate": "current_mode_update", "currentModeId": "x"})),
        Ok(())
    );
    assert!(update(json!({"sessionUpdate": "current_mode_update"})).is_err());
    assert!(
        SCHEMA
            .check("session/unheard", &["Request"], &json!({}))
            .is_err()
    );
}
