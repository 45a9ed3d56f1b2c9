//! The file a call is about: how it is named, opened and read whole, and how what goes wrong is told to the model.

use std::ffi::CStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use longshore_protocol::value::display::Display;
use tokio_util::sync::CancellationToken;

use super::Freshness;
use super::freshness::Known;
use crate::kernel::access::{Access, RealAccess};
use crate::os::fs::{DirReader, FileKind, FileStamp, FsError, ReplaceError, Spot};
use crate::schema::nearest;
use crate::tool::Outcome;

/// Largest file that is edited, or compared before it is overwritten.
pub(super) const MAX_EDIT_BYTES: u64 = 64 << 20;

/// Names offered for one that does not exist.
const MAX_SUGGESTIONS: usize = 3;

/// Names compared for that. Chosen: some milliseconds.
const MAX_COMPARED: usize = 5000;

/// The one file of a call.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// As it was judged.
    pub access: RealAccess,
    /// As the model named it.
    pub shown: String,
}

/// A file read whole, what it was at that moment, and the place in a directory held open where it stands: a change
/// that follows from it is made there.
pub(super) struct Content {
    pub bytes: Vec<u8>,
    pub stamp: FileStamp,
    pub spot: Spot,
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

    /// Holds the directory of the file open, no link followed on the way there.
    pub(super) fn hold(&self) -> Result<Spot, Failed> {
        Spot::real(self.real()).map_err(|error| self.open_error(&error))
    }

    /// Opens the file for reading, no link followed on the way there.
    pub(super) fn open(&self) -> Result<(File, Metadata), Failed> {
        self.hold()?.open().map_err(|error| self.open_error(&error))
    }

    /// Reads the whole file.
    pub(super) fn read(&self) -> Result<Content, Failed> {
        self.read_at(self.hold()?)
    }

    /// Reads the whole file at its place.
    pub(super) fn read_at(&self, spot: Spot) -> Result<Content, Failed> {
        let (file, meta) = spot.open().map_err(|error| self.open_error(&error))?;
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
            spot,
        })
    }

    /// What opening failed with, and what to try.
    pub(super) fn open_error(&self, error: &FsError) -> Failed {
        if error.met_link() {
            return self.moved();
        }
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

    /// A link stands where none stood when the path was judged.
    fn moved(&self) -> Failed {
        Failed::new(format!(
            "The path {} changed since it was approved: it now leads somewhere else. Nothing was done.",
            self.shown
        ))
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

    /// What making the directories above it failed with.
    pub(super) fn dirs_error(&self, error: &FsError) -> Failed {
        if error.met_link() {
            return self.moved();
        }
        if let Some(kind) = error.not_directory() {
            return Failed::new(format!(
                "{} can't be made: {} is {}, not a directory.",
                self.shown,
                error.path.display(),
                kind.describe()
            ));
        }
        Failed::new(format!(
            "The directories for {} can't be made: {}.",
            self.shown,
            io_reason(&error.source)
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
            ReplaceError::Stopped { .. } => return cancelled(),
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
            ReplaceError::NotRegular {
                kind: FileKind::Symlink,
                ..
            }
            | ReplaceError::Moved { .. } => return self.moved(),
            ReplaceError::NotRegular { kind, .. } => return self.not_a_file(*kind),
            ReplaceError::Fs(error) if error.met_link() => return self.moved(),
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
        let mut names = Vec::new();
        let gathered = DirReader::open(dir).and_then(|reader| {
            let gather = |name: &CStr, _| {
                names.extend(name.to_str().ok().map(str::to_owned));
                names.len() < MAX_COMPARED
            };
            let read = reader.names(gather);
            read.map_err(|error| FsError::new("list", dir, error))
        });
        if gathered.is_err() {
            return String::new();
        }
        let near = nearest(
            &name.to_string_lossy(),
            names.iter().map(String::as_str),
            MAX_SUGGESTIONS,
        );
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
