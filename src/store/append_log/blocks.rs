use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::os::fs::{self, FsError};

/// Reads a log in blocks of whole lines, for readers that want many of them. A partial last line is not shown.
#[derive(Debug)]
pub struct BlockReader {
    file: File,
    path: PathBuf,
    /// Where the next block begins.
    offset: u64,
    end: u64,
    /// What was read beyond the last whole line.
    rest: Vec<u8>,
    max_line_bytes: usize,
}

/// Whole lines that follow one another, or one that is too long to be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Block {
    /// Lines, each with its newline.
    Lines {
        /// Where the first one begins.
        offset: u64,
        /// Their bytes.
        bytes: Vec<u8>,
    },
    /// A line over the cap, skipped.
    TooLong {
        /// Where it begins.
        offset: u64,
        /// Its length.
        n_bytes: u64,
    },
}

impl BlockReader {
    /// Opens a log for reading from an offset at which a line begins to where it ends now.
    pub fn open(path: &Path, offset: u64, max_line_bytes: usize) -> Result<Self, FsError> {
        let (mut file, meta) = fs::open_read(path)?;
        file.seek(SeekFrom::Start(offset))
            .map_err(|source| FsError::new("seek in", path, source))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            offset,
            end: meta.len(),
            rest: Vec::new(),
            max_line_bytes,
        })
    }

    /// Bytes that were not given yet.
    pub fn remaining(&self) -> u64 {
        self.end.saturating_sub(self.offset)
    }

    /// Gives the next lines, about so many bytes of them, or one where it is longer; `None` at the end of the last whole
    /// line.
    pub fn next(&mut self, about: usize) -> Result<Option<Block>, FsError> {
        let mut bytes = std::mem::take(&mut self.rest);
        loop {
            let before = bytes.len();
            let wanted = about.max(before / 2).max(1) as u64;
            let left = self.end.saturating_sub(self.offset + before as u64);
            let n = (&mut self.file)
                .take(wanted.min(left))
                .read_to_end(&mut bytes)
                .map_err(|source| self.failed(source))?;
            // What was left over holds no newline, so only the new bytes can.
            if let Some(last) = memchr::memrchr(b'\n', &bytes[before..]) {
                let end = before + last + 1;
                self.rest = bytes.split_off(end);
                let offset = self.advance(end as u64);
                return Ok(Some(Block::Lines { offset, bytes }));
            }
            if n == 0 {
                return Ok(None);
            }
            if bytes.len() > self.max_line_bytes {
                return self.skip(bytes);
            }
        }
    }

    /// Passes over the rest of a line that is too long already.
    fn skip(&mut self, mut bytes: Vec<u8>) -> Result<Option<Block>, FsError> {
        let mut n_bytes = bytes.len() as u64;
        loop {
            let left = self.end.saturating_sub(self.offset + n_bytes);
            bytes.clear();
            (&mut self.file)
                .take(left.min(1 << 20))
                .read_to_end(&mut bytes)
                .map_err(|source| self.failed(source))?;
            if bytes.is_empty() {
                return Ok(None);
            }
            if let Some(at) = memchr::memchr(b'\n', &bytes) {
                n_bytes += at as u64;
                // Lines that follow are read again, since `next` looks for none in what is left over.
                let back = (bytes.len() - at - 1) as i64;
                self.file
                    .seek(SeekFrom::Current(-back))
                    .map_err(|source| self.failed(source))?;
                let offset = self.advance(n_bytes + 1);
                return Ok(Some(Block::TooLong { offset, n_bytes }));
            }
            n_bytes += bytes.len() as u64;
        }
    }

    fn advance(&mut self, by: u64) -> u64 {
        let offset = self.offset;
        self.offset += by;
        offset
    }

    fn failed(&self, source: io::Error) -> FsError {
        FsError::new("read", &self.path, source)
    }
}
