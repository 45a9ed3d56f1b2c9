//! An agent from its journal: the same history, item by item, as the live one had.

use std::collections::HashSet;
use std::sync::Arc;

use longshore_protocol::id::{SessionId, ToolCallId, TurnId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::todo::Todo;
use longshore_protocol::value::turn::{FinishReason, Origin, TurnReason};
use longshore_protocol::value::usage::Usage;

use super::Agent;
use super::context::input::convert;
use super::context::{Context, Mark};
use super::open::{CallStage, Left, OpenCall, OpenStep, OpenTurn, QueuedTurn};
use super::turn::{message_origin, text_of};
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::message::{Message, MessageOrigin, ModelCall, Part, Thinking};
use crate::kernel::wake::WakeKey;

/// What stands in the place of an input whose line in the journal could not be read.
const LOST: &str = "[The user's words at this place were lost by damage to the session's journal.]";

/// Takes in the lines of a journal in order and becomes an agent.
pub struct Restore {
    agent: Agent,
    /// Every call so far.
    calls: HashSet<ToolCallId>,
    left: Left,
    /// Where each turn of the conversation began.
    begins: Vec<Begin>,
    model_state: Vec<(String, serde_json::Value)>,
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

impl Restore {
    /// For a session.
    pub fn new(session: SessionId) -> Self {
        Self {
            agent: Agent::new(session),
            calls: HashSet::new(),
            left: Left::default(),
            begins: Vec::new(),
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
                if let Some(turn) = &mut self.left.turn {
                    turn.usage.add(&usage);
                }
                if let Some(step) = self.step() {
                    (step.usage, step.tokens) = (usage, Some(context_tokens));
                }
            }
            StateRecord::Shell { input, output } => self.agent.heard_shell(input, output),
            StateRecord::Queued {
                turn,
                origin,
                input,
            } => self.queued(QueuedTurn {
                turn,
                origin,
                input,
            }),
            StateRecord::Steered { input, .. } => self.left.steers.push(input),
            StateRecord::Called { finish, calls } => {
                for call in &calls {
                    self.agent.ids.seen(call.id.as_str());
                }
                if let Some(step) = self.step() {
                    step.finish = Some(finish);
                    step.calls = calls.into_iter().map(OpenCall::new).collect();
                }
            }
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
            DomainEvent::TurnQueued { turn, input } => {
                // Older journals say so by the event alone.
                if !self.left.queued.iter().any(|queued| queued.turn == *turn) {
                    self.queued(QueuedTurn {
                        turn: turn.clone(),
                        origin: Origin::User,
                        input: input.clone(),
                    });
                }
            }
            DomainEvent::TurnStarted {
                turn,
                origin,
                input,
                wakes,
            } => {
                // A turn before it may have no end here: a full disk did not take it.
                self.close_step(None);
                self.left.queued.retain(|queued| queued.turn != *turn);
                if origin.is_from_host() {
                    self.left.carried.clear();
                }
                self.begin(turn, origin.is_from_host());
                self.agent.interrupted = false;
                self.input(*origin, input, wakes);
            }
            DomainEvent::TurnSteered {
                turn: _,
                origin,
                input,
                wakes,
            } => {
                if origin.is_from_host() && !self.left.steers.is_empty() {
                    self.left.steers.remove(0);
                }
                self.input(*origin, input, wakes);
            }
            DomainEvent::TurnEnded { turn, reason, .. } => {
                self.close_step(None);
                self.left.queued.retain(|queued| queued.turn != *turn);
                if self.left.turn.take_if(|open| open.turn == *turn).is_some() {
                    self.agent.interrupted = *reason == TurnReason::Cancelled;
                    if self.agent.interrupted {
                        let steers = std::mem::take(&mut self.left.steers);
                        self.left.carried.extend(steers.into_iter().flatten());
                    }
                }
            }
            DomainEvent::TurnsUndone { turns } => self.undo(turns),
            DomainEvent::SessionCleared => self.clear(),
            DomainEvent::StepStarted { turn, step } => {
                self.close_step(None);
                if self
                    .left
                    .turn
                    .as_ref()
                    .is_none_or(|open| open.turn != *turn)
                {
                    // The line that began the turn could not be read; an answer to nothing is no valid history.
                    self.begin(turn, true);
                    self.agent
                        .context
                        .push(Message::user(LOST, MessageOrigin::User));
                }
                if let Some(turn) = &mut self.left.turn {
                    turn.step = Some(OpenStep::new(*step));
                }
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
                call,
                name,
                accesses,
                origin,
                ..
            } => {
                self.agent.ids.seen(call.as_str());
                // Damage can give a call the id of another; no provider takes two of one id.
                let is_new = self.calls.insert(call.clone());
                if let Some(step) = self.step() {
                    if is_new && step.call(call).is_none() {
                        step.calls.push(OpenCall::new(ModelCall {
                            id: call.clone(),
                            provider_id: origin.provider_id.clone(),
                            name: name.clone(),
                            arguments: origin.arguments.clone(),
                            extras: origin.extras.clone(),
                        }));
                    }
                    if let Some(known) = step.call(call) {
                        known.stage = known.stage.max(CallStage::Announced);
                        known.touches = !accesses.is_empty();
                    }
                }
            }
            DomainEvent::ToolRunning { call } => {
                if let Some(known) = self.step().and_then(|step| step.call(call)) {
                    known.stage = CallStage::Running;
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
                if let Some(known) = self.step().and_then(|step| step.call(call)) {
                    // The first result of a call counts; a later one is a stray.
                    known.result.get_or_insert_with(|| Message::ToolResult {
                        call: call.clone(),
                        parts: output.clone(),
                        is_error: *is_error,
                        note: note.clone().filter(|note| !note.is_empty()),
                    });
                }
            }
            DomainEvent::ApprovalRequested { request } => {
                self.agent.ids.seen(request.approval_id.as_str());
                self.left.approvals.push(request.clone());
            }
            DomainEvent::ApprovalResolved {
                approval,
                outcome,
                option,
                ..
            } => {
                let open = &mut self.left.approvals;
                let ended: Vec<_> = open
                    .extract_if(.., |request| request.approval_id == *approval)
                    .collect();
                for request in ended {
                    if let Some(known) = self
                        .step()
                        .and_then(|step| step.call(&request.tool_call_id))
                    {
                        known.approved = Some((*outcome, *option));
                    }
                }
            }
            DomainEvent::QuestionRequested { request } => {
                self.agent.ids.seen(request.question_id.as_str());
                self.left.questions.push(request.clone());
            }
            DomainEvent::QuestionResolved { question, .. } => {
                let open = &mut self.left.questions;
                open.retain(|request| request.question_id != *question);
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

    /// The agent, what model clients had kept, by model, and what is still open. The step of an open turn is not in the
    /// agent's history: that is for whoever ends the turn or goes on with it.
    pub fn finish(self) -> (Agent, Vec<(String, serde_json::Value)>, Left) {
        (self.agent, self.model_state, self.left)
    }

    fn step(&mut self) -> Option<&mut OpenStep> {
        self.left.turn.as_mut()?.step.as_mut()
    }

    /// Words that wait as a turn of their own do so no longer as steers, and come first.
    fn queued(&mut self, turn: QueuedTurn) {
        if turn.origin == Origin::Steer {
            self.left.steers.clear();
            self.left.queued.insert(0, turn);
        } else {
            self.left.queued.push(turn);
        }
    }

    fn begin(&mut self, turn: &TurnId, is_from_host: bool) {
        self.left.turn = Some(OpenTurn {
            turn: turn.clone(),
            usage: Usage::default(),
            text: String::new(),
            step: None,
        });
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
        self.left.turn = None;
        self.left.steers.clear();
        self.left.carried.clear();
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
        self.left.turn = None;
        self.left.steers.clear();
        self.left.carried.clear();
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
        if let Some(step) = self.step() {
            step.parts.push(part);
            step.partial |= partial;
        }
    }

    fn close_step(&mut self, finish: Option<FinishReason>) {
        let Some(turn) = &mut self.left.turn else {
            return;
        };
        let Some(step) = turn.step.take() else { return };
        let said = text_of(&step.parts);
        if !said.is_empty() {
            turn.text = said;
        }
        self.agent.close_step(step, finish);
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
        let (mut agent, _, left) = restore.finish();
        let turn = left.turn.unwrap();
        assert_eq!((turn.turn.as_str(), turn.step), ("t1", None));
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
        let (mut agent, _, left) = restore.finish();
        let step = left.turn.unwrap().step.unwrap();
        let open: Vec<&str> = step
            .calls
            .iter()
            .filter(|call| call.result.is_none())
            .map(|call| call.call.id.as_str())
            .collect();
        assert_eq!(open, ["call_2"]);
        agent.close_step(step, None);
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
            texts[0].contains("\"a\"") && texts[1].contains("no effect"),
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
        let (mut agent, _, left) = restore.finish();
        agent.close_step(left.turn.unwrap().step.unwrap(), None);
        let messages = agent.context.messages();
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
