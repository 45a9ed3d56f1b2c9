//! The task that owns a loaded session.
//!
//! It takes one command at a time and never waits inside one for long: turns run in tasks of their own and come back
//! as [`Command::Done`] with the agent they were given.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, TurnId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::session::{Mode, Session, SessionPatch, Status, WaitingFor};
use longshore_protocol::value::turn::{Origin, StartState, StopReason, TurnReason, WhenBusy, WhenIdle};
use longshore_protocol::value::usage::Usage;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::command::{Command, Gate, Reply, Started, TurnEnd, View};
use super::journal::write::Journal;
use super::lifecycle::Deps;
use super::store;
use super::surroundings::{Abilities, Workplace};
use crate::agent::context::input::convert;
use crate::agent::turn::{TurnInput, TurnOutcome};
use crate::agent::{Agent, Board, Steers, TurnCx};
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::port::{Ability, AskKind, EventSink};
use crate::os::blocking;
use crate::os::lock::FileLock;

/// Ended turns that are remembered for `turn/wait`.
const REMEMBERED_TURNS: usize = 64;

/// What a turn's task gives back.
#[derive(Debug)]
pub struct TurnDone {
    /// The agent; absent where the task panicked.
    agent: Option<Box<Agent>>,
    outcome: TurnOutcome,
    duration_ms: u64,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The state of a loaded session.
pub(super) struct Actor {
    pub(super) deps: Arc<Deps>,
    pub(super) inbox: mpsc::Receiver<Command>,
    pub(super) own_inbox: mpsc::WeakSender<Command>,
    pub(super) journal: Arc<Journal>,
    /// Held for as long as the journal is written.
    pub(super) lock: FileLock,
    pub(super) dir: PathBuf,
    pub(super) session: Session,
    pub(super) script: Option<Arc<str>>,
    /// Absent while a turn has it.
    pub(super) agent: Option<Box<Agent>>,
    pub(super) next_turn: u64,
    pub(super) mode: watch::Sender<Mode>,
    pub(super) board: Arc<Board>,
    /// Tools, rules and paths; made when first needed.
    pub(super) workplace: Option<Arc<Workplace>>,
    pub(super) turns: Turns,
    /// The newest state that the cache on disk does not have yet.
    pub(super) cache: Arc<Mutex<Option<Session>>>,
}

/// Turns that run, wait, and have ended.
#[derive(Default)]
pub(super) struct Turns {
    running: Option<Running>,
    queue: VecDeque<Waiting>,
    /// Steers of a cancelled turn: they come before the next input.
    carried: Vec<ContentPart>,
    ended: VecDeque<TurnEnd>,
    waiters: HashMap<TurnId, Vec<Reply<TurnEnd>>>,
    closing: Vec<Reply<()>>,
}

struct Running {
    turn: TurnId,
    cancel: CancellationToken,
    steers: Arc<Steers>,
}

struct Waiting {
    turn: TurnId,
    origin: Origin,
    input: Vec<ContentPart>,
    gate: Option<oneshot::Receiver<()>>,
}

impl Actor {
    /// Runs until the session is closed.
    pub(super) async fn run(mut self) {
        while let Some(command) = self.inbox.recv().await {
            self.take(command);
            if !self.turns.closing.is_empty() && self.turns.running.is_none() {
                break;
            }
        }
        self.close().await;
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Start { input, when_busy, reply } => answer(reply, self.start(input, when_busy)),
            Command::Steer { input, when_idle, reply } => answer(reply, self.steer(input, when_idle)),
            Command::Cancel { turn, reply } => {
                let cancelled = self.cancel(turn.as_ref());
                answer(reply, cancelled);
            }
            Command::Wait { turn, reply } => self.wait(turn, reply),
            Command::View { reply } => answer(reply, Ok(self.view())),
            Command::Set { changes, reply } => answer(reply, self.set(changes)),
            Command::Tools { reply } => {
                let abilities = self.abilities();
                let tools = self.workplace().map(|workplace| workplace.tool_infos(abilities));
                answer(reply, tools);
            }
            Command::Todos { reply } => {
                answer(reply, Ok(self.board.get().todos.to_vec()));
            }
            Command::Close { reply } => self.begin_close(reply),
            Command::Done(done) => self.done(*done),
        }
    }

    fn start(&mut self, mut input: Vec<ContentPart>, when_busy: WhenBusy) -> Result<Started, Fault> {
        convert(&input)?;
        let Some(running) = &self.turns.running else {
            self.check_model()?;
            if !self.turns.carried.is_empty() {
                let mut carried = std::mem::take(&mut self.turns.carried);
                carried.append(&mut input);
                input = carried;
            }
            let (gate, released) = Gate::new();
            let turn = self.new_turn();
            let waiting = Waiting { turn: turn.clone(), origin: Origin::User, input, gate: Some(released) };
            self.begin(waiting)?;
            return Ok(Started { turn, state: StartState::Running, gate });
        };
        match when_busy {
            // A turn that is being cancelled ends soon: what comes now is meant for after it.
            _ if running.cancel.is_cancelled() => self.enqueue(input),
            WhenBusy::Queue => self.enqueue(input),
            WhenBusy::Steer => {
                running.steers.push(input);
                Ok(Started { turn: running.turn.clone(), state: StartState::Steered, gate: Gate::default() })
            }
            WhenBusy::Reject => Err(Fault::new(
                ErrorKind::SessionBusy,
                "a turn is running; wait for it, cancel it, or send whenBusy: queue or steer",
            )),
        }
    }

    fn steer(&mut self, input: Vec<ContentPart>, when_idle: WhenIdle) -> Result<Started, Fault> {
        convert(&input)?;
        match (&self.turns.running, when_idle) {
            (Some(_), _) => self.start(input, WhenBusy::Steer),
            (None, WhenIdle::Reject) => {
                Err(Fault::new(ErrorKind::NoActiveTurn, "no turn is running that could be steered"))
            }
            (None, WhenIdle::Start) => {
                self.check_model()?;
                let (gate, released) = Gate::new();
                let turn = self.new_turn();
                let waiting = Waiting { turn: turn.clone(), origin: Origin::Steer, input, gate: Some(released) };
                self.begin(waiting)?;
                Ok(Started { turn, state: StartState::Running, gate })
            }
        }
    }

    fn enqueue(&mut self, input: Vec<ContentPart>) -> Result<Started, Fault> {
        let max = self.deps.config.limits.max_queued_turns;
        if self.turns.queue.len() >= max {
            return Err(Fault::new(
                ErrorKind::LimitExceeded,
                format!("{max} turns are waiting already; wait for some to end, or cancel some"),
            )
            .with("name", "max_queued_turns")
            .with("value", max));
        }
        let turn = self.new_turn();
        // Its event must not overtake the reply, so it is told by a task that waits for the reply.
        let (gate, released) = Gate::new();
        let (journal, told, shown) = (self.journal.clone(), turn.clone(), input.clone());
        let (announced, gate_of_turn) = oneshot::channel();
        self.deps.tasks.spawn(async move {
            // A dropped gate is a released one.
            let _ = released.await;
            let event = DomainEvent::TurnQueued { turn: told, input: shown };
            if let Err(fault) = journal.durable(&AgentId::main(), event) {
                tracing::error!(%fault, "a queued turn could not be recorded");
            }
            let _ = announced.send(());
        });
        self.turns.queue.push_back(Waiting {
            turn: turn.clone(),
            origin: Origin::User,
            input,
            gate: Some(gate_of_turn),
        });
        Ok(Started { turn, state: StartState::Queued, gate })
    }

    fn cancel(&mut self, turn: Option<&TurnId>) -> Result<bool, Fault> {
        if let Some(running) = &self.turns.running
            && turn.is_none_or(|turn| *turn == running.turn)
        {
            running.cancel.cancel();
            return Ok(true);
        }
        let Some(turn) = turn else { return Ok(false) };
        let Some(n) = self.turns.queue.iter().position(|waiting| waiting.turn == *turn) else {
            return match self.turns.ended.iter().any(|end| end.turn == *turn) || self.was_begun(turn) {
                true => Ok(false),
                false => Err(turn_not_found(turn)),
            };
        };
        if let Some(waiting) = self.turns.queue.remove(n) {
            self.end_unbegun(waiting);
        }
        Ok(true)
    }

    /// A queued turn that will not begin.
    fn end_unbegun(&mut self, waiting: Waiting) {
        let end = TurnEnd {
            turn: waiting.turn,
            reason: TurnReason::Cancelled,
            stop: StopReason::Cancelled,
            text: String::new(),
            usage: Usage::default(),
            error: None,
        };
        // Its `turn/queued` may still wait for the reply to its starter; the end comes after it.
        let (journal, recorded) = (self.journal.clone(), end.clone());
        self.deps.tasks.spawn(async move {
            if let Some(gate) = waiting.gate {
                let _ = gate.await;
            }
            record_end(&journal, &recorded, 0);
        });
        self.tell_end(end);
    }

    fn wait(&mut self, turn: TurnId, reply: Reply<TurnEnd>) {
        if let Some(end) = self.turns.ended.iter().find(|end| end.turn == turn) {
            return answer(reply, Ok(end.clone()));
        }
        let runs = self.turns.running.as_ref().is_some_and(|running| running.turn == turn)
            || self.turns.queue.iter().any(|waiting| waiting.turn == turn);
        if runs {
            let waiters = self.turns.waiters.entry(turn).or_default();
            waiters.retain(|waiter| !waiter.is_closed());
            waiters.push(reply);
        } else if self.was_begun(&turn) {
            let store = self.deps.store.clone();
            let id = self.session.session_id.clone();
            self.deps.tasks.spawn(async move { answer(reply, super::lifecycle::ended_turn(&store, &id, turn).await) });
        } else {
            answer(reply, Err(turn_not_found(&turn)));
        }
    }

    fn was_begun(&self, turn: &TurnId) -> bool {
        let number = turn.as_str().strip_prefix('t').and_then(|digits| digits.parse::<u64>().ok());
        number.is_some_and(|number| (1..self.next_turn).contains(&number))
    }

    fn view(&self) -> View {
        let posted = self.board.get();
        let (last_seq, at) = self.journal.last();
        let mut session = self.session.clone();
        session.status = posted.status;
        session.updated_at = at.to_string();
        let window = self.model_window();
        View {
            session,
            last_seq,
            running: self.turns.running.as_ref().map(|running| running.turn.clone()),
            queued: self.turns.queue.iter().map(|waiting| waiting.turn.clone()).collect(),
            context: (posted.context_tokens, window),
        }
    }

    fn model_window(&self) -> u64 {
        let alias = self.session.model.as_deref();
        alias.and_then(|alias| self.deps.models.get(alias).ok()).map_or(0, |model| model.info().max_context_size)
    }

    fn set(&mut self, changes: SessionPatch) -> Result<Session, Fault> {
        if let Some(model) = &changes.model {
            self.deps.check_model(model)?;
        }
        if let Some(title) = &changes.title
            && title.trim().is_empty()
        {
            return Err(Fault::new(ErrorKind::InvalidParams, "the title is blank").with("path", "/title"));
        }
        for dir in changes.additional_dirs.iter().flatten() {
            super::lifecycle::check_dir(dir, "/additionalDirs")?;
        }
        if changes == SessionPatch::default() {
            return Ok(self.view().session);
        }
        self.journal.durable(&AgentId::main(), DomainEvent::SessionUpdated { changed: changes.clone() })?;
        if changes.additional_dirs.is_some() {
            self.workplace = None;
        }
        if let Some(mode) = changes.mode {
            self.mode.send_replace(mode);
        }
        super::apply(&mut self.session, changes);
        self.save_cache();
        Ok(self.view().session)
    }

    fn check_model(&self) -> Result<(), Fault> {
        self.deps.check_config()?;
        self.model().map(|_| ())
    }

    fn model(&self) -> Result<Arc<dyn crate::provider::ModelClient>, Fault> {
        match &self.session.model {
            Some(alias) => self.deps.models.get(alias),
            // The registry says what to configure, since it knows what there is.
            None => self.deps.models.get(self.deps.models.default_alias()?),
        }
    }

    fn workplace(&mut self) -> Result<Arc<Workplace>, Fault> {
        if let Some(workplace) = &self.workplace {
            return Ok(workplace.clone());
        }
        let workplace = Arc::new(Workplace::open(&self.deps, &self.session));
        for warning in &workplace.warnings {
            self.journal.durable(&AgentId::main(), DomainEvent::Warning { warning: warning.clone() })?;
        }
        self.workplace = Some(workplace.clone());
        Ok(workplace)
    }

    fn abilities(&self) -> Abilities {
        let alias = self.session.model.as_deref();
        let model = alias.and_then(|alias| self.deps.models.get(alias).ok());
        let ability = self.deps.asks.ability(&self.session.session_id, AskKind::Question);
        Abilities {
            can_ask: !self.session.unattended && ability == Ability::Able,
            image_input: model.is_some_and(|model| model.info().capabilities.iter().any(|can| can == "image_in")),
        }
    }

    fn new_turn(&mut self) -> TurnId {
        let turn = TurnId::from(format!("t{}", self.next_turn));
        self.next_turn += 1;
        turn
    }

    /// Gives the agent to a task that runs a turn.
    fn begin(&mut self, waiting: Waiting) -> Result<(), Fault> {
        let Waiting { turn, origin, input, gate } = waiting;
        let parts = convert(&input)?;
        let model = self.model()?;
        let (workplace, abilities) = (self.workplace()?, self.abilities());
        let Some(mut agent) = self.agent.take() else {
            return Err(Fault::new(ErrorKind::InternalError, "the session has lost its agent; resume it"));
        };
        let summary = super::summary(&input);
        if self.session.title.is_empty() {
            self.session.title.clone_from(&summary);
        }
        self.session.last_prompt = Some(summary);
        self.session.turn_count += 1;
        let (cancel, steers) = (CancellationToken::new(), Arc::new(Steers::default()));
        let cx = TurnCx {
            turn: turn.clone(),
            cancel: cancel.clone(),
            steers: steers.clone(),
            model,
            effort: self.session.thinking.as_deref().map(Into::into),
            script: self.script.clone(),
            mode: self.mode.subscribe(),
            unattended: self.session.unattended,
            limits: self.deps.config.turn.clone(),
            workspace: workplace.workspace.clone(),
            tools: workplace.tools(abilities),
            rules: workplace.rules.clone(),
            auto_ask_denies: self.deps.config.permission.auto_ask_denies,
            approval_timeout: self.deps.config.permission.approval_timeout,
            results_dir: self.dir.join("tool-results"),
            surroundings: self.deps.surroundings(),
            sink: self.journal.clone(),
            asks: self.deps.asks.clone(),
            board: self.board.clone(),
            clock: self.deps.clock.clone(),
        };
        let (back, journal, clock) = (self.own_inbox.clone(), self.journal.clone(), self.deps.clock.clone());
        let running = self.deps.running.clone();
        self.deps.tasks.spawn(async move {
            let _counted = running.enter();
            if let Some(gate) = gate {
                // A dropped gate is a released one.
                let _ = gate.await;
            }
            let started = clock.elapsed();
            cx.board.set_status(Status::Running);
            let status =
                DomainEvent::SessionStatus { status: Status::Running, waiting: WaitingFor::default() };
            journal.live(&AgentId::main(), status);
            let input = TurnInput { origin, shown: input, parts };
            let ran = AssertUnwindSafe(agent.run(&cx, input)).catch_unwind().await;
            let duration_ms = u64::try_from((clock.elapsed() - started).as_millis()).unwrap_or(u64::MAX);
            let done = match ran {
                Ok(outcome) => TurnDone { agent: Some(agent), outcome, duration_ms },
                Err(_) => TurnDone { agent: None, outcome: panicked(), duration_ms },
            };
            if let Some(inbox) = back.upgrade() {
                // The session is gone only at the very end of the process.
                let _ = inbox.send(Command::Done(Box::new(done))).await;
            }
        });
        self.turns.running = Some(Running { turn, cancel, steers });
        Ok(())
    }

    /// A turn's task has ended: say so, and begin what waits.
    fn done(&mut self, done: TurnDone) {
        let TurnDone { agent, outcome, duration_ms } = done;
        let Some(running) = self.turns.running.take() else { return };
        let end = TurnEnd {
            turn: running.turn,
            reason: outcome.reason,
            stop: outcome.stop,
            text: outcome.text,
            usage: outcome.usage,
            error: outcome.error,
        };
        record_end(&self.journal, &end, duration_ms);
        self.agent = match agent {
            Some(agent) => Some(agent),
            None => self.agent_from_journal(),
        };
        if let Some(agent) = &self.agent {
            self.session.usage = agent.usage;
            self.board.set_todos(agent.todos.clone());
        }
        let leftover: Vec<ContentPart> = running.steers.take().into_iter().flatten().collect();
        if end.reason == TurnReason::Cancelled {
            self.turns.carried.extend(leftover);
        } else if !leftover.is_empty() {
            let turn = self.new_turn();
            let event = DomainEvent::TurnQueued { turn: turn.clone(), input: leftover.clone() };
            if let Err(fault) = self.journal.durable(&AgentId::main(), event) {
                tracing::error!(%fault, "a queued turn could not be recorded");
            }
            let steered = Waiting { turn, origin: Origin::Steer, input: leftover, gate: None };
            self.turns.queue.push_front(steered);
        }
        self.tell_end(end);
        self.begin_next();
        if self.turns.running.is_none() {
            self.board.set_status(Status::Idle);
            let status = DomainEvent::SessionStatus { status: Status::Idle, waiting: WaitingFor::default() };
            self.journal.live(&AgentId::main(), status);
        }
        self.settle();
    }

    fn begin_next(&mut self) {
        if !self.turns.closing.is_empty() {
            return;
        }
        while let Some(mut waiting) = self.turns.queue.pop_front() {
            if !self.turns.carried.is_empty() {
                let mut carried = std::mem::take(&mut self.turns.carried);
                carried.append(&mut waiting.input);
                waiting.input = carried;
            }
            let turn = waiting.turn.clone();
            match self.begin(waiting) {
                Ok(()) => return,
                Err(fault) => {
                    let end = TurnEnd {
                        turn,
                        reason: TurnReason::Failed,
                        stop: StopReason::Error,
                        text: String::new(),
                        usage: Usage::default(),
                        error: Some(fault.to_failure()),
                    };
                    record_end(&self.journal, &end, 0);
                    self.tell_end(end);
                }
            }
        }
    }

    /// What a panicked turn took with it is read from the journal again.
    fn agent_from_journal(&self) -> Option<Box<Agent>> {
        match store::load(&self.session.session_id, &self.dir) {
            Ok(loaded) => Some(Box::new(loaded.agent)),
            Err(fault) => {
                tracing::error!(%fault, "the agent could not be restored");
                None
            }
        }
    }

    /// Puts the journal on the disk and the cache beside it, without holding up the session.
    fn settle(&self) {
        let journal = self.journal.clone();
        self.deps.tasks.spawn(async move {
            if let Err(fault) = journal.sync().await {
                tracing::error!(%fault, "a journal could not be put on the disk");
            }
        });
        self.save_cache();
    }

    fn save_cache(&self) {
        if self.session.ephemeral {
            return;
        }
        let session = Session { status: Status::Closed, ..self.view().session };
        let (dir, slot) = (self.dir.clone(), self.cache.clone());
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        self.deps.tasks.spawn_blocking(move || {
            // The slot is held while it is written, so an older state never replaces a newer one.
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(session) = slot.take() {
                store::save_cache(&dir, &session);
            }
        });
    }

    fn tell_end(&mut self, end: TurnEnd) {
        for waiter in self.turns.waiters.remove(&end.turn).unwrap_or_default() {
            answer(waiter, Ok(end.clone()));
        }
        if self.turns.ended.len() == REMEMBERED_TURNS {
            self.turns.ended.pop_front();
        }
        self.turns.ended.push_back(end);
    }

    fn begin_close(&mut self, reply: Reply<()>) {
        self.turns.closing.push(reply);
        while let Some(waiting) = self.turns.queue.pop_front() {
            self.end_unbegun(waiting);
        }
        if let Some(running) = &self.turns.running {
            running.cancel.cancel();
        }
    }

    async fn close(mut self) {
        let id = self.session.session_id.clone();
        self.inbox.close();
        if let Err(fault) = self.journal.durable(&AgentId::main(), DomainEvent::SessionClosed) {
            tracing::error!(%fault, "the close of a session could not be recorded");
        }
        self.board.set_status(Status::Closed);
        let closed = DomainEvent::SessionStatus { status: Status::Closed, waiting: WaitingFor::default() };
        self.journal.live(&AgentId::main(), closed);
        let synced = self.journal.sync().await;
        let (dir, session) = (self.dir.clone(), self.view().session);
        let ephemeral = session.ephemeral;
        let _saved = blocking::run(move || {
            if session.ephemeral {
                if let Err(error) = crate::os::fs::remove_tree(&dir) {
                    tracing::warn!(%error, "an ephemeral session could not be removed");
                }
            } else {
                store::save_cache(&dir, &session);
            }
        })
        .await;
        self.deps.store.closed(&id, ephemeral);
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
}

/// Says that a turn has ended; hosts are told even where the journal can't take it.
fn record_end(journal: &Journal, end: &TurnEnd, duration_ms: u64) {
    let event = DomainEvent::TurnEnded {
        turn: end.turn.clone(),
        reason: end.reason,
        stop: end.stop,
        error: end.error.clone(),
        usage: end.usage,
        duration_ms,
    };
    if let Err(fault) = journal.durable(&AgentId::main(), event.clone()) {
        tracing::error!(%fault, "the end of a turn could not be recorded");
        journal.show_unkept(&AgentId::main(), event);
    }
}

fn panicked() -> TurnOutcome {
    let fault = Fault::new(ErrorKind::InternalError, "the turn ended by an internal error; the session goes on");
    TurnOutcome {
        reason: TurnReason::Failed,
        stop: StopReason::Error,
        error: Some(fault.to_failure()),
        usage: Usage::default(),
        text: String::new(),
    }
}

fn turn_not_found(turn: &TurnId) -> Fault {
    Fault::new(ErrorKind::TurnNotFound, format!("there is no turn {turn} in this session"))
}

fn answer<T>(reply: Reply<T>, result: Result<T, Fault>) {
    // Whoever asked may have gone.
    let _ = reply.send(result);
}
