//! Wall and monotonic time.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the module those rules point to"
)]

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::kernel::time::Timestamp;

/// A source of time. Cheap to call; shared as `Arc<dyn Clock>`.
pub trait Clock: Send + Sync + Debug {
    /// Wall time. May jump when the machine's clock is set.
    fn now(&self) -> Timestamp;

    /// Time since this clock was made. Never goes back; use it for durations.
    fn elapsed(&self) -> Duration;

    /// Ends when [`Clock::elapsed`] has come this far, not before. Setting the wall time neither shortens nor prolongs it.
    fn sleep_until(&self, elapsed: Duration) -> BoxFuture<'_, ()>;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose [`Clock::elapsed`] starts now.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// The same, ready to be shared.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self::new())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Timestamp(since.map_or(0, |since| since.as_millis() as i64))
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep_until(&self, elapsed: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A timer may be a fraction early.
            while let Some(left) = elapsed
                .checked_sub(self.elapsed())
                .filter(|left| !left.is_zero())
            {
                tokio::time::sleep(left).await;
            }
        })
    }
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct FakeClock {
    epoch_ms: AtomicI64,
    elapsed_ms: watch::Sender<u64>,
    /// How many sleep now.
    n_sleepers: watch::Sender<usize>,
}

impl FakeClock {
    /// A clock standing at this wall time.
    pub fn at(at: Timestamp) -> Self {
        Self {
            epoch_ms: AtomicI64::new(at.0),
            elapsed_ms: watch::Sender::new(0),
            n_sleepers: watch::Sender::new(0),
        }
    }

    /// Lets time pass, on both scales.
    pub fn advance(&self, by: Duration) {
        let ms = by.as_millis() as u64;
        self.epoch_ms.fetch_add(ms as i64, Ordering::SeqCst);
        self.elapsed_ms.send_modify(|elapsed| *elapsed += ms);
    }

    /// Waits until so many sleep on this clock: then letting time pass is felt by all of them.
    pub async fn asleep(&self, n: usize) {
        let mut sleepers = self.n_sleepers.subscribe();
        // The sender lives as long as this clock.
        let _ = sleepers.wait_for(|now| *now == n).await;
    }

    /// Sets the wall time alone, as an administrator would.
    pub fn set_wall(&self, at: Timestamp) {
        self.epoch_ms.store(at.0, Ordering::SeqCst);
    }
}

impl Default for FakeClock {
    /// 2026-01-01T00:00:00.000Z.
    fn default() -> Self {
        Self::at(Timestamp(1_767_225_600_000))
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.epoch_ms.load(Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(*self.elapsed_ms.borrow())
    }

    fn sleep_until(&self, elapsed: Duration) -> BoxFuture<'_, ()> {
        let mut passed = self.elapsed_ms.subscribe();
        Box::pin(async move {
            let _sleeper = Sleeper::of(&self.n_sleepers);
            // The sender lives as long as this clock.
            let _ = passed
                .wait_for(|now| Duration::from_millis(*now) >= elapsed)
                .await;
        })
    }
}

/// One that sleeps, until dropped.
struct Sleeper<'a>(&'a watch::Sender<usize>);

impl<'a> Sleeper<'a> {
    fn of(sleepers: &'a watch::Sender<usize>) -> Self {
        sleepers.send_modify(|n| *n += 1);
        Self(sleepers)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fake_moves_only_when_told() {
        let clock = FakeClock::default();
        let start = clock.now();
        assert_eq!(clock.now(), start);
        clock.advance(Duration::from_millis(1500));
        assert_eq!(clock.now(), start.plus_ms(1500));
        assert_eq!(clock.elapsed(), Duration::from_millis(1500));
        clock.set_wall(Timestamp(0));
        assert_eq!(
            (clock.now(), clock.elapsed()),
            (Timestamp(0), Duration::from_millis(1500))
        );
    }

    #[tokio::test]
    async fn a_sleeper_sleeps_by_elapsed_time_alone() {
        let clock = FakeClock::default();
        let sleep = clock.sleep_until(Duration::from_secs(60));
        tokio::pin!(sleep);
        assert!(futures::poll!(sleep.as_mut()).is_pending());
        clock.asleep(1).await;
        clock.set_wall(clock.now().plus_ms(3_600_000));
        clock.advance(Duration::from_secs(59));
        assert!(futures::poll!(sleep.as_mut()).is_pending());
        clock.advance(Duration::from_secs(1));
        assert!(futures::poll!(sleep.as_mut()).is_ready());
        clock.asleep(0).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_machines_sleep_is_never_short() {
        let clock = SystemClock::new();
        let until = clock.elapsed() + Duration::from_millis(5);
        clock.sleep_until(until).await;
        assert!(clock.elapsed() >= until);
    }

    #[test]
    fn the_machines_clock_is_past_2025() {
        let clock = SystemClock::new();
        assert!(clock.now() > Timestamp(1_735_689_600_000));
        let earlier = clock.elapsed();
        assert!(clock.elapsed() >= earlier);
    }
}
