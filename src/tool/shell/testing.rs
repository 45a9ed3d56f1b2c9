//! What the tests of this family share.

use crate::kernel::task::{ProcessDetail, TaskDetail, TaskInfo, TaskOutput, TaskStatus};
use crate::kernel::time::Timestamp;

/// A task that has ended, with so much output.
pub(super) fn ended_task(size_bytes: u64) -> TaskInfo {
    TaskInfo {
        id: "bash-00000001".into(),
        detail: TaskDetail::Process(ProcessDetail::default()),
        description: String::new(),
        owner: "main".into(),
        status: TaskStatus::Completed,
        detached: false,
        started_at: Timestamp(0),
        ended_at: Some(Timestamp(1000)),
        stop_reason: None,
        timeout_ms: None,
        parent: None,
        suppressed: false,
        output: TaskOutput {
            size_bytes,
            ..TaskOutput::default()
        },
    }
}
