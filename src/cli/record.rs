//! `run/<pid>.json`: what says of a running server which one it is. Written by it, read by people and by the commands
//! that look for a daemon; gone when the server has ended, or with the next start.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::kernel::time::Timestamp;
use crate::os::fs::{self, Durability, FsError};
use crate::os::process::{Identity, is_in_a_task, own_parents};
use crate::store::atomic_file;

/// A running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// Its process.
    pub(super) pid: u32,
    /// When that process started, in clock ticks since boot; 0 where the system does not tell.
    pub(super) start_ticks: u64,
    /// Its version.
    pub(super) version: String,
    /// The command: `serve`, `acp` or `daemon`.
    pub(super) command: String,
    /// RFC 3339.
    pub(super) started_at: String,
    /// Who started a daemon: `person`, `start` or `attach`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) begun_by: Option<String>,
    /// The address of its WebSocket, with the real port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) listen: Option<String>,
}

impl Record {
    /// This process.
    pub(super) fn own(command: &str, now: Timestamp) -> Self {
        let Identity { pid, start } = Identity::own();
        Self {
            pid,
            start_ticks: start,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command.to_owned(),
            started_at: now.to_string(),
            begun_by: None,
            listen: None,
        }
    }

    /// Writes it into a home's directory of running things, which is made where it is missing. Blocking.
    pub(super) fn write(&self, run_dir: &Path) -> Result<(), FsError> {
        fs::create_private_dirs(run_dir)?;
        let text = serde_json::to_vec(self)
            .map_err(|error| FsError::new("write", run_dir, std::io::Error::other(error)))?;
        atomic_file::write(&path(run_dir, self.pid), &text, Durability::Kernel)
    }

    /// The record of a process, where it has one that can be read. Blocking.
    pub(super) fn read(run_dir: &Path, pid: u32) -> Option<Self> {
        let bytes = fs::read_if_present(&path(run_dir, pid)).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Removes it. Blocking.
    pub(super) fn remove(&self, run_dir: &Path) {
        if let Err(error) = fs::remove_file_if_present(&path(run_dir, self.pid)) {
            tracing::warn!(%error, "the record of this server could not be removed");
        }
    }
}

/// Whether this process was started by a server of a home, or by longshore for a model. Best effort. Blocking.
pub(super) fn is_begun_by_longshore(run_dir: &Path) -> bool {
    let is_server = |parent: Identity| {
        Record::read(run_dir, parent.pid).is_some_and(|record| record.start_ticks == parent.start)
    };
    is_in_a_task() || own_parents().into_iter().any(is_server)
}

/// Removes the records of servers that run no more. Blocking.
pub(super) fn sweep(run_dir: &Path) {
    for entry in fs::list_dir(run_dir).unwrap_or_default() {
        let Some(pid) = pid_of(&entry.path) else {
            continue;
        };
        let is_alive = Record::read(run_dir, pid).is_some_and(|record| {
            let (pid, start) = (record.pid, record.start_ticks);
            Identity { pid, start }.is_alive()
        });
        if !is_alive && let Err(error) = fs::remove_file_if_present(&entry.path) {
            tracing::warn!(%error, "the record of a server that has ended could not be removed");
        }
    }
}

fn path(run_dir: &Path, pid: u32) -> PathBuf {
    run_dir.join(format!("{pid}.json"))
}

fn pid_of(path: &Path) -> Option<u32> {
    path.file_name()?
        .to_str()?
        .strip_suffix(".json")?
        .parse()
        .ok()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests set up files directly")]
mod tests {
    use super::*;

    #[test]
    fn the_living_stay() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let own = Record::own("serve", Timestamp(0));
        own.write(&run).unwrap();
        assert_eq!(Record::read(&run, own.pid), Some(own.clone()));
        let later = Record {
            pid: own.pid + 1,
            start_ticks: own.start_ticks + 1,
            ..own.clone()
        };
        later.write(&run).unwrap();
        for (name, text) in [("7.json", "{"), ("other.json", "{}"), ("9", "{}")] {
            std::fs::write(run.join(name), text).unwrap();
        }
        sweep(&run);
        let left: Vec<_> = fs::list_dir(&run).unwrap();
        let left: Vec<_> = left
            .iter()
            .map(|entry| entry.name.to_str().unwrap())
            .collect();
        let own_name = format!("{}.json", own.pid);
        let mut expected = vec!["9", &own_name, "other.json"];
        expected.sort_unstable();
        assert_eq!(left, expected);
        own.remove(&run);
        assert_eq!(Record::read(&run, own.pid), None);
    }
}
