//! The file a call is about: how it is named, opened and read whole, and how what goes wrong is told to the model.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use longshore_protocol::value::display::Display;
use tokio_util::sync::CancellationToken;

use super::Freshness;
use super::freshness::Known;
use crate::kernel::access::{Access, RealAccess};
use crate::os::fs::{self, FileKind, FileStamp, FsError, ReplaceError};
use crate::path::RealPath;
use crate::schema::nearest;
use crate::tool::Outcome;

/// Largest file that is edited, or compared before it is overwritten.
pub(super) const MAX_EDIT_BYTES: u64 = 64 << 20;

/// Names offered for one that does not exist.
const MAX_SUGGESTIONS: usize = 3;

/// The one file of a call.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// As it was judged.
    pub access: RealAccess,
    /// As the model named it.
    pub shown: String,
}

/// A file read whole, and what it was at that moment.
pub(super) struct Content {
    pub bytes: Vec<u8>,
    pub stamp: FileStamp,
}

/// Why nothing was done, for the model.
#[derive(Debug, Clone)]
pub(super) struct Failed {
    /// Full sentences: what happened and what to try.
    pub message: String,
}

impl Failed {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

impl From<Failed> for Outcome {
    fn from(failed: Failed) -> Self {
        Self::failed(failed.message)
    }
}

impl From<Failed> for Display {
    fn from(failed: Failed) -> Self {
        Self::Error {
            message: failed.message,
            code: None,
        }
    }
}

impl Target {
    /// The path to open: links resolved.
    pub(super) fn real(&self) -> &Path {
        &self.access.real
    }

    /// The path as the call declared it, absolute.
    pub(super) fn declared(&self) -> &Path {
        match &self.access.access {
            Access::File(file) => &file.path,
            Access::All => self.real(),
        }
    }

    /// Looks again whether the path leads where it led when the call was judged.
    pub(super) fn check_unmoved(&self) -> Result<(), Failed> {
        if RealPath::still(&self.access) {
            return Ok(());
        }
        Err(Failed::new(format!(
            "The path {} changed since it was approved: it now leads somewhere else. Nothing was done.",
            self.shown
        )))
    }

    /// Reads the whole file.
    pub(super) fn read(&self) -> Result<Content, Failed> {
        let (file, meta) = fs::open_real(self.real()).map_err(|error| self.open_error(&error))?;
        if meta.len() > MAX_EDIT_BYTES {
            return Err(Failed::new(format!(
                "{} is {} MiB; files above {} MiB can't be edited. Use a shell command.",
                self.shown,
                meta.len() >> 20,
                MAX_EDIT_BYTES >> 20
            )));
        }
        let mut bytes = Vec::with_capacity(meta.len() as usize);
        // A file that is being appended to is read as far as it was when it was opened.
        let read = file.take(meta.len()).read_to_end(&mut bytes);
        read.map_err(|error| {
            Failed::new(format!(
                "{} can't be read: {}.",
                self.shown,
                io_reason(&error)
            ))
        })?;
        Ok(Content {
            bytes,
            stamp: FileStamp::from(&meta),
        })
    }

    /// What opening failed with, and what to try.
    pub(super) fn open_error(&self, error: &FsError) -> Failed {
        if let Some(kind) = error.not_regular() {
            return self.not_a_file(kind);
        }
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Failed::new(format!(
                "{} does not exist.{}",
                self.shown,
                self.suggestions()
            )),
            io::ErrorKind::IsADirectory => self.not_a_file(FileKind::Dir),
            _ => Failed::new(format!(
                "{} can't be opened: {}.",
                self.shown,
                io_reason(&error.source)
            )),
        }
    }

    /// A directory or something special stands there.
    pub(super) fn not_a_file(&self, kind: FileKind) -> Failed {
        let advice = if kind == FileKind::Dir {
            " Use Glob to list the files in it."
        } else {
            ""
        };
        Failed::new(format!(
            "{} is {}, not a file.{advice}",
            self.shown,
            kind.describe()
        ))
    }

    /// What writing failed with.
    pub(super) fn write_error(&self, error: &ReplaceError) -> Failed {
        let shown = &self.shown;
        Failed::new(match error {
            ReplaceError::Changed { .. } => {
                format!(
                    "{shown} was changed by something else at the same moment; nothing was written. Read it again."
                )
            }
            ReplaceError::Exists { .. } => {
                format!(
                    "{shown} was made by something else at the same moment; nothing was written. Read it first."
                )
            }
            ReplaceError::ReadOnly { .. } => {
                format!(
                    "{shown} is read-only; nothing was written. Ask the user before changing its permissions."
                )
            }
            ReplaceError::NotRegular { kind, .. } => return self.not_a_file(*kind),
            ReplaceError::Fs(error) => {
                format!(
                    "{shown} can't be written: {}. It is as it was.",
                    io_reason(&error.source)
                )
            }
            ReplaceError::NotRestored { backup, source, .. } => {
                let kept = match backup {
                    Some(path) => format!("its old content is in {}", path.display()),
                    None => "its old content is lost".to_owned(),
                };
                format!(
                    "Writing {shown} failed midway ({}) and could not be taken back; {kept}.",
                    io_reason(source)
                )
            }
        })
    }

    /// How the content stands to what this agent has seen.
    pub(super) fn known(&self, freshness: &Freshness, content: &Content) -> Known {
        freshness.compare(self.real(), content.stamp, || {
            Some(freshness.hash(&content.bytes))
        })
    }

    /// ` Did you mean …?`, where names beside the missing one look like it.
    fn suggestions(&self) -> String {
        let (Some(dir), Some(name)) = (self.real().parent(), self.real().file_name()) else {
            return String::new();
        };
        let Ok(entries) = fs::list_dir(dir) else {
            return String::new();
        };
        let names: Vec<_> = entries
            .iter()
            .filter_map(|entry| entry.name.to_str())
            .collect();
        let near = nearest(&name.to_string_lossy(), names, MAX_SUGGESTIONS);
        if near.is_empty() {
            return String::new();
        }
        let beside = Path::new(&self.shown)
            .parent()
            .map(Path::to_owned)
            .unwrap_or_default();
        let near: Vec<_> = near
            .iter()
            .map(|name| beside.join(name).display().to_string())
            .collect();
        format!(" Did you mean {}?", near.join(" or "))
    }
}

/// Nothing is begun after a cancel.
pub(super) fn check_cancel(cancel: &CancellationToken) -> Result<(), Failed> {
    if cancel.is_cancelled() {
        Err(cancelled())
    } else {
        Ok(())
    }
}

/// The outcome of a call that was cancelled before its effect.
pub(super) fn cancelled() -> Failed {
    Failed::new("The call was cancelled before it did anything.")
}

/// A call without the access it declared; the engine never makes one.
pub(super) fn no_access() -> Failed {
    Failed::new("The call was not judged for any path, so it was not executed.")
}

/// The system's answer in words a model can act on.
pub(super) fn io_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::StorageFull => "no space left on the device".to_owned(),
        io::ErrorKind::QuotaExceeded => "the disk quota is used up".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::InvalidFilename => "the name is too long or not allowed".to_owned(),
        _ => error.to_string(),
    }
}

/// The file of a call that touches just one.
pub(super) fn of_call(accesses: &[RealAccess], shown: &str) -> Option<Target> {
    accesses.first().map(|access| Target {
        access: access.clone(),
        shown: shown.to_owned(),
    })
}

/// The directories above a path that do not exist yet, outermost first (blocking).
///
/// # Errors
/// What stands in the way where a directory is needed.
pub(super) fn missing_dirs(real: &Path) -> Result<Vec<PathBuf>, (PathBuf, FileKind)> {
    let mut missing = Vec::new();
    for dir in real.ancestors().skip(1) {
        match fs::kind_of(dir) {
            None => missing.push(dir.to_owned()),
            Some(FileKind::Dir) => break,
            Some(kind) => return Err((dir.to_owned(), kind)),
        }
    }
    missing.reverse();
    Ok(missing)
}
