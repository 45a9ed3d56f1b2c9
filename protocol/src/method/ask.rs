//! Open asks, for hosts that attach late or answer out of band.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ApprovalId, QuestionId, SessionId};
use crate::value::approval::{ApprovalAnswer, ApprovalRequest};
use crate::value::page::Page;
use crate::value::question::{QuestionAnswer, QuestionRequest};

/// Params of `approval/list` and `question/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AskListParams")]
pub struct ListParams {
    /// The session.
    pub session_id: SessionId,
    /// Where to go on.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Entries wanted.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// Result of `approval/list`.
pub type ApprovalListResult = Page<ApprovalRequest>;

/// Result of `question/list`.
pub type QuestionListResult = Page<QuestionRequest>;

/// Params of `approval/resolve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalResolveParams {
    /// The session.
    pub session_id: SessionId,
    /// The approval.
    pub approval_id: ApprovalId,
    /// The answer.
    #[serde(flatten)]
    pub answer: ApprovalAnswer,
}

/// Params of `question/resolve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionResolveParams {
    /// The session.
    pub session_id: SessionId,
    /// The questions.
    pub question_id: QuestionId,
    /// The answer.
    #[serde(flatten)]
    pub answer: QuestionAnswer,
}

/// Result of `approval/resolve` and `question/resolve`: the answer was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "AskResolveResult")]
pub struct ResolveResult {}
