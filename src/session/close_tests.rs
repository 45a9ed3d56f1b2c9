#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out files and look at them"
)]

use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::session::{Mode, Session, Status};
use longshore_protocol::value::turn::{TurnReason, WhenBusy};

use super::actor::{Actor, Parts};
use super::journal::write::{self, Journal, Opening};
use super::testing::{Home, input, run, start, within};
use super::{CreateOptions, SessionHandle, store};
use crate::agent::Agent;
use crate::agent::testing::valid_for_provider;
use crate::cron::ledger::Ledger;
use crate::os::fs::{Fault as DiskFault, FaultyDisk, Op};
use crate::store::append_log::AppendLog;

const HANGS: &str = "turns: [{steps: [{text: Hel}, {hang: true}]}]\non_exhausted: repeat_last";

#[tokio::test(start_paused = true)]
async fn a_close_ends_what_runs_and_what_waits() {
    let home = Home::new();
    let (handle, session) = home.create(HANGS).await;
    start(&handle, "a", WhenBusy::Reject).await;
    home.events.until("message/delta i1 Hel").await;
    let queued = start(&handle, "b", WhenBusy::Queue).await;
    let (waited, waited_too, first, second) = tokio::join!(
        within(handle.wait("t1".into())),
        within(handle.wait(queued.turn)),
        within(handle.close()),
        within(handle.close()),
    );
    assert_eq!(
        (waited.unwrap().reason, waited_too.unwrap().reason),
        (TurnReason::Cancelled, TurnReason::Cancelled)
    );
    first.unwrap();
    second.unwrap();
    let ends = home
        .events
        .only(&["turn/ended", "session/closed", "session/status"]);
    assert_eq!(ends.len(), 6, "{ends:?}");
    assert_eq!(ends[4..], ["session/closed", "session/status closed"]);
    assert_eq!(
        handle.view().await.unwrap_err().kind,
        ErrorKind::SessionNotFound
    );
    home.sessions.close(&session.session_id).await.unwrap();
    assert_eq!(home.sessions.loaded_count(), 0);
    // It can be opened again, here or elsewhere.
    let again = home.again();
    let view = again
        .sessions
        .open(&session.session_id)
        .await
        .unwrap()
        .view()
        .await
        .unwrap();
    assert_eq!((view.session.status, view.running), (Status::Idle, None));
    assert_eq!(
        again.events.only(&["turn/"]).len(),
        0,
        "nothing was left open"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_in_a_session_that_is_being_closed() {
    let home = Home::new();
    let script = "turns: [{steps: [{tool_call: {name: AskUserQuestion, args: {questions: [{question: Which one?, header: Which, options: \
                  [{label: a, description: a}, {label: b, description: b}]}]}}}]}]\non_exhausted: repeat_last";
    let (handle, _) = home.create(script).await;
    home.asks.will([crate::agent::testing::Reply::Never]);
    start(&handle, "a", WhenBusy::Reject).await;
    home.events.until("question/requested q1").await;
    let (closed, refused) = tokio::join!(within(handle.close()), async {
        handle.start(input("b"), WhenBusy::Queue).await
    });
    closed.unwrap();
    let kind = refused.unwrap_err().kind;
    assert!(
        matches!(kind, ErrorKind::SessionBusy | ErrorKind::SessionNotFound),
        "{kind:?}"
    );
    assert!(home.events.only(&["turn/queued"]).is_empty());
    let questions = home.events.only(&["question/"]);
    assert_eq!(
        questions,
        ["question/requested q1", "question/resolved q1 withdrawn"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_never_queued_does_not_hold_a_close() {
    let home = Home::new();
    let (handle, _) = home.create(HANGS).await;
    start(&handle, "a", WhenBusy::Reject).await;
    home.events.until("message/delta i1 Hel").await;
    let held = handle.start(input("b"), WhenBusy::Queue).await.unwrap();
    within(handle.close()).await.unwrap();
    let n = home.events.lines().len();
    held.gate.release();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(
        home.events
            .lines()
            .iter()
            .filter(|line| line.contains("t2"))
            .count(),
        1,
        "its end is shown, not kept"
    );
    assert!(
        home.events.events()[n..]
            .iter()
            .all(|event| event.seq.is_none()),
        "another process may write the journal now"
    );
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_session_leaves_nothing() {
    let home = Home::new();
    let options = CreateOptions {
        ephemeral: true,
        ..home.options("turns: [{steps: [{text: ok}]}]")
    };
    let (handle, session) = home.sessions.create(options).await.unwrap();
    run(&handle, "a").await;
    let dir = home
        .sessions
        .deps
        .store
        .ephemeral_dir()
        .join(session.session_id.as_str());
    assert!(
        dir.is_dir()
            && home
                .sessions
                .transcript(&session.session_id, None, None)
                .await
                .unwrap()
                .items
                .len()
                == 1
    );
    assert!(
        home.sessions
            .list(super::list::ListFilter::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    handle.close().await.unwrap();
    assert!(!dir.exists());
    let gone = home.sessions.open(&session.session_id).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::SessionNotFound);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_closes_all_within_one_deadline() {
    let home = Home::new();
    for _ in 0..3 {
        let (handle, _) = home.create(HANGS).await;
        start(&handle, "a", WhenBusy::Reject).await;
    }
    let begun = tokio::time::Instant::now();
    within(home.sessions.shutdown(std::time::Duration::from_secs(5))).await;
    assert!(begun.elapsed().as_secs() <= 5);
    assert_eq!(
        (home.sessions.loaded_count(), home.sessions.running_count()),
        (0, 0)
    );
    assert_eq!(home.events.only(&["session/closed"]).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_session_is_gone() {
    let home = Home::new();
    let (handle, session) = home.create(HANGS).await;
    start(&handle, "a", WhenBusy::Reject).await;
    let dir = home.dir_of(&session);
    home.sessions.delete(&session.session_id).await.unwrap();
    assert!(!dir.exists());
    home.sessions.delete(&session.session_id).await.unwrap();
    assert_eq!(
        home.sessions
            .view(&session.session_id)
            .await
            .unwrap_err()
            .kind,
        ErrorKind::SessionNotFound
    );
}

#[tokio::test(start_paused = true)]
async fn one_process_at_a_time_has_a_session() {
    let home = Home::new();
    let (handle, session) = home.create("turns: [{steps: [{text: ok}]}]").await;
    let other = home.again();
    let locked = other.sessions.open(&session.session_id).await.unwrap_err();
    assert_eq!(
        (locked.kind, locked.data["pid"].as_u64()),
        (
            ErrorKind::SessionLocked,
            Some(u64::from(std::process::id()))
        )
    );
    // Looking is possible all the same.
    assert_eq!(
        other
            .sessions
            .list(super::list::ListFilter::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    other
        .sessions
        .transcript(&session.session_id, None, None)
        .await
        .unwrap();
    other.sessions.view(&session.session_id).await.unwrap();
    handle.close().await.unwrap();
    // Both hosts of one server get the same session, loaded once.
    let (a, b) = tokio::join!(
        other.sessions.open(&session.session_id),
        other.sessions.open(&session.session_id)
    );
    assert!(a.is_ok() && b.is_ok());
    assert_eq!(other.sessions.loaded_count(), 1);
}

/// A session whose journal stands on a disk that fails from some write on.
pub(super) fn on_disk(
    home: &Home,
    session: &Session,
    script: &str,
    disk: &Arc<FaultyDisk>,
) -> SessionHandle {
    let deps = &home.sessions.deps;
    let dir = home
        .ws
        .join("../home/sessions/wd_x")
        .join(session.session_id.as_str());
    std::fs::create_dir_all(&dir).unwrap();
    let log = AppendLog::open_on(&write::path(&dir), disk.clone())
        .unwrap()
        .log;
    let opening = Opening {
        session: session.session_id.clone(),
        dir: dir.clone(),
        clock: deps.clock.clone(),
        publish: deps.publish.clone(),
        disk: disk.clone(),
        lock: None,
    };
    let journal = Arc::new(Journal::new(opening, log, deps.clock.now()));
    let script: Option<Arc<str>> = Some(script.into());
    journal.head(session, script.clone()).unwrap();
    let lock = store::lock(&dir, deps.clock.now()).unwrap();
    let (session, agent) = (session.clone(), Agent::new(session.session_id.clone()));
    Actor::begin(
        deps,
        Parts {
            gone: std::collections::HashSet::new(),
            warnings: Vec::new(),
            session,
            script,
            agent,
            journal,
            lock,
            dir,
            next_turn: 1,
            tasks: super::tasks::TaskFacts::default(),
            jobs: Ledger::default(),
            left: crate::agent::open::Left::default(),
        },
    )
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_fails_the_turn_and_the_session_goes_on_once_there_is_space() {
    let script = "turns: [{steps: [{text: a}, {tool_call: {name: Write, args: {path: f, content: x}}}]}, {steps: [{text: ok}]}]\n\
                  on_exhausted: loop";
    let mut n_failed = 0;
    for n in 1.. {
        let home = Home::new();
        let (first, mut session) = home.create(script).await;
        first.close().await.unwrap();
        session.session_id = format!("full{n}").into();
        let disk =
            Arc::new(FaultyDisk::new().fail_from(Op::Write, n, DiskFault::Errno(libc::ENOSPC)));
        let handle = on_disk(&home, &session, script, &disk);
        let end = run(&handle, "go").await;
        disk.heal();
        let whole = end.reason == TurnReason::Completed;
        if !whole {
            n_failed += 1;
            let error = end.error.unwrap();
            assert_eq!(
                (end.reason, error.kind),
                (TurnReason::Failed, ErrorKind::StorageFull),
                "write {n}"
            );
            assert!(error.message.contains("no space left"), "{error:?}");
        }
        assert_eq!(
            handle.view().await.unwrap().session.status,
            Status::Idle,
            "write {n}"
        );
        assert_eq!(
            run(&handle, "again").await.reason,
            TurnReason::Completed,
            "write {n}"
        );
        handle.close().await.unwrap();
        let dir = home
            .ws
            .join("../home/sessions/wd_x")
            .join(session.session_id.as_str());
        let loaded = store::load(&session.session_id, &dir).unwrap();
        assert!(
            loaded.damage.is_empty() && loaded.left == crate::agent::open::Left::default(),
            "write {n}: {:?}",
            loaded.left
        );
        let history = loaded.agent.context.messages();
        valid_for_provider(&history).unwrap_or_else(|why| panic!("write {n}: {why}: {history:#?}"));
        let turns = home
            .sessions
            .transcript(&session.session_id, None, None)
            .await
            .unwrap()
            .items;
        assert!(
            turns.iter().all(|turn| turn.reason.is_some()),
            "write {n}: {turns:?}"
        );
        if whole {
            break;
        }
    }
    assert!(n_failed > 10, "{n_failed}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_commands_left_running_ends_with_the_session() {
    let home = Home::new();
    let processes = home.sessions.deps.processes.clone();
    let bash = "turns: [{steps: [{tool_call: {name: Bash, args: {command: 'true'}}}]}, {steps: [{text: ok}]}]";
    let write = "turns: [{steps: [{tool_call: {name: Write, args: {path: a, content: x}}}]}]";
    // A turn that panics (nobody is scripted to answer its ask) leaves nobody who knows whether commands were run.
    for (script, mode, ends) in [
        (bash, Mode::Yolo, true),
        (write, Mode::Manual, true),
        (write, Mode::Yolo, false),
    ] {
        let options = CreateOptions {
            mode: Some(mode),
            ..home.options(script)
        };
        let (handle, session) = home.sessions.create(options).await.unwrap();
        run(&handle, "go").await;
        let id = session.session_id.as_str();
        let left = crate::os::process::Command::new("/bin/sh", &home.ws)
            .args(["-c", "exec sleep 1000"])
            .env([("LONGSHORE_SESSION_ID", id)])
            .mark(format!("bash-{id}"));
        let mut left = processes.spawn(left).await.unwrap();
        handle.close().await.unwrap();
        if ends {
            left.wait().await;
        }
        assert_eq!(processes.n_running(), usize::from(!ends), "{script}");
        left.stop(std::time::Duration::ZERO);
        left.wait().await;
    }
}
