use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::turn::{StopReason, TurnReason};

use super::Steer;
use super::testing::{Bench, Entry, Probe, completed, said};
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::message::{Message, Part};
use crate::tool::Outcome;

fn input(text: &str) -> Vec<ContentPart> {
    vec![ContentPart::Text { text: text.into() }]
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_one_call_says_everything_in_order() {
    let mut bench = Bench::new(
        r#"
defaults: {chunk: whole}
turns:
  - steps: [{think: "Hm."}, {text: "Looking."}, {tool_call: {id: p1, name: Read, args: {path: a.txt}}}]
    usage: {input_other: 10, output: 5}
  - steps: [{text: "Done."}]
    usage: {input_other: 20, output: 2}
"#,
    );
    bench.put("a.txt", "inside\n");
    let outcome = bench.run("go").await;
    assert_eq!(
        bench.sink.lines(),
        [
            "turn/started t1",
            "step/started 1",
            "thinking/delta i1 Hm.",
            "message/delta i2 Looking.",
            "tool/delta call_1 ",
            r#"tool/delta call_1 {"path":"a.txt"}"#,
            "thinking/completed i1",
            "message/completed i2",
            "state spent 15",
            "session/usage 15",
            "tool/started call_1",
            "tool/running call_1",
            "tool/completed call_1 ok",
            "step/ended 1",
            "step/started 2",
            "message/delta i3 Done.",
            "message/completed i3",
            "state spent 22",
            "session/usage 37",
            "step/ended 2",
            "turn/ended t1 completed",
        ]
    );
    assert_eq!(
        (outcome.stop, outcome.text.as_str(), outcome.usage.total()),
        (StopReason::EndTurn, "Done.", 37)
    );
    assert_eq!(bench.agent.usage.total(), 37);
    assert_eq!(bench.agent.context.tokens(), 22, "the last report counts");
    let told = bench.told();
    assert_eq!(told[0], "user go");
    assert_eq!(told[1], "assistant (Hm.)Looking. [call_1]");
    assert!(
        told[2].starts_with("result call_1") && told[2].contains("inside"),
        "{told:?}"
    );
    assert_eq!(told[3], "assistant Done. []");
    // The system prompt is rendered once.
    let prompts: Vec<_> = bench
        .model
        .requests()
        .iter()
        .map(|request| request.system.clone())
        .collect();
    assert!(
        Arc::ptr_eq(&prompts[0], &prompts[1]) && prompts[0].contains(bench.ws.to_str().unwrap())
    );
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_cut_or_filtered_run_nothing() {
    for (finish, reason, stop, n_calls, kind) in [
        (
            "truncated",
            TurnReason::Completed,
            StopReason::MaxTokens,
            2,
            None,
        ),
        (
            "paused",
            TurnReason::Completed,
            StopReason::EndTurn,
            2,
            None,
        ),
        (
            "filtered",
            TurnReason::Failed,
            StopReason::Refusal,
            0,
            Some(ErrorKind::Filtered),
        ),
    ] {
        let script = format!(
            "turns: [{{finish: {finish}, steps: [{{text: Hm}}, {{tool_call: {{name: Write, args: {{path: a, content: x}}}}}}, \
             {{tool_call: {{name: Write, args: '{{\"pa'}}}}]}}, {{steps: [{{text: ok}}]}}]"
        );
        let mut bench = Bench::new(&script);
        let outcome = bench.run("go").await;
        assert_eq!((outcome.reason, outcome.stop), (reason, stop), "{finish}");
        assert_eq!(outcome.error.map(|error| error.kind), kind, "{finish}");
        assert!(!bench.ws.join("a").exists(), "{finish}");
        assert!(bench.sink.only(&["tool/running"]).is_empty());
        let results = bench.results();
        assert_eq!(results.len(), n_calls, "{finish}");
        assert!(
            results
                .iter()
                .all(|result| result.starts_with("error") && result.contains("not run")),
            "{results:?}"
        );
        // The call that was cut is drawn with no arguments.
        let inputs: Vec<_> = bench
            .sink
            .entries()
            .into_iter()
            .filter_map(|entry| match entry {
                Entry::Durable(DomainEvent::ToolStarted { input, .. }) => Some(input.to_string()),
                _ => None,
            })
            .collect();
        let drawn = [r#"{"path":"a","content":"x"}"#, "{}"];
        assert_eq!(inputs, drawn[..n_calls]);
        completed(&bench.run("again").await);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_filtered_answer_stays_in_the_history() {
    let mut bench =
        Bench::new("turns: [{finish: filtered, steps: [{text: Hm}]}, {steps: [{text: ok}]}]");
    bench.run("one").await;
    bench.run("two").await;
    assert_eq!(bench.told(), ["user one\n\ntwo", "assistant ok []"]);
}

#[tokio::test(start_paused = true)]
async fn the_finish_that_is_said_yields_to_what_came() {
    for (finish, calls) in [("completed", true), ("tool_calls", false), ("other", true)] {
        let call = if calls {
            ", {tool_call: {name: Read, args: {path: a}}}"
        } else {
            ""
        };
        let script = format!(
            "turns: [{{finish: {finish}, steps: [{{text: Hm}}{call}]}}, {{steps: [{{text: ok}}]}}]"
        );
        let mut bench = Bench::new(&script);
        bench.put("a", "x\n");
        let outcome = bench.run("go").await;
        assert_eq!(
            (outcome.reason, outcome.stop),
            (TurnReason::Completed, StopReason::EndTurn)
        );
        assert_eq!(
            bench.sink.only(&["step/ended"]).len(),
            if calls { 2 } else { 1 },
            "{finish}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_at_its_limit_of_steps() {
    let calls = "turns: [{steps: [{tool_call: {name: Read, args: {path: '{{turn}}'}}}]}]\non_exhausted: loop";
    let mut bench = Bench::new(calls);
    bench.limits.max_steps_per_turn = 2;
    let outcome = bench.run("go").await;
    assert_eq!(
        (outcome.reason, outcome.stop),
        (TurnReason::Failed, StopReason::MaxSteps)
    );
    assert_eq!(outcome.error.unwrap().kind, ErrorKind::MaxSteps);
    assert_eq!(
        bench.sink.only(&["step/"]),
        [
            "step/started 1",
            "step/ended 1",
            "step/started 2",
            "step/ended 2"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_steer_that_finds_no_step_left_waits_for_the_next_turn() {
    let mut bench = Bench::new("turns: [{steps: [{delay_ms: 50}, {text: ok}]}]");
    bench.limits.max_steps_per_turn = 1;
    let cx = bench.turn();
    let (steers, sink) = (cx.steers.clone(), bench.sink.clone());
    let (outcome, ()) = tokio::join!(bench.run_in(&cx, "go"), async move {
        sink.until("step/started 1").await;
        steers.push(Steer::Words(input("more")));
    });
    completed(&outcome);
    assert!(cx.steers.has_news(&bench.agent.told));
}

#[tokio::test(start_paused = true)]
async fn failed_attempts_leave_nothing_behind() {
    let mut bench = Bench::new(
        r#"
defaults: {chunk: whole}
turns:
  - fail_first: [{status: 503}, {status: 503}, {status: 429, retry_after_ms: 7000}]
    steps: [{text: "Half an"}, {tool_call: {name: Read, args: {path: a}}}, {cut: true}]
  - steps: [{text: "Whole."}]
"#,
    );
    let outcome = bench.run("go").await;
    completed(&outcome);
    let retries: Vec<Vec<String>> = bench
        .sink
        .only(&["step/retrying"])
        .iter()
        .map(|line| line.splitn(4, ' ').map(str::to_owned).collect())
        .collect();
    let ms: Vec<u64> = retries
        .iter()
        .map(|retry| retry[2].parse().unwrap())
        .collect();
    assert!(
        (500..=625).contains(&ms[0]) && (1000..=1250).contains(&ms[1]) && ms[2] == 7000,
        "{ms:?}"
    );
    let attempts: Vec<_> = retries.iter().map(|retry| retry[1].as_str()).collect();
    assert_eq!(attempts, ["2", "3", "4", "5"]);
    let discards: Vec<_> = retries.iter().map(|retry| retry[3].as_str()).collect();
    assert_eq!(discards, ["[]", "[]", "[]", "[i1 call_1]"]);
    assert_eq!(bench.told(), ["user go", "assistant Whole. []"]);
    assert_eq!(
        bench.sink.only(&["message/completed", "tool/started"]),
        ["message/completed i2"]
    );
    assert_eq!(
        bench.sink.only(&["step/started", "step/ended"]),
        ["step/started 1", "step/ended 1"]
    );
}

#[tokio::test(start_paused = true)]
async fn some_failures_are_not_tried_again() {
    for (failure, kind) in [
        ("{kind: quota}", ErrorKind::QuotaExhausted),
        ("{kind: auth}", ErrorKind::AuthRequired),
        ("{kind: overflow}", ErrorKind::ContextOverflow),
        ("{kind: filtered}", ErrorKind::Filtered),
        (
            "{status: 429, retry_after_ms: 400000}",
            ErrorKind::RateLimited,
        ),
    ] {
        let mut bench = Bench::new(&format!("turns: [{{error: {failure}}}]"));
        let outcome = bench.run("go").await;
        let error = outcome.error.unwrap();
        assert_eq!(
            (outcome.reason, error.kind),
            (TurnReason::Failed, kind),
            "{failure}"
        );
        assert_eq!(error.retry_at.is_some(), failure.contains("400000"));
        assert_eq!(
            bench.sink.only(&["step/"]),
            ["step/started 1", "step/interrupted 1 error"]
        );
        assert_eq!(bench.told(), ["user go"]);
    }
}

#[tokio::test(start_paused = true)]
async fn images_that_a_provider_refuses_stay_out_for_the_turn() {
    let png = "iVBORw0KGgo=";
    let shows = Probe::new("Show", move |_, _| async move {
        Outcome::parts(vec![Part::Image {
            mime: "image/png".into(),
            data: png.into(),
        }])
    });
    let mut bench = Bench::new(
        r#"
turns:
  - steps: [{tool_call: {name: Show, args: {n: 1}}}, {tool_call: {name: Show, args: {n: 2}}}, {tool_call: {name: Show, args: {n: 3}}}]
  - fail_first: [{status: 413, message: "body too large"}, {status: 413, message: "body too large"}]
    steps: [{tool_call: {name: Show, args: {n: 4}}}]
  - steps: [{text: ok}]
"#,
    )
    .with(shows);
    completed(&bench.run("go").await);
    let images: Vec<usize> = bench
        .model
        .requests()
        .iter()
        .map(|request| {
            request
                .messages
                .iter()
                .map(|message| said(message).matches("[image]").count())
                .sum()
        })
        .collect();
    assert_eq!(
        images,
        [0, 3, 2, 0, 1],
        "newest two, none, and only the new one"
    );
    assert!(
        bench
            .sink
            .only(&["step/retrying"])
            .iter()
            .all(|line| line.split(' ').nth(2) == Some("0"))
    );
    assert_eq!(
        bench.told().join("").matches("[image]").count(),
        4,
        "the history keeps them"
    );
}

#[tokio::test(start_paused = true)]
async fn images_that_a_provider_can_not_use_spoil_no_later_turn() {
    let shows = Probe::new("Show", |_, _| async {
        Outcome::parts(vec![Part::Image {
            mime: "image/png".into(),
            data: "iVBORw0KGgo=".into(),
        }])
    });
    let mut bench = Bench::new(
        r#"
turns:
  - steps: [{tool_call: {name: Show, args: {n: 1}}}]
  - fail_first: [{status: 400, message: "could not decode image"}]
    steps: [{text: ok}]
  - steps: [{text: again}]
"#,
    )
    .with(shows);
    completed(&bench.run("go").await);
    completed(&bench.run("go on").await);
    let images: Vec<usize> = bench
        .model
        .requests()
        .iter()
        .map(|request| {
            request
                .messages
                .iter()
                .map(|message| said(message).matches("[image]").count())
                .sum()
        })
        .collect();
    assert_eq!(images, [0, 1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn spending_is_recorded_before_calls_run_and_failures_count() {
    let mut bench = Bench::new(
        r"
turns:
  - steps: [{tool_call: {name: Look, args: {}}}]
    usage: {input_other: 100, output: 1}
  - steps: [{text: ok}]
",
    )
    .with(Probe::new("Look", |_, _| async { Outcome::text("seen") }));
    let outcome = bench.run("go").await;
    let order = bench.sink.only(&["state spent", "tool/running"]);
    assert_eq!(order[..2], ["state spent 101", "tool/running call_1"]);
    assert!(outcome.usage.total() >= 101 && outcome.usage == bench.agent.usage);
}

#[tokio::test(start_paused = true)]
async fn steers_join_before_the_next_request_and_never_part_a_call_from_its_result() {
    let (gate, opened) = tokio::sync::watch::channel(false);
    let waits = Probe::new("Wait", move |_, _| {
        let mut opened = opened.clone();
        async move {
            opened.wait_for(|open| *open).await.unwrap();
            Outcome::text("waited")
        }
    });
    let mut bench = Bench::new(
        "turns: [{steps: [{tool_call: {name: Wait, args: {}}}]}, {steps: [{delay_ms: 10}, {text: first}]}, {steps: [{text: second}]}]",
    )
    .with(waits);
    let cx = bench.turn();
    let (steers, sink) = (cx.steers.clone(), bench.sink.clone());
    let (outcome, ()) = tokio::join!(bench.run_in(&cx, "go"), async move {
        sink.until("tool/running call_1").await;
        steers.push(Steer::Words(input("also x")));
        steers.push(Steer::Words(input("and y")));
        gate.send_replace(true);
        // And one while the model has its last word.
        sink.until("step/started 2").await;
        steers.push(Steer::Words(input("then z")));
    });
    completed(&outcome);
    assert_eq!(
        bench.told(),
        [
            "user go",
            "assistant  [call_1]",
            "result call_1 waited",
            "user also x\n\nand y",
            "assistant first []",
            "user then z",
            "assistant second []"
        ]
    );
    assert_eq!(bench.sink.only(&["turn/steered"]).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_model_hears_once_of_a_cancel_by_the_user() {
    let mut bench = Bench::new(
        "turns: [{steps: [{text: one}]}, {steps: [{text: two}]}, {steps: [{text: three}]}]",
    );
    let cx = bench.turn();
    cx.cancel.cancel();
    assert_eq!(
        bench.run_in(&cx, "first").await.reason,
        TurnReason::Cancelled
    );
    bench.run("second").await;
    bench.run("third").await;
    let told = bench.told();
    assert_eq!(told[0], "user first\n\nsecond");
    assert!(told[1].starts_with("reminder") && told[1].contains("interrupted"));
    assert_eq!(
        told[2..],
        ["assistant one []", "user third", "assistant two []"]
    );
}

#[tokio::test(start_paused = true)]
async fn repeated_calls_are_reminded_of_then_stopped() {
    let mut bench = Bench::new(
        "turns: [{steps: [{tool_call: {name: Look, args: {a: 1}}}]}]\non_exhausted: repeat_last",
    )
    .with(Probe::new("Look", |_, _| async { Outcome::text("same") }));
    let outcome = bench.run("go").await;
    assert_eq!(
        (outcome.reason, outcome.stop),
        (TurnReason::Failed, StopReason::Error)
    );
    let error = outcome.error.unwrap();
    assert!(
        error.kind == ErrorKind::LimitExceeded && error.message.contains("12 times"),
        "{error:?}"
    );
    let told = bench.told();
    assert_eq!(
        told.iter()
            .filter(|line| line.starts_with("result"))
            .count(),
        12,
        "a success stays one"
    );
    let reminders: Vec<usize> = told
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with("reminder"))
        .map(|(n, _)| n)
        .collect();
    assert_eq!(reminders.len(), 10, "from the third on");
    // The next input starts afresh.
    assert_eq!(
        bench.run("again").await.error.unwrap().kind,
        ErrorKind::LimitExceeded
    );
    assert_eq!(bench.sink.only(&["step/ended"]).len(), 24);
}

#[tokio::test(start_paused = true)]
async fn only_calls_that_can_never_run_stop_a_turn() {
    for (call, stops) in [
        ("{name: Nothing, args: {n: '{{turn}}'}}", true),
        ("{name: Edit, args: {n: '{{turn}}'}}", true),
        ("{name: Read, args: {path: 'none-{{turn}}'}}", false),
        ("{name: Read, args: '{\"{{turn}}'}", false),
    ] {
        let turns = format!("{{steps: [{{tool_call: {call}}}]}},").repeat(15);
        let mut bench = Bench::new(&format!("turns: [{turns} {{steps: [{{text: ok}}]}}]"));
        let outcome = bench.run("go").await;
        let n_steps = bench.sink.only(&["step/ended"]).len();
        if stops {
            assert_eq!(
                (outcome.reason, n_steps),
                (TurnReason::Failed, 12),
                "{call}"
            );
            assert!(
                outcome.error.unwrap().message.contains("could not be run"),
                "{call}"
            );
        } else if call.contains("none") {
            assert_eq!(
                (outcome.reason, n_steps),
                (TurnReason::Completed, 16),
                "{call}"
            );
        } else {
            // A text of arguments is sent as it stands, so it is the same rubbish each time.
            assert_eq!(
                (outcome.reason, n_steps),
                (TurnReason::Failed, 12),
                "{call}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_ends_the_turn_at_any_place() {
    type Refuses = fn(&Entry) -> bool;
    let places: [(&str, Refuses); 9] = [
        ("turn", |entry| {
            matches!(entry, Entry::Durable(DomainEvent::TurnStarted { .. }))
        }),
        ("step", |entry| {
            matches!(entry, Entry::Durable(DomainEvent::StepStarted { .. }))
        }),
        ("message", |entry| {
            matches!(entry, Entry::Durable(DomainEvent::MessageCompleted { .. }))
        }),
        ("spent", |entry| {
            matches!(entry, Entry::State(StateRecord::Spent { .. }))
        }),
        ("started", |entry| {
            matches!(entry, Entry::Durable(DomainEvent::ToolStarted { .. }))
        }),
        ("running", |entry| {
            matches!(entry, Entry::Durable(DomainEvent::ToolRunning { .. }))
        }),
        ("completed", |entry| {
            matches!(entry, Entry::Durable(DomainEvent::ToolCompleted { .. }))
        }),
        ("ended", |entry| {
            matches!(entry, Entry::Durable(DomainEvent::StepEnded { .. }))
        }),
        ("all", |_| true),
    ];
    for (place, refuses) in places {
        let mut bench = Bench::new(
            "turns: [{steps: [{text: a}, {tool_call: {name: Write, args: {path: f, content: x}}}, {tool_call: {name: Hang, args: \
             {}}}]}, {steps: [{text: ok}]}]",
        )
        .with(Probe::new("Hang", |_, cx| async move {
            // A call that takes long must not hold a turn that can't go on.
            let _ = tokio::time::timeout(std::time::Duration::from_secs(3600), cx.cancel.cancelled()).await;
            Outcome::text("ended")
        }));
        bench.sink.refuse(refuses);
        let cx = bench.turn();
        let outcome = bench.run_unchecked(&cx, "go").await;
        assert_eq!(
            outcome.error.unwrap().kind,
            ErrorKind::StorageFull,
            "{place}"
        );
        let history = bench.history();
        super::testing::valid_for_provider(&history)
            .unwrap_or_else(|why| panic!("{place}: {why}: {history:#?}"));
        let may_exist = matches!(place, "completed" | "ended");
        assert_eq!(
            bench.ws.join("f").exists(),
            may_exist,
            "{place}: no effect without its record"
        );
        // With the disk back the session goes on, with a history that is valid.
        bench.sink.refuse(|_| false);
        let cx = bench.turn();
        let outcome = bench.run_unchecked(&cx, "again").await;
        assert_eq!(outcome.reason, TurnReason::Completed, "{place} {outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_write_without_its_record_on_the_disk() {
    let mut bench =
        Bench::new("turns: [{steps: [{tool_call: {name: Write, args: {path: f, content: x}}}]}]");
    bench
        .sink
        .sync_fails
        .store(true, std::sync::atomic::Ordering::SeqCst);
    let outcome = bench.run("go").await;
    assert_eq!(outcome.error.unwrap().kind, ErrorKind::StorageError);
    assert!(!bench.ws.join("f").exists());
    let results = bench.results();
    assert!(
        results[0].starts_with("error call_1") && results[0].contains("not run"),
        "{results:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn forty_turns_come_back_as_they_were() {
    let mut bench = Bench::new(
        r#"
turns:
  - steps: [{think: {text: "Hm.", signature: "sig"}}, {text: "a"}, {tool_call: {id: r, name: Read, args: {path: a}}}, {tool_call: {id: b, name: Big, args: {}}}]
    usage: {input_other: 10, output: 5}
  - steps: [{tool_call: {name: Edit, args: {path: a, old_string: "x\n", new_string: "x\nx\n"}}}, {tool_call: {name: TodoList, args: {todos: [{title: t, status: pending}]}}}]
  - steps: [{text: "Done."}]
on_exhausted: loop
"#,
    )
    .with(Probe::new("Big", |_, _| async { Outcome::text("é".repeat(60_000)) }));
    bench.put("a", "x\n");
    for n in 0..40 {
        completed(&bench.run(&format!("turn {n}")).await);
    }
    let n_calls = bench
        .history()
        .iter()
        .filter(|message| matches!(&***message, Message::ToolResult { .. }))
        .count();
    assert_eq!(n_calls, 160);
}

#[tokio::test(start_paused = true)]
async fn words_that_cannot_be_recorded_stay_for_what_comes_next() {
    let mut bench = Bench::new("turns: [{steps: [{text: a}]}]\non_exhausted: repeat_last");
    let cx = bench.turn();
    for words in ["one", "two"] {
        cx.steers.push(Steer::Words(input(words)));
    }
    let n_before = std::sync::atomic::AtomicU32::new(0);
    bench.sink.refuse(move |entry| {
        matches!(entry, Entry::Durable(DomainEvent::TurnSteered { .. }))
            && n_before.fetch_add(1, std::sync::atomic::Ordering::SeqCst) > 0
    });
    let outcome = bench.run_unchecked(&cx, "go").await;
    assert_eq!(outcome.error.unwrap().kind, ErrorKind::StorageFull);
    let left: Vec<String> = cx
        .steers
        .take()
        .into_iter()
        .map(|steer| format!("{steer:?}"))
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].contains("two"), "{left:?}");
}
