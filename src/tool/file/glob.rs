//! Glob: finding files by name.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use futures::FutureExt;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::FileDeps;
use super::search::{self, Ended, Pattern, Report, Root, SEARCH_TIME, Tally, Walk};
use super::target::{self, Failed};
use crate::kernel::access::Access;
use crate::kernel::rule::Subject;
use crate::os::blocking;
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
struct Results {
    newest: Mutex<Newest>,
    tally: Tally,
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
        let root = blocking::run(move || search::open_root(&target)).await?;
        if root.is_file {
            return Err(Failed::new(format!("{shown} is a file, not a directory.")));
        }
        let (mut results, mut ended) = self.search(&self.args.pattern, &root, &cx).await?;
        let is_bracketed = self.args.pattern.contains(['[', ']', '(', ')']);
        if n_seen(&results) == 0 && ended == Ended::Completed && is_bracketed {
            // Frameworks name files after routes, such as `[id].tsx`.
            (results, ended) = self
                .search(&literal_brackets(&self.args.pattern), &root, &cx)
                .await?;
        }
        self.outcome(&root, &results, ended)
    }

    async fn search(
        &self,
        pattern: &str,
        root: &Root,
        cx: &ExecCx,
    ) -> Result<(Arc<Results>, Ended), Failed> {
        let pattern = Pattern::new(pattern, [&root.declared, &root.real]).map_err(Failed::new)?;
        let walk = Walk {
            workspace: Arc::clone(&self.workspace),
            root: root.clone(),
            include_ignored: self.args.include_ignored,
            types: None,
            filter: Some(pattern.clone().into()),
            narrow: Some(pattern),
        };
        let results = Arc::new(Results::default());
        let ended = self.deps.search.run(&cx.cancel, SEARCH_TIME, {
            let results = Arc::clone(&results);
            move |stop, n_threads| {
                let results = &*results;
                walk.run(&results.tally, stop, n_threads, || {
                    move |entry: &ignore::DirEntry, relative: &Path| {
                        let modified = entry.metadata().ok().and_then(|meta| meta.modified().ok());
                        results
                            .newest
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .add(modified, relative);
                    }
                });
            }
        });
        match ended.await {
            Ended::Cancelled => Err(target::cancelled()),
            ended => Ok((results, ended)),
        }
    }

    fn outcome(&self, root: &Root, results: &Results, ended: Ended) -> Result<Outcome, Failed> {
        let newest = std::mem::take(
            &mut *results
                .newest
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        let n_seen = newest.n_seen;
        let troubles = results.tally.troubles();
        if n_seen == 0 && ended == Ended::TimedOut {
            return Err(Failed::new(
                "The search was stopped after 20 seconds and had found nothing until then. Look in a smaller directory.",
            ));
        }
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
            report.line(&search::shown_path(&self.workspace, root, &path));
        }
        if n_seen == 0 {
            let among = if results.tally.skipped().is_empty() {
                ""
            } else {
                " that are not protected"
            };
            report.line(&format!("No files found{among}."));
        }
        if n_seen == MAX_FILES {
            report.notice(format!("{MAX_FILES} files found."));
        }
        report.left_out(&results.tally, ended, &self.workspace, root);
        Ok(report.into_outcome(&self.args.pattern))
    }
}

fn n_seen(results: &Results) -> usize {
    results
        .newest
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .n_seen
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
