//! Tool calls and asks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ApprovalId, QuestionId, ToolCallId, TurnId};
use crate::value::approval::{AskResolution, OptionId};
use crate::value::content::ContentPart;
use crate::value::display::Display;
use crate::value::tool::{AccessInfo, ProgressStream};

/// More argument text of a call still being written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ToolDeltaEvent")]
pub struct Delta {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub name: String,
    /// Where this text begins, in bytes.
    pub offset: u64,
    /// The text.
    pub text: String,
}

/// A call is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ToolStartedEvent")]
pub struct Started {
    /// The turn.
    pub turn_id: TurnId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub input: serde_json::Value,
    /// One line for people.
    pub title: String,
    /// How to draw it.
    pub display: Display,
    /// What it touches.
    pub accesses: Vec<AccessInfo>,
}

/// A call is about to have its effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ToolRunningEvent")]
pub struct Running {
    /// The call.
    pub tool_call_id: ToolCallId,
}

/// A running call says something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ToolProgressEvent")]
pub struct Progress {
    /// The call.
    pub tool_call_id: ToolCallId,
    /// Which stream.
    pub stream: ProgressStream,
    /// Where this text begins in its stream, in bytes.
    pub offset: u64,
    /// The text.
    pub text: String,
}

/// A call has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ToolCompletedEvent")]
pub struct Completed {
    /// The turn.
    pub turn_id: TurnId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// Whether it failed.
    pub is_error: bool,
    /// What the model reads: text and images.
    pub output: Vec<ContentPart>,
    /// How to draw the outcome; where absent, as the call was drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<Display>,
    /// How long it ran; 0 where it never did.
    pub duration_ms: u64,
    /// True where the output is not the whole of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// An approval is no longer open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ApprovalResolvedEvent")]
pub struct ApprovalResolved {
    /// Which.
    pub approval_id: ApprovalId,
    /// How it ended.
    pub outcome: AskResolution,
    /// The answer, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<OptionId>,
    /// The user's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

/// Questions are no longer open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "QuestionResolvedEvent")]
pub struct QuestionResolved {
    /// Which.
    pub question_id: QuestionId,
    /// How it ended.
    pub outcome: AskResolution,
}
