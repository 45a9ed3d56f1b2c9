//! What the engine tells a model of its own accord, and the keys by which each is told once.

use std::sync::Arc;

use longshore_protocol::id::{JobId, TaskId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::turn::Origin;

use super::time::Timestamp;

/// Something that happened outside a turn and that the main agent's model is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    /// What it is about: a wake whose key was told before is dropped wherever it is met.
    pub key: WakeKey,
    /// What the model reads, as an element whose content is escaped. Empty where another wake of the same turn tells of
    /// this one, too.
    pub text: Arc<str>,
    /// The same in fewer words, for a turn that is told a great deal.
    pub brief: Arc<str>,
    /// Whether it may begin a turn.
    pub urgency: Urgency,
}

/// Whether a wake may begin a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Where no turn runs, one begins.
    Turn,
    /// It waits for the next turn, whoever begins it.
    NextTurn,
}

/// What a wake is about. It stands in the record that puts the wake's text into the history, so that a journal says
/// both or neither.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WakeKey {
    /// A task has ended. It ends once, so its id is enough.
    Task {
        /// The task.
        task: TaskId,
    },
    /// A job fired.
    Fire {
        /// The job.
        job: JobId,
        /// The instant its expression named.
        ideal_at: Timestamp,
        /// This firing, unique for ever.
        fire: Arc<str>,
        /// Whether the job is gone with it.
        is_last: bool,
        /// How many of the job's times it answers for; 0 where a host fired it.
        n_due: u32,
        /// Whether it came so late that it is no longer fresh.
        is_missed: bool,
    },
}

impl Wake {
    /// Its text as an input.
    pub fn shown(&self) -> ContentPart {
        ContentPart::Text {
            text: self.text.to_string(),
        }
    }
}

impl WakeKey {
    /// Why a turn begins that this begins.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Task { .. } => Origin::Task,
            Self::Fire { .. } => Origin::Cron,
        }
    }
}
