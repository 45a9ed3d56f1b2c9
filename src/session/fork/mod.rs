//! A session made from another one: its conversation up to a turn, as its user sees it.
//!
//! The other session may be running, here or elsewhere: it is only read. The copy is made aside and renamed into place when
//! it is on the disk, so that a crash leaves no half of it; then it is loaded like any session, and what it knows is what
//! its journal says. It has no state of its own and knows nothing of hosts.
//!
//! [`plan`] says which turns and tasks go with it, [`lines`] which lines of the journal. Jobs come paused, as the other
//! session has them now.

mod lines;
mod plan;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longshore_protocol::id::{SessionId, TurnId};
use longshore_protocol::value::session::{Session, Status};
use longshore_protocol::value::usage::Usage;

use self::plan::Plan;
use super::command::SessionHandle;
use super::create::check_dir;
use super::deps::{Deps, tasks_dir};
use super::index::Use;
use super::journal::storage_fault;
use super::lifecycle::Sessions;
use super::store::{self, Loaded};
use crate::kernel::fault::Fault;
use crate::kernel::time::Timestamp;
use crate::os::blocking;
use crate::os::fs::{self, FileKind, FsError};

/// Directories of a session whose files its conversation names.
const NAMED_DIRS: [&str; 2] = ["media", "tool-results"];

/// What a fork is made of, beside the session it is made from.
#[derive(Clone, Debug, Default)]
pub struct ForkOptions {
    /// The last turn that goes with it; the last one that has ended where absent.
    pub turn: Option<TurnId>,
    /// Its title; the other's where absent.
    pub title: Option<String>,
    /// Where it works: absolute, an existing directory; where the other one works where absent.
    pub cwd: Option<PathBuf>,
    /// Further directories, likewise.
    pub additional_dirs: Option<Vec<PathBuf>>,
}

impl Sessions {
    /// Makes a session from another one, which is only read.
    ///
    /// # Errors
    /// `session_not_found`, `turn_not_found` for a turn that the conversation does not have, `session_busy` for one that
    /// has not ended, `invalid_params` for a directory, storage kinds.
    pub async fn fork(
        &self,
        id: &SessionId,
        options: ForkOptions,
    ) -> Result<(SessionHandle, Session), Fault> {
        let (deps, of) = (self.deps.clone(), id.clone());
        let handle = blocking::run(move || deps.fork(&of, options)).await?;
        let session = handle.view().await?.session;
        Ok((handle, session))
    }
}

impl Deps {
    /// Blocking.
    fn fork(
        self: &Arc<Self>,
        of: &SessionId,
        options: ForkOptions,
    ) -> Result<SessionHandle, Fault> {
        let ForkOptions {
            turn,
            title,
            cwd,
            additional_dirs,
        } = options;
        let source = self.store.find(of).ok_or_else(|| super::not_found(of))?;
        let loaded = store::load(of, &source)?;
        let cwd = cwd.unwrap_or_else(|| PathBuf::from(&loaded.session.cwd));
        let real_cwd = check_dir(&cwd.to_string_lossy(), "/cwd")?;
        let additional_dirs = match additional_dirs {
            Some(dirs) => dirs.iter().map(|dir| dir.display().to_string()).collect(),
            None => loaded.session.additional_dirs.clone(),
        };
        for dir in &additional_dirs {
            check_dir(dir, "/additionalDirs")?;
        }
        let plan = Plan::of(&source, loaded.last.0, turn.as_ref())?;
        let (id, now) = (SessionId::from(self.ids.ulid()), self.clock.now());
        let session = Session {
            session_id: id.clone(),
            title: title.unwrap_or_else(|| loaded.session.title.clone()),
            cwd: cwd.display().to_string(),
            additional_dirs,
            status: Status::Idle,
            created_at: now.to_string(),
            updated_at: now.to_string(),
            last_prompt: None,
            turn_count: 0,
            usage: Usage::default(),
            archived: false,
            parent_session_id: Some(of.clone()),
            ..loaded.session.clone()
        };
        let fork = Fork {
            source: &source,
            aside: &self.store.aside_dir().join(id.as_str()),
            dir: &self.store.new_dir(&id, &real_cwd, session.ephemeral),
            session: &session,
            plan: &plan,
        };
        let made = fork.make(&loaded, now).and_then(|()| self.resume(&id));
        let handle = made.inspect_err(|_| {
            // Half a session is none: nothing of it is to be found later.
            for half in [fork.aside, fork.dir] {
                if let Err(error) = fs::remove_tree(half) {
                    tracing::warn!(%error, "what was made of a session could not be removed");
                }
            }
            self.store.closed(&id, true);
        })?;
        if !session.ephemeral {
            self.note_fork(&id, fork.dir);
        }
        Ok(handle)
    }

    /// What it was prompted with is found by searches from the start.
    fn note_fork(&self, id: &SessionId, dir: &Path) {
        match store::load(id, dir) {
            Ok(Loaded { session, .. }) => {
                let session = Session {
                    status: Status::Closed,
                    ..session
                };
                let prompts = store::prompts(dir);
                self.store.note(dir, &session, Use::Open, &prompts);
            }
            Err(fault) => {
                tracing::warn!(session = %id, %fault, "a fork could not be noted in the index");
            }
        }
    }
}

/// A fork that is being made.
struct Fork<'a> {
    /// The directory of the other session.
    source: &'a Path,
    /// Where it is made.
    aside: &'a Path,
    /// Where it will be.
    dir: &'a Path,
    /// As it begins.
    session: &'a Session,
    plan: &'a Plan,
}

impl Fork<'_> {
    fn make(&self, loaded: &Loaded, now: Timestamp) -> Result<(), Fault> {
        fs::create_private_dirs(self.aside).map_err(|error| storage_fault(error, self.aside))?;
        // Held, so that nobody takes it for the leavings of a crash.
        let _lock = store::lock(self.aside, now)?;
        self.write_journal(loaded, now)?;
        self.copy_files()
            .and_then(|()| self.put_into_place())
            .map_err(|error| storage_fault(error, self.dir))
    }

    fn copy_files(&self) -> Result<(), FsError> {
        for name in NAMED_DIRS {
            copy_dir(&self.source.join(name), &self.aside.join(name))?;
        }
        let (from, to) = (tasks_dir(self.source), tasks_dir(self.aside));
        for task in self.plan.ended_tasks() {
            let record = format!("{task}.json");
            let is_there =
                fs::symlink_metadata(&from.join(&record)).is_ok_and(|meta| meta.is_file());
            if is_there {
                fs::create_private_dirs(&to)?;
                fs::link_or_copy(&from.join(&record), &to.join(&record))?;
                copy_dir(&from.join(task.as_str()), &to.join(task.as_str()))?;
            }
        }
        Ok(())
    }

    fn put_into_place(&self) -> Result<(), FsError> {
        if let Some(parent) = self.dir.parent() {
            fs::create_private_dirs(parent)?;
        }
        fs::sync_dir(self.aside)?;
        fs::rename(self.aside, self.dir)?;
        fs::sync_parent(self.dir)
    }
}

/// Gives the regular files of a directory to another one. Their names stand for their content, or they are written no more.
fn copy_dir(from: &Path, to: &Path) -> Result<(), FsError> {
    let entries = match fs::list_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        if entry.kind == FileKind::File {
            fs::create_private_dirs(to)?;
            match fs::link_or_copy(&entry.path, &to.join(&entry.name)) {
                // What is over a budget goes at any moment.
                Err(error) if error.is_not_found() => {}
                done => done?,
            }
        }
    }
    Ok(())
}
