//! The transcript: turns as display items.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::content::ContentPart;
use super::display::Display;
use super::failure::Failure;
use super::turn::{Origin, StopReason, TurnReason};
use super::usage::Usage;
use crate::id::TurnId;

/// One turn. While it runs it has neither `reason` nor `endedAt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Its id.
    pub turn_id: TurnId,
    /// Why it began.
    pub origin: Origin,
    /// What began it.
    pub input: Vec<ContentPart>,
    /// What came of it, in order.
    pub items: Vec<Item>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<TurnReason>,
    /// What stopped the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Tokens it took.
    pub usage: Usage,
    /// RFC 3339.
    pub started_at: String,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
}

/// One item of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
#[schemars(rename = "TranscriptItem")]
#[expect(
    clippy::large_enum_variant,
    reason = "most items of a turn are tool calls, and they stand in lists that are sent and dropped"
)]
pub enum Item {
    /// Text of the model.
    Message {
        /// Item id.
        id: String,
        /// The text.
        text: String,
    },
    /// Thinking of the model.
    Thinking {
        /// Item id.
        id: String,
        /// The text.
        text: String,
    },
    /// A tool call.
    Tool {
        /// The call's id.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        input: serde_json::Value,
        /// One line for people.
        title: String,
        /// How to draw it.
        display: Display,
        /// What the model read, once it has ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// Whether it failed, once it has ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
    },
    /// Words that entered the turn from outside, such as a steer, or a note about it.
    Notice {
        /// Item id.
        id: String,
        /// The text.
        text: String,
    },
}
