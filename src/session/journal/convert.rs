//! Between the facts in memory and the records on disk. Both directions are total: a new fact does not compile until
//! the journal has answered for it.

use super::record::{Record, RecordKey, RecordPart};
use crate::kernel::event::{CallOrigin, DomainEvent, StateRecord};
use crate::kernel::message::{Part, Thinking};
use crate::kernel::rule::Grant;
use crate::kernel::time::Timestamp;
use crate::kernel::wake::WakeKey;

/// A record read back.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, on its way from a line to what it is read for"
)]
pub enum Fact {
    /// The head of the journal.
    Created {
        /// As it was made.
        session: Box<longshore_protocol::value::session::Session>,
        /// The script it was given.
        script: Option<std::sync::Arc<str>>,
    },
    /// An event line.
    Event(DomainEvent),
    /// A state line.
    State(StateRecord),
}

/// The record of a durable event; `None` for live ones.
pub fn event_record(event: &DomainEvent) -> Option<Record> {
    Some(match event.clone() {
        DomainEvent::SessionCreated { .. }
        | DomainEvent::SessionStatus { .. }
        | DomainEvent::SessionUsage { .. }
        | DomainEvent::StepRetrying { .. }
        | DomainEvent::MessageDelta { .. }
        | DomainEvent::ThinkingDelta { .. }
        | DomainEvent::ToolDelta { .. }
        | DomainEvent::ToolProgress { .. } => return None,
        DomainEvent::SessionUpdated { changed } => Record::SessionUpdated { changed },
        DomainEvent::SessionClosed => Record::SessionClosed,
        DomainEvent::TurnQueued { turn, input } => Record::TurnQueued { turn, input },
        DomainEvent::TurnStarted {
            turn,
            origin,
            input,
            wakes,
        } => Record::TurnStarted {
            turn,
            origin,
            input,
            wakes: wakes.into_iter().map(record_key).collect(),
        },
        DomainEvent::TurnSteered {
            turn,
            origin,
            input,
            wakes,
        } => Record::TurnSteered {
            turn,
            origin,
            input,
            wakes: wakes.into_iter().map(record_key).collect(),
        },
        DomainEvent::TurnEnded {
            turn,
            reason,
            stop,
            error,
            usage,
            duration_ms,
        } => Record::TurnEnded {
            turn,
            reason,
            stop,
            error,
            usage,
            duration_ms,
        },
        DomainEvent::StepStarted { turn, step } => Record::StepStarted { turn, step },
        DomainEvent::StepEnded {
            turn,
            step,
            finish,
            usage,
        } => Record::StepEnded {
            turn,
            step,
            finish,
            usage,
        },
        DomainEvent::StepInterrupted { turn, step, finish } => {
            Record::StepInterrupted { turn, step, finish }
        }
        DomainEvent::MessageCompleted {
            turn,
            item,
            text,
            partial,
        } => Record::MessageCompleted {
            turn,
            item,
            text,
            partial,
        },
        DomainEvent::ThinkingCompleted {
            turn,
            item,
            text,
            signature,
            partial,
        } => Record::ThinkingCompleted {
            turn,
            item,
            text,
            signature,
            partial,
        },
        DomainEvent::ToolStarted {
            turn,
            call,
            name,
            input,
            title,
            display,
            accesses,
            origin,
        } => {
            let CallOrigin {
                provider_id,
                arguments,
                extras,
            } = origin;
            Record::ToolStarted {
                turn,
                call,
                name,
                input,
                title,
                display,
                accesses,
                provider_id,
                arguments,
                extras,
            }
        }
        DomainEvent::ToolRunning { call } => Record::ToolRunning { call },
        DomainEvent::ToolCompleted {
            turn,
            call,
            is_error,
            output,
            note,
            display,
            duration_ms,
            truncated,
        } => {
            let output = output.into_iter().map(record_part).collect();
            Record::ToolCompleted {
                turn,
                call,
                is_error,
                output,
                note,
                display,
                duration_ms,
                truncated,
            }
        }
        DomainEvent::ApprovalRequested { request } => Record::ApprovalRequested {
            request: Box::new(request),
        },
        DomainEvent::ApprovalResolved {
            approval,
            outcome,
            option,
            feedback,
        } => Record::ApprovalResolved {
            approval,
            outcome,
            option,
            feedback,
        },
        DomainEvent::QuestionRequested { request } => Record::QuestionRequested {
            request: Box::new(request),
        },
        DomainEvent::QuestionResolved { question, outcome } => {
            Record::QuestionResolved { question, outcome }
        }
        DomainEvent::TodoUpdated { todos } => Record::TodoUpdated { todos },
        DomainEvent::Warning { warning } => Record::Warning { warning },
    })
}

/// The record of a state line.
pub fn state_record(state: StateRecord) -> Record {
    match state {
        StateRecord::Reminder { text } => Record::Reminder { text },
        StateRecord::Granted {
            grant: Grant { rule, cwd },
        } => Record::Granted { rule, cwd },
        StateRecord::Spent {
            usage,
            context_tokens,
        } => Record::Spent {
            usage,
            context_tokens,
        },
        StateRecord::ModelState { key, value } => Record::ModelState { key, value },
    }
}

/// What a record says.
pub fn fact(record: Record) -> Fact {
    let event = match record {
        Record::Created { session, script } => return Fact::Created { session, script },
        Record::Reminder { text } => return Fact::State(StateRecord::Reminder { text }),
        Record::Granted { rule, cwd } => {
            return Fact::State(StateRecord::Granted {
                grant: Grant { rule, cwd },
            });
        }
        Record::Spent {
            usage,
            context_tokens,
        } => {
            return Fact::State(StateRecord::Spent {
                usage,
                context_tokens,
            });
        }
        Record::ModelState { key, value } => {
            return Fact::State(StateRecord::ModelState { key, value });
        }
        Record::SessionUpdated { changed } => DomainEvent::SessionUpdated { changed },
        Record::SessionClosed => DomainEvent::SessionClosed,
        Record::TurnQueued { turn, input } => DomainEvent::TurnQueued { turn, input },
        Record::TurnStarted {
            turn,
            origin,
            input,
            wakes,
        } => DomainEvent::TurnStarted {
            turn,
            origin,
            input,
            wakes: wakes.into_iter().map(key).collect(),
        },
        Record::TurnSteered {
            turn,
            origin,
            input,
            wakes,
        } => DomainEvent::TurnSteered {
            turn,
            origin,
            input,
            wakes: wakes.into_iter().map(key).collect(),
        },
        Record::TurnEnded {
            turn,
            reason,
            stop,
            error,
            usage,
            duration_ms,
        } => DomainEvent::TurnEnded {
            turn,
            reason,
            stop,
            error,
            usage,
            duration_ms,
        },
        Record::StepStarted { turn, step } => DomainEvent::StepStarted { turn, step },
        Record::StepEnded {
            turn,
            step,
            finish,
            usage,
        } => DomainEvent::StepEnded {
            turn,
            step,
            finish,
            usage,
        },
        Record::StepInterrupted { turn, step, finish } => {
            DomainEvent::StepInterrupted { turn, step, finish }
        }
        Record::MessageCompleted {
            turn,
            item,
            text,
            partial,
        } => DomainEvent::MessageCompleted {
            turn,
            item,
            text,
            partial,
        },
        Record::ThinkingCompleted {
            turn,
            item,
            text,
            signature,
            partial,
        } => DomainEvent::ThinkingCompleted {
            turn,
            item,
            text,
            signature,
            partial,
        },
        Record::ToolStarted {
            turn,
            call,
            name,
            input,
            title,
            display,
            accesses,
            provider_id,
            arguments,
            extras,
        } => {
            let origin = CallOrigin {
                provider_id,
                arguments,
                extras,
            };
            DomainEvent::ToolStarted {
                turn,
                call,
                name,
                input,
                title,
                display,
                accesses,
                origin,
            }
        }
        Record::ToolRunning { call } => DomainEvent::ToolRunning { call },
        Record::ToolCompleted {
            turn,
            call,
            is_error,
            output,
            note,
            display,
            duration_ms,
            truncated,
        } => {
            let output = output.into_iter().map(part).collect();
            DomainEvent::ToolCompleted {
                turn,
                call,
                is_error,
                output,
                note,
                display,
                duration_ms,
                truncated,
            }
        }
        Record::ApprovalRequested { request } => {
            DomainEvent::ApprovalRequested { request: *request }
        }
        Record::ApprovalResolved {
            approval,
            outcome,
            option,
            feedback,
        } => DomainEvent::ApprovalResolved {
            approval,
            outcome,
            option,
            feedback,
        },
        Record::QuestionRequested { request } => {
            DomainEvent::QuestionRequested { request: *request }
        }
        Record::QuestionResolved { question, outcome } => {
            DomainEvent::QuestionResolved { question, outcome }
        }
        Record::TodoUpdated { todos } => DomainEvent::TodoUpdated { todos },
        Record::Warning { warning } => DomainEvent::Warning { warning },
    };
    Fact::Event(event)
}

fn record_key(key: WakeKey) -> RecordKey {
    match key {
        WakeKey::Task { task } => RecordKey::Task { task },
        WakeKey::Fire {
            job,
            ideal_at,
            fire,
        } => RecordKey::Fire {
            job,
            ideal_at: ideal_at.0,
            fire,
        },
    }
}

fn key(key: RecordKey) -> WakeKey {
    match key {
        RecordKey::Task { task } => WakeKey::Task { task },
        RecordKey::Fire {
            job,
            ideal_at,
            fire,
        } => WakeKey::Fire {
            job,
            ideal_at: Timestamp(ideal_at),
            fire,
        },
    }
}

fn record_part(part: Part) -> RecordPart {
    match part {
        Part::Text(text) => RecordPart::Text { text },
        Part::Thinking(Thinking { text, signature }) => RecordPart::Thinking { text, signature },
        Part::Image { mime, data } => RecordPart::Image { mime, data },
    }
}

fn part(part: RecordPart) -> Part {
    match part {
        RecordPart::Text { text } => Part::Text(text),
        RecordPart::Thinking { text, signature } => Part::Thinking(Thinking { text, signature }),
        RecordPart::Image { mime, data } => Part::Image { mime, data },
    }
}
