//! What tasks are started with, and why one is not.

use std::path::PathBuf;
use std::time::Duration;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, TaskId};

use crate::kernel::fault::Fault;
use crate::kernel::limits;
use crate::os::process::{Command, SpawnError};

/// Limits and periods of one session's tasks, from the configuration.
#[derive(Debug, Clone)]
pub struct TaskLimits {
    /// Detached tasks that may run at once.
    pub max_running: usize,
    /// Between TERM and KILL, and between the cancel of other work and its forced end.
    pub grace: Duration,
    /// Of one log: a quarter for the beginning, the rest for the end.
    pub log_max_bytes: u64,
    /// Of all logs of the session.
    pub session_log_budget: u64,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            max_running: limits::TASKS_PER_SESSION,
            grace: limits::PROCESS_GRACE,
            log_max_bytes: limits::TASK_LOG_BYTES,
            session_log_budget: limits::TASK_LOGS_BYTES,
        }
    }
}

/// A command to run as a task.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// What is started. The manager adds the task's mark and says what becomes of what is left running.
    pub command: Command,
    /// The command line as it is shown.
    pub command_line: String,
    /// The directory it is started in, as it is shown.
    pub cwd: PathBuf,
    /// What it is for.
    pub description: String,
    /// The agent it belongs to.
    pub owner: AgentId,
    /// How long it may run; `None` is without limit.
    pub time_limit: Option<Duration>,
    /// Attached tasks: whether the end of the time limit detaches it instead of ending it.
    pub detach_at_limit: bool,
    /// Attached tasks: the time limit once it is detached, counted from that moment.
    pub time_limit_detached: Option<Duration>,
    /// Attached tasks: output at which it is ended; `None` is never.
    pub output_kill_bytes: Option<u64>,
    /// Whether what it leaves running becomes a task of its own; otherwise that is ended.
    pub keep_survivors: bool,
}

/// Whose tasks are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose<'a> {
    /// All of the session, for hosts.
    Anyones,
    /// Those of one agent; all others do not exist.
    Of(&'a AgentId),
}

impl Whose<'_> {
    pub(super) fn includes(self, owner: &AgentId) -> bool {
        match self {
            Self::Anyones => true,
            Self::Of(agent) => agent == owner,
        }
    }
}

/// Which tasks are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that run, attached ones too.
    Active,
    /// Those, and every detached one that has ended.
    All,
}

/// How a task is stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopOptions {
    /// Why; blank is none.
    pub reason: Option<String>,
    /// Whether its end is not to be told to the model.
    pub suppress: bool,
}

/// Why a task was not started. Nothing was begun.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// As many detached tasks run as may run at once.
    #[error("{running} tasks are running, which is the most there may be ({max})")]
    LimitExceeded {
        /// How many run.
        running: usize,
        /// How many may.
        max: usize,
    },
    /// The session is being closed.
    #[error("the session is being closed")]
    Closed,
    /// The process could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// Why a task could not be asked about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// There is no such task, or it belongs to another agent.
    #[error("there is no task {0}")]
    NotFound(TaskId),
    /// Its output could not be read from the disk.
    #[error("the output of task {id} cannot be read: {reason}")]
    Unreadable {
        /// The task.
        id: TaskId,
        /// The system's answer.
        reason: String,
    },
}

impl StartError {
    /// The same for hosts.
    pub fn to_fault(&self) -> Fault {
        let message = self.to_string();
        match self {
            Self::LimitExceeded { running, max } => Fault::new(ErrorKind::LimitExceeded, message)
                .with("name", "task.max_running")
                .with("value", *max as u64)
                .with("running", *running as u64)
                .with("max", *max as u64),
            Self::Closed => Fault::new(ErrorKind::SessionNotFound, message),
            Self::Spawn(_) => Fault::new(ErrorKind::InternalError, message),
        }
    }
}

impl From<TaskError> for Fault {
    fn from(error: TaskError) -> Self {
        let message = error.to_string();
        match error {
            TaskError::NotFound(id) => {
                Self::new(ErrorKind::TaskNotFound, message).with("taskId", id.as_str())
            }
            TaskError::Unreadable { .. } => Self::new(ErrorKind::StorageError, message),
        }
    }
}
