//! What Grep and Glob share: threads, walking, patterns, and how results and what was left out are told.
//!
//! No program is started and nothing is cached. For each entry of a tree the order of decisions is: version control
//! directories, ignore rules, type, protected files, the model's own glob. A glob is a filter and never brings back what
//! a rule before it took away. Protected files are told by name only, whether or not they would match, and never opened.

mod found;
mod ignores;
mod matches;
mod pattern;
mod pool;
mod queue;
mod report;
mod walk;
mod window;

pub(super) use found::{Found, Kept, Results};
pub(super) use matches::{Chosen, Engine, EngineOptions, Mode, Worker};
pub(super) use pattern::{Filter, Pattern};
pub use pool::SearchPool;
pub(super) use pool::{Crew, Ended, Stop};
pub(super) use report::{Report, shown_path};
pub(super) use walk::{Entry, Root, Tally, Walk, open_root};

use std::time::Duration;

use super::target::{self, Failed};

/// How long one search may take.
pub(super) const SEARCH_TIME: Duration = Duration::from_secs(20);

/// Raw results of one search; what would go over it is left out from the end.
const MAX_RESULT_BYTES: usize = 10 << 20;

/// Results are there, whole or in part; or why there are none.
pub(super) fn begun(ended: Ended) -> Result<Ended, Failed> {
    match ended {
        Ended::Completed | Ended::TimedOut => Ok(ended),
        Ended::Cancelled => Err(target::cancelled()),
        Ended::NeverBegun => Err(Failed::new(
            "Other searches were running until the time of this one was up, so nothing was searched. Try it again.",
        )),
        Ended::Exhausted => Err(Failed::new(
            "Earlier searches hang in the system and hold too many threads, probably on a network drive that does not \
             answer; nothing was searched. Use a shell command with a time limit.",
        )),
    }
}

/// Why a search that ran out of time has nothing to show.
pub(super) fn nothing_in_time(advice: &str) -> Failed {
    Failed::new(format!(
        "The search was stopped after {} seconds and had found nothing until then. {advice}",
        SEARCH_TIME.as_secs()
    ))
}
