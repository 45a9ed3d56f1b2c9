//! Approvals: a yes or no asked of a host before a call runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::display::Display;
use super::tool::AccessInfo;
use crate::id::{AgentId, ApprovalId, SessionId, ToolCallId, TurnId};

/// Everything a person needs to decide. The same value is the params of `approval/request`, stands in the event
/// `approval/requested` and in the lists of open asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// This ask; the same when it is shown again.
    pub approval_id: ApprovalId,
    /// The session it belongs to.
    pub session_id: SessionId,
    /// The agent that wants to run the call.
    pub agent_id: AgentId,
    /// The turn.
    pub turn_id: TurnId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool's name.
    pub tool: String,
    /// One line for people.
    pub title: String,
    /// What the call would do: the command, the diff, …
    pub display: Display,
    /// What it would touch, links resolved.
    pub accesses: Vec<AccessInfo>,
    /// The arguments of the call.
    pub input: serde_json::Value,
    /// The answers on offer, in the order to show them.
    pub options: Vec<ApprovalOption>,
    /// Why it is asked.
    pub reason: ApprovalReason,
    /// When it was asked, RFC 3339.
    pub created_at: String,
    /// When it will be refused for want of an answer, RFC 3339; absent where it waits for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// One answer on offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalOption {
    /// What to send back.
    pub option_id: OptionId,
    /// What to write on the button.
    pub label: String,
    /// The exact rule this answer would add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// The answers an approval can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OptionId {
    /// Run this call.
    AllowOnce,
    /// Run it, and stop asking for what the shown rule covers, in this session.
    AllowSession,
    /// Do not run it; the turn goes on and the model is told.
    Reject,
    /// Do not run it and cancel the turn.
    RejectStop,
}

/// Why a call is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalReason {
    /// The policy that asks, such as `ask_rule`, `outside_workspace`, `fallback`.
    pub policy: String,
    /// One sentence for people.
    pub message: String,
    /// The rule that asks, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// A host's answer: by `optionId`, or by `decision` and `scope`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalAnswer {
    /// The option chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<OptionId>,
    /// The decision, for hosts that do not use options. `cancel` is the same as `reject_stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// How far an `allow` reaches; `once` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Words for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// Other arguments to run the call with; checked and judged like the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_input: Option<serde_json::Value>,
}

/// A yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Run it.
    Allow,
    /// Do not run it.
    Reject,
    /// Do not run it and cancel the turn.
    Cancel,
}

/// How far an `allow` reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This call only.
    Once,
    /// This session.
    Session,
}

/// How an ask ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskResolution {
    /// A host answered.
    Answered,
    /// The turn ended before an answer.
    Withdrawn,
    /// No answer came in time, or no host was left that could be asked.
    Expired,
    /// The permission mode was changed so that no ask is needed.
    ModeChanged,
}
