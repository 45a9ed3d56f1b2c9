//! Events as notification lines.
//!
//! The matches are total: a new fact does not compile until it is said here how hosts see it. A durable line is
//! written once and shared by all hosts; live ones differ from host to host, since each joins its own.

use std::io::Write;

use bytes::Bytes;
use longshore_protocol::event::{
    Event, EventSpec, cron, item, session, shell, spec, task, tool, turn,
};
use longshore_protocol::id::{AgentId, SessionId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::cron::{CronFire, CronJob};
use longshore_protocol::value::task::Task;
use serde::Serialize;
use serde_json::Value;

use crate::kernel::event::{DomainEvent, Stamped};
use crate::kernel::message::Part;
use crate::kernel::time::Timestamp;

/// Which row of the event table this is.
pub(super) fn kind(event: &DomainEvent) -> Event {
    match event {
        DomainEvent::SessionCreated { .. } => Event::SessionCreated,
        DomainEvent::SessionUpdated { .. } => Event::SessionUpdated,
        DomainEvent::SessionStatus { .. } => Event::SessionStatus,
        DomainEvent::SessionUsage { .. } => Event::SessionUsage,
        DomainEvent::SessionClosed => Event::SessionClosed,
        DomainEvent::SessionDeleted => Event::SessionDeleted,
        DomainEvent::SessionCleared => Event::SessionCleared,
        DomainEvent::TurnQueued { .. } => Event::TurnQueued,
        DomainEvent::TurnStarted { .. } => Event::TurnStarted,
        DomainEvent::TurnSteered { .. } => Event::TurnSteered,
        DomainEvent::TurnEnded { .. } => Event::TurnEnded,
        DomainEvent::TurnsUndone { .. } => Event::TurnUndone,
        DomainEvent::StepStarted { .. } => Event::StepStarted,
        DomainEvent::StepRetrying { .. } => Event::StepRetrying,
        DomainEvent::StepEnded { .. } => Event::StepEnded,
        DomainEvent::StepInterrupted { .. } => Event::StepInterrupted,
        DomainEvent::MessageDelta { .. } => Event::MessageDelta,
        DomainEvent::MessageCompleted { .. } => Event::MessageCompleted,
        DomainEvent::ThinkingDelta { .. } => Event::ThinkingDelta,
        DomainEvent::ThinkingCompleted { .. } => Event::ThinkingCompleted,
        DomainEvent::ToolDelta { .. } => Event::ToolDelta,
        DomainEvent::ToolStarted { .. } => Event::ToolStarted,
        DomainEvent::ToolRunning { .. } => Event::ToolRunning,
        DomainEvent::ToolProgress { .. } => Event::ToolProgress,
        DomainEvent::ToolCompleted { .. } => Event::ToolCompleted,
        DomainEvent::ApprovalRequested { .. } => Event::ApprovalRequested,
        DomainEvent::ApprovalResolved { .. } => Event::ApprovalResolved,
        DomainEvent::QuestionRequested { .. } => Event::QuestionRequested,
        DomainEvent::QuestionResolved { .. } => Event::QuestionResolved,
        DomainEvent::TodoUpdated { .. } => Event::TodoUpdated,
        DomainEvent::ShellStarted { .. } => Event::ShellStarted,
        DomainEvent::ShellOutput { .. } => Event::ShellOutput,
        DomainEvent::ShellEnded { .. } => Event::ShellEnded,
        DomainEvent::TaskStarted { .. } => Event::TaskStarted,
        DomainEvent::TaskUpdated { .. } => Event::TaskUpdated,
        DomainEvent::TaskEnded { .. } => Event::TaskEnded,
        DomainEvent::CronChanged { .. } => Event::CronChanged,
        DomainEvent::CronFired { .. } => Event::CronFired,
        DomainEvent::CronMissed { .. } => Event::CronMissed,
        DomainEvent::Warning { .. } => Event::Warning,
    }
}

/// Appends the line of an event, newline included.
pub(super) fn write(event: &Stamped, out: &mut Vec<u8>) {
    if event.seq.is_none() {
        return write_anew(event, out);
    }
    let line = event.native.get_or_init(|| {
        let mut line = Vec::with_capacity(event.event.weight());
        write_anew(event, &mut line);
        Bytes::from(line)
    });
    out.extend_from_slice(line);
}

/// Appends the marker that live events were dropped.
pub(super) fn write_resync(session: &SessionId, from_seq: u64, at: Timestamp, out: &mut Vec<u8>) {
    let stamp = Stamp {
        session: Some(session),
        agent: &AgentId::main(),
        seq: None,
        at,
    };
    stamp.put::<spec::Resync>(&session::Resync { from_seq }, out);
}

/// An event as `session/events` gives it: method and params.
pub(super) fn value(event: &Stamped) -> Value {
    let mut line = Vec::new();
    write(event, &mut line);
    let mut value: Value = serde_json::from_slice(&line).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.shift_remove("jsonrpc");
    }
    value
}

/// The fields all events share.
struct Stamp<'a> {
    /// `None` where the payload names session and agent itself.
    session: Option<&'a SessionId>,
    agent: &'a AgentId,
    seq: Option<u64>,
    at: Timestamp,
}

impl Stamp<'_> {
    /// Appends a line: the shared fields, then those of the payload, in one object.
    fn put<S: EventSpec>(&self, payload: &S::Payload, out: &mut Vec<u8>)
    where
        S::Payload: Serialize,
    {
        let start = out.len();
        if let Err(error) = self.try_put(S::NAME, payload, out) {
            // Only maps with keys that are no strings can't be written, and payloads have none.
            tracing::error!(%error, event = S::NAME, "an event could not be written");
            out.truncate(start);
        }
    }

    fn try_put(
        &self,
        name: &str,
        payload: &impl Serialize,
        out: &mut Vec<u8>,
    ) -> serde_json::Result<()> {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(br#"","params":{"#);
        if let Some(session) = self.session {
            out.extend_from_slice(br#""sessionId":"#);
            serde_json::to_writer(&mut *out, session)?;
            out.extend_from_slice(br#","agentId":"#);
            serde_json::to_writer(&mut *out, self.agent)?;
            out.push(b',');
        }
        if let Some(seq) = self.seq {
            write!(out, "\"seq\":{seq},").map_err(serde_json::Error::io)?;
        }
        write!(out, "\"at\":\"{}\"", self.at).map_err(serde_json::Error::io)?;
        let brace = out.len();
        serde_json::to_writer(&mut *out, payload)?;
        // The payload is an object; it goes on where the shared fields end.
        if out[brace..] == *b"{}" {
            out.truncate(brace);
            out.push(b'}');
        } else {
            out[brace] = b',';
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }
}

fn write_anew(event: &Stamped, out: &mut Vec<u8>) {
    let stamp = Stamp {
        session: Some(&event.session),
        agent: &event.agent,
        seq: event.seq,
        at: event.at,
    };
    match &event.event {
        DomainEvent::SessionCreated { session } => {
            stamp.put::<spec::SessionCreated>(
                &session::Created {
                    session: session.clone(),
                },
                out,
            );
        }
        DomainEvent::SessionUpdated { changed } => {
            stamp.put::<spec::SessionUpdated>(
                &session::Updated {
                    changed: changed.clone(),
                },
                out,
            );
        }
        DomainEvent::SessionStatus { status, waiting } => stamp.put::<spec::SessionStatus>(
            &session::StatusChanged {
                status: *status,
                waiting: waiting.clone(),
            },
            out,
        ),
        DomainEvent::SessionUsage {
            context_tokens,
            context_window,
            total,
        } => stamp.put::<spec::SessionUsage>(
            &session::UsageChanged {
                context_tokens: *context_tokens,
                context_window: *context_window,
                total: *total,
            },
            out,
        ),
        DomainEvent::SessionClosed => stamp.put::<spec::SessionClosed>(&session::Closed {}, out),
        DomainEvent::SessionDeleted => {
            stamp.put::<spec::SessionDeleted>(&session::Deleted {}, out);
        }
        DomainEvent::SessionCleared => {
            stamp.put::<spec::SessionCleared>(&session::Cleared {}, out);
        }
        DomainEvent::TurnQueued { turn, input } => stamp.put::<spec::TurnQueued>(
            &turn::Queued {
                turn_id: turn.clone(),
                input: input.clone(),
            },
            out,
        ),
        DomainEvent::TurnStarted {
            turn,
            origin,
            input,
            wakes: _,
        } => stamp.put::<spec::TurnStarted>(
            &turn::Started {
                turn_id: turn.clone(),
                origin: *origin,
                input: input.clone(),
            },
            out,
        ),
        DomainEvent::TurnSteered {
            turn,
            origin,
            input,
            wakes: _,
        } => stamp.put::<spec::TurnSteered>(
            &turn::Steered {
                turn_id: turn.clone(),
                origin: *origin,
                input: input.clone(),
            },
            out,
        ),
        DomainEvent::TurnEnded {
            turn,
            reason,
            stop,
            error,
            usage,
            duration_ms,
        } => stamp.put::<spec::TurnEnded>(
            &turn::Ended {
                turn_id: turn.clone(),
                reason: *reason,
                stop_reason: *stop,
                error: error.clone(),
                usage: *usage,
                duration_ms: *duration_ms,
            },
            out,
        ),
        DomainEvent::TurnsUndone { turns } => stamp.put::<spec::TurnUndone>(
            &turn::Undone {
                turn_ids: turns.clone(),
            },
            out,
        ),
        DomainEvent::StepStarted { turn, step } => stamp.put::<spec::StepStarted>(
            &turn::StepStarted {
                turn_id: turn.clone(),
                step: *step,
            },
            out,
        ),
        DomainEvent::StepRetrying {
            turn,
            step,
            attempt,
            max_attempts,
            delay_ms,
            error,
            discard,
        } => stamp.put::<spec::StepRetrying>(
            &turn::StepRetrying {
                turn_id: turn.clone(),
                step: *step,
                attempt: *attempt,
                max_attempts: *max_attempts,
                delay_ms: *delay_ms,
                error: error.clone(),
                discard: discard.clone(),
            },
            out,
        ),
        DomainEvent::StepEnded {
            turn,
            step,
            finish,
            usage,
        } => stamp.put::<spec::StepEnded>(
            &turn::StepEnded {
                turn_id: turn.clone(),
                step: *step,
                finish_reason: *finish,
                usage: *usage,
            },
            out,
        ),
        DomainEvent::StepInterrupted { turn, step, finish } => stamp.put::<spec::StepInterrupted>(
            &turn::StepInterrupted {
                turn_id: turn.clone(),
                step: *step,
                reason: *finish,
            },
            out,
        ),
        DomainEvent::MessageDelta { item, offset, text } => stamp.put::<spec::MessageDelta>(
            &item::Delta {
                item_id: item.clone(),
                offset: *offset,
                text: text.clone(),
            },
            out,
        ),
        DomainEvent::MessageCompleted {
            turn,
            item,
            text,
            partial,
        } => stamp.put::<spec::MessageCompleted>(
            &item::Completed {
                turn_id: turn.clone(),
                item_id: item.clone(),
                text: text.to_string(),
                partial: *partial,
            },
            out,
        ),
        DomainEvent::ThinkingDelta { item, offset, text } => stamp.put::<spec::ThinkingDelta>(
            &item::Delta {
                item_id: item.clone(),
                offset: *offset,
                text: text.clone(),
            },
            out,
        ),
        // The signature is between us and the provider.
        DomainEvent::ThinkingCompleted {
            turn,
            item,
            text,
            signature: _,
            partial,
        } => stamp.put::<spec::ThinkingCompleted>(
            &item::Completed {
                turn_id: turn.clone(),
                item_id: item.clone(),
                text: text.to_string(),
                partial: *partial,
            },
            out,
        ),
        DomainEvent::ToolDelta {
            call,
            name,
            offset,
            text,
        } => stamp.put::<spec::ToolDelta>(
            &tool::Delta {
                tool_call_id: call.clone(),
                name: name.to_string(),
                offset: *offset,
                text: text.clone(),
            },
            out,
        ),
        // So is how the provider wrote the call.
        DomainEvent::ToolStarted {
            turn,
            call,
            name,
            input,
            title,
            display,
            accesses,
            origin: _,
        } => stamp.put::<spec::ToolStarted>(
            &tool::Started {
                turn_id: turn.clone(),
                tool_call_id: call.clone(),
                name: name.to_string(),
                input: Value::clone(input),
                title: title.clone(),
                display: display.clone(),
                accesses: accesses.clone(),
            },
            out,
        ),
        DomainEvent::ToolRunning { call } => {
            stamp.put::<spec::ToolRunning>(
                &tool::Running {
                    tool_call_id: call.clone(),
                },
                out,
            );
        }
        DomainEvent::ToolProgress {
            call,
            stream,
            offset,
            text,
        } => stamp.put::<spec::ToolProgress>(
            &tool::Progress {
                tool_call_id: call.clone(),
                stream: *stream,
                offset: *offset,
                text: text.clone(),
            },
            out,
        ),
        // The note is for the model only.
        DomainEvent::ToolCompleted {
            turn,
            call,
            is_error,
            output,
            note: _,
            display,
            duration_ms,
            truncated,
            told: _,
        } => stamp.put::<spec::ToolCompleted>(
            &tool::Completed {
                turn_id: turn.clone(),
                tool_call_id: call.clone(),
                is_error: *is_error,
                output: output.iter().filter_map(content).collect(),
                display: display.clone(),
                duration_ms: *duration_ms,
                truncated: *truncated,
            },
            out,
        ),
        DomainEvent::ApprovalRequested { request } => {
            Stamp {
                session: None,
                ..stamp
            }
            .put::<spec::ApprovalRequested>(request, out);
        }
        DomainEvent::ApprovalResolved {
            approval,
            outcome,
            option,
            feedback,
        } => stamp.put::<spec::ApprovalResolved>(
            &tool::ApprovalResolved {
                approval_id: approval.clone(),
                outcome: *outcome,
                option_id: *option,
                feedback: feedback.clone(),
            },
            out,
        ),
        DomainEvent::QuestionRequested { request } => {
            Stamp {
                session: None,
                ..stamp
            }
            .put::<spec::QuestionRequested>(request, out);
        }
        DomainEvent::QuestionResolved { question, outcome } => stamp.put::<spec::QuestionResolved>(
            &tool::QuestionResolved {
                question_id: question.clone(),
                outcome: *outcome,
            },
            out,
        ),
        DomainEvent::TodoUpdated { todos } => {
            stamp.put::<spec::TodoUpdated>(
                &session::TodoUpdated {
                    todos: todos.clone(),
                },
                out,
            );
        }
        DomainEvent::ShellStarted {
            command_id,
            command,
        } => stamp.put::<spec::ShellStarted>(
            &shell::Started {
                command_id: command_id.clone(),
                command: command.to_string(),
            },
            out,
        ),
        DomainEvent::ShellOutput {
            command_id,
            stream,
            offset,
            text,
        } => stamp.put::<spec::ShellOutput>(
            &shell::Output {
                command_id: command_id.clone(),
                stream: *stream,
                offset: *offset,
                text: text.clone(),
            },
            out,
        ),
        DomainEvent::ShellEnded {
            command_id,
            is_error,
            exit_code,
            signal,
            task_id,
        } => stamp.put::<spec::ShellEnded>(
            &shell::Ended {
                command_id: command_id.clone(),
                is_error: *is_error,
                exit_code: *exit_code,
                signal: signal.clone(),
                task_id: task_id.clone(),
            },
            out,
        ),
        DomainEvent::TaskStarted { task } => stamp.put::<spec::TaskStarted>(
            &task::Started {
                task: Task::clone(task),
            },
            out,
        ),
        DomainEvent::TaskUpdated { task } => stamp.put::<spec::TaskUpdated>(
            &task::Updated {
                task: Task::clone(task),
            },
            out,
        ),
        DomainEvent::TaskEnded { task, tail } => stamp.put::<spec::TaskEnded>(
            &task::Ended {
                task: Task::clone(task),
                tail: tail.to_string(),
            },
            out,
        ),
        DomainEvent::CronChanged { change, job } => stamp.put::<spec::CronChanged>(
            &cron::Changed {
                change: *change,
                job: CronJob::clone(job),
            },
            out,
        ),
        DomainEvent::CronFired { turn, fire } => stamp.put::<spec::CronFired>(
            &cron::Fired {
                turn_id: turn.clone(),
                fire: CronFire::clone(fire),
            },
            out,
        ),
        DomainEvent::CronMissed { turn, count } => stamp.put::<spec::CronMissed>(
            &cron::Missed {
                turn_id: turn.clone(),
                count: *count,
            },
            out,
        ),
        DomainEvent::Warning { warning } => stamp.put::<spec::Warning>(warning, out),
    }
}

/// What people see of a part of a tool's output. Tools do not think.
fn content(part: &Part) -> Option<ContentPart> {
    match part {
        Part::Text(text) => Some(ContentPart::Text {
            text: text.to_string(),
        }),
        Part::Image { mime, data } => Some(ContentPart::Image {
            data: data.to_string(),
            mime_type: mime.to_string(),
            original: None,
        }),
        Part::Thinking(_) => None,
    }
}
