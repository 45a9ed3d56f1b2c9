//! Which lines of a journal go into a fork, and what changes in them.

use std::path::Path;

use longshore_protocol::id::AgentId;
use serde_json::Value;

use super::Fork;
use super::plan::Until;
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::time::Timestamp;
use crate::session::journal::convert::{Fact, event_record, state_record};
use crate::session::journal::copy::Copy;
use crate::session::journal::read::{Damage, Entry, Flow, each};
use crate::session::journal::record::{Line, Record, VERSION};
use crate::session::journal::storage_fault;
use crate::session::store::Loaded;

impl Fork<'_> {
    /// Writes the journal of the fork. Blocking.
    pub(super) fn write_journal(&self, loaded: &Loaded, now: Timestamp) -> Result<(), Fault> {
        let mut lines = Lines {
            fork: self,
            moved: Moved::new(self.source, self.dir),
            counts: self.plan.cleared_by.is_none(),
            is_past_clear: self.plan.cleared_by.is_none(),
            model_state: Vec::new(),
            copy: Copy::begin(self.aside)?,
        };
        let head = Record::Created {
            session: Box::new(self.session.clone()),
            script: loaded.script.clone(),
        };
        lines.copy.state(now, &AgentId::main(), head)?;
        let mut failed = None;
        each(self.source, &mut Damage::default(), |entry| {
            let seq = entry.seq;
            if let (Until::Before(end), Some(seq)) = (self.plan.until, seq)
                && seq >= end
            {
                return Flow::Stop;
            }
            failed = lines.take(entry).err();
            if failed.is_some() || seq.is_some_and(|seq| self.plan.until == Until::With(seq)) {
                Flow::Stop
            } else {
                Flow::On
            }
        })
        .map_err(|error| storage_fault(error, self.source))?;
        match failed {
            Some(fault) => Err(fault),
            None => lines.finish(loaded, now),
        }
    }
}

/// Puts the lines that count into the new journal.
struct Lines<'a> {
    fork: &'a Fork<'a>,
    moved: Moved,
    /// Whether what is read now is a part of the conversation that still counts.
    counts: bool,
    /// False before the place where the conversation last began anew.
    is_past_clear: bool,
    /// What model clients keep, the newest by key: it goes on with the client, whatever was undone.
    model_state: Vec<(Timestamp, AgentId, String, Value)>,
    copy: Copy<'a>,
}

impl Lines<'_> {
    fn take(&mut self, entry: Entry) -> Result<(), Fault> {
        let (at, agent) = (entry.at, entry.agent);
        match entry.fact {
            // What was lost there is not missed here: the fork has numbers of its own.
            Fact::Created { .. } | Fact::Lost { .. } => Ok(()),
            Fact::State(record) => self.state(at, agent, record),
            Fact::Event(event) => self.event(entry.seq, at, &agent, event),
        }
    }

    fn state(&mut self, at: Timestamp, agent: AgentId, record: StateRecord) -> Result<(), Fault> {
        match record {
            StateRecord::Reminder { .. }
            | StateRecord::Called { .. }
            | StateRecord::Spent { .. }
            | StateRecord::Shell { .. } => {
                if !self.counts {
                    return Ok(());
                }
                let record = self.moved.record(state_record(record));
                self.copy.state(at, &agent, record)
            }
            StateRecord::ModelState { key, value } => {
                self.model_state.retain(|(.., other, _)| *other != key);
                self.model_state.push((at, agent, key, value));
                Ok(())
            }
            // A yes was given to the other session, which keeps what waits; jobs come as they are now.
            StateRecord::Granted { .. }
            | StateRecord::Queued { .. }
            | StateRecord::Steered { .. }
            | StateRecord::Cron(_) => Ok(()),
        }
    }

    fn event(
        &mut self,
        seq: Option<u64>,
        at: Timestamp,
        agent: &AgentId,
        mut event: DomainEvent,
    ) -> Result<(), Fault> {
        let (plan, id) = (self.fork.plan, &self.fork.session.session_id);
        let goes_with_it = match &mut event {
            DomainEvent::TurnStarted { turn, .. } => {
                self.counts = plan.has_turn(turn);
                self.counts
            }
            DomainEvent::TurnEnded { turn, .. } => self.counts && plan.has_turn(turn),
            // What was undone is left out already; what comes is said to what is left.
            DomainEvent::TurnsUndone { .. } => {
                self.counts = self.is_past_clear;
                false
            }
            DomainEvent::SessionCleared => {
                if plan.cleared_by == seq {
                    (self.is_past_clear, self.counts) = (true, true);
                }
                false
            }
            DomainEvent::TaskStarted { task } | DomainEvent::TaskEnded { task, .. } => {
                plan.has_task(&task.task_id)
            }
            DomainEvent::ApprovalRequested { request } => {
                request.session_id.clone_from(id);
                self.counts
            }
            DomainEvent::QuestionRequested { request } => {
                request.session_id.clone_from(id);
                self.counts
            }
            // Settings stand in the head, jobs are no part of the conversation, warnings are about the other journal.
            DomainEvent::SessionUpdated { .. }
            | DomainEvent::SessionClosed
            | DomainEvent::TurnQueued { .. }
            | DomainEvent::CronChanged { .. }
            | DomainEvent::CronFired { .. }
            | DomainEvent::CronMissed { .. }
            | DomainEvent::Warning { .. } => false,
            _ => self.counts,
        };
        match event_record(&event).filter(|_| goes_with_it) {
            Some(record) => self.copy.event(at, agent, self.moved.record(record)),
            None => Ok(()),
        }
    }

    fn finish(mut self, loaded: &Loaded, now: Timestamp) -> Result<(), Fault> {
        for (at, agent, key, value) in self.model_state {
            let record = state_record(StateRecord::ModelState { key, value });
            self.copy.state(at, &agent, record)?;
        }
        if !loaded.jobs.jobs().is_empty() {
            let record = state_record(StateRecord::Cron(loaded.jobs.for_fork()));
            self.copy.state(now, &AgentId::main(), record)?;
        }
        self.copy.finish()
    }
}

/// Names the files of the new session where those of the other one were named.
struct Moved {
    /// As they stand in JSON.
    from: String,
    to: String,
}

impl Moved {
    fn new(from: &Path, to: &Path) -> Self {
        let inside = |path: &Path| {
            let text = Value::from(path.to_string_lossy()).to_string();
            text[1..text.len() - 1].to_owned()
        };
        Self {
            from: inside(from),
            to: inside(to),
        }
    }

    fn record(&self, record: Record) -> Record {
        let line = Line {
            v: VERSION,
            seq: None,
            after: None,
            at: 0,
            agent: AgentId::main(),
            record,
        };
        let moved = serde_json::to_string(&line)
            .ok()
            .filter(|text| text.contains(&self.from))
            .and_then(|text| {
                serde_json::from_str::<Line>(&text.replace(&self.from, &self.to)).ok()
            });
        moved.unwrap_or(line).record
    }
}
