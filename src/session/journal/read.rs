//! Reading a journal back, line by line and in bounded memory.

use std::path::Path;
use std::sync::Arc;

use longshore_protocol::id::{AgentId, SessionId};
use longshore_protocol::value::failure::Warning;
use serde_json::Value;

use super::convert::{Fact, fact};
use super::record::{Line, VERSION};
use super::{blobs, write};
use crate::kernel::event::Stamped;
use crate::kernel::time::Timestamp;
use crate::os::fs::FsError;
use crate::store::append_log::{self, LineReader};
use crate::store::blob::BlobStore;

/// A longer line is damage: what is large stands in blobs. Room is left for many values just under that size.
const MAX_LINE_BYTES: usize = 256 << 20;

/// One line, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// On event lines: the number.
    pub seq: Option<u64>,
    /// When.
    pub at: Timestamp,
    /// Which agent.
    pub agent: AgentId,
    /// What.
    pub fact: Fact,
}

/// What was found wrong, by line.
#[derive(Debug, Default)]
pub struct Damage {
    /// One sentence each.
    pub lines: Vec<Warning>,
}

/// Gives every readable line of a journal in order, from an offset at which a line begins.
///
/// # Errors
/// Where the file can't be opened or read at all; a bad line is told of in `damage` and skipped.
pub fn each(
    dir: &Path,
    offset: u64,
    damage: &mut Damage,
    mut take: impl FnMut(Entry) -> Flow,
) -> Result<(), FsError> {
    let path = write::path(dir);
    let blobs = BlobStore::new(dir.join("blobs"));
    let mut reader = LineReader::open(&path, offset..u64::MAX)?.with_max_line(MAX_LINE_BYTES);
    let mut last_seq = None;
    loop {
        let entry = match reader.next_line()? {
            None => return Ok(()),
            Some(append_log::Line::TooLong { offset, n_bytes }) => {
                Err((offset, format!("a line of {n_bytes} bytes was skipped")))
            }
            Some(append_log::Line::Whole { offset, bytes }) => parse(bytes, &blobs)
                .map_err(|reason| (offset, format!("a line was skipped: {reason}"))),
        };
        match entry {
            Ok(Some(entry)) => {
                // A line that stands twice counts once.
                let repeats = entry.seq.is_some() && entry.seq <= last_seq;
                if entry.seq.is_some() && !repeats {
                    last_seq = entry.seq;
                }
                if !repeats && take(entry) == Flow::Stop {
                    return Ok(());
                }
            }
            Ok(None) => {}
            Err((offset, reason)) => damage.lines.push(Warning {
                file: Some(path.display().to_string()),
                ..Warning::new("journal", format!("{reason} (at byte {offset})"))
            }),
        }
    }
}

/// Whether reading goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// With the next line.
    On,
    /// No further.
    Stop,
}

/// The durable events after a number, up to about so many bytes of journal.
pub fn events(
    session: &SessionId,
    dir: &Path,
    offset: u64,
    after: u64,
    max_bytes: usize,
) -> Result<Vec<Arc<Stamped>>, FsError> {
    let mut found: Vec<Arc<Stamped>> = Vec::new();
    let mut weight = 0;
    each(dir, offset, &mut Damage::default(), |entry| {
        if let (Some(seq), Fact::Event(event)) = (entry.seq.filter(|seq| *seq > after), entry.fact)
        {
            weight += event.weight();
            found.push(Stamped::new(
                session.clone(),
                entry.agent,
                Some(seq),
                entry.at,
                event,
            ));
        }
        if weight >= max_bytes {
            Flow::Stop
        } else {
            Flow::On
        }
    })?;
    Ok(found)
}

/// `None` for a blank line, such as a page of zeros leaves behind.
fn parse(bytes: &[u8], blobs: &BlobStore) -> Result<Option<Entry>, String> {
    if bytes
        .iter()
        .all(|byte| *byte == 0 || byte.is_ascii_whitespace())
    {
        return Ok(None);
    }
    let unreadable = |error: serde_json::Error| error.to_string();
    let line: Line = if blobs::is_packed(bytes) {
        let packed: Value = serde_json::from_slice(bytes).map_err(unreadable)?;
        serde_json::from_value(blobs::unpack(packed, blobs)?).map_err(unreadable)?
    } else {
        serde_json::from_slice(bytes).map_err(unreadable)?
    };
    if line.v > VERSION {
        return Err(format!("it was written by a newer version ({})", line.v));
    }
    Ok(Some(Entry {
        seq: line.seq,
        at: Timestamp(line.at),
        agent: line.agent,
        fact: fact(line.record),
    }))
}
