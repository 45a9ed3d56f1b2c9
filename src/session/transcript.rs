//! Turns as display items, folded from durable events.

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::transcript::{Item, Turn};
use longshore_protocol::value::turn::{StopReason, TurnReason};
use longshore_protocol::value::usage::Usage;

use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::message::Part;
use crate::kernel::time::Timestamp;

/// Takes in events in order and becomes turns.
#[derive(Debug, Default)]
pub struct Fold {
    turns: Vec<Turn>,
    n_notices: u64,
}

impl Fold {
    /// With no turn.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in an event.
    pub fn take(&mut self, at: Timestamp, event: &DomainEvent) {
        match event {
            DomainEvent::TurnStarted {
                turn,
                origin,
                input,
                ..
            } => {
                self.end_of_last_was_lost();
                self.turns.push(Turn {
                    turn_id: turn.clone(),
                    origin: *origin,
                    input: input.clone(),
                    items: Vec::new(),
                    reason: None,
                    stop_reason: None,
                    error: None,
                    usage: Usage::default(),
                    started_at: at.to_string(),
                    ended_at: None,
                });
            }
            DomainEvent::TurnEnded {
                turn,
                reason,
                stop,
                error,
                usage,
                ..
            } => {
                if let Some(open) = self
                    .turns
                    .iter_mut()
                    .rev()
                    .find(|open| open.turn_id == *turn)
                {
                    open.reason = Some(*reason);
                    open.stop_reason = Some(*stop);
                    open.error.clone_from(error);
                    open.usage = *usage;
                    open.ended_at = Some(at.to_string());
                }
            }
            DomainEvent::TurnsUndone { turns } => {
                if let Some(first) = self
                    .turns
                    .iter()
                    .position(|turn| turns.contains(&turn.turn_id))
                {
                    self.turns.truncate(first);
                }
            }
            DomainEvent::SessionCleared => self.turns.clear(),
            DomainEvent::TurnSteered { input, .. } => {
                self.n_notices += 1;
                let (id, text) = (format!("n{}", self.n_notices), text_of(input));
                self.item(Item::Notice { id, text });
            }
            DomainEvent::MessageCompleted { item, text, .. } => {
                self.item(Item::Message {
                    id: item.to_string(),
                    text: text.to_string(),
                });
            }
            DomainEvent::ThinkingCompleted { item, text, .. } => {
                self.item(Item::Thinking {
                    id: item.to_string(),
                    text: text.to_string(),
                });
            }
            DomainEvent::ToolStarted {
                call,
                name,
                input,
                title,
                display,
                ..
            } => self.item(Item::Tool {
                id: call.to_string(),
                name: name.to_string(),
                input: input.as_ref().clone(),
                title: title.clone(),
                display: display.clone(),
                output: None,
                is_error: None,
            }),
            DomainEvent::ToolCompleted {
                call,
                is_error: failed,
                output: parts,
                display: outcome,
                ..
            } => {
                self.complete(call.as_str(), *failed, parts, outcome.as_ref());
            }
            _ => {}
        }
    }

    /// Only one turn runs at a time, so the one before has ended: a full disk did not take its end.
    fn end_of_last_was_lost(&mut self) {
        if let Some(last) = self.turns.last_mut().filter(|last| last.reason.is_none()) {
            (last.reason, last.stop_reason) = (Some(TurnReason::Failed), Some(StopReason::Error));
            last.error = Some(
                Fault::new(
                    ErrorKind::StorageError,
                    "the end of this turn could not be recorded",
                )
                .to_failure(),
            );
        }
    }

    fn complete(
        &mut self,
        call: &str,
        failed: bool,
        parts: &[Part],
        outcome: Option<&longshore_protocol::value::display::Display>,
    ) {
        let Some(turn) = self.turns.last_mut() else {
            return;
        };
        for item in turn.items.iter_mut().rev() {
            if let Item::Tool {
                id,
                display,
                output,
                is_error,
                ..
            } = item
                && id == call
            {
                *output = Some(parts_text(parts));
                *is_error = Some(failed);
                if let Some(outcome) = outcome {
                    *display = outcome.clone();
                }
                return;
            }
        }
    }

    fn item(&mut self, item: Item) {
        if let Some(turn) = self.turns.last_mut() {
            turn.items.push(item);
        }
    }

    /// The turns, oldest first.
    pub fn finish(self) -> Vec<Turn> {
        self.turns
    }
}

/// The text of an input, for people.
pub fn text_of(input: &[ContentPart]) -> String {
    let texts: Vec<&str> = input
        .iter()
        .map(|part| match part {
            ContentPart::Text { text } | ContentPart::Resource { text, .. } => text.as_str(),
            ContentPart::Image { .. } => "[image]",
            ContentPart::ResourceLink { uri, .. } => uri.as_str(),
        })
        .collect();
    texts.join("\n")
}

fn parts_text(parts: &[Part]) -> String {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.as_ref(),
            Part::Thinking(thinking) => thinking.text.as_ref(),
            Part::Image { .. } => "[image]",
        })
        .collect()
}
