//! Cron jobs: the scheduler's set and the jobs of sessions, ten thousand of them.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use longshore::config::values::CronConfig;
use longshore::cron::fire::Fire;
use longshore::cron::jobs::JobSet;
use longshore::cron::ledger::{Fired, Ledger};
use longshore::cron::timetable::{Bell, Timetable};
use longshore::cron::zone::Zone;
use longshore::kernel::cron::{CronOp, NewJob};
use longshore::kernel::time::Timestamp;
use longshore_protocol::id::{JobId, SessionId};

use super::Size;
use super::figures::median;
use super::table::{Bar, Table};

/// 2026-03-01T00:00:00Z.
const NOW: Timestamp = Timestamp(1_772_323_200_000);
const JOBS_EACH: usize = 50;
const CRONS: [&str; 5] = [
    "*/5 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "0 9 * * 1-5",
    "0 0 1 * *",
];

struct Silent;

impl Bell for Silent {
    fn ring(&self) {}
}

/// Measures the rows.
pub(crate) fn measure(size: Size, table: &mut Table) {
    let n = size.of(10_000, 100);
    let ledgers = ledgers(n / JOBS_EACH);
    let begun = Instant::now();
    let mut sets: Vec<(SessionId, JobSet)> = Vec::new();
    let mut timetable = Timetable::default();
    for (n, ledger) in ledgers.into_iter().enumerate() {
        let session = SessionId::from(format!("s{n}"));
        let set = JobSet::new(ledger, CronConfig::default(), NOW);
        book(&mut timetable, &session, &set, NOW);
        sets.push((session, set));
    }
    table.row(
        &format!("{n} cron jobs of {} sessions: load", sets.len()),
        "ms",
        Bar::AtMost(200.0),
        begun.elapsed().as_secs_f64() * 1e3,
    );
    add_and_remove(size, &mut timetable, table);
    fire(size, &mut timetable, &mut sets, table);
    let back = NOW.plus_ms(-3_600_000);
    let begun = Instant::now();
    for (session, set) in &mut sets {
        set.refresh(back);
        book(&mut timetable, session, set, back);
    }
    table.row(
        &format!("{n} cron jobs: the clock was set, everything looked at again"),
        "ms",
        Bar::AtMost(200.0),
        begun.elapsed().as_secs_f64() * 1e3,
    );
}

fn ledgers(n_sessions: usize) -> Vec<Ledger> {
    let zone = Zone::find("America/New_York").unwrap_or_else(Zone::utc);
    let empty = JobSet::new(Ledger::default(), CronConfig::default(), NOW);
    let mut n = 0;
    (0..n_sessions)
        .map(|_| {
            let mut ledger = Ledger::default();
            for _ in 0..JOBS_EACH {
                n += 1;
                let new = NewJob {
                    cron: CRONS[n % CRONS.len()].to_owned(),
                    prompt: "Look at the build.".to_owned(),
                    recurring: true,
                    timezone: None,
                };
                let id = || format!("{:08x}", n.wrapping_mul(2_654_435_761) as u32);
                let job = empty.check_new(&new, &zone, NOW, id).unwrap();
                ledger.apply(CronOp::Added(Box::new(job)), NOW);
            }
            ledger
        })
        .collect()
}

fn book(timetable: &mut Timetable, session: &SessionId, set: &JobSet, now: Timestamp) {
    let bell: Arc<dyn Bell> = Arc::new(Silent);
    for (job, at) in set.appointments(now) {
        timetable.put(session, &job, at, &bell);
    }
}

fn add_and_remove(size: Size, timetable: &mut Timetable, table: &mut Table) {
    let bell: Arc<dyn Bell> = Arc::new(Silent);
    let session = SessionId::from("one more");
    let (mut adds, mut removes) = (Vec::new(), Vec::new());
    for n in 0..size.of(2_000, 10) {
        let job = JobId::from(format!("{n:08x}"));
        let at = NOW.plus_ms((n as i64 * 7_919) % 86_400_000);
        let begun = Instant::now();
        timetable.put(&session, &job, at, &bell);
        adds.push(begun.elapsed().as_secs_f64() * 1e6);
        let begun = Instant::now();
        timetable.remove(&session, &job);
        removes.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    for (what, figures) in [("add", adds), ("remove", removes)] {
        table.row(
            &format!("cron: {what} one of ten thousand appointments, median"),
            "µs",
            Bar::AtMost(50.0),
            median(figures),
        );
    }
}

/// A job is due: it is taken out, what it answers for is counted, its next time is found and put in.
fn fire(
    size: Size,
    timetable: &mut Timetable,
    sets: &mut [(SessionId, JobSet)],
    table: &mut Table,
) {
    let bell: Arc<dyn Bell> = Arc::new(Silent);
    let mut figures = Vec::new();
    let turn = "t1".into();
    for _ in 0..size.of(500, 3) {
        let Some(now) = timetable.first() else { break };
        let begun = Instant::now();
        black_box(timetable.take_due(now));
        let mut n_fired = 0;
        for (session, set) in sets.iter_mut().take(size.of(20, 2)) {
            let fires: Vec<Fired> = set
                .due(now, || "f".to_owned())
                .iter()
                .map(Fire::fired)
                .collect();
            if fires.is_empty() {
                continue;
            }
            n_fired += fires.len();
            set.fired(&turn, &fires, now);
            for (job, at) in set.appointments(now) {
                timetable.put(session, &job, at, &bell);
            }
        }
        if n_fired > 0 {
            figures.push(begun.elapsed().as_secs_f64() * 1e6 / n_fired as f64);
        }
    }
    let figure = if figures.is_empty() {
        0.0
    } else {
        median(figures)
    };
    table.row(
        "cron: take out what is due, find its next time, put it in, for each job, median",
        "µs",
        Bar::AtMost(20.0),
        figure,
    );
}
