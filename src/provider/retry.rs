//! Whether a failed request is sent again, and when. Pure: the caller brings the time and the dice.

use std::time::Duration;

use super::error::{ErrorClass, ProviderError};
use crate::kernel::limits::{
    MAX_DECODE_ATTEMPTS, MAX_STREAM_RECONNECTS, RETRY_BASE, RETRY_MAX, RETRY_SERVER_MAX,
};
use crate::kernel::time::Timestamp;

/// What follows a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The same request is sent again after a pause.
    After(Duration),
    /// It is not.
    GiveUp {
        /// When the provider takes requests again, where it said so and that is too far away to wait for.
        retry_at: Option<Timestamp>,
    },
}

/// The failures of one step.
#[derive(Clone, Debug)]
pub struct Budget {
    max_attempts: u32,
    n_failed: u32,
    n_cut: u32,
    n_undecodable: u32,
}

impl Budget {
    /// For a step that may send `max_attempts` requests, the first included; 0 counts as 1.
    pub fn new(max_attempts: u32) -> Self {
        Self {
            max_attempts: max_attempts.max(1),
            n_failed: 0,
            n_cut: 0,
            n_undecodable: 0,
        }
    }

    /// Requests the step may send. Streams that broke off after they had begun come on top, up to a limit of their own.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// Counts a failure and decides. `begun` is true where a delta had come, `jitter` is from 0 to 1.
    pub fn decide(
        &mut self,
        error: &ProviderError,
        begun: bool,
        jitter: f64,
        now: Timestamp,
    ) -> Decision {
        if let Some(wait) = error.retry_after
            && wait > RETRY_SERVER_MAX
            && waits_help(error.class)
        {
            let ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
            return Decision::GiveUp {
                retry_at: Some(now.plus_ms(ms)),
            };
        }
        if !error.retryable() {
            return Decision::GiveUp { retry_at: None };
        }
        let cut = begun
            && matches!(
                error.class,
                ErrorClass::StreamInterrupted | ErrorClass::Connection
            );
        if cut {
            self.n_cut += 1;
        } else {
            self.n_failed += 1;
        }
        if error.class == ErrorClass::Decode {
            self.n_undecodable += 1;
        }
        if self.n_failed >= self.max_attempts
            || self.n_undecodable >= MAX_DECODE_ATTEMPTS
            || self.n_cut > MAX_STREAM_RECONNECTS
            || (cut && self.max_attempts == 1)
        {
            return Decision::GiveUp { retry_at: None };
        }
        match error.retry_after.filter(|wait| !wait.is_zero()) {
            Some(wait) => Decision::After(wait),
            None => Decision::After(backoff(self.n_failed + self.n_cut, jitter)),
        }
    }
}

/// The pause after the `n`-th failure, from 1: doubled each time up to a limit, and up to a quarter more at random so
/// that many agents do not come back at once.
fn backoff(n: u32, jitter: f64) -> Duration {
    let factor = 2_u32.saturating_pow(n.saturating_sub(1).min(16));
    let pause = RETRY_BASE.saturating_mul(factor).min(RETRY_MAX);
    pause + pause.mul_f64(jitter.clamp(0.0, 1.0) / 4.0)
}

fn waits_help(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::RateLimit | ErrorClass::Overloaded | ErrorClass::QuotaExhausted
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Budget, Decision};
    use crate::kernel::time::Timestamp;
    use crate::provider::error::{ErrorClass, ProviderError};

    fn error(class: ErrorClass) -> ProviderError {
        ProviderError::new(class, "x")
    }

    fn ms(decision: Decision) -> Option<u128> {
        match decision {
            Decision::After(pause) => Some(pause.as_millis()),
            Decision::GiveUp { .. } => None,
        }
    }

    #[test]
    fn pauses_grow_and_end() {
        let mut budget = Budget::new(10);
        let pauses: Vec<_> = (0..10)
            .map(|_| ms(budget.decide(&error(ErrorClass::Overloaded), false, 0.0, Timestamp(0))))
            .collect();
        let wanted = [500, 1000, 2000, 4000, 8000, 16000, 32000, 32000, 32000].map(Some);
        assert_eq!(pauses[..9], wanted);
        assert_eq!(pauses[9], None);
    }

    #[test]
    fn jitter_adds_up_to_a_quarter() {
        for (jitter, pause) in [(0.0, 500), (0.5, 562), (1.0, 625), (7.0, 625)] {
            let decision =
                Budget::new(2).decide(&error(ErrorClass::RateLimit), false, jitter, Timestamp(0));
            assert_eq!(ms(decision), Some(pause));
        }
    }

    #[test]
    fn the_servers_wish_wins_and_a_long_one_ends_it() {
        for (class, wait, decision) in [
            (
                ErrorClass::RateLimit,
                2,
                Decision::After(Duration::from_secs(2)),
            ),
            (
                ErrorClass::RateLimit,
                0,
                Decision::After(Duration::from_millis(500)),
            ),
            (
                ErrorClass::Overloaded,
                300,
                Decision::After(Duration::from_secs(300)),
            ),
            (
                ErrorClass::RateLimit,
                3600,
                Decision::GiveUp {
                    retry_at: Some(Timestamp(3_600_007)),
                },
            ),
            (
                ErrorClass::QuotaExhausted,
                3600,
                Decision::GiveUp {
                    retry_at: Some(Timestamp(3_600_007)),
                },
            ),
            (
                ErrorClass::QuotaExhausted,
                2,
                Decision::GiveUp { retry_at: None },
            ),
            (ErrorClass::Auth, 3600, Decision::GiveUp { retry_at: None }),
        ] {
            let mut error = error(class);
            error.retry_after = Some(Duration::from_secs(wait));
            assert_eq!(
                Budget::new(10).decide(&error, false, 0.0, Timestamp(7)),
                decision,
                "{class:?} {wait}"
            );
        }
    }

    #[test]
    fn budgets_are_separate() {
        for (what, class, begun, max_attempts, n_pauses) in [
            ("one try", ErrorClass::Overloaded, false, 1, 0),
            ("none means one", ErrorClass::Overloaded, false, 0, 0),
            ("one try, cut", ErrorClass::StreamInterrupted, true, 1, 0),
            ("cut streams", ErrorClass::StreamInterrupted, true, 10, 5),
            ("reset streams", ErrorClass::Connection, true, 10, 5),
            ("refused", ErrorClass::Connection, false, 10, 9),
            ("nothing came", ErrorClass::StreamInterrupted, false, 10, 9),
            ("unreadable", ErrorClass::Decode, false, 10, 1),
            ("unreadable later", ErrorClass::Decode, true, 10, 1),
            ("empty", ErrorClass::EmptyResponse, true, 3, 2),
            ("never", ErrorClass::Script, false, 10, 0),
            ("cancelled", ErrorClass::Cancelled, false, 10, 0),
        ] {
            let mut budget = Budget::new(max_attempts);
            let n = std::iter::repeat_with(|| {
                ms(budget.decide(&error(class), begun, 0.0, Timestamp(0)))
            })
            .take_while(Option::is_some)
            .count();
            assert_eq!(n, n_pauses, "{what}");
        }
        let mut budget = Budget::new(2);
        for _ in 0..5 {
            assert!(
                ms(budget.decide(
                    &error(ErrorClass::StreamInterrupted),
                    true,
                    0.0,
                    Timestamp(0)
                ))
                .is_some()
            );
        }
        assert!(
            ms(budget.decide(&error(ErrorClass::Overloaded), false, 0.0, Timestamp(0))).is_some()
        );
        assert!(
            ms(budget.decide(&error(ErrorClass::Overloaded), false, 0.0, Timestamp(0))).is_none()
        );
    }
}
