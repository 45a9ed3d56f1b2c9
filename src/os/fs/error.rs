use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::FileKind;

/// A file operation that failed: what was tried, on which path, and what the system said.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct FsError {
    /// The attempt as a verb phrase: `read`, `create directory`.
    pub action: &'static str,
    /// The path it was tried on.
    pub path: PathBuf,
    /// The system's answer, or [`NotRegular`] or [`NotDirectory`] wrapped as one.
    #[source]
    pub source: io::Error,
}

impl FsError {
    /// Ties an [`io::Error`] to an attempt and its path.
    pub fn new(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self {
            action,
            path: path.to_owned(),
            source: source.into(),
        }
    }

    /// The portable kind, for branching.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// Whether nothing exists at the path (a missing parent counts).
    pub fn is_not_found(&self) -> bool {
        self.kind() == io::ErrorKind::NotFound
    }

    /// What stood at the path when a regular file was needed.
    pub fn not_regular(&self) -> Option<FileKind> {
        self.inner::<NotRegular>().map(|found| found.0)
    }

    /// What stood at the path when a directory was needed.
    pub fn not_directory(&self) -> Option<FileKind> {
        self.inner::<NotDirectory>().map(|found| found.0)
    }

    /// Whether a link stood in a path that was opened without following any: it is not what it was when it was
    /// resolved.
    pub fn met_link(&self) -> bool {
        self.source.raw_os_error() == Some(libc::ELOOP)
    }

    fn inner<T: std::error::Error + 'static>(&self) -> Option<&T> {
        self.source.get_ref()?.downcast_ref()
    }
}

/// Returns a closure for `map_err` that adds attempt and path.
pub(super) fn context<E: Into<io::Error>>(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> FsError {
    move |source| FsError::new(action, path, source)
}

/// The inner error when something other than a regular file was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotRegular(pub FileKind);

impl fmt::Display for NotRegular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}, not a regular file", self.0.describe())
    }
}

impl std::error::Error for NotRegular {}

/// The inner error when something other than a directory was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotDirectory(pub FileKind);

impl fmt::Display for NotDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}, not a directory", self.0.describe())
    }
}

impl std::error::Error for NotDirectory {}

impl From<NotDirectory> for io::Error {
    fn from(found: NotDirectory) -> Self {
        io::Error::new(io::ErrorKind::NotADirectory, found)
    }
}

impl From<NotRegular> for io::Error {
    fn from(found: NotRegular) -> Self {
        let kind = match found.0 {
            FileKind::Dir => io::ErrorKind::IsADirectory,
            _ => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, found)
    }
}
