//! Appending to a journal: numbers events, writes them, then shows them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, SessionId};
use longshore_protocol::value::session::Session;

use super::record::{Line, Record, VERSION};
use super::{FILE, blobs, convert, storage_fault};
use crate::kernel::event::{DomainEvent, Stamped, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::port::{EventSink, Publish};
use crate::kernel::time::Timestamp;
use crate::os::clock::Clock;
use crate::store::append_log::{AppendLog, LogSyncer};
use crate::store::blob::BlobStore;

/// A place is remembered about every so many bytes, so that reading from a number need not begin at the front.
const MARK_BYTES: u64 = 64 << 10;

/// The writer of one journal. Whoever holds it holds the session's lock.
pub struct Journal {
    session: SessionId,
    dir: PathBuf,
    blobs: BlobStore,
    clock: Arc<dyn Clock>,
    publish: Arc<dyn Publish>,
    syncer: LogSyncer,
    state: Mutex<State>,
}

struct State {
    log: AppendLog,
    seq: u64,
    at: Timestamp,
    /// True once another process may write it.
    sealed: bool,
    /// `(seq, offset)`: the line of the event after `seq` begins at or after the offset.
    marks: Vec<(u64, u64)>,
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
}

impl Journal {
    /// Goes on with a log whose last event has this number.
    pub fn new(opening: Opening, log: AppendLog, seq: u64, at: Timestamp) -> Self {
        Self {
            session: opening.session,
            blobs: BlobStore::new(opening.dir.join("blobs")),
            dir: opening.dir,
            clock: opening.clock,
            publish: opening.publish,
            syncer: log.syncer(),
            state: Mutex::new(State {
                log,
                seq,
                at,
                sealed: false,
                marks: Vec::new(),
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
        self.lock().sealed = true;
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
    pub fn offset_after(&self, seq: u64) -> u64 {
        let state = self.lock();
        let n = state.marks.partition_point(|(mark, _)| *mark <= seq);
        n.checked_sub(1).map_or(0, |n| state.marks[n].1)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self, agent: &AgentId, record: Record) -> Result<(), Fault> {
        let mut state = self.lock();
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

    fn append(&self, state: &mut State, line: &[u8]) -> Result<std::ops::Range<u64>, Fault> {
        if state.sealed {
            return Err(Fault::new(
                ErrorKind::StorageError,
                "the session is closed; nothing more is written to its journal",
            ));
        }
        state
            .log
            .append(line)
            .map_err(|error| storage_fault(error, &self.dir))
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
        let Some(record) = convert::event_record(&event) else {
            return Err(Fault::new(
                ErrorKind::InternalError,
                "a live event can't be kept",
            ));
        };
        // The lock is held until the event is handed on, so that hosts see events in the order of their numbers.
        let mut state = self.lock();
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
        let range = self.append(&mut state, &bytes)?;
        if state
            .marks
            .last()
            .is_none_or(|(_, offset)| offset + MARK_BYTES <= range.start)
        {
            state.marks.push((seq - 1, range.start));
        }
        (state.seq, state.at) = (seq, at);
        self.publish.publish(Stamped::new(
            self.session.clone(),
            agent.clone(),
            Some(seq),
            at,
            event,
        ));
        Ok(seq)
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
