//! Tasks on the disk: `<session>/tasks/<id>.json`, replaced whole, beside `<id>/output.log`.

use std::path::{Path, PathBuf};

use longshore_protocol::id::{AgentId, TaskId, ToolCallId};
use serde::{Deserialize, Serialize};

use super::id::is_task_id;
use crate::kernel::task::{ProcessDetail, TaskDetail, TaskInfo, TaskOutput, TaskStatus};
use crate::kernel::time::Timestamp;
use crate::os::fs::{self, Durability, FsError};
use crate::os::process::Origin;
use crate::store::atomic_file;

/// A task as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) info: TaskInfo,
    /// The mark in the environment of its processes.
    pub(super) mark: TaskId,
    /// Where its processes were started.
    pub(super) origin: Origin,
}

/// The file of a record.
pub(super) fn record_path(dir: &Path, id: &TaskId) -> PathBuf {
    dir.join(format!("{id}.json"))
}

/// The directory of what belongs to a task beside its record.
pub(super) fn task_dir(dir: &Path, id: &TaskId) -> PathBuf {
    dir.join(id.as_str())
}

/// The log of a task.
pub(super) fn log_path(dir: &Path, id: &TaskId) -> PathBuf {
    task_dir(dir, id).join("output.log")
}

impl Record {
    /// Writes it. Blocking.
    pub(super) fn write(&self, dir: &Path, durability: Durability) -> Result<(), FsError> {
        let path = record_path(dir, &self.info.id);
        let bytes = serde_json::to_vec(&File::of(self))
            .map_err(|error| FsError::new("write", &path, std::io::Error::other(error)))?;
        fs::create_private_dirs(dir)?;
        atomic_file::write(&path, &bytes, durability)
    }
}

/// All records that can be read, the oldest task first; others are left out with a line in the log. Makes nothing.
/// Blocking.
pub(super) fn load_all(dir: &Path) -> Vec<Record> {
    let entries = match fs::list_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Vec::new(),
        Err(error) => {
            tracing::warn!(%error, "the tasks of a session cannot be read");
            return Vec::new();
        }
    };
    let names = entries
        .iter()
        .filter_map(|entry| entry.name.to_str()?.strip_suffix(".json"));
    let mut records: Vec<Record> = names.filter_map(|name| load(dir, name)).collect();
    records.sort_by(|a, b| {
        let key = |record: &Record| (record.info.started_at, record.info.id.clone());
        key(a).cmp(&key(b))
    });
    records
}

fn load(dir: &Path, name: &str) -> Option<Record> {
    if !is_task_id(name) {
        tracing::warn!(name, "a file beside the tasks is none of theirs");
        return None;
    }
    let id = TaskId::from(name);
    let path = record_path(dir, &id);
    let read = atomic_file::read(&path).map_err(|error| error.to_string());
    let parsed = read.and_then(|bytes| {
        serde_json::from_slice::<File>(&bytes.unwrap_or_default())
            .map_err(|error| error.to_string())
    });
    match parsed {
        Ok(file) if file.id == id => Some(file.into_record(dir)),
        Ok(file) => {
            tracing::warn!(%id, found = %file.id, "the record of a task is another's; left out");
            None
        }
        Err(error) => {
            tracing::warn!(%id, error, "the record of a task cannot be read; left out");
            None
        }
    }
}

/// What stands in the file. Fields may be added, and none changes its meaning.
#[derive(Debug, Serialize, Deserialize)]
struct File {
    id: TaskId,
    #[serde(flatten)]
    detail: Detail,
    #[serde(default)]
    description: String,
    owner_agent_id: AgentId,
    status: Status,
    #[serde(default)]
    detached: bool,
    started_at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent_task_id: Option<TaskId>,
    #[serde(default)]
    terminal_notification_suppressed: bool,
    #[serde(default)]
    output_size_bytes: u64,
    #[serde(default)]
    has_log: bool,
    #[serde(default)]
    log_gap_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log_incomplete: Option<String>,
    #[serde(default)]
    log_removed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    os_session: Option<i32>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Detail {
    Process {
        command: String,
        cwd: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pgid: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_ticks: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        #[serde(default)]
        keep_alive: bool,
    },
    Agent {
        agent_id: AgentId,
        subagent_type: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effort: Option<String>,
    },
    Question {
        question_count: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<ToolCallId>,
    },
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Running,
    Completed,
    Failed,
    TimedOut,
    Killed,
    Lost,
}

impl File {
    fn of(record: &Record) -> Self {
        let Record { info, mark, origin } = record.clone();
        let TaskInfo {
            id,
            detail,
            description,
            owner,
            status,
            detached,
            started_at,
            ended_at,
            stop_reason,
            timeout_ms,
            parent,
            suppressed,
            output,
        } = info;
        Self {
            detail: Detail::of(detail),
            description,
            owner_agent_id: owner,
            status: match status {
                TaskStatus::Running => Status::Running,
                TaskStatus::Completed => Status::Completed,
                TaskStatus::Failed => Status::Failed,
                TaskStatus::TimedOut => Status::TimedOut,
                TaskStatus::Killed => Status::Killed,
                TaskStatus::Lost => Status::Lost,
            },
            detached,
            started_at_ms: started_at.0,
            ended_at_ms: ended_at.map(|at| at.0),
            stop_reason,
            timeout_ms,
            parent_task_id: parent,
            terminal_notification_suppressed: suppressed,
            output_size_bytes: output.size_bytes,
            has_log: output.log_path.is_some(),
            log_gap_bytes: output.log_gap_bytes,
            log_incomplete: output.log_problem,
            log_removed: output.log_removed,
            mark: (mark != id).then_some(mark),
            boot_id: origin.boot_id,
            os_session: origin.os_session,
            id,
        }
    }

    fn into_record(self, dir: &Path) -> Record {
        let log_path = self.has_log.then(|| log_path(dir, &self.id));
        let info = TaskInfo {
            detail: self.detail.into_detail(),
            description: self.description,
            owner: self.owner_agent_id,
            status: match self.status {
                Status::Running => TaskStatus::Running,
                Status::Completed => TaskStatus::Completed,
                Status::Failed => TaskStatus::Failed,
                Status::TimedOut => TaskStatus::TimedOut,
                Status::Killed => TaskStatus::Killed,
                Status::Lost => TaskStatus::Lost,
            },
            detached: self.detached,
            started_at: Timestamp(self.started_at_ms),
            ended_at: self.ended_at_ms.map(Timestamp),
            stop_reason: self.stop_reason,
            timeout_ms: self.timeout_ms,
            parent: self.parent_task_id,
            suppressed: self.terminal_notification_suppressed,
            output: TaskOutput {
                size_bytes: self.output_size_bytes,
                log_path,
                log_gap_bytes: self.log_gap_bytes,
                log_problem: self.log_incomplete,
                log_removed: self.log_removed,
            },
            id: self.id,
        };
        let mark = self.mark.unwrap_or_else(|| info.id.clone());
        let origin = Origin {
            boot_id: self.boot_id,
            os_session: self.os_session,
        };
        Record { info, mark, origin }
    }
}

impl Detail {
    fn of(detail: TaskDetail) -> Self {
        match detail {
            TaskDetail::Process(ProcessDetail {
                command,
                cwd,
                pid,
                pgid,
                start_ticks,
                exit_code,
                signal,
                keep_alive,
            }) => Self::Process {
                command,
                cwd,
                pid,
                pgid,
                start_ticks,
                exit_code,
                signal,
                keep_alive,
            },
            TaskDetail::Agent {
                agent_id,
                subagent_type,
                model,
                effort,
            } => Self::Agent {
                agent_id,
                subagent_type,
                model,
                effort,
            },
            TaskDetail::Question {
                question_count,
                tool_call_id,
            } => Self::Question {
                question_count,
                tool_call_id,
            },
        }
    }

    fn into_detail(self) -> TaskDetail {
        match self {
            Self::Process {
                command,
                cwd,
                pid,
                pgid,
                start_ticks,
                exit_code,
                signal,
                keep_alive,
            } => TaskDetail::Process(ProcessDetail {
                command,
                cwd,
                pid,
                pgid,
                start_ticks,
                exit_code,
                signal,
                keep_alive,
            }),
            Self::Agent {
                agent_id,
                subagent_type,
                model,
                effort,
            } => TaskDetail::Agent {
                agent_id,
                subagent_type,
                model,
                effort,
            },
            Self::Question {
                question_count,
                tool_call_id,
            } => TaskDetail::Question {
                question_count,
                tool_call_id,
            },
        }
    }
}
