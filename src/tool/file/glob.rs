//! Glob: finding files by name.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use futures::FutureExt;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::FileDeps;
use super::search::{self, Ended, Entry, Pattern, Report, Tally, Walk};
use super::target::{self, Failed, Target};
use crate::kernel::access::Access;
use crate::kernel::rule::Subject;
use crate::path::Workspace;
use crate::tool::output::{cut_display, one_line};
use crate::tool::{Call, CallCx, ExecCx, Execute, Outcome, Refusal, Tool, ToolSpec, args};

/// Files that are listed.
const MAX_FILES: usize = 100;

/// What the model gives.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GlobArgs {
    /// The glob.
    #[schemars(length(min = 1))]
    pattern: String,
    /// Directory to look in; the working directory by default.
    #[serde(default)]
    path: Option<String>,
    /// Also find files that are ignored.
    #[serde(default)]
    include_ignored: bool,
    /// Without effect: only files are found.
    #[serde(default, rename = "include_dirs")]
    _include_dirs: Option<bool>,
}

/// See the module.
#[derive(Debug)]
pub struct Glob {
    spec: ToolSpec,
    deps: FileDeps,
}

impl Glob {
    /// The tool's name.
    pub const NAME: &'static str = "Glob";

    /// Makes the tool.
    pub fn new(deps: FileDeps) -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("glob.md").trim().into(),
            parameters: Arc::new(args::schema_of::<GlobArgs>()),
            dedupe: true,
            own_budget: true,
        };
        Self { spec, deps }
    }
}

impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        let args: GlobArgs = args::typed(args)?;
        if args.pattern.starts_with('!') {
            return Err(Refusal::new(
                "A pattern that begins with ! names no files; write what is to be found.",
            ));
        }
        let root = cx
            .workspace
            .resolve_root(args.path.as_deref().unwrap_or("."))?
            .path;
        let display = Display::Search {
            query: cut_display(&args.pattern).0.to_owned(),
            path: root.display().to_string(),
            glob: None,
        };
        Ok(Call {
            accesses: vec![Access::search(&root)],
            title: format!("Search {}", one_line(&args.pattern)),
            display,
            subject: Subject::Text(args.pattern.clone()),
            preview: None,
            execute: GlobJob {
                args,
                deps: self.deps.clone(),
                workspace: Arc::clone(&cx.workspace),
            }
            .execute(),
        })
    }
}

struct GlobJob {
    args: GlobArgs,
    deps: FileDeps,
    workspace: Arc<Workspace>,
}

/// What the threads of a search share with whoever waits for it.
#[derive(Debug, Default)]
struct Shared {
    /// Where it begins, or why it doesn't.
    walk: OnceLock<Result<Walk, Failed>>,
    newest: Mutex<Newest>,
    tally: Tally,
    failed: OnceLock<Failed>,
}

impl Shared {
    fn newest(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The newest files seen so far, and how many there were in all.
#[derive(Debug, Default)]
struct Newest {
    /// The one to drop next is on top: oldest, and of those the last by path.
    heap: BinaryHeap<Reverse<(Option<SystemTime>, Reverse<PathBuf>)>>,
    n_seen: usize,
}

impl Newest {
    fn add(&mut self, modified: Option<SystemTime>, path: &Path) {
        self.n_seen += 1;
        // Most files of a large tree are older than the newest so far, and their paths need not be kept.
        let is_hopeless = self.heap.len() >= MAX_FILES
            && self
                .heap
                .peek()
                .is_some_and(|Reverse((oldest, Reverse(last)))| {
                    (modified, Reverse(path)) < (*oldest, Reverse(last.as_path()))
                });
        if is_hopeless {
            return;
        }
        self.heap
            .push(Reverse((modified, Reverse(path.to_owned()))));
        if self.heap.len() > MAX_FILES {
            self.heap.pop();
        }
    }

    fn into_paths(self) -> Vec<PathBuf> {
        self.heap
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse((_, Reverse(path)))| path)
            .collect()
    }
}

impl GlobJob {
    fn execute(self) -> Execute {
        Box::new(move |cx| {
            self.glob(cx)
                .map(|outcome| outcome.unwrap_or_else(Outcome::from))
                .boxed()
        })
    }

    async fn glob(self, cx: ExecCx) -> Result<Outcome, Failed> {
        let shown = self.args.path.clone().unwrap_or_else(|| ".".to_owned());
        let Some(target) = target::of_call(&cx.accesses, &shown) else {
            return Err(target::no_access());
        };
        let job = Arc::new(self);
        let as_written = job.args.pattern.clone();
        let is_bracketed = as_written.contains(['[', ']', '(', ')']);
        let first = Self::search(&job, as_written.clone(), &target, &cx).await;
        // Frameworks name files after routes, such as `[id].tsx`.
        let is_literal = is_bracketed
            && match &first {
                Ok((shared, ended)) => *ended == Ended::Completed && shared.newest().n_seen == 0,
                Err(_) => true,
            };
        let (shared, ended) = if is_literal {
            let literal = literal_brackets(&as_written);
            let second = Self::search(&job, literal, &target, &cx).await;
            // What is wrong is told about the pattern as it was written.
            if second.is_ok() { second } else { first }?
        } else {
            first?
        };
        job.outcome(&shared, ended)
    }

    async fn search(
        job: &Arc<Self>,
        pattern: String,
        target: &Target,
        cx: &ExecCx,
    ) -> Result<(Arc<Shared>, Ended), Failed> {
        let shared = Arc::new(Shared::default());
        let ended = job.deps.search.run(&cx.cancel, search::SEARCH_TIME, {
            let (job, shared, target) = (Arc::clone(job), Arc::clone(&shared), target.clone());
            move |crew| {
                let walk = shared.walk.get_or_init(|| job.walk(&pattern, &target));
                let searched = walk.as_ref().map_err(Failed::clone).and_then(|walk| {
                    walk.run(&shared.tally, crew, || {
                        |entry: &Entry<'_>| {
                            // Asked before the lock is taken: that takes longer than all the rest.
                            let modified = entry.modified();
                            shared.newest().add(modified, entry.relative);
                        }
                    })
                });
                if let Err(failed) = searched {
                    // Set by this search alone.
                    let _ = shared.failed.set(failed);
                }
            }
        });
        let ended = search::begun(ended.await)?;
        match shared.failed.get() {
            Some(failed) => Err(failed.clone()),
            None => Ok((shared, ended)),
        }
    }

    fn walk(&self, pattern: &str, target: &Target) -> Result<Walk, Failed> {
        let root = search::open_root(target, &self.workspace)?;
        if root.is_file {
            return Err(Failed::new(format!(
                "{} is a file, not a directory.",
                target.shown
            )));
        }
        let pattern = Pattern::new(pattern, [&root.declared, &root.real]).map_err(Failed::new)?;
        Ok(Walk {
            workspace: Arc::clone(&self.workspace),
            root,
            include_ignored: self.args.include_ignored,
            types: None,
            filter: Some(pattern.into()),
            with_dirs: false,
        })
    }

    fn outcome(&self, shared: &Shared, ended: Ended) -> Result<Outcome, Failed> {
        let newest = std::mem::take(&mut *shared.newest());
        let n_seen = newest.n_seen;
        let Some(Ok(walk)) = shared
            .walk
            .get()
            .filter(|_| n_seen > 0 || ended != Ended::TimedOut)
        else {
            return Err(search::nothing_in_time("Look in a smaller directory."));
        };
        let root = &walk.root;
        let troubles = shared.tally.troubles();
        if n_seen == 0 && !troubles.is_empty() {
            let named = troubles
                .iter()
                .take(5)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ");
            return Err(Failed::new(format!(
                "Nothing was found, but not everything could be read: {named}."
            )));
        }
        let mut report = Report::default();
        if n_seen > MAX_FILES {
            report.line(&format!(
                "[Truncated: only the newest {MAX_FILES} of {n_seen} files are listed. Narrow the pattern to see others.]"
            ));
            report.incomplete();
        }
        for path in newest.into_paths() {
            let shown = report.path(&self.workspace, root, &path);
            report.line(&shown);
        }
        if n_seen == 0 {
            let among = if shared.tally.skipped().is_empty() {
                ""
            } else {
                " that are not protected"
            };
            report.line(&format!("No files found{among}."));
        }
        if n_seen == MAX_FILES {
            report.notice(format!("{MAX_FILES} files found."));
        }
        report.left_out(&shared.tally, ended, &self.workspace, root);
        Ok(report.into_outcome(&self.args.pattern))
    }
}

/// The pattern with brackets taken as they are.
fn literal_brackets(pattern: &str) -> String {
    let mut literal = String::new();
    for c in pattern.chars() {
        match c {
            '[' => literal.push_str("[[]"),
            ']' => literal.push_str("[]]"),
            c => literal.push(c),
        }
    }
    literal
}

#[cfg(test)]
#[path = "glob_tests.rs"]
mod tests;
