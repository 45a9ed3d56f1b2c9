//! What may stand in a configuration file, as types: they check values and make the JSON Schema for editors.
//!
//! Everything is optional, since each layer says only what it changes. A field here has an effect; keys that belong to
//! longshore but have none yet are listed in [`super::known`].

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use longshore_protocol::value::session::Mode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The configuration of longshore: `$LONGSHORE_HOME/config.toml`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(title = "longshore configuration")]
pub(super) struct FileConfig {
    /// The model of new sessions: a name under `models`, or `demo`.
    pub(super) default_model: Option<String>,
    /// The permission mode of new sessions; `manual` where absent.
    pub(super) default_permission_mode: Option<Mode>,
    /// Where models are, by a name of your choice.
    pub(super) providers: BTreeMap<String, ProviderFile>,
    /// Models, by an alias of your choice. Aliases with dots need quotes: `[models."gpt-4.1"]`.
    pub(super) models: BTreeMap<String, ModelFile>,
    /// Thinking.
    pub(super) thinking: ThinkingFile,
    /// The loop of a turn.
    #[serde(rename = "loop")]
    pub(super) turn: LoopFile,
    /// Limits of one connection or session.
    pub(super) limits: LimitsFile,
    /// Who may do what without asking.
    pub(super) permission: PermissionFile,
    /// Sessions.
    pub(super) session: SessionFile,
    /// The server that outlives its hosts.
    pub(super) daemon: DaemonFile,
    /// Files that file tools refuse.
    pub(super) sensitive: SensitiveFile,
    /// Where paths may lead.
    pub(super) paths: PathsFile,
    /// The shell that commands run in.
    pub(super) shell: ShellFile,
    /// Jobs that begin turns by the clock.
    pub(super) cron: CronFile,
    /// Work in the background.
    pub(super) task: TaskFile,
    /// Writing files.
    pub(super) files: FilesFile,
    /// Images for the model.
    pub(super) image: ImageFile,
    /// The log.
    pub(super) log: LogFile,
}

/// A provider: a server that speaks a wire longshore knows.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ProviderFile {
    /// `openai`, `moonshot` (or `kimi`), `ollama`, `llamacpp`, `vllm`, `lmstudio` or `scripted`.
    #[serde(rename = "type")]
    #[schemars(required)]
    pub(super) kind: Option<String>,
    /// Where it is; the type's own address where absent.
    pub(super) base_url: Option<String>,
    /// The key, or a reference to it: `${env:NAME}`, `${env:NAME:-default}`, `${file:PATH}`.
    pub(super) api_key: Option<String>,
    /// Variables looked up before those of the process, such as `OPENAI_API_KEY`.
    pub(super) env: BTreeMap<String, String>,
    /// Further headers; references as in `api_key`. Empty ones are not sent.
    pub(super) headers: BTreeMap<String, String>,
    /// Query parameters.
    pub(super) query: BTreeMap<String, String>,
    /// Merged into each request last.
    pub(super) extra_body: Map<String, Value>,
    /// Seconds until the connection stands; 15 where absent, 0 is off.
    pub(super) connect_timeout_s: Option<u32>,
    /// Seconds until the answer's headers are there; 300 where absent, 0 is off.
    pub(super) headers_timeout_s: Option<u32>,
    /// Seconds of silence in a stream; 300 where absent, 0 is off.
    pub(super) idle_timeout_s: Option<u32>,
    /// The script, for the type `scripted`.
    pub(super) script: Option<String>,
    /// Quirks: `stream_usage`, `parallel_tool_calls`, `developer_role`, `max_tokens_field`, `reasoning_key`,
    /// `drop_params`, `cumulative_args`, `system_in_user`.
    pub(super) compat: Map<String, Value>,
}

/// A model of a provider.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ModelFile {
    /// A name under `providers`.
    #[schemars(required)]
    pub(super) provider: Option<String>,
    /// What the provider calls it.
    #[schemars(required)]
    pub(super) model: Option<String>,
    /// Tokens its context holds. Needed except for scripted models.
    pub(super) max_context_size: Option<NonZeroU64>,
    /// Tokens it may answer with.
    pub(super) max_output_size: Option<NonZeroU64>,
    /// `image_in`, `thinking`, `tool_use`, …; with `-` before it, what it can't do.
    pub(super) capabilities: Option<Vec<String>>,
    /// For people.
    pub(super) display_name: Option<String>,
    /// Thinking efforts it takes.
    pub(super) support_efforts: Option<Vec<String>>,
    /// The effort it takes by default; one of `support_efforts`.
    pub(super) default_effort: Option<String>,
    /// The field its thinking comes in.
    pub(super) reasoning_key: Option<String>,
    /// True where `<think>` tags in its text are thinking.
    pub(super) inline_think: Option<bool>,
    /// Sampling temperature.
    pub(super) temperature: Option<f64>,
    /// Nucleus sampling.
    pub(super) top_p: Option<f64>,
    /// Merged into each request last, after the provider's.
    pub(super) extra_body: Option<Map<String, Value>>,
    /// Values that win over those of the entry itself; not `provider` and `model`.
    pub(super) overrides: Option<Box<ModelFile>>,
}

/// Thinking.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ThinkingFile {
    /// `off`, `on`, or an effort of the model.
    pub(super) effort: Option<String>,
}

/// The loop of a turn.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct LoopFile {
    /// Steps a turn may take; 0, as where absent, is without limit.
    pub(super) max_steps_per_turn: Option<u32>,
    /// Requests a step may send, the first included; 10 where absent.
    pub(super) max_attempts_per_step: Option<u32>,
}

/// Limits of one connection or session.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the keys are named so")]
pub(super) struct LimitsFile {
    /// Longest message in, in bytes; 64 MiB where absent.
    pub(super) max_message_bytes: Option<NonZeroUsize>,
    /// Requests of one host in flight; 256 where absent.
    pub(super) max_in_flight: Option<NonZeroUsize>,
    /// Turns waiting in one session; 64 where absent.
    pub(super) max_queued_turns: Option<usize>,
}

/// Who may do what without asking.
// The rules stand here for the schema; they are read one by one, so that none is lost for another's fault.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct PermissionFile {
    /// Rules. Deny beats what was allowed in the session, that beats ask, and ask beats allow; inside a class the first
    /// in the file decides.
    rules: Vec<RuleFile>,
    /// Patterns that are allowed.
    allow: Vec<String>,
    /// Patterns that are denied.
    deny: Vec<String>,
    /// Patterns that are asked about.
    ask: Vec<String>,
    /// What an ask rule means in auto mode: `allow`, where absent, runs the call; `deny` refuses it.
    pub(super) auto_ask: Option<AutoAsk>,
    /// Seconds an approval waits while somebody can answer; 86400 where absent, 0 is for ever.
    pub(super) approval_timeout_s: Option<u32>,
    /// Seconds an ask waits while nobody can answer; 1800 where absent.
    pub(super) detached_wait_s: Option<u32>,
}

/// A rule.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(super) struct RuleFile {
    /// What it decides.
    pub(super) decision: DecisionFile,
    /// `Tool` or `Tool(argument)`, such as `Edit(src/**)`.
    pub(super) pattern: String,
    /// Where it holds.
    #[serde(default)]
    pub(super) scope: ScopeFile,
    /// Why, for the person who reads a refusal.
    #[serde(default)]
    pub(super) reason: Option<String>,
}

/// What a rule decides.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum DecisionFile {
    /// Runs without asking.
    Allow,
    /// Never runs.
    Deny,
    /// A person is asked.
    Ask,
}

/// Where a rule holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScopeFile {
    /// Everywhere.
    #[default]
    User,
    /// In one project.
    Project,
}

/// What an ask rule means in auto mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AutoAsk {
    /// The call runs.
    Allow,
    /// The call is refused.
    Deny,
}

/// Sessions.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct SessionFile {
    /// Whether turns that no host asked for, such as those that tell of ended tasks, run while no host is attached.
    /// Where absent: in a server that outlives its hosts.
    pub(super) run_detached: Option<bool>,
    /// Seconds that a session stays loaded in the daemon while it has no host, turn, task, open approval or question, or
    /// cron job; 1800 where absent, 0 is for ever.
    pub(super) unload_idle_s: Option<u32>,
}

/// The server that outlives its hosts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct DaemonFile {
    /// Seconds that a daemon which `longshore attach` started stays while it has no host and no session; 1800 where
    /// absent, 0 is for ever.
    pub(super) idle_exit_s: Option<u32>,
}

/// Files that file tools refuse.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct SensitiveFile {
    /// Globs of further ones.
    pub(super) extra: Vec<String>,
    /// Globs of files that are not sensitive after all.
    pub(super) allow: Vec<String>,
}

/// Where paths may lead.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct PathsFile {
    /// Directories that links in a workspace may lead to without a question when something is read there.
    pub(super) trusted_link_targets: Vec<String>,
}

/// The shell that commands run in.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ShellFile {
    /// The shell to use instead of the one found.
    pub(super) path: Option<String>,
    /// Globs of variables that commands do not get, besides those that hold keys.
    pub(super) env_exclude: Vec<String>,
    /// Bytes of output at which a foreground command is ended; 1 GiB where absent, 0 is off.
    pub(super) output_kill_bytes: Option<u64>,
    /// True to end what a command leaves running with `&` when it returns, instead of making it a task.
    pub(super) kill_survivors: Option<bool>,
}

/// Work in the background.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct TaskFile {
    /// Tasks of one session that may run at once; 64 where absent.
    pub(super) max_running: Option<NonZeroUsize>,
    /// Seconds that a command in the background may run where its call names no time; 600 where absent, 0 is for ever.
    pub(super) bash_timeout_s: Option<u32>,
    /// False to end a foreground command whose time is over, instead of letting it go on in the background.
    pub(super) bash_auto_background_on_timeout: Option<bool>,
    /// Milliseconds between TERM and KILL; 5000 where absent, 0 kills at once.
    pub(super) kill_grace_ms: Option<u32>,
    /// True to let commands begun in the background go on when the session is closed or the server ends.
    pub(super) keep_alive_on_exit: Option<bool>,
    /// Bytes of one task's log: its beginning and its end are kept; 64 MiB where absent.
    pub(super) log_max_bytes: Option<NonZeroU64>,
    /// Bytes of all logs of a session, the oldest of which make room; 1 GiB where absent.
    pub(super) session_log_budget: Option<NonZeroU64>,
    /// What `longshore run` does once its turn has ended and work in the background has not; `steer` where absent.
    pub(super) headless_mode: Option<HeadlessFile>,
    /// Seconds that it waits for such work at most; 0, where absent, is for ever.
    pub(super) headless_wait_ceiling_s: Option<u32>,
    /// Turns after which it ends whatever is left; 100000 where absent.
    pub(super) headless_max_turns: Option<NonZeroU32>,
}

/// What `longshore run` does about work in the background once its turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum HeadlessFile {
    /// Ends it.
    Exit,
    /// Waits for it; the model does not hear of its end.
    Drain,
    /// Waits for it, and each end begins a turn.
    Steer,
}

/// Jobs that begin turns by the clock.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct CronFile {
    /// False to make and fire none; those there are stay.
    pub(super) enabled: Option<bool>,
    /// `auto`, where absent, moves recurring jobs a little later, so that not all fire on the full hour; `off` does not.
    pub(super) jitter: Option<JitterFile>,
    /// Days after which a recurring job fires for the last time; 7 where absent, 0 is never.
    pub(super) max_age_days: Option<u32>,
    /// Jobs of one session; 50 where absent.
    pub(super) max_jobs: Option<u32>,
    /// True to load a session whose job is due while the session is not loaded.
    pub(super) wake_closed_sessions: Option<bool>,
    /// Fires without anybody saying something after which a job is paused; 0, where absent, is never.
    pub(super) max_unattended_fires: Option<u32>,
}

/// Whether recurring jobs are moved a little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum JitterFile {
    /// They are.
    Auto,
    /// They are not.
    Off,
}

/// Writing files.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct FilesFile {
    /// False to let the system decide when written files reach the disk.
    pub(super) fsync: Option<bool>,
    /// What must have been read before it is changed; `default` where absent.
    pub(super) freshness: Option<Freshness>,
}

/// What must have been read before it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Freshness {
    /// Every file that is changed, in its present state.
    Strict,
    /// Files that are overwritten whole, or in places that the model does not name one by one.
    Default,
    /// Nothing.
    Off,
}

/// Images for the model.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct ImageFile {
    /// Pixels of the longer edge that images are scaled down to; 2000 where absent.
    pub(super) max_edge_px: Option<NonZeroU32>,
    /// Bytes that an image read by a tool is brought down to; 262144 where absent.
    pub(super) read_byte_budget: Option<NonZeroUsize>,
}

/// The log.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct LogFile {
    /// `error`, `warn`, `info`, `debug`, `trace`, `off`, or directives such as `longshore=debug`.
    pub(super) level: Option<String>,
}
