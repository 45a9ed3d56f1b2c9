//! The raw output of one task on the disk: its beginning, and of a very long one the end. Blocking.

use std::fs::File;
use std::io::Read as _;
use std::io::{self, Seek, SeekFrom, Take};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::os::fs::{self, FsError};

/// Share of a log given to the beginning of an output too long for it, in percent.
const HEAD_PERCENT: u64 = 25;

/// How much of an output a log keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caps {
    /// Of the beginning.
    pub(super) head_bytes: u64,
    /// Of the end.
    pub(super) tail_bytes: u64,
}

impl Caps {
    /// Of a log that keeps everything.
    pub(super) const UNLIMITED: Self = Self {
        head_bytes: u64::MAX / 4,
        tail_bytes: u64::MAX / 4,
    };

    /// Caps of a log of this size at most.
    pub(super) fn of(max_bytes: u64) -> Self {
        let head_bytes = max_bytes * HEAD_PERCENT / 100;
        Self {
            head_bytes,
            // A circle of no bytes could not be gone round.
            tail_bytes: (max_bytes - head_bytes).max(1),
        }
    }

    /// Of an output of this length, what lies between the parts that are kept.
    pub(super) fn gap_bytes(self, n_bytes: u64) -> u64 {
        n_bytes.saturating_sub(self.head_bytes + self.tail_bytes)
    }

    /// How long the file of an output of this length is.
    pub(super) fn file_bytes(self, n_bytes: u64) -> u64 {
        n_bytes.min(self.head_bytes + self.tail_bytes)
    }
}

/// Where the bytes of an output stand in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) caps: Caps,
    /// How long the output is, as far as it is written.
    pub(super) n_bytes: u64,
    /// Whether the end stands in order, as it does once the log is finished.
    pub(super) is_straight: bool,
}

impl Layout {
    /// The first place at or after `offset` of the output that is in the file.
    pub(super) fn first_kept(self, offset: u64) -> u64 {
        let gap = self.caps.gap_bytes(self.n_bytes);
        if gap > 0 && offset >= self.caps.head_bytes {
            offset.max(self.caps.head_bytes + gap)
        } else {
            offset
        }
    }

    /// The place in the file of what is at `offset` of the output, which must be kept there, and how many bytes follow
    /// it without a break.
    pub(super) fn place(self, offset: u64) -> (u64, u64) {
        let Caps {
            head_bytes,
            tail_bytes,
        } = self.caps;
        let gap = self.caps.gap_bytes(self.n_bytes);
        let left = self.n_bytes.saturating_sub(offset);
        match offset.checked_sub(head_bytes) {
            None if gap == 0 => (offset, left),
            None => (offset, head_bytes - offset),
            Some(beyond) if self.is_straight => (head_bytes + beyond - gap, left),
            Some(beyond) => {
                let around = beyond % tail_bytes;
                (head_bytes + around, left.min(tail_bytes - around))
            }
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
        self.caps.gap_bytes(self.n_bytes)
    }

    /// How much was written.
    pub(super) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Puts the log in order and on the disk.
    pub(super) fn finish(mut self) -> Result<(), FsError> {
        if self.straighten()? {
            fs::sync_parent(&self.path)
        } else {
            let synced = self.file.sync_data();
            synced.map_err(|source| FsError::new("sync", &self.path, source))
        }
    }

    /// Puts the parts of a log with a gap in their order, in a new file that takes the place of the old one and is on
    /// the disk. Tells whether that was needed.
    fn straighten(&mut self) -> Result<bool, FsError> {
        let Caps {
            head_bytes,
            tail_bytes,
        } = self.caps;
        let oldest = head_bytes + self.n_bytes.saturating_sub(head_bytes) % tail_bytes;
        if self.gap_bytes() == 0 || oldest == head_bytes {
            return Ok(false);
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
            .try_for_each(|part| copy(part, &mut self.file, &mut new))
            .and_then(|()| new.sync_data());
        let replaced = copied
            .map_err(|source| FsError::new("write", &new_path, source))
            .and_then(|()| fs::rename(&new_path, &self.path));
        if replaced.is_err() {
            // The reason to tell is the first one.
            drop(fs::remove_file_if_present(&new_path));
        }
        replaced.map(|()| true)
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

    /// Every byte that is kept, found by its place.
    fn read_through(path: &Path, layout: Layout) -> Vec<u8> {
        let file = std::fs::read(path).unwrap();
        let (mut offset, mut found) = (0, Vec::new());
        loop {
            offset = layout.first_kept(offset);
            if offset >= layout.n_bytes {
                return found;
            }
            let (place, n) = layout.place(offset);
            found.extend_from_slice(&file[place as usize..(place + n) as usize]);
            offset += n;
        }
    }

    fn kept_of(whole: &[u8], caps: Caps) -> Vec<u8> {
        let (head, tail) = (caps.head_bytes as usize, caps.tail_bytes as usize);
        if whole.len() <= head + tail {
            return whole.to_vec();
        }
        [&whole[..head], &whole[whole.len() - tail..]].concat()
    }

    #[test]
    fn caps_share_a_size() {
        assert_eq!(
            Caps::of(64 << 20),
            Caps {
                head_bytes: 16 << 20,
                tail_bytes: 48 << 20
            }
        );
        assert_eq!(Caps::of(0).file_bytes(9), 1);
    }

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
            let mut layout = Layout {
                caps,
                n_bytes: n_bytes as u64,
                is_straight: false,
            };
            assert_eq!(read_through(&path, layout), kept_of(&whole, caps));
            log.finish().unwrap();
            layout.is_straight = true;
            assert_eq!(read_through(&path, layout), kept_of(&whole, caps));
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
        assert!(Log::create(&path, Caps::of(1 << 20)).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }
}
