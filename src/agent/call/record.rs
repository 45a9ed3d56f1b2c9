//! What hosts, the journal and the model get to see of a call.

use longshore_protocol::value::turn::FinishReason;

use super::super::{Agent, TurnCx};
use super::resolve::Drawn;
use super::{BatchEnd, Stage};
use crate::kernel::event::{CallOrigin, DomainEvent, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::message::{Message, ModelCall};
use crate::kernel::wake::WakeKey;
use crate::tool::Outcome;
use crate::tool::display::capped;

/// Keeps all calls of an answer that has several: a crash while one of them waits for a person must not lose those
/// behind it.
pub(super) fn called(
    agent: &Agent,
    cx: &TurnCx,
    calls: &[ModelCall],
    finish: FinishReason,
) -> Result<(), Fault> {
    if calls.len() < 2 {
        return Ok(());
    }
    let calls = calls.to_vec();
    cx.sink
        .state(&agent.id, StateRecord::Called { finish, calls })
}

/// Says that a call is known. Comes before any ask, also for calls that are never run.
pub(super) fn announce(
    agent: &Agent,
    cx: &TurnCx,
    call: &ModelCall,
    drawn: &Drawn,
) -> Result<(), Fault> {
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

/// What came of a call: for the model, and for hosts and the journal.
pub(super) fn completed(
    cx: &TurnCx,
    call: &ModelCall,
    outcome: Outcome,
    duration_ms: u64,
    told: Vec<WakeKey>,
) -> (Message, DomainEvent) {
    let Outcome {
        output,
        is_error,
        note,
        display,
        truncated,
        effects: _,
        fault: _,
    } = outcome;
    let note = note.filter(|note| !note.is_empty());
    let message = Message::ToolResult {
        call: call.id.clone(),
        parts: output.clone(),
        is_error,
        note: note.clone(),
    };
    let event = DomainEvent::ToolCompleted {
        turn: cx.turn.clone(),
        call: call.id.clone(),
        is_error,
        output,
        note,
        display: display.map(capped),
        duration_ms,
        truncated,
        told,
    };
    (message, event)
}

/// The result of a call that has none, because its turn ended before.
pub(super) fn closed(end: &BatchEnd, stage: Stage) -> Outcome {
    let effect = match stage {
        Stage::Started => "It may have had part of its effect.",
        Stage::New | Stage::Announced => "It was not run.",
    };
    let message = match end {
        BatchEnd::Cancelled => format!(
            "The user interrupted this call on purpose. {effect} Do not repeat it and do not guess at its result; wait \
             for what the user says."
        ),
        BatchEnd::Failed(fault) => format!(
            "This call did not come to an end, because the turn failed: {}. {effect} Do not assume that it worked.",
            fault.message
        ),
        BatchEnd::Done => {
            format!("This call did not come to an end. {effect} Do not assume that it worked.")
        }
    };
    Outcome::failed(message)
}
