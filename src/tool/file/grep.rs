//! Grep: searching the content of files.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use ignore::types::{Types, TypesBuilder};
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::FileDeps;
use super::search::{
    self, Ended, Engine, EngineOptions, Filter, Found, Kept, Mode, Report, Root, SEARCH_TIME, Stop,
    Tally, Walk,
};
use super::target::{self, Failed, io_reason};
use crate::kernel::access::Access;
use crate::kernel::rule::Subject;
use crate::os::{blocking, fs};
use crate::path::Workspace;
use crate::schema::nearest;
use crate::tool::output::{cut_display, one_line};
use crate::tool::{Call, CallCx, ExecCx, Execute, Outcome, Refusal, Tool, ToolSpec, args};

/// What the model gives.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GrepArgs {
    /// The regular expression.
    #[schemars(length(min = 1))]
    pattern: String,
    /// File or directory to search; the working directory by default.
    #[serde(default)]
    path: Option<String>,
    /// Keep only files that match this glob, relative to `path`; with `!` in front, drop them.
    #[serde(default)]
    glob: Option<String>,
    /// Keep only files of this type, such as rust, py, js.
    #[serde(default, rename = "type")]
    file_type: Option<String>,
    /// What to show.
    #[serde(default)]
    output_mode: OutputMode,
    /// Ignore case.
    #[serde(default, rename = "-i")]
    ignore_case: bool,
    /// Show line numbers (content mode).
    #[serde(default = "yes", rename = "-n")]
    line_numbers: bool,
    /// Lines to show after each match (content mode).
    #[serde(default, rename = "-A")]
    after: Option<u32>,
    /// Lines to show before each match (content mode).
    #[serde(default, rename = "-B")]
    before: Option<u32>,
    /// Lines to show before and after each match; overrides both (content mode).
    #[serde(default, rename = "-C")]
    around: Option<u32>,
    /// How many results to show at most; 0 for all.
    #[serde(default = "default_limit")]
    head_limit: u32,
    /// How many results to pass over.
    #[serde(default)]
    offset: u32,
    /// Let matches span lines, and `.` match line breaks.
    #[serde(default)]
    multiline: bool,
    /// Also search files that are ignored.
    #[serde(default)]
    include_ignored: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    #[default]
    FilesWithMatches,
    Content,
    CountMatches,
}

fn yes() -> bool {
    true
}

fn default_limit() -> u32 {
    250
}

/// See the module.
#[derive(Debug)]
pub struct Grep {
    spec: ToolSpec,
    deps: FileDeps,
}

impl Grep {
    /// The tool's name.
    pub const NAME: &'static str = "Grep";

    /// Makes the tool.
    pub fn new(deps: FileDeps) -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("grep.md").trim().into(),
            parameters: Arc::new(args::schema_of::<GrepArgs>()),
            dedupe: true,
            own_budget: true,
        };
        Self { spec, deps }
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        let args: GrepArgs = args::typed(args)?;
        let engine = Engine::new(&args.pattern, args.engine_options()).map_err(Refusal::new)?;
        let types = args.file_type.as_deref().map(types).transpose()?;
        let root = cx
            .workspace
            .resolve_root(args.path.as_deref().unwrap_or("."))?
            .path;
        let display = Display::Search {
            query: cut_display(&args.pattern).0.to_owned(),
            path: root.display().to_string(),
            glob: args.glob.clone(),
        };
        Ok(Call {
            accesses: vec![Access::search(&root)],
            title: format!("Search {}", one_line(&args.pattern)),
            display,
            subject: Subject::Text(args.pattern.clone()),
            preview: None,
            execute: GrepJob {
                args,
                engine,
                types,
                deps: self.deps.clone(),
                workspace: Arc::clone(&cx.workspace),
            }
            .execute(),
        })
    }
}

impl GrepArgs {
    fn mode(&self) -> Mode {
        match self.output_mode {
            OutputMode::FilesWithMatches => Mode::Files,
            OutputMode::Content => Mode::Content,
            OutputMode::CountMatches => Mode::Counts,
        }
    }

    fn engine_options(&self) -> EngineOptions {
        let lines = |own: Option<u32>| self.around.or(own).unwrap_or(0) as usize;
        EngineOptions {
            mode: self.mode(),
            ignore_case: self.ignore_case,
            multiline: self.multiline,
            before: lines(self.before),
            after: lines(self.after),
        }
    }
}

fn types(name: &str) -> Result<Types, Refusal> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let known = builder.definitions();
    builder.select(name).build().map_err(|_| {
        let near = nearest(name, known.iter().map(ignore::types::FileTypeDef::name), 3);
        let hint = if near.is_empty() {
            String::new()
        } else {
            format!(" Did you mean {}?", near.join(" or "))
        };
        Refusal::new(format!(
            "There is no file type {name}.{hint} Use `glob` for other kinds of files."
        ))
    })
}

struct GrepJob {
    args: GrepArgs,
    engine: Engine,
    types: Option<Types>,
    deps: FileDeps,
    workspace: Arc<Workspace>,
}

/// What the threads of a search share with whoever waits for it.
#[derive(Debug, Default)]
struct Results {
    kept: Mutex<Kept>,
    tally: Tally,
}

impl GrepJob {
    fn execute(self) -> Execute {
        Box::new(move |cx| {
            self.grep(cx)
                .map(|outcome| outcome.unwrap_or_else(Outcome::from))
                .boxed()
        })
    }

    async fn grep(self, cx: ExecCx) -> Result<Outcome, Failed> {
        let shown = self.args.path.as_deref().unwrap_or(".");
        let Some(target) = target::of_call(&cx.accesses, shown) else {
            return Err(target::no_access());
        };
        let root = blocking::run(move || search::open_root(&target)).await?;
        let filter = self
            .args
            .glob
            .as_deref()
            .map(|glob| Filter::new(glob, [&root.declared, &root.real]));
        let walk = Arc::new(Walk {
            workspace: Arc::clone(&self.workspace),
            root: root.clone(),
            include_ignored: self.args.include_ignored,
            types: self.types.clone(),
            filter: filter.transpose().map_err(Failed::new)?,
            narrow: None,
        });
        let results = Arc::new(Results::default());
        let ended = self.deps.search.run(&cx.cancel, SEARCH_TIME, {
            let (engine, walk, results) =
                (self.engine.clone(), Arc::clone(&walk), Arc::clone(&results));
            move |stop, n_threads| {
                if walk.root.is_file {
                    search_named(&engine, &walk, &results, stop);
                } else {
                    search_tree(&engine, &walk, &results, stop, n_threads);
                }
            }
        });
        match ended.await {
            Ended::Cancelled => Err(target::cancelled()),
            ended => self.outcome(&root, &results, ended),
        }
    }

    fn outcome(&self, root: &Root, results: &Results, ended: Ended) -> Result<Outcome, Failed> {
        let kept =
            std::mem::take(&mut *results.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let is_cut = kept.is_cut();
        let found = kept.into_found();
        if found.is_empty() && ended == Ended::TimedOut {
            return Err(Failed::new(
                "The search was stopped after 20 seconds and had found nothing until then. Search a smaller directory, \
                 or narrow it down with `glob` or `type`.",
            ));
        }
        let mut report = Report::default();
        if found.is_empty() {
            let among = if results.tally.skipped().is_empty() {
                ""
            } else {
                " in files that are not protected"
            };
            report.line(&format!("No matches found{among}."));
        } else {
            match self.args.mode() {
                Mode::Files => self.files(&mut report, root, &found),
                Mode::Counts => self.counts(&mut report, root, &found),
                Mode::Content => self.content(&mut report, root, &found),
            }
        }
        if is_cut {
            report.notice("There were more matches than can be kept (10 MiB); narrow the search to see the rest.");
            report.incomplete();
        }
        report.left_out(&results.tally, ended, &self.workspace, root);
        Ok(report.into_outcome(&self.args.pattern))
    }

    fn files(&self, report: &mut Report, root: &Root, found: &BTreeMap<PathBuf, Found>) {
        let mut files: Vec<(&PathBuf, &Found)> = found.iter().collect();
        // Sorting keeps the order by path among files of the same time.
        files.sort_by_key(|(_, found)| Reverse(found.modified));
        let page = self.page(files.len());
        let lines = files[page.start..page.end]
            .iter()
            .map(|(path, _)| self.shown(root, path));
        let n_shown = add_lines(report, lines);
        notice_of_page(report, "file", page, n_shown);
    }

    fn counts(&self, report: &mut Report, root: &Root, found: &BTreeMap<PathBuf, Found>) {
        let n_matches: u64 = found.values().map(|found| found.n_matches).sum();
        let page = self.page(found.len());
        let matches = if n_matches == 1 { "match" } else { "matches" };
        let files = if found.len() == 1 { "file" } else { "files" };
        let mut header = format!("{n_matches} {matches} in {} {files}.", found.len());
        // In front, where no limit cuts it off.
        if let Some(notice) = page.notice("file", page.end - page.start) {
            header.push(' ');
            header.push_str(&notice);
        }
        report.line(&header);
        let rows = found.iter().skip(page.start).take(page.end - page.start);
        let n_shown = add_lines(
            report,
            rows.map(|(path, found)| format!("{}:{}", self.shown(root, path), found.n_matches)),
        );
        if n_shown < page.end - page.start {
            notice_of_page(report, "file", page, n_shown);
        }
        if page.end > page.start && page.end < page.total {
            report.incomplete();
        }
    }

    fn content(&self, report: &mut Report, root: &Root, found: &BTreeMap<PathBuf, Found>) {
        let options = self.args.engine_options();
        let has_context = options.before > 0 || options.after > 0;
        let rows: Vec<(&PathBuf, Row<'_>)> = found
            .iter()
            .flat_map(|(path, found)| {
                let binary = found
                    .is_binary
                    .then_some((path, Row::Binary(found.n_matches)));
                binary
                    .into_iter()
                    .chain(found.lines.iter().map(move |line| (path, Row::Line(line))))
            })
            .collect();
        let page = self.page(rows.len());
        let mut n_shown = 0;
        let mut before: Option<(&Path, u64)> = None;
        for (path, row) in &rows[page.start..page.end] {
            let shown = self.shown(root, path);
            let (number, text) = match row {
                Row::Binary(n_matches) => (
                    0,
                    format!("{shown} is a binary file; it holds the pattern {n_matches} times."),
                ),
                Row::Line(line) => {
                    let sign = if line.is_match || !self.args.line_numbers {
                        ':'
                    } else {
                        '-'
                    };
                    let number = if self.args.line_numbers {
                        format!("{}{sign}", line.number)
                    } else {
                        String::new()
                    };
                    (line.number, format!("{shown}{sign}{number}{}", line.text))
                }
            };
            let follows =
                before.is_some_and(|(file, last)| file == path.as_path() && number == last + 1);
            if has_context && before.is_some() && !follows && !report.line("--") {
                break;
            }
            if !report.line(&text) {
                break;
            }
            before = Some((path, number));
            n_shown += 1;
        }
        notice_of_page(report, "line", page, n_shown);
    }

    fn shown(&self, root: &Root, relative: &Path) -> String {
        search::shown_path(&self.workspace, root, relative)
    }

    fn page(&self, total: usize) -> Page {
        let start = (self.args.offset as usize).min(total);
        let end = match self.args.head_limit {
            0 => total,
            limit => total.min(start + limit as usize),
        };
        Page { start, end, total }
    }
}

/// A line of content mode.
enum Row<'f> {
    Line(&'f search::FoundLine),
    /// A binary file that was named, with its number of matches.
    Binary(u64),
}

/// A part of the results.
#[derive(Debug, Clone, Copy)]
struct Page {
    start: usize,
    end: usize,
    total: usize,
}

impl Page {
    /// What to tell where not all is shown.
    fn notice(self, what: &str, n_shown: usize) -> Option<String> {
        let Self { start, total, .. } = self;
        let end = start + n_shown;
        if start >= total {
            return Some(format!(
                "There are {total} {what}s; the offset is behind the last."
            ));
        }
        if end < total {
            return Some(format!(
                "Showing {what}s {} to {end} of {total}; for more set offset to {end}.",
                start + 1
            ));
        }
        (start > 0).then(|| format!("Showing {what}s {} to {end} of {total}.", start + 1))
    }
}

/// Tells where not all is shown.
fn notice_of_page(report: &mut Report, what: &str, page: Page, n_shown: usize) {
    if let Some(notice) = page.notice(what, n_shown) {
        report.notice(notice);
        report.incomplete();
    }
}

/// Adds lines while there is room; how many.
fn add_lines(report: &mut Report, lines: impl Iterator<Item = String>) -> usize {
    let mut n_added = 0;
    for line in lines {
        if !report.line(&line) {
            break;
        }
        n_added += 1;
    }
    n_added
}

/// Searches the one file that was named; rules for walking don't apply, protection does.
fn search_named(engine: &Engine, walk: &Walk, results: &Results, stop: &Stop) {
    let root = &walk.root;
    let here = Path::new("");
    if walk.is_sensitive(&root.real, here) {
        results.tally.skip(PathBuf::new());
        return;
    }
    let mut searcher = engine.searcher(true);
    search_file(
        engine,
        &mut searcher,
        walk,
        (&root.real, here),
        results,
        stop,
    );
}

fn search_tree(engine: &Engine, walk: &Walk, results: &Results, stop: &Stop, n_threads: usize) {
    walk.run(&results.tally, stop, n_threads, || {
        let mut searcher = engine.searcher(false);
        move |entry: &ignore::DirEntry, relative: &Path| {
            search_file(
                engine,
                &mut searcher,
                walk,
                (entry.path(), relative),
                results,
                stop,
            );
        }
    });
}

fn search_file(
    engine: &Engine,
    searcher: &mut grep_searcher::Searcher,
    walk: &Walk,
    (real, relative): (&Path, &Path),
    results: &Results,
    stop: &Stop,
) {
    let trouble = |reason: String| {
        let shown = search::shown_path(&walk.workspace, &walk.root, relative);
        results.tally.trouble(format!("{shown} ({reason})"));
    };
    let (file, meta) = match fs::open_real(real) {
        Ok(opened) => opened,
        // It went away, or something else took its place, since the directory was listed.
        Err(error) if error.is_not_found() || error.not_regular().is_some() => return,
        Err(error) => return trouble(io_reason(&error.source)),
    };
    match engine.search(searcher, file, stop) {
        Ok(Some(mut found)) => {
            found.modified = meta.modified().ok();
            results
                .kept
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(relative, found);
        }
        Ok(None) => {}
        Err(error) => trouble(io_reason(&error)),
    }
}

#[cfg(test)]
#[path = "grep_tests.rs"]
mod tests;
