use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longshore_protocol::id::{JobId, SessionId};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::scheduler::Scheduler;
use super::timetable::{Bell, Timetable};
use crate::kernel::time::Timestamp;
use crate::os::clock::{Clock, FakeClock};

/// Counts how often it is rung.
struct Counter(watch::Sender<usize>);

impl Counter {
    fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(0)))
    }

    fn rung(&self) -> usize {
        *self.0.borrow()
    }

    async fn until(&self, n: usize) {
        let mut rung = self.0.subscribe();
        let waited = tokio::time::timeout(Duration::from_secs(60), rung.wait_for(|now| *now >= n));
        waited.await.expect("rung in time").unwrap();
    }
}

impl Bell for Counter {
    fn ring(&self) {
        self.0.send_modify(|n| *n += 1);
    }
}

struct Bench {
    clock: Arc<FakeClock>,
    scheduler: Scheduler,
    bell: Arc<Counter>,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(FakeClock::default());
        Self {
            scheduler: Scheduler::new(clock.clone(), TaskTracker::new()),
            clock,
            bell: Counter::new(),
        }
    }

    /// Puts in an appointment so many seconds from now.
    fn put(&self, session: &str, job: &str, seconds: i64) {
        let bell: Arc<dyn Bell> = self.bell.clone();
        let at = self.clock.now().plus_ms(seconds * 1000);
        self.scheduler.put(&session.into(), &job.into(), at, &bell);
    }

    /// Lets time pass as a sleeper feels it.
    async fn pass(&self, seconds: u64) {
        self.clock.asleep(1).await;
        self.clock.advance(Duration::from_secs(seconds));
        // Whoever was woken has gone to sleep again, or there is nothing left to sleep for.
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_timetable_keeps_order() {
    let bell: Arc<dyn Bell> = Counter::new();
    let mut table = Timetable::default();
    let (one, other): (SessionId, SessionId) = ("one".into(), "other".into());
    let job = |n: usize| JobId::from(format!("{n}"));
    table.put(&one, &job(1), Timestamp(30), &bell);
    table.put(&one, &job(2), Timestamp(10), &bell);
    table.put(&other, &job(1), Timestamp(20), &bell);
    assert_eq!((table.first(), table.len()), (Some(Timestamp(10)), 3));
    table.put(&one, &job(2), Timestamp(40), &bell);
    table.put(&one, &job(2), Timestamp(40), &bell);
    assert_eq!(
        (table.first(), table.len()),
        (Some(Timestamp(20)), 3),
        "moved, not added"
    );
    assert_eq!(table.all().len(), 2);
    table.remove(&one, &job(9));
    assert_eq!(table.take_due(Timestamp(19)).len(), 0);
    assert_eq!(
        table.take_due(Timestamp(30)).len(),
        2,
        "one ring for each session"
    );
    assert_eq!(
        (table.first(), table.len(), table.all().len()),
        (Some(Timestamp(40)), 1, 1)
    );
    table.remove(&one, &job(2));
    assert!(table.is_empty() && table.all().is_empty() && table.first().is_none());
}

#[tokio::test]
async fn it_rings_when_the_time_has_come() {
    let bench = Bench::new();
    bench.put("s", "a", 20);
    bench.put("s", "b", 10);
    bench.pass(9).await;
    assert_eq!(bench.bell.rung(), 0);
    bench.pass(1).await;
    bench.bell.until(1).await;
    // An earlier one that comes in meanwhile.
    bench.put("s", "c", 5);
    bench.pass(5).await;
    bench.bell.until(2).await;
    bench.pass(5).await;
    bench.bell.until(3).await;
    assert!(bench.scheduler.is_empty());
    // What was taken out does not ring.
    bench.put("s", "a", 5);
    bench.put("s", "b", 10);
    bench.scheduler.remove(&"s".into(), &"a".into());
    bench.pass(10).await;
    bench.bell.until(4).await;
    assert_eq!(bench.scheduler.n_rounds(), 4);
    // What is due already rings at once.
    bench.put("s", "a", -1);
    bench.bell.until(5).await;
}

#[tokio::test]
async fn ten_thousand_jobs_are_one_round_for_each_instant() {
    let bench = Bench::new();
    for n in 0..10_000_i64 {
        // Fifty sessions a moment, each with all its jobs due at once.
        bench.put(&format!("s{}", n / 50), &format!("{n}"), 60 + n / 2500 * 60);
    }
    assert_eq!(bench.scheduler.len(), 10_000);
    for round in 1..=4 {
        bench.pass(30).await;
        bench.pass(30).await;
        bench.bell.until(round * 50).await;
        assert_eq!(bench.scheduler.n_rounds(), round as u64);
    }
    assert_eq!(bench.bell.rung(), 200, "each session once");
    assert!(bench.scheduler.is_empty());
}

#[tokio::test]
async fn an_idle_one_wakes_twice_a_minute() {
    let bench = Bench::new();
    bench.put("s", "a", 3600);
    let looks = AtomicUsize::new(0);
    while bench.bell.rung() == 0 {
        bench.pass(30).await;
        looks.fetch_add(1, Ordering::SeqCst);
        assert!(looks.load(Ordering::SeqCst) <= 121);
    }
    assert!(looks.load(Ordering::SeqCst) >= 120);
}

#[tokio::test]
async fn where_the_clock_was_set_everybody_looks_once() {
    let bench = Bench::new();
    let start = bench.clock.now();
    bench.put("s", "a", 7200);
    bench.put("t", "b", 10_000_000);
    bench.clock.asleep(1).await;
    // The machine slept three hours: elapsed time knows nothing of it.
    bench.clock.set_wall(start.plus_ms(3 * 3_600_000));
    bench.pass(30).await;
    bench.bell.until(3).await;
    assert_eq!(bench.scheduler.len(), 1);
    // Set back an hour: nothing is due, but appointments may be others now.
    bench.clock.asleep(1).await;
    bench.clock.set_wall(start.plus_ms(2 * 3_600_000));
    bench.pass(30).await;
    bench.bell.until(4).await;
    // Within what a clock drifts nobody is disturbed.
    bench.clock.asleep(1).await;
    bench.clock.set_wall(bench.clock.now().plus_ms(1500));
    bench.pass(30).await;
    bench.pass(30).await;
    assert_eq!(bench.bell.rung(), 4);
}

#[tokio::test]
async fn it_ends_when_it_is_stopped() {
    let tasks = TaskTracker::new();
    let clock: Arc<dyn Clock> = Arc::new(FakeClock::default());
    let scheduler = Scheduler::new(clock.clone(), tasks.clone());
    let bell: Arc<dyn Bell> = Counter::new();
    assert!(tasks.is_empty(), "no jobs, no sleeper");
    scheduler.put(&"s".into(), &"a".into(), clock.now().plus_ms(1000), &bell);
    assert_eq!(tasks.len(), 1);
    scheduler.stop();
    tasks.close();
    tasks.wait().await;
}
