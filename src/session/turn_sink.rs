//! Where a turn says what happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::AgentId;

use super::journal::write::Journal;
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::port::EventSink;

/// The journal, until it is cut off: a turn that is left open for the next server says nothing of its end here.
pub(super) struct TurnSink {
    journal: Arc<Journal>,
    is_cut: AtomicBool,
}

impl TurnSink {
    pub(super) fn new(journal: Arc<Journal>) -> Self {
        Self {
            journal,
            is_cut: AtomicBool::new(false),
        }
    }

    /// Lets nothing more through.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }

    fn check(&self) -> Result<(), Fault> {
        if !self.is_cut() {
            return Ok(());
        }
        let message = "the turn is left open for the next server; nothing more of it is recorded";
        Err(Fault::new(ErrorKind::StorageError, message))
    }
}

impl EventSink for TurnSink {
    fn live(&self, agent: &AgentId, event: DomainEvent) {
        if !self.is_cut() {
            self.journal.live(agent, event);
        }
    }

    fn durable(&self, agent: &AgentId, event: DomainEvent) -> Result<u64, Fault> {
        self.check()?;
        self.journal.durable(agent, event)
    }

    fn state(&self, agent: &AgentId, record: StateRecord) -> Result<(), Fault> {
        self.check()?;
        self.journal.state(agent, record)
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>> {
        match self.check() {
            Ok(()) => self.journal.sync(),
            Err(fault) => async move { Err(fault) }.boxed(),
        }
    }
}
