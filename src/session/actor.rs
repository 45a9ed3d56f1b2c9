//! The task that owns a loaded session.
//!
//! It takes one command at a time: turns run in tasks of their own and come back as [`Command::Done`] with the agent they
//! were given. What may take long on a slow disk is awaited, so that only this session waits for it. How turns begin and
//! end is in `turns`.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, SessionId, TurnId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::failure::Warning;
use longshore_protocol::value::session::{Mode, Session, SessionPatch, Status, WaitingFor};
use longshore_protocol::value::task::Task;
use longshore_protocol::value::turn::CancelTasks;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::command::{Command, Parting, Reply, SessionHandle, View};
use super::create::check_dir;
use super::cron::Cron;
use super::deps::Deps;
use super::index::{Prompts, Use};
use super::jobs::JobsOf;
use super::journal::write::Journal;
use super::notices::SESSION_CLOSED;
use super::shell_run::Shells;
use super::surroundings::{Abilities, Workplace};
use super::tasks::{Reporter, TaskFacts};
use super::turns::Turns;
use super::wake::{WakeDoor, Wakes};
use crate::agent::open::Left;
use crate::agent::{Agent, Board};
use crate::background::Tasks;
use crate::cron::ledger::Ledger;
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::limits::PROCESS_GRACE_IN_CALL;
use crate::kernel::port::{Ability, AskKind, EventSink};
use crate::os::blocking;
use crate::os::lock::FileLock;
use crate::tool::file::Freshness;

/// Commands that wait for one session's task.
const INBOX: usize = 64;
/// How long nothing happens before what lists say is written. Chosen: a turn seldom follows the last one later.
const QUIET: Duration = Duration::from_secs(2);
/// How long a close waits for replies to be queued whose turns it has just ended.
const GATES: Duration = Duration::from_secs(1);
/// How long the tasks of a session may take to end when it is closed: a part of what the end of a server may take.
const TASKS_CLOSE: Duration = Duration::from_secs(3);
/// What bears a session's id in the environment of its commands.
pub(super) const SESSION_MARK: &str = "LONGSHORE_SESSION_ID";

/// What a session's task is given.
pub(super) struct Parts {
    pub(super) session: Session,
    pub(super) script: Option<Arc<str>>,
    pub(super) agent: Agent,
    pub(super) journal: Arc<Journal>,
    /// Held for as long as the journal is written.
    pub(super) lock: FileLock,
    pub(super) dir: PathBuf,
    pub(super) next_turn: u64,
    /// What its journal says of tasks.
    pub(super) tasks: TaskFacts,
    pub(super) jobs: Ledger,
    /// What its journal left open.
    pub(super) left: Left,
    /// Turns that were undone or cleared away.
    pub(super) gone: HashSet<TurnId>,
    /// What was wrong with its files.
    pub(super) warnings: Vec<Warning>,
}

/// The state of a loaded session.
pub(super) struct Actor {
    pub(super) deps: Arc<Deps>,
    pub(super) inbox: mpsc::Receiver<Command>,
    pub(super) own_inbox: mpsc::WeakSender<Command>,
    pub(super) journal: Arc<Journal>,
    lock: FileLock,
    pub(super) dir: PathBuf,
    pub(super) session: Session,
    pub(super) script: Option<Arc<str>>,
    /// Absent while a turn has it.
    pub(super) agent: Option<Box<Agent>>,
    pub(super) next_turn: u64,
    /// Turns that were undone or cleared away.
    pub(super) gone: Arc<HashSet<TurnId>>,
    pub(super) mode: watch::Sender<Mode>,
    pub(super) board: Arc<Board>,
    /// What the agent has seen of files since the session was loaded.
    pub(super) freshness: Arc<Freshness>,
    /// Commands and other tasks.
    pub(super) tasks: Tasks,
    /// Says what becomes of them.
    pub(super) reporter: Arc<Reporter>,
    /// Tasks whose end the journal does not know; settled before anything else.
    pub(super) left_open: Vec<Arc<Task>>,
    /// What an earlier process had begun, until it is taken up.
    pub(super) left: Option<Box<Left>>,
    /// Tools, rules and paths; made when first needed.
    workplace: Option<Arc<Workplace>>,
    pub(super) turns: Turns,
    /// Commands of the user's own that run.
    pub(super) shells: Shells,
    /// What the model is to be told outside the turns that hosts begin.
    pub(super) wakes: Wakes,
    /// Its cron jobs.
    pub(super) cron: Cron,
    /// Tasks that write to the journal once a reply has been queued.
    pub(super) notes: TaskTracker,
    /// What was wrong with its files when it was loaded.
    warnings: Arc<[Warning]>,
    /// What is not noted yet.
    pub(super) unnoted: Arc<Mutex<Unnoted>>,
    /// When it has been quiet for long enough to be noted.
    note_at: Option<Instant>,
}

/// What lists do not know yet of a session.
#[derive(Debug)]
pub(super) struct Unnoted {
    latest: Option<(Session, Use)>,
    prompts: Prompts,
}

impl Default for Unnoted {
    fn default() -> Self {
        Self {
            latest: None,
            prompts: Prompts::More(Vec::new()),
        }
    }
}

impl Actor {
    /// Gives a session to a task of its own and makes it known.
    pub(super) fn begin(deps: &Arc<Deps>, parts: Parts) -> SessionHandle {
        let Parts {
            session,
            script,
            agent,
            journal,
            lock,
            dir,
            next_turn,
            tasks,
            jobs,
            left,
            gone,
            warnings,
        } = parts;
        let (sender, inbox) = mpsc::channel(INBOX);
        let id = session.session_id.clone();
        let board = Arc::new(Board::default());
        board.set_todos(agent.todos.clone());
        board.set_context(agent.context.tokens());
        deps.store.opened(&id, &journal);
        let (door, wakes) = WakeDoor::new(tasks.wakes(&agent.told));
        let reporter = Arc::new(Reporter::new(journal.clone(), door.clone()));
        let left_open = tasks.open;
        let tasks = deps.task_manager(&dir, session.ephemeral, reporter.clone());
        let handle = SessionHandle {
            id: id.clone(),
            inbox: sender.clone(),
            door,
            tasks: tasks.clone(),
        };
        let cron = Cron::new(deps, jobs, session.timezone.as_deref(), &handle.door);
        let actor = Self {
            deps: deps.clone(),
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
            gone: Arc::new(gone),
            board,
            freshness: Arc::default(),
            tasks,
            reporter,
            left_open,
            left: Some(Box::new(left)),
            workplace: None,
            turns: Turns::default(),
            shells: Shells::default(),
            wakes,
            cron,
            notes: TaskTracker::new(),
            warnings: warnings.into(),
            unnoted: Arc::default(),
            note_at: None,
        };
        deps.await_no_more(&id);
        deps.loaded.lock().insert(id.clone(), handle.clone());
        let (shell, processes) = (deps.shell.clone(), deps.processes.clone());
        deps.tasks
            .spawn(async move { shell.prepare(&processes).await });
        let (forget, journal) = (deps.clone(), actor.journal.clone());
        deps.tasks.spawn(async move {
            if AssertUnwindSafe(actor.run()).catch_unwind().await.is_err() {
                // Its lock went with it: whoever asks next gets the session from its journal, in which a turn that still
                // runs may write no more.
                journal.seal();
                tracing::error!(session = %id, "the task of a session ended by an internal error");
                forget.forget(&id);
            }
        });
        handle
    }

    /// Runs until the session is closed. What hosts want goes before what wakes it: their commands are few and quick.
    async fn run(mut self) {
        self.settle_tasks().await;
        self.begin_jobs();
        if let Some(left) = self.left.take() {
            self.take_up(*left).await;
        }
        loop {
            let (due, note_at) = (self.wakes.due(), self.note_at);
            tokio::select! {
                biased;
                command = self.inbox.recv() => match command {
                    Some(command) => self.take(command).await,
                    None => break,
                },
                () = self.cron.recorded() => self.fires_recorded(),
                Some(knock) = self.wakes.door.recv() => self.knocked(knock),
                () = Wakes::gathered(due) => self.gather_over().await,
                () = at(note_at) => self.note(),
            }
            if self.turns.may_close() && self.shells.is_empty() {
                break;
            }
        }
        self.close().await;
    }

    pub(super) async fn take(&mut self, command: Command) {
        match command {
            Command::Start {
                input,
                when_busy,
                reply,
            } => answer(reply, self.start(input, when_busy).await),
            Command::Steer {
                input,
                when_idle,
                reply,
            } => answer(reply, self.steer(input, when_idle).await),
            Command::Cancel { turn, tasks, reply } => {
                let cancelled = self.cancel(turn.as_ref());
                if cancelled.is_ok() && tasks == CancelTasks::Stop {
                    self.stop_tasks();
                }
                answer(reply, cancelled);
            }
            Command::Shell { run, reply } => self.run_shell(run, reply).await,
            Command::CancelShell { id, reply } => answer(reply, Ok(self.cancel_shell(&id))),
            Command::ShellDone(done) => self.shell_done(*done),
            Command::Wait { turn, reply } => self.wait(turn, reply),
            Command::View { reply } => answer(reply, Ok(self.view())),
            Command::Set { changes, reply } => {
                let set = self.set(changes).await;
                answer(reply, set);
            }
            Command::Tools { reply } => {
                let abilities = self.abilities();
                let tools = self
                    .workplace()
                    .await
                    .map(|workplace| workplace.tool_infos(abilities));
                answer(reply, tools);
            }
            Command::Todos { reply } => answer(reply, Ok(self.board.get().todos.to_vec())),
            Command::Cron(command) => self.cron(command).await,
            Command::Undo { turns, reply } => {
                let undone = self.undo(turns).await;
                answer(reply, undone);
            }
            Command::Clear { reply } => {
                let cleared = self.clear().await;
                answer(reply, cleared);
            }
            Command::Close { parting, reply } => self.begin_close(parting, reply),
            Command::Rests { presence, reply } => {
                let last_seq = self.rests(&*presence).then(|| self.journal.last().0);
                answer(reply, Ok(last_seq));
            }
            Command::CloseIfResting { presence, reply } => {
                if self.rests(&*presence) {
                    self.begin_close(Parting::End, reply);
                } else {
                    let message = "something happens in the session, or somebody watches it";
                    answer(reply, Err(Fault::new(ErrorKind::SessionBusy, message)));
                }
            }
            Command::Done(done) => self.done(*done).await,
        }
    }

    pub(super) fn view(&self) -> View {
        let posted = self.board.get();
        let (last_seq, at) = self.journal.last();
        let mut session = self.session.clone();
        session.status = posted.status;
        session.updated_at = at.to_string();
        let window = self.model_window();
        View {
            session,
            last_seq,
            running: self.turns.running(),
            queued: self.turns.queued(),
            context: (posted.context_tokens, window),
            n_jobs: self.cron.n_jobs(),
            gone: self.gone.clone(),
            // Tasks first: whoever has ended since is found among what is to be told.
            n_tasks: self.tasks.n_unsettled(),
            n_notices: self.wakes.n_pending(),
            warnings: self.warnings.clone(),
        }
    }

    fn model_window(&self) -> u64 {
        let alias = self.session.model.as_deref();
        alias
            .and_then(|alias| self.deps.models.get(alias).ok())
            .map_or(0, |model| model.info().max_context_size)
    }

    async fn set(&mut self, changes: SessionPatch) -> Result<Session, Fault> {
        if let Some(model) = &changes.model {
            self.deps.check_model(model)?;
        }
        if let Some(title) = &changes.title
            && title.trim().is_empty()
        {
            return Err(
                Fault::new(ErrorKind::InvalidParams, "the title is blank").with("path", "/title")
            );
        }
        if let Some(dirs) = changes.additional_dirs.clone() {
            blocking::run(move || {
                dirs.iter()
                    .try_for_each(|dir| check_dir(dir, "/additionalDirs").map(drop))
            })
            .await?;
        }
        if changes == SessionPatch::default() {
            return Ok(self.view().session);
        }
        self.journal.durable(
            &AgentId::main(),
            DomainEvent::SessionUpdated {
                changed: changes.clone(),
            },
        )?;
        if changes.additional_dirs.is_some() {
            self.workplace = None;
        }
        if let Some(mode) = changes.mode {
            self.mode.send_replace(mode);
        }
        super::apply(&mut self.session, changes);
        self.note_soon();
        // There may be a usable model now.
        self.wakes.look();
        Ok(self.view().session)
    }

    pub(super) fn check_model(&self) -> Result<(), Fault> {
        self.deps.check_config()?;
        self.model().map(|_| ())
    }

    pub(super) fn model(&self) -> Result<Arc<dyn crate::provider::ModelClient>, Fault> {
        match &self.session.model {
            Some(alias) => self.deps.models.get(alias),
            // The registry says what to configure, since it knows what there is.
            None => self.deps.models.get(self.deps.models.default_alias()?),
        }
    }

    /// Tools, rules and paths. Looks at the disk where they are not made yet.
    pub(super) async fn workplace(&mut self) -> Result<Arc<Workplace>, Fault> {
        if let Some(workplace) = &self.workplace {
            return Ok(workplace.clone());
        }
        let (deps, session, freshness, tasks) = (
            self.deps.clone(),
            self.session.clone(),
            self.freshness.clone(),
            self.tasks.clone(),
        );
        let jobs = Arc::new(JobsOf {
            session: session.session_id.clone(),
            inbox: self.own_inbox.clone(),
        });
        let open = move || Workplace::open(&deps, &session, freshness, tasks, jobs);
        let workplace = Arc::new(blocking::run(open).await);
        for warning in &workplace.warnings {
            self.journal.durable(
                &AgentId::main(),
                DomainEvent::Warning {
                    warning: warning.clone(),
                },
            )?;
        }
        self.workplace = Some(workplace.clone());
        Ok(workplace)
    }

    pub(super) fn abilities(&self) -> Abilities {
        let alias = self.session.model.as_deref();
        let model = alias.and_then(|alias| self.deps.models.get(alias).ok());
        let ability = self
            .deps
            .asks
            .ability(&self.session.session_id, AskKind::Question);
        let takes = |input: &str| {
            let capabilities = model.iter().flat_map(|model| &model.info().capabilities);
            capabilities.into_iter().any(|can| can == input)
        };
        Abilities {
            can_ask: !self.session.unattended && ability == Ability::Able,
            image_input: takes("image_in"),
            video_input: takes("video_in"),
        }
    }

    /// Puts the journal on the disk, without holding up the session.
    pub(super) fn settle(&mut self) {
        let journal = self.journal.clone();
        self.deps.tasks.spawn(async move {
            if let Err(fault) = journal.sync().await {
                tracing::error!(%fault, "a journal could not be put on the disk");
                // Without a number, since what can't be put on the disk is what it tells of.
                let message = format!(
                    "what was said since the last turn may not be kept: {}",
                    fault.message
                );
                let warning = Warning::new("journal", message);
                journal.show_unkept(&AgentId::main(), DomainEvent::Warning { warning });
            }
        });
        self.note_soon();
    }

    /// What lists say is written once the session is quiet: turns that follow one another are noted together.
    fn note_soon(&mut self) {
        if !self.session.ephemeral {
            self.note_at = Some(Instant::now() + QUIET);
        }
    }

    fn note(&mut self) {
        self.note_at = None;
        let write = self.note_writer(Use::Open);
        self.deps.tasks.spawn_blocking(write);
    }

    /// What writes the note. The lock is held while it is written, so an older state never replaces a newer one.
    fn note_writer(&self, state: Use) -> impl FnOnce() + Send + use<> {
        let session = Session {
            status: Status::Closed,
            ..self.view().session
        };
        let (dir, store, unnoted) = (
            self.dir.clone(),
            self.deps.store.clone(),
            self.unnoted.clone(),
        );
        lock(&unnoted).latest = Some((session, state));
        move || {
            let mut unnoted = lock(&unnoted);
            if let Some((session, state)) = unnoted.latest.take() {
                let prompts = std::mem::replace(&mut unnoted.prompts, Prompts::More(Vec::new()));
                store.note(&dir, &session, state, &prompts);
            }
        }
    }

    /// Remembers what the session was prompted with, for the next note.
    pub(super) fn prompted(&self, input: &[ContentPart]) {
        if !self.session.ephemeral {
            let (Prompts::More(prompts) | Prompts::All(prompts)) = &mut lock(&self.unnoted).prompts;
            prompts.push(super::prompt(input));
        }
    }

    /// Remembers that some of what the session was prompted with counts no more: this is all that does.
    pub(super) fn prompted_only_with(&mut self, prompts: Prompts) {
        if !self.session.ephemeral {
            lock(&self.unnoted).prompts = prompts;
            self.note_soon();
        }
    }

    fn begin_close(&mut self, parting: Parting, reply: Reply<()>) {
        self.turns.closing.push(reply);
        self.part(parting);
        self.shells.end_all();
    }

    async fn close(mut self) {
        let id = self.session.session_id.clone();
        self.inbox.close();
        // Whoever asks for anything else now is told that the session is gone.
        while let Some(command) = self.inbox.recv().await {
            if let Command::Close { reply, .. } = command {
                self.turns.closing.push(reply);
            }
        }
        self.cancel_appointments();
        self.tasks.close(SESSION_CLOSED, TASKS_CLOSE).await;
        self.end_processes(&id).await;
        self.notes.close();
        if tokio::time::timeout(GATES, self.notes.wait())
            .await
            .is_err()
        {
            tracing::warn!(session = %id, "a reply was not queued in time; the end of its turn is not recorded");
        }
        if let Err(fault) = self
            .journal
            .durable(&AgentId::main(), DomainEvent::SessionClosed)
        {
            tracing::error!(%fault, "the close of a session could not be recorded");
        }
        self.journal.seal();
        self.board.set_status(Status::Closed);
        let closed = DomainEvent::SessionStatus {
            status: Status::Closed,
            waiting: WaitingFor::default(),
        };
        self.journal.live(&AgentId::main(), closed);
        let synced = self.journal.sync().await;
        let (dir, ephemeral) = (self.dir.clone(), self.session.ephemeral);
        let (note, index) = (self.note_writer(Use::Closed), self.index_writer());
        blocking::run(move || {
            if !ephemeral {
                note();
                index();
            } else if let Err(error) = crate::os::fs::remove_tree(&dir) {
                tracing::warn!(%error, "an ephemeral session could not be removed");
            }
        })
        .await;
        self.deps.store.closed(&id, ephemeral);
        if let Some(entry) = self.index_entry().filter(|_| !ephemeral) {
            self.deps.await_closed(&id, &entry);
        }
        self.deps.forget(&id);
        // From here on another process may write it.
        drop(self.lock);
        for reply in self.turns.closing {
            let result = match &synced {
                Ok(()) => Ok(()),
                Err(fault) => Err(Fault::new(fault.kind, fault.message.clone())),
            };
            answer(reply, result);
        }
    }

    /// What commands left running ends with their session.
    async fn end_processes(&self, id: &SessionId) {
        if self.agent.as_ref().is_some_and(|agent| !agent.ran_commands) {
            return;
        }
        let n = self
            .deps
            .processes
            .end_marked(SESSION_MARK, id.as_str(), PROCESS_GRACE_IN_CALL)
            .await;
        if n > 0 {
            tracing::info!(session = %id, n, "processes that outlived their commands were ended");
        }
    }
}

fn lock(unnoted: &Mutex<Unnoted>) -> MutexGuard<'_, Unnoted> {
    unnoted.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

pub(super) fn answer<T>(reply: Reply<T>, result: Result<T, Fault>) {
    // Whoever asked may have gone.
    let _ = reply.send(result);
}
