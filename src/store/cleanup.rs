//! The account of temporary files: what a killed process left behind is removed by the next one.
//!
//! All processes of one home share one file of lines. A line is written before its file is made, and names the process
//! that makes it; it is taken out some time after that file is gone. At a start, [`Cleanup::sweep`] removes the files
//! of processes that run no more, and nobody else's. A line is in the kernel when the file is made, not on the disk:
//! it outlives this process, while after a power failure a hidden file may stay behind.
//!
//! Invariants: only regular files with the name of a temporary file are ever removed, and none through a link; the only
//! copy of somebody's content is never removed.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::atomic_file;
use crate::os::fs::{self, Durability, FsError, Leftover, TempLog, TempUse};
use crate::os::process::Identity;

/// Lines added by this process at which those no longer needed are taken out. Chosen: some 50 KB.
const COMPACT_AT: usize = 256;

/// The account of one home. Blocking.
#[derive(Debug)]
pub struct Cleanup {
    file: PathBuf,
    lock: PathBuf,
    own: Identity,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What this process has made and not settled, as it stands in the file.
    open: HashMap<PathBuf, Line>,
    n_added: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    pid: u32,
    start: u64,
    #[serde(with = "any_path")]
    path: PathBuf,
    /// The file whose old content this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    saved_of: Option<String>,
}

/// What a sweep came upon.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Files removed.
    pub n_removed: usize,
    /// Old contents of files that a process was overwriting when it ended, and that differ from them now: the copy and
    /// the file, as far as it can be written. They are kept, and this is the last time they are told of.
    pub kept: Vec<(PathBuf, String)>,
}

impl Cleanup {
    /// The account below a directory, which is made with the first line.
    pub fn new(dir: &Path) -> Self {
        Self {
            file: dir.join("cleanup.jsonl"),
            lock: dir.join("cleanup.lock"),
            own: Identity::own(),
            state: Mutex::default(),
        }
    }

    /// Removes what processes that run no more have left.
    ///
    /// # Errors
    /// The account could not be read or written. What could not be removed stays in it.
    pub fn sweep(&self) -> Result<Swept, FsError> {
        if fs::kind_of(&self.file).is_none() {
            return Ok(Swept::default());
        }
        let _locked = self.lock_file()?;
        let mut swept = Swept::default();
        let mut left = Vec::new();
        for line in self.read()? {
            if line.owner().is_alive() {
                left.push(line);
                continue;
            }
            if let Some(of) = line.saved_of.clone().filter(|of| !is_copy(&line.path, of)) {
                if fs::kind_of(&line.path).is_some() {
                    swept.kept.push((line.path, of));
                }
                continue;
            }
            match fs::remove_leftover(&line.path) {
                Ok(Leftover::Removed) => swept.n_removed += 1,
                Ok(Leftover::None) => {}
                Err(error) => {
                    tracing::warn!(%error, "a temporary file could not be removed");
                    left.push(line);
                }
            }
        }
        self.write(&left)?;
        Ok(swept)
    }

    fn add(&self, line: &Line) -> Result<(), FsError> {
        let path = &self.file;
        let dir = path.parent().unwrap_or(path);
        fs::create_private_dirs(dir)?;
        let _locked = self.lock_file()?;
        // Half a line that a full disk left must not swallow this one.
        let bytes = [b"\n", &*line.to_bytes()?].concat();
        fs::open_append(path)?
            .write_all(&bytes)
            .map_err(|error| FsError::new("write", path, error))
    }

    /// Takes out what this process has settled, and lines that can't be read.
    fn compact(&self, state: &mut State) -> Result<(), FsError> {
        let _locked = self.lock_file()?;
        let is_needed =
            |line: &Line| line.owner() != self.own || state.open.contains_key(&line.path);
        let lines: Vec<_> = self.read()?.into_iter().filter(is_needed).collect();
        state.n_added = 0;
        self.write(&lines)
    }

    /// All processes take turns, so that no line is lost between the reading and the writing of another.
    fn lock_file(&self) -> Result<File, FsError> {
        let file = fs::create_private_file(&self.lock)?;
        file.lock()
            .map_err(|error| FsError::new("lock", &self.lock, error))?;
        Ok(file)
    }

    fn read(&self) -> Result<Vec<Line>, FsError> {
        let bytes = fs::read_if_present(&self.file)?.unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n');
        Ok(lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect())
    }

    fn write(&self, lines: &[Line]) -> Result<(), FsError> {
        let mut bytes = Vec::new();
        for line in lines {
            bytes.extend(line.to_bytes()?);
            bytes.push(b'\n');
        }
        atomic_file::write(&self.file, &bytes, Durability::Kernel)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TempLog for Cleanup {
    fn making(&self, path: &Path, what_for: TempUse<'_>) {
        let line = Line {
            pid: self.own.pid,
            start: self.own.start,
            path: path.to_owned(),
            saved_of: match what_for {
                TempUse::Incoming => None,
                TempUse::SavedOf(file) => Some(file.to_string_lossy().into_owned()),
            },
        };
        let mut state = self.state();
        // A write is not refused because nothing would tidy up after a crash in it.
        if let Err(error) = self.add(&line) {
            tracing::warn!(%error, "a temporary file could not be put on account");
        }
        state.open.insert(path.to_owned(), line);
        state.n_added += 1;
    }

    fn settled(&self, path: &Path) {
        let mut state = self.state();
        state.open.remove(path);
        if state.n_added >= COMPACT_AT
            && let Err(error) = self.compact(&mut state)
        {
            tracing::warn!(%error, "the account of temporary files could not be shortened");
        }
    }

    fn kept(&self, path: &Path) {
        let mut state = self.state();
        state.open.remove(path);
        if let Err(error) = self.compact(&mut state) {
            tracing::error!(%error, path = %path.display(), "a file that is to stay is still on account as temporary");
        }
    }
}

impl Line {
    fn owner(&self) -> Identity {
        Identity {
            pid: self.pid,
            start: self.start,
        }
    }

    fn to_bytes(&self) -> Result<Vec<u8>, FsError> {
        serde_json::to_vec(self).map_err(|error| FsError::new("write", &self.path, error))
    }
}

/// Whether a saved content is still, or again, that of the file: then nothing is lost with it.
fn is_copy(saved: &Path, of: &str) -> bool {
    match (fs::read(saved), fs::read(Path::new(of))) {
        (Ok(saved), Ok(now)) => saved == now,
        _ => false,
    }
}

/// A path as a string, or its bytes where it is none.
mod any_path {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Bytes { base64: String },
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        let form = match path.to_str() {
            Some(text) => Form::Text(text.to_owned()),
            None => Form::Bytes {
                base64: STANDARD.encode(path.as_os_str().as_bytes()),
            },
        };
        form.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Text(text) => Ok(text.into()),
            Form::Bytes { base64 } => STANDARD
                .decode(base64)
                .map(|bytes| OsString::from_vec(bytes).into())
                .map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
#[path = "cleanup_tests.rs"]
mod tests;
