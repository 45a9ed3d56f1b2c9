//! A file of lines that several processes append to and nobody owns: for caches that can be made anew.
//!
//! Each append is one write that begins on a fresh line, so that a line torn by a crash spoils no other. A rewrite
//! replaces the file; who appends at that moment waits and then writes to the new one.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::atomic_file;
use crate::os::fs::{self, Disk, Durability, FileStamp, FsError, RealDisk, write_all};

/// How often an append that meets a rewrite is tried, and how long between. Chosen: a rewrite takes milliseconds and comes
/// once in thousands of appends; where one takes longer, its process is stopped, and nobody may wait for that.
const TRIES: u32 = 250;
const BETWEEN_TRIES: Duration = Duration::from_millis(2);

/// A log that is shared by processes.
#[derive(Debug, Clone)]
pub struct SharedLog {
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

impl SharedLog {
    /// The log at a path, whether or not it exists.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::on(path, Arc::new(RealDisk))
    }

    /// The same on a given disk.
    pub fn on(path: impl Into<PathBuf>, disk: Arc<dyn Disk>) -> Self {
        let path = path.into();
        Self { path, disk }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines without their first line break. Makes the file (0600) and its directory (0700). Blocking, for
    /// half a second at most where somebody rewrites it.
    pub fn append(&self, lines: &[u8]) -> Result<(), FsError> {
        let mut bytes = Vec::with_capacity(lines.len() + 2);
        bytes.push(b'\n');
        bytes.extend_from_slice(lines);
        bytes.push(b'\n');
        for _ in 0..TRIES {
            let file = self.open()?;
            match file.try_lock_shared() {
                Ok(()) if self.is_current(&file)? => {
                    return write_all(&*self.disk, &file, &bytes)
                        .map_err(self.context("append to"));
                }
                // It was replaced just now.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_TRIES),
                Err(TryLockError::Error(error)) => return Err(self.context("lock")(error)),
            }
        }
        Err(FsError::new(
            "append to",
            &self.path,
            std::io::Error::from(std::io::ErrorKind::ResourceBusy),
        ))
    }

    /// All of it; nothing where there is no file. Blocking.
    pub fn read(&self) -> Result<Vec<u8>, FsError> {
        fs::read_if_present(&self.path).map(Option::unwrap_or_default)
    }

    /// Replaces the content by what `make` makes of it. False, and nothing is done, where somebody is writing.
    /// Blocking.
    pub fn rewrite(&self, make: impl FnOnce(&[u8]) -> Vec<u8>) -> Result<bool, FsError> {
        let file = self.open()?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(self.context("lock")(error)),
        }
        if !self.is_current(&file)? {
            return Ok(false);
        }
        let bytes = make(&self.read()?);
        atomic_file::write_on(&*self.disk, &self.path, &bytes, Durability::Kernel)?;
        Ok(true)
    }

    fn open(&self) -> Result<File, FsError> {
        match fs::open_append(&self.path) {
            Err(error) if error.is_not_found() => {
                if let Some(dir) = self.path.parent() {
                    fs::create_private_dirs(dir)?;
                }
                fs::open_append(&self.path)
            }
            opened => opened,
        }
    }

    /// Whether the name still stands for this file.
    fn is_current(&self, file: &File) -> Result<bool, FsError> {
        let here = FileStamp::from(&file.metadata().map_err(self.context("stat"))?);
        Ok(fs::stamp_of(&self.path)
            .is_ok_and(|there| (there.dev, there.ino) == (here.dev, here.ino)))
    }

    fn context(&self, action: &'static str) -> impl FnOnce(std::io::Error) -> FsError + '_ {
        move |source| FsError::new(action, &self.path, source)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn lines(log: &SharedLog) -> Vec<String> {
        String::from_utf8(log.read().unwrap())
            .unwrap()
            .lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn a_torn_line_spoils_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let log = SharedLog::new(dir.path().join("sub/index.jsonl"));
        assert_eq!(lines(&log), Vec::<String>::new());
        log.append(b"one\ntwo").unwrap();
        fs::open_append(log.path())
            .unwrap()
            .write_all(b"tor")
            .unwrap();
        log.append(b"three").unwrap();
        assert_eq!(lines(&log), ["one", "two", "tor", "three"]);
        assert!(fs::is_private(log.path()));
    }

    /// A process that is stopped while it rewrites must not hold up the others for ever.
    #[test]
    fn an_append_does_not_wait_for_who_never_ends() {
        let dir = tempfile::tempdir().unwrap();
        let log = SharedLog::new(dir.path().join("index.jsonl"));
        log.append(b"one").unwrap();
        let stopped = fs::open_append(log.path()).unwrap();
        stopped.lock().unwrap();
        let error = log.append(b"two").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
        assert!(!log.rewrite(<[u8]>::to_vec).unwrap());
        stopped.unlock().unwrap();
        log.append(b"three").unwrap();
        assert_eq!(lines(&log), ["one", "three"]);
    }

    #[test]
    fn nothing_is_lost_while_it_is_rewritten() {
        const N: usize = 400;
        let dir = tempfile::tempdir().unwrap();
        let log = SharedLog::new(dir.path().join("index.jsonl"));
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    let log = log.clone();
                    scope.spawn(move || {
                        for n in 0..N {
                            log.append(format!("{writer}-{n}").as_bytes()).unwrap();
                        }
                    })
                })
                .collect();
            let rewriter = scope.spawn(|| {
                while !is_done.load(Ordering::SeqCst) {
                    log.rewrite(<[u8]>::to_vec).unwrap();
                }
            });
            for writer in writers {
                writer.join().unwrap();
            }
            is_done.store(true, Ordering::SeqCst);
            rewriter.join().unwrap();
        });
        assert_eq!(lines(&log).len(), 2 * N);
    }
}
