//! Changing a file so that a reader, a crash or a full disk never sees half of it.
//!
//! The new content goes to a temporary file in the same directory, which takes on the old file's mode, owner and
//! extended attributes, is put on disk, and is renamed over the old name once that name still stands for the file
//! the caller looked at. All of it happens in one directory held open, the one of the [`Spot`]. Where a rename would lose something (a second hard link, an owner that cannot be given, a
//! bind mount, an unwritable directory) the file is written in place instead, after its content was saved.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags};

use super::meta::Attributes;
use super::preserve::{Preserved, copy_attributes};
use super::{
    Disk, FileKind, FileStamp, FsError, RealDisk, Spot, TempFile, TempLog, TempUse, in_place,
    write_all,
};

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
    /// Where the old content is saved before a write in place (made when it is missing); without it, in memory.
    pub backup_dir: Option<&'a Path>,
    /// Keeps account of temporary files, so that what a crash leaves can be removed.
    pub temps: Option<&'a dyn TempLog>,
    /// Asked until the last step that can be left undone; where it says yes, nothing is changed.
    pub stop: Option<&'a dyn Fn() -> bool>,
    /// The disk to write to.
    pub disk: &'a dyn Disk,
}

impl ReplaceOptions<'_> {
    /// To be called just before what cannot be taken back.
    pub(super) fn check_stop(&self, path: &Path) -> Result<(), ReplaceError> {
        match self.stop {
            Some(stop) if stop() => Err(ReplaceError::Stopped {
                path: path.to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

impl Default for ReplaceOptions<'_> {
    fn default() -> Self {
        Self {
            expect: Expect::Any,
            durability: Durability::Disk,
            new_mode: NewMode::Umask,
            backup_dir: None,
            temps: None,
            stop: None,
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
    /// The directory that the file was to be written in is not what its path names any more.
    #[error("the directory of {} was moved or replaced", path.display())]
    Moved {
        /// The path.
        path: PathBuf,
    },
    /// The caller called it off in time.
    #[error("writing {} was called off", path.display())]
    Stopped {
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
            | Self::Moved { .. }
            | Self::Stopped { .. }
            | Self::Exists { .. }
            | Self::ReadOnly { .. }
            | Self::NotRegular { .. } => None,
        }
    }
}

/// Gives the file at a place the content `parts`, one after the other.
///
/// A symbolic link there is refused, so that the link's target is what the caller judged. Whoever may write the same
/// file concurrently in this process holds a lock of the caller's; other processes are noticed by the stamp just
/// before the rename.
///
/// # Errors
/// See [`ReplaceError`]. The temporary file is gone on every path out.
pub fn atomic_replace(
    spot: &Spot,
    parts: &[&[u8]],
    options: &ReplaceOptions<'_>,
) -> Result<Replaced, ReplaceError> {
    match spot.attributes() {
        Ok(found) => {
            let old = check_existing(spot, &found, options.expect)?;
            replace_existing(spot, old, parts, options)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => match options.expect {
            Expect::Same(_) => Err(changed(spot.path())),
            Expect::Absent | Expect::Any => create(spot, parts, options),
        },
        Err(error) => Err(FsError::new("stat", spot.path(), error).into()),
    }
}

/// Checks what stands at the place against what was expected and allowed.
pub(super) fn check_existing<'a>(
    spot: &Spot,
    found: &'a Attributes,
    expect: Expect,
) -> Result<&'a Attributes, ReplaceError> {
    let path = || spot.path().to_owned();
    match expect {
        Expect::Absent => return Err(ReplaceError::Exists { path: path() }),
        Expect::Same(expected) if expected != found.stamp => return Err(changed(spot.path())),
        Expect::Same(_) | Expect::Any => {}
    }
    if found.kind != FileKind::File {
        let kind = found.kind;
        return Err(ReplaceError::NotRegular { path: path(), kind });
    }
    // The superuser passes the access check on any file, so the bits are looked at too.
    let no_write_bit = found.mode & 0o222 == 0;
    let may_write = || {
        let dir = spot.dir().fd();
        rustix::fs::accessat(dir, spot.name(), Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    };
    if no_write_bit || !may_write() {
        return Err(ReplaceError::ReadOnly { path: path() });
    }
    Ok(found)
}

pub(super) fn changed(path: &Path) -> ReplaceError {
    ReplaceError::Changed {
        path: path.to_owned(),
    }
}

impl Spot {
    /// Nothing is written into a directory that is not, or not any more, where the caller believes it is.
    pub(super) fn check_still_there(&self) -> Result<(), ReplaceError> {
        if self.is_still_there() {
            return Ok(());
        }
        Err(ReplaceError::Moved {
            path: self.path().to_owned(),
        })
    }
}

fn fill(temp: &TempFile<'_>, parts: &[&[u8]], options: &ReplaceOptions<'_>) -> Result<(), FsError> {
    for part in parts {
        write_all(options.disk, temp.file(), part)
            .map_err(|source| FsError::new("write", temp.path(), source))?;
    }
    Ok(())
}

fn sync_content(temp: &TempFile<'_>, options: &ReplaceOptions<'_>) -> Result<(), FsError> {
    match options.durability {
        Durability::Disk => options
            .disk
            .sync_data(temp.file())
            .map_err(|source| FsError::new("sync", temp.path(), source)),
        Durability::Kernel => Ok(()),
    }
}

/// Syncs the directory after the rename. By then the change is made, so a failure is only a weaker promise.
fn sync_entry(spot: &Spot, options: &ReplaceOptions<'_>) -> bool {
    match options.durability {
        Durability::Disk => options.disk.sync_dir(spot.dir()).is_ok(),
        Durability::Kernel => false,
    }
}

fn finish(temp: &TempFile<'_>, how: How, durable: bool) -> Result<Replaced, ReplaceError> {
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
    spot: &Spot,
    parts: &[&[u8]],
    options: &ReplaceOptions<'_>,
) -> Result<Replaced, ReplaceError> {
    let mode = match options.new_mode {
        NewMode::Umask => 0o666,
        NewMode::Private => 0o600,
    };
    let mut temp = TempFile::create(spot.dir(), mode, TempUse::Incoming, options.temps)?;
    fill(&temp, parts, options)?;
    sync_content(&temp, options)?;
    spot.check_still_there()?;
    options.check_stop(spot.path())?;
    match options
        .disk
        .rename_new(spot.dir(), temp.name(), spot.name())
    {
        Ok(()) => temp.mark_renamed(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(match options.expect {
                Expect::Absent => ReplaceError::Exists {
                    path: spot.path().to_owned(),
                },
                Expect::Any | Expect::Same(_) => changed(spot.path()),
            });
        }
        Err(error) => return Err(FsError::new("create", spot.path(), error).into()),
    }
    let durable = sync_entry(spot, options);
    finish(&temp, How::Created, durable)
}

fn replace_existing(
    spot: &Spot,
    old: &Attributes,
    parts: &[&[u8]],
    options: &ReplaceOptions<'_>,
) -> Result<Replaced, ReplaceError> {
    let in_place = || in_place::overwrite(spot, old.stamp, parts, options);
    if old.n_links > 1 {
        return in_place();
    }
    // Closed to all others until it has taken on the old file's mode.
    let mut temp = match TempFile::create(spot.dir(), 0o600, TempUse::Incoming, options.temps) {
        Ok(temp) => temp,
        Err(error) if forbids_rename(&error.source) => return in_place(),
        Err(error) => return Err(error.into()),
    };
    fill(&temp, parts, options)?;
    match copy_attributes(spot, old, temp.file()) {
        Preserved::All => {}
        Preserved::NotAll => {
            drop(temp);
            return in_place();
        }
    }
    sync_content(&temp, options)?;
    match spot.attributes() {
        Ok(now) if same_file(&now, old) => {}
        Ok(_) => return Err(changed(spot.path())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(changed(spot.path())),
        Err(error) => return Err(FsError::new("stat", spot.path(), error).into()),
    }
    spot.check_still_there()?;
    options.check_stop(spot.path())?;
    match options.disk.rename(spot.dir(), temp.name(), spot.name()) {
        Ok(()) => temp.mark_renamed(),
        Err(error) if forbids_rename(&error) => {
            drop(temp);
            return in_place();
        }
        Err(error) => return Err(FsError::new("replace", spot.path(), error).into()),
    }
    let durable = sync_entry(spot, options);
    finish(&temp, How::Renamed, durable)
}

/// Neither content nor what the replacement has taken on has changed.
fn same_file(now: &Attributes, old: &Attributes) -> bool {
    (now.stamp, now.mode, now.owner, now.n_links) == (old.stamp, old.mode, old.owner, old.n_links)
}

/// Whether an error says that this name cannot be given to another file, while the file itself may be writable:
/// an unwritable or sticky directory, a bind mount.
fn forbids_rename(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EACCES | libc::EPERM | libc::EROFS | libc::EBUSY | libc::EXDEV)
    )
}
