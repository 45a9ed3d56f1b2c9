#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out journals and look at them"
)]

use std::io::Write as _;
use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::cron::{CronJob, PauseReason};
use longshore_protocol::value::turn::WhenBusy;
use longshore_protocol::value::usage::Usage;

use super::close_tests::on_disk;
use super::cron::Renew;
use super::journal::write;
use super::testing::{Home, run, start, within};
use super::{CreateOptions, SessionHandle, store};
use crate::config::values::{Config, CronConfig};
use crate::kernel::cron::NewJob;
use crate::kernel::event::DomainEvent;
use crate::kernel::port::Ability;
use crate::kernel::time::Timestamp;
use crate::os::fs::{Fault as DiskFault, FaultyDisk, Op};

const SAYS_OK: &str = "turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last";
/// The first answer never ends, the others do at once.
const HANGS_FIRST: &str = "turns: [{steps: [{text: Hel}, {hang: true}]}, {steps: [{text: ok}]}]\non_exhausted: repeat_last";

fn config() -> Config {
    Config {
        cron: CronConfig {
            jitter: false,
            ..CronConfig::default()
        },
        ..Config::default()
    }
}

fn new_job(cron: &str, prompt: &str) -> NewJob {
    NewJob {
        cron: cron.into(),
        prompt: prompt.into(),
        recurring: true,
        timezone: Some("UTC".into()),
    }
}

fn once(cron: &str, prompt: &str) -> NewJob {
    NewJob {
        recurring: false,
        ..new_job(cron, prompt)
    }
}

async fn make(handle: &SessionHandle, new: NewJob) -> CronJob {
    handle.create_job(new).await.unwrap()
}

async fn jobs(handle: &SessionHandle) -> Vec<CronJob> {
    let listed = handle.cron_jobs().await.unwrap();
    listed.into_iter().map(|listed| listed.job).collect()
}

/// The clock says another time, and the session looks.
fn now_is(home: &Home, handle: &SessionHandle, now: &str) {
    home.clock.set_wall(Timestamp::parse(now).unwrap());
    handle.door().look();
}

async fn ended(home: &Home, n: usize) {
    home.events
        .until_all(&format!("{n} turns"), |lines| {
            let n_ended = lines.iter().filter(|line| line.starts_with("turn/ended"));
            n_ended.count() >= n
                && lines
                    .last()
                    .is_some_and(|line| line == "session/status idle")
        })
        .await;
}

/// Longer than any gather; time is paused.
async fn quiet(handle: &SessionHandle) {
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert_eq!(handle.view().await.unwrap().running, None);
}

#[tokio::test(start_paused = true)]
async fn a_job_is_the_same_after_a_restart_and_does_not_fire_because_of_it() {
    let home = Home::with(config());
    let (handle, session) = home.create(SAYS_OK).await;
    let daily = make(&handle, new_job("0 9 * * *", "daily")).await;
    let paused = make(&handle, new_job("0 8 * * *", "paused")).await;
    handle.pause_job(paused.job_id.as_str()).await.unwrap();
    now_is(&home, &handle, "2026-01-01T09:00:00Z");
    ended(&home, 1).await;
    let before = jobs(&handle).await;
    assert_eq!(
        (before[0].job_id.clone(), before[0].fires),
        (daily.job_id, 1)
    );
    assert_eq!(before[1].paused, Some(PauseReason::Host));
    handle.close().await.unwrap();
    for (now, n_turns) in [
        ("2026-01-01T13:24:00Z", 0),
        ("2026-01-02T08:59:59Z", 0),
        ("2026-01-02T09:00:00Z", 1),
    ] {
        let home = home.again_with(config());
        home.clock.set_wall(Timestamp::parse(now).unwrap());
        let handle = home.sessions.open(&session.session_id).await.unwrap();
        handle.door().look();
        if n_turns == 0 {
            quiet(&handle).await;
            assert_eq!(jobs(&handle).await, before, "{now}");
        } else {
            ended(&home, n_turns).await;
        }
        assert_eq!(home.events.only(&["turn/started"]).len(), n_turns, "{now}");
        handle.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_fire_stands_in_the_record_of_its_turn() {
    let home = Home::with(config());
    let (handle, session) = home.create(SAYS_OK).await;
    make(&handle, new_job("0 * * * *", "often")).await;
    make(&handle, once("30 1 * * *", "once")).await;
    now_is(&home, &handle, "2026-01-01T02:00:30Z");
    ended(&home, 1).await;
    assert_eq!(
        home.events.only(&["turn/started", "cron/"]),
        [
            "cron/changed often created",
            "cron/changed once created",
            "turn/started t1",
            "cron/fired t1 often 2",
            "cron/fired t1 once 1",
            "cron/changed once completed",
        ]
    );
    let dir = home.dir_of(&session);
    handle.close().await.unwrap();
    // Wherever the process had ended: a job is due if no record has its fire, and has fired if one does.
    let journal = std::fs::read_to_string(write::path(&dir)).unwrap();
    let lines: Vec<&str> = journal.lines().collect();
    let crashed = tempfile::tempdir().unwrap();
    let mut n_fired = 0;
    for n in 1..=lines.len() {
        std::fs::write(write::path(crashed.path()), lines[..n].join("\n") + "\n").unwrap();
        let ledger = store::load(&session.session_id, crashed.path())
            .unwrap()
            .jobs;
        let count = |word: &str| lines[..n].iter().filter(|line| line.contains(word)).count();
        let added = count("\"type\":\"cron_added\"");
        let fired = count("\"type\":\"turn_started\"");
        let fires: u64 = ledger.jobs().iter().map(|job| job.fires).sum();
        assert_eq!(fires, fired as u64, "line {n}");
        assert_eq!(
            ledger.jobs().len(),
            added - fired,
            "line {n}: what was to fire once has"
        );
        n_fired = fired;
        // Hosts hear of each fire that a record has, once.
        std::fs::write(write::path(&dir), lines[..n].join("\n") + "\n").unwrap();
        let again = home.again_with(config());
        let handle = again.sessions.open(&session.session_id).await.unwrap();
        let mut told: Vec<String> = lines[..n]
            .iter()
            .filter(|line| line.contains("\"type\":\"cron_fired\""))
            .map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                let (turn, fire) = (&line["turn"], &line["fire"]);
                let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
                let count = fire["coalescedCount"].as_u64().unwrap();
                format!(
                    "cron/fired {} {} {count}",
                    text(turn),
                    text(&fire["prompt"])
                )
            })
            .collect();
        told.extend(again.events.only(&["cron/fired"]));
        let all = ["cron/fired t1 often 2", "cron/fired t1 once 1"];
        assert_eq!(told, if fired == 1 { &all[..] } else { &[] }, "line {n}");
        handle.close().await.unwrap();
    }
    assert_eq!(n_fired, 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_turn_costs_is_its_jobs() {
    let home = Home::with(config());
    let (handle, _) = home.create(SAYS_OK).await;
    for name in ["a", "b", "c"] {
        make(&handle, new_job("0 * * * *", name)).await;
    }
    run(&handle, "a turn of the user's").await;
    now_is(&home, &handle, "2026-01-01T01:00:00Z");
    ended(&home, 2).await;
    let spent = home
        .events
        .events()
        .iter()
        .rev()
        .find_map(|stamped| match &stamped.event {
            DomainEvent::TurnEnded { usage, .. } => Some(*usage),
            _ => None,
        });
    let mut shared = Usage::default();
    for job in jobs(&handle).await {
        assert!(job.usage.total() > 0);
        shared.add(&job.usage);
    }
    assert_eq!(shared, spent.unwrap());
}

#[tokio::test(start_paused = true)]
async fn nothing_fires_where_it_may_not() {
    let home = Home::with(config());
    let (handle, _) = home.create(HANGS_FIRST).await;
    make(&handle, new_job("0 * * * *", "job")).await;
    // No host is attached, and nobody said that turns run without one.
    *home.asks.ability.lock().unwrap() = Ability::Nobody;
    now_is(&home, &handle, "2026-01-01T01:00:00Z");
    quiet(&handle).await;
    assert_eq!(
        jobs(&handle).await[0].next_fire_at.as_deref(),
        Some("2026-01-01T01:00:00.000+00:00")
    );
    *home.asks.ability.lock().unwrap() = Ability::Able;
    // A turn runs: nothing is counted, nothing moves on.
    let started = start(&handle, "go", WhenBusy::Reject).await;
    home.events.until("message/delta i1 Hel").await;
    now_is(&home, &handle, "2026-01-01T03:00:00Z");
    let queued = start(&handle, "then this", WhenBusy::Queue).await;
    assert!(
        handle
            .fire_job(&jobs(&handle).await[0].job_id.to_string())
            .await
            .unwrap()
            .is_none()
    );
    handle.cancel(Some(started.turn)).await.unwrap();
    within(handle.wait(queued.turn)).await.unwrap();
    ended(&home, 3).await;
    assert_eq!(
        home.events.only(&["turn/started", "cron/fired"]),
        [
            "turn/started t1",
            "turn/started t2",
            "turn/started t3",
            "cron/fired t3 job 3"
        ],
        "the user first; then all that was missed, once"
    );
    quiet(&handle).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_host_fires_begins_its_turn_after_the_reply() {
    let home = Home::with(config());
    let (handle, _) = home.create(SAYS_OK).await;
    let job = make(&handle, once("0 12 * * *", "job")).await;
    let started = handle.fire_job(job.job_id.as_str()).await.unwrap().unwrap();
    quiet_but_running(&home).await;
    started.gate.release();
    ended(&home, 1).await;
    assert_eq!(started.turn.as_str(), "t1");
    assert!(jobs(&handle).await.is_empty(), "it was to fire once");
    let error = handle.fire_job(job.job_id.as_str()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::JobNotFound);
}

async fn quiet_but_running(home: &Home) {
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert!(
        home.events.only(&["turn/started"]).is_empty(),
        "the reply comes first"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_that_nobody_watches_is_paused_and_can_be_resumed() {
    let mut config = config();
    config.cron.max_unattended_fires = 1;
    let home = Home::with(config);
    let (handle, _) = home.create(SAYS_OK).await;
    let job = make(&handle, new_job("0 * * * *", "job")).await;
    now_is(&home, &handle, "2026-01-01T01:00:00Z");
    ended(&home, 1).await;
    run(&handle, "somebody is there").await;
    now_is(&home, &handle, "2026-01-01T02:00:00Z");
    ended(&home, 3).await;
    now_is(&home, &handle, "2026-01-01T03:00:00Z");
    home.events.until("cron/changed job paused").await;
    quiet(&handle).await;
    assert_eq!(jobs(&handle).await[0].paused, Some(PauseReason::Unattended));
    let resumed = handle
        .resume_job(job.job_id.as_str(), Renew::Yes)
        .await
        .unwrap();
    assert_eq!(
        resumed.next_fire_at.as_deref(),
        Some("2026-01-01T04:00:00.000+00:00")
    );
    assert_eq!(
        resumed.renewed_at.as_deref(),
        Some("2026-01-01T03:00:00.000Z")
    );
    assert_eq!(home.events.only(&["cron/fired"]).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_bad_record_takes_no_other_with_it() {
    let home = Home::with(config());
    let (handle, session) = home.create(SAYS_OK).await;
    for name in ["a", "b", "c", "d"] {
        make(&handle, new_job("0 9 * * *", name)).await;
    }
    let dir = home.dir_of(&session);
    handle.close().await.unwrap();
    let mut journal = std::fs::OpenOptions::new()
        .append(true)
        .open(write::path(&dir))
        .unwrap();
    let bad = r#"{"v":1,"after":5,"at":1,"agent":"main","type":"cron_added","job":{"id":"00000000","cron":5}}"#;
    writeln!(journal, "{bad}").unwrap();
    for n_restart in 0..2 {
        let home = home.again_with(config());
        let handle = home.sessions.open(&session.session_id).await.unwrap();
        let warnings = home.events.only(&["warning"]);
        assert_eq!(
            warnings.len(),
            usize::from(n_restart == 0),
            "told once: {warnings:?}"
        );
        assert_eq!(jobs(&handle).await.len(), 4);
        // As many changes as it takes until everything is written down in one.
        let id = jobs(&handle).await[0].job_id.to_string();
        for _ in 0..32 {
            handle.pause_job(&id).await.unwrap();
            handle.resume_job(&id, Renew::No).await.unwrap();
        }
        handle.close().await.unwrap();
        let ledger = store::load(&session.session_id, &dir).unwrap().jobs;
        assert!(ledger.n_ops() < 64, "{}", ledger.n_ops());
        assert_eq!(
            (ledger.jobs().len(), ledger.aside().len()),
            (4, 1),
            "kept aside, as it was"
        );
        assert_eq!(ledger.aside()[0].value["cron"], 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_takes_no_job_and_loses_no_fire() {
    for n in 1..12 {
        let home = Home::with(config());
        let (first, mut session) = home.create(SAYS_OK).await;
        first.close().await.unwrap();
        session.session_id = format!("full{n}").into();
        let disk =
            Arc::new(FaultyDisk::new().fail_from(Op::Write, n, DiskFault::Errno(libc::ENOSPC)));
        let handle = on_disk(&home, &session, SAYS_OK, &disk);
        let made = handle.create_job(new_job("0 * * * *", "job")).await;
        let known = jobs(&handle).await;
        match made {
            // Its event may be lost on a full disk, the job is not.
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::StorageFull, "write {n}");
                disk.heal();
                if known.is_empty() {
                    make(&handle, new_job("0 * * * *", "job")).await;
                }
            }
            Ok(_) => assert_eq!(known.len(), 1),
        }
        now_is(&home, &handle, "2026-01-01T01:00:00Z");
        quiet(&handle).await;
        disk.heal();
        now_is(&home, &handle, "2026-01-01T01:02:00Z");
        quiet(&handle).await;
        let begun = home.events.only(&["turn/started"]).len();
        assert_eq!(begun, 1, "write {n}: {:#?}", home.events.lines());
        assert_eq!(jobs(&handle).await[0].fires, 1, "write {n}");
        handle.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_not_loaded_is_woken_where_that_is_wanted() {
    let home = Home::with(config());
    let (handle, session) = home.create(SAYS_OK).await;
    make(&handle, new_job("0 9 * * *", "job")).await;
    handle.close().await.unwrap();
    let mut config = config();
    config.cron.wake_closed_sessions = true;
    let home = home.again_detached(config);
    home.sessions.wake_closed().await;
    assert!(home.sessions.loaded(&session.session_id).is_none());
    home.clock.asleep(1).await;
    home.clock
        .set_wall(Timestamp::parse("2026-01-01T09:00:00Z").unwrap());
    home.clock.advance(std::time::Duration::from_secs(30));
    ended(&home, 1).await;
    assert_eq!(home.events.only(&["cron/fired"]), ["cron/fired t1 job 1"]);
    let handle = home.sessions.loaded(&session.session_id).unwrap();
    handle.close().await.unwrap();
    // Closed again, it is woken again.
    home.clock.asleep(1).await;
    home.clock
        .set_wall(Timestamp::parse("2026-01-02T09:00:00Z").unwrap());
    home.clock.advance(std::time::Duration::from_secs(30));
    ended(&home, 2).await;
    home.sessions.delete(&session.session_id).await.unwrap();
    assert!(
        home.sessions.sessions_with_jobs().await.is_empty(),
        "no session, no jobs"
    );
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_rings_and_the_job_fires() {
    let home = Home::with(config());
    let (handle, _) = home.create(SAYS_OK).await;
    make(&handle, new_job("* * * * *", "job")).await;
    for n in 1..=5 {
        home.clock.asleep(1).await;
        home.clock.advance(std::time::Duration::from_secs(30));
        home.clock.asleep(1).await;
        home.clock.advance(std::time::Duration::from_secs(30));
        ended(&home, n).await;
    }
    assert_eq!(home.events.only(&["cron/fired"]).len(), 5);
    handle.close().await.unwrap();
    assert!(
        home.sessions.deps.cron.is_empty(),
        "a closed session has no appointments"
    );
}

#[tokio::test(start_paused = true)]
async fn jobs_of_a_session_that_is_not_kept_end_with_it() {
    let home = Home::with(config());
    let options = CreateOptions {
        ephemeral: true,
        ..home.options(SAYS_OK)
    };
    let (handle, session) = home.sessions.create(options).await.unwrap();
    make(&handle, new_job("0 9 * * *", "job")).await;
    assert_eq!(handle.view().await.unwrap().n_jobs, 1);
    handle.close().await.unwrap();
    assert!(home.sessions.open(&session.session_id).await.is_err());
    assert!(home.sessions.sessions_with_jobs().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_has_a_clock_of_its_own() {
    let home = Home::with(config());
    let options = CreateOptions {
        timezone: Some("asia/kathmandu".into()),
        ..home.options(SAYS_OK)
    };
    let (handle, session) = home.sessions.create(options).await.unwrap();
    assert_eq!(session.timezone.as_deref(), Some("Asia/Kathmandu"));
    let new = NewJob {
        timezone: None,
        ..new_job("0 9 * * *", "job")
    };
    let job = make(&handle, new.clone()).await;
    assert_eq!(
        job.next_fire_at.as_deref(),
        Some("2026-01-01T09:00:00.000+05:45")
    );
    handle.close().await.unwrap();
    let home = home.again_with(config());
    let handle = home.sessions.open(&session.session_id).await.unwrap();
    assert_eq!(make(&handle, new).await.timezone, "Asia/Kathmandu");
    let options = CreateOptions {
        timezone: Some("Mars/Olympus".into()),
        ..home.options(SAYS_OK)
    };
    let error = home.sessions.create(options).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidParams);
}
