//! Files kept by hash within a budget: what is oldest goes first.

use std::path::{Path, PathBuf};

use super::blob::{BlobError, BlobStore};
use crate::os::fs::{self, FileKind, FsError};

/// A directory of blobs that may go. Blocking; any number of writers.
#[derive(Debug, Clone)]
pub struct KeptStore {
    blobs: BlobStore,
    max_bytes: u64,
}

impl KeptStore {
    /// Uses a directory, which is made (0700) when the first file is put, for at most this much.
    pub fn new(dir: impl Into<PathBuf>, max_bytes: u64) -> Self {
        Self {
            blobs: BlobStore::new(dir),
            max_bytes,
        }
    }

    /// Stores bytes once and gives their place; makes room by removing the oldest of the others.
    ///
    /// # Errors
    /// They could not be stored, or are more than the whole budget. What could not be removed is tried again next time.
    pub fn put(&self, bytes: &[u8]) -> Result<PathBuf, BlobError> {
        if bytes.len() as u64 > self.max_bytes {
            let source = std::io::Error::from(std::io::ErrorKind::FileTooLarge);
            return Err(FsError::new("write", self.blobs.dir(), source).into());
        }
        let path = self.blobs.path_of(&self.blobs.put(bytes)?);
        if let Err(error) = self.make_room(&path) {
            tracing::warn!(%error, "old files could not be removed");
        }
        Ok(path)
    }

    fn make_room(&self, newest: &Path) -> Result<(), FsError> {
        let mut files: Vec<_> = fs::list_dir(self.blobs.dir())?
            .into_iter()
            .filter(|entry| entry.kind == FileKind::File)
            // Another writer may have removed it meanwhile.
            .filter_map(|entry| Some((fs::stamp_of(&entry.path).ok()?, entry.path)))
            .collect();
        let mut total: u64 = files.iter().map(|(stamp, _)| stamp.size).sum();
        files.sort_by_key(|(stamp, _)| stamp.mtime_ns);
        for (stamp, path) in files {
            if total <= self.max_bytes {
                break;
            }
            if path != newest {
                fs::remove_file_if_present(&path)?;
                total -= stamp.size;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests age files")]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_oldest_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let kept = KeptStore::new(dir.path().join("media"), 10);
        let put = |text: &str, age_s: u64| {
            let path = kept.put(text.as_bytes()).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age_s);
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(then)
                .unwrap();
            path
        };
        let (old, older, young) = (put("old!", 20), put("old", 30), put("new", 10));
        assert!([&old, &older, &young].iter().all(|path| path.exists()));
        // The same again takes no room.
        assert_eq!(kept.put(b"new").unwrap(), young);
        assert!(older.exists());
        let newest = put("x", 100);
        assert!(!older.exists() && old.exists() && young.exists());
        // What is put is never what goes, however old its file.
        let large = kept.put(&[b'y'; 10]).unwrap();
        assert!(large.exists() && !old.exists() && !young.exists() && !newest.exists());
        assert!(kept.put(&[b'z'; 11]).is_err());
        assert!(large.exists());
    }
}
