//! A lock between processes that dies with its holder.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fs::{self, FileStamp, FsError};

/// How often a lock that is taken is tried again, and how long between: who only asks for its holder has it for a moment.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(2);

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Someone holds it; `pid` is what the holder wrote, for messages only.
    #[error("{} is locked{}", path.display(), pid.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The holder, if its note could be read.
        pid: Option<u32>,
    },
    /// The lock file could not be used.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// An exclusive lock on a file, held until dropped or until this process ends in whatever way.
///
/// The file itself stays: removing it would let two holders lock two files of one name.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    path: PathBuf,
}

impl FileLock {
    /// Takes the lock, making the file (0600) when it is missing, and notes pid and `started_at` (any text) in it for
    /// others' messages, where there is room for that. Waits for no holder. Blocking.
    pub fn acquire(path: &Path, started_at: &str) -> Result<Self, LockError> {
        let mut file = fs::create_private_file(path)?;
        let mut n_tries = 1;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if n_tries < TRIES => {
                    n_tries += 1;
                    std::thread::sleep(BETWEEN_TRIES);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::Locked {
                        path: path.to_owned(),
                        pid: noted_pid(&mut file),
                    });
                }
                Err(TryLockError::Error(error)) => {
                    return Err(FsError::new("lock", path, error).into());
                }
            }
        }
        let note = format!("{} {started_at}\n", std::process::id());
        let write_note = |file: &mut File| {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(note.as_bytes())
        };
        if let Err(error) = write_note(&mut file) {
            // The lock holds without it; a full disk must not keep anybody from reading a session.
            tracing::warn!(path = %path.display(), %error, "the holder of a lock could not be noted");
        }
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Takes the lock, waiting for as long as somebody else has it: for locks that are held for a moment only. Blocking.
    pub fn wait(path: &Path) -> Result<Self, FsError> {
        let file = fs::create_private_file(path)?;
        file.lock()
            .map_err(|error| FsError::new("lock", path, error))?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Tells who holds the lock: `None` when nobody does. Takes nothing for longer than the question.
    pub fn holder(path: &Path) -> Result<Option<LockError>, FsError> {
        let (mut file, _) = match fs::open_read(path) {
            Ok(opened) => opened,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(LockError::Locked {
                path: path.to_owned(),
                pid: noted_pid(&mut file),
            })),
            Err(TryLockError::Error(error)) => Err(FsError::new("lock", path, error)),
        }
    }

    /// Whether its name still leads to this file: where it does not, somebody else may hold a lock of the same name.
    pub fn is_in_place(&self) -> bool {
        let (Ok(held), Ok(named)) = (self.file.metadata(), fs::metadata(&self.path)) else {
            return false;
        };
        (held.dev(), held.ino()) == (named.dev(), named.ino())
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Something that tells whether the lock still keeps others out, and does not prolong it.
    pub fn watch(&self) -> Result<LockWatch, FsError> {
        let meta = self.file.metadata();
        let meta = meta.map_err(|error| FsError::new("stat", &self.path, error))?;
        Ok(LockWatch {
            path: self.path.clone(),
            locked: FileStamp::from(&meta),
        })
    }
}

/// Knows which file was locked.
///
/// A lock belongs to a file, not to its name: where the name stands for another file by now, somebody else can hold a
/// lock of that name.
#[derive(Debug, Clone)]
pub struct LockWatch {
    path: PathBuf,
    locked: FileStamp,
}

impl LockWatch {
    /// Whether the name still stands for the file that was locked.
    pub fn holds(&self) -> bool {
        fs::stamp_of(&self.path)
            .is_ok_and(|now| (now.dev, now.ino) == (self.locked.dev, self.locked.ino))
    }

    /// What the holder of the lock of that name noted, if it could be read: not this process any more.
    pub fn other_holder(&self) -> Option<u32> {
        match FileLock::holder(&self.path) {
            Ok(Some(LockError::Locked { pid, .. })) => pid,
            _ => None,
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file would do; a duplicate on its way through a spawn must not prolong the lock.
        drop(self.file.unlock());
    }
}

fn noted_pid(file: &mut File) -> Option<u32> {
    let mut note = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(64).read_to_string(&mut note).ok()?;
    note.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert!(FileLock::holder(&path).unwrap().is_none());
        let lock = FileLock::acquire(&path, "2026-01-01T00:00:00.000Z").unwrap();
        let refusal = FileLock::acquire(&path, "").unwrap_err();
        let me = std::process::id();
        assert!(
            matches!(refusal, LockError::Locked { pid: Some(pid), .. } if pid == me),
            "{refusal}"
        );
        assert!(
            refusal
                .to_string()
                .ends_with(&format!("is locked by process {me}"))
        );
        assert!(FileLock::holder(&path).unwrap().is_some());
        drop(lock);
        assert!(FileLock::holder(&path).unwrap().is_none());
        FileLock::acquire(&path, "").unwrap();
    }

    /// Whoever asks who holds a lock has it for a moment; that keeps nobody else from it.
    #[test]
    fn asking_for_the_holder_keeps_nobody_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_done.load(std::sync::atomic::Ordering::SeqCst) {
                        FileLock::holder(&path).unwrap();
                    }
                });
            }
            let taken = (0..200).map(|_| FileLock::acquire(&path, "").map(drop));
            let taken: Result<Vec<()>, LockError> = taken.collect();
            is_done.store(true, std::sync::atomic::Ordering::SeqCst);
            taken.unwrap();
        });
    }

    #[test]
    fn a_lock_whose_file_was_replaced_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = FileLock::acquire(&path, "").unwrap();
        let watch = first.watch().unwrap();
        assert!(watch.holds());
        fs::remove_file(&path).unwrap();
        assert!(!watch.holds() && watch.other_holder().is_none());
        let second = FileLock::acquire(&path, "").unwrap();
        assert!(!watch.holds() && second.watch().unwrap().holds());
        assert_eq!(watch.other_holder(), Some(std::process::id()));
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the test removes the file of another"
    )]
    fn a_lock_whose_name_is_gone_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = FileLock::acquire(&path, "").unwrap();
        assert!(lock.is_in_place());
        std::fs::remove_file(&path).unwrap();
        assert!(!lock.is_in_place());
        let other = FileLock::acquire(&path, "").unwrap();
        assert!(!lock.is_in_place() && other.is_in_place());
    }

    #[test]
    fn one_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = FileLock::wait(&path).unwrap();
        assert!(FileLock::holder(&path).unwrap().is_some());
        let waiting = std::thread::spawn(move || FileLock::wait(&path).map(drop));
        drop(lock);
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn a_missing_directory_is_an_error_with_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let error = FileLock::acquire(&dir.path().join("absent/lock"), "").unwrap_err();
        assert!(error.to_string().contains("absent/lock"), "{error}");
    }
}
