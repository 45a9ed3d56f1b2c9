//! An agent from its journal: the same history, item by item, as the live one had.

use std::collections::HashSet;
use std::sync::Arc;

use longshore_protocol::id::{ApprovalId, QuestionId, SessionId, ToolCallId, TurnId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::todo::Todo;
use longshore_protocol::value::turn::{FinishReason, Origin, TurnReason};

use super::Agent;
use super::context::input::convert;
use super::context::render::estimate;
use super::context::{Context, Mark};
use super::turn::message_origin;
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::message::{Message, MessageOrigin, ModelCall, Part, Thinking};
use crate::kernel::wake::WakeKey;

/// What a call gets as its result where the server ended while it was open.
pub const UNKNOWN: &str = "The server ended while this call was open. Whether it had any effect is unknown: check \
    before you repeat it.";

/// What stands in the place of an input whose line in the journal could not be read.
const LOST: &str = "[The user's words at this place were lost by damage to the session's journal.]";

/// Takes in the lines of a journal in order and becomes an agent.
pub struct Restore {
    agent: Agent,
    /// Every call so far.
    calls: HashSet<ToolCallId>,
    /// Where each turn of the conversation began.
    begins: Vec<Begin>,
    step: Option<OpenStep>,
    turn: Option<TurnId>,
    queued: Vec<TurnId>,
    approvals: Vec<ApprovalId>,
    questions: Vec<QuestionId>,
    model_state: Vec<(String, serde_json::Value)>,
}

/// What was still open at the end of a journal, because the server ended without closing it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// The turn that ran.
    pub turn: Option<TurnId>,
    /// Its step, where a request was under way.
    pub step: Option<u32>,
    /// Calls without a result.
    pub calls: Vec<ToolCallId>,
    /// Turns that waited.
    pub queued: Vec<TurnId>,
    /// Asks without an end.
    pub approvals: Vec<ApprovalId>,
    /// Likewise.
    pub questions: Vec<QuestionId>,
}

/// How everything that an undo takes back was before a turn.
struct Begin {
    turn: TurnId,
    is_from_host: bool,
    context: Mark,
    todos: Arc<[Todo]>,
    interrupted: bool,
    /// What the model was told from here until the next turn.
    told: Vec<WakeKey>,
}

struct OpenStep {
    number: u32,
    /// Tokens in the context once its answer stands there.
    tokens: Option<u64>,
    parts: Vec<Part>,
    partial: bool,
    calls: Vec<ModelCall>,
    results: Vec<Option<Message>>,
}

impl Restore {
    /// For a session.
    pub fn new(session: SessionId) -> Self {
        Self {
            agent: Agent::new(session),
            calls: HashSet::new(),
            begins: Vec::new(),
            step: None,
            turn: None,
            queued: Vec::new(),
            approvals: Vec::new(),
            questions: Vec::new(),
            model_state: Vec::new(),
        }
    }

    /// Takes in a state line.
    pub fn state(&mut self, record: StateRecord) {
        match record {
            StateRecord::Reminder { text } => {
                self.agent
                    .context
                    .push(Message::user(text, MessageOrigin::Reminder));
            }
            StateRecord::Granted { grant } => self.agent.grants.push(grant),
            StateRecord::Spent {
                usage,
                context_tokens,
            } => {
                self.agent.usage.add(&usage);
                if let Some(step) = &mut self.step {
                    step.tokens = Some(context_tokens);
                }
            }
            StateRecord::Shell { input, output } => self.agent.heard_shell(input, output),
            // Jobs belong to the session.
            StateRecord::Cron(_) => {}
            StateRecord::ModelState { key, value } => {
                self.model_state.retain(|(other, _)| *other != key);
                self.model_state.push((key, value));
            }
        }
    }

    /// Takes in an event.
    pub fn event(&mut self, event: &DomainEvent) {
        match event {
            DomainEvent::TurnQueued { turn, .. } => self.queued.push(turn.clone()),
            DomainEvent::TurnStarted {
                turn,
                origin,
                input,
                wakes,
            } => {
                // A turn before it may have no end here: a full disk did not take it.
                self.close_step(None);
                self.begin(turn, origin.is_from_host());
                self.queued.retain(|queued| queued != turn);
                self.turn = Some(turn.clone());
                self.agent.interrupted = false;
                self.input(*origin, input, wakes);
            }
            DomainEvent::TurnSteered {
                turn: _,
                origin,
                input,
                wakes,
            } => self.input(*origin, input, wakes),
            DomainEvent::TurnEnded { turn, reason, .. } => {
                self.close_step(None);
                self.queued.retain(|queued| queued != turn);
                if self.turn.as_ref() == Some(turn) {
                    self.turn = None;
                    self.agent.interrupted = *reason == TurnReason::Cancelled;
                }
            }
            DomainEvent::TurnsUndone { turns } => self.undo(turns),
            DomainEvent::SessionCleared => self.clear(),
            DomainEvent::StepStarted { turn, step } => {
                self.close_step(None);
                if self.turn.as_ref() != Some(turn) {
                    // The line that began the turn could not be read; an answer to nothing is no valid history.
                    self.turn = Some(turn.clone());
                    self.begin(turn, true);
                    self.agent
                        .context
                        .push(Message::user(LOST, MessageOrigin::User));
                }
                self.step = Some(OpenStep::new(*step));
            }
            DomainEvent::StepEnded { finish, .. } | DomainEvent::StepInterrupted { finish, .. } => {
                self.close_step(Some(*finish));
            }
            DomainEvent::MessageCompleted {
                item,
                text,
                partial,
                ..
            } => {
                self.agent.ids.seen(item.as_str());
                self.part(Part::Text(text.clone()), *partial);
            }
            DomainEvent::ThinkingCompleted {
                item,
                text,
                signature,
                partial,
                ..
            } => {
                self.agent.ids.seen(item.as_str());
                let thinking = Thinking {
                    text: text.clone(),
                    signature: signature.clone(),
                };
                self.part(Part::Thinking(thinking), *partial);
            }
            DomainEvent::ToolStarted {
                call, name, origin, ..
            } => {
                self.agent.ids.seen(call.as_str());
                // Damage can give a call the id of another; no provider takes two of one id.
                let is_new = self.calls.insert(call.clone());
                if let Some(step) = self.step.as_mut().filter(|_| is_new) {
                    step.calls.push(ModelCall {
                        id: call.clone(),
                        provider_id: origin.provider_id.clone(),
                        name: name.clone(),
                        arguments: origin.arguments.clone(),
                        extras: origin.extras.clone(),
                    });
                    step.results.push(None);
                }
            }
            DomainEvent::ToolCompleted {
                call,
                is_error,
                output,
                note,
                told,
                ..
            } => {
                self.told(told);
                if let Some(step) = &mut self.step {
                    step.result(call, output.clone(), *is_error, note.clone());
                }
            }
            DomainEvent::ApprovalRequested { request } => {
                self.agent.ids.seen(request.approval_id.as_str());
                self.approvals.push(request.approval_id.clone());
            }
            DomainEvent::ApprovalResolved { approval, .. } => {
                self.approvals.retain(|open| open != approval);
            }
            DomainEvent::QuestionRequested { request } => {
                self.agent.ids.seen(request.question_id.as_str());
                self.questions.push(request.question_id.clone());
            }
            DomainEvent::QuestionResolved { question, .. } => {
                self.questions.retain(|open| open != question);
            }
            DomainEvent::TodoUpdated { todos } => self.agent.todos = Arc::from(todos.clone()),
            DomainEvent::SessionCreated { .. }
            | DomainEvent::SessionUpdated { .. }
            | DomainEvent::SessionStatus { .. }
            | DomainEvent::SessionUsage { .. }
            | DomainEvent::SessionClosed
            | DomainEvent::SessionDeleted
            | DomainEvent::StepRetrying { .. }
            | DomainEvent::MessageDelta { .. }
            | DomainEvent::ThinkingDelta { .. }
            | DomainEvent::ToolDelta { .. }
            | DomainEvent::ToolRunning { .. }
            | DomainEvent::ToolProgress { .. }
            | DomainEvent::ShellStarted { .. }
            | DomainEvent::ShellOutput { .. }
            | DomainEvent::ShellEnded { .. }
            | DomainEvent::TaskStarted { .. }
            | DomainEvent::TaskUpdated { .. }
            | DomainEvent::TaskEnded { .. }
            | DomainEvent::CronChanged { .. }
            | DomainEvent::CronFired { .. }
            | DomainEvent::CronMissed { .. }
            | DomainEvent::Warning { .. } => {}
        }
    }

    /// The turns that an undo of so many of the user's turns takes back, oldest first: those, and all after the first of
    /// them. Fewer turns than that are an error, which says how many there are.
    pub fn last_turns(&self, n: usize) -> Result<Vec<TurnId>, usize> {
        let mut of_user = self
            .begins
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, begin)| begin.is_from_host);
        match n.checked_sub(1).and_then(|n| of_user.nth(n)) {
            Some((first, _)) => Ok(self.begins[first..]
                .iter()
                .map(|begin| begin.turn.clone())
                .collect()),
            None => Err(self.undoable()),
        }
    }

    /// How many of the user's turns can be taken back.
    pub fn undoable(&self) -> usize {
        let of_user = self.begins.iter().filter(|begin| begin.is_from_host);
        of_user.count()
    }

    /// What is still open: closing it is the session's matter.
    pub fn open(&self) -> Open {
        let calls = self.step.iter().flat_map(OpenStep::open_calls).collect();
        Open {
            turn: self.turn.clone(),
            step: self.step.as_ref().map(|step| step.number),
            calls,
            queued: self.queued.clone(),
            approvals: self.approvals.clone(),
            questions: self.questions.clone(),
        }
    }

    /// The agent, and what model clients had kept, by model.
    pub fn finish(mut self) -> (Agent, Vec<(String, serde_json::Value)>) {
        self.close_step(None);
        (self.agent, self.model_state)
    }

    fn begin(&mut self, turn: &TurnId, is_from_host: bool) {
        self.begins.push(Begin {
            turn: turn.clone(),
            is_from_host,
            context: self.agent.context.mark(),
            todos: self.agent.todos.clone(),
            interrupted: self.agent.interrupted,
            told: Vec::new(),
        });
    }

    /// Takes back everything from the first of these turns on, as far as an undo does.
    fn undo(&mut self, turns: &[TurnId]) {
        let Some(first) = self
            .begins
            .iter()
            .position(|begin| turns.contains(&begin.turn))
        else {
            return;
        };
        (self.step, self.turn) = (None, None);
        let undone = self.begins.drain(first..).collect::<Vec<_>>();
        for key in undone.iter().flat_map(|begin| &begin.told) {
            self.agent.told.remove(key);
        }
        if let Some(begin) = undone.into_iter().next() {
            self.agent.context.rewind(begin.context);
            self.agent.todos = begin.todos;
            self.agent.interrupted = begin.interrupted;
        }
    }

    /// Begins the conversation anew. What the model was told outside of it is not told again.
    fn clear(&mut self) {
        (self.step, self.turn) = (None, None);
        self.begins.clear();
        self.agent.context = Context::default();
        self.agent.todos = Arc::from([]);
        self.agent.interrupted = false;
    }

    fn told(&mut self, keys: &[WakeKey]) {
        self.agent.told.extend(keys.iter().cloned());
        if let Some(begin) = self.begins.last_mut() {
            begin.told.extend(keys.iter().cloned());
        }
    }

    fn input(&mut self, origin: Origin, input: &[ContentPart], wakes: &[WakeKey]) {
        self.told(wakes);
        // Its images were made fit before it was recorded.
        self.agent.context.push(Message::User {
            parts: convert(input),
            origin: message_origin(origin),
        });
    }

    fn part(&mut self, part: Part, partial: bool) {
        if let Some(step) = &mut self.step {
            step.parts.push(part);
            step.partial |= partial;
        }
    }

    fn close_step(&mut self, finish: Option<FinishReason>) {
        let Some(step) = self.step.take() else { return };
        let OpenStep {
            number: _,
            tokens,
            parts,
            partial,
            calls,
            results,
        } = step;
        if finish == Some(FinishReason::Filtered) {
            return;
        }
        let says_something = parts
            .iter()
            .any(|part| matches!(part, Part::Text(text) if !text.trim().is_empty()));
        if calls.is_empty() && !says_something {
            return;
        }
        let results = calls
            .iter()
            .zip(results)
            .map(|(call, result)| {
                result.unwrap_or_else(|| Message::ToolResult {
                    call: call.id.clone(),
                    parts: vec![Part::text(UNKNOWN)],
                    is_error: true,
                    note: None,
                })
            })
            .collect();
        let answer = Message::Assistant {
            parts,
            calls,
            partial,
        };
        let tokens = tokens.unwrap_or_else(|| self.agent.context.tokens() + estimate(&answer));
        self.agent.context.push_exchange(answer, tokens, results);
    }
}

impl OpenStep {
    fn new(number: u32) -> Self {
        Self {
            number,
            tokens: None,
            parts: Vec::new(),
            partial: false,
            calls: Vec::new(),
            results: Vec::new(),
        }
    }

    /// The first result of a call counts; a later one is a stray.
    fn result(
        &mut self,
        call: &ToolCallId,
        parts: Vec<Part>,
        is_error: bool,
        note: Option<String>,
    ) {
        let Some(n) = self.calls.iter().position(|known| known.id == *call) else {
            return;
        };
        if self.results[n].is_none() {
            let note = note.filter(|note| !note.is_empty());
            self.results[n] = Some(Message::ToolResult {
                call: call.clone(),
                parts,
                is_error,
                note,
            });
        }
    }

    fn open_calls(&self) -> impl Iterator<Item = ToolCallId> {
        self.calls
            .iter()
            .zip(&self.results)
            .filter(|(_, result)| result.is_none())
            .map(|(call, _)| call.id.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kernel::event::CallOrigin;
    use longshore_protocol::value::display::Display;
    use longshore_protocol::value::usage::Usage;

    fn started(call: &str) -> DomainEvent {
        DomainEvent::ToolStarted {
            turn: "t1".into(),
            call: call.into(),
            name: "Read".into(),
            input: Arc::new(json!({})),
            title: String::new(),
            display: Display::Generic {
                summary: String::new(),
                detail: None,
            },
            accesses: vec![],
            origin: CallOrigin {
                arguments: "{}".into(),
                ..CallOrigin::default()
            },
        }
    }

    fn completed(call: &str, text: &str) -> DomainEvent {
        DomainEvent::ToolCompleted {
            turn: "t1".into(),
            call: call.into(),
            is_error: false,
            output: vec![Part::text(text)],
            note: None,
            display: None,
            duration_ms: 0,
            truncated: false,
            told: vec![],
        }
    }

    fn begin() -> Restore {
        let mut restore = Restore::new("s".into());
        let input = vec![ContentPart::Text { text: "go".into() }];
        restore.event(&DomainEvent::TurnStarted {
            turn: "t1".into(),
            origin: Origin::User,
            input,
            wakes: vec![],
        });
        restore.event(&DomainEvent::StepStarted {
            turn: "t1".into(),
            step: 1,
        });
        restore.event(&DomainEvent::MessageCompleted {
            turn: "t1".into(),
            item: "i7".into(),
            text: "looking".into(),
            partial: false,
        });
        restore
    }

    #[test]
    fn results_stand_in_call_order_whatever_order_they_ended_in() {
        let mut restore = begin();
        for event in [
            started("call_4"),
            started("call_5"),
            completed("call_5", "b"),
            completed("call_4", "a"),
        ] {
            restore.event(&event);
        }
        let usage = Usage::default();
        restore.event(&DomainEvent::StepEnded {
            turn: "t1".into(),
            step: 1,
            finish: FinishReason::ToolCalls,
            usage,
        });
        assert_eq!(
            restore.open(),
            Open {
                turn: Some("t1".into()),
                ..Open::default()
            }
        );
        let (mut agent, _) = restore.finish();
        let calls: Vec<String> = agent
            .context
            .messages()
            .iter()
            .filter_map(|message| match &**message {
                Message::ToolResult { call, .. } => Some(call.to_string()),
                _ => None,
            })
            .collect();
        assert_eq!(calls, ["call_4", "call_5"]);
        assert_eq!(
            (agent.ids.call().as_str(), agent.ids.item().as_str()),
            ("call_6", "i8")
        );
    }

    #[test]
    fn a_call_without_an_end_is_reported_and_its_history_is_valid() {
        let mut restore = begin();
        for event in [
            started("call_1"),
            started("call_2"),
            completed("call_1", "a"),
            completed("call_1", "stray"),
        ] {
            restore.event(&event);
        }
        assert_eq!(restore.open().calls, [ToolCallId::from("call_2")]);
        let (agent, _) = restore.finish();
        let texts: Vec<String> = agent
            .context
            .messages()
            .iter()
            .filter_map(|message| match &**message {
                Message::ToolResult { parts, .. } => Some(format!("{parts:?}")),
                _ => None,
            })
            .collect();
        assert!(
            texts[0].contains("\"a\"") && texts[1].contains("unknown"),
            "{texts:?}"
        );
    }

    #[test]
    fn an_input_that_was_lost_leaves_a_valid_history() {
        let mut restore = Restore::new("s".into());
        restore.event(&DomainEvent::StepStarted {
            turn: "t1".into(),
            step: 1,
        });
        restore.event(&DomainEvent::MessageCompleted {
            turn: "t1".into(),
            item: "i1".into(),
            text: "answer".into(),
            partial: false,
        });
        let messages = restore.finish().0.context.messages();
        assert_eq!(*messages[0], Message::user(LOST, MessageOrigin::User));
        assert!(matches!(&*messages[1], Message::Assistant { .. }));
    }

    #[test]
    fn only_a_cancel_by_a_person_leaves_a_reminder_due() {
        for (reason, due) in [(TurnReason::Cancelled, true), (TurnReason::Failed, false)] {
            let mut restore = begin();
            restore.event(&DomainEvent::TurnEnded {
                turn: "t1".into(),
                reason,
                stop: longshore_protocol::value::turn::StopReason::Cancelled,
                error: None,
                usage: Usage::default(),
                duration_ms: 1,
            });
            assert_eq!(restore.finish().0.interrupted, due);
        }
    }
}
