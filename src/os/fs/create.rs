#![expect(
    clippy::disallowed_methods,
    reason = "this is the module those rules point to"
)]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::error::context;
use super::read::{OPEN_FLAGS, open_regular};
use super::{Dir, FsError, RealDisk, write_all};

/// Makes a directory and its missing parents with the user's umask. One that exists is fine.
pub fn create_dirs(path: &Path) -> Result<(), FsError> {
    fs::create_dir_all(path).map_err(context("create directory", path))
}

/// Makes a directory and its missing parents, each 0700. One that exists is left as it is.
pub fn create_private_dirs(path: &Path) -> Result<(), FsError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(context("create directory", path))
}

/// Opens a file for reading and writing, making it 0600 when it is new. Its content is kept.
pub fn create_private_file(path: &Path) -> Result<File, FsError> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OPEN_FLAGS);
    open_regular(path, &options).map(|(file, _)| file)
}

/// Opens a file for adding to its end, making it 0600 when it is new.
pub fn open_append(path: &Path) -> Result<File, FsError> {
    let mut options = OpenOptions::new();
    options
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(OPEN_FLAGS);
    open_regular(path, &options).map(|(file, _)| file)
}

/// Makes a new 0600 file with this content.
///
/// # Errors
/// A file of that name is [`io::ErrorKind::AlreadyExists`]. A file that could not be written whole is removed.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), FsError> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OPEN_FLAGS)
        .open(path)
        .map_err(context("create", path))?;
    write_all(&RealDisk, &file, bytes).map_err(|source| {
        // The write error is the one to tell; a half file that cannot be removed either changes nothing about it.
        drop(fs::remove_file(path));
        FsError::new("write", path, source)
    })
}

/// Removes a file or link.
pub fn remove_file(path: &Path) -> Result<(), FsError> {
    fs::remove_file(path).map_err(context("remove", path))
}

/// Removes a file or link; tells whether there was one.
pub fn remove_file_if_present(path: &Path) -> Result<bool, FsError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(FsError::new("remove", path, error)),
    }
}

/// Removes an empty directory.
pub fn remove_empty_dir(path: &Path) -> Result<(), FsError> {
    fs::remove_dir(path).map_err(context("remove directory", path))
}

/// Removes a directory and everything in it, without following links. One that is already gone is fine.
pub fn remove_tree(path: &Path) -> Result<(), FsError> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FsError::new("remove directory", path, error)),
    }
}

/// Renames, replacing a file at `to`.
pub fn rename(from: &Path, to: &Path) -> Result<(), FsError> {
    fs::rename(from, to).map_err(context("rename", from))
}

/// Gives a file a second name.
///
/// # Errors
/// A file at `link` is [`io::ErrorKind::AlreadyExists`].
pub fn hard_link(original: &Path, link: &Path) -> Result<(), FsError> {
    fs::hard_link(original, link).map_err(context("link", link))
}

/// Gives a regular file that is written no more a second name, or a copy (0600) where the file system has no such thing.
///
/// # Errors
/// A file at `to` is [`io::ErrorKind::AlreadyExists`].
pub fn link_or_copy(from: &Path, to: &Path) -> Result<(), FsError> {
    match fs::hard_link(from, to) {
        Ok(()) => return Ok(()),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
            ) =>
        {
            return Err(FsError::new("link", to, error));
        }
        Err(_) => {}
    }
    let (mut source, _) = super::open_read(from)?;
    let mut copy = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OPEN_FLAGS)
        .open(to)
        .map_err(context("create", to))?;
    io::copy(&mut source, &mut copy)
        .and_then(|_| copy.sync_data())
        .map_err(context("copy", to))
}

/// Puts the entries of a directory on disk. File systems that cannot do this are taken at their word.
pub fn sync_dir(path: &Path) -> Result<(), FsError> {
    let dir = Dir::named(path)?;
    dir.sync().map_err(context("sync directory", path))
}

/// Puts the entry of a file on disk, by syncing its directory.
pub fn sync_parent(path: &Path) -> Result<(), FsError> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => Ok(()),
    }
}
