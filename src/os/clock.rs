//! Wall and monotonic time, and the one spelling of instants: RFC 3339, UTC, milliseconds.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the module those rules point to"
)]

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type EpochMs = u64;

/// A source of time. Cheap to call; shared as `Arc<dyn Clock>`.
pub trait Clock: Send + Sync + Debug {
    /// Wall time. May jump when the machine's clock is set.
    fn epoch_ms(&self) -> EpochMs;

    /// Time since this clock was made. Never goes back; use it for durations.
    fn elapsed(&self) -> Duration;

    /// Wall time as [`rfc3339`] text.
    fn now_text(&self) -> String {
        rfc3339(self.epoch_ms())
    }
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
    fn epoch_ms(&self) -> EpochMs {
        epoch_ms_of(SystemTime::now())
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct FakeClock {
    epoch_ms: AtomicU64,
    elapsed_ms: AtomicU64,
}

impl FakeClock {
    /// A clock standing at this wall time.
    pub fn at(epoch_ms: EpochMs) -> Self {
        Self {
            epoch_ms: AtomicU64::new(epoch_ms),
            elapsed_ms: AtomicU64::new(0),
        }
    }

    /// Lets time pass, on both scales.
    pub fn advance(&self, by: Duration) {
        let ms = by.as_millis() as u64;
        self.epoch_ms.fetch_add(ms, Ordering::SeqCst);
        self.elapsed_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the wall time alone, as an administrator would.
    pub fn set_wall(&self, epoch_ms: EpochMs) {
        self.epoch_ms.store(epoch_ms, Ordering::SeqCst);
    }
}

impl Default for FakeClock {
    /// 2026-01-01T00:00:00.000Z.
    fn default() -> Self {
        Self::at(1_767_225_600_000)
    }
}

impl Clock for FakeClock {
    fn epoch_ms(&self) -> EpochMs {
        self.epoch_ms.load(Ordering::SeqCst)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed_ms.load(Ordering::SeqCst))
    }
}

/// Converts a system time; times before 1970 become 0.
pub fn epoch_ms_of(time: SystemTime) -> EpochMs {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

/// Spells an instant as `2026-01-31T23:59:59.123Z`: always 24 characters up to the year 9999, so that texts sort
/// as instants do.
pub fn rfc3339(epoch_ms: EpochMs) -> String {
    const MS_PER_DAY: u64 = 86_400_000;
    let (year, month, day) = civil_from_days(epoch_ms / MS_PER_DAY);
    let ms_of_day = epoch_ms % MS_PER_DAY;
    let (hour, minute) = (ms_of_day / 3_600_000, ms_of_day / 60_000 % 60);
    let (second, ms) = (ms_of_day / 1000 % 60, ms_of_day % 1000);
    let mut text = String::with_capacity(24);
    push_digits(&mut text, year, 4);
    for (separator, value, width) in [
        ('-', month, 2),
        ('-', day, 2),
        ('T', hour, 2),
        (':', minute, 2),
        (':', second, 2),
        ('.', ms, 3),
    ] {
        text.push(separator);
        push_digits(&mut text, value, width);
    }
    text.push('Z');
    text
}

fn push_digits(text: &mut String, value: u64, width: u32) {
    let width = width.max(value.checked_ilog10().map_or(1, |log| log + 1));
    for place in (0..width).rev() {
        let digit = value / 10_u64.pow(place) % 10;
        text.push(char::from(b'0' + digit as u8));
    }
}

/// Year, month and day of a count of days since the epoch, in the proleptic Gregorian calendar. Years begin in
/// March here, so that the leap day is the last one.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spells_instants() {
        for (epoch_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_767_225_600_000, "2026-01-01T00:00:00.000Z"),
            (4_107_542_400_007, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(rfc3339(epoch_ms), text);
        }
    }

    #[test]
    fn agrees_with_a_calendar_library() {
        for day in (0..80_000_u64).step_by(13) {
            let ms = day * 86_400_000 + day * 7919 % 86_400_000;
            let zoned = jiff::Timestamp::from_millisecond(ms as i64).unwrap();
            assert_eq!(rfc3339(ms), format!("{zoned:.3}"));
        }
    }

    #[test]
    fn a_fake_clock_moves_when_told() {
        let clock = FakeClock::default();
        assert_eq!(clock.now_text(), "2026-01-01T00:00:00.000Z");
        clock.advance(Duration::from_millis(1500));
        assert_eq!(clock.now_text(), "2026-01-01T00:00:01.500Z");
        clock.set_wall(0);
        assert_eq!(
            (clock.epoch_ms(), clock.elapsed()),
            (0, Duration::from_millis(1500))
        );
    }

    #[test]
    fn the_system_clock_is_in_this_century() {
        let clock = SystemClock::new();
        assert!(clock.epoch_ms() > 1_700_000_000_000);
        assert!(clock.now_text().starts_with("20"));
    }
}
