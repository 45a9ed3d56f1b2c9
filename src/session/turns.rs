//! How turns begin and wait in a session; [`turn_end`](super::turn_end) is how they end.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, TurnId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::session::{Status, WaitingFor};
use longshore_protocol::value::turn::{
    Origin, StartState, StopReason, TurnReason, WhenBusy, WhenIdle,
};
use longshore_protocol::value::usage::Usage;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::actor::{Actor, answer};
use super::command::{Command, Gate, Reply, Started, TurnEnd};
use super::past;
use super::surroundings::Workplace;
use super::turn_end::record_end;
use super::turn_sink::TurnSink;
use crate::agent::context::input::check;
use crate::agent::open::QueuedTurn;
use crate::agent::reopen::Reopened;
use crate::agent::turn::{TurnInput, TurnOutcome};
use crate::agent::{Agent, Attachments, Steer, Steers, TurnCx};
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::port::EventSink;
use crate::kernel::wake::Wake;
use crate::provider::ModelClient;
use crate::tool::registry::Registry;

/// What a turn's task gives back.
#[derive(Debug)]
pub(super) struct TurnDone {
    /// The agent; absent where the task panicked.
    pub(super) agent: Option<Box<Agent>>,
    pub(super) outcome: TurnOutcome,
    pub(super) duration_ms: u64,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Turns that run, wait, and have ended.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) running: Option<Running>,
    pub(super) queue: VecDeque<Waiting>,
    /// Steers of a cancelled turn: they come before the next input.
    pub(super) carried: Vec<ContentPart>,
    pub(super) ended: VecDeque<TurnEnd>,
    pub(super) waiters: HashMap<TurnId, Vec<Reply<TurnEnd>>>,
    /// Where it is told that the session is closed. Once there is one, no further turn begins.
    pub(super) closing: Vec<Reply<()>>,
}

/// The turn that runs.
pub(super) struct Running {
    pub(super) turn: TurnId,
    pub(super) cancel: CancellationToken,
    pub(super) steers: Arc<Steers>,
    pub(super) sink: Arc<TurnSink>,
    /// All it was given to tell, those that began it first.
    pub(super) given: Vec<Wake>,
    /// True where they began it.
    pub(super) is_woken: bool,
}

/// What a turn's task is to do.
pub(super) enum Begin {
    /// Begin it with this.
    New(TurnInput),
    /// Take it up where an earlier process was.
    Again(Box<Reopened>),
}

/// A turn that is given to its task.
pub(super) struct Launch {
    pub(super) turn: TurnId,
    pub(super) cancel: CancellationToken,
    pub(super) steers: Arc<Steers>,
    pub(super) begin: Begin,
    /// It says nothing before this is released.
    pub(super) gate: Option<oneshot::Receiver<()>>,
    pub(super) model: Arc<dyn ModelClient>,
    pub(super) workplace: Arc<Workplace>,
    pub(super) tools: Arc<Registry>,
    /// What it is to tell.
    pub(super) given: Vec<Wake>,
    /// True where that begins it.
    pub(super) is_woken: bool,
}

/// A turn that has not begun.
pub(super) struct Waiting {
    pub(super) turn: TurnId,
    origin: Origin,
    input: Vec<ContentPart>,
    /// What the input tells of, where the engine begins the turn.
    wakes: Vec<Wake>,
    gate: Option<oneshot::Receiver<()>>,
    /// Hears when the record of its beginning is written.
    recorded: Option<oneshot::Sender<()>>,
}

impl Waiting {
    /// A turn that the engine begins.
    pub(super) fn woken(turn: TurnId, origin: Origin, wakes: Vec<Wake>) -> Self {
        Self {
            turn,
            origin,
            input: wakes
                .iter()
                .filter(|wake| !wake.text.is_empty())
                .map(Wake::shown)
                .collect(),
            wakes,
            gate: None,
            recorded: None,
        }
    }

    /// A turn that waited when an earlier process ended.
    pub(super) fn again(queued: QueuedTurn) -> Self {
        let QueuedTurn {
            turn,
            origin,
            input,
        } = queued;
        Self {
            turn,
            origin,
            input,
            wakes: Vec::new(),
            gate: None,
            recorded: None,
        }
    }

    /// The same, begun once a gate is released, and heard of when it is recorded.
    pub(super) fn heard_by(
        self,
        recorded: oneshot::Sender<()>,
        gate: Option<oneshot::Receiver<()>>,
    ) -> Self {
        Self {
            gate,
            recorded: Some(recorded),
            ..self
        }
    }
}

impl Turns {
    /// True where a turn runs or waits.
    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some() || !self.queue.is_empty()
    }

    /// Gives a command of the user's own to the turn that runs; false where none does.
    pub(super) fn hear_shell(&self, input: &Arc<str>, output: &Arc<str>) -> bool {
        let Some(running) = &self.running else {
            return false;
        };
        running.steers.push(Steer::Shell {
            input: input.clone(),
            output: output.clone(),
        });
        true
    }

    /// Gives a wake to the turn that runs; back where none does.
    pub(super) fn give(&mut self, wake: Wake) -> Option<Wake> {
        let Some(running) = &mut self.running else {
            return Some(wake);
        };
        running.steers.push(Steer::Wake(wake.clone()));
        running.given.push(wake);
        None
    }

    /// Forgets what was steered into a cancelled turn.
    pub(super) fn forget_carried(&mut self) {
        self.carried.clear();
    }

    /// The turn that runs.
    pub(super) fn running(&self) -> Option<TurnId> {
        self.running.as_ref().map(|running| running.turn.clone())
    }

    /// Those that wait, in order.
    pub(super) fn queued(&self) -> Vec<TurnId> {
        self.queue
            .iter()
            .map(|waiting| waiting.turn.clone())
            .collect()
    }

    /// True where the session is to be closed and no turn runs any more.
    pub(super) fn may_close(&self) -> bool {
        !self.closing.is_empty() && self.running.is_none()
    }
}

impl Actor {
    pub(super) async fn start(
        &mut self,
        input: Vec<ContentPart>,
        when_busy: WhenBusy,
    ) -> Result<Started, Fault> {
        check(&input)?;
        self.check_open()?;
        if self.turns.running.is_none() {
            // Turns that an earlier process took in come first; somebody is here now.
            self.begin_next().await;
        }
        let Some(running) = &self.turns.running else {
            return self.start_now(input, Origin::User).await;
        };
        match when_busy {
            // A turn that is being cancelled ends soon: what comes now is meant for after it.
            _ if running.cancel.is_cancelled() => self.enqueue(input),
            WhenBusy::Queue => self.enqueue(input),
            WhenBusy::Steer => {
                let record = StateRecord::Steered {
                    turn: running.turn.clone(),
                    input: input.clone(),
                };
                self.journal.state(&AgentId::main(), record)?;
                self.cron.attended();
                running.steers.push(Steer::Words(input));
                Ok(Started {
                    turn: running.turn.clone(),
                    state: StartState::Steered,
                    gate: Gate::default(),
                })
            }
            WhenBusy::Reject => Err(Fault::new(
                ErrorKind::SessionBusy,
                "a turn is running; wait for it, cancel it, or send whenBusy: queue or steer",
            )),
        }
    }

    pub(super) async fn steer(
        &mut self,
        input: Vec<ContentPart>,
        when_idle: WhenIdle,
    ) -> Result<Started, Fault> {
        check(&input)?;
        self.check_open()?;
        match (&self.turns.running, when_idle) {
            (Some(_), _) => self.start(input, WhenBusy::Steer).await,
            (None, WhenIdle::Reject) => Err(Fault::new(
                ErrorKind::NoActiveTurn,
                "no turn is running that could be steered",
            )),
            (None, WhenIdle::Start) => self.start_now(input, Origin::Steer).await,
        }
    }

    pub(super) fn check_open(&self) -> Result<(), Fault> {
        if self.turns.closing.is_empty() {
            return Ok(());
        }
        Err(Fault::new(
            ErrorKind::SessionBusy,
            "the session is being closed; resume it once it is",
        ))
    }

    async fn start_now(
        &mut self,
        input: Vec<ContentPart>,
        origin: Origin,
    ) -> Result<Started, Fault> {
        self.check_model()?;
        let (gate, released) = Gate::new();
        let turn = self.new_turn();
        self.begin_turn(Waiting {
            turn: turn.clone(),
            origin,
            input,
            wakes: Vec::new(),
            gate: Some(released),
            recorded: None,
        })
        .await?;
        Ok(Started {
            turn,
            state: StartState::Running,
            gate,
        })
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
        let record = StateRecord::Queued {
            turn: turn.clone(),
            origin: Origin::User,
            input: input.clone(),
        };
        self.journal.state(&AgentId::main(), record)?;
        // Its event must not overtake the reply, so it is told by a task that waits for the reply.
        let (gate, released) = Gate::new();
        let (journal, told, shown) = (self.journal.clone(), turn.clone(), input.clone());
        let (announced, gate_of_turn) = oneshot::channel();
        self.notes.spawn(async move {
            // A dropped gate is a released one.
            let _ = released.await;
            let event = DomainEvent::TurnQueued {
                turn: told,
                input: shown,
            };
            if let Err(fault) = journal.durable(&AgentId::main(), event) {
                tracing::error!(%fault, "a queued turn could not be recorded");
            }
            let _ = announced.send(());
        });
        self.turns.queue.push_back(Waiting {
            turn: turn.clone(),
            origin: Origin::User,
            input,
            wakes: Vec::new(),
            gate: Some(gate_of_turn),
            recorded: None,
        });
        Ok(Started {
            turn,
            state: StartState::Queued,
            gate,
        })
    }

    pub(super) fn cancel(&mut self, turn: Option<&TurnId>) -> Result<bool, Fault> {
        if let Some(running) = &self.turns.running
            && turn.is_none_or(|turn| *turn == running.turn)
        {
            running.cancel.cancel();
            return Ok(true);
        }
        let Some(turn) = turn else { return Ok(false) };
        let Some(n) = self
            .turns
            .queue
            .iter()
            .position(|waiting| waiting.turn == *turn)
        else {
            let known =
                self.turns.ended.iter().any(|end| end.turn == *turn) || self.was_begun(turn);
            return if known {
                Ok(false)
            } else {
                Err(turn_not_found(turn))
            };
        };
        if let Some(waiting) = self.turns.queue.remove(n) {
            self.end_unbegun(waiting);
        }
        Ok(true)
    }

    /// A queued turn that will not begin.
    pub(super) fn end_unbegun(&mut self, waiting: Waiting) {
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
        self.notes.spawn(async move {
            if let Some(gate) = waiting.gate {
                let _ = gate.await;
            }
            record_end(&journal, &recorded, 0);
        });
        self.tell_end(end);
    }

    pub(super) fn wait(&mut self, turn: TurnId, reply: Reply<TurnEnd>) {
        if let Some(end) = self.turns.ended.iter().find(|end| end.turn == turn) {
            return answer(reply, Ok(end.clone()));
        }
        let runs = self
            .turns
            .running
            .as_ref()
            .is_some_and(|running| running.turn == turn)
            || self.turns.queue.iter().any(|waiting| waiting.turn == turn);
        if runs {
            let waiters = self.turns.waiters.entry(turn).or_default();
            waiters.retain(|waiter| !waiter.is_closed());
            waiters.push(reply);
        } else if self.was_begun(&turn) {
            let store = self.deps.store.clone();
            let id = self.session.session_id.clone();
            self.deps
                .tasks
                .spawn(async move { answer(reply, past::ended_turn(&store, &id, turn).await) });
        } else {
            answer(reply, Err(turn_not_found(&turn)));
        }
    }

    fn was_begun(&self, turn: &TurnId) -> bool {
        let number = turn
            .as_str()
            .strip_prefix('t')
            .and_then(|digits| digits.parse::<u64>().ok());
        number.is_some_and(|number| (1..self.next_turn).contains(&number))
    }

    pub(super) fn new_turn(&mut self) -> TurnId {
        let turn = TurnId::from(format!("t{}", self.next_turn));
        self.next_turn += 1;
        turn
    }

    /// Gives the agent to a task that runs a turn.
    pub(super) async fn begin_turn(&mut self, waiting: Waiting) -> Result<(), Fault> {
        let Waiting {
            turn,
            origin,
            mut input,
            wakes,
            gate,
            recorded,
        } = waiting;
        let model = self.model()?;
        let (workplace, abilities) = (self.workplace().await?, self.abilities());
        if origin.is_from_host() {
            // What was steered into a cancelled turn comes before what is said next.
            input.splice(0..0, self.turns.carried.iter().cloned());
        }
        let Some(agent) = self.agent.take() else {
            return Err(Fault::new(
                ErrorKind::InternalError,
                "the session has lost its agent; close and resume it",
            ));
        };
        if origin.is_from_host() {
            self.cron.attended();
            self.turns.carried.clear();
            let summary = super::summary(&input);
            self.prompted(&input);
            if self.session.title.is_empty() {
                self.session.title.clone_from(&summary);
            }
            self.session.last_prompt = Some(summary);
        }
        self.session.turn_count += 1;
        let (cancel, steers) = (CancellationToken::new(), Arc::new(Steers::default()));
        let keys = wakes.iter().map(|wake| wake.key.clone()).collect();
        let (is_woken, mut given) = (!wakes.is_empty(), wakes);
        for wake in self.wakes.take() {
            steers.push(Steer::Wake(wake.clone()));
            given.push(wake);
        }
        let input = TurnInput {
            origin,
            input,
            wakes: keys,
            recorded,
        };
        let launch = Launch {
            turn,
            cancel,
            steers,
            begin: Begin::New(input),
            gate,
            model,
            tools: workplace.tools(abilities),
            workplace,
            given,
            is_woken,
        };
        self.launch(agent, launch);
        self.board.set_status(Status::Running);
        Ok(())
    }

    /// Moves the agent into a task that runs a turn.
    pub(super) fn launch(&mut self, mut agent: Box<Agent>, launch: Launch) {
        let Launch {
            turn,
            cancel,
            steers,
            begin,
            gate,
            model,
            workplace,
            tools,
            given,
            is_woken,
        } = launch;
        let sink = Arc::new(TurnSink::new(self.journal.clone()));
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
            tools,
            rules: workplace.rules.clone(),
            auto_ask_denies: self.deps.config.permission.auto_ask_denies,
            approval_timeout: self.deps.config.permission.approval_timeout,
            results_dir: self.dir.join("tool-results"),
            attachments: Attachments {
                pool: self.deps.images.clone(),
                max_edge_px: self.deps.config.image.max_edge_px,
                dir: self.dir.join("media"),
            },
            surroundings: self.deps.surroundings(),
            sink: sink.clone(),
            asks: self.deps.asks.clone(),
            host_fs: self.deps.host_fs.clone(),
            board: self.board.clone(),
            clock: self.deps.clock.clone(),
        };
        let (back, journal, clock) = (
            self.own_inbox.clone(),
            self.journal.clone(),
            self.deps.clock.clone(),
        );
        let running = self.deps.running.clone();
        self.deps.tasks.spawn(async move {
            let _counted = running.enter();
            if let Some(gate) = gate {
                // A dropped gate is a released one.
                let _ = gate.await;
            }
            let started = clock.elapsed();
            let run = async {
                match begin {
                    Begin::New(input) => {
                        let status = DomainEvent::SessionStatus {
                            status: Status::Running,
                            waiting: WaitingFor::default(),
                        };
                        journal.live(&AgentId::main(), status);
                        agent.run(&cx, input).await
                    }
                    Begin::Again(reopened) => agent.go_on(&cx, *reopened).await,
                }
            };
            let ran = AssertUnwindSafe(run).catch_unwind().await;
            let duration_ms = u64::try_from(clock.elapsed().saturating_sub(started).as_millis())
                .unwrap_or(u64::MAX);
            let done = match ran {
                Ok(outcome) => TurnDone {
                    agent: Some(agent),
                    outcome,
                    duration_ms,
                },
                Err(_) => TurnDone {
                    agent: None,
                    outcome: panicked(),
                    duration_ms,
                },
            };
            if let Some(inbox) = back.upgrade() {
                // The session is gone only at the very end of the process.
                let _ = inbox.send(Command::Done(Box::new(done))).await;
            }
        });
        self.turns.running = Some(Running {
            turn,
            cancel,
            steers,
            sink,
            given,
            is_woken,
        });
    }
}

fn panicked() -> TurnOutcome {
    let fault = Fault::new(
        ErrorKind::InternalError,
        "the turn ended by an internal error; the session goes on",
    );
    TurnOutcome {
        reason: TurnReason::Failed,
        stop: StopReason::Error,
        error: Some(fault.to_failure()),
        usage: Usage::default(),
        text: String::new(),
    }
}

fn turn_not_found(turn: &TurnId) -> Fault {
    Fault::new(
        ErrorKind::TurnNotFound,
        format!("there is no turn {turn} in this session"),
    )
}
