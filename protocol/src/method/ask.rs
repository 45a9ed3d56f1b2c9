//! Open asks, for hosts that attach late or answer out of band.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ApprovalId, QuestionId, SessionId};
use crate::value::approval::{ApprovalAnswer, ApprovalRequest, Decision, OptionId, Scope};
use crate::value::page::Page;
use crate::value::question::{Choice, QuestionAnswer, QuestionRequest};

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

/// Params of `approval/resolve`: an answer as to `approval/request`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalResolveParams {
    /// The session.
    pub session_id: SessionId,
    /// The approval.
    pub approval_id: ApprovalId,
    /// The option chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<OptionId>,
    /// The decision, for hosts that do not use options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// How far an `allow` reaches; `once` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Words for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// Other arguments to run the call with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_input: Option<serde_json::Value>,
}

/// Params of `question/resolve`: an answer as to `question/request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionResolveParams {
    /// The session.
    pub session_id: SessionId,
    /// The questions.
    pub question_id: QuestionId,
    /// Answers by question id.
    #[serde(default)]
    pub answers: BTreeMap<String, Choice>,
    /// True where the user closed the dialog.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dismissed: bool,
}

impl ApprovalResolveParams {
    /// The answer alone.
    pub fn answer(self) -> ApprovalAnswer {
        let Self {
            session_id: _,
            approval_id: _,
            option_id,
            decision,
            scope,
            feedback,
            edited_input,
        } = self;
        ApprovalAnswer {
            option_id,
            decision,
            scope,
            feedback,
            edited_input,
        }
    }
}

impl QuestionResolveParams {
    /// The answer alone.
    pub fn answer(self) -> QuestionAnswer {
        let Self {
            session_id: _,
            question_id: _,
            answers,
            dismissed,
        } = self;
        QuestionAnswer { answers, dismissed }
    }
}

/// Result of `approval/resolve` and `question/resolve`: the answer was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "AskResolveResult")]
pub struct ResolveResult {}
