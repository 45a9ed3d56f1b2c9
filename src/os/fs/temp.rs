//! Temporary files beside the files that they are to become.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::error::context;
use super::{Dir, FileKind, FsError, Spot};

/// How the name of every temporary file begins; searches leave such names out.
pub const TEMP_PREFIX: &str = ".longshore-tmp-";

/// Whether a bare name is that of a temporary file made here.
pub fn is_temp_name(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(TEMP_PREFIX.as_bytes())
}

/// Keeps account of temporary files, so that those a crash leaves behind can be removed.
pub trait TempLog: Send + Sync + Debug {
    /// A file of this path is about to be made.
    fn making(&self, path: &Path, what_for: TempUse<'_>);
    /// Nothing stands at this path any more.
    fn settled(&self, path: &Path);
    /// What stands at this path is to stay.
    fn kept(&self, path: &Path);
}

/// What a temporary file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TempUse<'a> {
    /// It is to take the place of another; nobody misses it before.
    Incoming,
    /// It holds the old content of this file while that is being overwritten.
    SavedOf(&'a Path),
}

/// What became of a temporary file that a crash may have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftover {
    /// It was there, and is not any more.
    Removed,
    /// There was none: its directory is gone, or is not where it was.
    None,
}

/// Removes a temporary file that a process which runs no more has left. Whatever else bears the path stays.
pub fn remove_leftover(path: &Path) -> Result<Leftover, FsError> {
    if !path.file_name().is_some_and(is_temp_name) {
        return Ok(Leftover::None);
    }
    let spot = match Spot::real(path) {
        Ok(spot) => spot,
        Err(error)
            if error.is_not_found()
                || error.met_link()
                || error.kind() == io::ErrorKind::NotADirectory =>
        {
            return Ok(Leftover::None);
        }
        Err(error) => return Err(error),
    };
    match spot.attributes() {
        Ok(found) if found.kind == FileKind::File => {}
        Ok(_) => return Ok(Leftover::None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Leftover::None),
        Err(error) => return Err(FsError::new("stat", path, error)),
    }
    rustix::fs::unlinkat(spot.dir().fd(), spot.name(), AtFlags::empty())
        .map_err(context("remove", path))?;
    Ok(Leftover::Removed)
}

/// A new file beside its later place, removed when dropped unless it was renamed away.
#[derive(Debug)]
pub(super) struct TempFile<'a> {
    file: File,
    dir: Dir,
    name: OsString,
    path: PathBuf,
    log: Option<&'a dyn TempLog>,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Removed,
    Renamed,
    Kept,
}

impl<'a> TempFile<'a> {
    /// Creates one exclusively in `dir`. The system applies the umask to `mode`.
    pub(super) fn create(
        dir: &Dir,
        mode: u32,
        what_for: TempUse<'_>,
        log: Option<&'a dyn TempLog>,
    ) -> Result<Self, FsError> {
        // 128 random and time bits: no other temporary file is called that.
        let unique = ulid::Ulid::generate().to_string().to_ascii_lowercase();
        let name = OsString::from(format!("{TEMP_PREFIX}{unique}"));
        let path = dir.path().join(&name);
        if let Some(log) = log {
            log.making(&path, what_for);
        }
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_bits_truncate(mode as _);
        match rustix::fs::openat(dir.fd(), &name, flags, mode) {
            Ok(fd) => Ok(Self {
                file: File::from(fd),
                dir: dir.clone(),
                name,
                path,
                log,
                fate: Fate::Removed,
            }),
            Err(source) => {
                if let Some(log) = log {
                    log.settled(&path);
                }
                Err(FsError::new("create temporary file", &path, source))
            }
        }
    }

    /// The handle, open for reading and writing.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Where it was made.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its name in its directory.
    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    fn remove(&self) -> rustix::io::Result<()> {
        match rustix::fs::unlinkat(self.dir.fd(), &self.name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => done,
        }
    }

    /// Says that it now stands under another name.
    pub(super) fn mark_renamed(&mut self) {
        self.fate = Fate::Renamed;
    }

    /// Says that it is to stay where it is.
    pub(super) fn mark_kept(&mut self) {
        self.fate = Fate::Kept;
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        let removed = match self.fate {
            Fate::Removed => self.remove(),
            Fate::Renamed | Fate::Kept => Ok(()),
        };
        match (self.log, removed) {
            (Some(log), Ok(())) if self.fate == Fate::Kept => log.kept(&self.path),
            (Some(log), Ok(())) => log.settled(&self.path),
            // One that cannot be removed now may be at the next start.
            (Some(_), Err(_)) | (None, _) => {}
        }
    }
}
