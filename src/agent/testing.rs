//! An agent on fakes: a sink that remembers, a scripted model, hosts that answer by script, a workspace on the disk.
//!
//! Each turn is checked on its way out: every request and the history are valid for a strict provider, and an agent
//! restored from what was recorded equals the live one.

#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out files and look at them"
)]

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, SessionId, TurnId};
use longshore_protocol::value::approval::{ApprovalAnswer, OptionId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::display::Display;
use longshore_protocol::value::model::ModelInfo;
use longshore_protocol::value::session::Mode;
use longshore_protocol::value::turn::{Origin, TurnReason};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::context::prompt::Surroundings;
use super::open::Left;
use super::state::Restore;
use super::turn::{TurnInput, TurnOutcome};
use super::{Agent, Attachments, Board, Steers, TurnCx};
use crate::config::values::{ImageConfig, LoopConfig};
use crate::kernel::access::Access;
use crate::kernel::ask::{Ask, AskAnswer, AskOutcome};
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::fakes::FakeHostFs;
use crate::kernel::fault::Fault;
use crate::kernel::message::{Message, MessageOrigin, Part};
use crate::kernel::port::{Ability, AskHost, AskKind, EventSink};
use crate::kernel::rule::Subject;
use crate::media::pool::ImagePool;
use crate::os::clock::FakeClock;
use crate::os::fs::Durability;
use crate::path::{Workspace, WorkspaceOptions};
use crate::permission::{Anchors, RuleSet};
use crate::provider::error::ProviderError;
use crate::provider::scripted::{Script, ScriptedClient};
use crate::provider::{DeltaStream, ModelClient, ModelRequest};
use crate::tool::file::FileDeps;
use crate::tool::file::edit::Edit;
use crate::tool::file::media::ReadMediaFile;
use crate::tool::file::read::Read;
use crate::tool::file::write::Write;
use crate::tool::registry::Registry;
use crate::tool::{Call, CallCx, ExecCx, Outcome, Refusal, Tool, ToolSpec};

/// Longer than anything a test waits for; time is paused, so nobody waits in truth.
pub(crate) const PATIENCE: Duration = Duration::from_secs(100_000);

/// See the module.
pub(crate) struct Bench {
    _dir: TempDir,
    pub(crate) ws: PathBuf,
    pub(crate) agent: Agent,
    pub(crate) sink: Arc<Recorder>,
    pub(crate) asks: Arc<FakeAsks>,
    pub(crate) host_fs: Arc<FakeHostFs>,
    pub(crate) model: Arc<Spy>,
    pub(crate) mode: watch::Sender<Mode>,
    pub(crate) board: Arc<Board>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) limits: LoopConfig,
    pub(crate) unattended: bool,
    workspace: Arc<Workspace>,
    n_turns: u32,
}

impl Bench {
    /// With a script and the real file tools, in yolo mode.
    pub(crate) fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ws = dir.path().canonicalize().unwrap().join("ws");
        std::fs::create_dir(&ws).unwrap();
        let workspace = Arc::new(Workspace::open(WorkspaceOptions {
            cwd: ws.clone(),
            ..WorkspaceOptions::default()
        }));
        let deps = FileDeps {
            freshness: Arc::default(),
            locks: Arc::default(),
            search: Arc::default(),
            durability: Durability::Kernel,
            temps: None,
            must_be_fresh: crate::config::values::Freshness::Default,
            image_input: true,
            video_input: false,
            images: ImagePool::default(),
            image: ImageConfig::default(),
        };
        Self {
            _dir: dir,
            ws,
            agent: Agent::new("s".into()),
            sink: Arc::default(),
            asks: Arc::default(),
            host_fs: Arc::default(),
            model: Arc::new(Spy::new(script)),
            mode: watch::Sender::new(Mode::Yolo),
            board: Arc::default(),
            tools: vec![
                Arc::new(Read::new(deps.clone())),
                Arc::new(Write::new(deps.clone())),
                Arc::new(Edit::new(deps.clone())),
                Arc::new(ReadMediaFile::new(deps)),
                Arc::new(crate::tool::todo::TodoList::new()),
            ],
            limits: LoopConfig::default(),
            unattended: false,
            workspace,
            n_turns: 0,
        }
    }

    /// The same with a tool of the test's own.
    pub(crate) fn with(mut self, tool: Probe) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    pub(crate) fn put(&self, name: &str, text: &str) {
        std::fs::write(self.ws.join(name), text).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.ws.join(name)).unwrap()
    }

    /// What the next turn works with.
    pub(crate) fn turn(&mut self) -> TurnCx {
        self.n_turns += 1;
        let anchors = Anchors::new(&self.ws, self.workspace.real_cwd(), None);
        TurnCx {
            turn: TurnId::from(format!("t{}", self.n_turns)),
            cancel: CancellationToken::new(),
            steers: Arc::new(Steers::default()),
            model: self.model.clone(),
            effort: None,
            script: None,
            mode: self.mode.subscribe(),
            unattended: self.unattended,
            limits: self.limits.clone(),
            workspace: self.workspace.clone(),
            tools: Arc::new(Registry::new(self.tools.clone())),
            rules: Arc::new(RuleSet::compile(&[], &anchors).0),
            auto_ask_denies: false,
            approval_timeout: None,
            results_dir: self.ws.join("../results"),
            attachments: Attachments {
                pool: ImagePool::default(),
                max_edge_px: ImageConfig::default().max_edge_px,
                dir: self.ws.join("../media"),
            },
            surroundings: Surroundings {
                home: None,
                longshore_home: self.ws.join("../home"),
                shell: "/bin/sh".into(),
                date: "2026-01-01".into(),
            },
            sink: self.sink.clone(),
            asks: self.asks.clone(),
            host_fs: self.host_fs.clone(),
            board: self.board.clone(),
            clock: Arc::new(FakeClock::default()),
        }
    }

    /// Runs a turn to its end and checks what it leaves.
    pub(crate) async fn run(&mut self, text: &str) -> TurnOutcome {
        let cx = self.turn();
        self.run_in(&cx, text).await
    }

    /// The same with what [`Bench::turn`] gave, so that it can be cancelled and steered.
    pub(crate) async fn run_in(&mut self, cx: &TurnCx, text: &str) -> TurnOutcome {
        let outcome = self.run_unchecked(cx, text).await;
        self.check();
        outcome
    }

    /// The same where what was recorded can't be whole.
    pub(crate) async fn run_unchecked(&mut self, cx: &TurnCx, text: &str) -> TurnOutcome {
        let input = TurnInput {
            origin: Origin::User,
            input: vec![ContentPart::Text { text: text.into() }],
            wakes: Vec::new(),
            recorded: None,
        };
        let running = tokio::time::timeout(PATIENCE, self.agent.run(cx, input));
        let outcome = running
            .await
            .unwrap_or_else(|_| panic!("the turn hangs: {:#?}", self.sink.lines()));
        let ended = DomainEvent::TurnEnded {
            turn: cx.turn.clone(),
            reason: outcome.reason,
            stop: outcome.stop,
            error: outcome.error.clone(),
            usage: outcome.usage,
            duration_ms: 0,
        };
        let _unkept = self.sink.durable(&AgentId::main(), ended);
        outcome
    }

    fn check(&self) {
        let history = self.history();
        valid_for_provider(&history).unwrap_or_else(|why| panic!("{why}: {history:#?}"));
        for request in self.model.requests() {
            valid_for_provider(&request.messages)
                .unwrap_or_else(|why| panic!("{why}: {:#?}", request.messages));
            assert!(
                !matches!(
                    &**request.messages.last().unwrap(),
                    Message::Assistant { .. }
                ),
                "nothing was asked"
            );
        }
        let mut restore = Restore::new("s".into());
        for entry in self.sink.entries() {
            match entry {
                Entry::Durable(event) => restore.event(&event),
                Entry::State(record) => restore.state(record),
                Entry::Live(_) => {}
            }
        }
        let (restored, _, left) = restore.finish();
        assert_eq!(left, Left::default(), "nothing stays open");
        assert_eq!(restored.context.messages(), history);
        assert_eq!(restored.context.tokens(), self.agent.context.tokens());
        assert_eq!(
            (restored.usage, restored.grants),
            (self.agent.usage, self.agent.grants.clone())
        );
        assert_eq!(
            (restored.todos, restored.interrupted),
            (self.agent.todos.clone(), self.agent.interrupted)
        );
        assert_eq!(restored.told, self.agent.told);
        assert_eq!(restored.ids.approvals, self.agent.ids.approvals);
        assert_eq!(restored.ids.questions, self.agent.ids.questions);
    }

    pub(crate) fn history(&self) -> Vec<Arc<Message>> {
        self.agent.context.messages()
    }

    /// The history, one short line each.
    pub(crate) fn told(&self) -> Vec<String> {
        self.history().iter().map(|message| said(message)).collect()
    }

    /// The results in the history, in its order.
    pub(crate) fn results(&self) -> Vec<String> {
        self.told()
            .into_iter()
            .filter(|line| line.starts_with("result ") || line.starts_with("error "))
            .collect()
    }
}

/// A message in short: its role and its text.
pub(crate) fn said(message: &Message) -> String {
    match message {
        Message::User {
            parts,
            origin: MessageOrigin::User,
        } => format!("user {}", text_of(parts)),
        Message::User {
            parts,
            origin: MessageOrigin::Notice,
        } => format!("notice {}", text_of(parts)),
        Message::User {
            parts,
            origin: MessageOrigin::Shell,
        } => format!("shell {}", text_of(parts)),
        Message::User { parts, .. } => format!("reminder {}", text_of(parts)),
        Message::Assistant {
            parts,
            calls,
            partial,
        } => {
            let calls: Vec<_> = calls.iter().map(|call| call.id.to_string()).collect();
            let partial = if *partial { " partial" } else { "" };
            format!(
                "assistant{partial} {} [{}]",
                text_of(parts),
                calls.join(" ")
            )
        }
        Message::ToolResult {
            call,
            parts,
            is_error,
            ..
        } => {
            format!(
                "{} {call} {}",
                if *is_error { "error" } else { "result" },
                text_of(parts)
            )
        }
    }
}

pub(crate) fn text_of(parts: &[Part]) -> String {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.to_string(),
            Part::Thinking(thinking) => format!("({})", thinking.text),
            Part::Image { .. } => "[image]".into(),
        })
        .collect()
}

/// What any provider takes: each call has exactly one result right after its answer, in order; nothing else has one;
/// nothing is blank; what a person says comes first and is never answered by two answers in a row.
pub(crate) fn valid_for_provider(messages: &[Arc<Message>]) -> Result<(), String> {
    let mut open: VecDeque<String> = VecDeque::new();
    let mut ids = HashSet::new();
    let mut last: Option<&Message> = None;
    for message in messages {
        let (Message::User { parts, .. }
        | Message::Assistant { parts, .. }
        | Message::ToolResult { parts, .. }) = &**message;
        if parts
            .iter()
            .any(|part| matches!(part, Part::Text(text) if text.trim().is_empty()))
        {
            return Err(format!("a blank part in {message:?}"));
        }
        match &**message {
            Message::ToolResult { call, .. } => {
                if open.pop_front().as_deref() != Some(call.as_str()) {
                    return Err(format!(
                        "a result of {call} stands where there should be another"
                    ));
                }
                if parts.is_empty() {
                    return Err(format!("the result of {call} is empty"));
                }
            }
            _ if !open.is_empty() => return Err(format!("no result of {open:?}")),
            Message::Assistant { calls, .. } => {
                if matches!(last, None | Some(Message::Assistant { .. })) {
                    return Err("an answer to nothing".into());
                }
                let says = parts.iter().any(|part| matches!(part, Part::Text(_)));
                if !says && calls.is_empty() {
                    return Err("an empty answer".into());
                }
                for call in calls {
                    if !ids.insert(call.id.clone()) {
                        return Err(format!("two calls {}", call.id));
                    }
                    open.push_back(call.id.to_string());
                }
            }
            Message::User { origin, .. } => {
                if parts.is_empty() {
                    return Err("an empty input".into());
                }
                let said_before = matches!(
                    last,
                    Some(Message::User {
                        origin: MessageOrigin::User,
                        ..
                    })
                );
                if *origin == MessageOrigin::User && said_before {
                    return Err("two inputs in a row".into());
                }
            }
        }
        last = Some(message);
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("no result of {open:?} at the end"))
    }
}

/// Something said to the sink.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Live(DomainEvent),
    Durable(DomainEvent),
    State(StateRecord),
}

type Refuses = Box<dyn Fn(&Entry) -> bool + Send>;

/// A sink that remembers, and fails where it is told to.
#[derive(Default)]
pub(crate) struct Recorder {
    entries: Mutex<Vec<Entry>>,
    changed: watch::Sender<usize>,
    refuses: Mutex<Option<Refuses>>,
    pub(crate) sync_fails: std::sync::atomic::AtomicBool,
}

impl Recorder {
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap().clone()
    }

    /// From now on the entries that `refuses` picks can't be written.
    pub(crate) fn refuse(&self, refuses: impl Fn(&Entry) -> bool + Send + 'static) {
        *self.refuses.lock().unwrap() = Some(Box::new(refuses));
    }

    /// What was said, one short line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.entries().iter().map(line).collect()
    }

    /// The lines that begin with one of the words.
    pub(crate) fn only(&self, words: &[&str]) -> Vec<String> {
        self.lines()
            .into_iter()
            .filter(|line| words.iter().any(|word| line.starts_with(word)))
            .collect()
    }

    /// Waits until a line has been said.
    pub(crate) async fn until(&self, wanted: &str) {
        let mut changed = self.changed.subscribe();
        let waiting = async {
            while !self.lines().iter().any(|line| line == wanted) {
                changed.changed().await.unwrap();
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "no {wanted}: {:#?}", self.lines());
    }

    fn add(&self, entry: Entry) -> Result<u64, Fault> {
        if !matches!(entry, Entry::Live(_))
            && self
                .refuses
                .lock()
                .unwrap()
                .as_ref()
                .is_some_and(|refuses| refuses(&entry))
        {
            return Err(Fault::new(ErrorKind::StorageFull, "no space left"));
        }
        let mut entries = self.entries.lock().unwrap();
        entries.push(entry);
        let n = entries.len();
        drop(entries);
        self.changed.send_replace(n);
        Ok(n as u64)
    }
}

impl EventSink for Recorder {
    fn live(&self, _: &AgentId, event: DomainEvent) {
        assert!(event.is_live());
        self.add(Entry::Live(event)).unwrap();
    }

    fn durable(&self, _: &AgentId, event: DomainEvent) -> Result<u64, Fault> {
        assert!(!event.is_live());
        self.add(Entry::Durable(event))
    }

    fn state(&self, _: &AgentId, record: StateRecord) -> Result<(), Fault> {
        self.add(Entry::State(record)).map(|_| ())
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>> {
        let fails = self.sync_fails.load(std::sync::atomic::Ordering::SeqCst);
        async move {
            if fails {
                Err(Fault::new(ErrorKind::StorageError, "the disk is broken"))
            } else {
                Ok(())
            }
        }
        .boxed()
    }
}

/// An entry in short.
pub(crate) fn line(entry: &Entry) -> String {
    let event = match entry {
        Entry::State(StateRecord::Reminder { .. }) => return "state reminder".into(),
        Entry::State(StateRecord::Granted { grant }) => {
            return format!("state granted {}", grant.rule);
        }
        Entry::State(StateRecord::Spent { usage, .. }) => {
            return format!("state spent {}", usage.total());
        }
        Entry::State(StateRecord::Shell { .. }) => return "state shell".into(),
        Entry::State(StateRecord::Cron(_)) => return "state cron".into(),
        Entry::State(StateRecord::ModelState { .. }) => return "state model".into(),
        Entry::State(StateRecord::Queued { turn, .. }) => return format!("state queued {turn}"),
        Entry::State(StateRecord::Steered { turn, .. }) => return format!("state steered {turn}"),
        Entry::State(StateRecord::Called { calls, .. }) => {
            return format!("state called {}", calls.len());
        }
        Entry::Live(event) | Entry::Durable(event) => event,
    };
    event_line(event)
}

/// An event in short.
pub(crate) fn event_line(event: &DomainEvent) -> String {
    match event {
        DomainEvent::TurnQueued { turn, .. } => format!("turn/queued {turn}"),
        DomainEvent::TurnStarted { turn, .. } => format!("turn/started {turn}"),
        DomainEvent::TurnSteered { .. } => "turn/steered".into(),
        DomainEvent::TurnEnded { turn, reason, .. } => {
            format!("turn/ended {turn} {reason:?}").to_lowercase()
        }
        DomainEvent::StepStarted { step, .. } => format!("step/started {step}"),
        DomainEvent::StepEnded { step, .. } => format!("step/ended {step}"),
        DomainEvent::StepInterrupted { step, finish, .. } => {
            format!("step/interrupted {step} {finish:?}").to_lowercase()
        }
        DomainEvent::StepRetrying {
            attempt,
            delay_ms,
            discard,
            ..
        } => {
            format!("step/retrying {attempt} {delay_ms} [{}]", discard.join(" "))
        }
        DomainEvent::MessageDelta { item, text, .. } => format!("message/delta {item} {text}"),
        DomainEvent::MessageCompleted { item, partial, .. } => {
            format!(
                "message/completed {item}{}",
                if *partial { " partial" } else { "" }
            )
        }
        DomainEvent::ThinkingDelta { item, text, .. } => format!("thinking/delta {item} {text}"),
        DomainEvent::ThinkingCompleted { item, .. } => format!("thinking/completed {item}"),
        DomainEvent::ToolDelta { call, text, .. } => format!("tool/delta {call} {text}"),
        DomainEvent::ToolStarted { call, .. } => format!("tool/started {call}"),
        DomainEvent::ToolRunning { call } => format!("tool/running {call}"),
        DomainEvent::ToolProgress { call, text, .. } => format!("tool/progress {call} {text}"),
        DomainEvent::ToolCompleted { call, is_error, .. } => {
            format!(
                "tool/completed {call} {}",
                if *is_error { "error" } else { "ok" }
            )
        }
        DomainEvent::ApprovalRequested { request } => {
            format!("approval/requested {}", request.approval_id)
        }
        DomainEvent::ApprovalResolved {
            approval, outcome, ..
        } => format!("approval/resolved {approval} {outcome:?}").to_lowercase(),
        DomainEvent::QuestionRequested { request } => {
            format!("question/requested {}", request.question_id)
        }
        DomainEvent::QuestionResolved { question, outcome } => {
            format!("question/resolved {question} {outcome:?}").to_lowercase()
        }
        DomainEvent::TodoUpdated { todos } => format!("todo/updated {}", todos.len()),
        DomainEvent::SessionStatus { status, .. } => {
            format!("session/status {status:?}").to_lowercase()
        }
        DomainEvent::SessionUsage { total, .. } => format!("session/usage {}", total.total()),
        DomainEvent::SessionCreated { .. } => "session/created".into(),
        DomainEvent::SessionUpdated { .. } => "session/updated".into(),
        DomainEvent::SessionClosed => "session/closed".into(),
        DomainEvent::SessionDeleted => "session/deleted".into(),
        DomainEvent::SessionCleared => "session/cleared".into(),
        DomainEvent::TurnsUndone { turns } => {
            let turns: Vec<&str> = turns.iter().map(TurnId::as_str).collect();
            format!("turn/undone {}", turns.join(" "))
        }
        DomainEvent::ShellStarted { command_id, .. } => format!("shell/started {command_id}"),
        DomainEvent::ShellOutput {
            command_id, text, ..
        } => format!("shell/output {command_id} {text}"),
        DomainEvent::ShellEnded {
            command_id,
            is_error,
            ..
        } => format!(
            "shell/ended {command_id} {}",
            if *is_error { "error" } else { "ok" }
        ),
        DomainEvent::TaskStarted { task } => format!("task/started {}", task.task_id),
        DomainEvent::TaskUpdated { task } => format!("task/updated {}", task.task_id),
        DomainEvent::TaskEnded { task, .. } => {
            format!("task/ended {} {:?}", task.task_id, task.status).to_lowercase()
        }
        DomainEvent::CronChanged { change, job } => {
            format!("cron/changed {} {change:?}", job.prompt).to_lowercase()
        }
        DomainEvent::CronFired { turn, fire } => {
            format!("cron/fired {turn} {} {}", fire.prompt, fire.coalesced_count)
        }
        DomainEvent::CronMissed { turn, count } => format!("cron/missed {turn} {count}"),
        DomainEvent::Warning { warning } => format!("warning {}", warning.message),
    }
}

/// How the next ask goes.
pub(crate) enum Reply {
    Approval(ApprovalAnswer),
    Unanswered(&'static str),
    /// Only a withdrawal ends it.
    Never,
}

impl Reply {
    pub(crate) fn option(option: OptionId) -> Self {
        Self::Approval(ApprovalAnswer {
            option_id: Some(option),
            ..ApprovalAnswer::default()
        })
    }
}

/// Hosts that answer by script.
pub(crate) struct FakeAsks {
    pub(crate) ability: Mutex<Ability>,
    replies: Mutex<VecDeque<Reply>>,
    asked: Mutex<Vec<Arc<Ask>>>,
}

impl Default for FakeAsks {
    fn default() -> Self {
        Self {
            ability: Mutex::new(Ability::Able),
            replies: Mutex::default(),
            asked: Mutex::default(),
        }
    }
}

impl FakeAsks {
    pub(crate) fn will(&self, replies: impl IntoIterator<Item = Reply>) {
        self.replies.lock().unwrap().extend(replies);
    }

    pub(crate) fn asked(&self) -> Vec<Arc<Ask>> {
        self.asked.lock().unwrap().clone()
    }
}

impl AskHost for FakeAsks {
    fn ability(&self, _: &SessionId, _: AskKind) -> Ability {
        *self.ability.lock().unwrap()
    }

    fn ask_again(
        &self,
        ask: Arc<Ask>,
        _: Duration,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, AskOutcome> {
        self.ask(ask, cancel)
    }

    fn ask(&self, ask: Arc<Ask>, cancel: CancellationToken) -> BoxFuture<'static, AskOutcome> {
        self.asked.lock().unwrap().push(ask.clone());
        let reply = self.replies.lock().unwrap().pop_front();
        let reply = reply.unwrap_or_else(|| panic!("nobody is scripted to answer {ask:?}"));
        async move {
            match reply {
                Reply::Approval(answer) => AskOutcome::Answered {
                    answer: AskAnswer::Approval(answer),
                    by: "host".into(),
                },
                Reply::Unanswered(reason) => AskOutcome::Unanswered {
                    reason: reason.into(),
                },
                Reply::Never => {
                    cancel.cancelled().await;
                    AskOutcome::Withdrawn
                }
            }
        }
        .boxed()
    }
}

/// A scripted model that remembers what it was asked.
pub(crate) struct Spy {
    model: ScriptedClient,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Spy {
    pub(crate) fn new(script: &str) -> Self {
        let info = ModelInfo {
            id: "m".into(),
            name: "m".into(),
            provider: "scripted".into(),
            max_context_size: 100_000,
            capabilities: vec![],
            efforts: vec![],
        };
        let script = Script::parse(script, None).unwrap();
        Self {
            model: ScriptedClient::new(info, script, Duration::ZERO, None),
            requests: Mutex::default(),
        }
    }

    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl ModelClient for Spy {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(
        &self,
        request: ModelRequest,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<DeltaStream, ProviderError>> {
        self.requests.lock().unwrap().push(request.clone());
        self.model.stream(request, cancel)
    }
}

type Accesses = Box<dyn Fn(&Value, &CallCx) -> Vec<Access> + Send + Sync>;
type Runs = Arc<dyn Fn(Value, ExecCx) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// A tool of a test. Takes any arguments; touches nothing unless told.
pub(crate) struct Probe {
    spec: ToolSpec,
    accesses: Accesses,
    runs: Runs,
}

impl Probe {
    pub(crate) fn new<F, Fut>(name: &'static str, runs: F) -> Self
    where
        F: Fn(Value, ExecCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let spec = ToolSpec {
            name,
            description: "A probe.".into(),
            parameters: Arc::new(json!({"type": "object"})),
            dedupe: false,
            own_budget: false,
        };
        Self {
            spec,
            accesses: Box::new(|_, _| Vec::new()),
            runs: Arc::new(move |args, cx| runs(args, cx).boxed()),
        }
    }

    /// With these parameters.
    pub(crate) fn parameters(mut self, parameters: Value) -> Self {
        self.spec.parameters = Arc::new(parameters);
        self
    }

    /// Only looks.
    pub(crate) fn dedupes(mut self) -> Self {
        self.spec.dedupe = true;
        self
    }

    /// Touches the file `path` in this way.
    pub(crate) fn touches(mut self, access: fn(PathBuf) -> Access) -> Self {
        self.accesses = Box::new(move |args, cx| {
            vec![access(
                cx.workspace.cwd.join(args["path"].as_str().unwrap()),
            )]
        });
        self
    }

    /// Runs alone.
    pub(crate) fn alone(mut self) -> Self {
        self.accesses = Box::new(|_, _| vec![Access::All]);
        self
    }
}

impl Tool for Probe {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        assert!(args.get("panic_early").is_none(), "as the test wants it");
        let runs = self.runs.clone();
        Ok(Call {
            accesses: (self.accesses)(&args, cx),
            title: self.spec.name.into(),
            display: Display::Generic {
                summary: self.spec.name.into(),
                detail: None,
            },
            subject: Subject::None,
            preview: None,
            execute: Box::new(move |cx| runs(args, cx)),
        })
    }
}

/// A turn that went well.
pub(crate) fn completed(outcome: &TurnOutcome) {
    assert_eq!(outcome.reason, TurnReason::Completed, "{outcome:?}");
}

#[test]
fn the_checker_finds_what_providers_refuse() {
    let user = |text: &str| Arc::new(Message::user(text, MessageOrigin::User));
    let call = |id: &str| crate::kernel::message::ModelCall {
        id: id.into(),
        provider_id: None,
        name: "T".into(),
        arguments: "".into(),
        extras: serde_json::Map::new(),
    };
    let answer = |text: &str, calls: &[&str]| {
        let parts = if text.is_empty() {
            vec![]
        } else {
            vec![Part::text(text)]
        };
        Arc::new(Message::Assistant {
            parts,
            calls: calls.iter().map(|id| call(id)).collect(),
            partial: false,
        })
    };
    let result = |id: &str| {
        Arc::new(Message::ToolResult {
            call: id.into(),
            parts: vec![Part::text("r")],
            is_error: false,
            note: None,
        })
    };
    assert_eq!(
        valid_for_provider(&[
            user("a"),
            answer("", &["1", "2"]),
            result("1"),
            result("2"),
            answer("b", &[])
        ]),
        Ok(())
    );
    for bad in [
        vec![answer("b", &[])],
        vec![user("a"), user("b")],
        vec![user(" ")],
        vec![user("a"), answer("", &[])],
        vec![user("a"), answer("b", &[]), answer("c", &[])],
        vec![user("a"), answer("", &["1"])],
        vec![user("a"), answer("", &["1"]), user("b"), result("1")],
        vec![user("a"), answer("", &["1", "2"]), result("2"), result("1")],
        vec![user("a"), result("1")],
        vec![user("a"), answer("", &["1"]), result("1"), result("1")],
        vec![
            user("a"),
            answer("", &["1"]),
            result("1"),
            answer("", &["1"]),
            result("1"),
        ],
    ] {
        assert!(valid_for_provider(&bad).is_err(), "{bad:?}");
    }
}
