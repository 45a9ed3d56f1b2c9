//! The effective configuration, as values that are handed down; nothing looks it up globally.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use longshore_protocol::value::failure::Warning;
use longshore_protocol::value::session::Mode;
use secrecy::SecretString;

use super::redact::Redactor;
use crate::kernel::limits;
use crate::kernel::rule::RuleText;

/// All of it. Every field has a default, so a missing or broken file still gives one.
#[derive(Clone, Debug)]
pub struct Config {
    /// The user's file, whether or not it exists: what is missing is to be written there.
    pub file: PathBuf,
    /// `default_model`: an alias of [`Config::models`].
    pub default_model: Option<String>,
    /// `default_permission_mode`.
    pub default_permission_mode: Mode,
    /// `[providers.N]`.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// `[models.A]`.
    pub models: BTreeMap<String, ModelConfig>,
    /// `[thinking] effort`.
    pub thinking_effort: Option<String>,
    /// `[loop]`.
    pub turn: LoopConfig,
    /// `[limits]`.
    pub limits: LimitsConfig,
    /// `[permission]`.
    pub permission: PermissionConfig,
    /// `[session]`.
    pub session: SessionConfig,
    /// `[daemon]`.
    pub daemon: DaemonConfig,
    /// `[sensitive] extra`: further globs of files that file tools refuse.
    pub sensitive_extra: Vec<String>,
    /// `[sensitive] allow`: globs of files that are not sensitive after all.
    pub sensitive_allow: Vec<String>,
    /// `[shell]`.
    pub shell: ShellConfig,
    /// `[cron]`.
    pub cron: CronConfig,
    /// `[task]`.
    pub task: TaskConfig,
    /// `[paths] trusted_link_targets`: directories that links in a workspace may lead to when they are read.
    pub trusted_link_targets: Vec<PathBuf>,
    /// `[files] fsync`.
    pub files_fsync: bool,
    /// `[files] freshness`.
    pub files_freshness: Freshness,
    /// `[image]`.
    pub image: ImageConfig,
    /// `[log] level`, such as `info`.
    pub log_level: Option<String>,
    /// `LONGSHORE_SCRIPT`: the script of every scripted model, before that of its provider.
    pub script: Option<PathBuf>,
    /// `LONGSHORE_CLOCK_FILE`: a file that says what time it is, for tests.
    pub clock_file: Option<PathBuf>,
    /// `LONGSHORE_SCRIPT_TRACE`: where requests to scripted models are recorded.
    pub script_trace: Option<PathBuf>,
    /// Set where the user's file could not be read: turns are refused until it is mended.
    pub broken: Option<Broken>,
    /// What was ignored, and where.
    pub warnings: Vec<Warning>,
    /// Takes the secrets that were resolved out of text; for logs, errors and whatever else leaves the process.
    pub redactor: Redactor,
}

/// A configuration that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The file, or the variable at fault.
    pub file: PathBuf,
    /// From 1; 0 where the file could not be opened.
    pub line: u32,
    /// From 1.
    pub column: u32,
    /// The reason, with an excerpt and a caret.
    pub message: String,
}

/// A provider entry.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// The wire.
    pub wire: Wire,
    /// Where it is; the wire's default where absent.
    pub base_url: Option<String>,
    /// The key, resolved; the error says which reference could not be resolved.
    pub api_key: Option<Result<SecretString, String>>,
    /// Further headers, resolved likewise; empty ones are left out.
    pub headers: BTreeMap<String, Result<SecretString, String>>,
    /// Query parameters.
    pub query: BTreeMap<String, String>,
    /// Merged into each request last.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// Until the connection stands; zero is off.
    pub connect_timeout: Duration,
    /// Until the response's headers are there; zero is off.
    pub headers_timeout: Duration,
    /// Silence in a stream; zero is off.
    pub idle_timeout: Duration,
    /// Path of the script, for scripted models.
    pub script: Option<PathBuf>,
    /// Quirks: `stream_usage`, `parallel_tool_calls`, `developer_role`, `max_tokens_field`, `reasoning_key`,
    /// `drop_params`, `cumulative_args`.
    pub compat: serde_json::Map<String, serde_json::Value>,
}

/// The wires that are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI Chat Completions, any base URL.
    Chat,
    /// The scripted model.
    Scripted,
}

/// A model entry.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// A provider entry's name.
    pub provider: String,
    /// What the provider calls it.
    pub model: String,
    /// Tokens its context holds.
    pub max_context_size: u64,
    /// Tokens it may answer with.
    pub max_output_size: Option<u64>,
    /// `image_in`, `thinking`, `tool_use`, …
    pub capabilities: Vec<String>,
    /// For people.
    pub display_name: Option<String>,
    /// Efforts it takes.
    pub support_efforts: Vec<String>,
    /// The one it takes by default.
    pub default_effort: Option<String>,
    /// The field its thinking comes in.
    pub reasoning_key: Option<String>,
    /// True where `<think>` tags in its text are thinking.
    pub inline_think: bool,
    /// Sampling.
    pub temperature: Option<f64>,
    /// Sampling.
    pub top_p: Option<f64>,
    /// Merged into each request last, after the provider's.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
}

/// `[loop]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopConfig {
    /// Steps a turn may take; 0 is without limit.
    pub max_steps_per_turn: u32,
    /// Requests a step may send, the first included; at least 1.
    pub max_attempts_per_step: u32,
}

/// `[limits]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Longest message in.
    pub max_message_bytes: usize,
    /// Requests of one host in flight.
    pub max_in_flight: usize,
    /// Turns waiting in one session.
    pub max_queued_turns: usize,
}

/// `[session]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// `run_detached`: whether turns that no host asked for run while no host is attached. By how the server was started
    /// where it is absent.
    pub run_detached: Option<bool>,
    /// `unload_idle_s`: how long a session in which nothing happens stays loaded in a daemon; `None` is for ever.
    pub unload_idle: Option<Duration>,
}

/// `[daemon]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonConfig {
    /// `idle_exit_s`: how long a daemon that `attach` started stays once it has neither hosts nor sessions; `None` is for
    /// ever.
    pub idle_exit: Option<Duration>,
}

/// `[permission]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionConfig {
    /// All rules, higher layers first.
    pub rules: Vec<RuleText>,
    /// `auto_ask`: what an ask rule means in auto.
    pub auto_ask_denies: bool,
    /// How long an approval waits while somebody can answer; `None` is for ever.
    pub approval_timeout: Option<Duration>,
    /// How long an ask waits while nobody can.
    pub detached_wait: Duration,
}

/// `[files] freshness`: what an agent must have read before it changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Every file that is changed, as it is now.
    Strict,
    /// What would be lost unseen: a file that is overwritten, or changed in places that are not named one by one.
    Default,
    /// Nothing; changes since the last read are only pointed out.
    Off,
}

/// `[shell]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellConfig {
    /// The shell to use instead of the one found.
    pub path: Option<PathBuf>,
    /// Globs of variables that commands do not get; names of resolved secrets are among them.
    pub env_exclude: Vec<String>,
    /// Output at which a foreground command is ended; 0 is off.
    pub output_kill_bytes: u64,
    /// Whether what a command leaves running is ended instead of becoming a task.
    pub kill_survivors: bool,
}

/// `[task]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskConfig {
    /// Tasks of one session that may run at once.
    pub max_running: usize,
    /// How long a command in the background may run where its call names no time; `None` is for ever.
    pub bash_timeout: Option<Duration>,
    /// Whether a foreground command whose time is over goes on in the background.
    pub auto_background: bool,
    /// Between TERM and KILL.
    pub kill_grace: Duration,
    /// Whether commands begun in the background go on when the session is closed or the server ends.
    pub keep_alive: bool,
    /// Of one log.
    pub log_max_bytes: u64,
    /// Of all logs of a session.
    pub session_log_budget: u64,
    /// `headless_*`.
    pub headless: HeadlessConfig,
}

/// What `longshore run` does once its turn has ended and work in the background has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadlessConfig {
    /// What it does.
    pub mode: HeadlessMode,
    /// How long it waits at most; `None` is for ever.
    pub wait_ceiling: Option<Duration>,
    /// Turns after which it ends whatever is left.
    pub max_turns: u32,
}

/// What `longshore run` does about work in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadlessMode {
    /// Ends it.
    Exit,
    /// Waits for tasks; the model does not hear of their ends.
    Drain,
    /// Waits for tasks and jobs; what the model is to be told of begins turns.
    #[default]
    Steer,
}

/// `[image]`: how large images for the model may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageConfig {
    /// Pixels of the longer edge.
    pub max_edge_px: u32,
    /// Bytes of an image that a tool reads.
    pub read_byte_budget: usize,
}

/// `[cron]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronConfig {
    /// False: no job is made, none fires; those there are stay.
    pub enabled: bool,
    /// Whether recurring jobs are moved a little, so that not all of them fire on the full hour.
    pub jitter: bool,
    /// Days after which a recurring job fires for the last time; 0 is never.
    pub max_age_days: u32,
    /// Jobs of one session.
    pub max_jobs: u32,
    /// Whether a session that is not loaded is loaded when a job of its own is due.
    pub wake_closed_sessions: bool,
    /// Fires without anybody saying something after which a job is paused; 0 is never.
    pub max_unattended_fires: u32,
}

/// Output at which a foreground command is ended where the configuration says nothing: a command that writes this much
/// does so by mistake.
pub const OUTPUT_KILL_BYTES: u64 = 1 << 30;

impl Default for Config {
    fn default() -> Self {
        Self {
            file: PathBuf::from("config.toml"),
            default_model: None,
            default_permission_mode: Mode::Manual,
            providers: BTreeMap::new(),
            models: BTreeMap::new(),
            thinking_effort: None,
            turn: LoopConfig::default(),
            limits: LimitsConfig::default(),
            permission: PermissionConfig::default(),
            session: SessionConfig::default(),
            daemon: DaemonConfig::default(),
            sensitive_extra: Vec::new(),
            sensitive_allow: Vec::new(),
            shell: ShellConfig::default(),
            cron: CronConfig::default(),
            task: TaskConfig::default(),
            trusted_link_targets: Vec::new(),
            files_fsync: true,
            files_freshness: Freshness::Default,
            image: ImageConfig::default(),
            log_level: None,
            script: None,
            clock_file: None,
            script_trace: None,
            broken: None,
            warnings: Vec::new(),
            redactor: Redactor::default(),
        }
    }
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            max_steps_per_turn: 0,
            max_attempts_per_step: limits::MAX_ATTEMPTS,
        }
    }
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            run_detached: None,
            unload_idle: Some(limits::SESSION_UNLOAD_IDLE),
        }
    }
}

impl Default for DaemonConfig {
    fn default() -> Self {
        Self {
            idle_exit: Some(limits::DAEMON_IDLE_EXIT),
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            max_message_bytes: limits::MAX_MESSAGE_BYTES,
            max_in_flight: limits::MAX_IN_FLIGHT,
            max_queued_turns: limits::MAX_QUEUED_TURNS,
        }
    }
}

impl Default for PermissionConfig {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            auto_ask_denies: false,
            approval_timeout: Some(limits::APPROVAL_TIMEOUT),
            detached_wait: limits::DETACHED_WAIT,
        }
    }
}

impl Default for ImageConfig {
    fn default() -> Self {
        Self {
            max_edge_px: limits::IMAGE_EDGE,
            read_byte_budget: limits::IMAGE_READ_BYTES,
        }
    }
}

impl Default for ShellConfig {
    fn default() -> Self {
        Self {
            path: None,
            env_exclude: Vec::new(),
            output_kill_bytes: OUTPUT_KILL_BYTES,
            kill_survivors: false,
        }
    }
}

impl Default for TaskConfig {
    fn default() -> Self {
        Self {
            max_running: limits::TASKS_PER_SESSION,
            bash_timeout: Some(limits::TASK_TIMEOUT),
            auto_background: true,
            kill_grace: limits::PROCESS_GRACE,
            keep_alive: false,
            log_max_bytes: limits::TASK_LOG_BYTES,
            session_log_budget: limits::TASK_LOGS_BYTES,
            headless: HeadlessConfig {
                mode: HeadlessMode::default(),
                wait_ceiling: None,
                max_turns: limits::HEADLESS_MAX_TURNS,
            },
        }
    }
}

impl Default for CronConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            jitter: true,
            max_age_days: limits::CRON_MAX_AGE_DAYS,
            max_jobs: limits::CRON_MAX_JOBS,
            wake_closed_sessions: false,
            max_unattended_fires: 0,
        }
    }
}
