//! Write: a whole file, or more at the end of one.

#[path = "write_held.rs"]
mod held;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use self::held::Through;
use super::buffer::Buffers;
use super::commit::{self, Commit, NotDone, Told};
use super::freshness::{Change, Known};
use super::target::{self, Content, Failed, MAX_EDIT_BYTES, Target};
use super::text::conform::{self, Conformed};
use super::{FileDeps, diff};
use crate::kernel::access::{Access, RealAccess};
use crate::kernel::rule::Subject;
use crate::os::blocking;
use crate::os::fs::{Expect, FileStamp, FsError, Spot};
use crate::store::blob::BlobId;
use crate::tool::output::cut_display;
use crate::tool::{Call, CallCx, Execute, Outcome, Preview, Refusal, Tool, ToolSpec, args};

/// What the model gives.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteArgs {
    /// Path of the file; relative paths start at the working directory.
    path: String,
    /// The whole new content, or what to append.
    content: String,
    /// Replace the content, or add to its end.
    #[serde(default)]
    mode: Mode,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Overwrite,
    Append,
}

/// See the module.
#[derive(Debug)]
pub struct Write {
    spec: ToolSpec,
    deps: FileDeps,
}

impl Write {
    /// The tool's name.
    pub const NAME: &'static str = "Write";

    /// Makes the tool.
    pub fn new(deps: FileDeps) -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("write.md").trim().into(),
            parameters: Arc::new(args::schema_of::<WriteArgs>()),
            dedupe: false,
            own_budget: true,
        };
        Self { spec, deps }
    }
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        let args: WriteArgs = args::typed(args)?;
        let path = cx.workspace.resolve(&args.path)?.path;
        let (content, truncated) = cut_display(&args.content);
        let display = Display::FileWrite {
            path: path.display().to_string(),
            content: content.to_owned(),
            truncated,
        };
        let job = Arc::new(WriteJob {
            args,
            deps: self.deps.clone(),
            buffers: Buffers::of(cx),
        });
        Ok(Call {
            accesses: vec![Access::write(&path)],
            title: format!("Write {}", cx.workspace.show(&path)),
            display,
            subject: Subject::Path(path),
            preview: Some(Arc::clone(&job).preview()),
            execute: job.execute(),
        })
    }
}

struct WriteJob {
    args: WriteArgs,
    deps: FileDeps,
    buffers: Buffers,
}

/// What stands at the path.
enum Existing {
    Nothing,
    /// Content small enough to be looked at.
    Content(Content),
    /// A file too large for that.
    Large(Spot, FileStamp),
}

impl WriteJob {
    fn preview(self: Arc<Self>) -> Preview {
        Box::new(move |accesses: Vec<RealAccess>| {
            async move {
                let target = target::of_call(&accesses, &self.args.path)?;
                if let Some(drawn) = self.draw_held(&target).await {
                    return Some(drawn);
                }
                blocking::run(move || self.draw(&target)).await
            }
            .boxed()
        })
    }

    /// The change of an existing file as it would be made now; for a new one the call's own display says it all.
    fn draw(&self, target: &Target) -> Option<Display> {
        match existing(target) {
            Ok(Existing::Content(old)) => Some(self.draw_over(target, &old.bytes)),
            Ok(Existing::Nothing | Existing::Large(..)) => None,
            Err(failed) => Some(failed.into()),
        }
    }

    fn draw_over(&self, target: &Target, old: &[u8]) -> Display {
        match self.conformed(target, old) {
            Ok((new, _)) => diff::of_file(target.declared(), Some(old), &new),
            Err(failed) => failed.into(),
        }
    }

    /// The whole new content, and what is told about it.
    fn conformed(&self, target: &Target, old: &[u8]) -> Result<(Vec<u8>, Vec<String>), Failed> {
        Ok(match self.args.mode {
            Mode::Overwrite => {
                let prepared = self.prepare(old);
                (prepared.bytes.into_owned(), prepared.notes)
            }
            Mode::Append => {
                let added = self.addition(target, old)?;
                ([old, added.bytes.as_ref()].concat(), added.notes)
            }
        })
    }

    fn execute(self: Arc<Self>) -> Execute {
        Box::new(move |cx| {
            async move {
                let more = match self.write_held(&cx).await {
                    Through::Host(outcome) => return *outcome,
                    Through::Disk { more } => more,
                };
                let (deps, shown) = (self.deps.clone(), self.args.path.clone());
                let job = move |commit: &Commit| commit.restart_once(|| self.attempt(commit));
                let mut outcome = commit::under_lock(deps, shown, cx, job).await;
                if let Some(more) = more {
                    outcome.add_note(&more);
                }
                outcome
            }
            .boxed()
        })
    }

    fn attempt(&self, commit: &Commit) -> Result<Outcome, NotDone> {
        let target = &commit.target;
        match (existing(target)?, self.args.mode) {
            (Existing::Nothing, _) => self.create(commit),
            (Existing::Content(old), Mode::Overwrite) => self.overwrite(commit, &old),
            (Existing::Large(spot, stamp), Mode::Overwrite) => {
                self.overwrite_large(commit, &spot, stamp)
            }
            (Existing::Content(old), Mode::Append) => {
                let known = target.known(&self.deps.freshness, &old);
                let added = self.addition(target, &old.bytes)?;
                let new = [&old.bytes, added.bytes.as_ref()].concat();
                let hash = Some(self.deps.freshness.hash(&new));
                let outcome = append(commit, &old.spot, old.stamp, &added, known, hash)?;
                let display = diff::of_file(target.declared(), Some(&old.bytes), &new);
                let outcome = outcome.with_display(display);
                Ok(commit::with_pre_image(outcome, BlobId::of(&old.bytes)))
            }
            (Existing::Large(spot, stamp), Mode::Append) => {
                let known = self.deps.freshness.compare(target.real(), stamp, || None);
                let added = Conformed::as_is(&self.args.content);
                append(commit, &spot, stamp, &added, known, None)
            }
        }
    }

    fn create(&self, commit: &Commit) -> Result<Outcome, NotDone> {
        let target = &commit.target;
        commit.check_cancel()?;
        let (spot, dirs) =
            Spot::real_making_dirs(target.real()).map_err(|error| target.dirs_error(&error))?;
        let made = dirs.paths();
        let bytes = self.args.content.as_bytes();
        if let Err(error) = commit.put(&spot, bytes, Expect::Absent) {
            dirs.undo();
            return Err(error.into());
        }
        Ok(new_file(self.args.mode, target, &self.args.content, &made))
    }

    fn overwrite(&self, commit: &Commit, old: &Content) -> Result<Outcome, NotDone> {
        let (target, freshness) = (&commit.target, &self.deps.freshness);
        let known = target.known(freshness, old);
        let prepared = self.prepare(&old.bytes);
        if prepared.bytes.as_ref() == old.bytes {
            freshness.record(target.real(), old.stamp, Some(freshness.hash(&old.bytes)));
            return Ok(unchanged(target));
        }
        let mut notes = prepared.notes;
        if !old.bytes.is_empty() {
            notes.extend(told_note(commit.check_known(Change::Whole, known)?));
        }
        let pre_image = commit.replace(old, &prepared.bytes)?;
        let display = diff::of_file(target.declared(), Some(&old.bytes), &prepared.bytes);
        let outcome = done("Wrote", prepared.bytes.len(), target, &notes).with_display(display);
        Ok(commit::with_pre_image(outcome, pre_image))
    }

    fn overwrite_large(
        &self,
        commit: &Commit,
        spot: &Spot,
        stamp: FileStamp,
    ) -> Result<Outcome, NotDone> {
        let target = &commit.target;
        let known = self.deps.freshness.compare(target.real(), stamp, || None);
        let told = commit.check_known(Change::Whole, known)?;
        let bytes = self.args.content.as_bytes();
        commit.put(spot, bytes, Expect::Same(stamp))?;
        let notes: Vec<_> = told_note(told).into_iter().collect();
        Ok(done("Wrote", bytes.len(), target, &notes))
    }

    /// The content in the form of the file it replaces.
    fn prepare(&self, old: &[u8]) -> Conformed<'_> {
        conform::replacing(old, &self.args.content)
    }

    /// What is added to the end of a file, in its encoding.
    fn addition(&self, target: &Target, old: &[u8]) -> Result<Conformed<'_>, Failed> {
        conform::appending(old, &self.args.content)
            .map_err(|error| Failed::new(error.message(&target.shown)))
    }
}

/// `hash` is that of the whole new content, where it is known.
fn append(
    commit: &Commit,
    spot: &Spot,
    old: FileStamp,
    added: &Conformed<'_>,
    known: Known,
    hash: Option<u64>,
) -> Result<Outcome, NotDone> {
    let mut notes = added.notes.clone();
    if old.size > 0 {
        notes.extend(told_note(commit.check_known(Change::End, known)?));
    }
    let bytes = added.bytes.as_ref();
    commit.append(spot, bytes, old, hash)?;
    Ok(done("Appended", bytes.len(), &commit.target, &notes))
}

/// Makes the missing directories above a file, and gives them.
fn make_dirs(target: &Target) -> Result<Vec<PathBuf>, Failed> {
    let made = Spot::real_making_dirs(target.real());
    let (_, made) = made.map_err(|error| target.dirs_error(&error))?;
    Ok(made.paths())
}

/// Looks at what stands at the path.
fn existing(target: &Target) -> Result<Existing, Failed> {
    // Below something that is no directory: creating it names what is in the way.
    let missing = |error: &FsError| {
        matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
    };
    let spot = match Spot::real(target.real()) {
        Ok(spot) => spot,
        Err(error) if missing(&error) => return Ok(Existing::Nothing),
        Err(error) => return Err(target.open_error(&error)),
    };
    match spot.open() {
        Ok((_, meta)) if meta.len() > MAX_EDIT_BYTES => {
            Ok(Existing::Large(spot, FileStamp::from(&meta)))
        }
        Ok(_) => Ok(Existing::Content(target.read_at(spot)?)),
        Err(error) if missing(&error) => Ok(Existing::Nothing),
        Err(error) => Err(target.open_error(&error)),
    }
}

fn told_note(told: Told) -> Option<String> {
    match told {
        Told::Nothing => None,
        Told::Changed => Some("The file had changed on disk since you last read it.".to_owned()),
    }
}

fn done(verb: &str, n_bytes: usize, target: &Target, notes: &[String]) -> Outcome {
    let bytes = if n_bytes == 1 { "byte" } else { "bytes" };
    let outcome = Outcome::text(format!("{verb} {n_bytes} {bytes} to {}.", target.shown));
    if notes.is_empty() {
        outcome
    } else {
        outcome.with_note(notes.join(" "))
    }
}

/// What to tell about a file that was made, with the directories above it that were.
fn new_file(mode: Mode, target: &Target, content: &str, made: &[PathBuf]) -> Outcome {
    let verb = match mode {
        Mode::Append => "Appended",
        Mode::Overwrite => "Wrote",
    };
    let mut notes = vec!["It is a new file.".to_owned()];
    if !made.is_empty() {
        notes.push(format!("Directories made: {}.", list(made)));
    }
    let drawn = diff::of_file(target.declared(), None, content.as_bytes());
    done(verb, content.len(), target, &notes).with_display(drawn)
}

fn unchanged(target: &Target) -> Outcome {
    Outcome::text(format!(
        "{} has exactly this content already; nothing was written.",
        target.shown
    ))
}

fn list(paths: &[PathBuf]) -> String {
    let shown: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    shown.join(", ")
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
