//! A disk that fails at each of its steps in turn, under a short busy session: what was said stays said, what could not
//! be kept is said to be, and the session goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::SessionId;
use longshore_protocol::value::turn::TurnReason;

use super::journal::read::{Mark, events};
use super::store;
use super::testing::{Home, run};
use crate::agent::testing::valid_for_provider;
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::os::fs::{Fault as DiskFault, FaultyDisk, Op};

const BUSY: &str = r#"
turns:
  - steps: [{think: "Hm."}, {text: "a"}, {tool_call: {name: Write, args: {path: "f{{turn}}", content: x}}}, {tool_call: {name: TodoList, args: {todos: [{title: t, status: done}]}}}]
  - steps: [{tool_call: {name: Read, args: {path: f1}}}]
  - steps: [{text: "ok"}]
on_exhausted: loop
"#;

/// What was said with a number.
type Said = BTreeMap<u64, DomainEvent>;

/// How a disk fails.
#[derive(Clone, Copy, Debug)]
enum How {
    /// Once.
    Once(Op, i32),
    /// Until it is healed.
    Lasting(Op, i32),
    /// In the middle of what is written.
    Torn(i32),
}

impl How {
    fn at(self, n: usize) -> FaultyDisk {
        let disk = FaultyDisk::new().lazy();
        match self {
            Self::Once(op, errno) => disk.fail_at(op, n, DiskFault::Errno(errno)),
            Self::Lasting(op, errno) => disk.fail_from(op, n, DiskFault::Errno(errno)),
            Self::Torn(errno) => disk.fail_at(Op::Write, n, DiskFault::Short(11)).fail_at(
                Op::Write,
                n + 1,
                DiskFault::Errno(errno),
            ),
        }
    }

    fn op(self) -> Op {
        match self {
            Self::Once(op, _) | Self::Lasting(op, _) => op,
            Self::Torn(_) => Op::Write,
        }
    }

    fn kind(self) -> ErrorKind {
        match self {
            Self::Once(_, libc::ENOSPC)
            | Self::Lasting(_, libc::ENOSPC)
            | Self::Torn(libc::ENOSPC) => ErrorKind::StorageFull,
            _ => ErrorKind::StorageError,
        }
    }
}

/// Three turns on a disk; `between` comes before the last. Gives the session and how many turns failed.
async fn busy(home: &Home, how: How, between: impl Fn()) -> (SessionId, usize) {
    // The last input is too large to stand in a line.
    let inputs = ["one".to_owned(), "two".to_owned(), "z".repeat(70_000)];
    let (handle, session) = match home.sessions.create(home.options(BUSY)).await {
        Ok(made) => made,
        Err(fault) => {
            is_of_the_disk(&fault, how);
            between();
            home.create(BUSY).await
        }
    };
    let mut n_failed = 0;
    for (n, input) in inputs.iter().enumerate() {
        if n == 2 {
            between();
        }
        let end = run(&handle, input).await;
        if end.reason == TurnReason::Completed {
            continue;
        }
        let error = end.error.unwrap();
        assert_eq!(
            (end.reason, error.kind),
            (TurnReason::Failed, how.kind()),
            "{how:?}: {error:?}"
        );
        n_failed += 1;
    }
    if let Err(fault) = handle.close().await {
        is_of_the_disk(&fault, how);
    }
    (session.session_id, n_failed)
}

fn is_of_the_disk(fault: &Fault, how: How) {
    assert_eq!(fault.kind, how.kind(), "{how:?}: {fault}");
}

fn said(home: &Home, id: &SessionId) -> Said {
    let events = home.events.events();
    let of_session = events.iter().filter(|stamped| stamped.session == *id);
    of_session
        .filter_map(|stamped| Some((stamped.seq?, stamped.event.clone())))
        .collect()
}

/// Runs a session once for each step of the disk that there is to fail.
async fn each_in_turn(how: How) {
    let (mut n, mut n_failed) = (0, 0);
    loop {
        let disk = Arc::new(how.at(n));
        let home = Home::on_disk(disk.clone());
        let healing = disk.clone();
        let (id, failed) = busy(&home, how, move || healing.heal()).await;
        let n_calls = disk.calls(how.op());
        n_failed += failed;
        goes_on(&home, &id, &format!("{how:?} at {n}")).await;
        n += 1;
        if n > n_calls {
            break;
        }
    }
    // The faults met what they were meant for.
    let expected = match how.op() {
        Op::Write => 30,
        Op::SyncData => 2,
        Op::Truncate | Op::Rename | Op::SyncDir => 0,
    };
    assert!(
        n_failed >= expected,
        "{how:?}: {n_failed} turns failed of {n} runs"
    );
}

#[tokio::test(start_paused = true)]
async fn every_write_fails_in_turn() {
    each_in_turn(How::Once(Op::Write, libc::EIO)).await;
}

#[tokio::test(start_paused = true)]
async fn the_disk_is_full_from_every_write_on() {
    each_in_turn(How::Lasting(Op::Write, libc::ENOSPC)).await;
}

#[tokio::test(start_paused = true)]
async fn every_write_is_cut_short_in_turn() {
    each_in_turn(How::Torn(libc::ENOSPC)).await;
}

#[tokio::test(start_paused = true)]
async fn every_other_step_fails_in_turn() {
    for how in [
        How::Once(Op::SyncData, libc::EIO),
        How::Once(Op::Rename, libc::EIO),
        How::Lasting(Op::SyncDir, libc::EIO),
        How::Once(Op::Truncate, libc::EIO),
    ] {
        each_in_turn(how).await;
    }
}

/// Everything that was said is there, and the session goes on.
async fn goes_on(home: &Home, id: &SessionId, what: &str) {
    let said = said(home, id);
    let again = home.again_on(Arc::new(FaultyDisk::new().lazy()));
    let dir = again.sessions.deps.store.find(id).unwrap();
    let handle = again
        .sessions
        .open(id)
        .await
        .unwrap_or_else(|fault| panic!("{what}: {fault}"));
    let kept: Said = events(id, &dir, Mark::default(), 0, usize::MAX)
        .unwrap()
        .events
        .iter()
        .map(|stamped| (stamped.seq.unwrap(), stamped.event.clone()))
        .collect();
    for (seq, event) in &said {
        assert_eq!(kept.get(seq), Some(event), "{what}: event {seq}");
    }
    assert_eq!(
        kept.len() as u64,
        *kept.keys().last().unwrap(),
        "{what}: no gap"
    );
    let loaded = store::load(id, &dir).unwrap();
    assert!(loaded.damage.is_empty(), "{what}: {:?}", loaded.damage);
    assert_eq!(loaded.left, crate::agent::open::Left::default(), "{what}");
    let history = loaded.agent.context.messages();
    valid_for_provider(&history).unwrap_or_else(|why| panic!("{what}: {why}: {history:#?}"));
    let end = run(&handle, "go on").await;
    assert_eq!(end.reason, TurnReason::Completed, "{what}: {end:?}");
    handle.close().await.unwrap();
    let turns = again
        .sessions
        .transcript(id, None, None)
        .await
        .unwrap()
        .items;
    assert!(
        turns.iter().all(|turn| turn.reason.is_some()),
        "{what}: {turns:?}"
    );
}

/// Whoever takes the place of a session's lock, or of its journal, ends all writing of the one before.
#[tokio::test(start_paused = true)]
async fn a_writer_that_lost_its_lock_writes_no_more() {
    let says = "turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last";
    for (name, kind) in [
        ("lock", ErrorKind::SessionLocked),
        ("journal.jsonl", ErrorKind::StorageError),
    ] {
        let home = Home::new();
        let (handle, session) = home.create(says).await;
        run(&handle, "one").await;
        let dir = home.dir_of(&session);
        crate::os::fs::rename(&dir.join(name), &dir.join("old")).unwrap();
        if name == "journal.jsonl" {
            let bytes = crate::os::fs::read(&dir.join("old")).unwrap();
            crate::os::fs::write_private(&dir.join(name), &bytes).unwrap();
        }
        let again = home.again();
        // The lock file is another one now; the journal itself is still locked by the one that writes it.
        let refused = again.sessions.open(&session.session_id).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::SessionLocked, "{name}: {refused}");
        let before = crate::os::fs::read(&dir.join("journal.jsonl")).unwrap();
        let end = run(&handle, "two").await;
        assert_eq!(end.error.unwrap().kind, kind, "{name}");
        let error = handle.close().await;
        assert!(error.is_ok(), "{name}: {error:?}");
        assert_eq!(
            crate::os::fs::read(&dir.join("journal.jsonl")).unwrap(),
            before,
            "{name}"
        );
        let handle = again.sessions.open(&session.session_id).await.unwrap();
        assert_eq!(run(&handle, "three").await.reason, TurnReason::Completed);
        handle.close().await.unwrap();
    }
}
