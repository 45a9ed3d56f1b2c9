#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out files and look at them"
)]

use std::path::Path;
use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::approval::OptionId;
use longshore_protocol::value::session::{Mode, Session};
use longshore_protocol::value::turn::TurnReason;

use super::journal::write::{self, Journal, Opening};
use super::testing::{Home, run, within};
use super::{CreateOptions, store};
use crate::agent::open::Left;
use crate::agent::testing::{Bench, Probe, Reply, valid_for_provider};
use crate::kernel::event::DomainEvent;
use crate::kernel::port::{EventLog, EventSink, Publish};
use crate::os::clock::FakeClock;
use crate::os::fs::RealDisk;
use crate::store::append_log::AppendLog;
use crate::tool::Outcome;

struct Nobody;

impl Publish for Nobody {
    fn publish(&self, _: Arc<crate::kernel::event::Stamped>) {}
}

/// A journal in a directory of its own, and the head of its session.
fn journal(dir: &Path) -> (Arc<Journal>, Session) {
    let session: Session = serde_json::from_value(serde_json::json!({
        "sessionId": "s", "title": "", "cwd": "/w", "additionalDirs": [], "mode": "yolo", "status": "idle",
        "createdAt": "2026-01-01T00:00:00.000Z", "updatedAt": "2026-01-01T00:00:00.000Z", "turnCount": 0,
        "usage": {}, "ephemeral": false, "archived": false
    }))
    .unwrap();
    let clock = Arc::new(FakeClock::default());
    let opening = Opening {
        session: "s".into(),
        dir: dir.into(),
        clock,
        publish: Arc::new(Nobody),
        disk: Arc::new(RealDisk),
        lock: None,
    };
    let log = AppendLog::open(&write::path(dir)).unwrap().log;
    let journal = Arc::new(Journal::new(
        opening,
        log,
        crate::kernel::time::Timestamp(0),
    ));
    journal.head(&session, None).unwrap();
    (journal, session)
}

#[tokio::test(start_paused = true)]
async fn what_is_restored_is_what_was_live() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = journal(dir.path());
    let mut bench = Bench::new(
        r#"
turns:
  - steps: [{think: {text: "Hm.", signature: "sig"}}, {text: "a"}, {tool_call: {id: r, name: Read, args: {path: a}}}, {tool_call: {id: b, name: Big, args: {n: "{{turn}}"}}}]
    usage: {input_other: 10, output: 5}
  - steps: [{tool_call: {name: Edit, args: {path: a, old_string: "y", new_string: "x\ny"}}}, {tool_call: {name: Nothing, args: '{"$blob": "forged"}'}}]
  - fail_first: [{status: 503}]
    steps: [{text: "Do"}, {cut: true}]
  - steps: [{text: "Done."}]
on_exhausted: loop
"#,
    )
    .with(Probe::new("Big", |args, _| async move {
        let n: usize = args["n"].as_str().unwrap().parse().unwrap();
        let text = "é\"\n".repeat(1 + 50_000 * (n % 2));
        Outcome { truncated: true, ..Outcome::text(text).with_note("of the engine") }
    }));
    bench.put("a", "y\n");
    for n in 0..40 {
        let mut cx = bench.turn();
        cx.sink = journal.clone();
        // A large input, now and then.
        let text = format!(
            "turn {n} {}",
            "z".repeat(if n % 10 == 0 { 70_000 } else { 1 })
        );
        let outcome = bench.run_unchecked(&cx, &text).await;
        assert_eq!(outcome.reason, TurnReason::Completed, "{outcome:?}");
        let ended = DomainEvent::TurnEnded {
            turn: cx.turn.clone(),
            reason: outcome.reason,
            stop: outcome.stop,
            error: None,
            usage: outcome.usage,
            duration_ms: 1,
        };
        journal
            .durable(&longshore_protocol::id::AgentId::main(), ended)
            .unwrap();
    }
    let loaded = store::load(&"s".into(), dir.path()).unwrap();
    let (live, restored) = (bench.history(), loaded.agent.context.messages());
    assert_eq!(live.len(), restored.len());
    for (n, (live, restored)) in live.iter().zip(&restored).enumerate() {
        assert_eq!(live, restored, "message {n}");
    }
    assert_eq!(loaded.agent.context.tokens(), bench.agent.context.tokens());
    assert_eq!(loaded.agent.usage, bench.agent.usage);
    assert_eq!(
        (loaded.left, loaded.next_turn, loaded.damage.len()),
        (Left::default(), 41, 0)
    );
    assert!(std::fs::read_dir(dir.path().join("blobs")).unwrap().count() >= 2);
    // No line holds what stands in blobs.
    let text = std::fs::read_to_string(write::path(dir.path())).unwrap();
    assert!(
        text.lines().all(|line| line.len() < 400_000),
        "{:?}",
        text.lines().map(str::len).max()
    );
}

const BUSY: &str = r#"
turns:
  - steps: [{think: "Hm."}, {text: "a"}, {tool_call: {name: Read, args: {path: a}}}, {tool_call: {name: Write, args: {path: b, content: x}}}, {tool_call: {name: Read, args: {path: a}}}]
  - fail_first: [{status: 503}]
    steps: [{text: "b"}, {tool_call: {name: TodoList, args: {todos: [{title: t, status: done}]}}}, {tool_call: {name: AskUserQuestion, args: {questions: [{question: "Which?", header: W, options: [{label: a, description: a}, {label: b, description: b}]}]}}}]
  - steps: [{text: "ok"}]
on_exhausted: repeat_last
"#;

/// A home with a session in which much has happened.
pub(super) async fn busy() -> (Home, Session) {
    let home = Home::new();
    std::fs::write(home.ws.join("a"), "see\n").unwrap();
    let options = CreateOptions {
        mode: Some(Mode::Manual),
        ..home.options(BUSY)
    };
    let (handle, session) = home.sessions.create(options).await.unwrap();
    home.asks.will([
        Reply::option(OptionId::AllowSession),
        Reply::Unanswered("nobody is there"),
    ]);
    assert_eq!(run(&handle, "first").await.text, "ok");
    run(&handle, "second").await;
    handle.close().await.unwrap();
    (home, session)
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_line_it_goes_on_with_a_valid_history() {
    let (home, session) = busy().await;
    let path = write::path(&home.dir_of(&session));
    let whole = std::fs::read(&path).unwrap();
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', &whole)
        .map(|at| at + 1)
        .collect();
    assert!(ends.len() > 30, "{}", ends.len());
    let mut n_going_on = 0;
    for (n, end) in ends.iter().enumerate() {
        for torn in [0, 7] {
            let cut = (end + torn).min(whole.len());
            std::fs::write(&path, &whole[..cut]).unwrap();
            // The cache of that moment knew no more than the journal.
            let _none_yet = std::fs::remove_file(path.with_file_name("meta.json"));
            let killed = home.again();
            killed
                .asks
                .will((0..9).map(|_| Reply::Unanswered("nobody is there")));
            let handle = killed.sessions.open(&session.session_id).await.unwrap();
            let place = format!(
                "after {} lines: {}",
                n + 1,
                String::from_utf8_lossy(&whole[*end..])
                    .lines()
                    .next()
                    .unwrap_or("")
            );
            let goes_on = handle.view().await.unwrap().running;
            if let Some(turn) = &goes_on {
                let end = within(handle.wait(turn.clone())).await.unwrap();
                assert_eq!(end.reason, TurnReason::Completed, "{place}: {end:?}");
            }
            n_going_on += usize::from(goes_on.is_some());
            let loaded = store::load(&session.session_id, path.parent().unwrap()).unwrap();
            assert_eq!(loaded.left, Left::default(), "{place}");
            let history = loaded.agent.context.messages();
            valid_for_provider(&history)
                .unwrap_or_else(|why| panic!("{place}: {why}: {history:#?}"));
            let warnings = killed.events.only(&["warning"]);
            assert_eq!(
                warnings.len(),
                usize::from(torn > 0 && cut > *end),
                "{place}: {warnings:?}"
            );
            let next = handle.view().await.unwrap().session.turn_count + 1;
            let end = run(&handle, "go on").await;
            assert_eq!(
                (end.turn.as_str(), end.reason),
                (format!("t{next}").as_str(), TurnReason::Completed),
                "{place}: {end:?}"
            );
            handle.close().await.unwrap();
            let loaded = store::load(&session.session_id, path.parent().unwrap()).unwrap();
            let history = loaded.agent.context.messages();
            valid_for_provider(&history)
                .unwrap_or_else(|why| panic!("{place}, then: {why}: {history:#?}"));
            let turns = killed
                .sessions
                .transcript(&session.session_id, None, None)
                .await
                .unwrap()
                .items;
            assert!(turns.iter().all(|turn| turn.reason.is_some()), "{place}");
        }
    }
    assert!(n_going_on > 0, "no turn waited for a person");
}

#[tokio::test(start_paused = true)]
async fn damage_in_the_middle_is_passed_over_and_told_once() {
    let (home, session) = busy().await;
    let path = write::path(&home.dir_of(&session));
    let whole = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    for n in 0..lines.len() {
        let mut damaged: Vec<&str> = lines.clone();
        damaged[n] = "{\"v\": 1, \"seq\": ";
        std::fs::write(&path, damaged.join("\n") + "\n").unwrap();
        for n_told in [1, 0] {
            let again = home.again();
            let handle = again.sessions.open(&session.session_id).await.unwrap();
            assert_eq!(
                again.events.only(&["warning"]).len(),
                n_told,
                "line {n}: {:?}",
                again.events.lines()
            );
            assert_eq!(handle.view().await.unwrap().session.cwd, session.cwd);
            handle.close().await.unwrap();
            let loaded = store::load(&session.session_id, path.parent().unwrap()).unwrap();
            let history = loaded.agent.context.messages();
            valid_for_provider(&history)
                .unwrap_or_else(|why| panic!("{}: {why}: {history:#?}", lines[n]));
        }
    }
    // A head that is lost with its cache can't be made up.
    let damaged = format!("x\n{}\n", lines[1..].join("\n"));
    std::fs::write(&path, damaged).unwrap();
    std::fs::remove_file(path.with_file_name("meta.json")).unwrap();
    assert_eq!(
        home.again()
            .sessions
            .open(&session.session_id)
            .await
            .unwrap_err()
            .kind,
        ErrorKind::StorageCorrupt
    );
}

#[tokio::test(start_paused = true)]
async fn a_line_that_stands_twice_counts_once() {
    let (home, session) = busy().await;
    let dir = home.dir_of(&session);
    let before = store::load(&session.session_id, &dir).unwrap();
    let whole = std::fs::read_to_string(write::path(&dir)).unwrap();
    let twice: Vec<&str> = whole
        .lines()
        .flat_map(|line| std::iter::repeat_n(line, if line.contains("\"seq\"") { 2 } else { 1 }))
        .collect();
    std::fs::write(write::path(&dir), twice.join("\n") + "\n").unwrap();
    let after = store::load(&session.session_id, &dir).unwrap();
    assert_eq!(
        after.agent.context.messages(),
        before.agent.context.messages()
    );
    assert_eq!(
        (after.last.0, after.session.turn_count),
        (before.last.0, before.session.turn_count)
    );
    assert!(after.damage.is_empty());
}

#[tokio::test(start_paused = true)]
async fn loading_changes_nothing() {
    let (home, session) = busy().await;
    let path = write::path(&home.dir_of(&session));
    let whole = std::fs::read(&path).unwrap();
    for _ in 0..3 {
        let again = home.again();
        again.sessions.open(&session.session_id).await.unwrap();
        again.sessions.view(&session.session_id).await.unwrap();
        again
            .sessions
            .transcript(&session.session_id, None, None)
            .await
            .unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole);
        // Its own end would be recorded; here only the lock is given back.
        let handle = again.sessions.loaded(&session.session_id).unwrap();
        handle.close().await.unwrap();
        std::fs::write(&path, &whole).unwrap();
        std::fs::remove_file(path.with_file_name("meta.json")).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn numbers_are_gapless_and_events_can_be_read_from_any_of_them() {
    let (home, session) = busy().await;
    let dir = home.dir_of(&session);
    let seqs: Vec<u64> = std::fs::read_to_string(write::path(&dir))
        .unwrap()
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let log = &home.sessions.deps.store;
    let loaded = home.again();
    let handle = loaded.sessions.open(&session.session_id).await.unwrap();
    run(&handle, "more").await;
    let last = handle.view().await.unwrap().last_seq;
    assert!(last > seqs.len() as u64);
    for store in [log.clone(), loaded.sessions.deps.store.clone()] {
        for after in [0, 1, 7, last - 1, last] {
            let read = store
                .read_events(&session.session_id, after, usize::MAX)
                .await
                .unwrap();
            let numbers: Vec<u64> = read.iter().filter_map(|event| event.seq).collect();
            assert_eq!(numbers, (after + 1..=last).collect::<Vec<_>>());
        }
        assert_eq!(
            store
                .read_events(&session.session_id, 0, 1)
                .await
                .unwrap()
                .len(),
            1
        );
    }
}
