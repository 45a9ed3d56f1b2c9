//! The first look at a file: is it text, how do its lines end, how many are there, and where does the window begin?

use std::collections::VecDeque;
use std::hash::Hasher;
use std::io::{Read, Seek, SeekFrom};

use super::super::text::check::TextCheck;
use super::super::text::endings::Endings;
use super::{Go, Limits, Source, Wanted, WindowError, at_most};

/// What the first look gave.
#[derive(Default)]
pub(super) struct Survey {
    /// Judges what is judged.
    pub check: TextCheck,
    /// Its line endings.
    pub endings: Endings,
    /// Newlines passed over.
    pub n_newlines: u64,
    /// Offset and number of the first wanted line.
    pub window: Option<(u64, i64)>,
    /// How far it got.
    at: u64,
    ends_in_newline: bool,
}

impl Survey {
    /// The lines of a file that was gone over whole.
    pub(super) fn n_lines<F>(&self, source: &Source<'_, F>) -> u64 {
        self.n_newlines + u64::from(!self.ends_in_newline && source.end > source.start)
    }
}

/// Goes over the file from its beginning, as far as is needed.
pub(super) fn survey<F: Read + Seek>(
    source: &mut Source<'_, F>,
    wanted: Wanted,
    limits: Limits,
    hash: &mut dyn Hasher,
) -> Result<Survey, WindowError> {
    let (start, end) = (source.start, source.end);
    let is_whole = end <= limits.whole_bytes;
    let check_end = start + limits.check_bytes;
    let n_from_end = usize::try_from(-wanted.offset).unwrap_or(0);
    let mut survey = Survey {
        at: start,
        ..Survey::default()
    };
    // Where the last lines begin, as many as are wanted from the end.
    let mut starts = VecDeque::new();
    if wanted.offset == 1 {
        survey.window = Some((start, 1));
    } else if n_from_end > 0 {
        starts.push_back(start);
    }
    source.chunks(start, limits.chunk_bytes, |at, chunk| {
        let n_checked = at_most(check_end.saturating_sub(at), chunk.len());
        if n_checked > 0 {
            survey.check.feed(at, &chunk[..n_checked])?;
            survey.endings.feed(&chunk[..n_checked]);
        }
        if is_whole {
            hash.write(chunk);
        }
        if n_from_end > 0 && is_whole {
            for newline in memchr::memchr_iter(b'\n', chunk) {
                survey.n_newlines += 1;
                starts.push_back(at + newline as u64 + 1);
                if starts.len() > n_from_end + 1 {
                    starts.pop_front();
                }
            }
        } else {
            let n_newlines = memchr::memchr_iter(b'\n', chunk).count() as u64;
            let n_before = (wanted.offset - 1).max(0) as u64;
            if survey.window.is_none() && n_before > 0 && survey.n_newlines + n_newlines >= n_before
            {
                let nth = (n_before - survey.n_newlines - 1) as usize;
                let newline = memchr::memchr_iter(b'\n', chunk).nth(nth);
                survey.window = newline.map(|newline| (at + newline as u64 + 1, wanted.offset));
            }
            survey.n_newlines += n_newlines;
        }
        survey.ends_in_newline = chunk.last() == Some(&b'\n');
        survey.at = at + chunk.len() as u64;
        let is_found = survey.window.is_some() || n_from_end > 0;
        Ok(if !is_whole && is_found && survey.at >= check_end {
            Go::Stop
        } else {
            Go::On
        })
    })?;
    if survey.at >= end && end <= check_end {
        survey.check.end()?;
        survey.endings.end(true);
    }
    // A line that would begin where the file ends is none.
    if starts.back() == Some(&end) {
        starts.pop_back();
    }
    while starts.len() > n_from_end {
        starts.pop_front();
    }
    if is_whole && let Some(first) = starts.front() {
        let number = survey.n_lines(source) - starts.len() as u64 + 1;
        survey.window = Some((*first, number as i64));
    }
    Ok(survey)
}

/// Where the last `n_lines` begin, and the negative number of the first of them.
pub(super) fn find_from_end<F: Read + Seek>(
    source: &mut Source<'_, F>,
    n_lines: u64,
    chunk_bytes: usize,
) -> Result<(u64, i64), WindowError> {
    let mut buffer = vec![0; chunk_bytes];
    let mut n_found = 0;
    let mut at = source.end;
    while at > source.start {
        if source.cancel.is_cancelled() {
            return Err(WindowError::Cancelled);
        }
        let from = at.saturating_sub(chunk_bytes as u64).max(source.start);
        let chunk = &mut buffer[..at_most(at - from, chunk_bytes)];
        source.file.seek(SeekFrom::Start(from))?;
        source.file.read_exact(chunk)?;
        for newline in memchr::memrchr_iter(b'\n', chunk) {
            let after = from + newline as u64 + 1;
            if after == source.end {
                continue;
            }
            n_found += 1;
            if n_found == n_lines {
                return Ok((after, -(n_lines as i64)));
            }
        }
        at = from;
    }
    Ok((source.start, -(n_found as i64 + 1)))
}
