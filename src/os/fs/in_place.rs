//! Overwriting a file through its handle, for names that cannot be given to another file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use rustix::fs::OFlags;

use super::replace::changed;
use super::{
    Dir, Disk, Durability, FileStamp, FsError, How, RealDisk, ReplaceError, ReplaceOptions,
    Replaced, Spot, TempFile, TempUse, create_private_dirs, real_path, write_all,
};

/// Where the old content is while the file is being overwritten.
enum Backup<'a> {
    Memory(Vec<u8>),
    File(TempFile<'a>),
}

/// Writes `parts` over the file, which must still be the one with the stamp `old`.
///
/// The old content is saved first and put back when a write fails.
pub(super) fn overwrite(
    spot: &Spot,
    old: FileStamp,
    parts: &[&[u8]],
    options: &ReplaceOptions<'_>,
) -> Result<Replaced, ReplaceError> {
    let path = spot.path();
    let (mut file, meta) =
        spot.open_regular(OFlags::RDWR)
            .map_err(|error| match error.source.raw_os_error() {
                // The name was taken away or made a link since it was looked at.
                Some(libc::ENOENT | libc::ELOOP) => changed(path),
                Some(libc::EACCES | libc::EPERM | libc::EROFS) => ReplaceError::ReadOnly {
                    path: path.to_owned(),
                },
                _ => error.into(),
            })?;
    spot.check_still_there()?;
    if FileStamp::from(&meta) != old {
        return Err(changed(path));
    }
    let backup = save(&mut file, spot, options)?;
    let new_len = parts.iter().map(|part| part.len() as u64).sum();
    reserve(&file, old.size, new_len).map_err(|source| FsError::new("write", path, source))?;
    options.check_stop(path)?;
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

fn save<'a>(
    file: &mut File,
    spot: &Spot,
    options: &ReplaceOptions<'a>,
) -> Result<Backup<'a>, FsError> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|source| FsError::new("read", spot.path(), source))?;
    let Some(dir) = options.backup_dir else {
        return Ok(Backup::Memory(bytes));
    };
    create_private_dirs(dir)?;
    // What is on account for removal is looked up without following links.
    let dir = Dir::named(&real_path(dir)?)?;
    let temp = TempFile::create(&dir, 0o600, TempUse::SavedOf(spot.path()), options.temps)?;
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
            let mut saved = Vec::new();
            let mut from = temp.file();
            let read = from
                .seek(SeekFrom::Start(0))
                .and_then(|_| from.read_to_end(&mut saved));
            if read.and_then(|_| put_back(&saved)).is_ok() {
                return Ok(());
            }
            temp.mark_kept();
            Err(Some(temp.path().to_owned()))
        }
    }
}
