//! Turns and steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::TurnId;
use crate::value::content::ContentPart;
use crate::value::failure::Failure;
use crate::value::turn::{FinishReason, Origin, StopReason, TurnReason};
use crate::value::usage::Usage;

/// A turn waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TurnQueuedEvent")]
pub struct Queued {
    /// The turn.
    pub turn_id: TurnId,
    /// What will begin it.
    pub input: Vec<ContentPart>,
}

/// A turn begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TurnStartedEvent")]
pub struct Started {
    /// The turn.
    pub turn_id: TurnId,
    /// Why.
    pub origin: Origin,
    /// What began it.
    pub input: Vec<ContentPart>,
}

/// Input was added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TurnSteeredEvent")]
pub struct Steered {
    /// The turn.
    pub turn_id: TurnId,
    /// Why: `steer` for words of a host, `task` where tasks have ended meanwhile.
    pub origin: Origin,
    /// The input.
    pub input: Vec<ContentPart>,
}

/// A turn has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TurnEndedEvent")]
pub struct Ended {
    /// The turn.
    pub turn_id: TurnId,
    /// How.
    pub reason: TurnReason,
    /// What stopped the model.
    pub stop_reason: StopReason,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Tokens it took.
    pub usage: Usage,
    /// How long it took.
    pub duration_ms: u64,
}

/// Turns were taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TurnUndoneEvent")]
pub struct Undone {
    /// The turns, oldest first: the last ones of the conversation.
    pub turn_ids: Vec<TurnId>,
}

/// A model request is about to be sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StepStartedEvent")]
pub struct StepStarted {
    /// The turn.
    pub turn_id: TurnId,
    /// 1, 2, … in the turn.
    pub step: u32,
}

/// A model request will be sent again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StepRetryingEvent")]
pub struct StepRetrying {
    /// The turn.
    pub turn_id: TurnId,
    /// The step.
    pub step: u32,
    /// The attempt that comes next.
    pub attempt: u32,
    /// How many there may be.
    pub max_attempts: u32,
    /// The pause before it.
    pub delay_ms: u64,
    /// What went wrong.
    pub error: Failure,
    /// Items and calls already shown that the next attempt replaces: hosts remove them.
    pub discard: Vec<String>,
}

/// A model request was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StepEndedEvent")]
pub struct StepEnded {
    /// The turn.
    pub turn_id: TurnId,
    /// The step.
    pub step: u32,
    /// How the answer ended.
    pub finish_reason: FinishReason,
    /// Tokens it took.
    pub usage: Usage,
}

/// A model request was cut off or failed for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StepInterruptedEvent")]
pub struct StepInterrupted {
    /// The turn.
    pub turn_id: TurnId,
    /// The step.
    pub step: u32,
    /// `interrupted` by a cancel, or `error`.
    pub reason: FinishReason,
}
