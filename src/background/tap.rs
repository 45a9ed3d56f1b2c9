//! Whoever waits for an attached command and takes its output meanwhile.

use longshore_protocol::id::TaskId;
use tokio::time::Instant;

use super::Tasks;
use super::ring::Ring;
use super::table::StopCause;
use crate::kernel::task::TaskInfo;
use crate::os::process::{Chunk, Exit};

/// Takes the output of an attached command as it comes. Called by the pump between reads, so nothing here may wait.
pub trait Tap: Send {
    /// Takes output. Called before it enters the ring.
    fn output(&mut self, chunk: &Chunk);

    /// Whether the whole output must be on the disk from now on, because the tap cannot show it all.
    fn wants_log(&self) -> bool;

    /// When [`Self::flush`] is to be called next.
    fn due(&self) -> Option<Instant>;

    /// Shows what waits to be shown.
    fn flush(&mut self);

    /// The end was asked for: nothing is shown live any more.
    fn stopping(&mut self);

    /// No more output comes: settles the view, whose end is made from the latest raw output. Returns whether the log is
    /// needed, because the view is not everything.
    fn settle(&mut self, ring: &mut Ring) -> bool;

    /// Called last, with what has become of the command. The log is in order and on the disk where the command has
    /// ended.
    fn release(self: Box<Self>, released: Released);
}

/// What an attached command's tap is let go with.
#[derive(Debug)]
pub struct Released {
    /// Why it was let go.
    pub why: Why,
    /// The task as it is now.
    pub info: TaskInfo,
    /// How the process ended, where it has.
    pub exit: Option<Exit>,
    /// Why its end was asked for, where it was.
    pub cause: Option<StopCause>,
    /// The task that what it left running has become.
    pub residual: Option<TaskInfo>,
    /// Output could not be read to its end.
    pub read_error: Option<String>,
}

/// Why a tap was let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The command has ended.
    Ended,
    /// It goes on as a detached task.
    Detached(DetachCause),
    /// Its owner did not want to wait for the end, which was asked for and comes.
    GivenUp,
}

/// What detached a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetachCause {
    /// A host.
    Host,
    /// The end of its time limit.
    TimeLimit,
}

/// An attached command. Dropping it before its tap was let go ends the command.
#[derive(Debug)]
pub struct Attached {
    pub(super) tasks: Tasks,
    pub(super) id: TaskId,
}

impl Attached {
    /// The task's name.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// Asks for the end of the command, for a reason that is told. Returns at once; the tap is let go at the end, or
    /// sooner by [`Self::give_up`].
    pub fn stop(&self, reason: &str) {
        self.tasks.ask_to_stop(&self.id, reason);
    }

    /// Has the tap let go now. The end must have been asked for, and goes on without the tap.
    pub fn give_up(&self) {
        self.tasks.let_go(&self.id);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.tasks.abandon(&self.id);
    }
}
