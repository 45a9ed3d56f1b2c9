//! Fresh identifiers: random in service, the same every time in tests.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ulid::Ulid;

/// Crockford's alphabet in lower case: no `i`, `l`, `o`, `u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A source of identifiers. Shared as `Arc<dyn IdSource>`.
pub trait IdSource: Send + Sync + Debug {
    /// A ULID in lower case, 26 characters: later ones of this source sort after earlier ones.
    fn ulid(&self) -> String;

    /// At least 64 bits nobody can foresee (in the fake: a counter, scattered).
    fn random(&self) -> u64;

    /// `n_chars` (at most 12) lower-case letters and digits, as in task ids.
    fn short(&self, n_chars: usize) -> String {
        let bits = self.random();
        (0..n_chars.min(12))
            .map(|place| {
                let index = (bits >> (place * 5)) & 31;
                char::from(ALPHABET[index as usize])
            })
            .collect()
    }

    /// 8 hex digits, as in cron ids.
    fn hex8(&self) -> String {
        format!("{:08x}", self.random() as u32)
    }
}

/// Identifiers from the clock and the system's randomness.
#[derive(Debug, Default)]
pub struct RandomIds {
    last: Mutex<Option<Ulid>>,
}

impl RandomIds {
    /// A source, ready to be shared.
    pub fn shared() -> Arc<dyn IdSource> {
        Arc::new(Self::default())
    }
}

impl IdSource for RandomIds {
    fn ulid(&self) -> String {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Ulid::generate();
        // Within a millisecond, and when the clock is set back, the order comes from counting on.
        let next = match *last {
            Some(before) if fresh <= before => before.increment().unwrap_or(fresh),
            _ => fresh,
        };
        *last = Some(next);
        next.to_string().to_ascii_lowercase()
    }

    fn random(&self) -> u64 {
        Ulid::generate().random() as u64
    }
}

/// The same identifiers in the same order for the same seed.
#[derive(Debug)]
pub struct SeededIds {
    seed: u64,
    count: AtomicU64,
}

impl SeededIds {
    /// A source that begins anew.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            count: AtomicU64::new(0),
        }
    }
}

impl IdSource for SeededIds {
    fn ulid(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        Ulid::from_parts(self.seed, u128::from(count))
            .to_string()
            .to_ascii_lowercase()
    }

    fn random(&self) -> u64 {
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        // The finaliser of SplitMix64: neighbours come out far apart.
        let mut mixed = self
            .seed
            .wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ulids_are_lower_case_and_ascend() {
        for source in [&RandomIds::default() as &dyn IdSource, &SeededIds::new(7)] {
            let ids: Vec<_> = (0..2000).map(|_| source.ulid()).collect();
            assert!(ids.is_sorted_by(|a, b| a < b), "{source:?}");
            assert!(
                ids.iter()
                    .all(|id| id.len() == 26 && id.bytes().all(|byte| ALPHABET.contains(&byte)))
            );
        }
    }

    #[test]
    fn short_ids() {
        for source in [&RandomIds::default() as &dyn IdSource, &SeededIds::new(7)] {
            let ids: HashSet<_> = (0..500).map(|_| source.short(8)).collect();
            assert_eq!(ids.len(), 500, "{source:?}");
            assert!(
                ids.iter()
                    .all(|id| id.len() == 8 && id.bytes().all(|byte| ALPHABET.contains(&byte)))
            );
            assert_eq!(source.hex8().len(), 8);
        }
    }

    #[test]
    fn a_seed_repeats() {
        let take = |seed| {
            let source = SeededIds::new(seed);
            (source.ulid(), source.short(8), source.hex8())
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }
}
