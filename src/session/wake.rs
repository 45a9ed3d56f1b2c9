//! The one door for turns that the engine begins itself.
//!
//! A [`Wake`] is something that happened outside a turn and that the main agent's model is to be told: a task has ended, a
//! job is due. Whoever has one gives it to a [`WakeDoor`], which never waits and never fails. What becomes of it:
//!
//! | The session | The wake |
//! |---|---|
//! | is idle | begins a turn after [`GATHER`], together with those that come meanwhile (`turn/started`, its own origin) |
//! | runs a turn | joins it before its next model request, never between a call and its result (`turn/steered`) |
//! | is ending a turn | the same actor step that takes the agent back begins the next turn with it |
//! | may not run | waits: the configuration is broken, no model is usable, nobody watches and nobody need not |
//! | is closing | is forgotten here; what it tells of is in the journal |
//!
//! The user comes first: queued turns begin before a wake's, a prompt that waits in the inbox is taken before a gather
//! ends, and what is pending then joins the user's turn, after the user's words. After a cancelled turn nothing begins by
//! itself: what was left over waits for the next input or the next wake.
//!
//! **Exactly once.** [`WakeKey`](crate::kernel::wake::WakeKey) names what a wake tells of. The key stands in the very
//! record that puts the text into the history (`turn_started` or `turn_steered`), so a crash keeps both or neither.
//! `Agent::told` is the set of these keys, restored with the history, and the only authority: a wake whose key is in it is
//! dropped wherever it is met, and when a turn gives its agent back, whatever it was given and is not in the set is
//! pending again. The door keeps nothing over a restart. Whoever wakes makes its wakes again when the session is loaded,
//! from its own durable facts less what was told, with [`Urgency::NextTurn`], since a restart begins no turn.
//!
//! **A source that decides at the idle moment** (which jobs are due, how many fires they are) has nothing to give
//! beforehand. It adds its line to [`Actor::wake_up`], which runs whenever the session may begin a turn of its own, and
//! calls [`WakeDoor::look`] when it wants that to be asked. Cron jobs do that ([`fires`](super::fires)): they come last,
//! and what they could not tell is decided anew instead of being pending.

use std::collections::HashSet;
use std::time::Duration;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::turn::{Origin, TurnReason};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::actor::Actor;
use super::deps::OwnTurns;
use super::notices;
use super::turns::Waiting;
use crate::agent::Agent;
use crate::kernel::fault::Fault;
use crate::kernel::port::{Ability, AskKind};
use crate::kernel::wake::{Urgency, Wake, WakeKey};

/// How long an idle session gathers wakes before it begins a turn with them: tasks that were started together often end
/// together, and a turn costs a model request.
const GATHER: Duration = Duration::from_millis(50);

/// Where the engine's own parts wake a session. Cheap to clone; works from anywhere and never waits.
#[derive(Clone, Debug)]
pub struct WakeDoor(mpsc::UnboundedSender<Knock>);

/// What comes through the door.
#[derive(Debug)]
pub(super) enum Knock {
    /// Tell this.
    Wake(Wake),
    /// Something changed: look whether a turn may begin.
    Look,
}

/// What waits to be told.
pub(super) struct Wakes {
    pub(super) door: mpsc::UnboundedReceiver<Knock>,
    /// Neither in the history nor with the turn that runs; the oldest first.
    pending: Vec<Wake>,
    /// When the session looks whether a turn may begin.
    due: Option<Instant>,
    /// True where what is pending begins no turn by itself, until something new comes.
    is_held: bool,
}

impl WakeDoor {
    /// A door, and what the session's task takes from it. `pending` is what is to be told already.
    pub(super) fn new(pending: Vec<Wake>) -> (Self, Wakes) {
        let (sender, door) = mpsc::unbounded_channel();
        let wakes = Wakes {
            door,
            pending,
            due: None,
            is_held: false,
        };
        (Self(sender), wakes)
    }

    /// Tells the model this, once, as soon as that can be. Nothing where the session is gone.
    pub fn wake(&self, wake: Wake) {
        // A session that is gone makes its wakes again when it is loaded.
        let _ = self.0.send(Knock::Wake(wake));
    }

    /// Has the session look whether it may begin a turn of its own now: a host has come, a job is due.
    pub fn look(&self) {
        // A session that is gone has nothing to begin.
        let _ = self.0.send(Knock::Look);
    }
}

impl Wakes {
    /// Ends when the session is to look whether a turn may begin; never where nothing is to be looked at.
    pub(super) async fn gathered(due: Option<Instant>) {
        match due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// When that is.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes everything, for a turn that begins.
    pub(super) fn take(&mut self) -> Vec<Wake> {
        self.is_held = false;
        let mut wakes = std::mem::take(&mut self.pending);
        notices::shorten(&mut wakes);
        wakes
    }

    /// How many ends of tasks will begin a turn or join one.
    pub(super) fn n_pending(&self) -> usize {
        let urgent = |wake: &&Wake| wake.urgency == Urgency::Turn;
        // What still stands in the door may be only a request to look; that is answered in a moment.
        self.door.len() + self.pending.iter().filter(urgent).count()
    }

    /// Has the session look whether a turn may begin.
    pub(super) fn look(&mut self) {
        self.look_within(Duration::ZERO);
    }

    fn look_within(&mut self, wait: Duration) {
        self.is_held = false;
        let due = Instant::now() + wait;
        self.due = Some(self.due.map_or(due, |sooner| sooner.min(due)));
    }

    /// Something new: a turn begins with it, and with what comes in the meantime.
    fn pend(&mut self, wake: Wake) {
        if self.pending.iter().any(|known| known.key == wake.key) {
            return;
        }
        if wake.urgency == Urgency::Turn {
            self.look_within(GATHER);
        }
        self.pending.push(wake);
    }

    /// Why a turn would begin now.
    fn begins(&self) -> Option<Origin> {
        let urgent = self
            .pending
            .iter()
            .find(|wake| wake.urgency == Urgency::Turn)?;
        (!self.is_held).then(|| urgent.key.origin())
    }

    /// What was told is not in the history any more: it is told with the next turn.
    pub(super) fn pend_again(&mut self, wakes: Vec<Wake>) {
        for wake in wakes {
            self.pend(wake);
        }
    }

    fn put_back(&mut self, untold: Vec<Wake>) {
        self.pending.splice(0..0, untold);
    }

    /// Drops what is about these: it is no longer to be told from here.
    pub(super) fn forget(&mut self, keys: &HashSet<WakeKey>) {
        self.pending.retain(|wake| !keys.contains(&wake.key));
    }

    fn forget_told(&mut self, agent: &Agent) {
        self.pending.retain(|wake| !agent.told.contains(&wake.key));
    }
}

impl Actor {
    /// Takes what came through the door.
    pub(super) fn knocked(&mut self, knock: Knock) {
        match knock {
            Knock::Wake(wake) => {
                if let Some(wake) = self.turns.give(wake) {
                    self.wakes.pend(wake);
                }
            }
            Knock::Look => self.wakes.look(),
        }
    }

    /// The gather is over. Prompts that came meanwhile go first.
    pub(super) async fn gather_over(&mut self) {
        for _ in 0..self.inbox.len() {
            let Ok(command) = self.inbox.try_recv() else {
                break;
            };
            self.take(command).await;
        }
        self.wake_up().await;
    }

    /// Begins a turn of the session's own where it is idle, something is to be told, and it may.
    ///
    /// Called whenever a turn has ended and none waits, and whenever something was to be looked at.
    pub(super) async fn wake_up(&mut self) {
        self.wakes.due = None;
        if self.turns.running().is_some() {
            return;
        }
        if !self.turns.queue.is_empty() {
            // Only those that an earlier process took in wait while none runs.
            if let Err(why) = self.may_wake() {
                tracing::info!(session = %self.session.session_id, %why, "turns of an earlier process wait");
                return;
            }
            self.begin_next().await;
            if self.turns.is_busy() {
                return;
            }
        }
        let Some(agent) = &self.agent else { return };
        self.wakes.forget_told(agent);
        let Some(origin) = self.wakes.begins() else {
            return self.fire_due_jobs().await;
        };
        if let Err(why) = self.may_wake() {
            tracing::info!(session = %self.session.session_id, %why, "what the model is to be told waits");
            return;
        }
        self.begin_wake_turn(origin).await;
    }

    /// Takes back what a turn was given and did not tell.
    pub(super) fn take_back(&mut self, given: Vec<Wake>, is_woken: bool, reason: TurnReason) {
        let is_told = |wake: &Wake| {
            self.agent
                .as_ref()
                .is_some_and(|agent| agent.told.contains(&wake.key))
        };
        // A turn that could not record what began it would only fail again.
        let is_in_vain = is_woken && given.first().is_some_and(|wake| !is_told(wake));
        self.wakes.is_held = is_in_vain || reason == TurnReason::Cancelled;
        let mut seen = HashSet::new();
        let untold = given
            .into_iter()
            .filter(|wake| !is_told(wake) && seen.insert(wake.key.clone()));
        let untold = untold.collect();
        self.wakes.put_back(untold);
    }

    async fn begin_wake_turn(&mut self, origin: Origin) {
        let (mut wakes, others) = std::mem::take(&mut self.wakes.pending)
            .into_iter()
            .partition::<Vec<_>, _>(|wake| wake.key.origin() == origin);
        self.wakes.pending = others;
        notices::shorten(&mut wakes);
        let turn = self.new_turn();
        if let Err(fault) = self
            .begin_turn(Waiting::woken(turn, origin, wakes.clone()))
            .await
        {
            tracing::warn!(session = %self.session.session_id, %fault, "a turn could not be begun");
            self.wakes.put_back(wakes);
            self.wakes.is_held = true;
        }
    }

    /// Why no turn may begin that no host asked for.
    pub(super) fn may_wake(&self) -> Result<(), Fault> {
        self.check_open()?;
        self.check_model()?;
        let is_attended = || {
            let asks = &self.deps.asks;
            asks.ability(&self.session.session_id, AskKind::Approval) != Ability::Nobody
        };
        match self.deps.own_turns {
            OwnTurns::Always => Ok(()),
            OwnTurns::WhileAttended if is_attended() => Ok(()),
            OwnTurns::WhileAttended => Err(Fault::new(
                ErrorKind::CapabilityMissing,
                "no host is attached",
            )),
            OwnTurns::Never => Err(Fault::new(
                ErrorKind::NotSupported,
                "no turn begins by itself here",
            )),
        }
    }
}
