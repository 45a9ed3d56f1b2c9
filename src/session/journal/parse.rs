//! What stands in a block of lines, however damaged: whole lines, and what could not be read.
//!
//! A line break never stands inside a record, nor does a zero byte: where a line begins is therefore certain, and a record
//! that follows another one on its line is one of ours. What comes after zeros is trusted only where it is whole records
//! to the end of the line, since it may be the inside of something that a model wrote.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::blobs;
use super::convert::{Fact, fact};
use super::migrate::migrate;
use super::read::Entry;
use super::record::Line;
use crate::kernel::time::Timestamp;
use crate::store::blob::BlobStore;

/// How every record begins.
const BEGIN: &[u8] = b"{\"v\":";
/// No event line is shorter: so many bytes of zeros may have been one.
const SHORTEST_LINE: usize = 60;
/// Where the number of a damaged line is looked for.
const HEAD_BYTES: usize = 80;

/// A part of a block.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are entries, and boxes would be an allocation for each"
)]
pub(super) enum Piece {
    /// A line.
    Entry {
        entry: Entry,
        /// On state lines: the number of the event it follows.
        after: Option<u64>,
        /// True where the same bytes stand in the line before.
        repeats: bool,
        /// On state lines, which have no number of their own: what tells them apart.
        print: u64,
    },
    /// What could not be read.
    Bad(Bad),
}

/// Bytes that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bad {
    /// Where they begin.
    pub(super) offset: u64,
    pub(super) n_bytes: u64,
    /// One sentence, continuing "bytes were skipped: ".
    pub(super) reason: String,
    /// The number it may have had.
    pub(super) seq: Option<u64>,
    /// How many event lines may be lost with it.
    pub(super) n_lines: u64,
}

/// Reads blocks of one session.
#[derive(Debug, Clone)]
pub(super) struct Parser {
    blobs: BlobStore,
}

impl Parser {
    pub(super) fn new(blobs: BlobStore) -> Self {
        Self { blobs }
    }

    /// The parts of a block of whole lines that begins at an offset; `before` is the line before it.
    pub(super) fn block(&self, offset: u64, block: &[u8], before: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(block.len() / 512 + 1);
        let (mut begin, mut before) = (0, before);
        for end in memchr::memchr_iter(b'\n', block) {
            let line = &block[begin..end];
            let n = pieces.len();
            self.line(offset + begin as u64, line, &mut pieces);
            if line == before {
                for piece in &mut pieces[n..] {
                    if let Piece::Entry { repeats, .. } = piece {
                        *repeats = true;
                    }
                }
            }
            before = line;
            begin = end + 1;
        }
        pieces
    }

    fn line(&self, offset: u64, line: &[u8], pieces: &mut Vec<Piece>) {
        match self.record(offset, line, pieces) {
            Ok(()) => {}
            Err(_) if line.iter().all(u8::is_ascii_whitespace) => {}
            Err(_) if memchr::memchr(0, line).is_some() => self.with_zeros(offset, line, pieces),
            Err(reason) => self.several(offset, line, reason, pieces),
        }
    }

    /// Reads bytes that are to be one record.
    fn record(&self, offset: u64, bytes: &[u8], pieces: &mut Vec<Piece>) -> Result<(), String> {
        let mut lost = Vec::new();
        let read = if blobs::is_packed(bytes) {
            Err(None)
        } else {
            serde_json::from_slice::<Line>(bytes).map_err(Some)
        };
        let line = match read {
            Ok(line) => line,
            Err(first) => {
                let unreadable = |error: serde_json::Error| first.unwrap_or(error).to_string();
                let value: Value = serde_json::from_slice(bytes).map_err(unreadable)?;
                let value = blobs::unpack(value, &self.blobs, &mut lost)?;
                Line::deserialize(migrate(value)?).map_err(|error| error.to_string())?
            }
        };
        let entry = Entry {
            seq: line.seq,
            at: Timestamp(line.at),
            agent: line.agent,
            offset,
            fact: fact(line.record),
        };
        if entry.seq.is_some() != matches!(entry.fact, Fact::Event(_)) {
            return Err("it has a number and should have none, or none and should".to_owned());
        }
        let print = if entry.seq.is_some() {
            0
        } else {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            hasher.finish()
        };
        pieces.push(Piece::Entry {
            entry,
            after: line.after,
            repeats: false,
            print,
        });
        for reason in lost {
            pieces.push(Piece::Bad(Bad {
                offset,
                n_bytes: 0,
                reason: format!("a value of this line is lost: {reason}"),
                seq: None,
                n_lines: 0,
            }));
        }
        Ok(())
    }

    /// Records that stand on one line, one after the other, and damage after them.
    fn several(&self, offset: u64, line: &[u8], reason: String, pieces: &mut Vec<Piece>) {
        let mut values = serde_json::Deserializer::from_slice(line).into_iter::<&RawValue>();
        let (mut begin, mut reason) = (0, Some(reason));
        while let Some(Ok(value)) = values.next() {
            let end = values.byte_offset();
            let begins_at = offset + (end - value.get().len()) as u64;
            if self
                .record(begins_at, value.get().as_bytes(), pieces)
                .is_err()
            {
                break;
            }
            begin = end;
            reason = None;
        }
        let rest = line.get(begin..).unwrap_or_default();
        if !rest.iter().all(u8::is_ascii_whitespace) {
            let reason = reason.unwrap_or_else(|| "what follows a record is none".to_owned());
            pieces.push(bad(offset + begin as u64, rest, reason));
        }
    }

    /// A line in which zeros stand.
    fn with_zeros(&self, offset: u64, line: &[u8], pieces: &mut Vec<Piece>) {
        let n_zeros = memchr::memchr_iter(0, line).count();
        let mut at = 0;
        for part in line.split(|byte| *byte == 0) {
            let begins_at = offset + at as u64;
            let n = pieces.len();
            if at == 0 && !part.is_empty() {
                self.several(begins_at, part, "it is cut off by zeros".to_owned(), pieces);
            } else if !part.iter().all(u8::is_ascii_whitespace) {
                self.several(begins_at, part, String::new(), pieces);
                if pieces[n..]
                    .iter()
                    .any(|piece| matches!(piece, Piece::Bad(_)))
                {
                    pieces.truncate(n);
                    let reason = "it follows zeros and is no whole record".to_owned();
                    pieces.push(bad(begins_at, part, reason));
                }
            }
            at += part.len() + 1;
        }
        pieces.push(Piece::Bad(Bad {
            offset,
            n_bytes: n_zeros as u64,
            reason: format!("{n_zeros} of its bytes are zero"),
            seq: None,
            n_lines: (n_zeros / SHORTEST_LINE + 1) as u64,
        }));
    }
}

/// Whether a last line without an end holds a whole record all the same.
pub(super) fn begins_with_record(tail: &[u8]) -> bool {
    let mut values = serde_json::Deserializer::from_slice(tail).into_iter::<&RawValue>();
    let Some(Ok(value)) = values.next() else {
        return false;
    };
    // A packed line is one where it has a kind.
    serde_json::from_str::<Line>(value.get()).is_ok()
        || serde_json::from_str::<Value>(value.get()).is_ok_and(|line| line.get("type").is_some())
}

/// Damage that may have been lines.
pub(super) fn bad(offset: u64, bytes: &[u8], reason: String) -> Piece {
    let n_begins = memchr::memmem::find_iter(bytes, BEGIN).count();
    Piece::Bad(Bad {
        offset,
        n_bytes: bytes.len() as u64,
        reason,
        seq: number(bytes),
        n_lines: n_begins.max(1) as u64,
    })
}

/// The number of a line that can't be read as a whole.
fn number(bytes: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"\"seq\":";
    let head = bytes.get(..HEAD_BYTES).unwrap_or(bytes);
    let at = memchr::memmem::find(head, NAME)? + NAME.len();
    let digits = head.get(at..)?;
    let n = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    std::str::from_utf8(digits.get(..n)?).ok()?.parse().ok()
}
