//! When the jobs of sessions that are not loaded are due: one small file for all of them.
//!
//! It is a cache. The truth is in each session's journal; an entry that is missing or old costs a session being loaded
//! late or for nothing, never a job. Several servers may share it, so each change reads it, changes one entry and writes
//! it whole, under a lock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longshore_protocol::id::SessionId;
use serde::{Deserialize, Serialize};

use crate::kernel::time::Timestamp;
use crate::os::fs::{self, Durability, FsError};
use crate::os::lock::FileLock;
use crate::store::atomic_file;

const VERSION: u32 = 1;

/// The file.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
}

/// What is known of one session's jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// How many there are.
    pub n_jobs: usize,
    /// When the first is due; absent where none will be.
    pub next_fire_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    v: u32,
    sessions: BTreeMap<String, EntryRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryRecord {
    jobs: usize,
    /// Milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_fire_at: Option<i64>,
}

impl Index {
    /// The index below a home.
    pub fn new(home: &Path) -> Self {
        Self {
            path: home.join("cron").join("index.json"),
        }
    }

    /// All entries; `None` where there is no index that can be read. Blocking.
    pub fn all(&self) -> Option<Vec<(SessionId, Entry)>> {
        let sessions = self.read()?.sessions.into_iter().map(|(id, entry)| {
            let entry = Entry {
                n_jobs: entry.jobs,
                next_fire_at: entry.next_fire_at.map(Timestamp),
            };
            (SessionId::from(id), entry)
        });
        Some(sessions.collect())
    }

    /// Changes the entry of a session; `None` takes it out. A failure is only logged. Blocking.
    pub fn set(&self, session: &SessionId, entry: Option<Entry>) {
        if entry.is_none() && fs::kind_of(&self.path).is_none() {
            return;
        }
        if let Err(error) = self.try_set(session, entry) {
            tracing::warn!(%session, %error, "the index of cron jobs could not be written");
        }
    }

    fn try_set(&self, session: &SessionId, entry: Option<Entry>) -> Result<(), IndexError> {
        if let Some(dir) = self.path.parent() {
            fs::create_private_dirs(dir)?;
        }
        let _lock = FileLock::wait(&self.path.with_extension("lock"))?;
        let mut content = self.read().unwrap_or_default();
        let before = serde_json::to_vec(&content)?;
        match entry {
            Some(entry) => {
                let record = EntryRecord {
                    jobs: entry.n_jobs,
                    next_fire_at: entry.next_fire_at.map(|at| at.0),
                };
                content.sessions.insert(session.to_string(), record);
            }
            None => {
                content.sessions.remove(session.as_str());
            }
        }
        let after = serde_json::to_vec(&content)?;
        if after != before {
            atomic_file::write(&self.path, &after, Durability::Kernel)?;
        }
        Ok(())
    }

    /// What can't be read, or is of another version, is as good as absent.
    fn read(&self) -> Option<Content> {
        let bytes = atomic_file::read(&self.path).ok().flatten()?;
        serde_json::from_slice::<Content>(&bytes)
            .ok()
            .filter(|content| content.v == VERSION)
    }
}

impl Default for Content {
    fn default() -> Self {
        Self {
            v: VERSION,
            sessions: BTreeMap::new(),
        }
    }
}

/// Why an entry could not be changed.
#[derive(Debug, thiserror::Error)]
enum IndexError {
    #[error(transparent)]
    Fs(#[from] FsError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests set up files directly")]
mod tests {
    use super::*;

    fn entry(n_jobs: usize, at: i64) -> Entry {
        Entry {
            n_jobs,
            next_fire_at: Some(Timestamp(at)),
        }
    }

    #[test]
    fn entries_come_and_go() {
        let home = tempfile::tempdir().unwrap();
        let (one, other) = (Index::new(home.path()), Index::new(home.path()));
        assert_eq!(one.all(), None);
        one.set(&"a".into(), None);
        assert!(
            !home.path().join("cron").exists(),
            "nothing to say, nothing written"
        );
        one.set(&"a".into(), Some(entry(1, 5)));
        other.set(
            &"b".into(),
            Some(Entry {
                n_jobs: 2,
                next_fire_at: None,
            }),
        );
        one.set(&"a".into(), Some(entry(3, 7)));
        let b = Entry {
            n_jobs: 2,
            next_fire_at: None,
        };
        assert_eq!(
            other.all().unwrap(),
            [("a".into(), entry(3, 7)), ("b".into(), b)]
        );
        other.set(&"a".into(), None);
        assert_eq!(one.all().unwrap(), [("b".into(), b)]);
    }

    #[test]
    fn many_writers_lose_nothing() {
        let home = tempfile::tempdir().unwrap();
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let index = Index::new(home.path());
                std::thread::spawn(move || {
                    for n in 0..10 {
                        index.set(&format!("{thread}-{n}").into(), Some(entry(1, n)));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(Index::new(home.path()).all().unwrap().len(), 40);
    }

    #[test]
    fn a_damaged_one_is_begun_anew() {
        let home = tempfile::tempdir().unwrap();
        let index = Index::new(home.path());
        index.set(&"a".into(), Some(entry(1, 5)));
        for damage in ["", "{}", "{\"v\":99,\"sessions\":{}}"] {
            std::fs::write(&index.path, damage).unwrap();
            assert_eq!(index.all(), None);
            index.set(&"b".into(), Some(entry(1, 5)));
            assert_eq!(index.all().unwrap().len(), 1);
        }
    }
}
