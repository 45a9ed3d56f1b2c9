//! Wall and monotonic time.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the module those rules point to"
)]

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::kernel::time::Timestamp;

/// A source of time. Cheap to call; shared as `Arc<dyn Clock>`.
pub trait Clock: Send + Sync + Debug {
    /// Wall time. May jump when the machine's clock is set.
    fn now(&self) -> Timestamp;

    /// Time since this clock was made. Never goes back; use it for durations.
    fn elapsed(&self) -> Duration;
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
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct FakeClock {
    epoch_ms: AtomicI64,
    elapsed_ms: AtomicU64,
}

impl FakeClock {
    /// A clock standing at this wall time.
    pub fn at(at: Timestamp) -> Self {
        Self {
            epoch_ms: AtomicI64::new(at.0),
            elapsed_ms: AtomicU64::new(0),
        }
    }

    /// Lets time pass, on both scales.
    pub fn advance(&self, by: Duration) {
        let ms = by.as_millis() as u64;
        self.epoch_ms.fetch_add(ms as i64, Ordering::SeqCst);
        self.elapsed_ms.fetch_add(ms, Ordering::SeqCst);
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
        Duration::from_millis(self.elapsed_ms.load(Ordering::SeqCst))
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

    #[test]
    fn the_machines_clock_is_past_2025() {
        let clock = SystemClock::new();
        assert!(clock.now() > Timestamp(1_735_689_600_000));
        let earlier = clock.elapsed();
        assert!(clock.elapsed() >= earlier);
    }
}
