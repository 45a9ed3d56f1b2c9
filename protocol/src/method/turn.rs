//! Turns, and what they work with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{SessionId, TurnId};
use crate::value::content::Input;
use crate::value::failure::Failure;
use crate::value::page::Page;
use crate::value::todo::Todo;
use crate::value::tool::ToolInfo;
use crate::value::turn::{CancelTasks, StartState, StopReason, TurnReason, WhenBusy, WhenIdle};
use crate::value::usage::Usage;

/// Params of `turn/start`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TurnStartParams")]
pub struct StartParams {
    /// The session.
    pub session_id: SessionId,
    /// The input.
    pub input: Input,
    /// What to do while a turn runs.
    #[serde(default)]
    pub when_busy: WhenBusy,
}

/// Result of `turn/start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TurnStartResult")]
pub struct StartResult {
    /// The turn.
    pub turn_id: TurnId,
    /// Whether it runs.
    pub state: StartState,
}

/// Params of `turn/wait`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TurnWaitParams")]
pub struct WaitParams {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
}

/// Result of `turn/wait`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TurnWaitResult")]
pub struct WaitResult {
    /// The turn.
    pub turn_id: TurnId,
    /// How it ended.
    pub reason: TurnReason,
    /// What stopped the model.
    pub stop_reason: StopReason,
    /// The text of its last answer.
    pub text: String,
    /// Tokens it took.
    pub usage: Usage,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// Params of `turn/steer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TurnSteerParams")]
pub struct SteerParams {
    /// The session.
    pub session_id: SessionId,
    /// The input.
    pub input: Input,
    /// What to do where no turn runs.
    #[serde(default)]
    pub when_idle: WhenIdle,
}

/// Result of `turn/steer`.
pub type SteerResult = StartResult;

/// Params of `turn/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TurnCancelParams")]
pub struct CancelParams {
    /// The session.
    pub session_id: SessionId,
    /// The turn, running or queued; whatever runs where absent.
    #[serde(default)]
    pub turn_id: Option<TurnId>,
    /// What becomes of the tasks in the background.
    #[serde(default)]
    pub tasks: CancelTasks,
}

/// Result of `turn/cancel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TurnCancelResult")]
pub struct CancelResult {
    /// False where there was nothing to cancel.
    pub cancelled: bool,
}

/// Params of `tool/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolListParams {
    /// The session.
    pub session_id: SessionId,
    /// Where to go on.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Entries wanted.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// Result of `tool/list`.
pub type ToolListResult = Page<ToolInfo>;

/// Params of `todo/get`.
pub type TodoGetParams = super::session::GetParams;

/// Result of `todo/get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TodoGetResult {
    /// All entries.
    pub todos: Vec<Todo>,
}
