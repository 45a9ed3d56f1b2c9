#![expect(
    clippy::disallowed_methods,
    reason = "this is the module those rules point to"
)]

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{FsError, list_dir};

/// How the name of every temporary file begins; searches leave such names out.
pub const TEMP_PREFIX: &str = ".longshore-tmp-";

/// Whether a bare name is that of a temporary file made here.
pub fn is_temp_name(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(TEMP_PREFIX.as_bytes())
}

/// A new file beside its later place, removed when dropped unless it was renamed away.
#[derive(Debug)]
pub struct TempFile {
    file: File,
    path: PathBuf,
    in_place: bool,
}

impl TempFile {
    /// Creates one exclusively in `dir`. The system applies the umask to `mode`.
    pub fn create_in(dir: &Path, mode: u32) -> Result<Self, FsError> {
        Self::create_at(Self::fresh_path(dir), mode)
    }

    /// A path in `dir` that no other temporary file has (128 random and time bits).
    pub(super) fn fresh_path(dir: &Path) -> PathBuf {
        let unique = ulid::Ulid::generate().to_string().to_ascii_lowercase();
        dir.join(format!("{TEMP_PREFIX}{unique}"))
    }

    pub(super) fn create_at(path: PathBuf, mode: u32) -> Result<Self, FsError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(mode)
            .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW)
            .open(&path)
            .map_err(|source| FsError::new("create temporary file", &path, source))?;
        Ok(Self {
            file,
            path,
            in_place: false,
        })
    }

    /// The handle, open for reading and writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it stands now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says that the file now stands under another name: nothing is removed any more.
    pub(super) fn mark_renamed(&mut self) {
        self.in_place = true;
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.in_place {
            // Nothing can be done about a temporary file that cannot be removed; its name says what it is.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Removes temporary files that a crash left in `dir`; returns how many. Only call while nothing writes there.
pub fn remove_leftover_temps(dir: &Path) -> Result<usize, FsError> {
    let mut n_removed = 0;
    for entry in list_dir(dir)? {
        if is_temp_name(&entry.name) && super::remove_file_if_present(&entry.path)? {
            n_removed += 1;
        }
    }
    Ok(n_removed)
}
