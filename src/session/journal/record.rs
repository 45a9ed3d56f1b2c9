//! What stands in a journal: one JSON object a line, in this module's own shapes.
//!
//! Event lines carry `seq`; state lines carry `after`, the `seq` they follow. `v` is the version of the whole line.
//! Changing a shape means a new version and a step in the reader; old journals load for ever.

use std::path::PathBuf;
use std::sync::Arc;

use longshore_protocol::id::{
    AgentId, ApprovalId, CommandId, ItemId, JobId, QuestionId, TaskId, ToolCallId, TurnId,
};
use longshore_protocol::value::approval::{ApprovalRequest, AskResolution, OptionId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::cron::{CronChange, CronFire, CronJob, PauseReason};
use longshore_protocol::value::display::Display;
use longshore_protocol::value::failure::{Failure, Warning};
use longshore_protocol::value::question::QuestionRequest;
use longshore_protocol::value::session::{Session, SessionPatch};
use longshore_protocol::value::task::Task;
use longshore_protocol::value::todo::Todo;
use longshore_protocol::value::tool::AccessInfo;
use longshore_protocol::value::turn::{FinishReason, Origin, StopReason, TurnReason};
use longshore_protocol::value::usage::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version this build writes.
pub const VERSION: u32 = 1;

/// One line. It is read by [`super::line`].
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Version of the line.
    pub v: u32,
    /// On event lines: its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// On state lines: the number of the event before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Milliseconds since 1970.
    pub at: i64,
    /// The agent.
    pub agent: AgentId,
    /// What it says.
    #[serde(flatten)]
    pub record: Record,
}

/// Writes the records with their kind among the fields. Reading them so would copy every field aside until the kind is
/// known, so they are read by a twin that is told the kind first.
macro_rules! records {
    ($(#[$doc:meta])* pub enum Record { $($variants:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        pub enum Record { $($variants)* }

        #[derive(Deserialize)]
        #[serde(remote = "Record", rename_all = "snake_case")]
        pub(super) enum RecordByKind { $($variants)* }
    };
}

records! {
/// What a line says.
pub enum Record {
    /// State: the head of every journal.
    Created {
        session: Box<Session>,
        script: Option<Arc<str>>,
    },
    /// State: a reminder entered the model's context.
    Reminder { text: Arc<str> },
    /// State: a rule was born from an answer.
    Granted { rule: String, cwd: Option<PathBuf> },
    /// State: a model request was answered.
    Spent { usage: Usage, context_tokens: u64 },
    /// State: the user's own command entered the model's context.
    Shell { input: Arc<str>, output: Arc<str> },
    /// State: a model client keeps something.
    ModelState { key: String, value: Value },
    /// State: a turn was taken in that waits.
    QueueTaken {
        turn: TurnId,
        origin: Origin,
        input: Vec<ContentPart>,
    },
    /// State: words were taken in for a running turn.
    SteerTaken {
        turn: TurnId,
        input: Vec<ContentPart>,
    },
    /// State: the calls of an answer that has several.
    Called {
        finish: FinishReason,
        calls: Vec<RecordCall>,
    },
    /// Event.
    SessionUpdated { changed: SessionPatch },
    /// Event.
    SessionClosed,
    /// Event. What stands before it counts no more for the conversation.
    SessionCleared,
    /// Event.
    TurnQueued {
        turn: TurnId,
        input: Vec<ContentPart>,
    },
    /// Event.
    TurnStarted {
        turn: TurnId,
        origin: Origin,
        input: Vec<ContentPart>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        wakes: Vec<RecordKey>,
    },
    /// Event. Words of a host where there is no origin.
    TurnSteered {
        turn: TurnId,
        #[serde(default = "steer", skip_serializing_if = "is_steer")]
        origin: Origin,
        input: Vec<ContentPart>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        wakes: Vec<RecordKey>,
    },
    /// Event.
    TurnEnded {
        turn: TurnId,
        reason: TurnReason,
        stop: StopReason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
        usage: Usage,
        duration_ms: u64,
    },
    /// Event. Of the conversation, nothing from the first of these turns on counts any more.
    TurnsUndone { turns: Vec<TurnId> },
    /// Event.
    StepStarted { turn: TurnId, step: u32 },
    /// Event.
    StepEnded {
        turn: TurnId,
        step: u32,
        finish: FinishReason,
        usage: Usage,
    },
    /// Event.
    StepInterrupted {
        turn: TurnId,
        step: u32,
        finish: FinishReason,
    },
    /// Event.
    MessageCompleted {
        turn: TurnId,
        item: ItemId,
        text: Arc<str>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
    },
    /// Event.
    ThinkingCompleted {
        turn: TurnId,
        item: ItemId,
        text: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Arc<str>>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
    },
    /// Event.
    ToolStarted {
        turn: TurnId,
        call: ToolCallId,
        name: Arc<str>,
        input: Arc<Value>,
        title: String,
        display: Display,
        accesses: Vec<AccessInfo>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_id: Option<Arc<str>>,
        arguments: Arc<str>,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        extras: Map<String, Value>,
    },
    /// Event.
    ToolRunning { call: ToolCallId },
    /// Event.
    ToolCompleted {
        turn: TurnId,
        call: ToolCallId,
        is_error: bool,
        output: Vec<RecordPart>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        display: Option<Display>,
        duration_ms: u64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        told: Vec<RecordKey>,
    },
    /// Event.
    ShellStarted {
        command_id: CommandId,
        command: Arc<str>,
    },
    /// Event.
    ShellEnded {
        command_id: CommandId,
        is_error: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
    },
    /// Event.
    TaskStarted { task: Arc<Task> },
    /// Event.
    TaskEnded { task: Arc<Task>, tail: Arc<str> },
    /// Event.
    ApprovalRequested { request: Box<ApprovalRequest> },
    /// Event.
    ApprovalResolved {
        approval: ApprovalId,
        outcome: AskResolution,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<OptionId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
    },
    /// Event.
    QuestionRequested { request: Box<QuestionRequest> },
    /// Event.
    QuestionResolved {
        question: QuestionId,
        outcome: AskResolution,
    },
    /// Event.
    TodoUpdated { todos: Vec<Todo> },
    /// State: a cron job is new. As a value, so that one that can't be read is kept aside; see `job`.
    CronAdded { job: Value },
    /// State: a cron job is gone.
    CronDeleted { job: JobId },
    /// State: a cron job does not fire for now.
    CronPaused { job: JobId, reason: PauseReason },
    /// State: a paused cron job fires again.
    CronResumed { job: JobId },
    /// State: a cron job's age counts anew.
    CronRenewed { job: JobId },
    /// State: all cron jobs as they are.
    CronSnapshot {
        jobs: Vec<Value>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        aside: Vec<Value>,
    },
    /// Event.
    CronChanged {
        change: CronChange,
        job: Box<CronJob>,
    },
    /// Event.
    CronFired { turn: TurnId, fire: Box<CronFire> },
    /// Event.
    CronMissed { turn: TurnId, count: u32 },
    /// Event.
    Warning { warning: Warning },
}
}

/// What an input tells of that the engine gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RecordKey {
    /// A task has ended.
    Task { task: TaskId },
    /// A job fired; the time in milliseconds since 1970.
    Fire {
        job: JobId,
        ideal_at: i64,
        fire: Arc<str>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_last: bool,
        #[serde(default = "one", skip_serializing_if = "is_one")]
        n_due: u32,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_missed: bool,
    },
}

/// A call that a model asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordCall {
    /// Our id.
    pub call: ToolCallId,
    /// The tool.
    pub name: Arc<str>,
    /// The provider's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<Arc<str>>,
    /// The argument text as it came.
    pub arguments: Arc<str>,
    /// Unknown members of the provider's call.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extras: Map<String, Value>,
}

/// A part of a tool's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RecordPart {
    /// Text.
    Text { text: Arc<str> },
    /// Thinking never stands in an output; kept so that the conversion is total.
    Thinking {
        text: Arc<str>,
        signature: Option<Arc<str>>,
    },
    /// An image.
    Image { mime: Arc<str>, data: Arc<str> },
}

fn steer() -> Origin {
    Origin::Steer
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands the field over by reference"
)]
fn is_steer(origin: &Origin) -> bool {
    *origin == Origin::Steer
}

fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands the field over by reference"
)]
fn is_one(n: &u32) -> bool {
    *n == 1
}
