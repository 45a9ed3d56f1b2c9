//! THE table of events: notifications a server sends its hosts.
//!
//! *Durable* events are in the session's journal, carry a `seq` without gaps and can be read again; *live* ones are
//! deltas and states. All carry the fields of [`Common`] beside their own.

pub mod cron;
pub mod item;
pub mod session;
pub mod shell;
pub mod task;
pub mod tool;
pub mod turn;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, SessionId};

/// Fields of every session event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EventCommon")]
pub struct Common {
    /// The session.
    pub session_id: SessionId,
    /// The agent: `main` or a child's.
    pub agent_id: AgentId,
    /// 1, 2, 3, … per session, on durable events only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// When it happened, RFC 3339 with milliseconds.
    pub at: String,
}

/// One row of the event table.
pub trait EventSpec {
    /// The wire name.
    const NAME: &'static str;
    /// Whether it is kept in the journal.
    const DURABLE: bool;
    /// Its own fields.
    type Payload;
}

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $name:ident => $wire:literal $kind:ident { $payload:path },)+) => {
        /// The events, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Event {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Event {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The wire name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }

            /// Whether it is kept in the journal.
            pub fn durable(self) -> bool {
                match self { $(Self::$name => events!(@durable $kind),)+ }
            }

            /// What it means.
            pub fn doc(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// The schema of its own fields.
            pub fn payload_schema(self, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                match self { $(Self::$name => generator.subschema_for::<$payload>(),)+ }
            }
        }

        /// A marker type per row.
        pub mod spec {
            use super::{cron, item, session, shell, task, tool, turn};

            $($(#[doc = $doc])+
            #[derive(Clone, Copy, Debug)]
            pub enum $name {}
            impl super::EventSpec for $name {
                const NAME: &'static str = $wire;
                const DURABLE: bool = events!(@durable $kind);
                type Payload = $payload;
            })+
        }
    };
    (@durable durable) => { true };
    (@durable live) => { false };
}

events! {
    /// A session was made. Sent to every host, without a `seq`.
    SessionCreated => "session/created" live { session::Created },
    /// Settings of a session changed.
    SessionUpdated => "session/updated" durable { session::Updated },
    /// What a session does changed.
    SessionStatus => "session/status" live { session::StatusChanged },
    /// Tokens in the context now, and all spent so far.
    SessionUsage => "session/usage" live { session::UsageChanged },
    /// A session was closed; nothing follows until it is resumed.
    SessionClosed => "session/closed" durable { session::Closed },
    /// A session is gone. Sent to every host, without a `seq`.
    SessionDeleted => "session/deleted" live { session::Deleted },
    /// The conversation begins anew: the transcript and the model have nothing of what was before.
    SessionCleared => "session/cleared" durable { session::Cleared },
    /// A turn waits for the one that runs.
    TurnQueued => "turn/queued" durable { turn::Queued },
    /// A turn begins.
    TurnStarted => "turn/started" durable { turn::Started },
    /// Input was added to a running turn.
    TurnSteered => "turn/steered" durable { turn::Steered },
    /// A turn has ended, or was taken from the queue; nothing of it follows.
    TurnEnded => "turn/ended" durable { turn::Ended },
    /// The last turns were taken back: the transcript and the model have them no more. Their files are as they were left.
    TurnUndone => "turn/undone" durable { turn::Undone },
    /// A model request is about to be sent.
    StepStarted => "step/started" durable { turn::StepStarted },
    /// A model request failed and will be sent again.
    StepRetrying => "step/retrying" live { turn::StepRetrying },
    /// A model request was answered, and all its calls have ended.
    StepEnded => "step/ended" durable { turn::StepEnded },
    /// A model request was cut off or failed for good.
    StepInterrupted => "step/interrupted" durable { turn::StepInterrupted },
    /// More text of a message.
    MessageDelta => "message/delta" live { item::Delta },
    /// A message is complete.
    MessageCompleted => "message/completed" durable { item::Completed },
    /// More text of a thinking block.
    ThinkingDelta => "thinking/delta" live { item::Delta },
    /// A thinking block is complete.
    ThinkingCompleted => "thinking/completed" durable { item::Completed },
    /// More argument text of a call still being written.
    ToolDelta => "tool/delta" live { tool::Delta },
    /// A call is known; it has not been decided on.
    ToolStarted => "tool/started" durable { tool::Started },
    /// A call is about to have its effect.
    ToolRunning => "tool/running" durable { tool::Running },
    /// A running call says something.
    ToolProgress => "tool/progress" live { tool::Progress },
    /// A call has ended, whether or not it ran.
    ToolCompleted => "tool/completed" durable { tool::Completed },
    /// An approval is asked for; `approval/request` follows to every host that can answer.
    ApprovalRequested => "approval/requested" durable { crate::value::approval::ApprovalRequest },
    /// An approval is no longer open.
    ApprovalResolved => "approval/resolved" durable { tool::ApprovalResolved },
    /// Questions are put to the user; `question/request` follows to every host that can answer.
    QuestionRequested => "question/requested" durable { crate::value::question::QuestionRequest },
    /// Questions are no longer open.
    QuestionResolved => "question/resolved" durable { tool::QuestionResolved },
    /// The checklist changed.
    TodoUpdated => "todo/updated" durable { session::TodoUpdated },
    /// A command of the user's own runs. Without a `seq` where it is private.
    ShellStarted => "shell/started" durable { shell::Started },
    /// A command of the user's own says something.
    ShellOutput => "shell/output" live { shell::Output },
    /// A command of the user's own has ended, or goes on in the background. Without a `seq` where it is private.
    ShellEnded => "shell/ended" durable { shell::Ended },
    /// A task runs in the background: it was begun there, or its call no longer waits for it.
    TaskStarted => "task/started" durable { task::Started },
    /// Something about a running task changed.
    TaskUpdated => "task/updated" live { task::Updated },
    /// A task in the background has ended; its output is complete.
    TaskEnded => "task/ended" durable { task::Ended },
    /// A cron job was made, deleted, paused, resumed or renewed, or is done.
    CronChanged => "cron/changed" durable { cron::Changed },
    /// A cron job has fired.
    CronFired => "cron/fired" durable { cron::Fired },
    /// Cron jobs that were to fire once fire more than a day late.
    CronMissed => "cron/missed" durable { cron::Missed },
    /// Something was ignored, repaired or left out.
    Warning => "warning" durable { crate::value::failure::Warning },
    /// This host read too slowly: live events of the session were dropped here; every durable one after `fromSeq` follows.
    Resync => "resync" live { session::Resync },
}
