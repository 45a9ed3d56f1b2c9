//! The only table of error kinds, and the shape an error has on the wire.
//!
//! `error.data` is always an object `{kind, retryable, …}`; hosts branch on `kind`, never on the message.
//! The same kinds stand in events that report trouble.
//! A kind may be added, but neither its spelling nor its code changes.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Builds [`ErrorKind`] from rows of spelling, code and whether trying again can help.
macro_rules! error_kinds {
    ($( $(#[doc = $doc:literal])+ $name:ident = $text:literal, $code:literal, $retryable:ident; )+) => {
        /// What went wrong, as a word a program can branch on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum ErrorKind {
            $( $(#[doc = $doc])+ #[serde(rename = $text)] $name, )+
        }

        impl ErrorKind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [Self] = &[$( Self::$name, )+];

            /// The word on the wire, in snake_case.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$name => $text, )+ }
            }

            /// The JSON-RPC error code of this kind.
            pub const fn code(self) -> i32 {
                match self { $( Self::$name => $code, )+ }
            }

            /// Whether the same request may succeed later without anybody mending anything.
            pub const fn retryable(self) -> bool {
                match self { $( Self::$name => error_kinds!(@ $retryable), )+ }
            }
        }

        impl FromStr for ErrorKind {
            type Err = UnknownErrorKind;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $( $text => Ok(Self::$name), )+
                    _ => Err(UnknownErrorKind),
                }
            }
        }
    };
    (@ retry) => { true };
    (@ final) => { false };
}

error_kinds! {
    // The protocol itself.
    /// The message is not valid UTF-8 or not valid JSON.
    ParseError = "parse_error", -32700, final;
    /// The message is no request, or one that makes no sense now: a second `initialize`, an id that is in flight.
    InvalidRequest = "invalid_request", -32600, final;
    /// There is no such method.
    MethodNotFound = "method_not_found", -32601, final;
    /// A param is missing or wrong. Data: `path` (JSON pointer), `expected`.
    InvalidParams = "invalid_params", -32602, final;
    /// A bug in the server. Its log says more.
    InternalError = "internal_error", -32603, final;
    /// The request was cancelled before it had a result.
    RequestCancelled = "request_cancelled", -32800, final;
    /// Too many requests in flight, or the server is shutting down. Data: `retryAfterMs`.
    ServerBusy = "server_busy", -32001, retry;
    /// A request came before `initialize`.
    NotInitialized = "not_initialized", -32002, final;

    // No such thing.
    /// No session has this id.
    SessionNotFound = "session_not_found", -32010, final;
    /// No turn has this id.
    TurnNotFound = "turn_not_found", -32010, final;
    /// No task has this id, or it belongs to another session.
    TaskNotFound = "task_not_found", -32010, final;
    /// No tool has this name.
    ToolNotFound = "tool_not_found", -32010, final;
    /// No skill has this name.
    SkillNotFound = "skill_not_found", -32010, final;
    /// No agent has this id.
    AgentNotFound = "agent_not_found", -32010, final;
    /// No cron job has this id.
    JobNotFound = "job_not_found", -32010, final;
    /// No MCP server has this name.
    ServerNotFound = "server_not_found", -32010, final;
    /// No approval has this id.
    ApprovalNotFound = "approval_not_found", -32010, final;
    /// No question has this id.
    QuestionNotFound = "question_not_found", -32010, final;
    /// The session has no goal.
    GoalNotFound = "goal_not_found", -32010, final;
    /// No permission rule matches.
    RuleNotFound = "rule_not_found", -32010, final;
    /// No flow has this id.
    FlowNotFound = "flow_not_found", -32010, final;
    /// No plugin has this id.
    PluginNotFound = "plugin_not_found", -32010, final;
    /// No agent profile has this name.
    ProfileNotFound = "profile_not_found", -32010, final;
    /// There is no file at this path.
    FileNotFound = "file_not_found", -32010, final;
    /// No slash command has this name. Data: `near`, names that look alike.
    CommandUnknown = "command_unknown", -32010, final;

    // The state of a thing forbids it.
    /// A turn, a compaction or a restore is running in the session.
    SessionBusy = "session_busy", -32011, retry;
    /// Another process owns the session. Data: `pid`.
    SessionLocked = "session_locked", -32011, final;
    /// No turn is running.
    NoActiveTurn = "no_active_turn", -32011, final;
    /// Somebody has answered this already.
    AlreadyResolved = "already_resolved", -32011, final;
    /// The name is in use.
    NameTaken = "name_taken", -32011, final;
    /// The task has ended.
    TaskFinished = "task_finished", -32011, final;
    /// The session has a goal already.
    GoalExists = "goal_exists", -32011, final;
    /// The goal is in a state that does not allow this.
    GoalStatus = "goal_status", -32011, final;
    /// Plan mode is already on, or off.
    PlanStatus = "plan_status", -32011, final;
    /// A flow is running.
    FlowRunning = "flow_running", -32011, final;
    /// The MCP server is disabled.
    ServerDisabled = "server_disabled", -32011, final;
    /// Not that many turns can be undone. Data: `undoable`.
    UndoUnavailable = "undo_unavailable", -32011, final;
    /// There is nothing to compact.
    CompactionUnavailable = "compaction_unavailable", -32011, final;

    // Something cannot do this.
    /// The host did not declare the capability this needs.
    CapabilityMissing = "capability_missing", -32012, final;
    /// This type of skill cannot be used here.
    SkillTypeUnsupported = "skill_type_unsupported", -32012, final;
    /// This server cannot do this.
    NotSupported = "not_supported", -32012, final;

    // Models and configuration.
    /// No model is configured.
    ModelNotConfigured = "model_not_configured", -32013, final;
    /// No model has this name. Data: `near`, names that look alike.
    ModelUnknown = "model_unknown", -32013, final;
    /// The provider wants a login or another key.
    AuthRequired = "auth_required", -32013, final;
    /// The provider limits the rate of requests. Data: `retryAfterMs`.
    RateLimited = "rate_limited", -32013, retry;
    /// The provider is overloaded. Data: `retryAfterMs`.
    Overloaded = "overloaded", -32013, retry;
    /// The provider could not be reached.
    ConnectionError = "connection_error", -32013, retry;
    /// The model answered nothing.
    EmptyResponse = "empty_response", -32013, retry;
    /// The answer of the model broke off.
    StreamInterrupted = "stream_interrupted", -32013, retry;
    /// The quota at the provider is used up. Data: `retryAt`, if known.
    QuotaExhausted = "quota_exhausted", -32013, final;
    /// The context does not fit the window of the model.
    ContextOverflow = "context_overflow", -32013, final;
    /// The request is larger than the provider takes.
    RequestTooLarge = "request_too_large", -32013, final;
    /// The provider filtered the answer.
    Filtered = "filtered", -32013, final;
    /// The conversation could not be compacted.
    CompactionFailed = "compaction_failed", -32013, final;
    /// Any other refusal by the provider. Data: `status`, `body` (at most 2 KiB).
    ProviderError = "provider_error", -32013, final;
    /// The script of the scripted model has no fitting answer. Data: `lane`, `turn`.
    ScriptError = "script_error", -32013, final;
    /// The configuration is broken, or a change to it was refused. Data: `file`, `line`, `key`.
    ConfigInvalid = "config_invalid", -32013, final;
    /// The configuration file changed in the meantime.
    ConfigConflict = "config_conflict", -32013, retry;
    /// An MCP server did not start.
    McpStartFailed = "mcp_start_failed", -32013, retry;
    /// A login by OAuth failed.
    OauthFailed = "oauth_failed", -32013, retry;

    // Limits.
    /// A limit is reached. Data: `name`, `value`.
    LimitExceeded = "limit_exceeded", -32014, final;
    /// The turn took as many steps as it may.
    MaxSteps = "max_steps", -32014, final;

    // Storage.
    /// The disk is full.
    StorageFull = "storage_full", -32015, retry;
    /// Stored data cannot be read.
    StorageCorrupt = "storage_corrupt", -32015, final;
    /// Storage failed otherwise.
    StorageError = "storage_error", -32015, final;

    // Policy.
    /// Policy forbids it. Data: `policy`, and the `rule` if one decided.
    Denied = "denied", -32016, final;
    /// The workspace is not trusted.
    Untrusted = "untrusted", -32016, final;
    /// The path names a sensitive file.
    PathSensitive = "path_sensitive", -32016, final;
    /// The path lies outside the workspace.
    PathOutsideWorkspace = "path_outside_workspace", -32016, final;
    /// The path cannot be used.
    PathInvalid = "path_invalid", -32016, final;
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The word names no [`ErrorKind`]; a newer server may have sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownErrorKind;

impl fmt::Display for UnknownErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown error kind")
    }
}

impl std::error::Error for UnknownErrorKind {}

/// The `error` member of a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RpcError {
    /// The JSON-RPC code. Hosts branch on `data.kind` instead.
    pub code: i32,
    /// One short sentence that says what to do.
    pub message: String,
    /// What a program needs to know about the error.
    pub data: ErrorData,
}

/// The `data` of an error: its kind, and what that kind adds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorData {
    /// What went wrong.
    pub kind: ErrorKind,
    /// Whether the same request may succeed later without anybody mending anything.
    pub retryable: bool,
    /// Members that belong to the kind, for example `retryAfterMs` or `path`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl RpcError {
    /// An error with the code and the retry advice of its kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let data = ErrorData {
            kind,
            retryable: kind.retryable(),
            extra: Map::new(),
        };
        Self {
            code: kind.code(),
            message: message.into(),
            data,
        }
    }

    /// Adds a member to `data`. The names `kind` and `retryable` are taken.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        debug_assert!(
            name != "kind" && name != "retryable",
            "these members of data are fixed"
        );
        self.data.extra.insert(name.to_owned(), value.into());
        self
    }

    /// Replaces the code, for a face whose protocol numbers this kind differently.
    #[must_use]
    pub fn with_code(mut self, code: i32) -> Self {
        self.code = code;
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.data.kind
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.data.kind)
    }
}

impl std::error::Error for RpcError {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_is_spelled_once_and_read_back() {
        let mut seen = HashSet::new();
        for &kind in ErrorKind::ALL {
            let word = kind.as_str();
            assert!(seen.insert(word), "{word} stands twice");
            assert!(
                word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
                "{word}"
            );
            assert_eq!(word.parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), json!(word));
            assert_eq!(
                serde_json::from_value::<ErrorKind>(json!(word)).unwrap(),
                kind
            );
        }
        assert_eq!("no_such_kind".parse::<ErrorKind>(), Err(UnknownErrorKind));
    }

    #[test]
    fn codes_and_retry_advice_of_typical_kinds() {
        for (kind, code, retryable) in [
            (ErrorKind::ParseError, -32700, false),
            (ErrorKind::RequestCancelled, -32800, false),
            (ErrorKind::ServerBusy, -32001, true),
            (ErrorKind::SessionBusy, -32011, true),
            (ErrorKind::SessionLocked, -32011, false),
            (ErrorKind::StorageFull, -32015, true),
            (ErrorKind::StorageCorrupt, -32015, false),
            (ErrorKind::PathSensitive, -32016, false),
        ] {
            assert_eq!((kind.code(), kind.retryable()), (code, retryable), "{kind}");
        }
    }

    #[test]
    fn an_error_is_flat_on_the_wire() {
        let error =
            RpcError::new(ErrorKind::ServerBusy, "Try again later.").with("retryAfterMs", 100);
        let wire = json!({
            "code": -32001,
            "message": "Try again later.",
            "data": {"kind": "server_busy", "retryable": true, "retryAfterMs": 100},
        });
        assert_eq!(serde_json::to_value(&error).unwrap(), wire);
        assert_eq!(serde_json::from_value::<RpcError>(wire).unwrap(), error);
        assert_eq!(error.with_code(-32000).code, -32000);
    }
}
