//! How a task gets its final status, once.

use std::sync::Arc;

use longshore_protocol::id::TaskId;

use super::Tasks;
use super::table::{Seen, StopCause};
use crate::kernel::task::{TaskDetail, TaskInfo, TaskStatus};
use crate::os::process::{Exit, Status};

/// Said of tasks that were ended with the whole process.
const SHUT_DOWN: &str = "the server was ended";

/// How a task ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct End {
    pub(super) status: Option<TaskStatus>,
    pub(super) reason: Option<String>,
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<String>,
}

impl End {
    /// The end of a process that was, or was not, being stopped.
    pub(super) fn of_process(exit: Exit, cause: Option<StopCause>) -> Self {
        let (status, reason) = match (exit.stopped, cause) {
            (true, Some(StopCause::TimeLimit)) => (TaskStatus::TimedOut, None),
            (true, Some(StopCause::Asked | StopCause::Flood)) => (TaskStatus::Killed, None),
            (true, None) => (TaskStatus::Killed, Some(SHUT_DOWN.to_owned())),
            (false, _) if exit.status.is_success() => (TaskStatus::Completed, None),
            (false, _) => (TaskStatus::Failed, None),
        };
        Self {
            status: Some(status),
            reason,
            exit_code: match exit.status {
                Status::Code(code) => Some(code),
                Status::Signal(_) | Status::Unknown => None,
            },
            signal: exit.status.signal_name(),
        }
    }

    /// The end of what a command left running: its own exit code is the command's, and means nothing here.
    pub(super) fn of_residual(exit: Exit, cause: Option<StopCause>) -> Self {
        let (status, reason) = match (exit.stopped, cause) {
            (false, _) => (TaskStatus::Completed, None),
            (true, Some(_)) => (TaskStatus::Killed, None),
            (true, None) => (TaskStatus::Killed, Some(SHUT_DOWN.to_owned())),
        };
        Self {
            status: Some(status),
            reason,
            ..Self::default()
        }
    }
}

/// Whether anything is to be left of a task that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remains {
    /// Its record and log.
    Record,
    /// Nothing: it was attached, and its call has shown all of it.
    Nothing,
}

impl Tasks {
    /// Gives a task its final status: record, table, sink, waiters, in this order. Its output must be complete. Does
    /// nothing to a task that has ended already. Returns the task as it is now.
    pub(super) async fn settle(&self, id: &TaskId, end: End, remains: Remains) -> Option<TaskInfo> {
        let record = {
            let table = self.table();
            let entry = table.entries.get(id)?;
            entry.live.as_ref()?;
            let mut record = entry.record();
            self.finish(&mut record.info, &end);
            record
        };
        let ended_at = record.info.ended_at;
        let is_kept = remains == Remains::Record || record.info.detached;
        if is_kept {
            self.save(record).await;
        }
        let (info, live, output) = {
            let mut table = self.table();
            let entry = table.entries.get_mut(id)?;
            let live = entry.live.take()?;
            self.finish(&mut entry.info, &end);
            entry.info.ended_at = ended_at;
            entry.output.end();
            let (info, output) = (entry.describe(), entry.output.clone());
            if !is_kept {
                table.entries.remove(id);
            }
            table.telling += usize::from(info.detached);
            (info, live, output)
        };
        // Its place is free before anybody hears of it.
        drop(live.slots);
        if info.detached {
            let tail = output.end_tail().await;
            self.inner.parts.sink.ended(&info, &tail);
            self.table().telling -= 1;
        }
        live.seen.send_replace(Seen {
            detached: info.detached,
            ended: Some(Arc::new(info.clone())),
        });
        Some(info)
    }

    fn finish(&self, info: &mut TaskInfo, end: &End) {
        info.status = end.status.unwrap_or(TaskStatus::Failed);
        info.ended_at = Some(self.inner.parts.clock.now());
        match info.status {
            // A stop that came too late is not why it ended.
            TaskStatus::Completed | TaskStatus::Failed => info.stop_reason.clone_from(&end.reason),
            _ => {
                if info.stop_reason.is_none() {
                    info.stop_reason.clone_from(&end.reason);
                }
            }
        }
        if let TaskDetail::Process(detail) = &mut info.detail {
            detail.exit_code = end.exit_code;
            detail.signal.clone_from(&end.signal);
        }
    }
}
