use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::read::{OPEN_FLAGS, open_regular};
use super::replace::{changed, check_existing};
use super::{Durability, FileStamp, FsError, ReplaceError, ReplaceOptions};

/// An append that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Where the new bytes begin.
    pub offset: u64,
    /// The file as it stands now.
    pub stamp: FileStamp,
}

/// Adds bytes at the end of an existing file with a single write, so that other writers' lines are never split.
///
/// `path` is resolved, as for [`super::atomic_replace`]; of the options `expect`, `durability` and `disk` count.
///
/// # Errors
/// See [`ReplaceError`]. A write that was cut short is taken back.
pub fn append_once(
    path: &Path,
    bytes: &[u8],
    options: &ReplaceOptions<'_>,
) -> Result<Appended, ReplaceError> {
    let meta = super::symlink_metadata(path)?;
    let old = check_existing(path, &meta, options.expect)?;
    let mut open = OpenOptions::new();
    open.append(true)
        .custom_flags(OPEN_FLAGS | libc::O_NOFOLLOW);
    let (file, meta) = open_regular(path, &open)?;
    if FileStamp::from(&meta) != old {
        return Err(changed(path));
    }
    let write = || {
        let n_written = options.disk.write(&file, bytes)?;
        if n_written < bytes.len() {
            options.disk.truncate(&file, old.size)?;
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        match options.durability {
            Durability::Disk => options.disk.sync_data(&file),
            Durability::Kernel => Ok(()),
        }
    };
    write().map_err(|source| FsError::new("append to", path, source))?;
    let meta = file
        .metadata()
        .map_err(|source| FsError::new("stat", path, source))?;
    Ok(Appended {
        offset: old.size,
        stamp: FileStamp::from(&meta),
    })
}
