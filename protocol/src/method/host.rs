//! The connection and the server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::failure::Warning;
use crate::value::model::ModelInfo;

/// Params of `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The highest version the host speaks; 1.
    pub protocol_version: u32,
    /// Who the host is.
    pub host: HostInfo,
    /// What the host can do.
    #[serde(default)]
    pub capabilities: HostCapabilities,
    /// True where unknown fields in params are to be refused instead of ignored.
    #[serde(default)]
    pub strict: bool,
}

/// Who a host is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostInfo {
    /// Its name for programs.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// What a host can do; everything is off where it is not named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostCapabilities {
    /// It answers `approval/request`.
    pub approvals: bool,
    /// It answers `question/request`.
    pub questions: bool,
    /// What it does with text files.
    pub fs: FsCapabilities,
    /// It wants live events. On where absent; `false` leaves durable ones only.
    pub live_events: bool,
    /// Events it does not want, by name. Leaving out durable ones leaves gaps in the `seq` it sees.
    pub opt_out: Vec<String>,
}

/// What a host does with text files inside the directories of its sessions: tools then read and write what it holds,
/// unsaved changes included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FsCapabilities {
    /// It answers `fs/readTextFile`.
    pub read: bool,
    /// It answers `fs/writeTextFile`.
    pub write: bool,
}

impl Default for HostCapabilities {
    fn default() -> Self {
        Self {
            approvals: false,
            questions: false,
            fs: FsCapabilities::default(),
            live_events: true,
            opt_out: Vec::new(),
        }
    }
}

/// Result of `initialize`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The highest version both speak; a host that asked for a newer one decides whether to go on.
    pub protocol_version: u32,
    /// Who the server is.
    pub server: ServerInfo,
    /// What the server can do.
    pub capabilities: ServerCapabilities,
    /// Limits that bind the host.
    pub limits: Limits,
    /// The models.
    pub models: Vec<ModelInfo>,
    /// The model new sessions get; absent where none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
    /// Problems with the configuration.
    pub warnings: Vec<Warning>,
}

/// Who a server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    /// `longshore`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
}

/// What a server can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerCapabilities {
    /// The methods it serves.
    pub methods: Vec<String>,
    /// The events it sends.
    pub events: Vec<String>,
}

/// Limits that bind a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Longest message in bytes.
    pub max_message_bytes: u64,
    /// Requests in flight.
    pub max_in_flight: u64,
    /// Turns waiting in one session.
    pub max_queued_turns: u64,
}

/// Params of `shutdown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShutdownParams {}

/// Result of `shutdown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShutdownResult {}

/// Params of `ping`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PingParams {}

/// Result of `ping`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PingResult {}

/// Params of `server/status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "ServerStatusParams")]
pub struct StatusParams {}

/// Result of `server/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ServerStatusResult")]
pub struct StatusResult {
    /// Since the start.
    pub uptime_ms: u64,
    /// The connected hosts.
    pub hosts: Vec<HostStatus>,
    /// Sessions loaded now.
    pub loaded_sessions: u64,
    /// Turns running now.
    pub running_turns: u64,
    /// Resident memory of the server; absent where the system does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Problems with the configuration.
    pub warnings: Vec<Warning>,
}

/// One host in `server/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus {
    /// Its id in this server.
    pub host_id: String,
    /// Its name, once it has said it.
    pub name: String,
    /// Messages waiting to be written to it.
    pub queued_messages: u64,
    /// Their size.
    pub queued_bytes: u64,
    /// Sessions it is attached to.
    pub sessions: u64,
}

/// Params of `model/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelListParams {
    /// Where to go on.
    pub cursor: Option<String>,
    /// Entries wanted.
    pub limit: Option<u32>,
}

/// Result of `model/list`.
pub type ModelListResult = crate::value::page::Page<ModelInfo>;
