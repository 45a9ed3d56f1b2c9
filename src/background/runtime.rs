//! What a supervisor leaves about the command it carries: `<task>/runtime.json`, replaced whole.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::kernel::time::Timestamp;
use crate::os::fs::{Durability, FsError};
use crate::store::atomic_file;

/// How long a supervisor that says nothing counts as alive.
const STALE_MS: i64 = 15_000;

/// The state of a command under a supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Runtime {
    pub(super) supervisor_pid: u32,
    pub(super) supervisor_start_ticks: u64,
    /// Why there is no command, where it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) not_started: Option<String>,
    pub(super) pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start_ticks: Option<u64>,
    pub(super) heartbeat_at_ms: i64,
    pub(super) output_size_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) log_incomplete: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<RuntimeEnd>,
}

/// How the command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RuntimeEnd {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) signal: Option<String>,
    /// Its end was asked for.
    pub(super) stopped: bool,
    /// Its time was over.
    pub(super) timed_out: bool,
    pub(super) ended_at_ms: i64,
}

impl Runtime {
    /// The file of a task whose directory this is.
    pub(super) fn path(task_dir: &Path) -> PathBuf {
        task_dir.join("runtime.json")
    }

    /// Reads what there is. Blocking.
    pub(super) fn read(task_dir: &Path) -> Option<Self> {
        let path = Self::path(task_dir);
        let read = atomic_file::read(&path).map_err(|error| error.to_string());
        let bytes = match read {
            Ok(bytes) => bytes?,
            Err(error) => {
                tracing::warn!(error, "what a supervisor left cannot be read");
                return None;
            }
        };
        match serde_json::from_slice(&bytes) {
            Ok(runtime) => Some(runtime),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "what a supervisor left cannot be read");
                None
            }
        }
    }

    /// Writes it. The last one goes to the disk. Blocking.
    pub(super) fn write(&self, task_dir: &Path) -> Result<(), FsError> {
        let path = Self::path(task_dir);
        let bytes = serde_json::to_vec(self)
            .map_err(|error| FsError::new("write", &path, std::io::Error::other(error)))?;
        let durability = match self.end {
            Some(_) => Durability::Disk,
            None => Durability::Kernel,
        };
        atomic_file::write(&path, &bytes, durability)
    }

    /// Whether its supervisor has said something of late.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        now.0 - self.heartbeat_at_ms < STALE_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Runtime::read(dir.path()), None);
        let runtime = Runtime {
            supervisor_pid: 5,
            supervisor_start_ticks: 6,
            not_started: None,
            pid: 7,
            start_ticks: Some(8),
            heartbeat_at_ms: 100_000,
            output_size_bytes: 3,
            log_incomplete: None,
            end: Some(RuntimeEnd {
                exit_code: Some(0),
                signal: None,
                stopped: false,
                timed_out: false,
                ended_at_ms: 9,
            }),
        };
        runtime.write(dir.path()).unwrap();
        assert_eq!(Runtime::read(dir.path()), Some(runtime.clone()));
        assert!(runtime.is_fresh(Timestamp(114_999)) && !runtime.is_fresh(Timestamp(115_000)));
        atomic_file::write(&Runtime::path(dir.path()), b"{", Durability::Kernel).unwrap();
        assert_eq!(Runtime::read(dir.path()), None);
    }
}
