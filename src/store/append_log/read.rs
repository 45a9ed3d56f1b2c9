use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Take};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::os::fs::{self, FsError};

/// How much is read at once.
const BUFFER: usize = 64 * 1024;

/// Reads whole lines of a log, one at a time, in bounded memory. A partial last line is not shown.
#[derive(Debug)]
pub struct LineReader {
    input: BufReader<Take<File>>,
    path: PathBuf,
    offset: u64,
    line: Vec<u8>,
    max_line_bytes: usize,
}

/// A line of a log, without its newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line within the cap.
    Whole {
        /// Where it begins.
        offset: u64,
        /// Its bytes; nothing says that they are UTF-8.
        bytes: &'a [u8],
    },
    /// A line over the cap, skipped.
    TooLong {
        /// Where it begins.
        offset: u64,
        /// Its length.
        n_bytes: u64,
    },
}

/// An owning iterator over the lines of a log within the cap, as `(offset, bytes)`.
#[derive(Debug)]
pub struct Lines {
    reader: LineReader,
}

impl LineReader {
    /// Opens a log for reading the given range of bytes, whose start is the beginning of a line. The range may reach
    /// beyond the end.
    pub fn open(path: &Path, range: Range<u64>) -> Result<Self, FsError> {
        use std::io::Read;
        let (mut file, _) = fs::open_read(path)?;
        file.seek(SeekFrom::Start(range.start))
            .map_err(|source| FsError::new("seek in", path, source))?;
        let input = file.take(range.end.saturating_sub(range.start));
        Ok(Self {
            input: BufReader::with_capacity(BUFFER, input),
            path: path.to_owned(),
            offset: range.start,
            line: Vec::new(),
            max_line_bytes: usize::MAX,
        })
    }

    /// Opens a whole log for reading.
    pub fn open_all(path: &Path) -> Result<Self, FsError> {
        Self::open(path, 0..u64::MAX)
    }

    /// Skips lines longer than this, telling of each.
    #[must_use]
    pub fn with_max_line(mut self, max_line_bytes: usize) -> Self {
        self.max_line_bytes = max_line_bytes;
        self
    }

    /// The offset just after the last line given.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the next line; `None` at the end of the last whole line.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, FsError> {
        self.line.clear();
        let mut n_bytes: u64 = 0;
        loop {
            let available = self
                .input
                .fill_buf()
                .map_err(|source| FsError::new("read", &self.path, source))?;
            if available.is_empty() {
                return Ok(None);
            }
            let newline = memchr::memchr(b'\n', available);
            let piece = &available[..newline.unwrap_or(available.len())];
            n_bytes += piece.len() as u64;
            if n_bytes <= self.max_line_bytes as u64 {
                self.line.extend_from_slice(piece);
            }
            let n_consumed = piece.len() + usize::from(newline.is_some());
            self.input.consume(n_consumed);
            if newline.is_some() {
                break;
            }
        }
        let offset = self.offset;
        self.offset += n_bytes + 1;
        Ok(Some(if n_bytes <= self.max_line_bytes as u64 {
            Line::Whole {
                offset,
                bytes: &self.line,
            }
        } else {
            Line::TooLong { offset, n_bytes }
        }))
    }

    /// Turns into an iterator that copies each line and passes over those that are too long.
    pub fn lines(self) -> Lines {
        Lines { reader: self }
    }
}

impl Iterator for Lines {
    type Item = Result<(u64, Vec<u8>), FsError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.reader.next_line() {
                Ok(Some(Line::Whole { offset, bytes })) => {
                    return Some(Ok((offset, bytes.to_vec())));
                }
                Ok(Some(Line::TooLong { .. })) => {}
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
