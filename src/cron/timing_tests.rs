//! Jitter, coalescing, and where the next appointment is looked for.

use std::sync::Arc;

use super::timing::{Due, Slot, Timing, base_of, jitter_of};
use super::zone::Zone;
use crate::kernel::time::Timestamp;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn timing(cron: &str, id: &str) -> Timing {
    Timing {
        expression: Arc::new(cron.parse().unwrap()),
        zone: Zone::utc(),
        recurring: true,
        jitter: jitter_of(id),
    }
}

fn once(cron: &str) -> Timing {
    Timing {
        recurring: false,
        ..timing(cron, "ffffffff")
    }
}

#[test]
fn a_place_in_the_crowd_is_part_of_the_id() {
    assert!(jitter_of("00000000").abs() < f64::EPSILON);
    assert!((jitter_of("80000000") - 0.5).abs() < f64::EPSILON);
    assert!(jitter_of("ffffffff") < 1.0 && jitter_of("ffffffff") > 0.999);
    assert!(jitter_of("not hex").abs() < f64::EPSILON);
}

#[test]
fn recurring_jobs_are_late_by_a_part_of_their_gap() {
    let base = at("2026-01-01T12:00:00Z");
    for (cron, id, ideal, late_ms) in [
        ("*/5 * * * *", "00000000", "2026-01-01T12:05:00Z", 0),
        ("*/5 * * * *", "80000000", "2026-01-01T12:05:00Z", 15_000),
        ("*/5 * * * *", "ffffffff", "2026-01-01T12:05:00Z", 29_999),
        ("0 * * * *", "80000000", "2026-01-01T13:00:00Z", 180_000),
        // Never more than a quarter of an hour.
        ("0 9 * * *", "ffffffff", "2026-01-02T09:00:00Z", 899_999),
        ("0 9 1 1 *", "80000000", "2027-01-01T09:00:00Z", 450_000),
    ] {
        let slot = timing(cron, id).next(base).unwrap();
        let ideal = at(ideal);
        let due = ideal.plus_ms(late_ms);
        assert_eq!(slot, Slot { ideal, due }, "{cron} {id}");
    }
    // Where nothing follows within reach, a day is assumed.
    let leap = timing("0 0 29 2 *", "80000000");
    let slot = leap.next(at("2095-01-01T00:00:00Z")).unwrap();
    assert_eq!(slot.due.0 - slot.ideal.0, 450_000);
}

#[test]
fn one_shot_jobs_are_due_when_they_say() {
    for (created, cron, due) in [
        ("2026-01-01T08:59:30Z", "0 9 * * *", "2026-01-01T09:00:00Z"),
        ("2026-01-01T09:00:00Z", "7 * * * *", "2026-01-01T09:07:00Z"),
    ] {
        let (job, due) = (once(cron), at(due));
        assert_eq!(job.next(at(created)), Some(Slot { ideal: due, due }));
        assert_eq!(job.due(at(created), due.plus_ms(-1)), None);
        let found = job.due(at(created), due.plus_ms(86_400_000 * 30));
        let expected = Due {
            n_coalesced: 1,
            first: due,
            last: due,
        };
        assert_eq!(found, Some(expected), "once, however late");
    }
}

#[test]
fn what_was_missed_is_one_fire() {
    for (cron, id, base, now, n, last) in [
        // Made at 22:13:20, looked at 23 minutes later.
        (
            "*/5 * * * *",
            "00000000",
            "2026-01-01T22:13:20Z",
            "2026-01-01T22:36:20Z",
            5,
            "2026-01-01T22:35:00Z",
        ),
        // The last one still waits for its jitter: it is not lost.
        (
            "*/5 * * * *",
            "ffffffff",
            "2026-01-01T22:13:20Z",
            "2026-01-01T22:35:20Z",
            4,
            "2026-01-01T22:30:00Z",
        ),
        (
            "*/5 * * * *",
            "ffffffff",
            "2026-01-01T22:30:00Z",
            "2026-01-01T22:35:30Z",
            1,
            "2026-01-01T22:35:00Z",
        ),
        (
            "0 9 * * *",
            "00000000",
            "2026-01-01T12:00:00Z",
            "2026-01-05T08:59:59Z",
            3,
            "2026-01-04T09:00:00Z",
        ),
        // Counting has an end, but nothing is left behind to fire again at once.
        (
            "* * * * *",
            "00000000",
            "2026-01-01T00:00:00Z",
            "2026-02-01T00:00:30Z",
            10_000,
            "2026-02-01T00:00:00Z",
        ),
        (
            "* * * * *",
            "ffffffff",
            "2026-01-01T00:00:00Z",
            "2026-02-01T00:00:03Z",
            10_000,
            "2026-01-31T23:59:00Z",
        ),
        (
            "* * * 1 *",
            "00000000",
            "2026-01-01T00:00:00Z",
            "2026-10-01T00:00:00Z",
            10_000,
            "2026-01-31T23:59:00Z",
        ),
    ] {
        let due = timing(cron, id).due(at(base), at(now)).unwrap();
        assert_eq!(
            (due.n_coalesced, due.last),
            (n, at(last)),
            "{cron} {id} at {now}"
        );
        assert!(due.first > at(base) && due.first <= due.last);
    }
}

#[test]
fn jitter_that_is_pending_is_waited_for() {
    let job = timing("*/5 * * * *", "ffffffff");
    let fired = at("2026-01-01T12:05:00Z");
    assert_eq!(job.due(fired, at("2026-01-01T12:10:20Z")), None);
    let due = job.due(fired, at("2026-01-01T12:10:30Z")).unwrap();
    assert_eq!((due.n_coalesced, due.last), (1, at("2026-01-01T12:10:00Z")));
}

#[test]
fn no_jitter_reaches_the_next_instant() {
    let job = timing("*/5 * * * *", "ffffffff");
    let mut base = at("2026-03-08T06:00:00Z");
    for _ in 0..300 {
        let slot = job.next(base).unwrap();
        let next = job.next(slot.ideal).unwrap();
        assert!(slot.ideal <= slot.due && slot.due < next.ideal);
        base = slot.ideal;
    }
}

#[test]
fn where_the_next_appointment_is_looked_for() {
    let now = at("2026-01-10T12:00:00Z");
    let (first, fifth) = ("2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z");
    let (hour_ahead, far) = ("2026-01-10T13:00:00Z", "2099-01-01T00:00:00Z");
    for (created, cursor, base) in [
        (first, None, Some(first)),
        (first, Some(fifth), Some(fifth)),
        (fifth, Some(first), Some(fifth)),
        // The clock was set back an hour: what was answered for stays so.
        (first, Some(hour_ahead), Some(hour_ahead)),
        // What lies far ahead is no memory.
        (first, Some(far), None),
        (far, None, None),
        (far, Some(first), Some(first)),
        (far, Some(far), None),
    ] {
        let found = base_of(at(created), cursor.map(at), now);
        assert_eq!(found, base.map(at), "{created} {cursor:?}");
    }
}
