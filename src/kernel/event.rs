//! The facts of a session, in memory.
//!
//! A fact has three shapes that age at their own speed: this one, `protocol::event` on the wire, and
//! `session::journal::record` on disk. Conversions are total matches, so a new variant does not compile until each face
//! and the journal have answered for it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use longshore_protocol::id::{
    AgentId, ApprovalId, CommandId, ItemId, QuestionId, SessionId, TaskId, ToolCallId, TurnId,
};
use longshore_protocol::value::approval::{ApprovalRequest, AskResolution, OptionId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::cron::{CronChange, CronFire, CronJob};
use longshore_protocol::value::display::Display;
use longshore_protocol::value::failure::{Failure, Warning};
use longshore_protocol::value::question::QuestionRequest;
use longshore_protocol::value::session::{Session, SessionPatch, Status, WaitingFor};
use longshore_protocol::value::task::Task;
use longshore_protocol::value::todo::Todo;
use longshore_protocol::value::tool::{AccessInfo, ProgressStream};
use longshore_protocol::value::turn::{FinishReason, Origin, StopReason, TurnReason};
use longshore_protocol::value::usage::Usage;
use serde_json::{Map, Value};

use super::cron::CronOp;
use super::message::{ModelCall, Part};
use super::rule::Grant;
use super::time::Timestamp;
use super::wake::WakeKey;

/// An event with everything that says where it belongs. Made once, shared by all hosts.
#[derive(Debug)]
pub struct Stamped {
    /// The session.
    pub session: SessionId,
    /// The agent.
    pub agent: AgentId,
    /// 1, 2, 3, … per session without gaps, on durable events only.
    pub seq: Option<u64>,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub event: DomainEvent,
    /// The native notification line, written at most once.
    pub native: OnceLock<Bytes>,
}

impl Stamped {
    /// A stamped event whose bytes are not written yet.
    pub fn new(
        session: SessionId,
        agent: AgentId,
        seq: Option<u64>,
        at: Timestamp,
        event: DomainEvent,
    ) -> Arc<Self> {
        Arc::new(Self {
            session,
            agent,
            seq,
            at,
            event,
            native: OnceLock::new(),
        })
    }
}

/// What happened. *Live* events carry deltas of an item and are not kept; all others are durable.
#[derive(Clone, Debug, PartialEq)]
pub enum DomainEvent {
    /// The session was made. Goes to every host, attached or not; not kept, since the journal's head says the same.
    SessionCreated {
        /// As it was made.
        session: Session,
    },
    /// Some of its settings changed.
    SessionUpdated {
        /// The changed ones.
        changed: SessionPatch,
    },
    /// What it does changed. Live: a host that attaches gets the status with its snapshot.
    SessionStatus {
        /// The new status.
        status: Status,
        /// What it waits for, while `Waiting`.
        waiting: WaitingFor,
    },
    /// Tokens in the context now, and all spent so far. Live.
    SessionUsage {
        /// Tokens the next request starts from.
        context_tokens: u64,
        /// Tokens the model's context holds.
        context_window: u64,
        /// All spent so far.
        total: Usage,
    },
    /// The session was closed; nothing follows until it is resumed.
    SessionClosed,
    /// The session is gone. Goes to every host, attached or not; not kept, since its journal is gone too.
    SessionDeleted,
    /// The conversation begins anew: nothing before it counts any more for the model or in the transcript.
    SessionCleared,
    /// A turn waits for the one that runs.
    TurnQueued {
        /// The waiting turn.
        turn: TurnId,
        /// What will begin it.
        input: Vec<ContentPart>,
    },
    /// A turn begins.
    TurnStarted {
        /// The turn.
        turn: TurnId,
        /// Why.
        origin: Origin,
        /// What began it.
        input: Vec<ContentPart>,
        /// What the model is told by it, where the engine began it; not shown.
        wakes: Vec<WakeKey>,
    },
    /// Input was added to a running turn, before its next request.
    TurnSteered {
        /// The turn.
        turn: TurnId,
        /// Why: `Steer` for words of a host.
        origin: Origin,
        /// The input.
        input: Vec<ContentPart>,
        /// What the model is told by it, where the engine added it; not shown.
        wakes: Vec<WakeKey>,
    },
    /// A turn has ended; nothing of it follows.
    TurnEnded {
        /// The turn.
        turn: TurnId,
        /// How.
        reason: TurnReason,
        /// What stopped the model.
        stop: StopReason,
        /// Why it failed.
        error: Option<Failure>,
        /// Tokens it took.
        usage: Usage,
        /// How long it took.
        duration_ms: u64,
    },
    /// Turns were taken back, the last ones of the conversation: neither the model nor the transcript has them any more.
    TurnsUndone {
        /// The turns, oldest first.
        turns: Vec<TurnId>,
    },
    /// A model request is about to be sent.
    StepStarted {
        /// The turn.
        turn: TurnId,
        /// 1, 2, … in the turn.
        step: u32,
    },
    /// A model request failed and will be sent again. Live.
    StepRetrying {
        /// The turn.
        turn: TurnId,
        /// The step.
        step: u32,
        /// The attempt that comes next, from 2.
        attempt: u32,
        /// How many there may be.
        max_attempts: u32,
        /// The pause before it.
        delay_ms: u64,
        /// What went wrong.
        error: Failure,
        /// Items already shown that the next attempt replaces.
        discard: Vec<String>,
    },
    /// A model request has been answered, and all its calls have ended.
    StepEnded {
        /// The turn.
        turn: TurnId,
        /// The step.
        step: u32,
        /// How the answer ended.
        finish: FinishReason,
        /// Tokens it took.
        usage: Usage,
    },
    /// A model request was cut off or failed for good.
    StepInterrupted {
        /// The turn.
        turn: TurnId,
        /// The step.
        step: u32,
        /// `Interrupted` by us, or `Error`.
        finish: FinishReason,
    },
    /// More text of a message. Live.
    MessageDelta {
        /// The item.
        item: ItemId,
        /// Where this text begins, in bytes.
        offset: u64,
        /// The text.
        text: String,
    },
    /// A message is complete.
    MessageCompleted {
        /// The turn.
        turn: TurnId,
        /// The item.
        item: ItemId,
        /// All of it.
        text: Arc<str>,
        /// True where it was cut off by a cancel.
        partial: bool,
    },
    /// More text of a thinking block. Live.
    ThinkingDelta {
        /// The item.
        item: ItemId,
        /// Where this text begins, in bytes.
        offset: u64,
        /// The text.
        text: String,
    },
    /// A thinking block is complete.
    ThinkingCompleted {
        /// The turn.
        turn: TurnId,
        /// The item.
        item: ItemId,
        /// All of it.
        text: Arc<str>,
        /// The provider's signature; kept for the model, not shown.
        signature: Option<Arc<str>>,
        /// True where it was cut off by a cancel.
        partial: bool,
    },
    /// More argument text of a call that is still being written. Live.
    ToolDelta {
        /// The call.
        call: ToolCallId,
        /// The tool.
        name: Arc<str>,
        /// Where this text begins, in bytes.
        offset: u64,
        /// The text.
        text: String,
    },
    /// A call is known and drawn; it has not been decided on.
    ToolStarted {
        /// The turn.
        turn: TurnId,
        /// The call.
        call: ToolCallId,
        /// The tool.
        name: Arc<str>,
        /// Its arguments, `{}` where they could not be read.
        input: Arc<Value>,
        /// One line for people.
        title: String,
        /// How to draw it.
        display: Display,
        /// What it touches.
        accesses: Vec<AccessInfo>,
        /// What the provider needs to see again; not shown.
        origin: CallOrigin,
    },
    /// A call is about to have its effect. On disk before the effect begins, unless the call only reads.
    ToolRunning {
        /// The call.
        call: ToolCallId,
    },
    /// A running call says something. Live.
    ToolProgress {
        /// The call.
        call: ToolCallId,
        /// Which stream.
        stream: ProgressStream,
        /// Where this text begins in its stream, in bytes.
        offset: u64,
        /// The text.
        text: String,
    },
    /// A call has ended, whether or not it ran.
    ToolCompleted {
        /// The turn.
        turn: TurnId,
        /// The call.
        call: ToolCallId,
        /// Whether it failed.
        is_error: bool,
        /// What the model reads.
        output: Vec<Part>,
        /// What only the model reads; not shown.
        note: Option<String>,
        /// How to draw the outcome.
        display: Option<Display>,
        /// From `ToolRunning` to the end; 0 where it never ran.
        duration_ms: u64,
        /// True where the output is not the whole of it.
        truncated: bool,
        /// What the model is told by the output, so that nothing tells it again; not shown.
        told: Vec<WakeKey>,
    },
    /// An approval is asked for.
    ApprovalRequested {
        /// What is asked.
        request: ApprovalRequest,
    },
    /// An approval is no longer open.
    ApprovalResolved {
        /// Which.
        approval: ApprovalId,
        /// How it ended.
        outcome: AskResolution,
        /// The answer, where there was one.
        option: Option<OptionId>,
        /// The user's words.
        feedback: Option<String>,
    },
    /// Questions are put to the user.
    QuestionRequested {
        /// What is asked.
        request: QuestionRequest,
    },
    /// Questions are no longer open.
    QuestionResolved {
        /// Which.
        question: QuestionId,
        /// How it ended.
        outcome: AskResolution,
    },
    /// The checklist changed.
    TodoUpdated {
        /// All of it.
        todos: Vec<Todo>,
    },
    /// A command of the user's own runs.
    ShellStarted {
        /// Its name.
        command_id: CommandId,
        /// The command line.
        command: Arc<str>,
    },
    /// A running command of the user's own says something. Live.
    ShellOutput {
        /// Its name.
        command_id: CommandId,
        /// Which stream.
        stream: ProgressStream,
        /// Where this text begins in its stream, in bytes.
        offset: u64,
        /// The text.
        text: String,
    },
    /// A command of the user's own has ended, or goes on as a task.
    ShellEnded {
        /// Its name.
        command_id: CommandId,
        /// Whether it went wrong.
        is_error: bool,
        /// Its exit code.
        exit_code: Option<i32>,
        /// The name of the signal that ended it.
        signal: Option<String>,
        /// The task it goes on as.
        task_id: Option<TaskId>,
    },
    /// A task runs detached from now on.
    TaskStarted {
        /// As it is now.
        task: Arc<Task>,
    },
    /// Something about a running task changed. Live.
    TaskUpdated {
        /// As it is now.
        task: Arc<Task>,
    },
    /// A detached task has ended. Comes once, when its output is complete and on the disk.
    TaskEnded {
        /// As it ended.
        task: Arc<Task>,
        /// The end of its output, at most 4 KiB.
        tail: Arc<str>,
    },
    /// A cron job was made, deleted, paused, resumed or renewed, or is done. What it says is kept already, by a state line
    /// or by the record of the turn that it began.
    CronChanged {
        /// What happened.
        change: CronChange,
        /// The job as it is now; one that is gone, as it was.
        job: Box<CronJob>,
    },
    /// A cron job has fired. Comes after the `TurnStarted` whose record holds the fire.
    CronFired {
        /// The turn it began.
        turn: TurnId,
        /// The fire.
        fire: Box<CronFire>,
    },
    /// Jobs that were to fire once fired more than a day late. Comes after their `CronFired`.
    CronMissed {
        /// The turn they began.
        turn: TurnId,
        /// How many.
        count: u32,
    },
    /// Something was ignored, repaired or left out.
    Warning {
        /// What.
        warning: Warning,
    },
}

/// What a provider needs to see again of its own call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallOrigin {
    /// The provider's id of the call.
    pub provider_id: Option<Arc<str>>,
    /// The argument text as it came.
    pub arguments: Arc<str>,
    /// Unknown members of the provider's call.
    pub extras: Map<String, Value>,
}

/// Facts that only the engine needs again after a restart. They carry no `seq`.
#[derive(Clone, Debug, PartialEq)]
pub enum StateRecord {
    /// A reminder entered the model's context.
    Reminder {
        /// Its text.
        text: Arc<str>,
    },
    /// A rule was born from an answer.
    Granted {
        /// The rule.
        grant: Grant,
    },
    /// A model request was answered; written before its calls run, so that a later crash does not lose the spending.
    Spent {
        /// Tokens it took.
        usage: Usage,
        /// Tokens the next request starts from.
        context_tokens: u64,
    },
    /// The user's own command and what it wrote entered the model's context.
    Shell {
        /// The command, as the model reads it.
        input: Arc<str>,
        /// What came of it, as the model reads it.
        output: Arc<str>,
    },
    /// A turn was taken in that waits for the one that runs. Written before whoever started it is answered.
    Queued {
        /// The waiting turn.
        turn: TurnId,
        /// Why it will begin: `Steer` for words that the turn before it did not take in, which wait no longer as such.
        origin: Origin,
        /// What will begin it.
        input: Vec<ContentPart>,
    },
    /// Words of a host were taken in for a running turn, which takes them up by a `TurnSteered`, in their order. Written
    /// before the host is answered.
    Steered {
        /// The turn.
        turn: TurnId,
        /// The words, as they came.
        input: Vec<ContentPart>,
    },
    /// A model has answered with several calls: all of them, before the first is decided on.
    Called {
        /// How the answer ended.
        finish: FinishReason,
        /// The calls, in the provider's order.
        calls: Vec<ModelCall>,
    },
    /// Something happened to the session's cron jobs.
    Cron(CronOp),
    /// A model client keeps something, such as a scripted model its place. The last one by key counts.
    ModelState {
        /// Whose.
        key: String,
        /// What.
        value: Value,
    },
}

impl DomainEvent {
    /// True for deltas and states that are not kept: a host that missed them learns the same from what follows.
    pub fn is_live(&self) -> bool {
        matches!(
            self,
            Self::SessionCreated { .. }
                | Self::SessionDeleted
                | Self::SessionStatus { .. }
                | Self::SessionUsage { .. }
                | Self::StepRetrying { .. }
                | Self::MessageDelta { .. }
                | Self::ThinkingDelta { .. }
                | Self::ToolDelta { .. }
                | Self::ToolProgress { .. }
                | Self::TaskUpdated { .. }
                | Self::ShellOutput { .. }
        )
    }

    /// Joins a delta to this one, where both continue the same item without a gap; a newer state of a task replaces the
    /// older one. False where they do not.
    pub fn merge(&mut self, next: &Self) -> bool {
        match (self, next) {
            (
                Self::MessageDelta {
                    item: a,
                    offset,
                    text,
                },
                Self::MessageDelta {
                    item: b,
                    offset: at,
                    text: more,
                },
            )
            | (
                Self::ThinkingDelta {
                    item: a,
                    offset,
                    text,
                },
                Self::ThinkingDelta {
                    item: b,
                    offset: at,
                    text: more,
                },
            ) => a == b && join(*offset, text, *at, more),
            (
                Self::ToolDelta {
                    call: a,
                    offset,
                    text,
                    ..
                },
                Self::ToolDelta {
                    call: b,
                    offset: at,
                    text: more,
                    ..
                },
            ) => a == b && join(*offset, text, *at, more),
            (
                Self::ToolProgress {
                    call: a,
                    stream,
                    offset,
                    text,
                },
                Self::ToolProgress {
                    call: b,
                    stream: other,
                    offset: at,
                    text: more,
                },
            ) => {
                *stream != ProgressStream::Status
                    && a == b
                    && stream == other
                    && join(*offset, text, *at, more)
            }
            (
                Self::ShellOutput {
                    command_id: a,
                    stream,
                    offset,
                    text,
                },
                Self::ShellOutput {
                    command_id: b,
                    stream: other,
                    offset: at,
                    text: more,
                },
            ) => {
                *stream != ProgressStream::Status
                    && a == b
                    && stream == other
                    && join(*offset, text, *at, more)
            }
            (Self::TaskUpdated { task }, Self::TaskUpdated { task: newer }) => {
                let is_same = task.task_id == newer.task_id;
                if is_same {
                    task.clone_from(newer);
                }
                is_same
            }
            _ => false,
        }
    }

    /// About how many bytes it takes on a wire, for bounding queues.
    pub fn weight(&self) -> usize {
        200 + match self {
            Self::MessageDelta { text, .. }
            | Self::ThinkingDelta { text, .. }
            | Self::ToolDelta { text, .. }
            | Self::ToolProgress { text, .. }
            | Self::ShellOutput { text, .. } => text.len(),
            Self::ShellStarted { command, .. } => command.len(),
            Self::MessageCompleted { text, .. } | Self::ThinkingCompleted { text, .. } => {
                text.len()
            }
            Self::ToolStarted { origin, .. } => 2 * origin.arguments.len(),
            Self::ToolCompleted { output, .. } => output.iter().map(part_weight).sum(),
            Self::TurnStarted { input, .. }
            | Self::TurnQueued { input, .. }
            | Self::TurnSteered { input, .. } => input.iter().map(content_weight).sum(),
            Self::TaskStarted { task } | Self::TaskUpdated { task } => task_weight(task),
            Self::TaskEnded { task, tail } => task_weight(task) + tail.len(),
            Self::CronChanged { job, .. } => 500 + job.prompt.len(),
            Self::CronFired { fire, .. } => 300 + fire.prompt.len(),
            _ => 300,
        }
    }
}

fn part_weight(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.len(),
        Part::Thinking(thinking) => thinking.text.len(),
        Part::Image { data, .. } => data.len(),
    }
}

fn task_weight(task: &Task) -> usize {
    600 + task.description.len() + task.command.as_ref().map_or(0, String::len)
}

fn content_weight(part: &ContentPart) -> usize {
    match part {
        ContentPart::Text { text } | ContentPart::Resource { text, .. } => text.len(),
        ContentPart::Image { data, .. } => data.len(),
        ContentPart::ResourceLink { uri, .. } => uri.len(),
    }
}

fn join(offset: u64, text: &mut String, at: u64, more: &str) -> bool {
    let continues = offset + text.len() as u64 == at;
    if continues {
        text.push_str(more);
    }
    continues
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(item: &str, offset: u64, text: &str) -> DomainEvent {
        DomainEvent::MessageDelta {
            item: item.into(),
            offset,
            text: text.into(),
        }
    }

    #[test]
    fn merges_only_what_continues_the_same_item() {
        let mut first = delta("i1", 0, "Hé");
        assert!(first.merge(&delta("i1", 3, "llo")));
        assert_eq!(first, delta("i1", 0, "Héllo"));
        assert!(!first.merge(&delta("i2", 6, "x")), "another item");
        assert!(!first.merge(&delta("i1", 9, "x")), "a gap");
        assert!(!first.merge(&DomainEvent::SessionClosed));
        assert_eq!(first, delta("i1", 0, "Héllo"));
    }

    #[test]
    fn a_newer_state_of_a_task_replaces_the_older() {
        let updated = |id: &str, size: u64| DomainEvent::TaskUpdated {
            task: Arc::new(Task {
                output_size_bytes: size,
                ..Task::begun(id.into())
            }),
        };
        let mut first = updated("bash-00000001", 1);
        assert!(!first.merge(&updated("bash-00000002", 2)));
        assert!(first.merge(&updated("bash-00000001", 3)));
        assert_eq!(first, updated("bash-00000001", 3));
    }

    #[test]
    fn status_lines_replace_and_are_not_joined() {
        let line = |text: &str| DomainEvent::ToolProgress {
            call: "call_1".into(),
            stream: ProgressStream::Status,
            offset: 0,
            text: text.into(),
        };
        assert!(!line("").merge(&line("half done")));
    }
}
