//! The one FIFO of a host: replies, reverse requests and events, in the order they were given to it.
//!
//! Events wait as values, so that the deltas a slow host has not taken yet are joined into fewer and larger ones, and
//! become bytes only when the writer asks for them. What a host misses is never kept here: its place in the queue is
//! marked, and when the writer comes to the mark it reads the durable events from the journal, page by page, until
//! the host has caught up. One mechanism thus serves a host that attaches late, one that wants a replay, and one that
//! was too slow.
//!
//! Per session a host has a [`Subscription`]. Invariants:
//! - a host sees every durable event after its cursor once and in order, unless the journal can't be read;
//! - lines (replies and reverse requests) are never dropped or reordered;
//! - events take at most [`QueueLimits`] (and one entry more), however little the host reads;
//! - no lock is held while an event is turned into bytes or a journal is read.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use longshore_protocol::id::{AgentId, SessionId};
use longshore_protocol::value::failure::Warning;
use tokio::sync::Notify;

use super::Now;
use crate::kernel::event::{DomainEvent, Stamped};
use crate::kernel::fault::Fault;
use crate::kernel::limits;
use crate::kernel::port::{EventLog, HostConn};
use crate::rpc::{BATCH_BYTES, Batch, BoxFuture, Line, MAX_BATCH_BYTES, Outbox};

/// What is read from a journal at a time. Chosen: the size of a large batch, since each page is written as one.
const PAGE_BYTES: usize = MAX_BATCH_BYTES;

/// Deltas are joined up to about this size. Chosen: one full batch; larger messages only make hosts wait longer.
const MERGED_BYTES: usize = BATCH_BYTES;

/// Entries whose room is given back once the queue is empty.
const KEPT_CAPACITY: usize = 256;

/// How much may wait for one host before live events are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Events.
    pub messages: usize,
    /// Their size in bytes, about.
    pub bytes: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            messages: limits::HOST_QUEUE_MESSAGES,
            bytes: limits::HOST_QUEUE_BYTES,
        }
    }
}

/// What waits for a host now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueFigures {
    /// Messages: events, and lines.
    pub messages: usize,
    /// Their size in bytes; that of events is an estimate.
    pub bytes: usize,
    /// Sessions the host is attached to.
    pub sessions: usize,
}

/// The queue of one host. Anybody may push; its connection's writer drains.
pub struct HostQueue {
    log: Arc<dyn EventLog>,
    now: Now,
    limits: QueueLimits,
    /// Who turns events into bytes. Weak, since a host's connection owns this queue.
    conn: OnceLock<Weak<dyn HostConn>>,
    /// Live events are not even queued for a host that is not shown them.
    wants_live: AtomicBool,
    state: Mutex<State>,
    line_bytes: AtomicUsize,
    ready: Notify,
    drained: Notify,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    n_events: usize,
    event_bytes: usize,
    subscriptions: HashMap<SessionId, Subscription>,
    last_ticket: u64,
    is_closed: bool,
}

enum Entry {
    /// A reply, a request of ours or a notification that is bytes already.
    Line(Line),
    /// An event of a session the host is attached to.
    Event(Arc<Stamped>),
    /// An event for this host whatever it is attached to.
    Private(Arc<Stamped>),
    /// Here the journal is read until the host has caught up. Void unless the subscription has this ticket.
    CatchUp { session: SessionId, ticket: u64 },
}

/// How far a host has got in a session.
struct Subscription {
    /// The last durable event it was sent.
    cursor: u64,
    /// The last durable event there is.
    published: u64,
    phase: Phase,
    /// Attaches under way.
    n_holds: u32,
    /// The last state events while none are sent: they say what durable events don't.
    status: Option<Arc<Stamped>>,
    usage: Option<Arc<Stamped>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// An attach is under way: nothing is sent before its reply.
    Held,
    /// A mark is in the queue: what comes is read from the journal when the mark is reached.
    CatchingUp { ticket: u64, announce: bool },
    /// Events are queued as they come.
    Live,
}

/// What the writer does next.
enum Step {
    Wait,
    Finished,
    Entries(Vec<Entry>),
    Announce {
        session: SessionId,
        from_seq: u64,
    },
    Read {
        session: SessionId,
        ticket: u64,
        after: u64,
    },
}

impl HostQueue {
    /// An empty queue that reads missed events from `log`.
    pub fn new(log: Arc<dyn EventLog>, limits: QueueLimits, now: Now) -> Self {
        Self {
            log,
            now,
            limits,
            conn: OnceLock::new(),
            wants_live: AtomicBool::new(true),
            state: Mutex::default(),
            line_bytes: AtomicUsize::new(0),
            ready: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// Says who turns events into bytes; the first one stays.
    pub(super) fn bind(&self, conn: &Arc<dyn HostConn>) {
        self.conn.get_or_init(|| {
            self.wants_live.store(conn.wants_live(), Ordering::Relaxed);
            Arc::downgrade(conn)
        });
    }

    /// Prepares a subscription: from now on no durable event is missed, but nothing is sent before
    /// [`subscribe`](Self::subscribe). Where there is one already, it goes on.
    pub(super) fn hold(&self, session: &SessionId) {
        let mut state = self.lock();
        let subscription = state.subscriptions.entry(session.clone()).or_default();
        subscription.n_holds += 1;
    }

    /// Takes a hold back; true where no subscription is left.
    pub(super) fn release(&self, session: &SessionId) -> bool {
        let mut state = self.lock();
        let Some(subscription) = state.subscriptions.get_mut(session) else {
            return true;
        };
        subscription.n_holds = subscription.n_holds.saturating_sub(1);
        let is_void = subscription.n_holds == 0 && subscription.phase == Phase::Held;
        if is_void {
            state.subscriptions.remove(session);
        }
        is_void
    }

    /// Sends the events of a session after `cursor`, `last_seq` being the last durable one known to the caller.
    /// Replaces an earlier subscription, whatever of it still waits. Uses up one hold.
    pub(super) fn subscribe(&self, session: &SessionId, cursor: u64, last_seq: u64) {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.is_closed {
            return;
        }
        let earlier = state.subscriptions.remove(session).unwrap_or_default();
        if earlier.phase != Phase::Held {
            state.purge(session);
        }
        let published = last_seq.max(earlier.published);
        let was_empty = state.entries.is_empty();
        let subscription = Subscription {
            cursor: cursor.min(published),
            published,
            phase: Phase::Live,
            n_holds: earlier.n_holds.saturating_sub(1),
            ..earlier
        };
        let is_behind = subscription.cursor < published;
        state.subscriptions.insert(session.clone(), subscription);
        if is_behind {
            state.mark(session, false);
        } else if let Some(subscription) = state.subscriptions.get_mut(session) {
            let states = subscription.take_states();
            for event in states {
                state.push(Entry::Event(event));
            }
        }
        self.wake(guard, was_empty);
    }

    /// Ends the subscription of a session; what waits of it is dropped.
    pub(super) fn unsubscribe(&self, session: &SessionId) {
        let mut state = self.lock();
        if state.subscriptions.remove(session).is_some() {
            state.purge(session);
        }
    }

    /// The sessions the host is attached to.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.lock().subscriptions.keys().cloned().collect()
    }

    /// What waits now.
    pub fn figures(&self) -> QueueFigures {
        let state = self.lock();
        QueueFigures {
            messages: state.entries.len(),
            bytes: state.event_bytes + self.pending_bytes(),
            sessions: state.subscriptions.len(),
        }
    }

    /// Takes an event of a session. Never blocks.
    pub(super) fn push_event(&self, event: Arc<Stamped>) {
        if event.seq.is_none() && event.event.is_live() && !self.wants_live.load(Ordering::Relaxed)
        {
            return;
        }
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.is_closed {
            return;
        }
        let Some(subscription) = state.subscriptions.get_mut(&event.session) else {
            return;
        };
        let mut is_gap = false;
        if let Some(seq) = event.seq {
            if seq <= subscription.published {
                return;
            }
            is_gap = seq != subscription.published + 1;
            subscription.published = seq;
        }
        if subscription.phase != Phase::Live {
            subscription.keep_state(&event);
            return;
        }
        let was_empty = state.entries.is_empty();
        if is_gap {
            // Events that were handed over out of order, or not at all, are read from the journal instead.
            state.mark(&event.session, false);
        } else if state.event_bytes < self.limits.bytes && state.merge(&event) {
            return;
        } else if state.is_full(self.limits) {
            if let Some(subscription) = state.subscriptions.get_mut(&event.session) {
                subscription.keep_state(&event);
            }
            let session = event.session.clone();
            state.mark(&session, true);
        } else {
            state.push(Entry::Event(event));
        }
        self.wake(guard, was_empty);
    }

    /// Takes an event for this host alone, or one that all hosts get; dropped where the queue is full.
    pub(super) fn push_private(&self, event: Arc<Stamped>) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        if state.is_full(self.limits) {
            tracing::debug!(session = %event.session, "a host reads too slowly: an event for it was dropped");
            return;
        }
        let was_empty = state.entries.is_empty();
        state.push(Entry::Private(event));
        self.wake(state, was_empty);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the writer where there was nothing for it before: it looks before it waits, and a wake-up in between is
    /// kept.
    fn wake(&self, state: MutexGuard<'_, State>, was_empty: bool) {
        let has_work = was_empty && !state.entries.is_empty();
        drop(state);
        if has_work {
            self.ready.notify_one();
        }
    }

    fn conn(&self) -> Option<Arc<dyn HostConn>> {
        self.conn.get().and_then(Weak::upgrade)
    }

    /// Turns entries into bytes, in order.
    fn write(&self, entries: Vec<Entry>, batch: &mut Batch) {
        let conn = self.conn();
        for entry in entries {
            match entry {
                Entry::Line(line) => {
                    self.line_bytes
                        .fetch_sub(line.bytes.len(), Ordering::Relaxed);
                    batch.push(line);
                    self.drained.notify_one();
                }
                Entry::Event(event) | Entry::Private(event) => {
                    if let Some(conn) = &conn {
                        conn.project(&event, &mut batch.bytes);
                    }
                }
                Entry::CatchUp { .. } => {}
            }
        }
    }

    /// Reads the next page for a host that is behind.
    async fn read(&self, session: SessionId, ticket: u64, after: u64, batch: &mut Batch) {
        let target = self.lock().published(&session);
        let page = self.log.read_events(&session, after, PAGE_BYTES).await;
        let (page, fault) = match page {
            Ok(page) => (page, None),
            Err(fault) => (Vec::new(), Some(fault)),
        };
        let Some(entries) = self.lock().caught_up(&session, ticket, target, page) else {
            return;
        };
        if let (Some(fault), Some(conn)) = (fault, self.conn()) {
            conn.project(
                &self.unreadable(session, after, target, &fault),
                &mut batch.bytes,
            );
        }
        self.write(entries, batch);
    }

    fn unreadable(
        &self,
        session: SessionId,
        after: u64,
        target: u64,
        fault: &Fault,
    ) -> Arc<Stamped> {
        tracing::warn!(%session, %fault, "a journal could not be read for a host");
        let warning = Warning::new(
            "journal",
            format!(
                "The journal could not be read ({}); events {} to {target} are missing here.",
                fault.message,
                after + 1
            ),
        );
        let event = DomainEvent::Warning { warning };
        Stamped::new(session, AgentId::main(), None, (self.now)(), event)
    }
}

impl Outbox for HostQueue {
    fn send(&self, line: Line) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        let was_empty = state.entries.is_empty();
        self.line_bytes
            .fetch_add(line.bytes.len(), Ordering::Relaxed);
        state.push(Entry::Line(line));
        self.wake(state, was_empty);
    }

    fn pending_bytes(&self) -> usize {
        self.line_bytes.load(Ordering::Relaxed)
    }

    fn drain<'a>(&'a self, batch: &'a mut Batch) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let before = batch.bytes.len();
            loop {
                // The guard ends with its statement, so that nothing below runs under the lock.
                let step = self.lock().next();
                match step {
                    Step::Wait => self.ready.notified().await,
                    Step::Finished => return false,
                    Step::Entries(entries) => self.write(entries, batch),
                    Step::Announce { session, from_seq } => {
                        if let Some(conn) = self.conn() {
                            conn.project_resync(&session, from_seq, &mut batch.bytes);
                        }
                    }
                    Step::Read {
                        session,
                        ticket,
                        after,
                    } => {
                        self.read(session, ticket, after, batch).await;
                    }
                }
                // Events a host does not want become no bytes.
                if batch.bytes.len() > before {
                    return true;
                }
            }
        })
    }

    fn below(&self, mark_bytes: usize) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            while self.pending_bytes() >= mark_bytes && !self.lock().is_closed {
                self.drained.notified().await;
            }
        })
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.ready.notify_one();
        self.drained.notify_one();
    }
}

impl Default for Subscription {
    fn default() -> Self {
        Self {
            cursor: 0,
            published: 0,
            phase: Phase::Held,
            n_holds: 0,
            status: None,
            usage: None,
        }
    }
}

impl Subscription {
    fn keep_state(&mut self, event: &Arc<Stamped>) {
        match event.event {
            DomainEvent::SessionStatus { .. } => self.status = Some(Arc::clone(event)),
            DomainEvent::SessionUsage { .. } => self.usage = Some(Arc::clone(event)),
            _ => {}
        }
    }

    fn take_states(&mut self) -> Vec<Arc<Stamped>> {
        [self.status.take(), self.usage.take()]
            .into_iter()
            .flatten()
            .collect()
    }
}

impl State {
    fn is_full(&self, limits: QueueLimits) -> bool {
        self.n_events >= limits.messages || self.event_bytes >= limits.bytes
    }

    fn published(&self, session: &SessionId) -> u64 {
        self.subscriptions
            .get(session)
            .map_or(0, |subscription| subscription.published)
    }

    fn push(&mut self, entry: Entry) {
        if let Entry::Event(event) | Entry::Private(event) = &entry {
            self.n_events += 1;
            self.event_bytes += event.event.weight();
        }
        self.entries.push_back(entry);
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        if let Entry::Event(event) | Entry::Private(event) = &entry {
            self.n_events -= 1;
            self.event_bytes -= event.event.weight();
        }
        if self.entries.is_empty() && self.entries.capacity() > KEPT_CAPACITY {
            self.entries = VecDeque::new();
        }
        Some(entry)
    }

    /// Joins a delta to the last entry, where it continues that.
    fn merge(&mut self, event: &Stamped) -> bool {
        let Some(Entry::Event(tail)) = self.entries.back_mut() else {
            return false;
        };
        let is_same_kind =
            std::mem::discriminant(&tail.event) == std::mem::discriminant(&event.event);
        if event.seq.is_some()
            || !is_same_kind
            || tail.session != event.session
            || tail.agent != event.agent
        {
            return false;
        }
        let weight = tail.event.weight();
        if weight + event.event.weight() > MERGED_BYTES {
            return false;
        }
        let is_merged = if let Some(own) = Arc::get_mut(tail) {
            let is_merged = own.event.merge(&event.event);
            if is_merged {
                own.native = OnceLock::new();
            }
            is_merged
        } else {
            let mut joined = tail.event.clone();
            let is_merged = joined.merge(&event.event);
            if is_merged {
                let (session, agent) = (tail.session.clone(), tail.agent.clone());
                *tail = Stamped::new(session, agent, tail.seq, tail.at, joined);
            }
            is_merged
        };
        if is_merged {
            self.event_bytes += tail.event.weight() - weight;
        }
        is_merged
    }

    /// Puts a mark at the end of the queue: from here on the session is read from its journal.
    fn mark(&mut self, session: &SessionId, announce: bool) {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        if let Some(subscription) = self.subscriptions.get_mut(session) {
            subscription.phase = Phase::CatchingUp { ticket, announce };
            self.entries.push_back(Entry::CatchUp {
                session: session.clone(),
                ticket,
            });
        }
    }

    /// Drops what waits of a session.
    fn purge(&mut self, session: &SessionId) {
        let (mut n_events, mut bytes) = (0, 0);
        self.entries.retain(|entry| match entry {
            Entry::Event(event) if event.session == *session => {
                n_events += 1;
                bytes += event.event.weight();
                false
            }
            Entry::CatchUp { session: of, .. } => of != session,
            _ => true,
        });
        self.n_events -= n_events;
        self.event_bytes -= bytes;
    }

    /// Takes from the front as much as makes a batch, or says what else is to be done there.
    fn next(&mut self) -> Step {
        let mut taken = Vec::new();
        let mut bytes = 0;
        loop {
            let size = match self.entries.front() {
                None => break,
                Some(Entry::CatchUp { .. }) if !taken.is_empty() => break,
                Some(Entry::CatchUp { session, ticket }) => {
                    let (session, ticket) = (session.clone(), *ticket);
                    match self.at_mark(session, ticket) {
                        Some(step) => return step,
                        None => continue,
                    }
                }
                Some(Entry::Line(line)) => line.bytes.len(),
                Some(Entry::Event(event) | Entry::Private(event)) => event.event.weight(),
            };
            if !taken.is_empty() && (bytes >= BATCH_BYTES || bytes + size >= MAX_BATCH_BYTES) {
                break;
            }
            bytes += size;
            let Some(entry) = self.pop() else { break };
            if self.is_due(&entry) {
                taken.push(entry);
            }
        }
        if !taken.is_empty() {
            Step::Entries(taken)
        } else if self.is_closed {
            Step::Finished
        } else {
            Step::Wait
        }
    }

    /// Moves the cursor over an event that is being taken; false where the host has it already.
    fn is_due(&mut self, entry: &Entry) -> bool {
        let Entry::Event(event) = entry else {
            return true;
        };
        let Some(seq) = event.seq else { return true };
        let Some(subscription) = self.subscriptions.get_mut(&event.session) else {
            return false;
        };
        if seq <= subscription.cursor {
            return false;
        }
        subscription.cursor = seq;
        true
    }

    /// What to do at a mark in front; `None` where it was void, and is gone.
    fn at_mark(&mut self, session: SessionId, ticket: u64) -> Option<Step> {
        let subscription = self.subscriptions.get_mut(&session);
        if let Some(Subscription {
            cursor,
            published,
            phase,
            ..
        }) = subscription
            && let Phase::CatchingUp {
                ticket: own,
                announce,
            } = phase
            && *own == ticket
        {
            let from_seq = *cursor;
            if std::mem::take(announce) {
                return Some(Step::Announce { session, from_seq });
            }
            if *cursor < *published {
                return Some(Step::Read {
                    session,
                    ticket,
                    after: from_seq,
                });
            }
            let states = self.go_live(&session);
            return (!states.is_empty()).then_some(Step::Entries(states));
        }
        self.pop();
        None
    }

    /// Takes a page that was read for the mark in front; `None` where the mark was void meanwhile.
    fn caught_up(
        &mut self,
        session: &SessionId,
        ticket: u64,
        target: u64,
        page: Vec<Arc<Stamped>>,
    ) -> Option<Vec<Entry>> {
        let subscription = self.subscriptions.get_mut(session)?;
        if !matches!(subscription.phase, Phase::CatchingUp { ticket: own, .. } if own == ticket) {
            return None;
        }
        if page.is_empty() {
            // What is not there now never will be: events are in the journal before they are published.
            subscription.cursor = subscription.cursor.max(target);
        }
        let mut entries = Vec::with_capacity(page.len());
        for event in page {
            if let Some(seq) = event.seq
                && seq > subscription.cursor
            {
                subscription.cursor = seq;
                entries.push(Entry::Event(event));
            }
        }
        // A journal may be ahead of what was published; those events will be handed over and skipped.
        subscription.published = subscription.published.max(subscription.cursor);
        if subscription.cursor >= subscription.published {
            entries.extend(self.go_live(session));
        }
        Some(entries)
    }

    /// Removes the mark in front. What the session's state is goes out next.
    fn go_live(&mut self, session: &SessionId) -> Vec<Entry> {
        self.pop();
        let Some(subscription) = self.subscriptions.get_mut(session) else {
            return Vec::new();
        };
        subscription.phase = Phase::Live;
        subscription
            .take_states()
            .into_iter()
            .map(Entry::Event)
            .collect()
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
