//! An append-only file of lines.
//!
//! One writer, which the system sees to by a lock on the file itself, and any number of readers. A line is in the kernel
//! when [`AppendLog::append`] returns and on disk after the next [`AppendLog::sync`]. A crash can leave a partial last
//! line: it is cut (or completed, where its owner knows that nothing but its end is missing) when the log is next opened
//! for writing, and never shown to readers.

mod blocks;
mod read;

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use blocks::{Block, BlockReader};
pub use read::{Line, LineReader, Lines};

use crate::os::blocking;
use crate::os::fs::{self, Disk, FileStamp, FsError, RealDisk, write_all};

/// Bytes of a partial last line that are looked at. Chosen: far above any line that was torn while it was written.
const MAX_TAIL: u64 = 64 << 20;

/// A log open for appending.
#[derive(Debug)]
pub struct AppendLog {
    file: Arc<File>,
    path: PathBuf,
    /// Length up to the last whole line: where the next line begins.
    len: u64,
    /// Bytes beyond `len` that could not be cut off yet.
    dirty: bool,
    disk: Arc<dyn Disk>,
    syncs: Arc<Syncs>,
}

/// What was appended and what of it is on the disk.
#[derive(Debug, Default)]
struct Syncs {
    /// Where the last appended line ends.
    appended: AtomicU64,
    /// A failed sync may have dropped what it could not write, so no later one can vouch for it.
    has_failed: AtomicBool,
    /// Up to where it is on the disk. Whoever wants more waits for who is at it, and is often served with it.
    synced: tokio::sync::Mutex<u64>,
}

/// A log just opened.
#[derive(Debug)]
pub struct OpenedLog {
    /// The log.
    pub log: AppendLog,
    /// The partial last line, if there was one.
    pub torn: Option<TornTail>,
}

/// What to do with a partial last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// It is half a line, and goes.
    Cut,
    /// Only its newline is missing, and comes.
    Complete,
}

/// A partial last line, left by a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// Where it began.
    pub offset: u64,
    /// How long it was.
    pub n_bytes: u64,
    /// What became of it.
    pub tail: Tail,
}

/// A handle that puts a log on disk while its owner goes on appending.
#[derive(Debug, Clone)]
pub struct LogSyncer {
    file: Arc<File>,
    path: PathBuf,
    disk: Arc<dyn Disk>,
    syncs: Arc<Syncs>,
}

impl AppendLog {
    /// Opens a log, making it (0600) when it is missing. Its directory exists.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] where somebody has it open for appending.
    pub fn open(path: &Path) -> Result<OpenedLog, FsError> {
        Self::open_on(path, Arc::new(RealDisk))
    }

    /// As [`Self::open`], on a given disk.
    pub fn open_on(path: &Path, disk: Arc<dyn Disk>) -> Result<OpenedLog, FsError> {
        Self::open_judged(path, disk, |_| Tail::Cut)
    }

    /// As [`Self::open_on`]; `judge` is given a partial last line (its beginning, where it is very long) before anything
    /// becomes of it.
    pub fn open_judged(
        path: &Path,
        disk: Arc<dyn Disk>,
        judge: impl FnOnce(&[u8]) -> Tail,
    ) -> Result<OpenedLog, FsError> {
        let context =
            |action: &'static str| move |source: io::Error| FsError::new(action, path, source);
        let mut options = OpenOptions::new();
        options
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC);
        let is_new = matches!(fs::symlink_metadata(path), Err(error) if error.is_not_found());
        let file = options.open(path).map_err(context("open"))?;
        let meta = file.metadata().map_err(context("stat"))?;
        if !meta.is_file() {
            return Err(FsError::new(
                "open",
                path,
                fs::NotRegular(meta.file_type().into()),
            ));
        }
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => context("lock")(io::ErrorKind::ResourceBusy.into()),
            TryLockError::Error(error) => context("lock")(error),
        })?;
        if is_new {
            fs::sync_parent(path)?;
        }
        let size = file.metadata().map_err(context("stat"))?.len();
        let whole = end_of_last_line(&file, size).map_err(context("read"))?;
        let mut log = Self {
            file: Arc::new(file),
            path: path.to_owned(),
            len: whole,
            dirty: false,
            disk,
            syncs: Arc::default(),
        };
        let torn = if whole < size {
            Some(log.mend(size, judge)?)
        } else {
            None
        };
        log.syncs.appended.store(log.len, Ordering::SeqCst);
        Ok(OpenedLog { log, torn })
    }

    fn mend(&mut self, size: u64, judge: impl FnOnce(&[u8]) -> Tail) -> Result<TornTail, FsError> {
        let (offset, n_bytes) = (self.len, size - self.len);
        let mut bytes = vec![0; n_bytes.min(MAX_TAIL) as usize];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(|source| self.error("read", source))?;
        let mut tail = judge(&bytes);
        // Where there is no room for a newline, what it would end was never said to be kept.
        if tail == Tail::Complete && write_all(&*self.disk, &self.file, b"\n").is_err() {
            tail = Tail::Cut;
        }
        match tail {
            Tail::Complete => self.len = size + 1,
            Tail::Cut => self
                .disk
                .truncate(&self.file, offset)
                .map_err(|source| self.error("truncate", source))?,
        }
        Ok(TornTail {
            offset,
            n_bytes,
            tail,
        })
    }

    /// Whether its name still stands for it: where it was moved away or removed, nobody would find what is appended.
    pub fn is_current(&self) -> bool {
        let here = self.file.metadata().map(|meta| FileStamp::from(&meta));
        here.is_ok_and(|here| {
            fs::stamp_of(&self.path)
                .is_ok_and(|there| (there.dev, there.ino) == (here.dev, here.ino))
        })
    }

    /// Gives up the right to append, for somebody else to open it.
    pub fn release(&self) {
        // Closing the file would do, but who syncs it may still have it open.
        drop(self.file.unlock());
    }

    /// Where the log is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length: the offset at which the next line will begin.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds no line.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds one line, given without its newline, with a single write to the kernel. Returns where it stands.
    ///
    /// Blocks as long as a write to the page cache does.
    ///
    /// # Errors
    /// A newline inside the line is [`io::ErrorKind::InvalidInput`]. When the disk refuses (full, broken), the log is
    /// cut back to its last whole line, and the next append can succeed.
    pub fn append(&mut self, line: &[u8]) -> Result<Range<u64>, FsError> {
        self.append_all(std::iter::once(line))
    }

    /// Adds several lines with a single write: all of them or none.
    pub fn append_all<L: AsRef<[u8]>>(
        &mut self,
        lines: impl IntoIterator<Item = L>,
    ) -> Result<Range<u64>, FsError> {
        let mut block = Vec::new();
        for line in lines {
            let line = line.as_ref();
            if memchr::memchr(b'\n', line).is_some() {
                return Err(self.error("append to", io::ErrorKind::InvalidInput.into()));
            }
            block.extend_from_slice(line);
            block.push(b'\n');
        }
        self.cut_back()?;
        let start = self.len;
        match write_all(&*self.disk, &self.file, &block) {
            Ok(()) => {
                self.len += block.len() as u64;
                self.syncs.appended.store(self.len, Ordering::SeqCst);
                Ok(start..self.len)
            }
            Err(error) => {
                self.dirty = true;
                // When even the cut fails it is tried again before the next append, and made by the next open.
                drop(self.cut_back());
                Err(self.error("append to", error))
            }
        }
    }

    /// Puts everything appended so far on disk, on the blocking pool.
    ///
    /// # Errors
    /// After a failure every later sync fails too: the system may have dropped the data, and only opening the log
    /// anew tells what is left of it.
    pub async fn sync(&self) -> Result<(), FsError> {
        self.syncer().sync().await
    }

    /// A handle for syncing without holding the log.
    pub fn syncer(&self) -> LogSyncer {
        LogSyncer {
            file: Arc::clone(&self.file),
            path: self.path.clone(),
            disk: Arc::clone(&self.disk),
            syncs: Arc::clone(&self.syncs),
        }
    }

    /// Reads lines from an offset where one begins, up to what was appended until now.
    pub fn read_from(&self, offset: u64) -> Result<LineReader, FsError> {
        LineReader::open(&self.path, offset..self.len)
    }

    fn cut_back(&mut self) -> Result<(), FsError> {
        if self.dirty {
            self.disk
                .truncate(&self.file, self.len)
                .map_err(|source| self.error("truncate", source))?;
            self.dirty = false;
        }
        Ok(())
    }

    fn error(&self, action: &'static str, source: io::Error) -> FsError {
        FsError::new(action, &self.path, source)
    }
}

impl Drop for AppendLog {
    fn drop(&mut self) {
        self.release();
    }
}

impl LogSyncer {
    /// Puts everything that was appended before the call on disk; see [`AppendLog::sync`]. Calls that come while one is at
    /// it share the next.
    pub async fn sync(&self) -> Result<(), FsError> {
        let wanted = self.syncs.appended.load(Ordering::SeqCst);
        let mut synced = self.syncs.synced.lock().await;
        if *synced >= wanted && !self.syncs.has_failed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let this = self.clone();
        *synced = blocking::run(move || this.sync_now()).await?;
        Ok(())
    }

    /// The same, in the calling thread.
    pub fn sync_blocking(&self) -> Result<(), FsError> {
        self.sync_now().map(drop)
    }

    /// Gives up to where everything is on the disk.
    fn sync_now(&self) -> Result<u64, FsError> {
        let failed = |source: io::Error| FsError::new("sync", &self.path, source);
        if self.syncs.has_failed.load(Ordering::SeqCst) {
            return Err(failed(io::Error::other("an earlier sync failed")));
        }
        let appended = self.syncs.appended.load(Ordering::SeqCst);
        self.disk.sync_data(&self.file).map_err(|source| {
            self.syncs.has_failed.store(true, Ordering::SeqCst);
            failed(source)
        })?;
        Ok(appended)
    }
}

/// Finds where the last newline-ended line ends, reading backwards in blocks.
fn end_of_last_line(file: &File, size: u64) -> io::Result<u64> {
    const BLOCK: u64 = 64 * 1024;
    let mut end = size;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        block.resize((end - start) as usize, 0);
        file.read_exact_at(&mut block, start)?;
        if let Some(index) = memchr::memrchr(b'\n', &block) {
            return Ok(start + index as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests;
