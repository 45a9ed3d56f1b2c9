//! Reading some lines of a file of any size in bounded memory.
//!
//! A file is gone over once in chunks to count its lines, judge its text and find where the window begins ([`survey`]);
//! then the window alone is read and rendered ([`lines`]). Of a file above [`Limits::whole_bytes`] only the beginning is
//! judged and only the lines passed over are counted; its end is found from the end. Never more than a chunk and the
//! window is held, however long a line is.

mod lines;
mod survey;

use std::hash::Hasher;
use std::io::{self, Read, Seek, SeekFrom};

use tokio_util::sync::CancellationToken;

use self::lines::{Gather, Lines, gather, render};
use self::survey::{find_from_end, survey};
use super::text::check::NotText;

/// Characters of a line that are shown.
pub(super) const LINE_CHARS: usize = 2000;

/// Sizes at which reading changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Files up to this size are counted whole.
    pub whole_bytes: u64,
    /// So much from the beginning is judged to be text, besides the window.
    pub check_bytes: u64,
    /// Rendered text of a window.
    pub text_bytes: usize,
    /// Characters of a line that are shown; more than the dots of a cut take.
    pub line_chars: usize,
    /// Read at a time.
    pub chunk_bytes: usize,
}

impl Limits {
    /// The limits of the tool.
    pub(super) const READ: Self = Self {
        whole_bytes: 64 << 20,
        check_bytes: 8 << 20,
        text_bytes: 102_400,
        line_chars: LINE_CHARS,
        chunk_bytes: 64 << 10,
    };
}

/// Which lines are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// From 1, or negative: so many from the end.
    pub offset: i64,
    /// At most so many.
    pub n_lines: usize,
}

/// The lines that were read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// Number, tab and content of each line, joined by newlines.
    pub text: String,
    /// How many lines.
    pub n_lines: usize,
    /// Number of the first; negative ones count from the end.
    pub first: i64,
    /// Lines counted.
    pub total: u64,
    /// Whether that is all of them.
    pub total_is_exact: bool,
    /// Lines were left out because the text grew too long.
    pub hit_bytes: bool,
    /// Numbers of lines that were cut.
    pub cut: Vec<i64>,
    /// Carriage returns are shown as `\r`.
    pub mixed: bool,
    /// Numbers of lines that hold the two characters `\r` themselves, where they could be taken for one.
    pub lookalikes: Vec<i64>,
}

/// Why there is no window.
#[derive(Debug)]
pub(super) enum WindowError {
    /// The file is no text where it was judged.
    NotText(NotText),
    /// The system refused.
    Io(io::Error),
    /// The call was cancelled.
    Cancelled,
}

impl From<NotText> for WindowError {
    fn from(reason: NotText) -> Self {
        Self::NotText(reason)
    }
}

impl From<io::Error> for WindowError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// An open file, as large as it was when it was opened.
pub(super) struct Source<'a, F> {
    /// The file.
    pub file: F,
    /// Where its text begins, behind a byte-order mark.
    pub start: u64,
    /// Its size.
    pub end: u64,
    /// Stops a long read.
    pub cancel: &'a CancellationToken,
}

impl<F: Read + Seek> Source<'_, F> {
    /// Hands out the chunks from `from` to the end with their offsets, until `each` says to stop.
    fn chunks(
        &mut self,
        from: u64,
        chunk_bytes: usize,
        mut each: impl FnMut(u64, &[u8]) -> Result<Go, WindowError>,
    ) -> Result<(), WindowError> {
        let mut buffer = vec![0; chunk_bytes];
        let mut at = from;
        self.file.seek(SeekFrom::Start(from))?;
        while at < self.end {
            if self.cancel.is_cancelled() {
                return Err(WindowError::Cancelled);
            }
            let wanted = at_most(self.end - at, chunk_bytes);
            let n_read = match self.file.read(&mut buffer[..wanted]) {
                Ok(0) => break,
                Ok(n_read) => n_read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if each(at, &buffer[..n_read])? == Go::Stop {
                break;
            }
            at += n_read as u64;
        }
        Ok(())
    }
}

/// A distance in a file, as far as it lies within a piece of it.
fn at_most(distance: u64, piece: usize) -> usize {
    usize::try_from(distance).map_or(piece, |distance| distance.min(piece))
}

/// Whether to go on reading.
#[derive(PartialEq, Eq)]
enum Go {
    On,
    Stop,
}

/// Reads a window. `hash` is fed the whole file where it is read whole (from [`Source::start`] on).
pub(super) fn read<F: Read + Seek>(
    source: &mut Source<'_, F>,
    wanted: Wanted,
    limits: Limits,
    hash: &mut dyn Hasher,
) -> Result<Window, WindowError> {
    let is_whole = source.end <= limits.whole_bytes;
    let from_end = wanted.offset < 0;
    let mut survey = survey(source, wanted, limits, hash)?;
    if from_end && !is_whole {
        survey.window = Some(find_from_end(
            source,
            wanted.offset.unsigned_abs(),
            limits.chunk_bytes,
        )?);
    }
    let mut lines = match survey.window {
        Some((offset, number)) if offset < source.end => gather(
            source,
            &mut survey,
            limits,
            &Gather {
                offset,
                number,
                n_lines: wanted.n_lines,
                from_end,
            },
        )?,
        _ => Lines::default(),
    };
    // A `\r` at the end of what was judged is followed by something.
    survey.endings.end(false);
    let last = lines.first + lines.kept.len() as i64 - 1;
    let mut window = render(&mut lines, survey.endings.style(), limits, from_end);
    window.total_is_exact = is_whole;
    window.total = match survey.window {
        _ if is_whole => survey.n_lines(source),
        Some((_, number)) if from_end => number.unsigned_abs(),
        _ => survey.n_newlines.max(last.max(0) as u64),
    };
    Ok(window)
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
