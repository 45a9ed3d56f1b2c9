//! From the facts of a session to the updates of this protocol: a total match, and the little that must be remembered of
//! one session on one connection.
//!
//! What is remembered makes the projection safe against a host queue that joins, drops and re-reads events: of every
//! message it knows how much has been shown, so deltas that were dropped come with the complete text; of every call
//! whether the client has heard of it, so that a call is always there before its updates.
//!
//! Durable events up to `replay_until` are history: they are shown as they were live, but calls come with their end at
//! once, the user's words are shown, and what is over (settings, notices) is not.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    ConfigOptionUpdate, ContentBlock, ContentChunk, CurrentModeUpdate, EmbeddedResource,
    EmbeddedResourceResource, ImageContent, MessageId, Meta, Notice, NoticeSeverity, Plan,
    PlanEntry, PlanEntryPriority, PlanEntryStatus, ResourceLink, SessionInfoUpdate, SessionUpdate,
    TextResourceContents, ToolCall, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
    UsageUpdate,
};
use longshore_protocol::id::{ItemId, ToolCallId, TurnId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::failure::{Failure, Warning};
use longshore_protocol::value::model::ModelInfo;
use longshore_protocol::value::session::{Session, SessionPatch};
use longshore_protocol::value::task::{Kind as TaskKind, Status as TaskStatus, Task};
use longshore_protocol::value::todo::{Todo, TodoStatus};
use longshore_protocol::value::tool::ProgressStream;
use longshore_protocol::value::turn::{Origin, StopReason, TurnReason};
use serde_json::json;

use super::card::{
    CONTENT_BYTES, Card, Ending, PROGRESS_BYTES, after, before, fenced, one_line, text,
};
use super::client::Caps;
use super::options::{Settings, config_options, mode_id};
use crate::kernel::event::{DomainEvent, Stamped};
use crate::kernel::time::Timestamp;

/// A call whose arguments are this long is shown before they are complete, by its name; a shorter one is shown whole.
const EARLY_BYTES: u64 = 1 << 10;

/// Progress updates of one call in one second.
const PROGRESS_PER_SECOND: u32 = 10;

/// One session as one client has seen it.
#[derive(Debug)]
pub(super) struct Projection {
    caps: Caps,
    models: Arc<[ModelInfo]>,
    settings: Settings,
    title: String,
    /// The last event that is history.
    replay_until: u64,
    /// Bytes shown of messages that are not complete.
    shown: HashMap<ItemId, u64>,
    /// Calls that have not ended, in the order they began.
    calls: Vec<(ToolCallId, Call)>,
    /// The title the client knows.
    told_title: String,
    /// Turns that the client's own prompts began: it knows their words.
    own_turns: HashSet<TurnId>,
    /// Changes the client asked for itself: their answers tell of them.
    own_changes: VecDeque<SessionPatch>,
    /// Calls that are asked about, and so must be there before their end.
    asked: HashSet<ToolCallId>,
}

/// A call that has not ended.
#[derive(Debug, Default)]
struct Call {
    /// Absent while its arguments are still being written.
    card: Option<Card>,
    is_shown: bool,
    /// The end of its output so far.
    tail: String,
    /// What it says about its state.
    status: String,
    /// Updates sent in the current second.
    sent: (i64, u32),
}

impl Projection {
    /// Of a session that is being attached to. Events up to `replay_until` are history.
    pub(super) fn new(
        caps: Caps,
        models: Arc<[ModelInfo]>,
        session: &Session,
        replay_until: u64,
    ) -> Self {
        Self {
            caps,
            models,
            settings: Settings::of(session),
            title: session.title.clone(),
            replay_until,
            shown: HashMap::new(),
            calls: Vec::new(),
            told_title: String::new(),
            own_turns: HashSet::new(),
            own_changes: VecDeque::new(),
            asked: HashSet::new(),
        }
    }

    /// A turn that a prompt of this client began. Said before its events can come.
    pub(super) fn own_turn(&mut self, turn: TurnId) {
        self.own_turns.insert(turn);
    }

    /// A change that this client asked for. Said before its event can come.
    pub(super) fn own_change(&mut self, change: SessionPatch) {
        self.own_changes.push_back(change);
    }

    /// The change was refused, so no event will tell of it.
    pub(super) fn not_changed(&mut self, change: &SessionPatch) {
        if let Some(n) = self.own_changes.iter().position(|own| own == change) {
            self.own_changes.remove(n);
        }
    }

    /// The call is asked about.
    pub(super) fn asked(&mut self, call: ToolCallId) {
        self.asked.insert(call);
    }

    /// The updates that tell of a change of settings.
    pub(super) fn settings_updates(&self, changed: &SessionPatch) -> Vec<SessionUpdate> {
        settings_updates(&self.settings, &self.models, changed)
    }

    /// The updates that an event is for the client.
    pub(super) fn project(&mut self, stamped: &Stamped) -> Vec<SessionUpdate> {
        let is_history = stamped.seq.is_some_and(|seq| seq <= self.replay_until);
        let mut out = Vec::new();
        if !is_history {
            self.show_held(&mut out);
        }
        self.event(&stamped.event, stamped.at, is_history, &mut out);
        out
    }

    fn event(
        &mut self,
        event: &DomainEvent,
        at: Timestamp,
        is_history: bool,
        out: &mut Vec<SessionUpdate>,
    ) {
        match event {
            // A client learns of its sessions by its own requests.
            DomainEvent::SessionCreated { .. }
            | DomainEvent::SessionClosed
            | DomainEvent::SessionDeleted => {}
            // What a client has drawn can't be taken back; history that is shown anew is without it.
            DomainEvent::SessionCleared => self.said_where_shown(
                "The conversation was cleared: the model has nothing of what stands above.",
                is_history,
                out,
            ),
            DomainEvent::TurnsUndone { turns } => {
                let what = if turns.len() == 1 {
                    "The last turn was".to_owned()
                } else {
                    format!("The last {} turns were", turns.len())
                };
                let text = format!(
                    "{what} undone: the model has nothing of it any more. Files are as they were left."
                );
                self.said_where_shown(&text, is_history, out);
            }
            // The answer to a prompt says that its turn is over; nothing says that one begins.
            DomainEvent::SessionStatus { .. } => {}
            DomainEvent::SessionUpdated { changed } => self.updated(changed, is_history, out),
            DomainEvent::SessionUsage {
                context_tokens,
                context_window,
                ..
            } => {
                if *context_window > 0 {
                    let used = (*context_tokens).min(*context_window);
                    out.push(SessionUpdate::UsageUpdate(UsageUpdate::new(
                        used,
                        *context_window,
                    )));
                }
            }
            // It is shown when it begins.
            DomainEvent::TurnQueued { .. } => {}
            DomainEvent::TurnStarted { origin, .. } if !origin.is_from_host() => {
                if self.caps.notices && !is_history {
                    out.push(notice(NoticeSeverity::Info, begun_by(*origin), None));
                }
            }
            // Of what the engine adds to a turn, the client has heard by what it tells of.
            DomainEvent::TurnSteered { origin, .. } if !origin.is_from_host() => {}
            DomainEvent::TurnStarted { turn, input, .. } => {
                if self.title.is_empty() {
                    self.title = crate::session::summary(input);
                }
                if is_history || !self.own_turns.remove(turn) {
                    out.extend(user_chunks(input, &format!("{turn}-input")));
                }
            }
            DomainEvent::TurnSteered { turn, input, .. } => {
                out.extend(user_chunks(input, &format!("{turn}-steer-{}", at.0)));
            }
            DomainEvent::TurnEnded {
                turn,
                reason,
                stop,
                error,
                ..
            } => {
                self.turn_ended(turn, (*reason, *stop), error.as_ref(), is_history, out);
                if !is_history {
                    let mut info = SessionInfoUpdate::new().updated_at(at.to_string());
                    if self.title != self.told_title {
                        self.told_title.clone_from(&self.title);
                        info = info.title(self.title.clone());
                    }
                    out.push(SessionUpdate::SessionInfoUpdate(info));
                }
            }
            // Steps are the engine's matter.
            DomainEvent::StepStarted { .. }
            | DomainEvent::StepEnded { .. }
            | DomainEvent::StepInterrupted { .. } => {}
            DomainEvent::StepRetrying {
                attempt,
                max_attempts,
                error,
                discard,
                ..
            } => {
                self.discard(discard, out);
                if self.caps.notices {
                    let title = format!(
                        "The model request failed and is sent again ({attempt} of {max_attempts})"
                    );
                    out.push(notice(NoticeSeverity::Warning, title, Some(&error.message)));
                }
            }
            DomainEvent::MessageDelta { item, offset, text } => {
                let new = self.new_text(item, *offset, text);
                out.extend(chunks(new, item.as_str()).map(SessionUpdate::AgentMessageChunk));
            }
            DomainEvent::MessageCompleted { item, text, .. } => {
                let rest = self.rest(item, text);
                out.extend(chunks(rest, item.as_str()).map(SessionUpdate::AgentMessageChunk));
            }
            DomainEvent::ThinkingDelta { item, offset, text } => {
                let new = self.new_text(item, *offset, text);
                out.extend(chunks(new, item.as_str()).map(SessionUpdate::AgentThoughtChunk));
            }
            DomainEvent::ThinkingCompleted { item, text, .. } => {
                let rest = self.rest(item, text);
                out.extend(chunks(rest, item.as_str()).map(SessionUpdate::AgentThoughtChunk));
            }
            DomainEvent::ToolDelta {
                call,
                name,
                offset,
                text,
            } => {
                let is_long = offset + text.len() as u64 >= EARLY_BYTES;
                if is_long && self.call(call).is_none() {
                    self.calls.push((
                        call.clone(),
                        Call {
                            is_shown: true,
                            ..Call::default()
                        },
                    ));
                    let begun = ToolCall::new(call.as_str().to_owned(), name.to_string())
                        .name(name.to_string());
                    out.push(SessionUpdate::ToolCall(begun));
                }
            }
            DomainEvent::ToolStarted {
                call,
                name,
                input,
                title,
                display,
                accesses,
                ..
            } => {
                let card = Card {
                    name: name.to_string(),
                    title: title.clone(),
                    display: display.clone(),
                    accesses: accesses.clone(),
                    input: input.as_ref().clone(),
                };
                self.started(call, card, is_history, out);
            }
            DomainEvent::ToolRunning { call } => {
                if !is_history {
                    let status = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
                    out.push(update(call, status));
                }
            }
            DomainEvent::ToolProgress {
                call, stream, text, ..
            } => self.progress(call, *stream, text, at, out),
            DomainEvent::ToolCompleted {
                call,
                is_error,
                output,
                display,
                ..
            } => {
                self.asked.remove(call);
                let known = self.take_call(call);
                let card = known.as_ref().and_then(|call| call.card.as_ref());
                let ending = Ending {
                    started: card.map(|card| &card.display),
                    display: display.as_ref(),
                    output,
                    is_error: *is_error,
                };
                let status = if ending.has_failed() {
                    ToolCallStatus::Failed
                } else {
                    ToolCallStatus::Completed
                };
                if known.as_ref().is_some_and(|call| call.is_shown) {
                    let fields = ToolCallUpdateFields::new()
                        .status(status)
                        .content(ending.content())
                        .raw_output(ending.raw_output());
                    out.push(update(call, fields));
                } else {
                    let whole = match card {
                        Some(card) => card.call(call.as_str()),
                        // It began before this client was there.
                        None => ToolCall::new(call.as_str().to_owned(), "Tool call"),
                    };
                    let whole = whole
                        .status(status)
                        .content(ending.content())
                        .raw_output(ending.raw_output());
                    out.push(SessionUpdate::ToolCall(whole));
                }
            }
            // Asks are requests of their own.
            DomainEvent::ApprovalRequested { .. }
            | DomainEvent::ApprovalResolved { .. }
            | DomainEvent::QuestionRequested { .. }
            | DomainEvent::QuestionResolved { .. } => {}
            // Clients of this protocol run commands of the user themselves; those of other hosts are not theirs.
            DomainEvent::ShellStarted { .. }
            | DomainEvent::ShellOutput { .. }
            | DomainEvent::ShellEnded { .. } => {}
            // The call that began it says so; its end has a card of its own, since that call is over.
            DomainEvent::TaskStarted { .. } | DomainEvent::TaskUpdated { .. } => {}
            DomainEvent::TaskEnded { task, tail } => {
                out.push(SessionUpdate::ToolCall(ended_task(task, tail)));
            }
            // What a job begins is shown as the turn it is.
            DomainEvent::CronChanged { .. }
            | DomainEvent::CronFired { .. }
            | DomainEvent::CronMissed { .. } => {}
            DomainEvent::TodoUpdated { todos } => out.push(SessionUpdate::Plan(plan(todos))),
            DomainEvent::Warning { warning } => {
                if self.caps.notices && !is_history {
                    out.push(warning_notice(warning));
                }
            }
        }
    }

    /// Says something that hosts of the native protocol draw themselves.
    fn said_where_shown(&self, text: &str, is_history: bool, out: &mut Vec<SessionUpdate>) {
        if self.caps.notices && !is_history {
            out.push(notice(NoticeSeverity::Info, text, None));
        }
    }

    fn updated(&mut self, changed: &SessionPatch, is_history: bool, out: &mut Vec<SessionUpdate>) {
        if is_history {
            return;
        }
        self.settings.apply(changed);
        if let Some(title) = &changed.title {
            self.title.clone_from(title);
            self.told_title.clone_from(title);
        }
        if self.own_changes.front() == Some(changed) {
            self.own_changes.pop_front();
            return;
        }
        out.extend(self.settings_updates(changed));
        if let Some(title) = &changed.title {
            out.push(SessionUpdate::SessionInfoUpdate(
                SessionInfoUpdate::new().title(title.clone()),
            ));
        }
    }

    fn turn_ended(
        &mut self,
        turn: &TurnId,
        how: (TurnReason, StopReason),
        error: Option<&Failure>,
        is_history: bool,
        out: &mut Vec<SessionUpdate>,
    ) {
        self.own_turns.remove(turn);
        self.shown.clear();
        self.asked.clear();
        // Only calls whose arguments were never complete are open here; they get the end that nothing else gives them.
        for (id, call) in std::mem::take(&mut self.calls) {
            if call.is_shown {
                out.push(failed(
                    &id,
                    if how.0 == TurnReason::Cancelled {
                        "cancelled"
                    } else {
                        "interrupted"
                    },
                ));
            }
        }
        let Some(error) = error else { return };
        // A live failure is told by the answer to the prompt. A refusal is no error there, so its reason is a message.
        if is_history || how.1 == StopReason::Refusal {
            let id = format!("{turn}-end");
            out.extend(chunks(&error.message, &id).map(SessionUpdate::AgentMessageChunk));
        }
    }

    /// Text that has not been shown. Nothing where some before it is missing: it comes with the complete text.
    fn new_text<'a>(&mut self, item: &ItemId, offset: u64, text: &'a str) -> &'a str {
        let shown = self.shown.entry(item.clone()).or_default();
        let Some(known) = shown.checked_sub(offset) else {
            return "";
        };
        let Some(new) = usize::try_from(known)
            .ok()
            .and_then(|known| text.get(known..))
        else {
            return "";
        };
        *shown += new.len() as u64;
        new
    }

    fn rest<'a>(&mut self, item: &ItemId, text: &'a str) -> &'a str {
        let shown = self.shown.remove(item).unwrap_or_default();
        usize::try_from(shown)
            .ok()
            .and_then(|shown| text.get(shown..))
            .unwrap_or_default()
    }

    fn call(&mut self, id: &ToolCallId) -> Option<&mut Call> {
        self.calls
            .iter_mut()
            .find(|(known, _)| known == id)
            .map(|(_, call)| call)
    }

    fn take_call(&mut self, id: &ToolCallId) -> Option<Call> {
        let n = self.calls.iter().position(|(known, _)| known == id)?;
        Some(self.calls.remove(n).1)
    }

    fn started(
        &mut self,
        id: &ToolCallId,
        card: Card,
        is_history: bool,
        out: &mut Vec<SessionUpdate>,
    ) {
        let is_held = is_history && !self.asked.contains(id);
        let known = self.take_call(id);
        let was_shown = known.is_some_and(|call| call.is_shown);
        if was_shown {
            out.push(update(id, card.fields()));
        } else if !is_held {
            out.push(SessionUpdate::ToolCall(card.call(id.as_str())));
        }
        let call = Call {
            card: Some(card),
            is_shown: was_shown || !is_held,
            ..Call::default()
        };
        self.calls.push((id.clone(), call));
    }

    /// History is over: calls that were held back for their end are shown as they are.
    fn show_held(&mut self, out: &mut Vec<SessionUpdate>) {
        for (id, call) in &mut self.calls {
            if let Call {
                card: Some(card),
                is_shown: is_shown @ false,
                ..
            } = call
            {
                *is_shown = true;
                out.push(SessionUpdate::ToolCall(card.call(id.as_str())));
            }
        }
    }

    fn progress(
        &mut self,
        id: &ToolCallId,
        stream: ProgressStream,
        words: &str,
        at: Timestamp,
        out: &mut Vec<SessionUpdate>,
    ) {
        let Some(call) = self.call(id) else { return };
        match stream {
            ProgressStream::Stdout | ProgressStream::Stderr => {
                call.tail.push_str(words);
                if call.tail.len() > 2 * PROGRESS_BYTES {
                    let keep = after(&call.tail, call.tail.len() - PROGRESS_BYTES).to_owned();
                    call.tail = keep;
                }
            }
            ProgressStream::Status => words.clone_into(&mut call.status),
        }
        let second = at.0.div_euclid(1000);
        if call.sent.0 != second {
            call.sent = (second, 0);
        }
        if call.sent.1 >= PROGRESS_PER_SECOND {
            return;
        }
        call.sent.1 += 1;
        let mut content = Vec::new();
        if !call.tail.is_empty() {
            let tail = after(&call.tail, call.tail.len().saturating_sub(PROGRESS_BYTES));
            content.push(text(fenced(tail, PROGRESS_BYTES)));
        }
        if !call.status.is_empty() {
            content.push(text(one_line(&call.status)));
        }
        out.push(update(id, ToolCallUpdateFields::new().content(content)));
    }

    /// Calls of an attempt that is made again. Text cannot be taken back here; what replaces it has its own message id.
    fn discard(&mut self, items: &[String], out: &mut Vec<SessionUpdate>) {
        for item in items {
            self.shown.remove(item.as_str());
            let id = ToolCallId::from(item.as_str());
            if self.take_call(&id).is_some_and(|call| call.is_shown) {
                out.push(failed(&id, "interrupted; the model is asked again"));
            }
        }
    }
}

/// The updates that tell of changed settings.
pub(super) fn settings_updates(
    settings: &Settings,
    models: &[ModelInfo],
    changed: &SessionPatch,
) -> Vec<SessionUpdate> {
    let mut updates = Vec::new();
    if let Some(mode) = changed.mode {
        updates.push(SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(
            mode_id(mode),
        )));
    }
    if changed.mode.is_some() || changed.model.is_some() || changed.thinking.is_some() {
        let options = config_options(settings, models);
        updates.push(SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(
            options,
        )));
    }
    updates
}

/// A notice.
pub(super) fn notice(
    severity: NoticeSeverity,
    title: impl Into<String>,
    description: Option<&str>,
) -> SessionUpdate {
    SessionUpdate::Notice(Notice::new(severity, title).description(description.map(str::to_owned)))
}

/// What is said of a turn that no prompt began.
fn begun_by(origin: Origin) -> &'static str {
    match origin {
        Origin::Task => "The agent goes on: a background task has ended",
        Origin::Cron => "The agent goes on: a scheduled job is due",
        Origin::User | Origin::Steer => "The agent goes on",
    }
}

fn warning_notice(warning: &Warning) -> SessionUpdate {
    notice(
        NoticeSeverity::Warning,
        one_line(&warning.message),
        warning.file.as_deref(),
    )
}

/// A message chunk of ours, with an id.
pub(super) fn chunk(content: ContentBlock, message: &str) -> ContentChunk {
    ContentChunk::new(content).message_id(MessageId::new(message))
}

/// A text as chunks, cut at the ends of lines where one would be too long.
fn chunks(mut words: &str, message: &str) -> impl Iterator<Item = ContentChunk> {
    std::iter::from_fn(move || {
        if words.is_empty() {
            return None;
        }
        let mut head = words;
        if words.len() > CONTENT_BYTES {
            head = before(words, CONTENT_BYTES);
            if let Some(line) = head.rfind('\n') {
                head = &head[..=line];
            }
        }
        words = &words[head.len()..];
        Some(chunk(ContentBlock::from(head), message))
    })
}

fn user_chunks(input: &[ContentPart], message: &str) -> Vec<SessionUpdate> {
    let blocks = input.iter().map(|part| match part {
        ContentPart::Text { text } => ContentBlock::from(text.as_str()),
        ContentPart::Image {
            data, mime_type, ..
        } => ContentBlock::Image(ImageContent::new(data.clone(), mime_type.clone())),
        ContentPart::Resource {
            uri,
            text,
            mime_type,
        } => {
            let contents =
                TextResourceContents::new(text.clone(), uri.clone()).mime_type(mime_type.clone());
            let resource = EmbeddedResourceResource::TextResourceContents(contents);
            ContentBlock::Resource(EmbeddedResource::new(resource))
        }
        ContentPart::ResourceLink { uri, name } => {
            let name = name.clone().unwrap_or_else(|| uri.clone());
            ContentBlock::ResourceLink(ResourceLink::new(name, uri.clone()))
        }
    });
    blocks
        .map(|block| SessionUpdate::UserMessageChunk(chunk(block, message)))
        .collect()
}

/// A task that has ended, as a card.
fn ended_task(task: &Task, tail: &str) -> ToolCall {
    let command = task.command.as_deref().unwrap_or_default();
    let title = if task.description.is_empty() {
        command
    } else {
        &task.description
    };
    let status = if task.status == TaskStatus::Completed {
        ToolCallStatus::Completed
    } else {
        ToolCallStatus::Failed
    };
    let mut content = Vec::new();
    if !tail.is_empty() {
        content.push(text(fenced(tail, CONTENT_BYTES)));
    }
    match (task.exit_code, &task.signal, &task.stop_reason) {
        (_, Some(signal), _) => content.push(text(format!("Ended by signal {signal}"))),
        (Some(code), None, _) if code != 0 => content.push(text(format!("Exit code {code}"))),
        (_, None, Some(reason)) => content.push(text(one_line(reason))),
        _ => {}
    }
    let kind = match task.kind {
        TaskKind::Process => ToolKind::Execute,
        TaskKind::Agent | TaskKind::Question => ToolKind::Other,
    };
    let mut meta = Meta::new();
    let longshore = json!({"taskId": task.task_id.as_str()});
    meta.insert("longshore".to_owned(), longshore);
    ToolCall::new(format!("task-{}", task.task_id), one_line(title))
        .kind(kind)
        .status(status)
        .content(content)
        .meta(meta)
}

fn plan(todos: &[Todo]) -> Plan {
    let entries = todos.iter().map(|todo| {
        let status = match todo.status {
            TodoStatus::Pending => PlanEntryStatus::Pending,
            TodoStatus::InProgress => PlanEntryStatus::InProgress,
            TodoStatus::Done => PlanEntryStatus::Completed,
        };
        PlanEntry::new(todo.title.clone(), PlanEntryPriority::Medium, status)
    });
    Plan::new(entries.collect())
}

fn update(call: &ToolCallId, fields: ToolCallUpdateFields) -> SessionUpdate {
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(call.as_str().to_owned(), fields))
}

fn failed(call: &ToolCallId, why: &str) -> SessionUpdate {
    update(
        call,
        ToolCallUpdateFields::new()
            .status(ToolCallStatus::Failed)
            .content(vec![text(why)]),
    )
}

#[cfg(test)]
#[path = "project_tests.rs"]
mod tests;
