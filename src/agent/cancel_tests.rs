//! The cancellation matrix, row by row. After each row the next input goes to a strict provider.

use longshore_protocol::value::session::Mode;
use longshore_protocol::value::tool::ProgressStream;
use longshore_protocol::value::turn::{StopReason, TurnReason};

use super::testing::{Bench, Probe, Reply, completed};
use crate::kernel::access::Access;
use crate::tool::Outcome;

/// Runs a turn that is cancelled once a line was said, then another one; gives what the history holds between the two
/// inputs, and how long the cancel took.
async fn cancelled_at(bench: &mut Bench, line: &str) -> (Vec<String>, u128) {
    let cx = bench.turn();
    let (cancel, sink) = (cx.cancel.clone(), bench.sink.clone());
    let (outcome, cancelled_at) = tokio::join!(bench.run_in(&cx, "first"), async {
        sink.until(line).await;
        cancel.cancel();
        tokio::time::Instant::now()
    });
    let took = cancelled_at.elapsed().as_millis();
    assert_eq!(
        (outcome.reason, outcome.stop),
        (TurnReason::Cancelled, StopReason::Cancelled)
    );
    assert!(outcome.error.is_none());
    let n_before = bench.told().len();
    completed(&bench.run("second").await);
    let told = bench.told();
    assert_eq!(
        told.iter()
            .filter(|line| line.starts_with("reminder"))
            .count(),
        1,
        "{told:?}"
    );
    (told[1..n_before].to_vec(), took)
}

#[tokio::test(start_paused = true)]
async fn before_the_first_request() {
    let mut bench = Bench::new("turns: [{steps: [{text: ok}]}]");
    let cx = bench.turn();
    cx.cancel.cancel();
    let outcome = bench.run_in(&cx, "first").await;
    assert_eq!(outcome.reason, TurnReason::Cancelled);
    assert!(bench.model.requests().is_empty() && bench.sink.only(&["step"]).is_empty());
    assert_eq!(bench.told(), ["user first"]);
    completed(&bench.run("second").await);
}

#[tokio::test(start_paused = true)]
async fn while_the_model_answers() {
    for (steps, line, kept) in [
        (
            "{text: Hel}, {hang: true}",
            "message/delta i1 Hel",
            vec!["assistant partial Hel []"],
        ),
        ("{think: Hm}, {hang: true}", "thinking/delta i1 Hm", vec![]),
        (
            "{text: Hel}, {tool_call: {name: Read, args: {path: a}}}, {hang: true}",
            "tool/delta call_1 {\"path\":\"a\"}",
            vec!["assistant partial Hel []"],
        ),
        (
            "{tool_call: {name: Read, args: {path: a}}}, {hang: true}",
            "tool/delta call_1 {\"path\":\"a\"}",
            vec![],
        ),
        ("{hang: true}", "step/started 1", vec![]),
    ] {
        let mut bench = Bench::new(&format!(
            "defaults: {{chunk: whole}}\nturns: [{{steps: [{steps}]}}, {{steps: [{{text: ok}}]}}]"
        ));
        let (between, took) = cancelled_at(&mut bench, line).await;
        assert_eq!(between, kept, "{steps}");
        assert_eq!(took, 0, "at once");
        assert!(bench.sink.only(&["tool/started"]).is_empty());
        assert!(
            bench
                .sink
                .lines()
                .contains(&"step/interrupted 1 interrupted".to_owned())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn while_waiting_for_a_retry() {
    let mut bench = Bench::new(
        "turns: [{fail_first: [{status: 503, retry_after_ms: 200000}], steps: [{text: ok}]}]",
    );
    let (between, took) = cancelled_at(&mut bench, "step/retrying 2 200000 []").await;
    assert_eq!((between.len(), took), (0, 0));
    assert_eq!(
        bench.sink.only(&["step/"])[..3],
        [
            "step/started 1",
            "step/retrying 2 200000 []",
            "step/interrupted 1 interrupted"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn while_an_approval_is_open() {
    let write =
        |path: &str| format!("{{tool_call: {{name: Write, args: {{path: {path}, content: x}}}}}}");
    let script = format!(
        "turns: [{{steps: [{}, {}, {}]}}, {{steps: [{{text: ok}}]}}]",
        write("a"),
        write("b"),
        write("c")
    );
    let mut bench = Bench::new(&script);
    bench.mode.send_replace(Mode::Manual);
    bench.asks.will([Reply::Never]);
    let (between, took) = cancelled_at(&mut bench, "approval/requested a1").await;
    assert_eq!((between.len(), took), (4, 0));
    assert!(
        between[1..]
            .iter()
            .all(|result| result.starts_with("error") && result.contains("It was not run")),
        "{between:?}"
    );
    assert_eq!(
        bench.sink.only(&["approval/"]),
        ["approval/requested a1", "approval/resolved a1 withdrawn"]
    );
    assert_eq!(bench.sink.only(&["tool/started"]).len(), 3);
    assert!(
        ["a", "b", "c"]
            .iter()
            .all(|name| !bench.ws.join(name).exists())
    );
    assert!(bench.board.get().waiting.approvals.is_empty());
}

#[tokio::test(start_paused = true)]
async fn while_calls_run() {
    let mut bench = Bench::new(
        "turns: [{steps: [{tool_call: {name: Quick, args: {}}}, {tool_call: {name: Good, args: {}}}, {tool_call: {name: Deaf, args: \
         {path: f}}}, {tool_call: {name: Touch, args: {path: f}}}, {tool_call: {name: Touch, args: {path: f}}}]}, {steps: [{text: ok}]}]",
    )
    .with(Probe::new("Quick", |_, _| async { Outcome::text("done before") }))
    .with(Probe::new("Good", |_, cx| async move {
        cx.cancel.cancelled().await;
        cx.progress.output(ProgressStream::Stdout, "too late");
        Outcome::failed("ended when told")
    }))
    .with(Probe::new("Deaf", |_, cx| async move {
        tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
        cx.progress.status("never");
        Outcome::text("never")
    }).touches(Access::read_write))
    .with(Probe::new("Touch", |_, _| async { Outcome::text("never") }).touches(Access::read_write));
    let (between, took) = cancelled_at(&mut bench, "tool/started call_5").await;
    assert_eq!(took, 2000, "the grace");
    let starts = [
        "assistant",
        "result call_1 done before",
        "error call_2",
        "error call_3",
        "error call_4",
        "error call_5",
    ];
    for (line, start) in between.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
    assert!(between[2].ends_with("ended when told"));
    assert!(
        between[3].contains("interrupted this call on purpose")
            && between[3].contains("part of its effect")
    );
    assert!(
        between[4].contains("It was not run") && between[5].contains("It was not run"),
        "{between:?}"
    );
    assert_eq!(bench.sink.only(&["tool/running"]).len(), 3);
    tokio::time::sleep(std::time::Duration::from_secs(7200)).await;
    assert!(
        bench.sink.only(&["tool/progress"]).is_empty(),
        "what comes after a cancel is not shown"
    );
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_does_not_start_while_an_approval_is_taken_back() {
    // The running call ends by the cancel while the ask is still being taken back.
    let mut bench = Bench::new(
        "turns: [{steps: [{tool_call: {name: Alone, args: {first: true}}}, {tool_call: {name: Alone, args: {}}}, \
         {tool_call: {name: Write, args: {path: .git/config, content: x}}}]}, {steps: [{text: ok}]}]",
    )
    .with(
        Probe::new("Alone", |args, cx| async move {
            if args.get("first").is_some() {
                cx.cancel.cancelled().await;
            }
            Outcome::text("ran")
        })
        .alone(),
    );
    bench.asks.will([Reply::Never]);
    let (between, _) = cancelled_at(&mut bench, "approval/requested a1").await;
    assert_eq!(between[1], "result call_1 ran");
    assert!(
        between[2].starts_with("error call_2") && between[2].contains("It was not run"),
        "{between:?}"
    );
    assert_eq!(bench.sink.only(&["tool/running"]), ["tool/running call_1"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_yields_does_not_hold_the_turn() {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let stopped = std::sync::Arc::new(std::sync::Mutex::new(stopped));
    let mut bench = Bench::new(
        "turns: [{steps: [{tool_call: {name: Stuck, args: {}}}]}, {steps: [{text: ok}]}]",
    )
    .with(Probe::new("Stuck", move |_, _| {
        let stopped = stopped.clone();
        async move {
            // Blocking work that nobody can end, as on a file system that does not answer.
            tokio::task::spawn_blocking(move || stopped.lock().unwrap().recv().ok())
                .await
                .unwrap();
            Outcome::text("never")
        }
    }));
    let cx = bench.turn();
    let (cancel, sink) = (cx.cancel.clone(), bench.sink.clone());
    tokio::time::resume();
    let (outcome, ()) = tokio::join!(bench.run_in(&cx, "first"), async {
        sink.until("tool/running call_1").await;
        cancel.cancel();
    });
    assert_eq!(outcome.reason, TurnReason::Cancelled);
    drop(stop);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_between_the_answer_and_its_calls_runs_nothing() {
    let mut bench = Bench::new(
        "turns: [{steps: [{tool_call: {name: Write, args: {path: a, content: x}}}]}, {steps: [{text: ok}]}]",
    );
    let (between, _) = cancelled_at(&mut bench, "state spent 0").await;
    // Whether or not the answer was taken in whole, nothing has run.
    assert!(
        between.iter().all(|line| !line.starts_with("result")),
        "{between:?}"
    );
    assert!(!bench.ws.join("a").exists());
}
