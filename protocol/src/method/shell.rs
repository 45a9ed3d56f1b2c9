//! The user's own commands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{CommandId, SessionId, TaskId};

/// Params of `shell/run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ShellRunParams")]
pub struct RunParams {
    /// The session.
    pub session_id: SessionId,
    /// The command line, for the shell.
    pub command: String,
    /// Its name, for its events and for `shell/cancel`; made up where absent.
    #[serde(default)]
    pub command_id: Option<CommandId>,
    /// True to keep it from the model and from the journal.
    #[serde(default)]
    pub private: bool,
}

/// Result of `shell/run`, once the command has ended or goes on in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ShellRunResult")]
pub struct RunResult {
    /// Its name.
    pub command_id: CommandId,
    /// Its exit code, where it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The name of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Its standard output, so far where it goes on.
    pub stdout: String,
    /// Its standard error; where it failed without a word, why.
    pub stderr: String,
    /// True where these are not everything.
    pub truncated: bool,
    /// The task it goes on as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
}

/// Params of `shell/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ShellCancelParams")]
pub struct CancelParams {
    /// The session.
    pub session_id: SessionId,
    /// The command.
    pub command_id: CommandId,
}

/// Result of `shell/cancel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ShellCancelResult")]
pub struct CancelResult {
    /// False where it has ended already.
    pub cancelled: bool,
}
