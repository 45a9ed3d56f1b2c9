//! Cron jobs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::TurnId;
use crate::value::cron::{CronChange, CronFire, CronJob};

/// A job changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CronChangedEvent")]
pub struct Changed {
    /// What happened.
    pub change: CronChange,
    /// The job as it is now; one that is gone, as it was.
    pub job: CronJob,
}

/// A job has fired: its prompt is in the model's context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CronFiredEvent")]
pub struct Fired {
    /// The turn it began, alone or with others.
    pub turn_id: TurnId,
    /// The fire.
    #[serde(flatten)]
    pub fire: CronFire,
}

/// Jobs that were to fire once fire more than a day late; a `cron/fired` for each comes before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CronMissedEvent")]
pub struct Missed {
    /// The turn they began.
    pub turn_id: TurnId,
    /// How many.
    pub count: u32,
}
