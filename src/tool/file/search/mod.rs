//! What Grep and Glob share: threads, walking, patterns, and how results and what was left out are told.
//!
//! No program is started and nothing is cached. For each entry of a tree the order of decisions is: version control
//! directories, ignore rules, type, protected files, the model's own glob. A glob is a filter and never brings back what
//! a rule before it took away. Protected files are told by name only, whether or not they would match, and never opened.

mod matches;
mod pattern;
mod pool;
mod report;
mod walk;

pub(super) use matches::{Engine, EngineOptions, Found, FoundLine, Kept, Mode};
pub(super) use pattern::{Filter, Pattern};
pub use pool::SearchPool;
pub(super) use pool::{Ended, Stop};
pub(super) use report::{Report, shown_path};
pub(super) use walk::{Root, Tally, Walk, open_root};

use std::time::Duration;

/// How long one search may take.
pub(super) const SEARCH_TIME: Duration = Duration::from_secs(20);
