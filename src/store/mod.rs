//! Storage by access pattern: a file of lines that only grows, a small document replaced whole, large values by hash;
//! and the account of temporary files ([`cleanup`]).
//!
//! The owner of a directory (a session, the daemon) holds these types; they know nothing of what they store.
//! Invariants: files are 0600 and directories 0700; a reader never sees half of a document or blob; a log is never
//! left with half a line by a failed write. Who may write a directory is settled by [`crate::os::lock::FileLock`].
//!
//! Start with [`append_log`].

pub mod append_log;
pub mod atomic_file;
pub mod blob;
pub mod cleanup;
pub mod kept;
pub mod shared_log;
