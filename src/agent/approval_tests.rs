use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::approval::{ApprovalAnswer, OptionId};
use longshore_protocol::value::display::Display;
use longshore_protocol::value::session::{Mode, Status};
use longshore_protocol::value::turn::TurnReason;
use serde_json::json;

use super::testing::{Bench, Entry, Probe, Reply, completed};
use crate::kernel::ask::Ask;
use crate::kernel::event::DomainEvent;
use crate::kernel::port::Ability;
use crate::tool::Outcome;

/// A bench whose model writes `a` once for each turn, and is done.
fn writes(n: usize) -> Bench {
    let write = "{steps: [{tool_call: {name: Write, args: {path: a, content: x}}}]}, {steps: [{text: ok}]},";
    let bench = Bench::new(&format!("turns: [{}]", write.repeat(n)));
    bench.mode.send_replace(Mode::Manual);
    bench
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_its_approval() {
    let mut bench = writes(1);
    bench.asks.will([Reply::option(OptionId::AllowOnce)]);
    completed(&bench.run("go").await);
    assert_eq!(
        bench.sink.only(&[
            "tool/started",
            "tool/running",
            "tool/completed",
            "approval/",
            "session/status"
        ]),
        [
            "tool/started call_1",
            "approval/requested a1",
            "session/status waiting",
            "session/status running",
            "approval/resolved a1 answered",
            "tool/running call_1",
            "tool/completed call_1 ok",
        ]
    );
    let Ask::Approval(request) = &*bench.asks.asked()[0] else {
        panic!()
    };
    assert_eq!(
        (request.tool.as_str(), request.tool_call_id.as_str()),
        ("Write", "call_1")
    );
    let options: Vec<_> = request
        .options
        .iter()
        .map(|option| option.option_id)
        .collect();
    use OptionId::{AllowOnce, AllowSession, Reject, RejectStop};
    assert_eq!(options, [AllowOnce, AllowSession, Reject, RejectStop]);
    assert!(
        request.options[1]
            .label
            .contains(request.options[1].rule.as_deref().unwrap())
    );
    assert_eq!(bench.board.get().status, Status::Running);
}

#[tokio::test(start_paused = true)]
async fn an_approval_shows_the_change_and_where_it_really_goes() {
    for (call, expected) in [
        (
            r#"{name: Edit, args: {path: link.md, old_string: "c", new_string: "C"}}"#,
            "@@ -1,4 +1,4 @@\n a\n b\n-c\n+C\n d\n",
        ),
        (
            r#"{name: Write, args: {path: link.md, content: "a\nb\n"}}"#,
            "@@ -1,4 +1,2 @@\n a\n b\n-c\n-d\n",
        ),
    ] {
        let mut bench = Bench::new(&format!(
            "turns: [{{steps: [{{tool_call: {{name: Read, args: {{path: real.md}}}}}}]}}, {{steps: [{{tool_call: {call}}}]}}, \
             {{steps: [{{text: ok}}]}}]"
        ));
        bench.put("real.md", "a\nb\nc\nd\n");
        std::os::unix::fs::symlink("real.md", bench.ws.join("link.md")).unwrap();
        bench.mode.send_replace(Mode::Manual);
        bench.asks.will([Reply::option(OptionId::AllowOnce)]);
        completed(&bench.run("go").await);
        let Ask::Approval(request) = &*bench.asks.asked()[0] else {
            panic!()
        };
        let Display::Diff { hunks, .. } = &request.display else {
            panic!("{request:?}")
        };
        assert_eq!(hunks, expected);
        assert!(
            request.title.ends_with("link.md → real.md"),
            "{}",
            request.title
        );
        let real = bench.ws.join("real.md");
        assert_eq!(request.accesses[0].real_path.as_deref(), real.to_str());
        assert!(bench.ws.join("link.md").is_symlink());
        assert_ne!(bench.text("real.md"), "a\nb\nc\nd\n");
    }
}

#[tokio::test(start_paused = true)]
async fn once_asks_again_and_for_the_session_does_not() {
    for (option, n_asks) in [(OptionId::AllowOnce, 2), (OptionId::AllowSession, 1)] {
        let mut bench = writes(2);
        bench
            .asks
            .will([Reply::option(option), Reply::option(OptionId::AllowOnce)]);
        completed(&bench.run("one").await);
        completed(&bench.run("two").await);
        assert_eq!(bench.asks.asked().len(), n_asks);
        assert_eq!(bench.agent.grants.len(), 2 - n_asks);
        assert!(
            bench
                .results()
                .iter()
                .all(|result| result.starts_with("result")),
            "{:?}",
            bench.results()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_allowed_is_not_run() {
    for (reply, words, reason) in [
        (
            Reply::option(OptionId::Reject),
            "rejected",
            TurnReason::Completed,
        ),
        (
            Reply::Approval(ApprovalAnswer {
                option_id: Some(OptionId::Reject),
                feedback: Some("use rg".into()),
                ..ApprovalAnswer::default()
            }),
            "The user says: use rg",
            TurnReason::Completed,
        ),
        (
            Reply::Approval(ApprovalAnswer::default()),
            "rejected",
            TurnReason::Completed,
        ),
        (
            Reply::Unanswered("no decision in time"),
            "no decision in time",
            TurnReason::Completed,
        ),
        (
            Reply::option(OptionId::RejectStop),
            "rejected",
            TurnReason::Cancelled,
        ),
    ] {
        let mut bench = writes(1);
        bench.asks.will([reply]);
        let outcome = bench.run("go").await;
        assert_eq!(outcome.reason, reason);
        let results = bench.results();
        assert!(
            results[0].starts_with("error call_1") && results[0].contains(words),
            "{results:?}"
        );
        assert!(!bench.ws.join("a").exists() && bench.sink.only(&["tool/running"]).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_leaves_the_others_alone_and_a_stop_ends_them_all() {
    let script = "turns: [{steps: [{tool_call: {name: Write, args: {path: a, content: x}}}, {tool_call: {name: Write, args: {path: b, \
                  content: x}}}, {tool_call: {name: Read, args: {path: c}}}]}, {steps: [{text: ok}]}]";
    for (option, written) in [(OptionId::Reject, true), (OptionId::RejectStop, false)] {
        let mut bench = Bench::new(script);
        bench.put("c", "see\n");
        bench.mode.send_replace(Mode::Manual);
        bench
            .asks
            .will([Reply::option(option), Reply::option(OptionId::AllowOnce)]);
        bench.run("go").await;
        assert_eq!(bench.ws.join("b").exists(), written);
        let results = bench.results();
        assert_eq!(results.len(), 3);
        assert_eq!(results[2].contains("see"), written, "{results:?}");
        assert_eq!(bench.asks.asked().len(), if written { 2 } else { 1 });
    }
}

#[tokio::test(start_paused = true)]
async fn changed_arguments_are_checked_and_judged_anew() {
    for (input, words, exists) in [
        (
            json!({"path": "b", "content": "mine"}),
            "changed the arguments",
            Some("b"),
        ),
        (json!({"path": 5}), "Invalid arguments", None),
        (json!({"path": ".env", "content": "x"}), "", None),
    ] {
        let mut bench = writes(1);
        bench.asks.will([Reply::Approval(ApprovalAnswer {
            option_id: Some(OptionId::AllowSession),
            edited_input: Some(input.clone()),
            ..ApprovalAnswer::default()
        })]);
        completed(&bench.run("go").await);
        let results = bench.results();
        assert!(results[0].contains(words), "{results:?}");
        assert_eq!(
            results[0].starts_with("result"),
            exists.is_some(),
            "{results:?}"
        );
        assert!(!bench.ws.join("a").exists(), "never as it was");
        if let Some(name) = exists {
            assert_eq!(bench.text(name), "mine");
        }
        assert!(
            bench.agent.grants.is_empty(),
            "the rule that was shown was about other arguments"
        );
        assert_eq!(bench.asks.asked().len(), 1, "not asked twice");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_mode_ends_the_ask() {
    let mut bench = writes(1);
    bench.asks.will([Reply::Never]);
    let (mode, sink) = (bench.mode.clone(), bench.sink.clone());
    let (outcome, ()) = tokio::join!(bench.run("go"), async move {
        sink.until("approval/requested a1").await;
        mode.send_replace(Mode::Manual);
        mode.send_replace(Mode::Yolo);
    });
    completed(&outcome);
    assert_eq!(
        bench.sink.only(&["approval/resolved"]),
        ["approval/resolved a1 modechanged"]
    );
    assert_eq!(bench.text("a"), "x");
}

#[tokio::test(start_paused = true)]
async fn where_nobody_can_be_asked_the_answer_is_no_at_once() {
    for (unattended, ability, words) in [
        (true, Ability::Able, "nobody who could give one"),
        (false, Ability::Unable, "no attached host can give one"),
    ] {
        let mut bench = writes(1);
        bench.unattended = unattended;
        *bench.asks.ability.lock().unwrap() = ability;
        completed(&bench.run("go").await);
        let results = bench.results();
        assert!(
            results[0].starts_with("error") && results[0].contains(words),
            "{results:?}"
        );
        assert!(bench.asks.asked().is_empty() && bench.sink.only(&["approval/"]).is_empty());
        assert!(!bench.ws.join("a").exists());
    }
    // No host at all is another matter: one may come.
    let mut bench = writes(1);
    *bench.asks.ability.lock().unwrap() = Ability::Nobody;
    bench.asks.will([Reply::option(OptionId::AllowOnce)]);
    completed(&bench.run("go").await);
    assert_eq!(bench.text("a"), "x");
}

#[tokio::test(start_paused = true)]
async fn a_steer_during_an_approval_comes_after_the_result() {
    let mut bench = writes(1);
    bench.asks.will([Reply::Never]);
    let cx = bench.turn();
    let (steers, mode, sink) = (cx.steers.clone(), bench.mode.clone(), bench.sink.clone());
    let (outcome, ()) = tokio::join!(bench.run_in(&cx, "go"), async move {
        sink.until("approval/requested a1").await;
        steers.push(super::Steer::Words(vec![
            longshore_protocol::value::content::ContentPart::Text {
                text: "more".into(),
            },
        ]));
        mode.send_replace(Mode::Yolo);
    });
    completed(&outcome);
    let told = bench.told();
    assert!(
        told[2].starts_with("result call_1")
            && told[3] == "user more"
            && told[4] == "assistant ok []",
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn earlier_calls_run_while_a_later_one_waits_for_its_answer() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let mut bench = Bench::new(
        "turns: [{steps: [{tool_call: {name: Read, args: {path: c}}}, {tool_call: {name: Write, args: {path: a, content: x}}}, \
         {tool_call: {name: Count, args: {}}}]}, {steps: [{text: ok}]}]",
    )
    .with(Probe::new("Count", move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Outcome::text("counted") }
    }));
    bench.put("c", "see\n");
    bench.mode.send_replace(Mode::Manual);
    bench.asks.will([Reply::Never]);
    let (mode, sink) = (bench.mode.clone(), bench.sink.clone());
    let counted = count.clone();
    let (outcome, ()) = tokio::join!(bench.run("go"), async move {
        sink.until("approval/requested a1").await;
        sink.until("tool/completed call_1 ok").await;
        assert!(
            !sink.lines().contains(&"tool/started call_3".to_owned()),
            "decided one after another"
        );
        assert_eq!(counted.load(Ordering::SeqCst), 0);
        mode.send_replace(Mode::Yolo);
    });
    completed(&outcome);
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fault_takes_an_open_ask_back() {
    // The running call can't be recorded; nobody will ever answer the ask.
    let (gate, opened) = tokio::sync::watch::channel(false);
    let mut bench = Bench::new(
        "turns: [{steps: [{tool_call: {name: TodoList, args: {}}}, {tool_call: {name: Gate, args: {}}}, {tool_call: {name: Write, args: \
         {path: a, content: x}}}]}]",
    )
    .with(Probe::new("Gate", move |_, _| {
        let mut opened = opened.clone();
        async move {
            opened.wait_for(|open| *open).await.unwrap();
            Outcome::text("x")
        }
    }));
    bench.mode.send_replace(Mode::Manual);
    bench
        .asks
        .will([Reply::option(OptionId::AllowOnce), Reply::Never]);
    let sink = bench.sink.clone();
    let cx = bench.turn();
    let (outcome, ()) = tokio::join!(bench.run_unchecked(&cx, "go"), async {
        sink.until("approval/requested a2").await;
        sink.refuse(|entry| matches!(entry, Entry::Durable(DomainEvent::ToolCompleted { .. })));
        gate.send_replace(true);
    });
    assert_eq!(outcome.error.unwrap().kind, ErrorKind::StorageFull);
    assert!(
        bench
            .sink
            .lines()
            .contains(&"approval/resolved a2 withdrawn".to_owned())
    );
    super::testing::valid_for_provider(&bench.history()).unwrap();
}
