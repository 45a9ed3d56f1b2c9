//! Cron jobs: prompts that begin turns at the times an expression names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::usage::Usage;
use crate::id::JobId;

/// A job of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronJob {
    /// The job.
    pub job_id: JobId,
    /// When: minute, hour, day of month, month, day of week.
    pub cron: String,
    /// The same in words, where there are short ones; else the expression.
    pub schedule: String,
    /// What the model is told when it fires.
    pub prompt: String,
    /// False where it fires once and is gone.
    pub recurring: bool,
    /// The IANA name of the zone on whose clock it runs.
    pub timezone: String,
    /// RFC 3339.
    pub created_at: String,
    /// When its age last began to count anew, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed_at: Option<String>,
    /// When it fires next, jitter included: RFC 3339 with the zone's offset. In the past where it is due and waits for
    /// its session to be idle. Absent where it will not fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_fire_at: Option<String>,
    /// When it fired last, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_fire_at: Option<String>,
    /// How often it has fired.
    pub fires: u64,
    /// Tokens of the turns it began; those of a turn that several began are shared among them.
    pub usage: Usage,
    /// Why it is paused, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseReason>,
    /// True where it is so old that its next fire is its last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// Why it can't fire at all, such as an expression that can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why a job does not fire for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// A host asked for it.
    Host,
    /// It fired `cron.max_unattended_fires` times without anybody saying something in between.
    Unattended,
    /// It was copied with its session; two that fire would do everything twice.
    Forked,
}

/// What changed about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CronChange {
    /// It is new.
    Created,
    /// It was deleted.
    Deleted,
    /// It does not fire until it is resumed.
    Paused,
    /// It fires again.
    Resumed,
    /// Its age counts anew.
    Renewed,
    /// It was to fire once, and has.
    Completed,
    /// It has fired for the last time, since it was too old.
    Expired,
}

/// One fire of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronFire {
    /// The job.
    pub job_id: JobId,
    /// This fire, unique for ever.
    pub fire_id: String,
    /// When: the job's expression.
    pub cron: String,
    /// What the model is told.
    pub prompt: String,
    /// Whether the job goes on.
    pub recurring: bool,
    /// The times that this fire answers for.
    pub coalesced_count: u32,
    /// True for the last fire of a job that was too old.
    pub stale: bool,
    /// True where it comes so late that the model is told not to take it as fresh.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missed: bool,
    /// The last of the times it answers for, RFC 3339 with the zone's offset; absent where a host fired it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal_at: Option<String>,
    /// When it fired, likewise.
    pub fired_at: String,
}
