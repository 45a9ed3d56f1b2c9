//! The tasks of one session, as they are known in memory.

use std::collections::HashMap;
use std::sync::Arc;

use longshore_protocol::id::TaskId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::output::Output;
use super::record::Record;
use super::slots::Slot;
use super::spec::{Which, Whose};
use crate::kernel::task::TaskInfo;
use crate::os::process::{Origin, Spared, Stopper};

/// See the module. Guarded by a lock that is never held over anything that waits.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) entries: HashMap<TaskId, Entry>,
    pub(super) is_closed: bool,
    /// Detached tasks that have ended and of whose end the sink has not heard.
    pub(super) telling: usize,
    next_serial: u64,
}

/// One task.
#[derive(Debug)]
pub(super) struct Entry {
    /// Without what `output` knows.
    pub(super) info: TaskInfo,
    pub(super) output: Arc<Output>,
    /// The mark in the environment of its processes: its own id, or that of the task that left them running.
    pub(super) mark: TaskId,
    /// Where its processes were started.
    pub(super) origin: Origin,
    /// While it runs.
    pub(super) live: Option<Live>,
    /// In the order of their registration.
    pub(super) serial: u64,
}

/// What a running task is held by.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) handle: Handle,
    /// What its carrier is asked for.
    pub(super) wish: watch::Sender<Wish>,
    /// What waiters see.
    pub(super) seen: watch::Sender<Seen>,
    /// The first reason for a stop, which is the one that is told.
    pub(super) stop: Option<StopCause>,
    /// Once it is detached.
    pub(super) slots: Option<Taken>,
    /// Once its start was told, so that nothing about it is told before.
    pub(super) is_told: bool,
}

/// How a running task is ended.
#[derive(Debug, Clone)]
pub(super) enum Handle {
    /// A child of this process.
    Process(Stopper),
    /// A future.
    Worker(CancellationToken),
    /// A process that outlives this one.
    Supervised(Arc<Spared>),
    /// Nothing any more: it is being settled.
    Nothing,
}

/// What the carrier of a task is asked for. Wishes are only added, never taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// To be told that its end was asked for.
    pub(super) stop: bool,
    /// To go on without its call.
    pub(super) detach: bool,
    /// To let the tap go.
    pub(super) let_go: bool,
}

/// What waiters see of a task.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) detached: bool,
    pub(super) ended: Option<Arc<TaskInfo>>,
}

/// Why a task is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// Its time is over.
    TimeLimit,
    /// Somebody asked.
    Asked,
    /// It wrote too much.
    Flood,
}

/// The slots of a detached task.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) _session: Slot,
    pub(super) _process: Slot,
}

impl Entry {
    /// What is to be on the disk.
    pub(super) fn record(&self) -> Record {
        Record {
            info: self.describe(),
            mark: self.mark.clone(),
            origin: self.origin.clone(),
        }
    }

    /// A copy of everything there is to say about it.
    pub(super) fn describe(&self) -> TaskInfo {
        TaskInfo {
            output: self.output.describe(),
            ..self.info.clone()
        }
    }
}

impl Live {
    /// Of a task that nothing carries any more and that is to be settled.
    pub(super) fn lost() -> Self {
        Self::new(Handle::Nothing, None)
    }

    pub(super) fn new(handle: Handle, slots: Option<Taken>) -> Self {
        let seen = Seen {
            detached: slots.is_some(),
            ended: None,
        };
        Self {
            handle,
            wish: watch::Sender::new(Wish::default()),
            seen: watch::Sender::new(seen),
            stop: None,
            slots,
            is_told: false,
        }
    }
}

impl Table {
    /// Detached tasks that run, or whose end the sink has not heard of yet.
    pub(super) fn n_unsettled(&self) -> usize {
        let runs = |entry: &&Entry| entry.live.is_some() && entry.info.detached;
        self.entries.values().filter(runs).count() + self.telling
    }

    /// Registers a task.
    pub(super) fn add(&mut self, record: Record, output: Arc<Output>, live: Option<Live>) {
        self.next_serial += 1;
        let Record { info, mark, origin } = record;
        let entry = Entry {
            output,
            mark,
            origin,
            live,
            serial: self.next_serial,
            info,
        };
        self.entries.insert(entry.info.id.clone(), entry);
    }

    /// A task, where it may be seen.
    pub(super) fn get(&self, whose: Whose<'_>, id: &TaskId) -> Option<&Entry> {
        self.entries
            .get(id)
            .filter(|entry| whose.includes(&entry.info.owner))
    }

    /// Tasks, the newest first.
    pub(super) fn list(&self, whose: Whose<'_>, which: Which) -> Vec<TaskInfo> {
        let wanted = |entry: &&Entry| {
            let is_shown = match which {
                Which::Active => entry.live.is_some(),
                Which::All => entry.live.is_some() || entry.info.detached,
            };
            is_shown && whose.includes(&entry.info.owner)
        };
        let mut entries: Vec<&Entry> = self.entries.values().filter(wanted).collect();
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.serial));
        entries.into_iter().map(Entry::describe).collect()
    }
}
