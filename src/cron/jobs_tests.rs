use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::cron::PauseReason;

use super::check::CronError;
use super::fire::Fire;
use super::jobs::JobSet;
use super::ledger::{Fired, Ledger};
use super::ledger_tests::job;
use super::zone::Zone;
use crate::config::values::CronConfig;
use crate::kernel::cron::{CronOp, NewJob, StoredJob};
use crate::kernel::fault::Fault;
use crate::kernel::time::Timestamp;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn rules() -> CronConfig {
    CronConfig {
        jitter: false,
        ..CronConfig::default()
    }
}

fn set_with(jobs: Vec<StoredJob>, rules: CronConfig, now: Timestamp) -> JobSet {
    let mut ledger = Ledger::default();
    for job in jobs {
        ledger.apply(CronOp::Added(Box::new(job)), now);
    }
    JobSet::new(ledger, rules, now)
}

fn made(id: &str, cron: &str, created: &str) -> StoredJob {
    StoredJob {
        created_at: at(created),
        ..job(id, cron)
    }
}

fn new(cron: &str, prompt: &str) -> NewJob {
    NewJob {
        cron: cron.into(),
        prompt: prompt.into(),
        recurring: true,
        timezone: None,
    }
}

fn due(set: &JobSet, now: Timestamp) -> Vec<Fire> {
    set.due(now, || "f".into())
}

fn ids(fires: &[Fire]) -> Vec<&str> {
    fires.iter().map(|fire| fire.job.id.as_str()).collect()
}

fn fired(set: &mut JobSet, fires: &[Fire], now: Timestamp) {
    let fired: Vec<Fired> = fires.iter().map(Fire::fired).collect();
    set.fired(&"t1".into(), &fired, now);
}

/// Makes a job with a counter as the source of ids.
fn check_new(set: &JobSet, new: &NewJob, now: Timestamp) -> Result<StoredJob, CronError> {
    let mut n = 0;
    set.check_new(new, &Zone::utc(), now, || {
        n += 1;
        format!("{n:08x}")
    })
}

#[test]
fn a_new_job_is_checked_in_order() {
    let now = at("2026-03-01T12:00:00Z");
    let set = set_with(vec![], rules(), now);
    let never = "0 0 31 2 *";
    let long = "€".repeat(2731);
    for (new, expected) in [
        (new("x * * * *", ""), "minute field"),
        (new(never, ""), "no time within the next 5 years"),
        (new("@daily", " "), "prompt is empty"),
        (new("@daily", &long), "8193 bytes"),
    ] {
        let error = check_new(&set, &new, now).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let off = CronConfig {
        enabled: false,
        ..rules()
    };
    let off = set_with(vec![], off, now);
    assert_eq!(
        check_new(&off, &new("x", ""), now),
        Err(CronError::Disabled)
    );
    let full = CronConfig {
        max_jobs: 1,
        ..rules()
    };
    let full = set_with(vec![job("a", "@daily")], full, now);
    assert_eq!(
        check_new(&full, &new("@daily", &long), now),
        Err(CronError::TooMany(1))
    );
    assert!(matches!(
        check_new(&full, &new(never, ""), now),
        Err(CronError::Never(_))
    ));
    let mars = NewJob {
        timezone: Some("Mars/Olympus".into()),
        ..new("@daily", "x")
    };
    let fault = Fault::from(check_new(&set, &mars, now).unwrap_err());
    assert_eq!(
        (fault.kind, &fault.data["path"]),
        (ErrorKind::InvalidParams, &"/timezone".into())
    );
}

#[test]
fn a_new_job_is_kept_in_its_one_form() {
    let now = at("2026-03-01T12:00:30Z");
    let set = set_with(vec![job("00000001", "@daily")], rules(), now);
    let wanted = NewJob {
        timezone: Some("europe/berlin".into()),
        ..new(" 0\t9 * *  mon ", "Look.")
    };
    let job = check_new(&set, &wanted, now).unwrap();
    assert_eq!(job.id.as_str(), "00000002", "the first id is taken");
    assert_eq!(
        (&*job.cron, &*job.timezone),
        ("0 9 * * mon", "Europe/Berlin")
    );
    assert_eq!(job.created_at, now);
}

#[test]
fn one_shot_jobs_for_a_time_that_has_just_passed() {
    let now = at("2026-03-01T12:00:30Z");
    let set = set_with(vec![], rules(), now);
    let once = |cron: &str| NewJob {
        recurring: false,
        ..new(cron, "x")
    };
    let error = check_new(&set, &once("0 12 1 3 *"), now).unwrap_err();
    assert!(error.to_string().contains("has passed"), "{error}");
    assert!(check_new(&set, &new("0 12 1 3 *", "x"), now).is_ok());
    assert!(check_new(&set, &once("1 12 1 3 *"), now).is_ok());
    assert!(
        check_new(&set, &once("0 12 13 2 *"), now).is_ok(),
        "349 days"
    );
}

#[test]
fn ids_have_one_form() {
    let set = set_with(vec![job("0badcafe", "@daily")], rules(), Timestamp(0));
    assert!(set.find("0badcafe").is_ok());
    for (id, expected) in [
        ("ABCDEF12", "8 lower-case hex digits"),
        ("abc", "8 lower-case hex digits"),
        ("0badcafe ", "8 lower-case hex digits"),
        ("00000000", "there is no cron job 00000000"),
    ] {
        let error = set.find(id).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_is_due_fires_in_order_and_no_more_than_a_batch() {
    let created = "2026-03-01T08:00:00Z";
    let mut jobs = vec![
        made("late", "30 9 * * *", created),
        made("early", "0 9 * * *", created),
        made("paused", "0 9 * * *", created),
        made("tomorrow", "0 8 * * *", created),
        made("bad", "0 25 * * *", created),
        made("same", "30 9 * * *", created),
    ];
    jobs[2].paused = Some(PauseReason::Host);
    let now = at("2026-03-01T10:00:00Z");
    let mut set = set_with(jobs, rules(), now);
    assert_eq!(ids(&due(&set, now)), ["early", "late", "same"]);
    assert_eq!(due(&set, at("2026-03-01T08:59:59Z")), []);
    let first = due(&set, now);
    fired(&mut set, &first, now);
    assert_eq!(due(&set, now), [], "each once");
    let early = set.ledger().get("early").unwrap();
    assert_eq!(early.cursor, Some(at("2026-03-01T09:00:00Z")));

    let many = (0..20).map(|n| made(&format!("{n:08x}"), "0 9 * * *", created));
    let mut set = set_with(many.collect(), rules(), now);
    for expected in [8, 8, 4, 0] {
        let fires = due(&set, now);
        assert_eq!(fires.len(), expected);
        fired(&mut set, &fires, now);
    }
}

#[test]
fn a_host_can_have_a_job_fire_at_once() {
    let now = at("2026-03-01T08:30:00Z");
    let mut jobs = vec![made("00000001", "0 9 * * *", "2026-03-01T08:00:00Z")];
    jobs[0].paused = Some(PauseReason::Host);
    let mut set = set_with(jobs, rules(), now);
    set.fire_by_hand("00000001").unwrap();
    let fires = due(&set, now);
    assert_eq!((ids(&fires), fires[0].due), (vec!["00000001"], None));
    fired(&mut set, &fires, now);
    assert_eq!(due(&set, now), []);
    let resumed = CronOp::Resumed {
        id: "00000001".into(),
    };
    set.apply(resumed, now);
    let next = &set.list(now)[0].job;
    assert_eq!(
        next.next_fire_at.as_deref(),
        Some("2026-03-01T09:00:00.000+00:00")
    );
    assert!(set.fire_by_hand("ffffffff").is_err());
}

#[test]
fn age() {
    let created = "2026-03-01T08:00:00Z";
    let once = StoredJob {
        recurring: false,
        ..made("once", "0 9 * * *", created)
    };
    let jobs = vec![made("often", "0 9 * * *", created), once];
    let now = at(created).plus_ms(8 * DAY);
    let mut set = set_with(jobs.clone(), rules(), now);
    let fires = due(&set, now);
    assert_eq!(
        fires
            .iter()
            .map(|fire| (fire.is_stale, fire.is_missed, fire.is_last()))
            .collect::<Vec<_>>(),
        [(true, false, true), (false, true, true)]
    );
    let listed = set.list(now);
    assert_eq!(
        (listed[0].job.stale, listed[0].age_ms),
        (true, 8 * DAY as u64)
    );
    assert!(!listed[1].job.stale);
    fired(&mut set, &fires, now);
    assert!(set.list(now).is_empty());

    let for_ever = CronConfig {
        max_age_days: 0,
        ..rules()
    };
    let set = set_with(jobs.clone(), for_ever, now);
    assert!(!due(&set, now)[0].is_stale);
    let mut set = set_with(jobs, rules(), now);
    let renewed = CronOp::Renewed { id: "often".into() };
    set.apply(renewed, now.plus_ms(-DAY));
    assert!(!due(&set, now)[0].is_stale);
    assert_eq!(set.list(now)[0].age_ms, DAY as u64);
    // A clock that is behind the making of a job.
    assert_eq!(set.list(at("2026-01-01T00:00:00Z"))[1].age_ms, 0);
}

#[test]
fn a_job_that_nobody_watches_is_paused() {
    let created = at("2026-03-01T08:00:00Z");
    let watched = CronConfig {
        max_unattended_fires: 2,
        ..rules()
    };
    let mut set = set_with(
        vec![made("a", "0 * * * *", "2026-03-01T08:00:00Z")],
        watched,
        created,
    );
    for n in 1..=2 {
        let now = created.plus_ms(n * HOUR);
        assert!(set.unattended(now).is_empty());
        let fires = due(&set, now);
        fired(&mut set, &fires, now);
    }
    let now = created.plus_ms(3 * HOUR);
    assert!(set.unattended(now.plus_ms(-1)).is_empty(), "not due yet");
    assert_eq!(set.unattended(now), ["a".into()]);
    set.attended();
    assert!(set.unattended(now).is_empty());
}

#[test]
fn what_could_not_be_delivered_waits_longer_each_time() {
    let created = "2026-03-01T08:00:00Z";
    let mut now = at("2026-03-01T09:00:00Z");
    let jobs = vec![
        made("bad", "0 9 * * *", created),
        made("good", "1 9 * * *", created),
    ];
    let mut set = set_with(jobs, rules(), now);
    for (n, pause) in [1, 2, 4, 8, 16, 32, 60, 60].into_iter().enumerate() {
        let fires: Vec<Fire> = due(&set, now)
            .into_iter()
            .filter(|fire| fire.job.id.as_str() == "bad")
            .collect();
        assert_eq!(fires.len(), 1, "{n}");
        let told: Vec<Fired> = fires.iter().map(Fire::fired).collect();
        assert_eq!(set.undelivered(&told, now), n == 0, "told once");
        let before = now.plus_ms(pause * 1000 - 1);
        assert!(!ids(&due(&set, before)).contains(&"bad"));
        now = now.plus_ms(pause * 1000);
        assert!(set.appointments(before).contains(&("bad".into(), now)));
    }
    assert!(
        ids(&due(&set, now)).contains(&"good"),
        "one does not stop the other"
    );
    let fires = due(&set, now);
    fired(&mut set, &fires, now);
    assert_eq!(due(&set, now), []);
}

#[test]
fn appointments_are_what_is_still_to_come() {
    let now = at("2026-03-01T09:30:00Z");
    let jobs = vec![
        made("due", "0 9 * * *", "2026-03-01T08:00:00Z"),
        made("next", "0 10 * * *", "2026-03-01T08:00:00Z"),
    ];
    let set = set_with(jobs.clone(), rules(), now);
    assert_eq!(
        set.appointments(now),
        [("next".into(), at("2026-03-01T10:00:00Z"))]
    );
    assert_eq!(set.next_due(), Some(at("2026-03-01T09:00:00Z")));
    let off = CronConfig {
        enabled: false,
        ..rules()
    };
    let off = set_with(jobs, off, now);
    assert_eq!((off.appointments(now), due(&off, now)), (vec![], vec![]));
}

#[test]
fn a_clock_that_is_set_back_makes_nothing_fire_twice() {
    let mut set = set_with(
        vec![made("a", "*/5 * * * *", "2026-03-01T08:00:00Z")],
        rules(),
        at("2026-03-01T08:00:00Z"),
    );
    let now = at("2026-03-01T09:00:00Z");
    let fires = due(&set, now);
    fired(&mut set, &fires, now);
    for minutes in (0..60).step_by(5) {
        let back = at("2026-03-01T08:00:00Z").plus_ms(minutes * 60_000);
        set.refresh(back);
        assert_eq!(due(&set, back), [], "{back}");
    }
    assert_eq!(due(&set, at("2026-03-01T09:05:00Z")).len(), 1);
    // A time that can't be true is not waited for.
    let mut set = set_with(
        vec![made("a", "*/5 * * * *", "2099-01-01T00:00:00Z")],
        rules(),
        now,
    );
    set.refresh(now);
    assert_eq!(set.next_due(), Some(at("2026-03-01T09:05:00Z")));
    let later = at("2026-03-01T09:05:00Z");
    set.refresh(later);
    let fires = due(&set, later);
    assert_eq!(fires[0].due.unwrap().n_coalesced, 1, "nothing is replayed");
    fired(&mut set, &fires, later);
    set.refresh(later);
    assert_eq!(set.next_due(), Some(at("2026-03-01T09:10:00Z")));
}

#[test]
fn a_job_that_cannot_be_read_is_listed_and_does_not_fire() {
    let now = at("2026-03-01T09:00:00Z");
    let mut nowhere = made("b", "0 9 * * *", "2026-03-01T08:00:00Z");
    nowhere.timezone = "Mars/Olympus".into();
    let jobs = vec![
        made("a", "61 * * * *", "2026-03-01T08:00:00Z"),
        nowhere,
        made("c", "0 9 * * *", "2026-03-01T08:00:00Z"),
    ];
    let set = set_with(jobs, rules(), now);
    let listed = set.list(now);
    assert_eq!(listed[0].job.schedule, "61 * * * *");
    assert!(
        listed[0]
            .job
            .error
            .as_ref()
            .unwrap()
            .contains("minute field")
    );
    assert!(
        listed[1]
            .job
            .error
            .as_ref()
            .unwrap()
            .contains("Mars/Olympus")
    );
    assert_eq!(listed[0].job.next_fire_at, None);
    assert_eq!(ids(&due(&set, now)), ["c"]);
}
