//! The outside world: files, processes, environment, clock, randomness.
//!
//! Every other module reaches the machine through here (and through `store`, which stands on it), so that each
//! file and process names its root, each child is in a group that can be ended, and tests can put a fake in place.
//!
//! Invariants:
//! - nothing here knows sessions, tools or the wire;
//! - the working directory of this process means nothing: no function resolves a relative path against it;
//! - opens never block and never yield a FIFO, socket or device where a file was asked for;
//! - a child never inherits a descriptor beyond 0, 1 and 2, and only [`process`] starts one.
//!
//! Start with [`fs`] for files, [`process`] for children, [`stdio`] for how a server takes over its own streams.

pub mod blocking;
pub mod clock;
pub mod env;
pub mod file_clock;
pub mod fs;
pub mod ids;
pub mod lock;
pub mod memory;
pub mod nofile;
pub mod parent;
pub mod process;
mod raw;
pub mod signal;
pub mod socket;
pub mod stdio;
pub mod tty;

#[cfg(test)]
mod test_copy;
