//! What sessions are built from.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::SessionId;
use tokio_util::task::TaskTracker;

use super::command::SessionHandle;
use super::journal::storage_fault;
use super::journal::write::Opening;
use super::store::Store;
use crate::agent::context::prompt::Surroundings;
use crate::background::{TaskLimits, TaskSink, TaskSlots, Tasks, TasksParts};
use crate::config::values::Config;
use crate::cron::index::Index;
use crate::cron::scheduler::Scheduler;
use crate::kernel::fault::Fault;
use crate::kernel::port::{AskHost, HostFs, Publish};
use crate::media::pool::ImagePool;
use crate::os::clock::Clock;
use crate::os::env::Env;
use crate::os::fs::{Durability, TempLog};
use crate::os::ids::IdSource;
use crate::os::lock::FileLock;
use crate::os::process::Processes;
use crate::provider::registry::Registry;
use crate::tool::file::{FileLocks, SearchPool};
use crate::tool::shell::Shell;

/// What sessions are built from; one per process.
pub struct Deps {
    /// longshore's directory.
    pub home: PathBuf,
    /// Configuration.
    pub config: Arc<Config>,
    /// Models.
    pub models: Arc<Registry>,
    /// Where sessions are.
    pub store: Arc<Store>,
    /// Where events go.
    pub publish: Arc<dyn Publish>,
    /// When turns begin that no host asked for.
    pub own_turns: OwnTurns,
    /// Whether turns that wait for a person, and those behind them, are left to the next server when this one ends.
    pub leaves_turns: bool,
    /// Who is asked.
    pub asks: Arc<dyn AskHost>,
    /// Text files as hosts hold them.
    pub host_fs: Arc<dyn HostFs>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Ids.
    pub ids: Arc<dyn IdSource>,
    /// The environment.
    pub env: Arc<Env>,
    /// Runs commands.
    pub shell: Arc<Shell>,
    /// Children: what the commands of a session left behind ends with it.
    pub processes: Processes,
    /// This program's file, where commands begun in the background go on when the server ends.
    pub supervisor: Option<PathBuf>,
    /// The slots of detached tasks of all sessions.
    pub task_slots: TaskSlots,
    /// One for the process, so that no two calls write one file at the same time.
    pub file_locks: Arc<FileLocks>,
    /// Keeps account of temporary files, so that the next start removes what a crash left; where anybody does.
    pub temps: Option<Arc<dyn TempLog>>,
    /// One for the process: all searches share its threads.
    pub search: Arc<SearchPool>,
    /// The appointments of all cron jobs.
    pub cron: Scheduler,
    /// When the jobs of sessions that are not loaded are due.
    pub cron_index: Arc<Index>,
    /// One for the process: all images are decoded in it.
    pub images: ImagePool,
    /// Owns every task of every session.
    pub tasks: TaskTracker,
    /// Turns running now.
    pub running: Arc<Running>,
    /// The sessions that have a task.
    pub loaded: Loads,
}

/// When a session begins turns that no host asked for: a task has ended, a job is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnTurns {
    /// Never: what there is to tell is told with the next input.
    Never,
    /// While a host is attached.
    WhileAttended,
    /// Also while none is.
    Always,
}

/// Where the tasks of the session in this directory are.
pub(super) fn tasks_dir(session_dir: &Path) -> PathBuf {
    session_dir.join("tasks")
}

/// The sessions that have a task.
#[derive(Debug, Default)]
pub struct Loads {
    handles: Mutex<HashMap<SessionId, SessionHandle>>,
    /// Passed by whoever loads a session, so that two hosts do not load it twice. They guard no state.
    turnstiles: Mutex<HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>>,
}

/// Counts turns that run.
#[derive(Debug, Default)]
pub struct Running(AtomicUsize);

/// One running turn, until dropped.
pub struct Counted(Arc<Running>);

impl Running {
    /// Counts one more.
    pub fn enter(self: &Arc<Self>) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }

    /// How many run.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Loads {
    /// The sessions by id.
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, SessionHandle>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What one at a time may pass to load this session.
    pub(super) fn turnstile(&self, id: &SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turnstiles = self
            .turnstiles
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        turnstiles.retain(|_, turnstile| turnstile.strong_count() > 0);
        if let Some(turnstile) = turnstiles.get(id).and_then(Weak::upgrade) {
            return turnstile;
        }
        let turnstile = Arc::new(tokio::sync::Mutex::new(()));
        turnstiles.insert(id.clone(), Arc::downgrade(&turnstile));
        turnstile
    }
}

impl Deps {
    /// A session has been closed.
    pub(super) fn forget(&self, id: &SessionId) {
        self.loaded.lock().remove(id);
        self.models.forget(id);
    }

    /// What the system prompt says about where agents work.
    pub(super) fn surroundings(&self) -> Surroundings {
        Surroundings {
            home: self.env.home_dir(),
            longshore_home: self.home.clone(),
            shell: self.shell.program().display().to_string(),
            date: self.clock.now().to_string().chars().take(10).collect(),
        }
    }

    /// The task manager of a session in this directory. Looks at the disk.
    pub(super) fn task_manager(
        &self,
        dir: &Path,
        ephemeral: bool,
        sink: Arc<dyn TaskSink>,
    ) -> Tasks {
        Tasks::open(TasksParts {
            dir: tasks_dir(dir),
            limits: TaskLimits {
                max_running: self.config.task.max_running,
                grace: self.config.task.kill_grace,
                log_max_bytes: self.config.task.log_max_bytes,
                session_log_budget: self.config.task.session_log_budget,
            },
            slots: self.task_slots.clone(),
            processes: self.processes.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            sink,
            tracker: self.tasks.clone(),
            durability: if ephemeral {
                Durability::Kernel
            } else {
                Durability::Disk
            },
            // An ephemeral session's directory goes with it.
            supervisor: self.supervisor.clone().filter(|_| !ephemeral),
        })
    }

    /// No turn may run on a configuration that can't be read: its deny rules are not known.
    pub(super) fn check_config(&self) -> Result<(), Fault> {
        let Some(broken) = &self.config.broken else {
            return Ok(());
        };
        let message = format!(
            "the configuration can't be read; mend {}: {}",
            broken.file.display(),
            broken.message
        );
        let file = broken.file.display().to_string();
        Err(Fault::new(ErrorKind::ConfigInvalid, message)
            .with("file", file)
            .with("line", broken.line))
    }

    /// A model must exist; whether it can be used is said when a turn starts.
    pub(super) fn check_model(&self, alias: &str) -> Result<(), Fault> {
        if self.models.models().iter().any(|model| model.id == alias) {
            return Ok(());
        }
        self.models.get(alias).map(|_| ())
    }

    /// What the journal of a session is opened with.
    pub(super) fn opening(
        &self,
        id: &SessionId,
        dir: &Path,
        lock: &FileLock,
    ) -> Result<Opening, Fault> {
        Ok(Opening {
            session: id.clone(),
            dir: dir.to_owned(),
            clock: self.clock.clone(),
            publish: self.publish.clone(),
            disk: self.store.disk(),
            lock: Some(lock.watch().map_err(|error| storage_fault(error, dir))?),
        })
    }
}
