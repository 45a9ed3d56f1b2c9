//! Making, loading, listing and ending sessions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, SessionId, TurnId};
use longshore_protocol::value::approval::AskResolution;
use longshore_protocol::value::failure::Warning;
use longshore_protocol::value::model::ModelInfo;
use longshore_protocol::value::page::Page;
use longshore_protocol::value::session::{Mode, Session, Status};
use longshore_protocol::value::transcript::{Item, Turn};
use longshore_protocol::value::turn::{FinishReason, StopReason, TurnReason};
use longshore_protocol::value::usage::Usage;
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

use super::actor::{Actor, Turns};
use super::command::{SessionHandle, TurnEnd, View};
use super::journal::convert::Fact;
use super::journal::read::{Damage, Flow, each};
use super::journal::storage_fault;
use super::journal::write::{self, Journal, Opening};
use super::store::{self, Loaded, Store};
use super::transcript::Fold;
use crate::agent::context::prompt::Surroundings;
use crate::agent::state::{Open, UNKNOWN};
use crate::agent::{Agent, Board};
use crate::config::values::Config;
use crate::kernel::event::{DomainEvent, Stamped};
use crate::kernel::fault::Fault;
use crate::kernel::limits::{PAGE, PAGE_MAX};
use crate::kernel::message::Part;
use crate::kernel::port::{AskHost, EventSink, Publish};
use crate::kernel::time::Timestamp;
use crate::os::blocking;
use crate::os::clock::Clock;
use crate::os::env::Env;
use crate::os::fs::{self, FileKind};
use crate::os::ids::IdSource;
use crate::os::lock::{FileLock, LockError};
use crate::provider::registry::Registry;
use crate::store::append_log::AppendLog;
use crate::tool::file::{FileLocks, SearchPool};
use crate::tool::shell::Shell;

/// Commands that wait for one session's task.
const INBOX: usize = 64;

/// What a new session is made of.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// Absolute, an existing directory.
    pub cwd: PathBuf,
    /// Likewise.
    pub additional_dirs: Vec<PathBuf>,
    /// By alias; the configured default where absent.
    pub model: Option<String>,
    /// Thinking effort.
    pub thinking: Option<String>,
    /// The configured default where absent.
    pub mode: Option<Mode>,
    /// The beginning of the first input where absent.
    pub title: Option<String>,
    /// Nothing is kept after it ends.
    pub ephemeral: bool,
    /// The host's own data.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// No person is there.
    pub unattended: bool,
    /// A script for scripted models.
    pub script: Option<String>,
}

/// Which sessions a list has.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Only those of this directory.
    pub cwd: Option<String>,
    /// Only those with this text in title or last prompt, in any case.
    pub text: Option<String>,
    /// The archived ones instead of the others.
    pub archived: bool,
    /// Where to go on.
    pub cursor: Option<String>,
    /// Entries wanted.
    pub limit: Option<u32>,
}

/// What sessions are built from; one per process.
pub struct Deps {
    /// longshore's directory.
    pub home: PathBuf,
    /// Configuration.
    pub config: Arc<Config>,
    /// Models.
    pub models: Arc<Registry>,
    /// Where sessions are.
    pub store: Arc<Store>,
    /// Where events go.
    pub publish: Arc<dyn Publish>,
    /// Who is asked.
    pub asks: Arc<dyn AskHost>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Ids.
    pub ids: Arc<dyn IdSource>,
    /// The environment.
    pub env: Arc<Env>,
    /// Runs commands.
    pub shell: Arc<Shell>,
    /// One for the process, so that no two calls write one file at the same time.
    pub file_locks: Arc<FileLocks>,
    /// One for the process: all searches share its threads.
    pub search: Arc<SearchPool>,
    /// Owns every task of every session.
    pub tasks: TaskTracker,
    /// Turns running now.
    pub running: Arc<Running>,
    /// The sessions that have a task.
    pub loaded: Loads,
}

/// The sessions that have a task.
#[derive(Debug, Default)]
pub struct Loads {
    handles: Mutex<HashMap<SessionId, SessionHandle>>,
    /// Held while a session is being loaded, so that two hosts do not load it twice. It guards no state.
    loading: tokio::sync::Mutex<()>,
}

/// Counts turns that run.
#[derive(Debug, Default)]
pub struct Running(AtomicUsize);

/// One running turn, until dropped.
pub struct Counted(Arc<Running>);

impl Running {
    /// Counts one more.
    pub fn enter(self: &Arc<Self>) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }

    /// How many run.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All sessions of this server. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    deps: Arc<Deps>,
}

impl Loads {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, SessionHandle>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deps {
    /// A session has been closed.
    pub(super) fn forget(&self, id: &SessionId) {
        self.loaded.lock().remove(id);
        self.models.forget(id);
    }

    /// What the system prompt says about where agents work.
    pub(super) fn surroundings(&self) -> Surroundings {
        Surroundings {
            home: self.env.home_dir(),
            longshore_home: self.home.clone(),
            shell: self.shell.program().display().to_string(),
            date: self.clock.now().to_string().chars().take(10).collect(),
        }
    }
}

impl Sessions {
    /// Over these parts.
    pub fn new(deps: Deps) -> Self {
        Self { deps: Arc::new(deps) }
    }

    /// Makes a session; it is on the disk when this returns.
    ///
    /// # Errors
    /// `invalid_params` for a directory that does not exist, `model_unknown`, storage kinds.
    pub async fn create(&self, options: CreateOptions) -> Result<(SessionHandle, Session), Fault> {
        let deps = self.deps.clone();
        blocking::run(move || deps.create(options)).await
    }

    /// Tells every host of a new session. Call it once the reply to its maker is queued.
    pub fn announce(&self, session: Session) {
        let id = session.session_id.clone();
        let event = DomainEvent::SessionCreated { session };
        self.deps.publish.publish(Stamped::new(id, AgentId::main(), None, self.deps.clock.now(), event));
    }

    /// The handle of a session, loading it where it is not.
    ///
    /// # Errors
    /// `session_not_found`, `session_locked` where another process has it, storage kinds.
    pub async fn open(&self, id: &SessionId) -> Result<SessionHandle, Fault> {
        if let Some(handle) = self.loaded(id) {
            return Ok(handle);
        }
        let _one_at_a_time = self.deps.loaded.loading.lock().await;
        if let Some(handle) = self.loaded(id) {
            return Ok(handle);
        }
        let (deps, id) = (self.deps.clone(), id.clone());
        blocking::run(move || deps.resume(&id)).await
    }

    /// The handle of a session that is loaded.
    pub fn loaded(&self, id: &SessionId) -> Option<SessionHandle> {
        self.deps.loaded.lock().get(id).cloned()
    }

    /// One page of the stored sessions, the newest first.
    ///
    /// # Errors
    /// `invalid_params` for a cursor that is none of ours.
    pub async fn list(&self, filter: ListFilter) -> Result<Page<Session>, Fault> {
        let start = filter.cursor.as_deref().map(read_cursor).transpose()?;
        let store = self.deps.store.clone();
        let mut sessions = blocking::run(move || store.all()).await;
        for session in &mut sessions {
            if let Some(handle) = self.loaded(&session.session_id)
                && let Ok(view) = handle.view().await
            {
                *session = view.session;
            }
        }
        sessions.retain(|session| filter.takes(session));
        sessions.sort_by(|a, b| place(b).cmp(&place(a)));
        if let Some(start) = start {
            sessions.retain(|session| place(session) < (start.0.as_str(), start.1.as_str()));
        }
        let limit = page_limit(filter.limit);
        let more = sessions.len() > limit;
        sessions.truncate(limit);
        let next_cursor = more.then(|| sessions.last().map(write_cursor)).flatten();
        Ok(Page { items: sessions, next_cursor })
    }

    /// A session as it is, without loading it.
    ///
    /// # Errors
    /// `session_not_found`, storage kinds.
    pub async fn view(&self, id: &SessionId) -> Result<View, Fault> {
        if let Some(handle) = self.loaded(id) {
            return handle.view().await;
        }
        let (store, id) = (self.deps.store.clone(), id.clone());
        blocking::run(move || {
            let dir = store.find(&id).ok_or_else(|| super::not_found(&id))?;
            let loaded = store::load(&id, &dir)?;
            let session = Session { status: Status::Closed, ..loaded.session };
            let context = (loaded.agent.context.tokens(), 0);
            Ok(View { session, last_seq: loaded.last.0, running: None, queued: Vec::new(), context })
        })
        .await
    }

    /// One page of a session's turns: the newest first to fetch, the oldest first in the page.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_params` for a cursor that is none of ours, storage kinds.
    pub async fn transcript(
        &self,
        id: &SessionId,
        cursor: Option<String>,
        limit: Option<u32>,
    ) -> Result<Page<Turn>, Fault> {
        let end = match cursor {
            Some(cursor) => Some(cursor.parse::<usize>().map_err(|_| bad_cursor())?),
            None => None,
        };
        let mut turns = all_turns(&self.deps.store, id).await?;
        turns.truncate(end.unwrap_or(turns.len()));
        let start = turns.len().saturating_sub(page_limit(limit));
        let next_cursor = (start > 0).then(|| start.to_string());
        Ok(Page { items: turns.split_off(start), next_cursor })
    }

    /// Cancels what runs in a session, puts it on the disk and unloads it. Nothing where it is not loaded.
    pub async fn close(&self, id: &SessionId) -> Result<(), Fault> {
        match self.loaded(id) {
            Some(handle) => handle.close().await,
            None => {
                let (store, id) = (self.deps.store.clone(), id.clone());
                let known = blocking::run(move || store.find(&id).ok_or_else(|| super::not_found(&id))).await;
                known.map(|_| ())
            }
        }
    }

    /// Closes a session and removes it from the disk. Nothing where there is none.
    pub async fn delete(&self, id: &SessionId) -> Result<(), Fault> {
        if let Some(handle) = self.loaded(id) {
            handle.close().await?;
        }
        let (store, id) = (self.deps.store.clone(), id.clone());
        blocking::run(move || {
            let Some(dir) = store.find(&id) else { return Ok(()) };
            let _lock = lock(&dir, Timestamp::default())?;
            fs::remove_tree(&dir).map_err(|error| storage_fault(error, &dir))?;
            store.closed(&id, true);
            Ok(())
        })
        .await
    }

    /// The models.
    pub fn models(&self) -> Vec<ModelInfo> {
        self.deps.models.models()
    }

    /// The model that new sessions get.
    pub fn default_model(&self) -> Option<String> {
        self.deps.config.default_model.clone()
    }

    /// Whether a model could be used now, as far as can be said without asking its provider.
    ///
    /// # Errors
    /// `model_unknown`, `model_not_configured` with what to write where.
    pub fn check_model(&self, alias: &str) -> Result<(), Fault> {
        self.deps.models.get(alias).map(|_| ())
    }

    /// The model that new sessions get, where it could be used now.
    ///
    /// # Errors
    /// See [`Sessions::check_model`]; `config_invalid` where the configuration can't be read.
    pub fn check_default_model(&self) -> Result<String, Fault> {
        self.deps.check_config()?;
        let alias = self.deps.models.default_alias()?;
        self.check_model(alias).map(|()| alias.to_owned())
    }

    /// Sessions that are loaded.
    pub fn loaded_count(&self) -> usize {
        self.deps.loaded.lock().len()
    }

    /// Turns that run.
    pub fn running_count(&self) -> usize {
        self.deps.running.count()
    }

    /// Closes every session side by side, within a deadline; what is not done then is said in the log.
    pub async fn shutdown(&self, within: Duration) {
        let handles: Vec<SessionHandle> = self.deps.loaded.lock().values().cloned().collect();
        let closing = futures::future::join_all(handles.iter().map(SessionHandle::close));
        if tokio::time::timeout(within, closing).await.is_err() {
            tracing::error!(?within, "not every session could be closed in time");
        }
        self.deps.tasks.close();
        if tokio::time::timeout(within, self.deps.tasks.wait()).await.is_err() {
            tracing::error!("not every task ended in time");
        }
    }
}

impl Deps {
    fn create(self: &Arc<Self>, options: CreateOptions) -> Result<(SessionHandle, Session), Fault> {
        let cwd = check_dir(&options.cwd.to_string_lossy(), "/cwd")?;
        for dir in &options.additional_dirs {
            check_dir(&dir.to_string_lossy(), "/additionalDirs")?;
        }
        let model = options.model.or_else(|| self.config.default_model.clone());
        if let Some(model) = &model {
            self.check_model(model)?;
        }
        let id = SessionId::from(self.ids.ulid());
        let now = self.clock.now();
        let session = Session {
            session_id: id.clone(),
            title: options.title.unwrap_or_default(),
            cwd: options.cwd.to_string_lossy().into_owned(),
            additional_dirs: options.additional_dirs.iter().map(|dir| dir.display().to_string()).collect(),
            model,
            thinking: options.thinking.or_else(|| self.config.thinking_effort.clone()),
            mode: options.mode.unwrap_or(self.config.default_permission_mode),
            status: Status::Idle,
            created_at: now.to_string(),
            updated_at: now.to_string(),
            last_prompt: None,
            turn_count: 0,
            usage: Usage::default(),
            ephemeral: options.ephemeral,
            archived: false,
            metadata: options.metadata,
            unattended: options.unattended,
        };
        let dir = self.store.new_dir(&id, &cwd, options.ephemeral);
        fs::create_private_dirs(&dir).map_err(|error| storage_fault(error, &dir))?;
        let lock = lock(&dir, now)?;
        let log = AppendLog::open(&write::path(&dir)).map_err(|error| storage_fault(error, &dir))?.log;
        let journal = Arc::new(self.journal(&id, &dir, log, (0, now)));
        let script: Option<Arc<str>> = options.script.map(Into::into);
        journal.head(&session, script.clone())?;
        if !options.ephemeral {
            journal.sync_blocking()?;
            store::save_cache(&dir, &session);
        }
        let agent = Agent::new(id);
        let parts = Parts { session: session.clone(), script, agent, journal, lock, dir, next_turn: 1 };
        Ok((self.start(parts), session))
    }

    fn resume(self: &Arc<Self>, id: &SessionId) -> Result<SessionHandle, Fault> {
        let dir = self.store.find(id).ok_or_else(|| super::not_found(id))?;
        let lock = lock(&dir, self.clock.now())?;
        let opened = AppendLog::open(&write::path(&dir)).map_err(|error| storage_fault(error, &dir))?;
        let Loaded { session, script, mut agent, model_state, open, last, damage } = store::load(id, &dir)?;
        let journal = Arc::new(self.journal(id, &dir, opened.log, last));
        if let Some(torn) = opened.torn {
            let cut = format!("the last line was torn by a crash; its {} bytes were cut off", torn.n_bytes);
            journal.durable(&AgentId::main(), DomainEvent::Warning { warning: Warning::new("journal", cut) })?;
        }
        for warning in damage {
            tracing::warn!(session = %id, ?warning, "journal damage");
        }
        close_open(&journal, &open)?;
        for (model, state) in model_state {
            if let Ok(client) = self.models.get(&model) {
                client.restore(id, state);
            }
        }
        if let Some(turn) = &open.turn {
            tracing::info!(session = %id, %turn, "a turn that the last process left open was closed");
            agent.interrupted = false;
        }
        let next_turn = session.turn_count.max(highest_turn(&dir)) + 1;
        Ok(self.start(Parts { session, script, agent, journal, lock, dir, next_turn }))
    }

    /// No turn may run on a configuration that can't be read: its deny rules are not known.
    pub(super) fn check_config(&self) -> Result<(), Fault> {
        let Some(broken) = &self.config.broken else { return Ok(()) };
        let message =
            format!("the configuration can't be read; mend {}: {}", broken.file.display(), broken.message);
        let file = broken.file.display().to_string();
        Err(Fault::new(ErrorKind::ConfigInvalid, message).with("file", file).with("line", broken.line))
    }

    /// A model must exist; whether it can be used is said when a turn starts.
    pub(super) fn check_model(&self, alias: &str) -> Result<(), Fault> {
        match self.models.models().iter().any(|model| model.id == alias) {
            true => Ok(()),
            false => self.models.get(alias).map(|_| ()),
        }
    }

    fn journal(&self, id: &SessionId, dir: &Path, log: AppendLog, last: (u64, Timestamp)) -> Journal {
        let opening = Opening {
            session: id.clone(),
            dir: dir.to_owned(),
            clock: self.clock.clone(),
            publish: self.publish.clone(),
        };
        Journal::new(opening, log, last.0, last.1)
    }

    fn start(self: &Arc<Self>, parts: Parts) -> SessionHandle {
        let Parts { session, script, agent, journal, lock, dir, next_turn } = parts;
        let (sender, inbox) = mpsc::channel(INBOX);
        let id = session.session_id.clone();
        let board = Arc::new(Board::default());
        board.set_todos(agent.todos.clone());
        board.set_context(agent.context.tokens());
        self.store.opened(&id, &journal);
        let handle = SessionHandle { id: id.clone(), inbox: sender.clone() };
        let actor = Actor {
            deps: self.clone(),
            inbox,
            own_inbox: sender.downgrade(),
            journal,
            lock,
            dir,
            mode: watch::Sender::new(session.mode),
            session,
            script,
            agent: Some(Box::new(agent)),
            next_turn,
            board,
            workplace: None,
            turns: Turns::default(),
            cache: Arc::default(),
        };
        self.loaded.lock().insert(id, handle.clone());
        self.tasks.spawn(actor.run());
        handle
    }
}

struct Parts {
    session: Session,
    script: Option<Arc<str>>,
    agent: Agent,
    journal: Arc<Journal>,
    lock: FileLock,
    dir: PathBuf,
    next_turn: u64,
}

impl ListFilter {
    fn takes(&self, session: &Session) -> bool {
        let text = self.text.as_ref().map(|text| text.to_lowercase());
        session.archived == self.archived
            && self.cwd.as_ref().is_none_or(|cwd| *cwd == session.cwd)
            && text.is_none_or(|text| {
                session.title.to_lowercase().contains(&text)
                    || session.last_prompt.as_ref().is_some_and(|prompt| prompt.to_lowercase().contains(&text))
            })
    }
}

/// Gives everything that the last process left open the end it did not get.
fn close_open(journal: &Journal, open: &Open) -> Result<(), Fault> {
    let main = AgentId::main();
    for approval in &open.approvals {
        let (approval, outcome) = (approval.clone(), AskResolution::Withdrawn);
        let resolved = DomainEvent::ApprovalResolved { approval, outcome, option: None, feedback: None };
        journal.durable(&main, resolved)?;
    }
    for question in &open.questions {
        let resolved =
            DomainEvent::QuestionResolved { question: question.clone(), outcome: AskResolution::Withdrawn };
        journal.durable(&main, resolved)?;
    }
    if let Some(turn) = &open.turn {
        for call in &open.calls {
            let closed = DomainEvent::ToolCompleted {
                turn: turn.clone(),
                call: call.clone(),
                is_error: true,
                output: vec![Part::text(UNKNOWN)],
                note: None,
                display: None,
                duration_ms: 0,
                truncated: false,
            };
            journal.durable(&main, closed)?;
        }
        if let Some(step) = open.step {
            let finish = FinishReason::Interrupted;
            journal.durable(&main, DomainEvent::StepInterrupted { turn: turn.clone(), step, finish })?;
        }
    }
    let ended = "the server ended while this turn was open; start it again where that is wanted";
    for turn in open.turn.iter().chain(&open.queued) {
        let error = Fault::new(ErrorKind::InternalError, ended).to_failure();
        let event = DomainEvent::TurnEnded {
            turn: turn.clone(),
            reason: TurnReason::Failed,
            stop: StopReason::Error,
            error: Some(error),
            usage: Usage::default(),
            duration_ms: 0,
        };
        journal.durable(&main, event)?;
    }
    Ok(())
}

/// How a turn ended that is remembered by its journal only.
pub(super) async fn ended_turn(store: &Arc<Store>, id: &SessionId, turn: TurnId) -> Result<TurnEnd, Fault> {
    let turns = all_turns(store, id).await?;
    let found = turns.into_iter().find(|found| found.turn_id == turn);
    let Some(Turn { items, reason: Some(reason), stop_reason: Some(stop), error, usage, .. }) = found else {
        return Err(Fault::new(ErrorKind::TurnNotFound, format!("turn {turn} never began")));
    };
    let text = items.into_iter().rev().find_map(|item| match item {
        Item::Message { text, .. } => Some(text),
        _ => None,
    });
    Ok(TurnEnd { turn, reason, stop, text: text.unwrap_or_default(), usage, error })
}

async fn all_turns(store: &Arc<Store>, id: &SessionId) -> Result<Vec<Turn>, Fault> {
    let (store, id) = (store.clone(), id.clone());
    blocking::run(move || {
        let dir = store.find(&id).ok_or_else(|| super::not_found(&id))?;
        let mut fold = Fold::new();
        each(&dir, 0, &mut Damage::default(), |entry| {
            if let Fact::Event(event) = &entry.fact {
                fold.take(entry.at, event);
            }
            Flow::On
        })
        .map_err(|error| storage_fault(error, &dir))?;
        Ok(fold.finish())
    })
    .await
}

/// The highest number of a turn in a journal, begun or not.
fn highest_turn(dir: &Path) -> u64 {
    let mut highest = 0;
    let read = each(dir, 0, &mut Damage::default(), |entry| {
        if let Fact::Event(DomainEvent::TurnQueued { turn, .. } | DomainEvent::TurnStarted { turn, .. }) = &entry.fact {
            let number = turn.as_str().trim_start_matches('t').parse().unwrap_or(0);
            highest = highest.max(number);
        }
        Flow::On
    });
    if let Err(error) = read {
        tracing::warn!(%error, "a journal could not be read again");
    }
    highest
}

fn lock(dir: &Path, now: Timestamp) -> Result<FileLock, Fault> {
    FileLock::acquire(&dir.join("lock"), &now.to_string()).map_err(|error| match error {
        LockError::Locked { pid, .. } => {
            let by = pid.map(|pid| format!(" by process {pid}")).unwrap_or_default();
            let fault = Fault::new(ErrorKind::SessionLocked, format!("the session is in use{by}; close it there first"));
            match pid {
                Some(pid) => fault.with("pid", pid),
                None => fault,
            }
        }
        LockError::Fs(error) => storage_fault(error, dir),
    })
}

/// Checks a directory that a host named and gives it with links resolved.
pub(super) fn check_dir(dir: &str, field: &str) -> Result<PathBuf, Fault> {
    let path = Path::new(dir);
    let refused = |why: &str| {
        Fault::new(ErrorKind::InvalidParams, format!("{dir}: {why}"))
            .with("path", field)
            .with("expected", "an absolute path of a directory that exists")
    };
    if !path.is_absolute() {
        return Err(refused("the path is not absolute"));
    }
    match fs::kind_of(path) {
        Some(FileKind::Dir) => fs::real_path(path).map_err(|error| refused(&error.to_string())),
        Some(_) => Err(refused("this is not a directory")),
        None => Err(refused("there is no such directory")),
    }
}

fn place(session: &Session) -> (&str, &str) {
    (&session.updated_at, session.session_id.as_str())
}

fn write_cursor(session: &Session) -> String {
    format!("{}/{}", session.updated_at, session.session_id)
}

fn read_cursor(cursor: &str) -> Result<(String, String), Fault> {
    let (at, id) = cursor.split_once('/').ok_or_else(bad_cursor)?;
    Timestamp::parse(at).ok_or_else(bad_cursor)?;
    Ok((at.to_owned(), id.to_owned()))
}

fn bad_cursor() -> Fault {
    Fault::new(ErrorKind::InvalidParams, "the cursor is none that this server gave out; leave it out to begin anew")
        .with("path", "/cursor")
}

fn page_limit(limit: Option<u32>) -> usize {
    limit.map_or(PAGE, |limit| (limit as usize).clamp(1, PAGE_MAX))
}
