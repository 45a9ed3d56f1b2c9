//! Questions: structured choices asked of the user.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, QuestionId, SessionId, ToolCallId, TurnId};

/// Questions put to the user together: params of `question/request` and of the event `question/requested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionRequest {
    /// This ask.
    pub question_id: QuestionId,
    /// The session.
    pub session_id: SessionId,
    /// The agent that asks.
    pub agent_id: AgentId,
    /// The turn.
    pub turn_id: TurnId,
    /// The call that asks.
    pub tool_call_id: ToolCallId,
    /// One to four questions.
    pub questions: Vec<Question>,
    /// When it was asked, RFC 3339.
    pub created_at: String,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// `q_0`, `q_1`, …: the key of its answer.
    pub id: String,
    /// The question.
    pub question: String,
    /// A short label.
    pub header: String,
    /// Two to four answers on offer.
    pub options: Vec<QuestionOption>,
    /// True where several may be chosen.
    pub multi_select: bool,
    /// True where the user may answer in own words.
    pub allow_other: bool,
}

/// One answer on offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionOption {
    /// `opt_<question>_<option>`.
    pub id: String,
    /// What to write on the button.
    pub label: String,
    /// What choosing it means.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A host's answer. A question without an entry counts as skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionAnswer {
    /// Answers by question id.
    #[serde(default)]
    pub answers: BTreeMap<String, Choice>,
    /// True where the user closed the dialog.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dismissed: bool,
}

/// The answer to one question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The options chosen, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub option_ids: Vec<String>,
    /// The user's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
}
