//! The composition root: plain constructor calls, and the only place that knows every module.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_protocol::method::host::ServerInfo;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::background::TaskSlots;
use crate::config::secret::SecretText;
use crate::config::values::{Config, HeadlessMode};
use crate::config::{self, Assignment, LoadInput, UserFile};
use crate::cron::index::Index;
use crate::cron::scheduler::Scheduler;
use crate::face::acp::AcpDeps;
use crate::face::native::{NativeDeps, OnShutdown};
use crate::http::Http;
use crate::hub::{AskLimits, Hub, Now};
use crate::kernel::limits::{PROCESS_GRACE, TASKS_PER_PROCESS};
use crate::media::pool::ImagePool;
use crate::os::clock::{Clock, SystemClock};
use crate::os::env::{Env, current_exe};
use crate::os::file_clock::FileClock;
use crate::os::fs;
use crate::os::ids::RandomIds;
use crate::os::lock::FileLock;
use crate::os::process::Processes;
use crate::provider::registry::{Registry, ScriptSources};
use crate::provider::scripted::TraceSink;
use crate::session::Sessions;
use crate::session::deps::{Deps, Loads, OwnTurns, Running};
use crate::session::store::Store;
use crate::store::cleanup::Cleanup;
use crate::tool::file::{FileLocks, SearchPool};
use crate::tool::shell::Shell;

/// What a process is put together for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A server that belongs to the host which started it, and ends with it. It does nothing of its own once nobody watches.
    #[default]
    Hosted,
    /// One run to completion.
    Headless,
    /// A server that belongs to nobody: it outlives its hosts, and goes on without them.
    Daemon,
}

/// What the command line says about configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Instead of the home that the environment names.
    pub home: Option<PathBuf>,
    /// Instead of the home's `config.toml`.
    pub config: Option<PathBuf>,
    /// `key=value`, in order.
    pub assignments: Vec<String>,
    /// The model to use.
    pub model: Option<String>,
    /// What it is for.
    pub mode: Mode,
}

/// Why nothing could be put together.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no place for longshore's files.
    #[error("there is no home directory: set HOME or LONGSHORE_HOME, or use --home")]
    NoHome,
    /// `-c` got something else.
    #[error("{0}")]
    Assignment(String),
}

/// Where longshore's files are, and what is configured.
pub struct Settings {
    /// longshore's directory.
    pub home: PathBuf,
    /// The configuration.
    pub config: Arc<Config>,
    /// The environment.
    pub env: Arc<Env>,
    /// What it is for.
    pub mode: Mode,
    /// When sessions begin turns that no host asked for.
    pub own_turns: OwnTurns,
}

/// Everything, put together.
pub struct App {
    /// What it was made from.
    pub settings: Settings,
    /// Sessions.
    pub sessions: Sessions,
    /// Hosts.
    pub hub: Arc<Hub>,
    /// Where sessions are stored.
    pub store: Arc<Store>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Children.
    pub processes: Processes,
    /// Tasks of connections.
    pub tasks: TaskTracker,
    /// Temporary files.
    cleanup: Arc<Cleanup>,
}

/// longshore's directory.
pub fn home(env: &Env, options: &Options) -> Result<PathBuf, StartError> {
    let named = options.home.clone().map(|home| {
        env.start_dir()
            .map_or(home.clone(), |start| start.join(&home))
    });
    named
        .or_else(|| env.longshore_home())
        .ok_or(StartError::NoHome)
}

/// Reads the configuration. Fails only where there is no place to read it from.
pub fn settings(env: Env, options: &Options) -> Result<Settings, StartError> {
    let home = home(&env, options)?;
    let assignments = options
        .assignments
        .iter()
        .map(|text| Assignment::parse(text).map_err(StartError::Assignment))
        .collect::<Result<_, _>>()?;
    let file = match &options.config {
        Some(path) => env
            .start_dir()
            .map_or_else(|| path.clone(), |start| start.join(path)),
        None => home.join("config.toml"),
    };
    let variables: BTreeMap<String, String> = env
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
        .collect();
    let input = LoadInput {
        user: user_file(file.clone(), options.config.is_some()),
        variables,
        assignments,
        model: options.model.clone(),
        is_headless: options.mode == Mode::Headless,
        home: env.home_dir(),
        read_secret: &read_secret,
    };
    let mut config = config::load(input);
    config.file = file;
    let own_turns = match (options.mode, config.task.headless.mode) {
        (Mode::Headless, HeadlessMode::Steer) => OwnTurns::Always,
        (Mode::Headless, HeadlessMode::Drain | HeadlessMode::Exit) => OwnTurns::Never,
        (mode, _) if config.session.run_detached.unwrap_or(mode == Mode::Daemon) => {
            OwnTurns::Always
        }
        (Mode::Hosted | Mode::Daemon, _) => OwnTurns::WhileAttended,
    };
    Ok(Settings {
        home,
        config: Arc::new(config),
        env: Arc::new(env),
        mode: options.mode,
        own_turns,
    })
}

/// A file that was named must be there; the usual one need not.
fn user_file(path: PathBuf, named: bool) -> Option<UserFile> {
    match fs::read_if_present(&path) {
        Ok(Some(bytes)) => Some(UserFile {
            path,
            content: Ok(bytes),
        }),
        Ok(None) if named => Some(UserFile {
            path,
            content: Err("there is no such file".to_owned()),
        }),
        Ok(None) => None,
        Err(error) => Some(UserFile {
            path,
            content: Err(error.to_string()),
        }),
    }
}

impl App {
    /// Puts everything together. Opens no socket and reads no session.
    pub fn new(settings: Settings, processes: Processes) -> Self {
        let Settings {
            home,
            config,
            env,
            own_turns,
            ..
        } = &settings;
        let clock: Arc<dyn Clock> = match &config.clock_file {
            Some(path) => Arc::new(FileClock::new(path.clone())),
            None => SystemClock::shared(),
        };
        let store = Arc::new(Store::new(home));
        let limits = AskLimits {
            approval_timeout: config.permission.approval_timeout,
            detached_wait: config.permission.detached_wait,
        };
        let now = now_of(&clock);
        let hub = Arc::new(Hub::new(limits, now.clone()));
        let scripts = ScriptSources {
            env_script: config.script.clone(),
            read: Arc::new(|path: &Path| fs::read_to_string(path).map_err(std::io::Error::other)),
            trace: config.script_trace.as_deref().and_then(trace_sink),
        };
        let models = Arc::new(Registry::new(config, Arc::new(Http::new(now)), scripts));
        let tasks = TaskTracker::new();
        let cleanup = Arc::new(Cleanup::new(&home.join("run")));
        let sessions = Sessions::new(Deps {
            home: home.clone(),
            config: config.clone(),
            models,
            store: store.clone(),
            publish: hub.clone(),
            own_turns: *own_turns,
            leaves_turns: settings.mode == Mode::Daemon,
            asks: hub.clone(),
            host_fs: hub.clone(),
            clock: clock.clone(),
            ids: RandomIds::shared(),
            env: env.clone(),
            shell: Arc::new(Shell::new(env, &config.shell, &config.task)),
            processes: processes.clone(),
            task_slots: TaskSlots::new(TASKS_PER_PROCESS),
            supervisor: supervisor(config),
            file_locks: Arc::<FileLocks>::default(),
            temps: Some(cleanup.clone()),
            search: Arc::<SearchPool>::default(),
            images: ImagePool::default(),
            cron: Scheduler::new(clock.clone(), tasks.clone()),
            cron_index: Arc::new(Index::new(home)),
            tasks: tasks.clone(),
            running: Arc::<Running>::default(),
            loaded: Loads::default(),
        });
        Self {
            settings,
            sessions,
            hub,
            store,
            clock,
            processes,
            tasks,
            cleanup,
        }
    }

    /// Removes what earlier processes left behind, beside everything else. Called once, at the start.
    pub fn tidy(&self) {
        let cleanup = self.cleanup.clone();
        let leftovers = [self.store.ephemeral_dir(), self.store.aside_dir()];
        self.tasks.spawn_blocking(move || {
            sweep(&cleanup);
            for dir in &leftovers {
                remove_leftovers(dir);
            }
        });
    }

    /// What the native face is built over. `stop` ends its connections; it fires it itself after a `shutdown`.
    pub fn native_deps(&self, stop: CancellationToken) -> NativeDeps {
        let config = self.settings.config.clone();
        NativeDeps {
            sessions: self.sessions.clone(),
            hub: self.hub.clone(),
            log: self.store.clone(),
            clock: self.clock.clone(),
            server: ServerInfo {
                name: "longshore".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
            },
            limits: config.limits.clone(),
            warnings: Box::new(move || config.warnings.clone()),
            on_shutdown: match self.settings.mode {
                Mode::Hosted | Mode::Headless => OnShutdown::Server,
                Mode::Daemon => OnShutdown::Connection,
            },
            stop,
        }
    }

    /// What the ACP face is built over. `stop` ends its connection.
    pub fn acp_deps(&self, stop: CancellationToken) -> AcpDeps {
        AcpDeps {
            sessions: self.sessions.clone(),
            hub: self.hub.clone(),
            log: self.store.clone(),
            clock: self.clock.clone(),
            limits: self.settings.config.limits.clone(),
            stop,
        }
    }

    /// Ends everything within a deadline: turns, processes, journals. Processes get what is left of the usual grace.
    pub async fn shutdown(&self, within: Duration) {
        let grace = PROCESS_GRACE.min(within.saturating_sub(Duration::from_secs(1)));
        let sessions = self.sessions.shutdown(within);
        let processes = async {
            if self.sessions.running_count() > 0 {
                tokio::time::sleep(HEAD_START).await;
            }
            self.processes.kill_all(grace).await;
        };
        tokio::join!(sessions, processes);
    }
}

/// What sessions have to cancel their turns before processes are ended: a command whose end came first would be a result
/// like any other, and the model would be asked once more.
const HEAD_START: Duration = Duration::from_millis(50);

/// Temporary files of processes that were killed.
fn sweep(cleanup: &Cleanup) {
    match cleanup.sweep() {
        Ok(swept) => {
            for (copy, of) in swept.kept {
                tracing::warn!(file = of, copy = %copy.display(), "a file was being overwritten when the server was killed; its old content is in the copy");
            }
        }
        Err(error) => {
            tracing::warn!(%error, "temporary files of earlier processes could not be looked for");
        }
    }
}

/// Sessions that were not to be kept or were not whole, and whose process ended without removing them.
fn remove_leftovers(dir: &Path) {
    for entry in fs::list_dir(dir).unwrap_or_default() {
        let lock = entry.path.join("lock");
        let in_use = FileLock::holder(&lock).is_ok_and(|holder| holder.is_some());
        if !in_use && let Err(error) = fs::remove_tree(&entry.path) {
            tracing::warn!(%error, "the leavings of a session could not be removed");
        }
    }
}

/// This program's file, where it is to be started again to supervise commands.
fn supervisor(config: &Config) -> Option<PathBuf> {
    if !config.task.keep_alive {
        return None;
    }
    let program = current_exe();
    if let Err(error) = &program {
        tracing::warn!(%error, "commands end with the server: its own file is not known");
    }
    program.ok()
}

fn now_of(clock: &Arc<dyn Clock>) -> Now {
    let clock = clock.clone();
    Arc::new(move || clock.now())
}

fn read_secret(path: &Path) -> Result<SecretText, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    Ok(SecretText {
        text,
        private: fs::is_private(path),
    })
}

/// A trace that appends lines to a file.
struct FileTrace(Mutex<std::fs::File>);

impl TraceSink for FileTrace {
    fn line(&self, json: &str) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(file, "{json}") {
            tracing::warn!(%error, "a line of the script trace was lost");
        }
    }
}

fn trace_sink(path: &Path) -> Option<Arc<dyn TraceSink>> {
    match fs::open_append(path) {
        Ok(file) => Some(Arc::new(FileTrace(Mutex::new(file)))),
        Err(error) => {
            tracing::warn!(%error, "the script trace can't be written");
            None
        }
    }
}
