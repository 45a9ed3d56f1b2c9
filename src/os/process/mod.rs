//! Children: the only place that starts a process, and the one that sees it and its descendants ended.
//!
//! [`Processes`] owns every child of this process. [`Processes::spawn`] puts each at the head of a group of its own
//! and gives a [`Running`], from which its owner takes output; a supervising task watches the child beside that, so
//! that stopping works whether or not anybody reads.
//!
//! Invariants:
//! - no code runs between fork and exec, so that a spawn costs about a millisecond whatever memory this process has;
//! - a child's status is taken (and its id freed) only after its group was dealt with, or just before its group is
//!   looked at; a group whose leader's status was taken is signalled only when a live member was just identified;
//! - no id of 0 or below, of this process or of its own group is ever signalled;
//! - dropping the owner ends the child.
//!
//! The end of a child, in order: the leader exits, output is drained for at most [`DRAIN`], what is left of the group
//! is ended, [`Exit`] is published. With [`Survivors::Keep`] it is followed instead until it has ended too, and a stop
//! meanwhile is meant for it. A stop goes TERM (and CONT), grace, KILL to the whole group and to descendants
//! that left it, whether or not the leader is gone already; then the same drain.
//!
//! Start with [`Command`], then [`Running`]; `supervise.rs` holds the sequences.

mod command;
mod exit;
mod identity;
mod kin;
mod member;
mod orphans;
mod output;
mod recorded;
mod registry;
mod running;
mod scanner;
mod spared;
mod state;
mod supervise;
mod survivors;
mod table;
mod watch;

pub use command::{Command, SpawnError, Stderr, Stdin, Survivors, TASK_MARK};
pub use exit::{Exit, Status, signal_name};
pub use identity::Identity;
pub use kin::{Kin, is_in_a_task, kin_of, kin_of_tcp, own_parents};
pub use output::{Chunk, Stream};
pub use recorded::{Origin, RecordedGroup};
pub use registry::Processes;
pub use running::{Collected, Running, Stopper};
pub use spared::{Spared, begin_session, own_start_ticks};
pub use supervise::{DRAIN, SURVIVOR_GRACE};
pub use watch::ExitWatch;

#[cfg(test)]
mod orphans_tests;
#[cfg(test)]
mod tests;
