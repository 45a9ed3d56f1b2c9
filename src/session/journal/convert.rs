//! Between the facts in memory and the records on disk. Both directions are total: a new fact does not compile until
//! the journal has answered for it.

use serde_json::Value;

use super::job::{job_value, read_job};
use super::record::{Record, RecordCall, RecordKey, RecordPart};
use crate::kernel::cron::CronOp;
use crate::kernel::event::{CallOrigin, DomainEvent, StateRecord};
use crate::kernel::message::{ModelCall, Part, Thinking};
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
    /// Events from this number to that of the entry were lost to damage.
    Lost {
        /// The first of them.
        from: u64,
    },
}

/// The record of a durable event; `None` for live ones.
pub fn event_record(event: &DomainEvent) -> Option<Record> {
    Some(match event.clone() {
        DomainEvent::SessionCreated { .. }
        | DomainEvent::SessionDeleted
        | DomainEvent::SessionStatus { .. }
        | DomainEvent::SessionUsage { .. }
        | DomainEvent::StepRetrying { .. }
        | DomainEvent::MessageDelta { .. }
        | DomainEvent::ThinkingDelta { .. }
        | DomainEvent::ToolDelta { .. }
        | DomainEvent::ToolProgress { .. }
        | DomainEvent::ShellOutput { .. }
        | DomainEvent::TaskUpdated { .. } => return None,
        DomainEvent::SessionUpdated { changed } => Record::SessionUpdated { changed },
        DomainEvent::SessionClosed => Record::SessionClosed,
        DomainEvent::SessionCleared => Record::SessionCleared,
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
        DomainEvent::TurnsUndone { turns } => Record::TurnsUndone { turns },
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
            told,
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
                told: told.into_iter().map(record_key).collect(),
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
        DomainEvent::ShellStarted {
            command_id,
            command,
        } => Record::ShellStarted {
            command_id,
            command,
        },
        DomainEvent::ShellEnded {
            command_id,
            is_error,
            exit_code,
            signal,
            task_id,
        } => Record::ShellEnded {
            command_id,
            is_error,
            exit_code,
            signal,
            task_id,
        },
        DomainEvent::TaskStarted { task } => Record::TaskStarted { task },
        DomainEvent::TaskEnded { task, tail } => Record::TaskEnded { task, tail },
        DomainEvent::CronChanged { change, job } => Record::CronChanged { change, job },
        DomainEvent::CronFired { turn, fire } => Record::CronFired { turn, fire },
        DomainEvent::CronMissed { turn, count } => Record::CronMissed { turn, count },
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
        StateRecord::Shell { input, output } => Record::Shell { input, output },
        StateRecord::Cron(op) => cron_record(op),
        StateRecord::Queued {
            turn,
            origin,
            input,
        } => Record::QueueTaken {
            turn,
            origin,
            input,
        },
        StateRecord::Steered { turn, input } => Record::SteerTaken { turn, input },
        StateRecord::Called { finish, calls } => Record::Called {
            finish,
            calls: calls.into_iter().map(record_call).collect(),
        },
        StateRecord::ModelState { key, value } => Record::ModelState { key, value },
    }
}

fn cron_record(op: CronOp) -> Record {
    match op {
        CronOp::Added(job) => Record::CronAdded {
            job: job_value(*job),
        },
        CronOp::Deleted { id } => Record::CronDeleted { job: id },
        CronOp::Paused { id, reason } => Record::CronPaused { job: id, reason },
        CronOp::Resumed { id } => Record::CronResumed { job: id },
        CronOp::Renewed { id } => Record::CronRenewed { job: id },
        CronOp::Snapshot { jobs, aside } => Record::CronSnapshot {
            jobs: jobs.into_iter().map(job_value).collect(),
            aside: aside.into_iter().map(|aside| aside.value).collect(),
        },
        CronOp::Unreadable(aside) => Record::CronAdded { job: aside.value },
    }
}

fn added(job: Value) -> CronOp {
    match read_job(job) {
        Ok(job) => CronOp::Added(Box::new(job)),
        Err(aside) => CronOp::Unreadable(aside),
    }
}

/// What was kept aside is read again: a newer version may understand it.
fn snapshot(jobs: Vec<Value>, aside: Vec<Value>) -> CronOp {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for value in jobs.into_iter().chain(aside) {
        match read_job(value) {
            Ok(job) => good.push(job),
            Err(aside) => bad.push(aside),
        }
    }
    CronOp::Snapshot {
        jobs: good,
        aside: bad,
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
        Record::Shell { input, output } => {
            return Fact::State(StateRecord::Shell { input, output });
        }
        Record::ModelState { key, value } => {
            return Fact::State(StateRecord::ModelState { key, value });
        }
        Record::QueueTaken {
            turn,
            origin,
            input,
        } => {
            return Fact::State(StateRecord::Queued {
                turn,
                origin,
                input,
            });
        }
        Record::SteerTaken { turn, input } => {
            return Fact::State(StateRecord::Steered { turn, input });
        }
        Record::Called { finish, calls } => {
            return Fact::State(StateRecord::Called {
                finish,
                calls: calls.into_iter().map(call).collect(),
            });
        }
        Record::CronAdded { job } => return Fact::State(StateRecord::Cron(added(job))),
        Record::CronDeleted { job } => {
            return Fact::State(StateRecord::Cron(CronOp::Deleted { id: job }));
        }
        Record::CronPaused { job, reason } => {
            return Fact::State(StateRecord::Cron(CronOp::Paused { id: job, reason }));
        }
        Record::CronResumed { job } => {
            return Fact::State(StateRecord::Cron(CronOp::Resumed { id: job }));
        }
        Record::CronRenewed { job } => {
            return Fact::State(StateRecord::Cron(CronOp::Renewed { id: job }));
        }
        Record::CronSnapshot { jobs, aside } => {
            return Fact::State(StateRecord::Cron(snapshot(jobs, aside)));
        }
        Record::SessionUpdated { changed } => DomainEvent::SessionUpdated { changed },
        Record::SessionClosed => DomainEvent::SessionClosed,
        Record::SessionCleared => DomainEvent::SessionCleared,
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
        Record::TurnsUndone { turns } => DomainEvent::TurnsUndone { turns },
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
            told,
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
                told: told.into_iter().map(key).collect(),
            }
        }
        Record::ShellStarted {
            command_id,
            command,
        } => DomainEvent::ShellStarted {
            command_id,
            command,
        },
        Record::ShellEnded {
            command_id,
            is_error,
            exit_code,
            signal,
            task_id,
        } => DomainEvent::ShellEnded {
            command_id,
            is_error,
            exit_code,
            signal,
            task_id,
        },
        Record::TaskStarted { task } => DomainEvent::TaskStarted { task },
        Record::TaskEnded { task, tail } => DomainEvent::TaskEnded { task, tail },
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
        Record::CronChanged { change, job } => DomainEvent::CronChanged { change, job },
        Record::CronFired { turn, fire } => DomainEvent::CronFired { turn, fire },
        Record::CronMissed { turn, count } => DomainEvent::CronMissed { turn, count },
        Record::Warning { warning } => DomainEvent::Warning { warning },
    };
    Fact::Event(event)
}

fn record_call(call: ModelCall) -> RecordCall {
    let ModelCall {
        id,
        provider_id,
        name,
        arguments,
        extras,
    } = call;
    RecordCall {
        call: id,
        name,
        provider_id,
        arguments,
        extras,
    }
}

fn call(call: RecordCall) -> ModelCall {
    let RecordCall {
        call,
        name,
        provider_id,
        arguments,
        extras,
    } = call;
    ModelCall {
        id: call,
        provider_id,
        name,
        arguments,
        extras,
    }
}

fn record_key(key: WakeKey) -> RecordKey {
    match key {
        WakeKey::Task { task } => RecordKey::Task { task },
        WakeKey::Fire {
            job,
            ideal_at,
            fire,
            is_last,
            n_due,
            is_missed,
        } => RecordKey::Fire {
            job,
            ideal_at: ideal_at.0,
            fire,
            is_last,
            n_due,
            is_missed,
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
            is_last,
            n_due,
            is_missed,
        } => WakeKey::Fire {
            job,
            ideal_at: Timestamp(ideal_at),
            fire,
            is_last,
            n_due,
            is_missed,
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
