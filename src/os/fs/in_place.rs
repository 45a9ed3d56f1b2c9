//! Overwriting a file through its handle, for names that cannot be given to another file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::read::{OPEN_FLAGS, open_regular};
use super::replace::changed;
use super::{
    Disk, Durability, FileStamp, FsError, How, RealDisk, ReplaceError, ReplaceOptions, Replaced,
    TempFile, write_all,
};

/// Where the old content is while the file is being overwritten.
enum Backup {
    Memory(Vec<u8>),
    File(TempFile),
}

/// Writes `parts` over the file, which must still be the one with the stamp `old`.
///
/// The old content is saved first and put back when a write fails.
pub(super) fn overwrite(
    path: &Path,
    old: FileStamp,
    parts: &[&[u8]],
    options: &ReplaceOptions<'_>,
) -> Result<Replaced, ReplaceError> {
    let mut open = OpenOptions::new();
    open.read(true)
        .write(true)
        .custom_flags(OPEN_FLAGS | libc::O_NOFOLLOW);
    let (mut file, meta) =
        open_regular(path, &open).map_err(|error| match error.source.raw_os_error() {
            // The name was taken away or made a link since it was looked at.
            Some(libc::ENOENT | libc::ELOOP) => changed(path),
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => ReplaceError::ReadOnly {
                path: path.to_owned(),
            },
            _ => error.into(),
        })?;
    if FileStamp::from(&meta) != old {
        return Err(changed(path));
    }
    let backup = save(&mut file, path, options)?;
    let new_len = parts.iter().map(|part| part.len() as u64).sum();
    reserve(&file, old.size, new_len).map_err(|source| FsError::new("write", path, source))?;
    if let Err(source) = write_over(&mut file, parts, new_len, options) {
        return Err(match restore(&mut file, backup) {
            Ok(()) => FsError::new("write", path, source).into(),
            Err(kept) => ReplaceError::NotRestored {
                path: path.to_owned(),
                backup: kept,
                source,
            },
        });
    }
    let meta = file
        .metadata()
        .map_err(|source| FsError::new("stat", path, source))?;
    Ok(Replaced {
        stamp: FileStamp::from(&meta),
        how: How::InPlace,
        durable: options.durability == Durability::Disk,
    })
}

fn save(file: &mut File, path: &Path, options: &ReplaceOptions<'_>) -> Result<Backup, FsError> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|source| FsError::new("read", path, source))?;
    let Some(dir) = options.backup_dir else {
        return Ok(Backup::Memory(bytes));
    };
    let temp = TempFile::create_in(dir, 0o600)?;
    let write = || {
        write_all(&RealDisk, temp.file(), &bytes)?;
        RealDisk.sync_data(temp.file())
    };
    write().map_err(|source| FsError::new("write", temp.path(), source))?;
    Ok(Backup::File(temp))
}

/// Takes the disk space that growth needs before anything is overwritten, so that a full disk leaves the file alone.
#[cfg(target_os = "linux")]
fn reserve(file: &File, old_len: u64, new_len: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    if new_len <= old_len {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, old_len, new_len - old_len) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error.into()),
        // Not every file system can reserve; the write itself will tell.
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_file: &File, _old_len: u64, _new_len: u64) -> io::Result<()> {
    Ok(())
}

fn write_over(
    file: &mut File,
    parts: &[&[u8]],
    new_len: u64,
    options: &ReplaceOptions<'_>,
) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    for part in parts {
        write_all(options.disk, file, part)?;
    }
    options.disk.truncate(file, new_len)?;
    match options.durability {
        Durability::Disk => options.disk.sync_data(file),
        Durability::Kernel => Ok(()),
    }
}

/// Puts the old content back.
///
/// # Errors
/// The path of the saved content, which then stays.
fn restore(file: &mut File, backup: Backup) -> Result<(), Option<PathBuf>> {
    let mut put_back = |bytes: &[u8]| {
        file.seek(SeekFrom::Start(0))?;
        write_all(&RealDisk, file, bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_data()
    };
    match backup {
        Backup::Memory(bytes) => put_back(&bytes).map_err(|_| None),
        Backup::File(mut temp) => {
            let saved = super::read(temp.path()).map_err(|error| error.source);
            if saved.and_then(|bytes| put_back(&bytes)).is_ok() {
                return Ok(());
            }
            temp.mark_renamed();
            Err(Some(temp.path().to_owned()))
        }
    }
}
