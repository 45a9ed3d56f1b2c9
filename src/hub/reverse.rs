//! Asks on their way round the hosts of a session: the first valid answer wins.
//!
//! An ask is a future owned by whoever asked; it holds the answers of all hosts it was put to, and dropping one takes
//! the request back at that host. The table here says which asks are open, so that hosts that attach late get them
//! too, and so that they can be answered out of band. Removing an entry from it is the right to end the ask: an answer
//! that finds the entry gone came too late.
//!
//! Nothing is ever allowed by a timeout, a vanished host or an error: those end an ask unanswered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, HostId, SessionId};
use longshore_protocol::value::failure::Warning;
use longshore_protocol::value::session::OpenAsks;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Host, Now, answer};
use crate::kernel::ask::{Ask, AskAnswer, AskId, AskOutcome, HostRefusal};
use crate::kernel::event::{DomainEvent, Stamped};
use crate::kernel::fault::Fault;
use crate::kernel::limits;
use crate::kernel::port::{Ability, AskKind, HostAbilities};

/// Ended asks that are remembered, to tell a late answer from a wrong id. Chosen: more than any dialog shows.
const REMEMBERED: usize = 256;

/// Invalid answers to one ask after which a host counts as unable to answer it.
const MAX_INVALID: u32 = 2;

/// How long asks wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskLimits {
    /// While a host that can answer is attached; `None` is for ever.
    pub approval_timeout: Option<Duration>,
    /// While there is none.
    pub detached_wait: Duration,
}

impl Default for AskLimits {
    fn default() -> Self {
        Self {
            approval_timeout: Some(limits::APPROVAL_TIMEOUT),
            detached_wait: limits::DETACHED_WAIT,
        }
    }
}

/// When an ask was put first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// It is new.
    Now,
    /// By an earlier process, so long ago.
    Before(Duration),
}

/// The open asks of all sessions, and the hosts they can be put to.
pub(super) struct Asks {
    limits: AskLimits,
    now: Now,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<SessionId, SessionAsks>,
    ended: VecDeque<(SessionId, AskId)>,
}

#[derive(Default)]
struct SessionAsks {
    hosts: Vec<Arc<Host>>,
    /// Oldest first.
    open: Vec<Open>,
}

struct Open {
    ask: Arc<Ask>,
    /// Tells an ask from a later one of the same name.
    notes: mpsc::UnboundedSender<Note>,
}

/// What an open ask is told.
enum Note {
    /// A host has attached; with its answer to come where it can give one.
    Joined(Arc<Host>, Option<HostAnswer>),
    /// A host has left.
    Left(HostId),
    /// It was answered out of band, and is over.
    Answered(AskAnswer, HostId),
}

type HostAnswer = BoxFuture<'static, Result<AskAnswer, HostRefusal>>;

impl Asks {
    pub(super) fn new(limits: AskLimits, now: Now) -> Self {
        Self {
            limits,
            now,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A host has attached: it gets what is open, oldest first.
    pub(super) fn join(&self, session: &SessionId, host: &Arc<Host>) {
        let mut state = self.lock();
        let asks = state.sessions.entry(session.clone()).or_default();
        if asks.hosts.iter().any(|other| Arc::ptr_eq(other, host)) {
            return;
        }
        asks.hosts.push(Arc::clone(host));
        for open in &asks.open {
            let answer = put(host, &open.ask);
            // An ask that is ending no longer listens; the answer is then dropped, which takes the request back.
            let _ = open.notes.send(Note::Joined(Arc::clone(host), answer));
        }
    }

    /// A host has left.
    pub(super) fn leave(&self, session: &SessionId, host: &HostId) {
        let mut state = self.lock();
        if let Some(asks) = state.sessions.get_mut(session) {
            asks.hosts.retain(|other| other.conn.id() != host);
            for open in &asks.open {
                // As above.
                let _ = open.notes.send(Note::Left(host.clone()));
            }
            state.tidy(session);
        }
    }

    pub(super) fn ability(&self, session: &SessionId, kind: AskKind) -> Ability {
        match self.lock().sessions.get(session) {
            Some(asks)
                if asks
                    .hosts
                    .iter()
                    .any(|host| can_answer(host.conn.abilities(), kind)) =>
            {
                Ability::Able
            }
            Some(asks) if !asks.hosts.is_empty() => Ability::Unable,
            _ => Ability::Nobody,
        }
    }

    pub(super) fn open(&self, session: &SessionId) -> OpenAsks {
        let mut asks = OpenAsks::default();
        let state = self.lock();
        for open in state
            .sessions
            .get(session)
            .iter()
            .flat_map(|asks| &asks.open)
        {
            match &*open.ask {
                Ask::Approval(ask) => asks.approvals.push(ask.clone()),
                Ask::Question(ask) => asks.questions.push(ask.clone()),
            }
        }
        asks
    }

    pub(super) fn resolve(
        &self,
        session: &SessionId,
        id: &AskId,
        answer: AskAnswer,
        by: &HostId,
    ) -> Result<(), Fault> {
        let mut state = self.lock();
        let open = state
            .sessions
            .get(session)
            .and_then(|asks| asks.open.iter().find(|open| open.ask.id() == *id));
        let Some(open) = open else {
            return Err(state.not_open(session, id));
        };
        let answer = answer::check(&open.ask, answer).map_err(|reason| {
            Fault::new(
                ErrorKind::InvalidParams,
                format!("This is not on offer: {reason}."),
            )
        })?;
        let notes = open.notes.clone();
        state.end(session, &notes);
        // The ask's end looks here once more before it says anything else.
        let _ = notes.send(Note::Answered(answer, by.clone()));
        Ok(())
    }

    /// Puts an ask to every host that can answer, at once.
    pub(super) fn ask(
        self: &Arc<Self>,
        ask: Arc<Ask>,
        asked: Asked,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, AskOutcome> {
        let (notes, inbox) = mpsc::unbounded_channel();
        let mut state = self.lock();
        let asks = state.sessions.entry(ask.session().clone()).or_default();
        let puts: Vec<_> = asks
            .hosts
            .iter()
            .filter_map(|host| Some(Put::new(host, put(host, &ask)?)))
            .collect();
        let attached: HashSet<_> = asks
            .hosts
            .iter()
            .map(|host| host.conn.id().clone())
            .collect();
        asks.open.push(Open {
            ask: Arc::clone(&ask),
            notes: notes.clone(),
        });
        drop(state);
        let absent_since = Instant::now();
        let waited = match asked {
            Asked::Now => Duration::ZERO,
            Asked::Before(waited) => waited,
        };
        let AskLimits {
            approval_timeout: timeout,
            detached_wait,
        } = self.limits;
        let asking = Asking {
            may_return: attached.is_empty() || asked != Asked::Now,
            attached,
            puts,
            inbox,
            right: Right {
                asks: Arc::clone(self),
                ask: Arc::clone(&ask),
                notes,
            },
            ask,
            expires_at: timeout.map(|wait| absent_since + wait.saturating_sub(waited)),
            // Restarts one after another must not make it wait for ever.
            ends_at: timeout
                .filter(|_| asked != Asked::Now)
                .map(|wait| absent_since + wait.max(detached_wait).saturating_sub(waited)),
            absent_since,
        };
        asking.run(cancel).boxed()
    }
}

impl State {
    /// Ends an ask; false where somebody has done so.
    fn end(&mut self, session: &SessionId, notes: &mpsc::UnboundedSender<Note>) -> bool {
        let Some(asks) = self.sessions.get_mut(session) else {
            return false;
        };
        let Some(at) = asks
            .open
            .iter()
            .position(|open| open.notes.same_channel(notes))
        else {
            return false;
        };
        let open = asks.open.remove(at);
        if self.ended.len() == REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((session.clone(), open.ask.id()));
        self.tidy(session);
        true
    }

    fn tidy(&mut self, session: &SessionId) {
        let is_empty = self
            .sessions
            .get(session)
            .is_some_and(|asks| asks.hosts.is_empty() && asks.open.is_empty());
        if is_empty {
            self.sessions.remove(session);
        }
    }

    fn not_open(&self, session: &SessionId, id: &AskId) -> Fault {
        let (kind, name, member) = match id {
            AskId::Approval(id) => (ErrorKind::ApprovalNotFound, id.as_str(), "approvalId"),
            AskId::Question(id) => (ErrorKind::QuestionNotFound, id.as_str(), "questionId"),
        };
        if self
            .ended
            .iter()
            .any(|(of, ended)| of == session && ended == id)
        {
            Fault::new(
                ErrorKind::AlreadyResolved,
                format!("{name} is no longer open."),
            )
        } else {
            Fault::new(kind, format!("There is no {name} in this session."))
        }
        .with(member, name)
    }
}

fn can_answer(abilities: HostAbilities, kind: AskKind) -> bool {
    match kind {
        AskKind::Approval => abilities.approvals,
        AskKind::Question => abilities.questions,
    }
}

/// Puts an ask to a host that can answer it.
fn put(host: &Host, ask: &Arc<Ask>) -> Option<HostAnswer> {
    let kind = match **ask {
        Ask::Approval(_) => AskKind::Approval,
        Ask::Question(_) => AskKind::Question,
    };
    can_answer(host.conn.abilities(), kind).then(|| host.conn.ask(Arc::clone(ask)))
}

/// An ask as one host has it.
struct Put {
    host: Arc<Host>,
    answer: HostAnswer,
    n_invalid: u32,
}

impl Put {
    fn new(host: &Arc<Host>, answer: HostAnswer) -> Self {
        Self {
            host: Arc::clone(host),
            answer,
            n_invalid: 0,
        }
    }
}

/// An ask that waits.
struct Asking {
    ask: Arc<Ask>,
    /// The hosts it was put to that may still answer.
    puts: Vec<Put>,
    attached: HashSet<HostId>,
    /// True where nobody was there from the beginning, or somebody who could answer has gone: they may come back.
    /// False where those who are here have said that they can't answer.
    may_return: bool,
    inbox: mpsc::UnboundedReceiver<Note>,
    right: Right,
    /// When it has waited for as long as it may while somebody can answer, the time before a restart counted in.
    expires_at: Option<Instant>,
    /// When it ends in any case.
    ends_at: Option<Instant>,
    /// When the last host that could answer was lost.
    absent_since: Instant,
}

/// The right to end an ask. Ends it when dropped, so that an asker that is gone leaves nothing open.
struct Right {
    asks: Arc<Asks>,
    ask: Arc<Ask>,
    notes: mpsc::UnboundedSender<Note>,
}

impl Right {
    fn take(&self) -> bool {
        self.asks.lock().end(self.ask.session(), &self.notes)
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        self.take();
    }
}

impl Asking {
    async fn run(mut self, cancel: CancellationToken) -> AskOutcome {
        loop {
            let deadline = match self.deadline() {
                Ok(deadline) => deadline,
                Err(reason) => return self.end(AskOutcome::Unanswered { reason }),
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => return self.end(AskOutcome::Withdrawn),
                Some(note) = self.inbox.recv() => {
                    if let Some(outcome) = self.hear(note) {
                        return outcome;
                    }
                }
                (at, answer) = first(&mut self.puts) => {
                    if let Some(outcome) = self.take(at, answer) {
                        return self.end(outcome);
                    }
                }
                () = until(deadline) => {
                    let reason = "No decision in time.".to_owned();
                    return self.end(AskOutcome::Unanswered { reason });
                }
            }
        }
    }

    /// Until when it waits, `None` being for ever; an error where it need not wait.
    fn deadline(&self) -> Result<Option<Instant>, String> {
        let limits = self.right.asks.limits;
        if !self.puts.is_empty() {
            Ok(self.expires_at)
        } else if self.attached.is_empty() || self.may_return {
            let absent = self.absent_since + limits.detached_wait;
            Ok(Some(self.ends_at.map_or(absent, |end| end.min(absent))))
        } else {
            Err("No attached host can answer.".to_owned())
        }
    }

    fn hear(&mut self, note: Note) -> Option<AskOutcome> {
        match note {
            Note::Joined(host, answer) => {
                self.attached.insert(host.conn.id().clone());
                if let Some(answer) = answer {
                    self.may_return = false;
                    self.puts.push(Put::new(&host, answer));
                }
                None
            }
            Note::Left(host) => {
                self.attached.remove(&host);
                if let Some(at) = self.puts.iter().position(|put| *put.host.conn.id() == host) {
                    self.lose(at);
                    self.may_return = true;
                }
                None
            }
            Note::Answered(answer, by) => Some(AskOutcome::Answered { answer, by }),
        }
    }

    /// Takes what a host said; an outcome where that is a valid answer.
    fn take(&mut self, at: usize, answer: Result<AskAnswer, HostRefusal>) -> Option<AskOutcome> {
        let checked = answer
            .and_then(|answer| answer::check(&self.ask, answer).map_err(HostRefusal::Invalid));
        match checked {
            Ok(answer) => {
                let by = self.puts[at].host.conn.id().clone();
                return Some(AskOutcome::Answered { answer, by });
            }
            Err(HostRefusal::Invalid(reason)) => self.again(at, &reason),
            Err(HostRefusal::Left) => {
                self.lose(at);
                self.may_return = true;
            }
            Err(refusal @ (HostRefusal::Unsupported | HostRefusal::Failed(_))) => {
                tracing::debug!(host = %self.puts[at].host.conn.id(), ?refusal, "a host can't answer an ask");
                self.lose(at);
            }
        }
        None
    }

    /// Tells a host that its answer was not taken, and asks once more.
    fn again(&mut self, at: usize, reason: &str) {
        let put = &mut self.puts[at];
        put.n_invalid += 1;
        let is_over = put.n_invalid >= MAX_INVALID;
        let (agent, name) = match &*self.ask {
            Ask::Approval(ask) => (
                ask.agent_id.clone(),
                format!("approval {}", ask.approval_id),
            ),
            Ask::Question(ask) => (
                ask.agent_id.clone(),
                format!("question {}", ask.question_id),
            ),
        };
        let what_next = if is_over {
            "It is not asked here again"
        } else {
            "It is asked once more"
        };
        let message = format!("The answer to {name} was not taken: {reason}. {what_next}.");
        put.host
            .queue
            .push_private(self.right.asks.warning(&self.ask, agent, message));
        if is_over {
            self.lose(at);
        } else {
            put.answer = put.host.conn.ask(Arc::clone(&self.ask));
        }
    }

    /// Gives up on a host; dropping its answer takes the request back there.
    fn lose(&mut self, at: usize) {
        self.puts.remove(at);
        if self.puts.is_empty() {
            self.absent_since = Instant::now();
        }
    }

    /// Ends the ask, unless it was answered out of band meanwhile: that answer has been confirmed already.
    fn end(mut self, outcome: AskOutcome) -> AskOutcome {
        if self.right.take() {
            return outcome;
        }
        while let Ok(note) = self.inbox.try_recv() {
            if let Note::Answered(answer, by) = note {
                return AskOutcome::Answered { answer, by };
            }
        }
        outcome
    }
}

impl Asks {
    fn warning(&self, ask: &Ask, agent: AgentId, message: String) -> Arc<Stamped> {
        let event = DomainEvent::Warning {
            warning: Warning::new("ask", message),
        };
        Stamped::new(ask.session().clone(), agent, None, (self.now)(), event)
    }
}

/// Waits for the first host that says anything; for ever where there are none.
async fn first(puts: &mut [Put]) -> (usize, Result<AskAnswer, HostRefusal>) {
    std::future::poll_fn(|cx| {
        for (at, put) in puts.iter_mut().enumerate() {
            if let Poll::Ready(answer) = put.answer.poll_unpin(cx) {
                return Poll::Ready((at, answer));
            }
        }
        Poll::Pending
    })
    .await
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "reverse_tests.rs"]
mod tests;
