//! What an agent has seen of the files it works on.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::config::values::Freshness as Policy;
use crate::os::fs::FileStamp;

/// Files by real path, as an agent last read or wrote them.
///
/// Content is remembered as a keyed hash, so that a new time alone (an editor saved the same text, a checkout went
/// back and forth) does not count as a change.
#[derive(Debug, Default)]
pub struct Freshness {
    seen: Mutex<HashMap<PathBuf, Seen>>,
    keys: RandomState,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Absent for a text that was not on the disk when it was seen.
    stamp: Option<FileStamp>,
    /// Absent for files too large to be hashed: then a new stamp is a change.
    hash: Option<u64>,
}

/// How a file stands to what was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Never read or written here.
    Never,
    /// As it was seen.
    Same,
    /// Its content has changed since.
    Changed,
}

/// A change of a file that exists, as far as it matters what the agent has seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// In one place, which the model has quoted: that proves that it knows it.
    OnePlace,
    /// In every place that holds a text, seen or not.
    EveryPlace,
    /// The whole content.
    Whole,
    /// More at the end; nothing is lost.
    End,
}

/// Whether a change may be made, and what is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may.
    Go,
    /// It may, and the model is told that the file has changed since it knew it.
    GoAndTell,
    /// The file is to be read first.
    ReadFirst,
    /// The file has changed and is to be read again.
    ReadAgain,
}

/// Judges a change of a file that exists and is not empty.
pub(super) fn judge(policy: Policy, change: Change, known: Known) -> Verdict {
    match (policy, change, known) {
        (_, _, Known::Same) | (Policy::Off, _, Known::Never) => Verdict::Go,
        (Policy::Off, _, Known::Changed) => Verdict::GoAndTell,
        (Policy::Strict, _, Known::Never) => Verdict::ReadFirst,
        (Policy::Strict, _, Known::Changed) => Verdict::ReadAgain,
        (Policy::Default, Change::Whole, Known::Never) => Verdict::ReadFirst,
        (Policy::Default, _, Known::Never) => Verdict::Go,
        (Policy::Default, Change::OnePlace | Change::End, Known::Changed) => Verdict::GoAndTell,
        (Policy::Default, Change::EveryPlace | Change::Whole, Known::Changed) => Verdict::ReadAgain,
    }
}

impl Freshness {
    /// Nothing was seen: the agent's history does not have it any more.
    pub fn forget(&self) {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Compares a file with what was seen. `hash` is asked only where the stamp differs.
    pub(super) fn compare(
        &self,
        real: &Path,
        stamp: FileStamp,
        hash: impl FnOnce() -> Option<u64>,
    ) -> Known {
        let seen = self
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(real)
            .copied();
        match seen {
            None => Known::Never,
            Some(seen) if seen.stamp == Some(stamp) => Known::Same,
            Some(seen) => match (seen.hash, hash()) {
                (Some(before), Some(now)) if before == now => Known::Same,
                _ => Known::Changed,
            },
        }
    }

    /// Compares a text that a host holds, by its hash, with what was seen of the file.
    pub(super) fn compare_text(&self, real: &Path, hash: u64) -> Known {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get(real) {
            None => Known::Never,
            Some(seen) if seen.hash == Some(hash) => Known::Same,
            Some(_) => Known::Changed,
        }
    }

    /// Remembers a text that a host holds and the disk does not.
    pub(super) fn record_text(&self, real: &Path, hash: u64) {
        let seen = Seen {
            stamp: None,
            hash: Some(hash),
        };
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(real.to_owned(), seen);
    }

    /// Remembers a file as it is now.
    pub(super) fn record(&self, real: &Path, stamp: FileStamp, hash: Option<u64>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Some(stamp);
        seen.insert(real.to_owned(), Seen { stamp, hash });
    }

    /// The hash of a whole content.
    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.hasher();
        hasher.write(bytes);
        hasher.finish()
    }

    /// For content that comes in pieces: the pieces one after the other give the hash of the whole.
    pub(super) fn hasher(&self) -> DefaultHasher {
        self.keys.build_hasher()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(mtime_ns: i64) -> FileStamp {
        FileStamp {
            dev: 1,
            ino: 2,
            size: 3,
            mtime_ns,
        }
    }

    #[test]
    fn a_new_time_alone_is_no_change() {
        let freshness = Freshness::default();
        let path = Path::new("/f");
        let hash = |text: &str| Some(freshness.hash(text.as_bytes()));
        assert_eq!(freshness.compare(path, stamp(1), || None), Known::Never);
        freshness.record(path, stamp(1), hash("abc"));
        assert_eq!(
            freshness.compare(path, stamp(1), || unreachable!()),
            Known::Same
        );
        assert_eq!(
            freshness.compare(path, stamp(2), || hash("abc")),
            Known::Same
        );
        assert_eq!(
            freshness.compare(path, stamp(2), || hash("abd")),
            Known::Changed
        );
        freshness.record(path, stamp(3), None);
        assert_eq!(
            freshness.compare(path, stamp(4), || hash("abc")),
            Known::Changed
        );
    }

    #[test]
    fn what_may_be_changed() {
        use Change::{End, EveryPlace, OnePlace, Whole};
        use Verdict::{Go, GoAndTell, ReadAgain, ReadFirst};
        // By policy: never read, read, changed since.
        let table = [
            (Policy::Default, OnePlace, [Go, Go, GoAndTell]),
            (Policy::Default, EveryPlace, [Go, Go, ReadAgain]),
            (Policy::Default, Whole, [ReadFirst, Go, ReadAgain]),
            (Policy::Default, End, [Go, Go, GoAndTell]),
            (Policy::Strict, OnePlace, [ReadFirst, Go, ReadAgain]),
            (Policy::Strict, EveryPlace, [ReadFirst, Go, ReadAgain]),
            (Policy::Strict, Whole, [ReadFirst, Go, ReadAgain]),
            (Policy::Strict, End, [ReadFirst, Go, ReadAgain]),
            (Policy::Off, OnePlace, [Go, Go, GoAndTell]),
            (Policy::Off, EveryPlace, [Go, Go, GoAndTell]),
            (Policy::Off, Whole, [Go, Go, GoAndTell]),
            (Policy::Off, End, [Go, Go, GoAndTell]),
        ];
        for (policy, change, expected) in table {
            let got = [Known::Never, Known::Same, Known::Changed]
                .map(|known| judge(policy, change, known));
            assert_eq!(got, expected, "{policy:?} {change:?}");
        }
    }

    #[test]
    fn texts_that_are_not_on_the_disk_are_known_by_what_they_say() {
        let freshness = Freshness::default();
        let path = Path::new("/f");
        let hash = |text: &str| freshness.hash(text.as_bytes());
        assert_eq!(freshness.compare_text(path, hash("a")), Known::Never);
        freshness.record_text(path, hash("a"));
        assert_eq!(freshness.compare_text(path, hash("a")), Known::Same);
        assert_eq!(freshness.compare_text(path, hash("b")), Known::Changed);
        assert_eq!(
            freshness.compare(path, stamp(1), || Some(hash("a"))),
            Known::Same
        );
        assert_eq!(
            freshness.compare(path, stamp(1), || Some(hash("b"))),
            Known::Changed
        );
        freshness.record(path, stamp(1), Some(hash("c")));
        assert_eq!(freshness.compare_text(path, hash("c")), Known::Same);
    }

    #[test]
    fn pieces_hash_like_the_whole() {
        let freshness = Freshness::default();
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for cut in [0, 1, 7, 8, 9, 500, 1000] {
            let mut hasher = freshness.hasher();
            hasher.write(&bytes[..cut]);
            hasher.write(&bytes[cut..]);
            assert_eq!(hasher.finish(), freshness.hash(&bytes), "cut at {cut}");
        }
    }
}
