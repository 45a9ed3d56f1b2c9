//! Directories held open, and places in them.
//!
//! What is done through a handle happens in that very directory, whatever its name stands for by then.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::beneath::{self, DIR_FLAGS};
use super::error::context;
use super::meta::Attributes;
use super::{FileKind, FsError, NotDirectory, NotRegular};

/// Flags of every open of a file: never wait for the other end of a FIFO, never adopt a terminal.
pub(super) const OPEN_FLAGS: OFlags = OFlags::NONBLOCK
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A directory held open.
#[derive(Debug, Clone)]
pub struct Dir {
    fd: Arc<OwnedFd>,
    /// For messages.
    path: PathBuf,
}

impl Dir {
    /// Opens a directory by name, links followed: for places that the user of this machine chose.
    pub fn named(path: &Path) -> Result<Self, FsError> {
        let fd = rustix::fs::open(path, DIR_FLAGS, Mode::empty())
            .map_err(context("open directory", path))?;
        Ok(Self::new(fd, path))
    }

    /// Opens a directory by its real path.
    ///
    /// # Errors
    /// A link in any component: [`FsError::met_link`].
    pub fn real(path: &Path) -> Result<Self, FsError> {
        let Ok(relative) = path.strip_prefix("/") else {
            let error = io::Error::from(io::ErrorKind::InvalidInput);
            return Err(FsError::new("open directory", path, error));
        };
        Self::named(Path::new("/"))?.dir(relative)
    }

    /// Opens a directory below this one by its real path from here; errors as for [`Self::real`].
    pub fn dir(&self, relative: &Path) -> Result<Self, FsError> {
        let path = self.path.join(relative);
        let fd = beneath::open(self.fd(), relative, DIR_FLAGS, Mode::empty())
            .map_err(context("open directory", &path))?;
        Ok(Self::new(fd, &path))
    }

    /// Opens a regular file below this directory for reading, by its real path from here.
    ///
    /// # Errors
    /// A link in any component ([`FsError::met_link`]); anything but a regular file ([`FsError::not_regular`]).
    pub fn open_file(&self, relative: &Path) -> Result<(File, Metadata), FsError> {
        self.open_regular(relative, OFlags::RDONLY)
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn new(fd: OwnedFd, path: &Path) -> Self {
        Self {
            fd: Arc::new(fd),
            path: path.to_owned(),
        }
    }

    pub(super) fn open_regular(
        &self,
        relative: &Path,
        flags: OFlags,
    ) -> Result<(File, Metadata), FsError> {
        let path = || self.path.join(relative);
        match beneath::open(self.fd(), relative, flags | OPEN_FLAGS, Mode::empty()) {
            Ok(fd) => {
                let file = File::from(fd);
                let meta = file.metadata().map_err(context("stat", &path()))?;
                if meta.is_file() {
                    Ok((file, meta))
                } else {
                    let kind = NotRegular(meta.file_type().into());
                    Err(FsError::new("open", &path(), kind))
                }
            }
            // Opening a socket, or a FIFO without reader for writing, fails by itself with a code that says little.
            Err(source) => Err(match self.kind_beneath(relative) {
                None | Some(FileKind::File | FileKind::Symlink) => {
                    FsError::new("open", &path(), source)
                }
                Some(kind) => FsError::new("open", &path(), NotRegular(kind)),
            }),
        }
    }

    fn kind_beneath(&self, relative: &Path) -> Option<FileKind> {
        let (parent, name) = (relative.parent()?, relative.file_name()?);
        let parent = beneath::open(self.fd(), parent, DIR_FLAGS, Mode::empty()).ok()?;
        let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(Attributes::from(&stat).kind)
    }

    /// What stands in this directory under a name; a link is not followed.
    pub(super) fn attributes(&self, name: &OsStr) -> io::Result<Attributes> {
        let stat = rustix::fs::statat(self.fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Attributes::from(&stat))
    }

    /// Whether the path by which this was opened leads here still, without a link.
    fn is_still_there(&self) -> bool {
        let same = || -> Result<bool, FsError> {
            let now = Self::real(&self.path)?;
            let stat = |dir: &Self| {
                let stat = rustix::fs::fstat(dir.fd()).map_err(context("stat", &self.path))?;
                Ok::<_, FsError>((stat.st_dev, stat.st_ino))
            };
            Ok(stat(&now)? == stat(self)?)
        };
        same().unwrap_or(false)
    }

    /// Puts the entries on disk. File systems that cannot do this are taken at their word.
    pub(super) fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(self.fd(), ".", flags, Mode::empty())?;
        match rustix::fs::fsync(dir) {
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A name in a directory that is held open: whatever is looked at, written or renamed there happens in one and the same
/// directory, from the first look to the last step.
#[derive(Debug)]
pub struct Spot {
    dir: Dir,
    name: OsString,
    path: PathBuf,
    /// The directory was opened by its real path, and that must lead to it to the end.
    is_real: bool,
}

impl Spot {
    /// The place of a real path. The directory must exist; whether something stands there is not looked at.
    ///
    /// # Errors
    /// A link in any component but the last: [`FsError::met_link`].
    pub fn real(path: &Path) -> Result<Self, FsError> {
        let (parent, name) = split(path)?;
        Ok(Self::new(Dir::real(parent)?, name, path, true))
    }

    /// The place of a path in a directory by name, links followed: for longshore's own files.
    pub fn named(path: &Path) -> Result<Self, FsError> {
        let (parent, name) = split(path)?;
        Ok(Self::new(Dir::named(parent)?, name, path, false))
    }

    /// As [`Self::real`], making the directories that are missing, with the user's umask; each step is made in the
    /// directory before it, so none is made beyond a link. Hands back what was made.
    ///
    /// # Errors
    /// Something that is no directory stands in the way: [`FsError::not_directory`].
    pub fn real_making_dirs(path: &Path) -> Result<(Self, MadeDirs), FsError> {
        let (parent, name) = split(path)?;
        let mut made = MadeDirs::default();
        let dir = match Dir::real(parent) {
            Err(error) if error.is_not_found() || error.kind() == io::ErrorKind::NotADirectory => {
                match make_dirs(parent, &mut made) {
                    Ok(dir) => dir,
                    Err(error) => {
                        made.undo();
                        return Err(error);
                    }
                }
            }
            opened => opened?,
        };
        Ok((Self::new(dir, name, path, true), made))
    }

    fn new(dir: Dir, name: &OsStr, path: &Path, is_real: bool) -> Self {
        Self {
            dir,
            name: name.to_owned(),
            path: path.to_owned(),
            is_real,
        }
    }

    /// The whole path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the regular file that stands here for reading; a link is refused ([`FsError::met_link`]).
    pub fn open(&self) -> Result<(File, Metadata), FsError> {
        self.open_regular(OFlags::RDONLY)
    }

    pub(super) fn open_regular(&self, flags: OFlags) -> Result<(File, Metadata), FsError> {
        self.dir.open_regular(Path::new(&self.name), flags)
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    pub(super) fn attributes(&self) -> io::Result<Attributes> {
        self.dir.attributes(&self.name)
    }

    /// Whether the directory is still the one that its path names.
    pub(super) fn is_still_there(&self) -> bool {
        !self.is_real || self.dir.is_still_there()
    }
}

fn split(path: &Path) -> Result<(&Path, &OsStr), FsError> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => Ok((parent, name)),
        _ => {
            let error = io::Error::from(io::ErrorKind::InvalidInput);
            Err(FsError::new("open", path, error))
        }
    }
}

/// Tells what stands at a real path.
///
/// # Errors
/// A link in any component, the last one too: [`FsError::met_link`].
pub fn kind_of_real(path: &Path) -> Result<FileKind, FsError> {
    if path == Path::new("/") {
        return Ok(FileKind::Dir);
    }
    let found = Spot::real(path)?
        .attributes()
        .map_err(context("stat", path))?;
    match found.kind {
        FileKind::Symlink => Err(FsError::new("stat", path, Errno::LOOP)),
        kind => Ok(kind),
    }
}

/// Directories that were made for a file.
#[derive(Debug, Default)]
pub struct MadeDirs(Vec<(Dir, OsString)>);

impl MadeDirs {
    /// Their paths, outermost first.
    pub fn paths(&self) -> Vec<PathBuf> {
        let paths = self.0.iter().map(|(dir, name)| dir.path.join(name));
        paths.collect()
    }

    /// Takes them away again as far as they are empty, because the file was not made.
    pub fn undo(self) {
        for (dir, name) in self.0.iter().rev() {
            // What somebody has put something into meanwhile stays.
            if rustix::fs::unlinkat(dir.fd(), name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
        }
    }
}

fn make_dirs(path: &Path, made: &mut MadeDirs) -> Result<Dir, FsError> {
    let mut dir = Dir::named(Path::new("/"))?;
    for component in path.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        let next = dir.path.join(name);
        let opened = match dir.dir(Path::new(name)) {
            Err(error) if error.is_not_found() => {
                match rustix::fs::mkdirat(dir.fd(), name, Mode::from_raw_mode(0o777)) {
                    Ok(()) => made.0.push((dir.clone(), name.to_owned())),
                    // Made by somebody else meanwhile; what it is shows when it is opened.
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(FsError::new("create directory", &next, error)),
                }
                dir.dir(Path::new(name))
            }
            opened => opened,
        };
        dir = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                let kind = dir
                    .attributes(name)
                    .map_or(FileKind::Other, |found| found.kind);
                return Err(FsError::new("create directory", &next, NotDirectory(kind)));
            }
            opened => opened?,
        };
    }
    Ok(dir)
}
