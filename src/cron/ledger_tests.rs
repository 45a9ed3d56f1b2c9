use longshore_protocol::value::cron::PauseReason;
use longshore_protocol::value::usage::Usage;

use super::ledger::{Fired, Ledger};
use crate::kernel::cron::{AsideJob, CronOp, StoredJob};
use crate::kernel::time::Timestamp;

pub(super) fn job(id: &str, cron: &str) -> StoredJob {
    StoredJob {
        id: id.into(),
        cron: cron.into(),
        prompt: format!("do {id}").into(),
        recurring: true,
        timezone: "UTC".into(),
        created_at: Timestamp(0),
        renewed_at: None,
        cursor: None,
        fired_at: None,
        fires: 0,
        unattended_fires: 0,
        usage: Usage::default(),
        paused: None,
    }
}

fn added(job: StoredJob) -> CronOp {
    CronOp::Added(Box::new(job))
}

fn ledger(ids: &[&str]) -> Ledger {
    let mut ledger = Ledger::default();
    for id in ids {
        ledger.apply(added(job(id, "0 * * * *")), Timestamp(0));
    }
    ledger
}

fn ids(ledger: &Ledger) -> Vec<&str> {
    ledger.jobs().iter().map(|job| job.id.as_str()).collect()
}

fn fire(id: &str, ideal: i64, is_last: bool) -> Fired {
    Fired {
        job: id.into(),
        ideal_at: Timestamp(ideal),
        is_last,
    }
}

#[test]
fn operations() {
    let mut ledger = ledger(&["a", "b", "c"]);
    ledger.apply(CronOp::Deleted { id: "b".into() }, Timestamp(1));
    ledger.apply(CronOp::Deleted { id: "b".into() }, Timestamp(1));
    ledger.apply(added(job("a", "5 * * * *")), Timestamp(1));
    assert_eq!(
        ids(&ledger),
        ["c", "a"],
        "the last of two lines for one id counts"
    );
    let reason = PauseReason::Host;
    ledger.apply(
        CronOp::Paused {
            id: "a".into(),
            reason,
        },
        Timestamp(2),
    );
    assert_eq!(ledger.get("a").unwrap().paused, Some(reason));
    ledger.apply(CronOp::Resumed { id: "a".into() }, Timestamp(5));
    let a = ledger.get("a").unwrap();
    assert_eq!(
        (a.paused, a.cursor),
        (None, Some(Timestamp(5))),
        "nothing is made up for"
    );
    ledger.apply(CronOp::Resumed { id: "a".into() }, Timestamp(9));
    assert_eq!(
        ledger.get("a").unwrap().cursor,
        Some(Timestamp(5)),
        "it was not paused"
    );
    ledger.apply(CronOp::Renewed { id: "a".into() }, Timestamp(7));
    let a = ledger.get("a").unwrap();
    assert_eq!(
        (a.renewed_at, a.cursor),
        (Some(Timestamp(7)), Some(Timestamp(5)))
    );
}

#[test]
fn a_one_shot_that_was_paused_keeps_what_it_missed() {
    let mut ledger = Ledger::default();
    let once = StoredJob {
        recurring: false,
        paused: Some(PauseReason::Host),
        ..job("a", "0 9 * * *")
    };
    ledger.apply(added(once), Timestamp(0));
    ledger.apply(CronOp::Resumed { id: "a".into() }, Timestamp(99));
    assert_eq!(ledger.get("a").unwrap().cursor, None);
}

#[test]
fn fires_and_what_they_cost() {
    let mut ledger = ledger(&["a", "b", "c"]);
    let turn = "t1".into();
    ledger.fired(
        &turn,
        &[
            fire("a", 60, false),
            fire("b", 120, true),
            fire("gone", 1, false),
        ],
        Timestamp(130),
    );
    assert_eq!(ids(&ledger), ["a", "c"]);
    let a = ledger.get("a").unwrap();
    assert_eq!(
        (a.cursor, a.fired_at, a.fires, a.unattended_fires),
        (Some(Timestamp(60)), Some(Timestamp(130)), 1, 1)
    );
    let usage = Usage {
        input_other: 100,
        output: 8,
        ..Usage::default()
    };
    ledger.turn_ended(&"t0".into(), &usage);
    assert_eq!(
        ledger.get("a").unwrap().usage,
        Usage::default(),
        "another turn"
    );
    ledger.turn_ended(&turn, &usage);
    ledger.turn_ended(&turn, &usage);
    let share = ledger.get("a").unwrap().usage;
    assert_eq!((share.input_other, share.output), (34, 3), "a third, once");
    ledger.attended();
    assert_eq!(ledger.get("a").unwrap().unattended_fires, 0);
    // One that fires once is gone whatever the record says.
    let mut once = Ledger::default();
    let job = StoredJob {
        recurring: false,
        ..job("o", "0 9 * * *")
    };
    once.apply(added(job), Timestamp(0));
    once.fired(&turn, &[fire("o", 1, false)], Timestamp(2));
    assert!(once.jobs().is_empty());
}

#[test]
fn a_snapshot_says_everything_and_keeps_what_cannot_be_read() {
    let mut before = ledger(&["a", "b"]);
    let aside = AsideJob {
        value: serde_json::json!({"id": 5}),
        reason: "bad".into(),
    };
    before.apply(CronOp::Unreadable(aside.clone()), Timestamp(1));
    before.fired(&"t1".into(), &[fire("a", 60, false)], Timestamp(61));
    assert_eq!(before.n_ops(), 3);
    let mut after = ledger(&["other"]);
    after.apply(before.snapshot(), Timestamp(2));
    assert_eq!((after.jobs(), after.aside()), (before.jobs(), &[aside][..]));
    assert_eq!(after.n_ops(), 0);
}

#[test]
fn a_copy_of_the_session_has_its_jobs_paused() {
    let CronOp::Snapshot { jobs, .. } = ledger(&["a", "b"]).for_fork() else {
        panic!("a snapshot");
    };
    assert_eq!(jobs.len(), 2);
    assert!(
        jobs.iter()
            .all(|job| job.paused == Some(PauseReason::Forked))
    );
}
