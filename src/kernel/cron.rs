//! Cron jobs as they are kept, and what happens to them.

use std::sync::Arc;

use longshore_protocol::id::JobId;
use longshore_protocol::value::cron::{CronJob, PauseReason};
use longshore_protocol::value::usage::Usage;
use serde_json::Value;

use super::time::Timestamp;

/// A job as its session's journal keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredJob {
    /// The job.
    pub id: JobId,
    /// When: its expression in its one form. Kept as text, so that one that can't be read any more is still there.
    pub cron: Arc<str>,
    /// What the model is told.
    pub prompt: Arc<str>,
    /// Whether it fires again and again.
    pub recurring: bool,
    /// The IANA name of its zone.
    pub timezone: Arc<str>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its age last began to count anew.
    pub renewed_at: Option<Timestamp>,
    /// The last instant of its expression that was answered for.
    pub cursor: Option<Timestamp>,
    /// When it fired last.
    pub fired_at: Option<Timestamp>,
    /// How often it has fired.
    pub fires: u64,
    /// How often since somebody said something.
    pub unattended_fires: u32,
    /// Tokens of the turns it began.
    pub usage: Usage,
    /// Why it does not fire, where it is paused.
    pub paused: Option<PauseReason>,
}

/// Something that happens to a session's jobs, apart from fires: those stand in the record of the turn they begin.
#[derive(Clone, Debug, PartialEq)]
pub enum CronOp {
    /// A job is new.
    Added(Box<StoredJob>),
    /// A job is gone.
    Deleted {
        /// Which.
        id: JobId,
    },
    /// A job does not fire for now.
    Paused {
        /// Which.
        id: JobId,
        /// Why.
        reason: PauseReason,
    },
    /// A paused job fires again; what it would have fired meanwhile is not made up for.
    Resumed {
        /// Which.
        id: JobId,
    },
    /// A job's age counts anew.
    Renewed {
        /// Which.
        id: JobId,
    },
    /// All jobs as they are: what stood before needs not be known any more.
    Snapshot {
        /// The jobs, in the order they were made.
        jobs: Vec<StoredJob>,
        /// What could not be read.
        aside: Vec<AsideJob>,
    },
    /// A job was added that can't be read.
    Unreadable(AsideJob),
}

/// What stands in place of a job and can't be read. It is kept as it was, for whoever can mend it.
#[derive(Clone, Debug, PartialEq)]
pub struct AsideJob {
    /// As it was.
    pub value: Value,
    /// Why it can't be read.
    pub reason: String,
}

/// What a new job is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// When, as written.
    pub cron: String,
    /// What the model is told.
    pub prompt: String,
    /// Whether it fires again and again.
    pub recurring: bool,
    /// An IANA name; the session's zone where absent.
    pub timezone: Option<String>,
}

/// A job in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedJob {
    /// The job.
    pub job: CronJob,
    /// How old it is; 0 where the clock says it is not made yet.
    pub age_ms: u64,
}
