//! Tasks: commands and other work that go on beside the conversation.
//!
//! [`Tasks`] is the task manager of one session, cheap to clone. Every command of the session runs through it, also
//! those a call waits for: those are *attached*, a [`Tap`] takes their output, and they become *detached* tasks when
//! their time is over or a host asks. One pump (`pump.rs`) per process carries its output to the ring of the latest
//! bytes, to the log on disk and to the tap, and settles the task when the process has ended.
//!
//! Invariants:
//! - a slot is taken before anything is started; a refused start has no effect;
//! - attached tasks never count against the limits and are never refused; a detach is never refused;
//! - the first settlement of a task wins, and a final status never changes;
//! - [`TaskSink::started`] and then [`TaskSink::ended`] are called exactly once for each detached task, the latter when
//!   all output is in the log, on the disk, and the record beside it is final; attached tasks call neither;
//! - memory is bounded whatever a process writes; a slow disk slows the process, nothing slows a stop;
//! - an agent sees its own tasks only ([`Whose`]): those of others do not exist for it.
//!
//! With `task.keep_alive_on_exit` a command begun in the background runs under a supervisor (`supervisor.rs`), a process of
//! this program that owns its pipes and outlives the server; `follow.rs` is the server's side of it.
//!
//! Nothing here knows tools, sessions or hosts. On disk a task is `<session>/tasks/<id>.json` and `<id>/output.log`
//! (`record.rs`). Start with [`Tasks`] in `tasks.rs`, then `pump.rs`.

mod budget;
mod follow;
mod id;
mod log;
mod output;
mod pump;
mod reconcile;
mod record;
mod ring;
mod runtime;
mod settle;
mod sink;
mod slots;
mod spec;
mod spill;
mod supervisor;
mod table;
mod tap;
mod tasks;
mod wait;
mod worker;

pub use follow::{SUPERVISE, end_supervised, spare_supervised};
pub use id::is_task_id;
pub use output::{OutputSlice, Window};
pub use ring::Ring;
pub use sink::{TaskSink, Unheard};
pub use slots::TaskSlots;
pub use spec::{ProcessSpec, StartError, StopOptions, TaskError, TaskLimits, Which, Whose};
pub use supervisor::{Supervision, supervise};
pub use table::StopCause;
pub use tap::{Attached, DetachCause, Released, Tap, Why};
pub use tasks::{Tasks, TasksParts};
pub use worker::{WorkerCx, WorkerEnd, WorkerSpec};

#[cfg(test)]
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
