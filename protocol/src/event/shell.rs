//! The user's own commands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{CommandId, TaskId};
use crate::value::tool::ProgressStream;

/// A command runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ShellStartedEvent")]
pub struct Started {
    /// Its name.
    pub command_id: CommandId,
    /// The command line.
    pub command: String,
}

/// A running command says something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ShellOutputEvent")]
pub struct Output {
    /// Its name.
    pub command_id: CommandId,
    /// Which stream.
    pub stream: ProgressStream,
    /// Where this text begins in its stream, in bytes.
    pub offset: u64,
    /// The text.
    pub text: String,
}

/// A command has ended, or goes on in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ShellEndedEvent")]
pub struct Ended {
    /// Its name.
    pub command_id: CommandId,
    /// Whether it went wrong.
    pub is_error: bool,
    /// Its exit code, where it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The name of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The task it goes on as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
}
