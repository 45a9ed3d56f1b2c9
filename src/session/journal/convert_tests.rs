use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::approval::{
    ApprovalOption, ApprovalReason, ApprovalRequest, AskResolution, OptionId,
};
use longshore_protocol::value::content::{ContentPart, ImageOriginal};
use longshore_protocol::value::cron::{CronChange, CronFire, CronJob, PauseReason};
use longshore_protocol::value::display::Display;
use longshore_protocol::value::failure::{Failure, Warning};
use longshore_protocol::value::question::QuestionRequest;
use longshore_protocol::value::session::{Mode, SessionPatch, Status, WaitingFor};
use longshore_protocol::value::task::Task;
use longshore_protocol::value::todo::{Todo, TodoStatus};
use longshore_protocol::value::tool::{AccessInfo, Operation, ProgressStream};
use longshore_protocol::value::turn::{FinishReason, Origin, StopReason, TurnReason};
use longshore_protocol::value::usage::Usage;
use serde_json::{Map, json};

use super::convert::{Fact, event_record, fact, state_record};
use super::job::read_job;
use super::record::{Line, Record, VERSION};
use crate::kernel::cron::{AsideJob, CronOp, StoredJob};
use crate::kernel::event::{CallOrigin, DomainEvent, StateRecord};
use crate::kernel::message::{ModelCall, Part, Thinking};
use crate::kernel::rule::Grant;
use crate::kernel::time::Timestamp;
use crate::kernel::wake::WakeKey;

fn input() -> Vec<ContentPart> {
    vec![
        ContentPart::Text {
            text: "a\n\u{0}\u{2028}é".into(),
        },
        ContentPart::Image {
            data: "AAAA".into(),
            mime_type: "image/png".into(),
            original: None,
        },
        ContentPart::Image {
            data: "AAAA".into(),
            mime_type: "image/png".into(),
            original: Some(Box::new(ImageOriginal {
                mime_type: "image/webp".into(),
                width: 9,
                height: 8,
                bytes: 7,
                shown_width: 6,
                shown_height: 5,
                path: Some("/p".into()),
            })),
        },
        ContentPart::Resource {
            uri: "u".into(),
            text: "t".into(),
            mime_type: Some("text/plain".into()),
        },
        ContentPart::ResourceLink {
            uri: "file:///a".into(),
            name: None,
        },
    ]
}

fn failure() -> Failure {
    Failure {
        kind: ErrorKind::RateLimited,
        message: "later".into(),
        retryable: true,
        status: Some(429),
        retry_at: Some("2026-01-01T00:00:00.000Z".into()),
    }
}

fn durable() -> Vec<DomainEvent> {
    let usage = Usage {
        input_other: 1,
        input_cache_read: 2,
        input_cache_creation: 3,
        output: 4,
        reasoning: Some(5),
        estimated: true,
    };
    let patch = SessionPatch {
        title: Some("t".into()),
        model: Some("m".into()),
        thinking: Some("high".into()),
        mode: Some(Mode::Auto),
        additional_dirs: Some(vec!["/a".into()]),
        metadata: Some(Map::from_iter([("k".to_owned(), json!([1, null]))])),
    };
    let approval = ApprovalRequest {
        approval_id: "a1".into(),
        session_id: "s".into(),
        agent_id: "main".into(),
        turn_id: "t1".into(),
        tool_call_id: "call_1".into(),
        tool: "Bash".into(),
        title: "ls".into(),
        display: Display::Generic {
            summary: "s".into(),
            detail: Some("d".into()),
        },
        accesses: vec![AccessInfo {
            operation: Operation::All,
            path: None,
            real_path: None,
            recursive: false,
        }],
        input: json!({"command": "ls"}),
        options: vec![ApprovalOption {
            option_id: OptionId::AllowOnce,
            label: "Allow".into(),
            rule: Some("Bash(ls)".into()),
        }],
        reason: ApprovalReason {
            policy: "fallback".into(),
            message: "m".into(),
            rule: None,
        },
        created_at: "2026-01-01T00:00:00.000Z".into(),
        expires_at: None,
    };
    let question = QuestionRequest {
        question_id: "q1".into(),
        session_id: "s".into(),
        agent_id: "main".into(),
        turn_id: "t1".into(),
        tool_call_id: "call_1".into(),
        questions: vec![],
        created_at: "2026-01-01T00:00:00.000Z".into(),
    };
    let output = vec![
        Part::text("out"),
        Part::Image {
            mime: "image/png".into(),
            data: "AAAA".into(),
        },
        Part::Thinking(Thinking {
            text: "t".into(),
            signature: Some("s".into()),
        }),
    ];
    vec![
        DomainEvent::SessionUpdated { changed: patch },
        DomainEvent::SessionUpdated {
            changed: SessionPatch::default(),
        },
        DomainEvent::SessionClosed,
        DomainEvent::SessionCleared,
        DomainEvent::TurnsUndone {
            turns: vec!["t1".into(), "t2".into()],
        },
        DomainEvent::TurnQueued {
            turn: "t2".into(),
            input: input(),
        },
        DomainEvent::TurnStarted {
            turn: "t1".into(),
            origin: Origin::Steer,
            input: input(),
            wakes: vec![],
        },
        DomainEvent::TurnStarted {
            turn: "t1".into(),
            origin: Origin::Cron,
            input: input(),
            wakes: vec![WakeKey::Fire {
                job: "0badcafe".into(),
                ideal_at: Timestamp(-1),
                fire: "f1".into(),
                is_last: true,
                n_due: 3,
                is_missed: true,
            }],
        },
        DomainEvent::TurnSteered {
            turn: "t1".into(),
            origin: Origin::Steer,
            input: input(),
            wakes: vec![],
        },
        DomainEvent::TurnSteered {
            turn: "t1".into(),
            origin: Origin::Task,
            input: input(),
            wakes: vec![WakeKey::Task {
                task: "bash-01234567".into(),
            }],
        },
        DomainEvent::TurnEnded {
            turn: "t1".into(),
            reason: TurnReason::Failed,
            stop: StopReason::MaxSteps,
            error: Some(failure()),
            usage,
            duration_ms: u64::MAX,
        },
        DomainEvent::TurnEnded {
            turn: "t1".into(),
            reason: TurnReason::Completed,
            stop: StopReason::EndTurn,
            error: None,
            usage: Usage::default(),
            duration_ms: 0,
        },
        DomainEvent::StepStarted {
            turn: "t1".into(),
            step: 1,
        },
        DomainEvent::StepEnded {
            turn: "t1".into(),
            step: 1,
            finish: FinishReason::ToolCalls,
            usage,
        },
        DomainEvent::StepInterrupted {
            turn: "t1".into(),
            step: 1,
            finish: FinishReason::Interrupted,
        },
        DomainEvent::MessageCompleted {
            turn: "t1".into(),
            item: "i1".into(),
            text: "x".into(),
            partial: true,
        },
        DomainEvent::ThinkingCompleted {
            turn: "t1".into(),
            item: "i2".into(),
            text: "".into(),
            signature: Some("sig".into()),
            partial: false,
        },
        DomainEvent::ShellStarted {
            command_id: "c1".into(),
            command: "ls".into(),
        },
        DomainEvent::ShellEnded {
            command_id: "c1".into(),
            is_error: true,
            exit_code: Some(3),
            signal: Some("SIGTERM".into()),
            task_id: Some("bash-01234567".into()),
        },
        DomainEvent::TaskStarted {
            task: Arc::new(Task::begun("bash-01234567".into())),
        },
        DomainEvent::TaskEnded {
            task: Arc::new(Task {
                status: longshore_protocol::value::task::Status::Killed,
                exit_code: Some(-1),
                log_gap_bytes: 1,
                suppressed: true,
                ..Task::begun("bash-01234567".into())
            }),
            tail: "out".into(),
        },
        DomainEvent::ToolStarted {
            turn: "t1".into(),
            call: "call_1".into(),
            name: "Read".into(),
            input: Arc::new(json!({"b": 1, "a": {"$blob": "x"}, "f": 1.5, "n": -1})),
            title: "Read a".into(),
            display: Display::Error {
                message: "m".into(),
                code: Some("c".into()),
            },
            accesses: vec![AccessInfo {
                operation: Operation::Readwrite,
                path: Some("/a".into()),
                real_path: Some("/b".into()),
                recursive: true,
            }],
            origin: CallOrigin {
                provider_id: Some("p1".into()),
                arguments: "{\"b\": 1,".into(),
                extras: Map::from_iter([("extra".to_owned(), json!({"x": 1}))]),
            },
        },
        DomainEvent::ToolRunning {
            call: "call_1".into(),
        },
        DomainEvent::ToolCompleted {
            turn: "t1".into(),
            call: "call_1".into(),
            is_error: true,
            output,
            note: Some("note".into()),
            display: Some(Display::Generic {
                summary: "s".into(),
                detail: None,
            }),
            duration_ms: 7,
            truncated: true,
            told: vec![],
        },
        DomainEvent::ApprovalRequested { request: approval },
        DomainEvent::ApprovalResolved {
            approval: "a1".into(),
            outcome: AskResolution::Answered,
            option: Some(OptionId::RejectStop),
            feedback: Some("no".into()),
        },
        DomainEvent::QuestionRequested { request: question },
        DomainEvent::QuestionResolved {
            question: "q1".into(),
            outcome: AskResolution::Expired,
        },
        DomainEvent::TodoUpdated {
            todos: vec![Todo {
                title: "t".into(),
                status: TodoStatus::Pending,
            }],
        },
        DomainEvent::CronChanged {
            change: CronChange::Paused,
            job: Box::new(wire_job()),
        },
        DomainEvent::CronFired {
            turn: "t1".into(),
            fire: Box::new(CronFire {
                job_id: "0badcafe".into(),
                fire_id: "f1".into(),
                cron: "0 9 * * *".into(),
                prompt: "p".into(),
                recurring: true,
                coalesced_count: 3,
                stale: true,
                missed: true,
                ideal_at: Some("2026-01-01T09:00:00.000+00:00".into()),
                fired_at: "2026-01-01T09:00:00.000+00:00".into(),
            }),
        },
        DomainEvent::CronMissed {
            turn: "t1".into(),
            count: 2,
        },
        DomainEvent::Warning {
            warning: Warning {
                file: Some("f".into()),
                line: Some(3),
                ..Warning::new("config", "m")
            },
        },
    ]
}

fn states() -> Vec<StateRecord> {
    vec![
        StateRecord::Reminder { text: "r".into() },
        StateRecord::Granted {
            grant: Grant {
                rule: "Bash(ls)".into(),
                cwd: Some("/w".into()),
            },
        },
        StateRecord::Granted {
            grant: Grant {
                rule: "X".into(),
                cwd: None,
            },
        },
        StateRecord::Spent {
            usage: Usage {
                output: 3,
                ..Usage::default()
            },
            context_tokens: 9,
        },
        StateRecord::Shell {
            input: "a".into(),
            output: "b".into(),
        },
        StateRecord::Queued {
            turn: "t2".into(),
            origin: Origin::Steer,
            input: vec![ContentPart::Text { text: "x".into() }],
        },
        StateRecord::Steered {
            turn: "t1".into(),
            input: vec![ContentPart::Text { text: "x".into() }],
        },
        StateRecord::Called {
            finish: FinishReason::ToolCalls,
            calls: vec![ModelCall {
                id: "call_1".into(),
                provider_id: Some("p".into()),
                name: "Read".into(),
                arguments: "{}".into(),
                extras: [("k".to_owned(), json!(1))].into_iter().collect(),
            }],
        },
        StateRecord::ModelState {
            key: "m".into(),
            value: json!({"turn": 3}),
        },
        StateRecord::Cron(CronOp::Added(Box::new(job()))),
        StateRecord::Cron(CronOp::Deleted { id: job().id }),
        StateRecord::Cron(CronOp::Paused {
            id: job().id,
            reason: PauseReason::Unattended,
        }),
        StateRecord::Cron(CronOp::Resumed { id: job().id }),
        StateRecord::Cron(CronOp::Renewed { id: job().id }),
        StateRecord::Cron(CronOp::Unreadable(aside())),
        StateRecord::Cron(CronOp::Snapshot {
            jobs: vec![job()],
            aside: vec![aside()],
        }),
    ]
}

fn job() -> StoredJob {
    StoredJob {
        id: "0badcafe".into(),
        cron: "0 9 * * *".into(),
        prompt: "p".into(),
        recurring: true,
        timezone: "UTC".into(),
        created_at: Timestamp(1),
        renewed_at: None,
        cursor: Some(Timestamp(2)),
        fired_at: None,
        fires: 3,
        unattended_fires: 0,
        usage: Usage::default(),
        paused: Some(PauseReason::Host),
    }
}

fn wire_job() -> CronJob {
    CronJob {
        job_id: "0badcafe".into(),
        cron: "0 9 * * *".into(),
        schedule: "09:00 every day".into(),
        prompt: "p".into(),
        recurring: true,
        timezone: "UTC".into(),
        created_at: "2026-01-01T09:00:00.000Z".into(),
        renewed_at: None,
        next_fire_at: None,
        last_fire_at: None,
        fires: 1,
        usage: Usage::default(),
        paused: Some(PauseReason::Host),
        stale: true,
        error: None,
    }
}

fn aside() -> AsideJob {
    read_job(json!({"id": 5})).unwrap_err()
}

/// Through the bytes of a line.
fn through(record: Record) -> Fact {
    let line = Line {
        v: VERSION,
        seq: Some(1),
        after: None,
        at: 5,
        agent: "main".into(),
        record,
    };
    let bytes = serde_json::to_vec(&line).unwrap();
    assert!(!bytes.contains(&b'\n'));
    fact(serde_json::from_slice::<Line>(&bytes).unwrap().record)
}

#[test]
fn every_fact_comes_back_as_it_was() {
    for event in durable() {
        let record = event_record(&event).unwrap_or_else(|| panic!("{event:?} is durable"));
        assert!(!event.is_live());
        assert_eq!(through(record), Fact::Event(event));
    }
    for state in states() {
        assert_eq!(through(state_record(state.clone())), Fact::State(state));
    }
}

#[test]
fn live_events_are_not_kept() {
    let text = String::new;
    for event in [
        DomainEvent::ShellOutput {
            command_id: "c1".into(),
            stream: ProgressStream::Stdout,
            offset: 0,
            text: text(),
        },
        DomainEvent::TaskUpdated {
            task: Arc::new(Task::begun("bash-01234567".into())),
        },
        DomainEvent::SessionStatus {
            status: Status::Idle,
            waiting: WaitingFor::default(),
        },
        DomainEvent::SessionUsage {
            context_tokens: 1,
            context_window: 2,
            total: Usage::default(),
        },
        DomainEvent::StepRetrying {
            turn: "t1".into(),
            step: 1,
            attempt: 2,
            max_attempts: 3,
            delay_ms: 4,
            error: failure(),
            discard: vec![],
        },
        DomainEvent::MessageDelta {
            item: "i".into(),
            offset: 0,
            text: text(),
        },
        DomainEvent::ThinkingDelta {
            item: "i".into(),
            offset: 0,
            text: text(),
        },
        DomainEvent::ToolDelta {
            call: "c".into(),
            name: "n".into(),
            offset: 0,
            text: text(),
        },
        DomainEvent::ToolProgress {
            call: "c".into(),
            stream: ProgressStream::Stdout,
            offset: 0,
            text: text(),
        },
    ] {
        assert!(
            event.is_live() && event_record(&event).is_none(),
            "{event:?}"
        );
    }
}
