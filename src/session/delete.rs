//! Removing a session for good.
//!
//! Its directory is renamed aside before anything in it is removed, so that a crash leaves the whole session or none; what
//! is aside goes with the next start at the latest.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longshore_protocol::id::{AgentId, SessionId};

use super::deps::{Deps, tasks_dir};
use super::journal::storage_fault;
use super::lifecycle::Sessions;
use super::store;
use crate::background::end_supervised;
use crate::kernel::event::{DomainEvent, Stamped};
use crate::kernel::fault::Fault;
use crate::os::blocking;
use crate::os::fs::{self, FsError};
use crate::os::lock::FileLock;

impl Sessions {
    /// Closes a session and removes it from the disk, from lists and from searches. False where there is none.
    ///
    /// # Errors
    /// `session_locked` where another process has it, storage kinds.
    pub async fn delete(&self, id: &SessionId) -> Result<bool, Fault> {
        let was_loaded = match self.loaded(id) {
            Some(handle) => handle.close().await.map(|()| true)?,
            None => false,
        };
        // Nobody loads it meanwhile.
        let _passed = self.deps.loaded.turnstile(id).lock_owned().await;
        let (deps, wanted) = (self.deps.clone(), id.clone());
        let Some((dir, lock)) = blocking::run(move || deps.held(&wanted)).await? else {
            if was_loaded {
                // One that was not to be kept went with its close.
                self.announce_deleted(id);
            }
            return Ok(was_loaded);
        };
        self.deps.await_no_more(id);
        let (tasks, grace) = (tasks_dir(&dir), self.deps.config.task.kill_grace);
        end_supervised(tasks, &self.deps.processes, self.deps.clock.now(), grace).await;
        let (deps, gone) = (self.deps.clone(), id.clone());
        blocking::run(move || deps.remove(&gone, &dir, &lock)).await?;
        self.announce_deleted(id);
        Ok(true)
    }

    fn announce_deleted(&self, id: &SessionId) {
        self.deps.publish.publish(Stamped::new(
            id.clone(),
            AgentId::main(),
            None,
            self.deps.clock.now(),
            DomainEvent::SessionDeleted,
        ));
    }
}

impl Deps {
    /// The directory of a session that is not loaded, and its lock. Blocking.
    fn held(self: &Arc<Self>, id: &SessionId) -> Result<Option<(PathBuf, FileLock)>, Fault> {
        let Some(dir) = self.store.find(id) else {
            return Ok(None);
        };
        let lock = store::lock(&dir, self.clock.now())?;
        Ok(Some((dir, lock)))
    }

    /// Takes everything away that there is of a session. Blocking.
    fn remove(&self, id: &SessionId, dir: &Path, _lock: &FileLock) -> Result<(), Fault> {
        let aside = self.store.aside_dir().join(id.as_str());
        put_aside(dir, &aside).map_err(|error| storage_fault(error, dir))?;
        self.store.closed(id, true);
        self.cron_index.set(id, None);
        self.store.index.forget(id);
        if let Err(error) = fs::remove_tree(&aside) {
            tracing::warn!(session = %id, %error, "the files of a deleted session are removed with the next start");
        }
        Ok(())
    }
}

fn put_aside(dir: &Path, aside: &Path) -> Result<(), FsError> {
    if let Some(parent) = aside.parent() {
        fs::create_private_dirs(parent)?;
    }
    fs::remove_tree(aside)?;
    fs::rename(dir, aside)?;
    fs::sync_parent(dir)
}
