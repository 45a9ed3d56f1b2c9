//! Changing a file so that a reader, a crash or a full disk never sees half of it.
//!
//! The new content goes to a temporary file in the same directory, which takes on the old file's mode, owner and
//! extended attributes, is put on disk, and is renamed over the old name once that name still stands for the file
//! the caller looked at. Where a rename would lose something (a second hard link, an owner that cannot be given, a
//! bind mount, an unwritable directory) the file is written in place instead, after its content was saved.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};

use super::preserve::{Preserved, copy_attributes};
use super::{Disk, FileKind, FileStamp, FsError, RealDisk, TempFile, in_place, write_all};

/// What the caller knows about the file it wants to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// There is none yet: it is created exclusively.
    Absent,
    /// It is this one, unchanged since the stamp was taken.
    Same(FileStamp),
    /// Whatever stands there now, or nothing.
    Any,
}

/// How far a write must get before the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk: survives power loss.
    Disk,
    /// In the kernel: survives this process.
    Kernel,
}

/// Mode of a file that is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewMode {
    /// 0666 less the umask, as an editor would make it.
    Umask,
    /// 0600.
    Private,
}

/// How [`atomic_replace`] goes about it.
#[derive(Clone, Copy)]
pub struct ReplaceOptions<'a> {
    /// What must stand at the path.
    pub expect: Expect,
    /// When the change counts as done.
    pub durability: Durability,
    /// Mode of a new file; an existing one keeps its own.
    pub new_mode: NewMode,
    /// Where the old content is saved before a write in place; without it, in memory.
    pub backup_dir: Option<&'a Path>,
    /// Called with the path of each temporary file just before it is created, so that a crash can be tidied up.
    pub on_temp: Option<&'a dyn Fn(&Path)>,
    /// The disk to write to.
    pub disk: &'a dyn Disk,
}

impl Default for ReplaceOptions<'_> {
    fn default() -> Self {
        Self {
            expect: Expect::Any,
            durability: Durability::Disk,
            new_mode: NewMode::Umask,
            backup_dir: None,
            on_temp: None,
            disk: &RealDisk,
        }
    }
}

/// Which way the change was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// A new file appeared.
    Created,
    /// The name now stands for a new file with the old one's attributes.
    Renamed,
    /// The old file was overwritten through its handle.
    InPlace,
}

/// A change that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced {
    /// The file as it stands now.
    pub stamp: FileStamp,
    /// Which way.
    pub how: How,
    /// Whether it is on disk; false when [`Durability::Kernel`] was asked or the directory could not be synced.
    pub durable: bool,
}

/// Why a change was not made. Except for [`Self::NotRestored`] the old content is intact.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The path no longer stands for the file the caller looked at.
    #[error("{} changed in the meantime", path.display())]
    Changed {
        /// The path.
        path: PathBuf,
    },
    /// A file was to be created, but there is one.
    #[error("{} already exists", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// The file has no write permission for us. It is never bypassed by a rename.
    #[error("{} is read-only", path.display())]
    ReadOnly {
        /// The path.
        path: PathBuf,
    },
    /// Not a regular file.
    #[error("{} is {}, not a regular file", path.display(), kind.describe())]
    NotRegular {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: FileKind,
    },
    /// The system refused a step (full disk, permissions).
    #[error(transparent)]
    Fs(#[from] FsError),
    /// A write in place failed and the old content could not be put back; it is in `backup` if that is named.
    #[error("{} was partly overwritten and could not be restored: {source}", path.display())]
    NotRestored {
        /// The damaged file.
        path: PathBuf,
        /// The file holding the old content.
        backup: Option<PathBuf>,
        /// Why the write failed first.
        #[source]
        source: io::Error,
    },
}

impl ReplaceError {
    /// The portable kind of the system's answer, where there was one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Fs(error) => Some(error.kind()),
            Self::NotRestored { source, .. } => Some(source.kind()),
            Self::Changed { .. }
            | Self::Exists { .. }
            | Self::ReadOnly { .. }
            | Self::NotRegular { .. } => None,
        }
    }
}

/// Gives the file at `path` the content `parts`, one after the other.
///
/// `path` is absolute and resolved: a symbolic link there is refused, so that the link's target is what the caller
/// judged. The directory exists. Whoever may write the same file concurrently in this process holds a lock of the
/// caller's; other processes are noticed by the stamp just before the rename.
///
/// # Errors
/// See [`ReplaceError`]. The temporary file is gone on every path out.
pub fn atomic_replace(
    path: &Path,
    parts: &[&[u8]],
    options: &ReplaceOptions<'_>,
) -> Result<Replaced, ReplaceError> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) => {
            let old = check_existing(path, &meta, options.expect)?;
            replace_existing(path, &meta, old, parts, options)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => match options.expect {
            Expect::Same(_) => Err(changed(path)),
            Expect::Absent | Expect::Any => create(path, parts, options),
        },
        Err(error) => Err(FsError::new("stat", path, error).into()),
    }
}

/// Checks what stands at the path against what was expected and allowed.
pub(super) fn check_existing(
    path: &Path,
    meta: &Metadata,
    expect: Expect,
) -> Result<FileStamp, ReplaceError> {
    let path_buf = || path.to_owned();
    let stamp = FileStamp::from(meta);
    match expect {
        Expect::Absent => return Err(ReplaceError::Exists { path: path_buf() }),
        Expect::Same(expected) if expected != stamp => return Err(changed(path)),
        Expect::Same(_) | Expect::Any => {}
    }
    if !meta.is_file() {
        let kind = meta.file_type().into();
        return Err(ReplaceError::NotRegular {
            path: path_buf(),
            kind,
        });
    }
    // The superuser passes the access check on any file, so the bits are looked at too.
    let no_write_bit = meta.mode() & 0o222 == 0;
    if no_write_bit || rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_err()
    {
        return Err(ReplaceError::ReadOnly { path: path_buf() });
    }
    Ok(stamp)
}

pub(super) fn changed(path: &Path) -> ReplaceError {
    ReplaceError::Changed {
        path: path.to_owned(),
    }
}

fn dir_of(path: &Path) -> Result<&Path, FsError> {
    path.parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .ok_or_else(|| {
            FsError::new(
                "replace",
                path,
                io::Error::from(io::ErrorKind::InvalidInput),
            )
        })
}

fn create_temp(dir: &Path, mode: u32, options: &ReplaceOptions<'_>) -> Result<TempFile, FsError> {
    let path = TempFile::fresh_path(dir);
    if let Some(on_temp) = options.on_temp {
        on_temp(&path);
    }
    TempFile::create_at(path, mode)
}

fn fill(temp: &TempFile, parts: &[&[u8]], options: &ReplaceOptions<'_>) -> Result<(), FsError> {
    for part in parts {
        write_all(options.disk, temp.file(), part)
            .map_err(|source| FsError::new("write", temp.path(), source))?;
    }
    Ok(())
}

fn sync_content(temp: &TempFile, options: &ReplaceOptions<'_>) -> Result<(), FsError> {
    match options.durability {
        Durability::Disk => options
            .disk
            .sync_data(temp.file())
            .map_err(|source| FsError::new("sync", temp.path(), source)),
        Durability::Kernel => Ok(()),
    }
}

/// Syncs the directory after the rename. By then the change is made, so a failure is only a weaker promise.
fn sync_entry(dir: &Path, options: &ReplaceOptions<'_>) -> bool {
    match options.durability {
        Durability::Disk => options.disk.sync_dir(dir).is_ok(),
        Durability::Kernel => false,
    }
}

fn finish(temp: &TempFile, how: How, durable: bool) -> Result<Replaced, ReplaceError> {
    let meta = temp
        .file()
        .metadata()
        .map_err(|source| FsError::new("stat", temp.path(), source))?;
    Ok(Replaced {
        stamp: FileStamp::from(&meta),
        how,
        durable,
    })
}

fn create(
    path: &Path,
    parts: &[&[u8]],
    options: &ReplaceOptions<'_>,
) -> Result<Replaced, ReplaceError> {
    let dir = dir_of(path)?;
    let mode = match options.new_mode {
        NewMode::Umask => 0o666,
        NewMode::Private => 0o600,
    };
    let mut temp = create_temp(dir, mode, options)?;
    fill(&temp, parts, options)?;
    sync_content(&temp, options)?;
    match options.disk.rename_new(temp.path(), path) {
        Ok(()) => temp.mark_renamed(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(match options.expect {
                Expect::Absent => ReplaceError::Exists {
                    path: path.to_owned(),
                },
                Expect::Any | Expect::Same(_) => changed(path),
            });
        }
        Err(error) => return Err(FsError::new("create", path, error).into()),
    }
    let durable = sync_entry(dir, options);
    finish(&temp, How::Created, durable)
}

fn replace_existing(
    path: &Path,
    meta: &Metadata,
    old: FileStamp,
    parts: &[&[u8]],
    options: &ReplaceOptions<'_>,
) -> Result<Replaced, ReplaceError> {
    if meta.nlink() > 1 {
        return in_place::overwrite(path, old, parts, options);
    }
    let dir = dir_of(path)?;
    let mut temp = match create_temp(dir, 0o600, options) {
        Ok(temp) => temp,
        Err(error) if forbids_rename(&error.source) => {
            return in_place::overwrite(path, old, parts, options);
        }
        Err(error) => return Err(error.into()),
    };
    fill(&temp, parts, options)?;
    match copy_attributes(path, meta, temp.file()) {
        Preserved::All => {}
        Preserved::NotAll => {
            drop(temp);
            return in_place::overwrite(path, old, parts, options);
        }
    }
    sync_content(&temp, options)?;
    match std::fs::symlink_metadata(path) {
        Ok(now) if FileStamp::from(&now) == old => {}
        Ok(_) => return Err(changed(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(changed(path)),
        Err(error) => return Err(FsError::new("stat", path, error).into()),
    }
    match options.disk.rename(temp.path(), path) {
        Ok(()) => temp.mark_renamed(),
        Err(error) if forbids_rename(&error) => {
            drop(temp);
            return in_place::overwrite(path, old, parts, options);
        }
        Err(error) => return Err(FsError::new("replace", path, error).into()),
    }
    let durable = sync_entry(dir, options);
    finish(&temp, How::Renamed, durable)
}

/// Whether an error says that this name cannot be given to another file, while the file itself may be writable:
/// an unwritable or sticky directory, a bind mount.
fn forbids_rename(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EACCES | libc::EPERM | libc::EROFS | libc::EBUSY | libc::EXDEV)
    )
}
