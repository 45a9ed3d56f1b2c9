//! Tasks: work that goes on beside the conversation, and what is known of each.

use std::path::PathBuf;

use longshore_protocol::id::{AgentId, TaskId, ToolCallId};

use super::time::Timestamp;

/// The kinds of tasks. Each has ids with a prefix of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// A command.
    Process,
    /// A child agent.
    Agent,
    /// A question that waits for an answer.
    Question,
}

impl TaskKind {
    /// As it stands in lists and on disk.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Agent => "agent",
            Self::Question => "question",
        }
    }

    /// What ids of this kind begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Process => "bash",
            Self::Agent => "agent",
            Self::Question => "question",
        }
    }
}

/// How far a task is. Every status but [`TaskStatus::Running`] is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskStatus {
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

impl TaskStatus {
    /// As it stands in lists and on disk.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Killed => "killed",
            Self::Lost => "lost",
        }
    }

    /// Whether it is final.
    pub fn is_terminal(self) -> bool {
        self != Self::Running
    }
}

/// What is particular to the kind of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskDetail {
    /// A command.
    Process(ProcessDetail),
    /// A child agent.
    Agent {
        /// The child; not the task's id.
        agent_id: AgentId,
        /// The profile it runs as.
        subagent_type: String,
        /// Its model, where not its parent's.
        model: Option<String>,
        /// Its thinking effort, where one was chosen.
        effort: Option<String>,
    },
    /// A question.
    Question {
        /// How many questions there are.
        question_count: u32,
        /// The call that asked.
        tool_call_id: Option<ToolCallId>,
    },
}

/// What is particular to a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessDetail {
    /// The command line.
    pub command: String,
    /// The directory it was started in, absolute.
    pub cwd: PathBuf,
    /// The shell's process id; absent where only what it left running is meant.
    pub pid: Option<u32>,
    /// Its process group.
    pub pgid: Option<u32>,
    /// Start time of the shell in clock ticks since boot: with the id it names one process for ever.
    pub start_ticks: Option<u64>,
    /// Its exit code, once it exited.
    pub exit_code: Option<i32>,
    /// The name of the signal that ended it: `SIGKILL`.
    pub signal: Option<String>,
    /// Whether it goes on when the server ends.
    pub keep_alive: bool,
}

/// What is known of a task's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskOutput {
    /// Raw bytes written so far.
    pub size_bytes: u64,
    /// The file that holds them, where there is one by now.
    pub log_path: Option<PathBuf>,
    /// Bytes missing in that file between its beginning and its end.
    pub log_gap_bytes: u64,
    /// Why the file is incomplete for another reason.
    pub log_problem: Option<String>,
    /// False where the file had to make room for others.
    pub log_removed: bool,
}

impl TaskOutput {
    /// Whether all of the output can still be read.
    pub fn full_output_available(&self) -> bool {
        !self.log_removed && self.log_problem.is_none() && self.log_gap_bytes == 0
    }
}

/// Everything there is to say about a task. A copy: the task manager owns the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// Its name.
    pub id: TaskId,
    /// What is particular to its kind.
    pub detail: TaskDetail,
    /// What it is for, in a few words; may be empty.
    pub description: String,
    /// The agent it belongs to.
    pub owner: AgentId,
    /// How far it is.
    pub status: TaskStatus,
    /// Whether it has outlived the call that started it, or never had one waiting.
    pub detached: bool,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why it was stopped, or what went wrong.
    pub stop_reason: Option<String>,
    /// Its time limit in milliseconds, counted from its start or from when it was detached; none where it may run for
    /// ever.
    pub timeout_ms: Option<u64>,
    /// The task whose command left this one running.
    pub parent: Option<TaskId>,
    /// Whether its end is not to be told to the model.
    pub suppressed: bool,
    /// Its output.
    pub output: TaskOutput,
}

impl TaskInfo {
    /// Its kind.
    pub fn kind(&self) -> TaskKind {
        match self.detail {
            TaskDetail::Process(_) => TaskKind::Process,
            TaskDetail::Agent { .. } => TaskKind::Agent,
            TaskDetail::Question { .. } => TaskKind::Question,
        }
    }

    /// What is particular to a command, where it is one.
    pub fn process(&self) -> Option<&ProcessDetail> {
        match &self.detail {
            TaskDetail::Process(detail) => Some(detail),
            TaskDetail::Agent { .. } | TaskDetail::Question { .. } => None,
        }
    }

    /// How long it has run, in milliseconds, as seen at `now`.
    pub fn duration_ms(&self, now: Timestamp) -> u64 {
        let until = self.ended_at.unwrap_or(now);
        u64::try_from(until.0 - self.started_at.0).unwrap_or(0)
    }
}
