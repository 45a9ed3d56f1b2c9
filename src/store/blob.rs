//! Large values, each in a file named by its SHA-256.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::os::fs::{
    self, Disk, Durability, Expect, FsError, NewMode, RealDisk, ReplaceError, ReplaceOptions, Spot,
    atomic_replace,
};

/// The name of a blob: the SHA-256 of its bytes as 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(String);

/// A text that is not a blob's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a blob name")]
pub struct BlobIdError(String);

/// Why a blob could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// There is no such blob.
    #[error("no blob {0}")]
    Missing(BlobId),
    /// The file's bytes are not those its name stands for.
    #[error("blob {0} is damaged")]
    Damaged(BlobId),
    /// The file system refused.
    #[error(transparent)]
    Fs(#[from] FsError),
}

impl BlobId {
    /// The name of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        use fmt::Write;
        let mut hex = String::with_capacity(64);
        for byte in Sha256::digest(bytes) {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        Self(hex)
    }

    /// The 64 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BlobId {
    type Err = BlobIdError;

    /// Accepts nothing but 64 lower-case hex digits, so that a name read from a file can't lead out of the directory.
    fn from_str(text: &str) -> Result<Self, BlobIdError> {
        let is_hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == 64 && text.bytes().all(is_hex) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BlobIdError(text.to_owned()))
        }
    }
}

/// A directory of blobs. Blocking; any number of writers.
#[derive(Debug, Clone)]
pub struct BlobStore {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
}

impl BlobStore {
    /// Uses a directory, which is made (0700) when the first blob is put.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self::on(dir, Arc::new(RealDisk))
    }

    /// The same on a given disk.
    pub fn on(dir: impl Into<PathBuf>, disk: Arc<dyn Disk>) -> Self {
        let dir = dir.into();
        Self { dir, disk }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where a blob stands, whether or not it exists.
    pub fn path_of(&self, id: &BlobId) -> PathBuf {
        self.dir.join(id.as_str())
    }

    /// Stores bytes once and puts them on disk, so that a record naming them can follow. Storing them again, by
    /// anyone, costs no write.
    pub fn put(&self, bytes: &[u8]) -> Result<BlobId, BlobError> {
        let id = BlobId::of(bytes);
        let path = self.path_of(&id);
        // Anything else of that name is the leavings of a broken disk and is written anew.
        let is_there = fs::symlink_metadata(&path)
            .is_ok_and(|meta| meta.is_file() && meta.len() == bytes.len() as u64);
        if is_there {
            return Ok(id);
        }
        fs::create_private_dirs(&self.dir)?;
        let options = ReplaceOptions {
            expect: Expect::Any,
            durability: Durability::Disk,
            new_mode: NewMode::Private,
            disk: &*self.disk,
            ..ReplaceOptions::default()
        };
        match atomic_replace(&Spot::named(&path)?, &[bytes], &options) {
            // Another writer was faster; the name says that its bytes are ours.
            Ok(_) | Err(ReplaceError::Changed { .. } | ReplaceError::Exists { .. }) => Ok(id),
            Err(ReplaceError::Fs(error)) => Err(error.into()),
            Err(other) => Err(FsError::new("write", &path, std::io::Error::other(other)).into()),
        }
    }

    /// Reads a blob and checks it against its name.
    pub fn get(&self, id: &BlobId) -> Result<Vec<u8>, BlobError> {
        match fs::read_if_present(&self.path_of(id))? {
            None => Err(BlobError::Missing(id.clone())),
            Some(bytes) if BlobId::of(&bytes) == *id => Ok(bytes),
            Some(_) => Err(BlobError::Damaged(id.clone())),
        }
    }

    /// Whether a blob is there, without reading it.
    pub fn contains(&self, id: &BlobId) -> bool {
        fs::symlink_metadata(&self.path_of(id)).is_ok_and(|meta| meta.is_file())
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests damage the files behind the store"
)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn stored_once_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let store = BlobStore::new(dir.path().join("blobs"));
        let id = store.put(b"hello").unwrap();
        assert_eq!(
            id.as_str(),
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
        );
        let before = fs::metadata(&store.path_of(&id)).unwrap();
        assert_eq!(before.permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::metadata(store.dir()).unwrap().permissions().mode() & 0o777,
            0o700
        );
        assert_eq!(store.put(b"hello").unwrap(), id);
        assert_eq!(
            fs::metadata(&store.path_of(&id)).unwrap().ino(),
            before.ino()
        );
        assert_eq!(store.get(&id).unwrap(), b"hello");
        assert!(store.contains(&id));
    }

    #[test]
    fn missing_and_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let store = BlobStore::new(dir.path());
        let id = BlobId::of(b"hello");
        assert!(matches!(store.get(&id), Err(BlobError::Missing(_))));
        std::fs::write(store.path_of(&id), "hullo").unwrap();
        assert!(matches!(store.get(&id), Err(BlobError::Damaged(_))));
        std::fs::write(store.path_of(&id), "hel").unwrap();
        store.put(b"hello").unwrap();
        assert_eq!(store.get(&id).unwrap(), b"hello");
    }

    #[test]
    fn names_lead_nowhere_else() {
        let good = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!(good.parse::<BlobId>().unwrap().as_str(), good);
        for bad in [
            "",
            "../x",
            &good.to_uppercase(),
            &good[1..],
            &format!("{good}0"),
            &good.replace('2', "/"),
        ] {
            bad.parse::<BlobId>().unwrap_err();
        }
    }
}
