use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::display::Display;
use longshore_protocol::value::session::{Mode, Status, WaitingFor};
use longshore_protocol::value::turn::Origin;
use longshore_protocol::value::usage::Usage;
use serde_json::{Value, json};

use super::*;
use crate::kernel::event::CallOrigin;
use crate::kernel::host_fs::FsAbilities;
use crate::kernel::message::Part;
use crate::kernel::wake::WakeKey;

const NOTICES: Caps = Caps {
    notices: true,
    forms: false,
    fs: FsAbilities {
        read: false,
        write: false,
    },
};

fn session() -> Session {
    Session {
        session_id: "s".into(),
        title: String::new(),
        cwd: "/w".to_owned(),
        additional_dirs: Vec::new(),
        model: Some("a".to_owned()),
        thinking: None,
        mode: Mode::Manual,
        status: Status::Idle,
        created_at: String::new(),
        updated_at: String::new(),
        last_prompt: None,
        turn_count: 0,
        usage: Usage::default(),
        ephemeral: false,
        archived: false,
        metadata: serde_json::Map::new(),
        unattended: false,
        timezone: None,
    }
}

/// A projection, fed with events; durable ones are numbered.
struct Seen {
    projection: Projection,
    seq: u64,
    at: i64,
}

impl Seen {
    fn live() -> Self {
        Self::with(Caps::default(), 0)
    }

    fn with(caps: Caps, replay_until: u64) -> Self {
        let projection = Projection::new(caps, Vec::new().into(), &session(), replay_until);
        Self {
            projection,
            seq: 0,
            at: 0,
        }
    }

    fn take(&mut self, event: DomainEvent) -> Vec<Value> {
        let seq = (!event.is_live()).then(|| {
            self.seq += 1;
            self.seq
        });
        let stamped = Stamped::new("s".into(), "main".into(), seq, Timestamp(self.at), event);
        self.projection
            .project(&stamped)
            .iter()
            .map(|update| serde_json::to_value(update).unwrap())
            .collect()
    }

    /// Each update in a few words.
    fn brief(&mut self, event: DomainEvent) -> Vec<String> {
        self.take(event).iter().map(words).collect()
    }
}

/// `kind`, then what matters of it.
fn words(update: &Value) -> String {
    let kind = update["sessionUpdate"].as_str().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rest = match kind {
        "tool_call" | "tool_call_update" => {
            let content: Vec<String> = update["content"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|entry| match entry["type"].as_str() {
                    Some("content") => text(&entry["content"]["text"]),
                    other => other.unwrap_or_default().to_owned(),
                })
                .collect();
            format!(
                "{} {} {} {content:?}",
                text(&update["toolCallId"]),
                text(&update["title"]),
                text(&update["status"])
            )
        }
        "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" => {
            format!(
                "{} {}",
                text(&update["messageId"]),
                text(&update["content"]["text"])
            )
        }
        "notice" => format!("{} {}", text(&update["severity"]), text(&update["title"])),
        "session_info_update" => text(&update["title"]),
        "current_mode_update" => text(&update["currentModeId"]),
        _ => String::new(),
    };
    format!("{kind} {rest}").trim_end().to_owned()
}

fn message(offset: u64, text: &str) -> DomainEvent {
    DomainEvent::MessageDelta {
        item: "i1".into(),
        offset,
        text: text.to_owned(),
    }
}

fn complete(text: &str) -> DomainEvent {
    DomainEvent::MessageCompleted {
        turn: "t1".into(),
        item: "i1".into(),
        text: text.into(),
        partial: false,
    }
}

fn begin(words: &str) -> DomainEvent {
    let input = vec![ContentPart::Text {
        text: words.to_owned(),
    }];
    DomainEvent::TurnStarted {
        turn: "t1".into(),
        origin: Origin::User,
        input,
        wakes: vec![],
    }
}

fn end(reason: TurnReason, stop: StopReason, error: Option<ErrorKind>) -> DomainEvent {
    let error = error.map(|kind| Failure {
        kind,
        message: "because".to_owned(),
        retryable: false,
        status: None,
        retry_at: None,
    });
    DomainEvent::TurnEnded {
        turn: "t1".into(),
        reason,
        stop,
        error,
        usage: Usage::default(),
        duration_ms: 1,
    }
}

fn completed_turn() -> DomainEvent {
    end(TurnReason::Completed, StopReason::EndTurn, None)
}

fn command() -> Display {
    Display::Command {
        command: "make".into(),
        cwd: "/w".into(),
        description: None,
    }
}

fn started(display: Display) -> DomainEvent {
    DomainEvent::ToolStarted {
        turn: "t1".into(),
        call: "call_1".into(),
        name: "Bash".into(),
        input: Arc::new(json!({"command": "make"})),
        title: "make".to_owned(),
        display,
        accesses: Vec::new(),
        origin: CallOrigin::default(),
    }
}

fn arguments(offset: u64, n_bytes: usize) -> DomainEvent {
    DomainEvent::ToolDelta {
        call: "call_1".into(),
        name: "Bash".into(),
        offset,
        text: "x".repeat(n_bytes),
    }
}

fn output(stream: ProgressStream, text: &str) -> DomainEvent {
    DomainEvent::ToolProgress {
        call: "call_1".into(),
        stream,
        offset: 0,
        text: text.to_owned(),
    }
}

fn ended(exit_code: i32) -> DomainEvent {
    DomainEvent::ToolCompleted {
        turn: "t1".into(),
        call: "call_1".into(),
        is_error: false,
        output: vec![Part::text("out")],
        note: None,
        display: Some(Display::CommandOutput {
            text: "out".into(),
            exit_code: Some(exit_code),
            signal: None,
            truncated: false,
        }),
        duration_ms: 1,
        truncated: false,
        told: vec![],
    }
}

fn running() -> DomainEvent {
    DomainEvent::ToolRunning {
        call: "call_1".into(),
    }
}

#[test]
fn text_is_shown_once_whatever_the_queue_dropped() {
    for (deltas, shown) in [
        (vec![message(0, "Hé"), message(3, "llo")], vec!["Hé", "llo"]),
        (vec![message(0, "Hé")], vec!["Hé", "llo"]),
        (vec![], vec!["Héllo"]),
        (vec![message(0, "H"), message(3, "llo")], vec!["H", "éllo"]),
        (
            vec![message(0, "Hé"), message(1, "éllo")],
            vec!["Hé", "llo"],
        ),
        (vec![message(3, "llo")], vec!["Héllo"]),
    ] {
        let mut seen = Seen::live();
        let mut all = Vec::new();
        for event in deltas.into_iter().chain([complete("Héllo")]) {
            all.extend(seen.brief(event));
        }
        let expected: Vec<String> = shown
            .iter()
            .map(|text| format!("agent_message_chunk i1 {text}"))
            .collect();
        assert_eq!(all, expected);
    }
}

#[test]
fn long_text_is_cut_at_the_end_of_a_line() {
    let line = format!("{}\n", "x".repeat(999));
    let chunks = Seen::live().take(complete(&line.repeat(100)));
    assert_eq!(chunks.len(), 2);
    assert!(
        chunks[0]["content"]["text"]
            .as_str()
            .unwrap()
            .ends_with('\n')
    );
    let total: usize = chunks
        .iter()
        .map(|chunk| chunk["content"]["text"].as_str().unwrap().len())
        .sum();
    assert_eq!(total, 100_000);
}

#[test]
fn thinking_is_a_thought() {
    let mut seen = Seen::live();
    let delta = DomainEvent::ThinkingDelta {
        item: "i2".into(),
        offset: 0,
        text: "hm".to_owned(),
    };
    assert_eq!(seen.brief(delta), ["agent_thought_chunk i2 hm"]);
    let done = DomainEvent::ThinkingCompleted {
        turn: "t1".into(),
        item: "i2".into(),
        text: "hm, so".into(),
        signature: None,
        partial: false,
    };
    assert_eq!(seen.brief(done), ["agent_thought_chunk i2 , so"]);
}

#[test]
fn a_call_goes_through_its_states() {
    let mut seen = Seen::live();
    assert_eq!(
        seen.brief(arguments(0, 10)),
        [""; 0],
        "a short call is shown whole"
    );
    assert_eq!(
        seen.brief(started(command())),
        [r#"tool_call call_1 make  ["```\nmake\n```"]"#]
    );
    assert_eq!(
        seen.brief(running()),
        ["tool_call_update call_1  in_progress []"]
    );
    assert_eq!(
        seen.brief(output(ProgressStream::Stdout, "a\n")),
        [r#"tool_call_update call_1   ["```\na\n```"]"#]
    );
    assert_eq!(
        seen.brief(output(ProgressStream::Stderr, "b\n")),
        [r#"tool_call_update call_1   ["```\na\nb\n```"]"#]
    );
    assert_eq!(
        seen.brief(output(ProgressStream::Status, "half done")),
        [r#"tool_call_update call_1   ["```\na\nb\n```", "half done"]"#]
    );
    let end = seen.take(ended(0));
    assert_eq!(
        words(&end[0]),
        r#"tool_call_update call_1  completed ["```\nout\n```"]"#
    );
    assert_eq!(end[0]["rawOutput"]["exitCode"], 0);
}

#[test]
fn another_exit_code_is_a_failure() {
    let mut seen = Seen::live();
    seen.take(started(command()));
    assert_eq!(
        seen.brief(ended(2)),
        [r#"tool_call_update call_1  failed ["```\nout\n```", "Exit code 2"]"#]
    );
}

#[test]
fn a_long_call_is_shown_before_it_is_complete_and_never_left_open() {
    let mut seen = Seen::live();
    assert_eq!(
        seen.brief(arguments(0, 2000)),
        ["tool_call call_1 Bash  []"]
    );
    assert_eq!(seen.brief(arguments(2000, 2000)), [""; 0]);
    let cancelled = end(TurnReason::Cancelled, StopReason::Cancelled, None);
    assert_eq!(
        seen.brief(cancelled),
        [
            r#"tool_call_update call_1  failed ["cancelled"]"#,
            "session_info_update"
        ]
    );

    let mut seen = Seen::live();
    seen.take(arguments(0, 2000));
    assert_eq!(
        seen.brief(started(command())),
        [r#"tool_call_update call_1 make  ["```\nmake\n```"]"#]
    );

    let mut seen = Seen::with(NOTICES, 0);
    seen.take(arguments(0, 2000));
    let retry = DomainEvent::StepRetrying {
        turn: "t1".into(),
        step: 1,
        attempt: 2,
        max_attempts: 10,
        delay_ms: 1,
        error: Failure {
            kind: ErrorKind::Overloaded,
            message: "busy".to_owned(),
            retryable: true,
            status: None,
            retry_at: None,
        },
        discard: vec!["i1".to_owned(), "call_1".to_owned()],
    };
    assert_eq!(
        seen.brief(retry),
        [
            r#"tool_call_update call_1  failed ["interrupted; the model is asked again"]"#,
            "notice warning The model request failed and is sent again (2 of 10)",
        ]
    );
}

#[test]
fn progress_is_bounded_in_number_and_size() {
    let mut seen = Seen::live();
    seen.take(started(command()));
    let mut n_updates = 0;
    for _ in 0..100 {
        n_updates += seen
            .take(output(ProgressStream::Stdout, &"x".repeat(1000)))
            .len();
    }
    assert_eq!(n_updates, 10);
    seen.at = 1000;
    let next = seen.take(output(ProgressStream::Stdout, "end"));
    let text = next[0]["content"][0]["content"]["text"].as_str().unwrap();
    assert!(
        text.len() <= PROGRESS_BYTES + 10 && text.ends_with("xend\n```"),
        "{} bytes",
        text.len()
    );
}

#[test]
fn words_of_the_client_itself_are_not_shown_to_it() {
    let mut seen = Seen::live();
    seen.projection.own_turn("t1".into());
    assert_eq!(seen.brief(begin("mend it")), [""; 0]);
    assert_eq!(
        seen.brief(completed_turn()),
        ["session_info_update mend it"]
    );
    assert_eq!(
        seen.brief(begin("another's")),
        ["user_message_chunk t1-input another's"]
    );
    assert_eq!(
        seen.brief(completed_turn()),
        ["session_info_update"],
        "the title is told once"
    );
    let steer = DomainEvent::TurnSteered {
        turn: "t1".into(),
        origin: Origin::Steer,
        input: vec![ContentPart::Text {
            text: "left".to_owned(),
        }],
        wakes: vec![],
    };
    assert_eq!(seen.brief(steer), ["user_message_chunk t1-steer-0 left"]);
}

#[test]
fn inputs_of_every_kind_are_shown() {
    let input = vec![
        ContentPart::Image {
            data: "aGk=".into(),
            mime_type: "image/png".into(),
            original: None,
        },
        ContentPart::Resource {
            uri: "file:///a".into(),
            text: "x".into(),
            mime_type: None,
        },
        ContentPart::ResourceLink {
            uri: "file:///b".into(),
            name: None,
        },
    ];
    let started = DomainEvent::TurnStarted {
        turn: "t1".into(),
        origin: Origin::User,
        input,
        wakes: vec![],
    };
    let blocks: Vec<Value> = Seen::live()
        .take(started)
        .iter()
        .map(|update| update["content"].clone())
        .collect();
    assert_eq!(
        json!(blocks),
        json!([
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "x"}},
            {"type": "resource_link", "name": "file:///b", "uri": "file:///b"},
        ])
    );
}

#[test]
fn history_shows_calls_with_their_end_and_what_went_wrong() {
    let mut seen = Seen::with(NOTICES, 9);
    let mut all = Vec::new();
    for event in [
        begin("mend it"),
        started(command()),
        running(),
        ended(0),
        complete("done"),
        DomainEvent::SessionUpdated {
            changed: SessionPatch {
                mode: Some(Mode::Yolo),
                ..SessionPatch::default()
            },
        },
        DomainEvent::Warning {
            warning: Warning::new("config", "old news"),
        },
        end(
            TurnReason::Failed,
            StopReason::Error,
            Some(ErrorKind::RateLimited),
        ),
        started(command()),
    ] {
        all.extend(seen.brief(event));
    }
    assert_eq!(
        all,
        [
            "user_message_chunk t1-input mend it",
            r#"tool_call call_1 make completed ["```\nout\n```"]"#,
            "agent_message_chunk i1 done",
            "agent_message_chunk t1-end because",
        ]
    );
    // The call that still runs is shown as soon as history is over.
    let live = DomainEvent::SessionStatus {
        status: Status::Running,
        waiting: WaitingFor::default(),
    };
    assert_eq!(
        seen.brief(live),
        [r#"tool_call call_1 make  ["```\nmake\n```"]"#]
    );
    assert_eq!(
        seen.brief(ended(0)),
        [r#"tool_call_update call_1  completed ["```\nout\n```"]"#]
    );
}

#[test]
fn a_call_that_is_asked_about_is_there_before_its_end() {
    let mut seen = Seen::with(Caps::default(), 9);
    seen.projection.asked("call_1".into());
    assert_eq!(
        seen.brief(started(command())),
        [r#"tool_call call_1 make  ["```\nmake\n```"]"#]
    );
    assert_eq!(
        seen.brief(ended(0)),
        [r#"tool_call_update call_1  completed ["```\nout\n```"]"#]
    );
}

#[test]
fn a_call_from_before_the_client_came_is_shown_with_its_end() {
    let shown = Seen::live().brief(ended(0));
    assert_eq!(
        shown,
        [r#"tool_call call_1 Tool call completed ["```\nout\n```"]"#]
    );
}

#[test]
fn ends_of_turns() {
    for (event, expected) in [
        (completed_turn(), &["session_info_update"][..]),
        (
            end(
                TurnReason::Failed,
                StopReason::Error,
                Some(ErrorKind::ProviderError),
            ),
            &["session_info_update"],
        ),
        (
            end(
                TurnReason::Failed,
                StopReason::Refusal,
                Some(ErrorKind::Filtered),
            ),
            &["agent_message_chunk t1-end because", "session_info_update"],
        ),
    ] {
        assert_eq!(Seen::live().brief(event), expected);
    }
}

#[test]
fn settings() {
    let changed = |changed: SessionPatch| DomainEvent::SessionUpdated { changed };
    let yolo = SessionPatch {
        mode: Some(Mode::Yolo),
        ..SessionPatch::default()
    };
    let mut seen = Seen::live();
    assert_eq!(
        seen.brief(changed(yolo.clone())),
        ["current_mode_update yolo", "config_option_update"]
    );
    let model = SessionPatch {
        model: Some("b".to_owned()),
        ..SessionPatch::default()
    };
    let updates = seen.take(changed(model.clone()));
    assert_eq!(words(&updates[0]), "config_option_update");
    assert_eq!(updates[0]["configOptions"][0]["currentValue"], "b");
    let title = SessionPatch {
        title: Some("new".to_owned()),
        ..SessionPatch::default()
    };
    assert_eq!(seen.brief(changed(title)), ["session_info_update new"]);
    let dirs = SessionPatch {
        additional_dirs: Some(Vec::new()),
        ..SessionPatch::default()
    };
    assert_eq!(seen.brief(changed(dirs)), [""; 0]);

    // What the client asked for itself is told by the answer, and what was refused is forgotten.
    seen.projection.own_change(yolo.clone());
    seen.projection.own_change(model.clone());
    seen.projection.not_changed(&yolo);
    assert_eq!(seen.brief(changed(model.clone())), [""; 0]);
    assert_eq!(seen.brief(changed(model)), ["config_option_update"]);
}

#[test]
fn lists_and_figures() {
    let mut seen = Seen::live();
    let todo = |title: &str, status| Todo {
        title: title.to_owned(),
        status,
    };
    let todos = vec![
        todo("a", TodoStatus::Done),
        todo("b", TodoStatus::InProgress),
        todo("c", TodoStatus::Pending),
    ];
    assert_eq!(
        json!(seen.take(DomainEvent::TodoUpdated { todos })),
        json!([{"sessionUpdate": "plan", "entries": [
            {"content": "a", "priority": "medium", "status": "completed"},
            {"content": "b", "priority": "medium", "status": "in_progress"},
            {"content": "c", "priority": "medium", "status": "pending"},
        ]}])
    );
    assert_eq!(
        json!(seen.take(DomainEvent::TodoUpdated { todos: Vec::new() })),
        json!([{"sessionUpdate": "plan", "entries": []}])
    );
    let usage = |context_tokens, context_window| DomainEvent::SessionUsage {
        context_tokens,
        context_window,
        total: Usage::default(),
    };
    assert_eq!(
        json!(seen.take(usage(5, 100))),
        json!([{"sessionUpdate": "usage_update", "used": 5, "size": 100}])
    );
    assert_eq!(
        json!(seen.take(usage(500, 100))),
        json!([{"sessionUpdate": "usage_update", "used": 100, "size": 100}])
    );
    assert_eq!(seen.brief(usage(5, 0)), [""; 0], "the size is not known");
}

#[test]
fn warnings_are_notices_for_those_who_show_them() {
    let warning = || DomainEvent::Warning {
        warning: Warning::new("tool", "a rule has no effect"),
    };
    assert_eq!(Seen::live().brief(warning()), [""; 0]);
    assert_eq!(
        Seen::with(NOTICES, 0).brief(warning()),
        ["notice warning a rule has no effect"]
    );
}

#[test]
fn what_is_the_engines_matter_is_not_shown() {
    let mut seen = Seen::with(NOTICES, 0);
    for event in [
        DomainEvent::SessionCreated { session: session() },
        DomainEvent::SessionClosed,
        DomainEvent::SessionDeleted,
        DomainEvent::SessionStatus {
            status: Status::Idle,
            waiting: WaitingFor::default(),
        },
        DomainEvent::TurnQueued {
            turn: "t2".into(),
            input: Vec::new(),
        },
        DomainEvent::StepStarted {
            turn: "t1".into(),
            step: 1,
        },
    ] {
        assert_eq!(seen.brief(event), [""; 0]);
    }
}

#[test]
fn turns_that_no_prompt_began_show_what_the_agent_does_and_not_what_it_was_told() {
    let told = vec![ContentPart::Text {
        text: "<notification/>".to_owned(),
    }];
    let wakes = vec![WakeKey::Task {
        task: "bash-00000001".into(),
    }];
    let started = DomainEvent::TurnStarted {
        turn: "t1".into(),
        origin: Origin::Task,
        input: told.clone(),
        wakes: wakes.clone(),
    };
    let steered = DomainEvent::TurnSteered {
        turn: "t1".into(),
        origin: Origin::Task,
        input: told,
        wakes,
    };
    let mut seen = Seen::live();
    assert!(seen.take(started.clone()).is_empty() && seen.take(steered).is_empty());
    let updates = Seen::with(NOTICES, 0).take(started.clone());
    assert_eq!(updates[0]["sessionUpdate"], "notice");
    assert!(
        Seen::with(NOTICES, 10).take(started).is_empty(),
        "what is over is no news"
    );
}

#[test]
fn the_end_of_a_task_is_a_card_of_its_own() {
    let task = Arc::new(Task {
        status: TaskStatus::Failed,
        description: "build".to_owned(),
        exit_code: Some(3),
        ..Task::begun("bash-00000001".into())
    });
    for mut seen in [Seen::live(), Seen::with(Caps::default(), 10)] {
        let started = DomainEvent::TaskStarted { task: task.clone() };
        assert!(seen.take(started).is_empty());
        let ended = DomainEvent::TaskEnded {
            task: task.clone(),
            tail: "boom\n".into(),
        };
        let card = seen.take(ended).remove(0);
        assert_eq!(card["sessionUpdate"], "tool_call");
        assert_eq!(
            (&card["toolCallId"], &card["title"], &card["status"]),
            (
                &json!("task-bash-00000001"),
                &json!("build"),
                &json!("failed")
            )
        );
        assert_eq!(card["_meta"]["longshore"]["taskId"], "bash-00000001");
        let content = card["content"].to_string();
        assert!(
            content.contains("boom") && content.contains("Exit code 3"),
            "{content}"
        );
    }
}

#[test]
fn what_was_taken_back_is_told_to_those_who_show_notices() {
    let undone = || DomainEvent::TurnsUndone {
        turns: vec!["t1".into(), "t2".into()],
    };
    assert_eq!(Seen::live().brief(undone()), [""; 0]);
    assert_eq!(Seen::with(NOTICES, 10).brief(undone()), [""; 0], "history");
    let told = Seen::with(NOTICES, 0).brief(undone());
    assert!(told[0].contains("The last 2 turns were undone"), "{told:?}");
    let told = Seen::with(NOTICES, 0).brief(DomainEvent::SessionCleared);
    assert!(told[0].contains("cleared"), "{told:?}");
}
