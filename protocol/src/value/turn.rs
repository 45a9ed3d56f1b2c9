//! Turns: how they begin and how they end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a turn began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A host's `turn/start`.
    User,
    /// A `turn/steer` that found the session idle, or steers left over from a turn that had ended.
    Steer,
    /// Tasks in the background have ended.
    Task,
    /// Jobs were due.
    Cron,
}

impl Origin {
    /// True where a host sent the input: it is somebody's words.
    pub fn is_from_host(self) -> bool {
        match self {
            Self::User | Self::Steer => true,
            Self::Task | Self::Cron => false,
        }
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnReason {
    /// The model had its say.
    Completed,
    /// Somebody cancelled it.
    Cancelled,
    /// It could not go on; the event's `error` says why.
    Failed,
}

/// What stopped the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// It was done.
    EndTurn,
    /// Its output limit.
    MaxTokens,
    /// The limit of steps a turn may take.
    MaxSteps,
    /// It refused, or its provider filtered it.
    Refusal,
    /// A cancel.
    Cancelled,
    /// A failure.
    Error,
}

/// How one model request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended its answer.
    Completed,
    /// It asked for tool calls.
    ToolCalls,
    /// It was cut by a length limit.
    Truncated,
    /// It was filtered.
    Filtered,
    /// It was paused by the provider.
    Paused,
    /// Anything else.
    Other,
    /// We stopped it.
    Interrupted,
    /// It failed.
    Error,
}

/// What happens to input that comes while a turn runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenBusy {
    /// It is refused: `session_busy`.
    #[default]
    Reject,
    /// It becomes a turn of its own, after the others.
    Queue,
    /// It joins the running turn.
    Steer,
}

/// Whether a turn runs already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TurnStartState")]
pub enum StartState {
    /// It begins now.
    Running,
    /// It waits.
    Queued,
    /// The input joined the running turn.
    Steered,
}

/// What a steer does where no turn runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenIdle {
    /// It starts one.
    #[default]
    Start,
    /// It is refused: `no_active_turn`.
    Reject,
}

/// What a cancel does with tasks in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TurnCancelTasks")]
pub enum CancelTasks {
    /// They go on.
    #[default]
    Keep,
    /// All of the session end; the model hears of it with the next input.
    Stop,
}
