use std::ffi::OsString;
use std::fs::{self, FileType, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::Stat;

use super::FsError;
use super::error::context;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link (seen only where links are not followed).
    Symlink,
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character or block device.
    Device,
    /// Anything else the system knows.
    Other,
}

impl FileKind {
    /// With its article, for messages: `a directory`.
    pub fn describe(self) -> &'static str {
        match self {
            Self::File => "a regular file",
            Self::Dir => "a directory",
            Self::Symlink => "a symbolic link",
            Self::Fifo => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Other => "a special file",
        }
    }
}

impl From<FileType> for FileKind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            t if t.is_file() => Self::File,
            t if t.is_dir() => Self::Dir,
            t if t.is_symlink() => Self::Symlink,
            t if t.is_fifo() => Self::Fifo,
            t if t.is_socket() => Self::Socket,
            t if t.is_char_device() || t.is_block_device() => Self::Device,
            _ => Self::Other,
        }
    }
}

/// Identity and version of a file as `stat` tells it: equal stamps mean nobody replaced or wrote it in between
/// (within the file system's clock grain).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Last modification, nanoseconds since the epoch.
    pub mtime_ns: i64,
}

impl From<&Metadata> for FileStamp {
    fn from(meta: &Metadata) -> Self {
        Self {
            dev: meta.dev(),
            ino: meta.ino(),
            size: meta.size(),
            mtime_ns: nanoseconds(meta.mtime(), meta.mtime_nsec()),
        }
    }
}

/// Nanoseconds in an i64 reach the year 2262.
fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// What `stat` tells of an entry of a directory that is held open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    pub(super) kind: FileKind,
    pub(super) stamp: FileStamp,
    /// Permission and set-id bits.
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    pub(super) n_links: u64,
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the widths of these fields differ between systems"
)]
impl From<&Stat> for Attributes {
    fn from(stat: &Stat) -> Self {
        use rustix::fs::FileType as Raw;
        let kind = match Raw::from_raw_mode(stat.st_mode) {
            Raw::RegularFile => FileKind::File,
            Raw::Directory => FileKind::Dir,
            Raw::Symlink => FileKind::Symlink,
            Raw::Fifo => FileKind::Fifo,
            Raw::Socket => FileKind::Socket,
            Raw::CharacterDevice | Raw::BlockDevice => FileKind::Device,
            Raw::Unknown => FileKind::Other,
        };
        Self {
            kind,
            stamp: FileStamp {
                dev: stat.st_dev as u64,
                ino: stat.st_ino as u64,
                size: stat.st_size as u64,
                mtime_ns: nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            },
            mode: stat.st_mode as u32 & 0o7777,
            owner: (stat.st_uid, stat.st_gid),
            n_links: stat.st_nlink as u64,
        }
    }
}

/// One name in a directory; links are not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The bare name.
    pub name: OsString,
    /// The whole path.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
}

/// Stats a path, following links.
pub fn metadata(path: &Path) -> Result<Metadata, FsError> {
    fs::metadata(path).map_err(context("stat", path))
}

/// Stats a path itself, without following a final link.
pub fn symlink_metadata(path: &Path) -> Result<Metadata, FsError> {
    fs::symlink_metadata(path).map_err(context("stat", path))
}

/// Tells what stands at a path, following links; `None` when nothing does or it cannot be seen.
pub fn kind_of(path: &Path) -> Option<FileKind> {
    fs::metadata(path).ok().map(|meta| meta.file_type().into())
}

/// Takes the stamp of what a path names, following links.
pub fn stamp_of(path: &Path) -> Result<FileStamp, FsError> {
    metadata(path).map(|meta| FileStamp::from(&meta))
}

/// Whether a file can be read or written by nobody but its owner (and the administrator).
#[expect(clippy::verbose_bit_mask, reason = "the mask is a set of permissions")]
pub fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata(path).is_ok_and(|meta| (meta.permissions().mode() & 0o077) == 0)
}

/// Whether a path is a regular file that this process may execute.
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file())
        && rustix::fs::accessat(
            rustix::fs::CWD,
            path,
            rustix::fs::Access::EXEC_OK,
            rustix::fs::AtFlags::EACCESS,
        )
        .is_ok()
}

/// Resolves every link of an existing path.
pub fn real_path(path: &Path) -> Result<PathBuf, FsError> {
    fs::canonicalize(path).map_err(context("resolve", path))
}

/// Reads where a symbolic link points.
pub fn read_link(path: &Path) -> Result<PathBuf, FsError> {
    fs::read_link(path).map_err(context("read link", path))
}

/// Lists a directory, sorted by name. A name that vanishes while listing is left out.
pub fn list_dir(path: &Path) -> Result<Vec<DirEntry>, FsError> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(context("list", path))? {
        let entry = entry.map_err(context("list", path))?;
        let Ok(file_type) = entry.file_type() else {
            continue;
        };
        entries.push(DirEntry {
            name: entry.file_name(),
            path: entry.path(),
            kind: file_type.into(),
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}
