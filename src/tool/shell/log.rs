//! The raw output of one command on the disk: its beginning, and of a very long one the end. Blocking.

use std::fs::File;
use std::io::Read as _;
use std::io::{self, Seek, SeekFrom, Take};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::kernel::limits::{COMMAND_LOG_HEAD_BYTES, COMMAND_LOG_TAIL_BYTES};
use crate::os::fs::{self, FsError};

/// How much of an output a log keeps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caps {
    /// Of the beginning.
    pub(super) head_bytes: u64,
    /// Of the end.
    pub(super) tail_bytes: u64,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            head_bytes: COMMAND_LOG_HEAD_BYTES,
            tail_bytes: COMMAND_LOG_TAIL_BYTES,
        }
    }
}

/// A log being written. While it is, the end stands in a circle behind the beginning; [`Self::straighten`] puts it in
/// order.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    path: PathBuf,
    caps: Caps,
    n_bytes: u64,
}

impl Log {
    /// Makes the file (0600) and its directory (0700).
    pub(super) fn create(path: &Path, caps: Caps) -> Result<Self, FsError> {
        if let Some(dir) = path.parent() {
            fs::create_private_dirs(dir)?;
        }
        fs::write_private(path, b"")?;
        let file = fs::create_private_file(path)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            caps,
            n_bytes: 0,
        })
    }

    /// Adds output.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), FsError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (place, room) = self.place();
            let n = rest.len().min(usize::try_from(room).unwrap_or(usize::MAX));
            let (piece, after) = rest.split_at(n);
            self.file
                .write_all_at(piece, place)
                .map_err(|source| FsError::new("write", &self.path, source))?;
            self.n_bytes += n as u64;
            rest = after;
        }
        Ok(())
    }

    /// How much was dropped between beginning and end.
    pub(super) fn gap_bytes(&self) -> u64 {
        self.n_bytes
            .saturating_sub(self.caps.head_bytes + self.caps.tail_bytes)
    }

    /// Puts the parts of a log with a gap in their order, in a new file that takes the place of the old one.
    pub(super) fn straighten(mut self) -> Result<(), FsError> {
        let Caps {
            head_bytes,
            tail_bytes,
        } = self.caps;
        let oldest = head_bytes + self.n_bytes.saturating_sub(head_bytes) % tail_bytes;
        if self.gap_bytes() == 0 || oldest == head_bytes {
            return Ok(());
        }
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let new_path = PathBuf::from(name);
        fs::write_private(&new_path, b"")?;
        let mut new = fs::create_private_file(&new_path)?;
        let parts = [
            (0, head_bytes),
            (oldest, head_bytes + tail_bytes - oldest),
            (head_bytes, oldest - head_bytes),
        ];
        let copy =
            |(start, n_bytes): (u64, u64), file: &mut File, new: &mut File| -> io::Result<()> {
                file.seek(SeekFrom::Start(start))?;
                let mut part: Take<&mut File> = file.take(n_bytes);
                io::copy(&mut part, new).map(drop)
            };
        let copied = parts
            .into_iter()
            .try_for_each(|part| copy(part, &mut self.file, &mut new));
        let replaced = copied
            .map_err(|source| FsError::new("write", &new_path, source))
            .and_then(|()| fs::rename(&new_path, &self.path));
        if replaced.is_err() {
            // The reason to tell is the first one.
            drop(fs::remove_file_if_present(&new_path));
        }
        replaced
    }

    /// Where the next byte goes, and how many fit from there on.
    fn place(&self) -> (u64, u64) {
        let Caps {
            head_bytes,
            tail_bytes,
        } = self.caps;
        match self.n_bytes.checked_sub(head_bytes) {
            None => (self.n_bytes, head_bytes - self.n_bytes),
            Some(beyond) => {
                let around = beyond % tail_bytes;
                (head_bytes + around, tail_bytes - around)
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests look at real files")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn beginning_and_end_are_kept_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let caps = Caps {
            head_bytes: 4,
            tail_bytes: 6,
        };
        for n_bytes in 0..40usize {
            let path = dir.path().join(format!("results/{n_bytes}.log"));
            let whole: Vec<u8> = (0..n_bytes).map(|n| b'0' + n as u8).collect();
            let mut log = Log::create(&path, caps).unwrap();
            for piece in whole.chunks(7) {
                log.append(piece).unwrap();
            }
            let gap = n_bytes.saturating_sub(10);
            assert_eq!(log.gap_bytes(), gap as u64);
            log.straighten().unwrap();
            let expected = if gap == 0 {
                whole
            } else {
                [&whole[..4], &whole[n_bytes - 6..]].concat()
            };
            assert_eq!(std::fs::read(&path).unwrap(), expected, "{n_bytes}");
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        }
        let n_files = std::fs::read_dir(dir.path().join("results"))
            .unwrap()
            .count();
        assert_eq!(n_files, 40);
    }

    #[test]
    fn a_file_that_is_there_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        std::fs::write(&path, "mine").unwrap();
        assert!(Log::create(&path, Caps::default()).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }
}
