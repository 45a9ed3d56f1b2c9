//! The hosts that watch sessions: events fan out to them, asks go round them.
//!
//! The hub knows hosts by the port `HostConn` alone: it can't tell which face a host speaks. It knows sessions by their
//! ids and the port `EventLog`, and serves them through `Publish` and `AskHost`. It never blocks a session: every host
//! has a queue of its own ([`host`]), bounded however little it reads. It also knows whose view of text files counts
//! ([`files`]).
//!
//! State: the table of hosts and attachments here; the cursor of each host in its queue; open asks in [`reverse`].
//! Locks are taken in this order, and never across an await: table, asks, queue.
//!
//! Start reading at [`Hub`].

mod answer;
mod files;
mod host;
mod reverse;

#[cfg(test)]
mod fakes;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use longshore_protocol::id::{HostId, SessionId, TurnId};
use longshore_protocol::value::session::OpenAsks;
use tokio_util::sync::CancellationToken;

pub use self::host::{HostQueue, QueueFigures, QueueLimits};
pub use self::reverse::AskLimits;

use self::reverse::{Asked, Asks};
use crate::kernel::ask::{Ask, AskAnswer, AskId, AskOutcome};
use crate::kernel::event::{DomainEvent, Stamped};
use crate::kernel::fault::Fault;
use crate::kernel::port::{Ability, AskHost, AskKind, HostConn, Presence, Publish};
use crate::kernel::time::Timestamp;

/// Tells the wall time, for the few events that are the hub's own.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The hosts of a server, and what each watches.
pub struct Hub {
    table: Arc<RwLock<Table>>,
    asks: Arc<Asks>,
}

/// A host as the hub has it.
struct Host {
    conn: Arc<dyn HostConn>,
    queue: Arc<HostQueue>,
    name: String,
    /// It has said that it does not know requests about files, whatever it declared.
    refuses_files: AtomicBool,
}

#[derive(Default)]
struct Table {
    hosts: HashMap<HostId, Arc<Host>>,
    /// Lists are replaced, not changed, so that a fan-out holds no lock.
    watchers: HashMap<SessionId, Arc<[Arc<Host>]>>,
    /// Who started the turns that have not ended.
    starters: HashMap<SessionId, HashMap<TurnId, HostId>>,
}

/// A connected host, for status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFigures {
    /// Its id.
    pub id: HostId,
    /// Its name.
    pub name: String,
    /// What waits for it.
    pub queue: QueueFigures,
}

/// An attach under way: no durable event is missed from its beginning on, and nothing is sent before
/// [`go`](Self::go). Dropping it takes it back.
#[must_use = "dropping it takes the attach back"]
pub struct Attaching {
    table: Arc<RwLock<Table>>,
    asks: Arc<Asks>,
    host: Arc<Host>,
    session: SessionId,
    is_done: bool,
}

impl Hub {
    /// A hub without hosts.
    pub fn new(limits: AskLimits, now: Now) -> Self {
        Self {
            table: Arc::default(),
            asks: Arc::new(Asks::new(limits, now)),
        }
    }

    /// Takes a host in: it gets what every host gets, and can attach to sessions. `queue` is the outbox of its
    /// connection, `name` what it calls itself.
    pub fn connect(&self, conn: Arc<dyn HostConn>, queue: Arc<HostQueue>, name: &str) {
        queue.bind(&conn);
        let id = conn.id().clone();
        let name = name.to_owned();
        let host = Arc::new(Host {
            conn,
            queue,
            name,
            refuses_files: AtomicBool::new(false),
        });
        self.write().hosts.insert(id, host);
    }

    /// Lets a host go: its subscriptions end, and open asks go on without it. Unknown hosts are ignored.
    pub fn disconnect(&self, host: &HostId) {
        let mut table = self.write();
        let Some(host) = table.hosts.remove(host) else {
            return;
        };
        for session in host.queue.sessions() {
            self.leave(&mut table, &host, &session);
        }
    }

    /// Begins to attach a host to a session. `None` where the host is not connected.
    ///
    /// The caller then looks at the session, queues its reply, and calls [`Attaching::go`].
    pub fn attach(&self, host: &HostId, session: &SessionId) -> Option<Attaching> {
        let mut table = self.write();
        let host = Arc::clone(table.hosts.get(host)?);
        host.queue.hold(session);
        table.watch(session, &host);
        Some(Attaching {
            table: Arc::clone(&self.table),
            asks: Arc::clone(&self.asks),
            host,
            session: session.clone(),
            is_done: false,
        })
    }

    /// Ends a host's subscription. True where there was one.
    pub fn detach(&self, host: &HostId, session: &SessionId) -> bool {
        let mut table = self.write();
        let Some(host) = table.hosts.get(host).cloned() else {
            return false;
        };
        self.leave(&mut table, &host, session)
    }

    fn leave(&self, table: &mut Table, host: &Arc<Host>, session: &SessionId) -> bool {
        host.queue.unsubscribe(session);
        self.asks.leave(session, host.conn.id());
        table.unwatch(session, host)
    }

    /// The connected hosts, by id.
    pub fn hosts(&self) -> Vec<HostFigures> {
        let mut hosts: Vec<_> = self
            .read()
            .hosts
            .iter()
            .map(|(id, host)| HostFigures {
                id: id.clone(),
                name: host.name.clone(),
                queue: host.queue.figures(),
            })
            .collect();
        hosts.sort_by(|a, b| a.id.cmp(&b.id));
        hosts
    }

    /// How many hosts are attached to a session.
    pub fn n_attached(&self, session: &SessionId) -> usize {
        self.read()
            .watchers
            .get(session)
            .map_or(0, |hosts| hosts.len())
    }

    /// The asks of a session that wait for an answer, oldest first.
    pub fn open_asks(&self, session: &SessionId) -> OpenAsks {
        self.asks.open(session)
    }

    /// Answers an ask out of band, on behalf of a host that need not be attached.
    ///
    /// # Errors
    /// `approval_not_found`, `question_not_found`, `already_resolved`; `invalid_params` for an answer that is not on
    /// offer, and then the ask stays open.
    pub fn resolve(
        &self,
        session: &SessionId,
        ask: &AskId,
        answer: AskAnswer,
        by: &HostId,
    ) -> Result<(), Fault> {
        self.asks.resolve(session, ask, answer, by)
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attaching {
    /// Sends the durable events after `cursor`, then live ones; `last_seq` is the last durable event the caller has
    /// seen. Open asks the host can answer follow. Called once the reply to the attach is queued; never waits.
    pub fn go(mut self, cursor: u64, last_seq: u64) {
        self.is_done = true;
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let is_connected = table
            .hosts
            .get(self.host.conn.id())
            .is_some_and(|host| Arc::ptr_eq(host, &self.host));
        if is_connected {
            table.watch(&self.session, &self.host);
            self.host.queue.subscribe(&self.session, cursor, last_seq);
            self.asks.join(&self.session, &self.host);
        }
    }
}

impl Drop for Attaching {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if self.host.queue.release(&self.session) {
            table.unwatch(&self.session, &self.host);
        }
    }
}

impl Table {
    fn watch(&mut self, session: &SessionId, host: &Arc<Host>) {
        let hosts = self.watchers.entry(session.clone()).or_default();
        if !hosts.iter().any(|other| Arc::ptr_eq(other, host)) {
            *hosts = hosts.iter().chain([host]).map(Arc::clone).collect();
        }
    }

    fn turn_ended(&mut self, session: &SessionId, turn: &TurnId) {
        if let Some(turns) = self.starters.get_mut(session) {
            turns.remove(turn);
            if turns.is_empty() {
                self.starters.remove(session);
            }
        }
    }

    /// True where the host was among the watchers.
    fn unwatch(&mut self, session: &SessionId, host: &Arc<Host>) -> bool {
        let Some(hosts) = self.watchers.get_mut(session) else {
            return false;
        };
        let left: Vec<_> = hosts
            .iter()
            .filter(|other| !Arc::ptr_eq(other, host))
            .map(Arc::clone)
            .collect();
        let was_there = left.len() < hosts.len();
        if left.is_empty() {
            self.watchers.remove(session);
        } else {
            *hosts = left.into();
        }
        was_there
    }
}

impl Publish for Hub {
    fn publish(&self, event: Arc<Stamped>) {
        if let DomainEvent::SessionCreated { .. } | DomainEvent::SessionDeleted = event.event {
            let hosts: Vec<_> = self.read().hosts.values().map(Arc::clone).collect();
            for host in hosts {
                host.queue.push_private(Arc::clone(&event));
            }
            return;
        }
        if let DomainEvent::TurnEnded { turn, .. } = &event.event {
            self.write().turn_ended(&event.session, turn);
        }
        let Some(hosts) = self.read().watchers.get(&event.session).map(Arc::clone) else {
            return;
        };
        // The last host gets the event itself, so that a lone host's queue can join deltas in place.
        if let Some((last, others)) = hosts.split_last() {
            for host in others {
                host.queue.push_event(Arc::clone(&event));
            }
            last.queue.push_event(event);
        }
    }
}

impl Presence for Hub {
    fn is_watched(&self, session: &SessionId) -> bool {
        self.n_attached(session) > 0
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}

impl AskHost for Hub {
    fn ability(&self, session: &SessionId, kind: AskKind) -> Ability {
        self.asks.ability(session, kind)
    }

    fn ask(&self, ask: Arc<Ask>, cancel: CancellationToken) -> BoxFuture<'static, AskOutcome> {
        self.asks.ask(ask, Asked::Now, cancel)
    }

    fn ask_again(
        &self,
        ask: Arc<Ask>,
        waited: Duration,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, AskOutcome> {
        self.asks.ask(ask, Asked::Before(waited), cancel)
    }
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
