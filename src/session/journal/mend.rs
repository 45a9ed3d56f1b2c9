//! Opening a journal for writing: a torn tail is mended, and nothing that is taken out of use is thrown away.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longshore_protocol::value::failure::Warning;
use serde::Serialize;

use super::parse::begins_with_record;
use super::read::Place;
use super::{storage_fault, write};
use crate::kernel::fault::Fault;
use crate::kernel::time::Timestamp;
use crate::os::fs::{self, Disk, FsError};
use crate::store::append_log::{AppendLog, Tail};
use crate::store::shared_log::SharedLog;

/// Where damaged bytes are kept, in the session's directory.
pub const ASIDE: &str = "damaged.jsonl";
/// Bytes of one damaged place that are kept.
const MAX_KEPT: usize = 1 << 20;

/// A line of what is kept aside.
#[derive(Serialize)]
struct Kept {
    /// Milliseconds since 1970.
    at: i64,
    /// Where it stood in the journal.
    offset: u64,
    n_bytes: u64,
    /// Its beginning, in base64.
    bytes: String,
}

/// Opens the journal of a directory for writing. Gives with it what is to be told of its tail. Blocking.
///
/// # Errors
/// Storage kinds.
pub fn open(
    dir: &Path,
    disk: Arc<dyn Disk>,
    now: Timestamp,
) -> Result<(AppendLog, Option<Warning>), Fault> {
    let path = write::path(dir);
    let opened = AppendLog::open_judged(&path, disk, |tail| {
        if begins_with_record(tail) {
            return Tail::Complete;
        }
        let offset = fs::metadata(&path).map_or(0, |meta| meta.len()) - tail.len() as u64;
        keep_aside(dir, now, &[(offset, tail)]);
        Tail::Cut
    })
    .map_err(|error| storage_fault(error, dir))?;
    let warning = opened.torn.map(|torn| {
        let (n_bytes, offset) = (torn.n_bytes, torn.offset);
        let message = match torn.tail {
            Tail::Cut => format!(
                "the last line was torn by a crash; its {n_bytes} bytes from byte {offset} on were cut off and are kept in \
                 {ASIDE}"
            ),
            Tail::Complete => format!("the line at byte {offset} had lost its end, which was mended"),
        };
        Warning::new("journal", message)
    });
    Ok((opened.log, warning))
}

/// Keeps the bytes of damaged places. They stay where they are as well: a journal is not rewritten. Blocking.
pub fn keep(dir: &Path, now: Timestamp, places: &[Place]) {
    let read = |place: &Place| read_place(dir, place);
    let bytes: Result<Vec<(u64, Vec<u8>)>, FsError> = places
        .iter()
        .filter(|place| place.n_bytes > 0)
        .map(|place| Ok((place.offset, read(place)?)))
        .collect();
    match bytes {
        Ok(bytes) => {
            let bytes: Vec<(u64, &[u8])> = bytes
                .iter()
                .map(|(offset, bytes)| (*offset, bytes.as_slice()))
                .collect();
            keep_aside(dir, now, &bytes);
        }
        Err(error) => tracing::warn!(%error, "damaged bytes of a journal could not be read"),
    }
}

fn read_place(dir: &Path, place: &Place) -> Result<Vec<u8>, FsError> {
    let n_bytes = place.n_bytes.min(MAX_KEPT as u64) as usize;
    fs::read_range(&write::path(dir), place.offset, n_bytes)
}

fn keep_aside(dir: &Path, now: Timestamp, places: &[(u64, &[u8])]) {
    let mut lines = String::new();
    for (offset, bytes) in places {
        let kept = Kept {
            at: now.0,
            offset: *offset,
            n_bytes: bytes.len() as u64,
            bytes: STANDARD.encode(bytes.get(..MAX_KEPT).unwrap_or(bytes)),
        };
        // Numbers and text can always be written, and writing to a string can't fail.
        let _ = writeln!(
            lines,
            "{}",
            serde_json::to_string(&kept).unwrap_or_default()
        );
    }
    if lines.is_empty() {
        return;
    }
    if let Err(error) = SharedLog::new(dir.join(ASIDE)).append(lines.trim_end().as_bytes()) {
        // What is damaged is no reason not to open the rest.
        tracing::warn!(dir = %dir.display(), %error, "damaged bytes of a journal could not be kept aside");
    }
}
