use std::io;

use rustix::fs::OFlags;

use super::replace::{changed, check_existing};
use super::{Durability, FileStamp, FsError, ReplaceError, ReplaceOptions, Spot};

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
/// Of the options `expect`, `durability`, `stop` and `disk` count.
///
/// # Errors
/// See [`ReplaceError`]. A write that was cut short is taken back.
pub fn append_once(
    spot: &Spot,
    bytes: &[u8],
    options: &ReplaceOptions<'_>,
) -> Result<Appended, ReplaceError> {
    let path = spot.path();
    let found = spot
        .attributes()
        .map_err(|source| FsError::new("stat", path, source))?;
    let old = check_existing(spot, &found, options.expect)?.stamp;
    let (file, meta) = spot.open_regular(OFlags::WRONLY | OFlags::APPEND)?;
    if FileStamp::from(&meta) != old {
        return Err(changed(path));
    }
    spot.check_still_there()?;
    options.check_stop(path)?;
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
