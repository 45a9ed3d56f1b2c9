//! Tasks in the background.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{SessionId, TaskId};
use crate::value::page::Page;
use crate::value::task::Task;

/// Params of `task/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskListParams")]
pub struct ListParams {
    /// The session.
    pub session_id: SessionId,
    /// True for those that run, commands that a call waits for included.
    #[serde(default)]
    pub active_only: bool,
    /// Where to go on.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Entries wanted.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// Result of `task/list`: the newest first.
pub type ListResult = Page<Task>;

/// Params of `task/get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskGetParams")]
pub struct GetParams {
    /// The session.
    pub session_id: SessionId,
    /// The task.
    pub task_id: TaskId,
}

/// Result of `task/get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskGetResult")]
pub struct GetResult {
    /// As it is now.
    pub task: Task,
}

/// Params of `task/output`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskOutputParams")]
pub struct OutputParams {
    /// The session.
    pub session_id: SessionId,
    /// The task.
    pub task_id: TaskId,
    /// Where to begin, in bytes of the whole output; the end of it where absent.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Bytes wanted: 1 to 262144; 32768 where absent.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Milliseconds to wait for output beyond `offset`, or the end of the task, where there is none yet; at most 600000.
    /// Without `offset`, for output beyond what there is now.
    #[serde(default)]
    pub wait: Option<u32>,
}

/// Result of `task/output`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskOutputResult")]
pub struct OutputResult {
    /// As it is now.
    pub task: Task,
    /// Where the text begins, in bytes of the whole output: later than asked for where bytes in between are lost.
    pub offset: u64,
    /// The output as text, cut between characters; bytes that are no UTF-8 are shown as U+FFFD.
    pub text: String,
    /// Where the next part begins.
    pub next_offset: u64,
    /// True where the task has ended and nothing follows.
    pub eof: bool,
}

/// Params of `task/stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskStopParams")]
pub struct StopParams {
    /// The session.
    pub session_id: SessionId,
    /// The task.
    pub task_id: TaskId,
    /// Why, for the model and other hosts.
    #[serde(default)]
    pub reason: Option<String>,
}

/// Result of `task/stop`.
pub type StopResult = GetResult;

/// Params of `task/detach`.
pub type DetachParams = GetParams;

/// Result of `task/detach`.
pub type DetachResult = GetResult;
