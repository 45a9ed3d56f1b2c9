//! What files gave, kept within a fixed size.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::MAX_RESULT_BYTES;

/// What a file gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Found {
    /// Matches in it, at least 1. In content mode lines of a file that was met are counted, not matches.
    pub n_matches: u64,
    /// Lines, in content mode.
    pub lines: Lines,
    /// When it was changed.
    pub modified: Option<SystemTime>,
    /// It was named itself and holds NUL bytes: no line is shown.
    pub is_binary: bool,
    /// It holds a NUL byte and was left there; lines are from before.
    pub is_left: bool,
    /// Not all its lines are kept.
    pub is_cut: bool,
}

/// Lines of one file, in its order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Lines {
    text: String,
    index: Vec<Place>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    number: u64,
    end: u32,
    is_match: bool,
}

/// A line that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct FoundLine<'l> {
    /// From 1.
    pub number: u64,
    /// Without its ending, cut to a window.
    pub text: &'l str,
    /// Not just context.
    pub is_match: bool,
}

impl Lines {
    pub(super) fn push(&mut self, number: u64, text: &str, is_match: bool) {
        self.text.push_str(text);
        self.index.push(Place {
            number,
            end: self.text.len() as u32,
            is_match,
        });
    }

    /// Memory they take.
    pub(super) fn n_bytes(&self) -> usize {
        self.text.len() + self.index.len() * size_of::<Place>()
    }

    /// How many there are.
    pub(in super::super) fn len(&self) -> usize {
        self.index.len()
    }

    /// One of them.
    pub(in super::super) fn get(&self, index: usize) -> Option<FoundLine<'_>> {
        let place = self.index.get(index)?;
        let before = index
            .checked_sub(1)
            .and_then(|before| self.index.get(before));
        let begin = before.map_or(0, |place| place.end as usize);
        Some(FoundLine {
            number: place.number,
            text: self.text.get(begin..place.end as usize)?,
            is_match: place.is_match,
        })
    }
}

/// A path whose order by bytes is the order of paths by components.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key(Box<[u8]>);

impl Key {
    fn new(path: &Path) -> Self {
        let bytes = path.as_os_str().as_bytes().iter();
        // Names never hold a NUL, and it comes before everything they hold.
        Self(
            bytes
                .map(|byte| if *byte == b'/' { 0 } else { *byte })
                .collect(),
        )
    }

    fn into_path(self) -> PathBuf {
        let mut bytes = self.0.into_vec();
        for byte in &mut bytes {
            if *byte == 0 {
                *byte = b'/';
            }
        }
        OsString::from_vec(bytes).into()
    }
}

/// Results by path from the root, in bounded memory.
///
/// Whatever order threads come in, the same results are kept: those of the first paths that fit together.
#[derive(Debug, Default)]
pub(in super::super) struct Kept {
    found: BTreeMap<Key, Found>,
    n_bytes: usize,
    /// From this path on nothing is kept.
    limit: Option<Key>,
    totals: Totals,
}

/// All that was found, kept or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Totals {
    /// Files with a match.
    pub n_files: usize,
    /// Matches in them.
    pub n_matches: u64,
}

/// Results in the order of their paths.
#[derive(Debug, Default)]
pub(in super::super) struct Results {
    /// By path from the root.
    pub files: Vec<(PathBuf, Found)>,
    /// Also of what is not in `files`.
    pub totals: Totals,
    /// Something was left out.
    pub is_cut: bool,
}

impl Kept {
    /// Whether what this file gives would be left out.
    pub(in super::super) fn is_beyond(&self, path: &Path) -> bool {
        self.limit
            .as_ref()
            .is_some_and(|limit| Key::new(path) >= *limit)
    }

    /// Takes what a file gave.
    pub(in super::super) fn add(&mut self, path: &Path, found: Found) {
        self.totals.n_files += 1;
        self.totals.n_matches += found.n_matches;
        let key = Key::new(path);
        if self.limit.as_ref().is_some_and(|limit| key >= *limit) {
            return;
        }
        self.n_bytes += size(&key, &found);
        self.found.insert(key, found);
        while self.n_bytes > MAX_RESULT_BYTES && self.found.len() > 1 {
            let Some((key, found)) = self.found.pop_last() else {
                break;
            };
            self.n_bytes -= size(&key, &found);
            self.limit = Some(key);
        }
    }

    /// All that was kept.
    pub(in super::super) fn into_results(self) -> Results {
        let is_cut = self.limit.is_some() || self.found.values().any(|found| found.is_cut);
        let files = self.found.into_iter();
        Results {
            files: files.map(|(key, found)| (key.into_path(), found)).collect(),
            totals: self.totals,
            is_cut,
        }
    }
}

fn size(key: &Key, found: &Found) -> usize {
    key.0.len() + 16 + found.lines.n_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(n_bytes: usize) -> Found {
        let mut lines = Lines::default();
        lines.push(1, &"x".repeat(n_bytes), true);
        Found {
            n_matches: 1,
            lines,
            ..Found::default()
        }
    }

    #[test]
    fn paths_are_in_the_order_of_their_components() {
        let mut paths = ["a.b", "a/b", "a", "b", "a-b/c", "a/b/c", "é"].map(PathBuf::from);
        let mut keys = paths.each_ref().map(|path| Key::new(path));
        paths.sort();
        keys.sort();
        assert_eq!(keys.map(Key::into_path), paths);
    }

    #[test]
    fn the_same_is_kept_in_whatever_order_it_comes() {
        let third = MAX_RESULT_BYTES / 3;
        let files = [
            ("a", third),
            ("b", third),
            ("c", third * 2),
            ("d", 10),
            ("e", third),
        ];
        let orders = [
            [0, 1, 2, 3, 4],
            [4, 3, 2, 1, 0],
            [2, 4, 0, 3, 1],
            [3, 0, 2, 1, 4],
        ];
        for order in orders {
            let mut kept = Kept::default();
            for (name, n_bytes) in order.map(|index: usize| files[index]) {
                kept.add(Path::new(name), found(n_bytes));
            }
            assert!(kept.is_beyond(Path::new("c")) && !kept.is_beyond(Path::new("b/x")));
            let results = kept.into_results();
            assert_eq!((results.is_cut, results.totals.n_files), (true, 5));
            let names: Vec<_> = results.files.into_iter().map(|(path, _)| path).collect();
            assert_eq!(names, [PathBuf::from("a"), PathBuf::from("b")], "{order:?}");
        }
    }
}
