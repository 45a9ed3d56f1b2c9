//! Which part of a journal goes into a fork.

use std::collections::HashSet;
use std::path::Path;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{TaskId, TurnId};

use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::session::facts::Conversation;
use crate::session::journal::convert::Fact;
use crate::session::journal::read::{Damage, Flow, each};
use crate::session::journal::storage_fault;

/// Which part that is.
#[derive(Debug)]
pub(super) struct Plan {
    turns: HashSet<TurnId>,
    tasks: HashSet<TaskId>,
    /// The event by which the conversation last began anew.
    pub(super) cleared_by: Option<u64>,
    pub(super) until: Until,
}

/// Where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// With the event of this number.
    With(u64),
    /// Before it.
    Before(u64),
}

/// A turn of the conversation.
struct Turn {
    id: TurnId,
    begins: u64,
    ends: Option<u64>,
}

impl Plan {
    /// For a conversation up to and including a turn, else up to the last one that has ended. What comes after the event
    /// `last` is not looked at. Blocking.
    ///
    /// # Errors
    /// `turn_not_found`, `session_busy` for a turn that has not ended.
    pub(super) fn of(dir: &Path, last: u64, turn: Option<&TurnId>) -> Result<Self, Fault> {
        let mut turns: Conversation<Turn> = Conversation::default();
        let (mut tasks, mut cleared_by) = (Vec::new(), None);
        each(dir, &mut Damage::default(), |entry| {
            let (Some(seq), Fact::Event(event)) = (entry.seq, entry.fact) else {
                return Flow::On;
            };
            if seq > last {
                return Flow::Stop;
            }
            turns.take(&event);
            match event {
                DomainEvent::TurnStarted { turn, .. } => {
                    // Only one runs at a time: a full disk did not take the end of the one before.
                    if let Some(before) = turns.last_mut() {
                        before.ends.get_or_insert(seq - 1);
                    }
                    let id = turn.clone();
                    let begun = Turn {
                        id,
                        begins: seq,
                        ends: None,
                    };
                    turns.begin(&turn, begun);
                }
                DomainEvent::TurnEnded { turn, .. } => {
                    if let Some(open) = turns.last_mut().filter(|open| open.id == turn) {
                        open.ends = Some(seq);
                    }
                }
                DomainEvent::SessionCleared => cleared_by = Some(seq),
                DomainEvent::TaskEnded { task, .. } => tasks.push((task.task_id.clone(), seq)),
                _ => {}
            }
            Flow::On
        })
        .map_err(|error| storage_fault(error, dir))?;
        let mut turns = turns.into_values();
        let until = match turn {
            Some(wanted) => until_end_of(&mut turns, wanted)?,
            None => match turns.pop_if(|last| last.ends.is_none()) {
                Some(running) => Until::Before(running.begins),
                None => Until::Before(last + 1),
            },
        };
        let is_in = |seq: u64| match until {
            Until::With(end) => seq <= end,
            Until::Before(end) => seq < end,
        };
        Ok(Self {
            turns: turns.into_iter().map(|turn| turn.id).collect(),
            tasks: tasks
                .into_iter()
                .filter(|(_, seq)| is_in(*seq))
                .map(|(task, _)| task)
                .collect(),
            cleared_by: cleared_by.filter(|seq| is_in(*seq)),
            until,
        })
    }

    /// Whether a turn goes with it.
    pub(super) fn has_turn(&self, turn: &TurnId) -> bool {
        self.turns.contains(turn)
    }

    /// Whether a task goes with it: it has ended by then.
    pub(super) fn has_task(&self, task: &TaskId) -> bool {
        self.tasks.contains(task)
    }

    /// The tasks that go with it.
    pub(super) fn ended_tasks(&self) -> impl Iterator<Item = &TaskId> {
        self.tasks.iter()
    }
}

fn until_end_of(turns: &mut Vec<Turn>, wanted: &TurnId) -> Result<Until, Fault> {
    let Some(n) = turns.iter().position(|turn| turn.id == *wanted) else {
        return Err(Fault::new(
            ErrorKind::TurnNotFound,
            format!("the conversation has no turn {wanted}; session/transcript has those it has"),
        ));
    };
    turns.truncate(n + 1);
    match turns[n].ends {
        Some(seq) => Ok(Until::With(seq)),
        None => Err(Fault::new(
            ErrorKind::SessionBusy,
            format!("turn {wanted} has not ended; wait for it, or leave turnId out"),
        )),
    }
}
