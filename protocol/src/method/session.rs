//! Sessions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{SessionId, TurnId};
use crate::value::failure::Warning;
use crate::value::page::Page;
use crate::value::session::{Mode, Pending, Session, SessionPatch, Snapshot};
use crate::value::transcript::Turn;

/// Params of `session/create`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionCreateParams")]
pub struct CreateParams {
    /// Where it works: an absolute path of a directory that exists.
    pub cwd: String,
    /// Further directories it may work in, likewise.
    #[serde(default)]
    pub additional_dirs: Vec<String>,
    /// The model, by alias; the configured default where absent.
    #[serde(default)]
    pub model: Option<String>,
    /// The thinking effort.
    #[serde(default)]
    pub thinking: Option<String>,
    /// The permission mode; the configured default where absent.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// A title; the beginning of the first input where absent.
    #[serde(default)]
    pub title: Option<String>,
    /// True where nothing is to be kept after it ends.
    #[serde(default)]
    pub ephemeral: bool,
    /// The host's own data.
    #[serde(default)]
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// True where no person is there: asks are refused at once.
    #[serde(default)]
    pub unattended: bool,
    /// The IANA time zone whose clock its cron jobs go by; the machine's where absent.
    #[serde(default)]
    pub timezone: Option<String>,
    /// A script for scripted models, as text.
    #[serde(default)]
    pub script: Option<String>,
}

/// Result of `session/create`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionCreateResult")]
pub struct CreateResult {
    /// The session.
    pub session: Session,
}

/// What a resume sends again before it goes live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Replay {
    /// Nothing.
    #[default]
    None,
    /// Every durable event.
    Events,
    /// The newest turns as display items, in the result.
    Transcript,
}

/// Params of `session/resume`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionResumeParams")]
pub struct ResumeParams {
    /// The session.
    pub session_id: SessionId,
    /// What to send again.
    #[serde(default)]
    pub replay: Replay,
    /// With `transcript`: turns wanted, 50 where absent, at most 200.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// Result of `session/resume`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionResumeResult")]
pub struct ResumeResult {
    /// The session.
    pub session: Session,
    /// The number of its last durable event.
    pub last_seq: u64,
    /// With `transcript`: the newest turns, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<Page<Turn>>,
    /// What was wrong with its files when it was loaded; events `warning` say the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// Params of `session/attach`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionAttachParams")]
pub struct AttachParams {
    /// The session.
    pub session_id: SessionId,
    /// The last `seq` the host has: the ones after it are sent, then live ones. Live only where absent.
    #[serde(default)]
    pub after_seq: Option<i64>,
}

/// Result of `session/attach`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionAttachResult")]
pub struct AttachResult {
    /// The number of the last durable event; those after `afterSeq` up to it are sent next.
    pub last_seq: u64,
    /// True where `afterSeq` is no number of this session: draw from the snapshot, events follow from there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resync: bool,
    /// The session as it is now.
    pub snapshot: Snapshot,
}

/// Params of `session/detach`.
pub type DetachParams = GetParams;

/// Result of `session/detach`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "SessionDetachResult")]
pub struct DetachResult {}

/// Params of `session/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "SessionListParams")]
pub struct ListParams {
    /// Only sessions of this directory, by whatever path.
    pub cwd: Option<String>,
    /// Only sessions with this text, in any case, in the title or in the beginning of a prompt.
    pub text: Option<String>,
    /// True lists the archived ones only.
    pub archived: bool,
    /// True lists the ephemeral ones of this server only.
    pub ephemeral: bool,
    /// Where to go on.
    pub cursor: Option<String>,
    /// Entries wanted, 50 where absent, at most 200.
    pub limit: Option<u32>,
}

/// Result of `session/list`.
pub type ListResult = Page<Session>;

/// Names a session: params of `session/get` and others that need no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionParams")]
pub struct GetParams {
    /// The session.
    pub session_id: SessionId,
}

/// Result of `session/get`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionResult")]
pub struct GetResult {
    /// The session.
    pub session: Session,
    /// What it still has before it; absent where it is not loaded, and in results of methods that change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
}

/// Params of `session/set`: the settings to change; absent ones stay as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionSetParams")]
pub struct SetParams {
    /// The session.
    pub session_id: SessionId,
    /// New title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// New model, by alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// New thinking effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// New mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// New list of further directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_dirs: Option<Vec<String>>,
    /// New host data, replacing the old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
}

impl SetParams {
    /// The settings alone.
    pub fn changes(self) -> SessionPatch {
        let Self {
            session_id: _,
            title,
            model,
            thinking,
            mode,
            additional_dirs,
            metadata,
        } = self;
        SessionPatch {
            title,
            model,
            thinking,
            mode,
            additional_dirs,
            metadata,
            archived: None,
        }
    }
}

/// Result of `session/set`.
pub type SetResult = GetResult;

/// Params of `session/transcript`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionTranscriptParams")]
pub struct TranscriptParams {
    /// The session.
    pub session_id: SessionId,
    /// Where to go on, towards older turns; the newest where absent.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Turns wanted, 50 where absent, at most 200.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// Result of `session/transcript`: oldest first within the page; `nextCursor` leads to older ones.
pub type TranscriptResult = Page<Turn>;

/// Params of `session/events`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionEventsParams")]
pub struct EventsParams {
    /// The session.
    pub session_id: SessionId,
    /// Events after this number; from the first where absent.
    #[serde(default)]
    pub after_seq: u64,
    /// Events wanted, 50 where absent, at most 200.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// Result of `session/events`: whole notifications (`method`, `params`), in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionEventsResult")]
pub struct EventsResult {
    /// The events.
    pub items: Vec<serde_json::Value>,
    /// The number of the session's last durable event.
    pub last_seq: u64,
}

/// Params of `session/fork`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionForkParams")]
pub struct ForkParams {
    /// The session to make another one from. It may be running.
    pub session_id: SessionId,
    /// The last turn that goes with it; the last one that has ended where absent.
    #[serde(default)]
    pub turn_id: Option<TurnId>,
    /// Its title; the other session's where absent.
    #[serde(default)]
    pub title: Option<String>,
    /// Where it works: an absolute path of a directory that exists; where the other session works where absent.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Further directories it may work in, likewise.
    #[serde(default)]
    pub additional_dirs: Option<Vec<String>>,
}

/// Result of `session/fork`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionForkResult")]
pub struct ForkResult {
    /// The new session.
    pub session: Session,
    /// The number of its last durable event: its conversation so far is read by `session/transcript` or `session/events`.
    pub last_seq: u64,
}

/// Params of `session/undo`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionUndoParams")]
pub struct UndoParams {
    /// The session.
    pub session_id: SessionId,
    /// How many of the user's turns to take back, 1 where absent. Turns that the engine began after the first of them go
    /// with them.
    #[serde(default)]
    pub turns: Option<u32>,
}

/// Result of `session/undo`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionUndoResult")]
pub struct UndoResult {
    /// The turns that were taken back, oldest first.
    pub undone: Vec<TurnId>,
    /// How many of the user's turns can still be taken back.
    pub undoable: u32,
    /// Always false: the conversation goes back, files stay as the turns left them.
    pub files_restored: bool,
    /// The session.
    pub session: Session,
}

/// Params of `session/clear`.
pub type ClearParams = GetParams;

/// Result of `session/clear`.
pub type ClearResult = GetResult;

/// Params of `session/archive`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionArchiveParams")]
pub struct ArchiveParams {
    /// The session.
    pub session_id: SessionId,
    /// False takes it out of the archive; true where absent.
    #[serde(default)]
    pub archived: Option<bool>,
}

/// Result of `session/archive`.
pub type ArchiveResult = GetResult;

/// Params of `session/export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionExportParams")]
pub struct ExportParams {
    /// The session.
    pub session_id: SessionId,
    /// The zip to write: an absolute path in a directory that exists; a new file below `exports/` in longshore's directory
    /// where absent.
    #[serde(default)]
    pub path: Option<String>,
    /// True replaces a file that is there already.
    #[serde(default)]
    pub overwrite: bool,
}

/// Result of `session/export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionExportResult")]
pub struct ExportResult {
    /// The zip that was written, absolute.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// How many files of the session are in it, beside `manifest.json`.
    pub files: u64,
    /// How many of them secrets were taken from.
    pub redacted: u64,
    /// What of the session's directory is not in it: links, for instance.
    pub left_out: Vec<String>,
}

/// Params of `session/delete`.
pub type DeleteParams = GetParams;

/// Result of `session/delete`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "SessionDeleteResult")]
pub struct DeleteResult {}

/// Params of `session/close`.
pub type CloseParams = GetParams;

/// Result of `session/close`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "SessionCloseResult")]
pub struct CloseResult {}
