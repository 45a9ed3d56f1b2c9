//! Tasks in the background.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::task::Task;

/// A task runs in the background from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskStartedEvent")]
pub struct Started {
    /// As it is now.
    pub task: Task,
}

/// Something about a running task changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskUpdatedEvent")]
pub struct Updated {
    /// As it is now.
    pub task: Task,
}

/// A task has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskEndedEvent")]
pub struct Ended {
    /// As it ended.
    pub task: Task,
    /// The end of its output, at most 4 KiB.
    pub tail: String,
}
