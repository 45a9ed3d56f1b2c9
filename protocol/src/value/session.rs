//! Sessions as hosts see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::approval::ApprovalRequest;
use super::failure::Warning;
use super::question::QuestionRequest;
use super::transcript::Turn;
use super::usage::Usage;
use crate::id::{ApprovalId, QuestionId, SessionId};

/// The policy in force for calls that need a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Calls with effects are asked about.
    #[default]
    Manual,
    /// Everything but denied, sensitive and guarded calls runs without asking.
    Auto,
    /// Everything but denied calls runs; sensitive and guarded ones ask.
    Yolo,
}

impl Mode {
    /// The wire spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Auto => "auto",
            Self::Yolo => "yolo",
        }
    }
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing runs.
    #[default]
    Idle,
    /// A turn runs.
    Running,
    /// A turn waits for a person.
    Waiting,
    /// It is closed, or not loaded.
    Closed,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub session_id: SessionId,
    /// Its title: the host's, else the beginning of the first input.
    pub title: String,
    /// Where it works, absolute.
    pub cwd: String,
    /// Further directories it may work in.
    pub additional_dirs: Vec<String>,
    /// The model, by alias; absent until one is configured or chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The thinking effort, where one is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The permission mode.
    pub mode: Mode,
    /// What it is doing.
    pub status: Status,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339, of the last durable event.
    pub updated_at: String,
    /// The beginning of the last user input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_prompt: Option<String>,
    /// Turns so far.
    pub turn_count: u64,
    /// Tokens so far.
    pub usage: Usage,
    /// True where nothing is kept after it ends.
    pub ephemeral: bool,
    /// True where it is hidden from lists.
    pub archived: bool,
    /// The host's own data, given back as it was.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// True where it was made for a driver without a person: asks are refused at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
    /// The IANA time zone whose clock its cron jobs go by, where its host named one; else the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The session it is a fork of. It may be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<SessionId>,
}

/// Changed fields of a session; absent ones are as they were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionPatch {
    /// New title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// New model, by alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// New thinking effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// New mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// New list of further directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_dirs: Option<Vec<String>>,
    /// New host data, replacing the old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
    /// Whether it is hidden from lists now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
}

/// What a session waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingFor {
    /// Open approvals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalId>,
    /// Open questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionId>,
}

/// What a loaded session still has before it, without anybody saying anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// Turns that run or wait.
    pub turns: u32,
    /// Tasks in the background that run.
    pub tasks: u32,
    /// Ends of tasks that the model will be told of in a turn that has not begun.
    pub notices: u32,
    /// Cron jobs that may fire some day.
    pub jobs: u32,
}

/// The asks open now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenAsks {
    /// Approvals, oldest first.
    pub approvals: Vec<ApprovalRequest>,
    /// Questions, oldest first.
    pub questions: Vec<QuestionRequest>,
}

/// Everything needed to draw a session from nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The session.
    pub session: Session,
    /// The number of its last durable event.
    pub last_seq: u64,
    /// What it is doing.
    pub status: Status,
    /// The asks open now.
    pub open_asks: OpenAsks,
    /// The last 50 turns, oldest first; none for a host that attached with a good `afterSeq`, since it has them.
    pub turns: Vec<Turn>,
    /// Where older turns begin, for `session/transcript`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// What was wrong with its files when it was loaded; events `warning` say the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}
