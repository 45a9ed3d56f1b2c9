//! What hosts, the journal and the model get to see of a call.

use std::sync::Arc;

use super::super::{Agent, TurnCx};
use super::BatchEnd;
use super::resolve::Drawn;
use crate::kernel::event::{CallOrigin, DomainEvent};
use crate::kernel::fault::Fault;
use crate::kernel::message::{Message, ModelCall};
use crate::tool::Outcome;

/// Says that a call is known. Comes before any ask, also for calls that are never run.
pub(super) fn announce(agent: &Agent, cx: &TurnCx, call: &ModelCall, drawn: &Drawn) -> Result<(), Fault> {
    let event = DomainEvent::ToolStarted {
        turn: cx.turn.clone(),
        call: call.id.clone(),
        name: call.name.clone(),
        input: drawn.input.clone(),
        title: drawn.title.clone(),
        display: drawn.display.clone(),
        accesses: drawn.accesses.clone(),
        origin: CallOrigin {
            provider_id: call.provider_id.clone(),
            arguments: call.arguments.clone(),
            extras: call.extras.clone(),
        },
    };
    cx.sink.durable(&agent.id, event)?;
    Ok(())
}

/// Says what came of a call and gives the result for the model, which exists even where it could not be recorded.
pub(super) fn complete(
    agent: &Agent,
    cx: &TurnCx,
    call: &ModelCall,
    outcome: Outcome,
    duration_ms: u64,
) -> (Message, Result<(), Fault>) {
    let Outcome { output, is_error, note, display, truncated, effects: _, fault: _ } = outcome;
    let message = Message::ToolResult {
        call: call.id.clone(),
        parts: output.clone(),
        is_error,
        note: note.clone().filter(|note| !note.is_empty()),
    };
    let event = DomainEvent::ToolCompleted {
        turn: cx.turn.clone(),
        call: call.id.clone(),
        is_error,
        output,
        note,
        display,
        duration_ms,
        truncated,
    };
    (message, cx.sink.durable(&agent.id, event).map(|_| ()))
}

/// The result of a call that was never finished, because its turn ended.
pub(super) fn closed(end: &BatchEnd) -> Outcome {
    let message: Arc<str> = match end {
        BatchEnd::Cancelled => "The user interrupted this call on purpose. It may have had part of its effect. \
            Do not repeat it and do not guess at its result; wait for what the user says."
            .into(),
        BatchEnd::Failed(fault) => {
            format!("This call did not come to an end, because the turn failed: {}. Do not assume that it worked.", fault.message)
                .into()
        }
        BatchEnd::Done => "This call did not come to an end. Do not assume that it worked.".into(),
    };
    Outcome::failed(message)
}
