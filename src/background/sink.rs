//! Where the task manager says what became of detached tasks.

use crate::kernel::task::TaskInfo;

/// Told of detached tasks. Called from the tasks that carry them, never under a lock of the manager; implementations
/// may write a line of a journal and send a message, and do nothing that waits.
///
/// For one task the order is `started`, any number of `updated`, `ended`. Attached tasks call nothing until they are
/// detached, which is when their `started` comes.
pub trait TaskSink: Send + Sync {
    /// A task runs detached from now on. For a command begun in the background this precedes the return of its start.
    fn started(&self, info: &TaskInfo);

    /// Something about a running task has changed: its output grew (told at most once a second), its log became
    /// incomplete, a stop was asked for, its owner changed.
    fn updated(&self, info: &TaskInfo);

    /// A task has ended; called exactly once. Its output is complete and on the disk, and whoever asks the manager
    /// is told the same status. `tail` is the last 4 KiB of its output at most, from a character boundary on. A
    /// suppressed one (`info.suppressed`) is not to be told to the model.
    fn ended(&self, info: &TaskInfo, tail: &str);
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unheard;

impl TaskSink for Unheard {
    fn started(&self, _: &TaskInfo) {}

    fn updated(&self, _: &TaskInfo) {}

    fn ended(&self, _: &TaskInfo, _: &str) {}
}
