//! Grep: searching the content of files.

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use futures::FutureExt;
use ignore::types::{Types, TypesBuilder};
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::FileDeps;
use super::search::{
    self, Chosen, Crew, Ended, Engine, EngineOptions, Entry, Filter, Found, Kept, Mode, Report,
    Results, Root, Tally, Walk, Worker,
};
use super::target::{self, Failed, Target};
use crate::kernel::access::Access;
use crate::kernel::rule::Subject;
use crate::os::fs;
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
struct Shared {
    /// Where it begins, or why it doesn't.
    walk: OnceLock<Result<Walk, Failed>>,
    kept: Mutex<Kept>,
    tally: Tally,
    failed: OnceLock<Failed>,
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let shared = Arc::new(Shared::default());
        let job = Arc::new(self);
        let ended = job.deps.search.run(&cx.cancel, search::SEARCH_TIME, {
            let (job, shared) = (Arc::clone(&job), Arc::clone(&shared));
            move |crew| {
                let walk = shared.walk.get_or_init(|| job.walk(&target));
                let searched = walk
                    .as_ref()
                    .map_err(Failed::clone)
                    .and_then(|walk| job.search(walk, &shared, crew));
                if let Err(failed) = searched {
                    // Set by this search alone.
                    let _ = shared.failed.set(failed);
                }
            }
        });
        let ended = search::begun(ended.await)?;
        if let Some(failed) = shared.failed.get() {
            return Err(failed.clone());
        }
        job.outcome(&shared, ended)
    }

    fn walk(&self, target: &Target) -> Result<Walk, Failed> {
        let root = search::open_root(target, &self.workspace)?;
        let filter = self.args.glob.as_deref();
        let filter = filter.map(|glob| Filter::new(glob, [&root.declared, &root.real]));
        Ok(Walk {
            workspace: Arc::clone(&self.workspace),
            root,
            include_ignored: self.args.include_ignored,
            types: self.types.clone(),
            filter: filter.transpose().map_err(Failed::new)?,
            with_dirs: false,
        })
    }

    fn search(&self, walk: &Walk, shared: &Shared, crew: &Crew) -> Result<(), Failed> {
        let here = Path::new("");
        if !walk.root.is_file {
            return walk.run(&shared.tally, crew, || {
                let mut worker = self.engine.worker(Chosen::Met);
                move |entry: &Entry<'_>| {
                    // Lines that would not be kept need not be looked for.
                    let is_idle = self.args.mode() == Mode::Content
                        && shared.kept().is_beyond(entry.relative);
                    if !is_idle && let Err(error) = search_met(&mut worker, entry, shared, crew) {
                        shared.tally.trouble(walk.place(entry.relative, &error));
                    }
                }
            });
        }
        if walk.is_sensitive(&walk.root.real, here) {
            shared.tally.skip(here.to_owned());
            return Ok(());
        }
        let opened = walk.open_named()?;
        let mut worker = self.engine.worker(Chosen::Named);
        match worker.search(opened, &crew.stop) {
            Ok(Some(found)) => shared.kept().add(here, found),
            Ok(None) => {}
            Err(error) => shared.tally.trouble(walk.place(here, &error)),
        }
        Ok(())
    }

    fn outcome(&self, shared: &Shared, ended: Ended) -> Result<Outcome, Failed> {
        let results = std::mem::take(&mut *shared.kept()).into_results();
        let Some(Ok(walk)) = shared
            .walk
            .get()
            .filter(|_| !(results.files.is_empty() && ended == Ended::TimedOut))
        else {
            return Err(search::nothing_in_time(
                "Search a smaller directory, or narrow it down with `glob` or `type`.",
            ));
        };
        let root = &walk.root;
        let mut report = Report::default();
        if results.files.is_empty() {
            let among = match (
                shared.tally.skipped().is_empty(),
                shared.tally.troubles().is_empty(),
            ) {
                (_, false) => " in what could be looked at",
                (false, true) => " in files that are not protected",
                (true, true) => "",
            };
            report.line(&format!("No matches found{among}."));
        } else {
            match self.args.mode() {
                Mode::Files => self.files(&mut report, root, &results),
                Mode::Counts => self.counts(&mut report, root, &results),
                Mode::Content => self.content(&mut report, root, &results),
            }
        }
        if results.is_cut {
            report.notice("There were more matches than can be kept (10 MiB); narrow the search to see the rest.");
            report.incomplete();
        }
        report.left_out(&shared.tally, ended, &self.workspace, root);
        Ok(report.into_outcome(&self.args.pattern))
    }

    fn files(&self, report: &mut Report, root: &Root, results: &Results) {
        let mut files: Vec<&(PathBuf, Found)> = results.files.iter().collect();
        // Sorting keeps the order by path among files of the same time.
        files.sort_by_key(|(_, found)| Reverse(found.modified));
        let page = self.page(files.len());
        let mut n_shown = 0;
        for (path, _) in &files[page.start..page.end] {
            let line = report.path(&self.workspace, root, path);
            if !report.line(&line) {
                break;
            }
            n_shown += 1;
        }
        notice_of_page(report, "file", page, n_shown);
    }

    fn counts(&self, report: &mut Report, root: &Root, results: &Results) {
        let (n_matches, n_files) = (results.totals.n_matches, results.totals.n_files);
        let page = self.page(results.files.len());
        let matches = if n_matches == 1 { "match" } else { "matches" };
        let files = if n_files == 1 { "file" } else { "files" };
        let mut header = format!("{n_matches} {matches} in {n_files} {files}.");
        // In front, where no limit cuts it off.
        if let Some(notice) = page.notice("file", page.end - page.start) {
            header.push(' ');
            header.push_str(&notice);
        }
        report.line(&header);
        let mut n_shown = 0;
        for (path, found) in &results.files[page.start..page.end] {
            let shown = report.path(&self.workspace, root, path);
            if !report.line(&format!("{shown}:{}", found.n_matches)) {
                break;
            }
            n_shown += 1;
        }
        if n_shown < page.end - page.start {
            notice_of_page(report, "file", page, n_shown);
        }
        if page.end > page.start && page.end < page.total {
            report.incomplete();
        }
    }

    fn content(&self, report: &mut Report, root: &Root, results: &Results) {
        let options = self.args.engine_options();
        let has_context = options.before > 0 || options.after > 0;
        let total = results.files.iter().map(|(_, found)| n_rows(found)).sum();
        let page = self.page(total);
        let (mut row, mut n_shown, mut n_left) = (0, 0, 0);
        'files: for (path, found) in &results.files {
            let rows = row..row + n_rows(found);
            row = rows.end;
            if rows.end <= page.start || rows.start >= page.end {
                continue;
            }
            let shown = report.path(&self.workspace, root, path);
            n_left += usize::from(found.is_left);
            if found.is_binary {
                let n_matches = found.n_matches;
                let text =
                    format!("{shown} is a binary file; it holds the pattern {n_matches} times.");
                if !report.line(&text) {
                    break;
                }
                n_shown += 1;
                continue;
            }
            let mut before = None;
            for index in page.start.max(rows.start)..page.end.min(rows.end) {
                let Some(line) = found.lines.get(index - rows.start) else {
                    continue;
                };
                let follows = before.is_some_and(|before: u64| before + 1 == line.number);
                if has_context && n_shown > 0 && !follows && !report.line("--") {
                    break 'files;
                }
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
                if !report.line(&format!("{shown}{sign}{number}{}", line.text)) {
                    break 'files;
                }
                before = Some(line.number);
                n_shown += 1;
            }
        }
        notice_of_page(report, "line", page, n_shown);
        if n_left > 0 {
            report.notice(format!(
                "{n_left} of these files turned out to be binary and were searched up to there only."
            ));
        }
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

/// Lines that a file takes in content mode.
fn n_rows(found: &Found) -> usize {
    if found.is_binary {
        1
    } else {
        found.lines.len()
    }
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

fn search_met(
    worker: &mut Worker<'_>,
    entry: &Entry<'_>,
    shared: &Shared,
    crew: &Crew,
) -> io::Result<()> {
    let opened = match entry.open() {
        Err(error) if fs::is_gone(&error) => return Ok(()),
        opened => opened?,
    };
    if let Some(found) = worker.search(opened, &crew.stop)? {
        shared.kept().add(entry.relative, found);
    }
    Ok(())
}

#[cfg(test)]
#[path = "grep_tests.rs"]
mod tests;
