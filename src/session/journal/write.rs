//! Appending to a journal: numbers events, writes them, then shows them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, SessionId, TurnId};
use longshore_protocol::value::session::Session;

use super::read::Mark;
use super::record::{Line, Record, VERSION};
use super::{FILE, blobs, convert, storage_fault};
use crate::kernel::event::{DomainEvent, Stamped, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::port::{EventSink, Publish};
use crate::kernel::time::Timestamp;
use crate::os::clock::Clock;
use crate::os::fs::Disk;
use crate::os::lock::LockWatch;
use crate::store::append_log::{AppendLog, LogSyncer};
use crate::store::blob::BlobStore;

/// A place is remembered about every so many bytes, so that reading from a number need not begin at the front.
pub(in super::super) const MARK_BYTES: u64 = 64 << 10;

/// Ends that are remembered while the disk takes none.
const MAX_OWED: usize = 1024;

/// The writer of one journal. Whoever holds it holds the session's lock.
///
/// Where the disk does not take the end of something whose beginning stands in the journal, that end is owed: it is
/// written, and told with its number, before the next line. So a full disk leaves nothing open once there is space again.
pub struct Journal {
    session: SessionId,
    dir: PathBuf,
    blobs: BlobStore,
    clock: Arc<dyn Clock>,
    publish: Arc<dyn Publish>,
    lock: Option<LockWatch>,
    syncer: LogSyncer,
    state: Mutex<State>,
}

struct State {
    log: AppendLog,
    seq: u64,
    at: Timestamp,
    /// Why nothing more is written: another process may write it.
    sealed: Option<Sealed>,
    marks: Vec<Mark>,
    /// Turns that stand in the journal without an end.
    open: Vec<TurnId>,
    owed: VecDeque<(AgentId, DomainEvent)>,
}

#[derive(Clone, Copy)]
enum Sealed {
    /// The session was closed.
    Closed,
    /// The lock is not ours any more.
    Unlocked,
    /// The journal is not where it was.
    Moved,
}

/// What a journal is opened with, beside its log.
pub struct Opening {
    /// The session.
    pub session: SessionId,
    /// Its directory.
    pub dir: PathBuf,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where events go.
    pub publish: Arc<dyn Publish>,
    /// What large values are written to.
    pub disk: Arc<dyn Disk>,
    /// Tells whether the session's lock is still ours; without it nobody asks.
    pub lock: Option<LockWatch>,
}

impl Journal {
    /// Begins a journal.
    pub fn new(opening: Opening, log: AppendLog, at: Timestamp) -> Self {
        Self::go_on(opening, log, (0, at), Vec::new())
    }

    /// Goes on with a journal whose last event has this number and time, and that can be read from these places.
    pub fn go_on(
        opening: Opening,
        log: AppendLog,
        (seq, at): (u64, Timestamp),
        marks: Vec<Mark>,
    ) -> Self {
        Self {
            session: opening.session,
            blobs: BlobStore::on(opening.dir.join("blobs"), opening.disk),
            dir: opening.dir,
            clock: opening.clock,
            publish: opening.publish,
            lock: opening.lock,
            syncer: log.syncer(),
            state: Mutex::new(State {
                log,
                seq,
                at,
                sealed: None,
                marks,
                open: Vec::new(),
                owed: VecDeque::new(),
            }),
        }
    }

    /// Writes the head of a new journal.
    pub fn head(&self, session: &Session, script: Option<Arc<str>>) -> Result<(), Fault> {
        self.write_state(
            &AgentId::main(),
            Record::Created {
                session: Box::new(session.clone()),
                script,
            },
        )
    }

    /// Puts everything written so far on the disk, in the calling thread.
    pub fn sync_blocking(&self) -> Result<(), Fault> {
        self.syncer
            .sync_blocking()
            .map_err(|error| storage_fault(error, &self.dir))
    }

    /// Takes no more lines: from now on another process may write it.
    pub fn seal(&self) {
        let mut state = self.lock();
        state.sealed.get_or_insert(Sealed::Closed);
        state.log.release();
    }

    /// As [`EventSink::durable`], for an end that must come to be known: where the disk does not take it, it is owed.
    ///
    /// # Errors
    /// What is no fault of the disk.
    pub fn end(&self, agent: &AgentId, event: DomainEvent) -> Result<(), Fault> {
        let mut state = self.lock();
        match self.add(&mut state, agent, event.clone()) {
            Ok(_) => Ok(()),
            Err(fault) if is_of_the_disk(&fault) => {
                tracing::error!(session = %self.session, %fault, "an end could not be recorded yet");
                owe(&mut state, agent, event);
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }

    /// The number and the time of the last event.
    pub fn last(&self) -> (u64, Timestamp) {
        let state = self.lock();
        (state.seq, state.at)
    }

    /// Shows an event that could not be kept, without a number: hosts must not wait for ever for an end.
    pub fn show_unkept(&self, agent: &AgentId, event: DomainEvent) {
        let stamped = Stamped::new(
            self.session.clone(),
            agent.clone(),
            None,
            self.clock.now(),
            event,
        );
        self.publish.publish(stamped);
    }

    /// The journal's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// From where to read for the events after a number.
    pub fn mark_before(&self, seq: u64) -> Mark {
        let state = self.lock();
        let n = state.marks.partition_point(|mark| mark.seq <= seq);
        n.checked_sub(1)
            .map_or_else(Mark::default, |n| state.marks[n])
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self, agent: &AgentId, record: Record) -> Result<(), Fault> {
        let mut state = self.lock();
        self.pay(&mut state)?;
        let at = self.clock.now();
        let after = Some(state.seq);
        let line = Line {
            v: VERSION,
            seq: None,
            after,
            at: at.0,
            agent: agent.clone(),
            record,
        };
        let bytes = encode(&line, &self.blobs, &self.dir)?;
        self.append(&mut state, &bytes)?;
        Ok(())
    }

    /// Writes an event, and before it what is owed.
    fn add(&self, state: &mut State, agent: &AgentId, event: DomainEvent) -> Result<u64, Fault> {
        self.pay(state)?;
        self.write_event(state, agent, event)
    }

    fn pay(&self, state: &mut State) -> Result<(), Fault> {
        while let Some((agent, event)) = state.owed.front().cloned() {
            self.write_event(state, &agent, event)?;
            state.owed.pop_front();
        }
        Ok(())
    }

    fn write_event(
        &self,
        state: &mut State,
        agent: &AgentId,
        event: DomainEvent,
    ) -> Result<u64, Fault> {
        let Some(record) = convert::event_record(&event) else {
            return Err(Fault::new(
                ErrorKind::InternalError,
                "a live event can't be kept",
            ));
        };
        let (seq, at) = (state.seq + 1, self.clock.now());
        let line = Line {
            v: VERSION,
            seq: Some(seq),
            after: None,
            at: at.0,
            agent: agent.clone(),
            record,
        };
        let bytes = encode(&line, &self.blobs, &self.dir)?;
        let range = self.append(state, &bytes)?;
        let is_due = |mark: &Mark| mark.offset + MARK_BYTES <= range.start;
        if state.marks.last().is_none_or(is_due) {
            state.marks.push(Mark {
                seq: seq - 1,
                offset: range.start,
            });
        }
        (state.seq, state.at) = (seq, at);
        match &event {
            DomainEvent::TurnQueued { turn, .. } | DomainEvent::TurnStarted { turn, .. } => {
                state.open.push(turn.clone());
            }
            DomainEvent::TurnEnded { turn, .. } => state.open.retain(|open| open != turn),
            _ => {}
        }
        self.publish.publish(Stamped::new(
            self.session.clone(),
            agent.clone(),
            Some(seq),
            at,
            event,
        ));
        Ok(seq)
    }

    fn append(&self, state: &mut State, line: &[u8]) -> Result<std::ops::Range<u64>, Fault> {
        if state.sealed.is_none() {
            // Whoever took the lock's place, or the journal's, writes on its own; nothing of ours may follow.
            if !state.log.is_current() {
                state.sealed = Some(Sealed::Moved);
            } else if self.lock.as_ref().is_some_and(|lock| !lock.holds()) {
                state.sealed = Some(Sealed::Unlocked);
            }
        }
        if let Some(sealed) = state.sealed {
            return Err(self.sealed(sealed));
        }
        state
            .log
            .append(line)
            .map_err(|error| storage_fault(error, &self.dir))
    }

    fn sealed(&self, sealed: Sealed) -> Fault {
        match sealed {
            Sealed::Closed => Fault::new(
                ErrorKind::StorageError,
                "the session is closed; nothing more is written to its journal",
            ),
            Sealed::Unlocked => {
                let fault = Fault::new(
                    ErrorKind::SessionLocked,
                    "the session's lock is not this process's any more; close the session and resume it",
                );
                match self.lock.as_ref().and_then(LockWatch::other_holder) {
                    Some(pid) => fault.with("pid", pid),
                    None => fault,
                }
            }
            Sealed::Moved => Fault::new(
                ErrorKind::StorageError,
                "the session's journal was moved or removed; close the session and resume it",
            ),
        }
    }
}

impl EventSink for Journal {
    fn live(&self, agent: &AgentId, event: DomainEvent) {
        debug_assert!(event.is_live());
        let stamped = Stamped::new(
            self.session.clone(),
            agent.clone(),
            None,
            self.clock.now(),
            event,
        );
        self.publish.publish(stamped);
    }

    fn durable(&self, agent: &AgentId, event: DomainEvent) -> Result<u64, Fault> {
        // The lock is held until the event is handed on, so that hosts see events in the order of their numbers.
        let mut state = self.lock();
        let is_owed = is_end(&event, &state.open).then(|| event.clone());
        let added = self.add(&mut state, agent, event);
        if let (Err(fault), Some(event)) = (&added, is_owed)
            && is_of_the_disk(fault)
        {
            owe(&mut state, agent, event);
        }
        added
    }

    fn state(&self, agent: &AgentId, record: StateRecord) -> Result<(), Fault> {
        self.write_state(agent, convert::state_record(record))
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>> {
        let syncer = self.syncer.clone();
        Box::pin(async move {
            syncer
                .sync()
                .await
                .map_err(|error| storage_fault(error, &self.dir))
        })
    }
}

/// Whether an event ends something that stands in the journal; `turns` are those that are open there.
fn is_end(event: &DomainEvent, turns: &[TurnId]) -> bool {
    match event {
        DomainEvent::TurnEnded { turn, .. }
        | DomainEvent::StepEnded { turn, .. }
        | DomainEvent::StepInterrupted { turn, .. }
        | DomainEvent::ToolCompleted { turn, .. } => turns.contains(turn),
        DomainEvent::ApprovalResolved { .. }
        | DomainEvent::QuestionResolved { .. }
        | DomainEvent::ShellEnded { .. }
        | DomainEvent::TaskEnded { .. } => true,
        _ => false,
    }
}

fn owe(state: &mut State, agent: &AgentId, event: DomainEvent) {
    if state.owed.len() < MAX_OWED {
        state.owed.push_back((agent.clone(), event));
    }
}

fn is_of_the_disk(fault: &Fault) -> bool {
    matches!(fault.kind, ErrorKind::StorageFull | ErrorKind::StorageError)
}

/// The name of the journal in a session's directory.
pub fn path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// A line as it is written; its large values go into blobs.
pub(super) fn encode(line: &Line, blobs: &BlobStore, dir: &Path) -> Result<Vec<u8>, Fault> {
    let unwritable = |error: serde_json::Error| {
        Fault::new(
            ErrorKind::StorageError,
            "a record could not be written as JSON",
        )
        .caused_by(error)
    };
    let bytes = serde_json::to_vec(line).map_err(unwritable)?;
    if !blobs::needs_packing(&bytes) {
        return Ok(bytes);
    }
    let value = serde_json::to_value(line).map_err(unwritable)?;
    let packed = blobs::pack(value, blobs).map_err(|error| storage_fault(error, dir))?;
    serde_json::to_vec(&packed).map_err(unwritable)
}
