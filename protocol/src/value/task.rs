//! Tasks: work that goes on beside the conversation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, TaskId, ToolCallId};

/// The kinds of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TaskKind")]
pub enum Kind {
    /// A command.
    Process,
    /// A child agent.
    Agent,
    /// Questions that wait for an answer.
    Question,
}

/// How far a task is. Every status but `running` is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TaskStatus")]
pub enum Status {
    /// It goes on.
    Running,
    /// It ended well: exit code 0, or a result.
    Completed,
    /// It ended badly by itself.
    Failed,
    /// Its time was over.
    TimedOut,
    /// It was stopped.
    Killed,
    /// The server ended while it ran, and nobody knows how it went on.
    Lost,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its id.
    pub task_id: TaskId,
    /// Its kind.
    pub kind: Kind,
    /// What it is for, in a few words; may be empty.
    pub description: String,
    /// How far it is.
    pub status: Status,
    /// False for a command that its call still waits for.
    pub detached: bool,
    /// The agent it belongs to.
    pub owner_agent_id: AgentId,
    /// When it began, RFC 3339 with milliseconds.
    pub started_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// How long it ran, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Why it was stopped, or what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Its time limit, counted from its start or from when it was detached; absent where it may run for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Raw bytes of output so far.
    pub output_size_bytes: u64,
    /// The file that holds the output, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_path: Option<String>,
    /// Bytes missing in that file between its beginning and its end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub log_gap_bytes: u64,
    /// False where not all of the output can be read any more.
    pub full_output_available: bool,
    /// The task whose command left this one running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_task_id: Option<TaskId>,
    /// True where the model is not to be told of its end, because it ended it itself or the session was closed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suppressed: bool,
    /// A command: its command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A command: where it runs, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// A command: the shell's process id; its process group has the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// A command: its exit code, once it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// A command: the name of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// A child agent: its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_agent_id: Option<AgentId>,
    /// A child agent: the profile it runs as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<String>,
    /// A child agent: its model, where not its parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A child agent: its thinking effort, where one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Questions: how many there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question_count: Option<u32>,
    /// Questions: the call that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<ToolCallId>,
}

impl Task {
    /// A command of the main agent that runs in the background and of which nothing more is known.
    pub fn begun(task_id: TaskId) -> Self {
        Self {
            task_id,
            kind: Kind::Process,
            description: String::new(),
            status: Status::Running,
            detached: true,
            owner_agent_id: AgentId::main(),
            started_at: "1970-01-01T00:00:00.000Z".to_owned(),
            ended_at: None,
            duration_ms: None,
            stop_reason: None,
            timeout_ms: None,
            output_size_bytes: 0,
            output_path: None,
            log_gap_bytes: 0,
            full_output_available: true,
            parent_task_id: None,
            suppressed: false,
            command: None,
            cwd: None,
            pid: None,
            exit_code: None,
            signal: None,
            child_agent_id: None,
            subagent_type: None,
            model: None,
            effort: None,
            question_count: None,
            tool_call_id: None,
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands the field over by reference"
)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}
