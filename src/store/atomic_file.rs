//! A small private document that is always either the old one or the new one.

use std::path::Path;

use crate::os::fs::{
    self, Disk, Durability, Expect, FsError, NewMode, RealDisk, ReplaceError, ReplaceOptions, Spot,
    atomic_replace,
};

/// Replaces a document (0600 when new) and puts it on disk. Its directory exists. Blocking.
///
/// # Errors
/// The old document is intact.
pub fn write(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), FsError> {
    write_on(&RealDisk, path, bytes, durability)
}

/// As [`write()`], on a given disk.
pub fn write_on(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> Result<(), FsError> {
    let options = ReplaceOptions {
        expect: Expect::Any,
        durability,
        new_mode: NewMode::Private,
        disk,
        ..ReplaceOptions::default()
    };
    match atomic_replace(&Spot::named(path)?, &[bytes], &options) {
        Ok(_) => Ok(()),
        Err(ReplaceError::Fs(error)) => Err(error),
        Err(other) => Err(FsError::new("write", path, std::io::Error::other(other))),
    }
}

/// Reads a document; `None` when there is none. Blocking.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, FsError> {
    fs::read_if_present(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::os::fs::{Fault, FaultyDisk, Op};

    #[test]
    fn writes_and_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meta.json");
        assert_eq!(read(&path).unwrap(), None);
        write(&path, b"{}", Durability::Disk).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        write(&path, b"{\"a\":1}", Durability::Kernel).unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"{\"a\":1}");
        assert_eq!(fs::list_dir(dir.path()).unwrap().len(), 1);
    }

    #[test]
    fn a_failure_at_any_step_keeps_the_old_one() {
        for op in [Op::Write, Op::SyncData, Op::Rename] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("meta.json");
            write(&path, b"old", Durability::Disk).unwrap();
            let disk = FaultyDisk::new().fail_at(op, 0, Fault::Errno(libc::ENOSPC));
            let error = write_on(&disk, &path, b"new", Durability::Disk).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{op:?}");
            assert_eq!(read(&path).unwrap().unwrap(), b"old", "{op:?}");
            assert_eq!(fs::list_dir(dir.path()).unwrap().len(), 1, "{op:?}");
        }
    }
}
