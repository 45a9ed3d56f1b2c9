//! Directories by handle: what is opened through one stands below it, whatever happens to the names above meanwhile.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::beneath;
use super::{Dir, FileKind, FsError, NotRegular};

const DIR_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Never follows a link, never waits for the other end of a FIFO, never adopts a terminal.
const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Room for the names that one call asks the kernel for.
#[cfg(target_os = "linux")]
const NAMES_BYTES: usize = 32 << 10;

/// An open directory. Its names can be read once.
#[derive(Debug)]
pub struct DirReader(OwnedFd);

/// A regular file opened through a [`DirReader`].
#[derive(Debug)]
pub struct OpenedFile {
    /// At its beginning.
    pub file: File,
    /// Bytes in it when it was opened; 0 for files the kernel makes up.
    pub size: u64,
    /// Last modification.
    pub modified: SystemTime,
}

impl DirReader {
    /// Opens a directory whose path was resolved: no component may be a link.
    pub fn open(path: &Path) -> Result<Self, FsError> {
        let Ok(relative) = path.strip_prefix("/") else {
            let error = io::Error::from(io::ErrorKind::InvalidInput);
            return Err(FsError::new("open directory", path, error));
        };
        let root = Dir::named(Path::new("/"))?;
        beneath::open(root.fd(), relative, DIR_FLAGS, Mode::empty())
            .map(Self)
            .map_err(|error| FsError::new("open directory", path, error))
    }

    /// Opens a directory at or below this one, by a relative path without `..`; no component may be a link.
    pub fn open_below(&self, relative: &Path) -> io::Result<Self> {
        beneath::open(self.0.as_fd(), relative, DIR_FLAGS, Mode::empty()).map(Self)
    }

    /// Hands every name in it to `each`, without order and without `.` and `..`, until that gives false.
    ///
    /// # Errors
    /// What was handed over before stays valid.
    pub fn names(&self, mut each: impl FnMut(&CStr, FileKind) -> bool) -> io::Result<()> {
        let mut hand_over = |name: &CStr, file_type| {
            if name == c"." || name == c".." {
                return true;
            }
            match kind(file_type) {
                // Some file systems don't tell. A name that is gone by now is left out.
                FileKind::Other => self.stat(name).map_or(true, |stat| {
                    each(name, kind(FileType::from_raw_mode(stat.st_mode)))
                }),
                told => each(name, told),
            }
        };
        #[cfg(target_os = "linux")]
        {
            let mut buffer = Vec::with_capacity(NAMES_BYTES);
            let mut entries = rustix::fs::RawDir::new(&self.0, buffer.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                let entry = entry?;
                if !hand_over(entry.file_name(), entry.file_type()) {
                    break;
                }
            }
        }
        #[cfg(not(target_os = "linux"))]
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            if !hand_over(entry.file_name(), entry.file_type()) {
                break;
            }
        }
        Ok(())
    }

    /// Opens a regular file in it.
    ///
    /// # Errors
    /// Anything but a regular file is refused at once, a link too.
    pub fn open_file(&self, name: &CStr) -> io::Result<OpenedFile> {
        let file = rustix::fs::openat(&self.0, name, FILE_FLAGS, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(OpenedFile {
                file: file.into(),
                size: u64::try_from(stat.st_size).unwrap_or(0),
                modified: modified(&stat),
            }),
            other => Err(NotRegular(kind(other)).into()),
        }
    }

    /// When an entry was last modified; a link itself, not what it leads to.
    pub fn modified(&self, name: &CStr) -> io::Result<SystemTime> {
        Ok(modified(&self.stat(name)?))
    }

    fn stat(&self, name: &CStr) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Whether an open failed because the name is gone, or because something else than was listed stands there by now.
pub fn is_gone(error: &io::Error) -> bool {
    let is_other = error
        .get_ref()
        .is_some_and(|inner| inner.downcast_ref::<NotRegular>().is_some());
    let errno = Errno::from_io_error(error);
    is_other || matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

fn kind(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
        FileType::Unknown => FileKind::Other,
    }
}

fn modified(stat: &Stat) -> SystemTime {
    let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    let fraction = Duration::new(0, nanos);
    let seconds = stat.st_mtime;
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    base.and_then(|base| base.checked_add(fraction))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_and_files() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("sub/deep")).unwrap();
        std::fs::write(real.join("sub/file"), "text").unwrap();
        symlink("file", real.join("sub/link")).unwrap();
        symlink("deep", real.join("sub/way")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, real.join("sub/fifo"), 0o600.into()).unwrap();

        let handle = DirReader::open(&real).unwrap();
        let sub = handle.open_below(Path::new("sub")).unwrap();
        let mut names = BTreeMap::new();
        let collect = |name: &CStr, kind| {
            names.insert(name.to_str().unwrap().to_owned(), kind);
            true
        };
        sub.names(collect).unwrap();
        let expected = [
            ("deep", FileKind::Dir),
            ("fifo", FileKind::Fifo),
            ("file", FileKind::File),
            ("link", FileKind::Symlink),
            ("way", FileKind::Symlink),
        ];
        assert_eq!(
            names,
            expected
                .into_iter()
                .map(|(name, kind)| (name.to_owned(), kind))
                .collect()
        );
        let mut n_seen = 0;
        let again = handle.open_below(Path::new("sub")).unwrap();
        again
            .names(|_, _| {
                n_seen += 1;
                false
            })
            .unwrap();
        assert_eq!(n_seen, 1);

        let opened = sub.open_file(c"file").unwrap();
        assert_eq!(opened.size, 4);
        let on_disk = std::fs::metadata(real.join("sub/file")).unwrap();
        assert_eq!(opened.modified, on_disk.modified().unwrap());
        assert_eq!(sub.modified(c"file").unwrap(), opened.modified);
        for name in [c"fifo", c"link", c"deep", c"missing"] {
            assert!(sub.open_file(name).is_err(), "{name:?}");
        }
        for (path, expected) in [
            ("sub/deep", true),
            ("sub/way", false),
            ("sub/file", false),
            ("missing", false),
        ] {
            assert_eq!(
                handle.open_below(Path::new(path)).is_ok(),
                expected,
                "{path}"
            );
        }
        assert!(handle.open_below(Path::new("")).is_ok());
        assert!(DirReader::open(&real.join("sub/way")).is_err());
    }
}
