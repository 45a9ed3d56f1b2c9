//! Completing the name of a file while a person types it.
//!
//! The tree is walked anew for each query, as for a search of the model: nothing is remembered, so nothing goes stale.
//! Ignore files count, protected files are left out, version control and links are never entered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use tokio_util::sync::CancellationToken;

use super::SearchPool;
use super::search::{Crew, Ended, Entry, Root, Tally, Walk};
use super::target::Failed;
use crate::path::Workspace;

/// How long one query may take: a person waits for it.
const TIME: Duration = Duration::from_secs(2);

/// Entries looked at for one query. Chosen: several times the largest repositories.
const MAX_ENTRIES: usize = 2_000_000;

/// A file or directory that a query may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// From the working directory, with `/` between names.
    pub path: String,
    /// A directory.
    pub is_dir: bool,
    /// How well it fits; comparable within one result only, 0 where the query is empty.
    pub score: u32,
    /// Which characters of the path fit, counted from 0 in Unicode scalar values, in order.
    pub positions: Vec<u32>,
}

/// What a query may mean, the best first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mentions {
    /// The best of them.
    pub items: Vec<Mention>,
    /// The whole tree was looked at.
    pub is_complete: bool,
}

/// Why nothing could be looked at.
#[derive(Debug, thiserror::Error)]
pub enum CompleteError {
    /// Other searches have all threads.
    #[error("too many searches are running; try again")]
    Busy,
    /// The working directory can't be looked at.
    #[error("{reason}")]
    Unreadable {
        /// A sentence that names it.
        reason: String,
    },
}

/// Where an entry stands among others; the greatest is the best.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    score: u32,
    /// Fewer directories above it, for an empty query.
    depth: Reverse<usize>,
    /// Newer, for an empty query.
    modified: Option<SystemTime>,
    /// Shorter.
    n_bytes: Reverse<usize>,
    path: Reverse<String>,
    is_dir: bool,
}

/// The best so far; the worst of them is on top.
#[derive(Debug)]
struct Best {
    heap: Mutex<BinaryHeap<Reverse<Rank>>>,
    n_max: usize,
    n_seen: AtomicUsize,
}

/// Finds the files and directories below the working directory that a query may mean.
///
/// Each word of the query must occur in the path, its characters in their order and not necessarily together. Capital
/// letters in the query count, small ones stand for both. An empty query gives what lies highest, the newest first.
///
/// # Errors
/// See [`CompleteError`].
pub async fn complete(
    pool: &SearchPool,
    workspace: Arc<Workspace>,
    query: &str,
    limit: usize,
) -> Result<Mentions, CompleteError> {
    let best = Arc::new(Best {
        heap: Mutex::default(),
        n_max: limit,
        n_seen: AtomicUsize::new(0),
    });
    let query = query.strip_prefix("./").unwrap_or(query);
    let pattern = Pattern::new(
        query,
        CaseMatching::Smart,
        Normalization::Smart,
        AtomKind::Fuzzy,
    );
    let walk = Walk {
        root: Root {
            declared: workspace.cwd.clone(),
            real: workspace.real_cwd().to_owned(),
            is_file: false,
        },
        workspace,
        include_ignored: false,
        types: None,
        filter: None,
        with_dirs: true,
    };
    let failed = Arc::new(Mutex::new(None::<Failed>));
    // Whoever gives up drops this future.
    let cancel = CancellationToken::new();
    let ended = pool.run(&cancel, TIME, {
        let (best, pattern, failed) = (Arc::clone(&best), pattern.clone(), Arc::clone(&failed));
        move |crew| {
            let walked = walk.run(&Tally::default(), crew, || visitor(&best, &pattern, crew));
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = walked.err();
        }
    });
    let ended = ended.await;
    if !matches!(ended, Ended::Completed | Ended::TimedOut) {
        return Err(CompleteError::Busy);
    }
    let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Failed { message: reason }) = failed {
        return Err(CompleteError::Unreadable { reason });
    }
    let ranks = std::mem::take(&mut *best.heap.lock().unwrap_or_else(PoisonError::into_inner));
    let mut matcher = matcher();
    Ok(Mentions {
        items: ranks
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse(rank)| mention(rank, &pattern, &mut matcher))
            .collect(),
        is_complete: ended == Ended::Completed && best.n_seen.load(Ordering::Relaxed) < MAX_ENTRIES,
    })
}

fn matcher() -> Matcher {
    Matcher::new(Config::DEFAULT.match_paths())
}

fn visitor<'v>(
    best: &'v Best,
    pattern: &'v Pattern,
    crew: &'v Crew,
) -> impl FnMut(&Entry<'_>) + use<'v> {
    let mut matcher = matcher();
    let mut chars = Vec::new();
    move |entry| {
        if best.n_seen.fetch_add(1, Ordering::Relaxed) >= MAX_ENTRIES {
            crew.stop.set();
            return;
        }
        // Others can be named in no message.
        let Some(path) = entry.relative.to_str() else {
            return;
        };
        if pattern.atoms.is_empty() {
            best.offer_shallow(entry, path);
        } else if let Some(score) = pattern.score(Utf32Str::new(path, &mut chars), &mut matcher) {
            best.offer(score, path.len(), || Rank {
                score,
                depth: Reverse(0),
                modified: None,
                n_bytes: Reverse(path.len()),
                path: Reverse(path.to_owned()),
                is_dir: entry.is_dir,
            });
        }
    }
}

impl Best {
    /// For a query: most entries are told apart by score and length alone.
    fn offer(&self, score: u32, n_bytes: usize, rank: impl FnOnce() -> Rank) {
        let mut heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
        let is_hopeless = heap.len() >= self.n_max
            && heap.peek().is_none_or(|Reverse(worst)| {
                (score, Reverse(n_bytes)) < (worst.score, worst.n_bytes)
            });
        if !is_hopeless {
            heap.push(Reverse(rank()));
            if heap.len() > self.n_max {
                heap.pop();
            }
        }
    }

    /// For an empty query: when an entry was changed is asked only where it can matter.
    fn offer_shallow(&self, entry: &Entry<'_>, path: &str) {
        let depth = Reverse(Path::new(path).components().count());
        let is_hopeless = {
            let heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
            heap.len() >= self.n_max && heap.peek().is_none_or(|Reverse(worst)| depth < worst.depth)
        };
        if is_hopeless {
            return;
        }
        let rank = Rank {
            score: 0,
            depth,
            modified: entry.modified(),
            n_bytes: Reverse(path.len()),
            path: Reverse(path.to_owned()),
            is_dir: entry.is_dir,
        };
        let mut heap = self.heap.lock().unwrap_or_else(PoisonError::into_inner);
        heap.push(Reverse(rank));
        if heap.len() > self.n_max {
            heap.pop();
        }
    }
}

fn mention(rank: Rank, pattern: &Pattern, matcher: &mut Matcher) -> Mention {
    let Reverse(path) = rank.path;
    let mut positions = Vec::new();
    let mut chars = Vec::new();
    pattern.indices(Utf32Str::new(&path, &mut chars), matcher, &mut positions);
    positions.sort_unstable();
    positions.dedup();
    Mention {
        path,
        is_dir: rank.is_dir,
        score: rank.score,
        positions,
    }
}

#[cfg(test)]
#[path = "mention_tests.rs"]
mod tests;
