//! The vocabulary of the engine: what everything above is said in.
//!
//! The kernel does no I/O, has no runtime and never reads the clock; it owns no state. Start with [`event`], the facts
//! hosts see and the journal keeps, and [`port`], the traits through which layers that may not import each other meet.

pub mod access;
pub mod ask;
pub mod cron;
pub mod event;
#[cfg(test)]
pub(crate) mod fakes;
pub mod fault;
pub mod host_fs;
pub mod limits;
pub mod message;
pub mod port;
pub mod rule;
pub mod task;
pub mod time;
pub mod wake;
