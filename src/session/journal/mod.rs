//! The journal of a session: the one file that says everything that happened, and the only code that writes it.
//!
//! [`write`] appends (and is the `EventSink` of agents), [`read`] reads back, [`record`] is what a line looks like,
//! [`convert`] leads between records and facts. A line is in the kernel before its event goes out, and is never changed
//! again. Values over 64 KiB stand once in `blobs/`.
//!
//! Reading goes from blocks of bytes to lines and what is damaged among them (`parse`, with `line` for one whole line and
//! `migrate` for those of older versions), then to numbers in order (`order`), which gives a name to what is lost. [`mend`]
//! opens a journal for writing and keeps damaged bytes aside.

pub mod blobs;
pub mod convert;
#[cfg(test)]
mod convert_tests;
pub mod copy;
mod job;
mod line;
pub mod mend;
mod migrate;
mod order;
mod parse;
pub mod read;
pub mod record;
pub mod write;

use std::path::Path;

use longshore_protocol::error::ErrorKind;

use crate::kernel::fault::Fault;
use crate::os::fs::FsError;

/// The journal's name in its session's directory.
pub const FILE: &str = "journal.jsonl";

/// The fault for a failed write or read of a session's files.
pub fn storage_fault(error: FsError, dir: &Path) -> Fault {
    let place = dir.display();
    match error.kind() {
        // Only the lock of a journal is ever busy.
        std::io::ErrorKind::ResourceBusy => Fault::new(
            ErrorKind::SessionLocked,
            format!("the session in {place} is still being written; close it there first"),
        ),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Fault::new(
            ErrorKind::StorageFull,
            format!("no space left for the session in {place}; free some and retry"),
        ),
        _ => Fault::new(
            ErrorKind::StorageError,
            format!("the session in {place} could not be saved or read: {error}"),
        ),
    }
    .caused_by(error)
}
