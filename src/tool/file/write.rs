//! Write: a whole file, or more at the end of one.

#[path = "write_held.rs"]
mod held;

use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::held::Through;
use super::buffer::Buffers;
use super::freshness::Known;
use super::target::{self, Content, Failed, MAX_EDIT_BYTES, Target};
use super::text::conform::{self, Conformed};
use super::{FileDeps, diff};
use crate::kernel::access::{Access, RealAccess};
use crate::kernel::rule::Subject;
use crate::os::blocking;
use crate::os::fs::{
    self, Expect, FileStamp, FsError, ReplaceOptions, append_once, atomic_replace,
};
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
    Large(FileStamp),
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
            Ok(Existing::Nothing | Existing::Large(_)) => None,
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
                let Some(target) = target::of_call(&cx.accesses, &self.args.path) else {
                    return target::no_access().into();
                };
                let more = match self.write_held(&cx).await {
                    Through::Host(outcome) => return *outcome,
                    Through::Disk { more } => more,
                };
                let lock = tokio::select! {
                    biased;
                    () = cx.cancel.cancelled() => return target::cancelled().into(),
                    lock = self.deps.locks.lock(target.real()) => lock,
                };
                // The lock goes with the work: should the caller give up, no other writer comes in between.
                let mut outcome = blocking::run(move || {
                    let _lock = lock;
                    self.write(&target, &cx.cancel)
                        .unwrap_or_else(Outcome::from)
                })
                .await;
                if let Some(more) = more {
                    outcome.add_note(&more);
                }
                outcome
            }
            .boxed()
        })
    }

    fn write(&self, target: &Target, cancel: &CancellationToken) -> Result<Outcome, Failed> {
        target.check_unmoved()?;
        let existing = existing(target)?;
        match (existing, self.args.mode) {
            (Existing::Nothing, _) => self.create(target, cancel),
            (Existing::Content(old), Mode::Overwrite) => self.overwrite(target, &old, cancel),
            (Existing::Large(stamp), Mode::Overwrite) => {
                self.overwrite_large(target, stamp, cancel)
            }
            (Existing::Content(old), Mode::Append) => {
                let known = target.known(&self.deps.freshness, &old);
                let added = self.addition(target, &old.bytes)?;
                let new = [&old.bytes, added.bytes.as_ref()].concat();
                let hash = Some(self.deps.freshness.hash(&new));
                let outcome = self.append(target, old.stamp, &added, known, hash, cancel)?;
                Ok(outcome.with_display(diff::of_file(target.declared(), Some(&old.bytes), &new)))
            }
            (Existing::Large(stamp), Mode::Append) => {
                let known = self.deps.freshness.compare(target.real(), stamp, || None);
                let added = Conformed::as_is(&self.args.content);
                self.append(target, stamp, &added, known, None, cancel)
            }
        }
    }

    fn create(&self, target: &Target, cancel: &CancellationToken) -> Result<Outcome, Failed> {
        target::check_cancel(cancel)?;
        let made = make_dirs(target)?;
        let bytes = self.args.content.as_bytes();
        let replaced = atomic_replace(target.real(), &[bytes], &self.options(Expect::Absent))
            .map_err(|error| target.write_error(&error))?;
        self.deps.freshness.record(
            target.real(),
            replaced.stamp,
            Some(self.deps.freshness.hash(bytes)),
        );
        Ok(new_file(self.args.mode, target, &self.args.content, &made))
    }

    fn overwrite(
        &self,
        target: &Target,
        old: &Content,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Failed> {
        let freshness = &self.deps.freshness;
        let known = target.known(freshness, old);
        let prepared = self.prepare(&old.bytes);
        if prepared.bytes.as_ref() == old.bytes {
            freshness.record(target.real(), old.stamp, Some(freshness.hash(&old.bytes)));
            return Ok(unchanged(target));
        }
        if !old.bytes.is_empty() {
            check_seen(target, known)?;
        }
        target::check_cancel(cancel)?;
        let replaced = atomic_replace(
            target.real(),
            &[&prepared.bytes],
            &self.options(Expect::Same(old.stamp)),
        )
        .map_err(|error| target.write_error(&error))?;
        freshness.record(
            target.real(),
            replaced.stamp,
            Some(freshness.hash(&prepared.bytes)),
        );
        let display = diff::of_file(target.declared(), Some(&old.bytes), &prepared.bytes);
        Ok(done("Wrote", prepared.bytes.len(), target, &prepared.notes).with_display(display))
    }

    fn overwrite_large(
        &self,
        target: &Target,
        stamp: FileStamp,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Failed> {
        let freshness = &self.deps.freshness;
        check_seen(target, freshness.compare(target.real(), stamp, || None))?;
        target::check_cancel(cancel)?;
        let bytes = self.args.content.as_bytes();
        let replaced = atomic_replace(target.real(), &[bytes], &self.options(Expect::Same(stamp)))
            .map_err(|error| target.write_error(&error))?;
        freshness.record(target.real(), replaced.stamp, Some(freshness.hash(bytes)));
        Ok(done("Wrote", bytes.len(), target, &[]))
    }

    fn append(
        &self,
        target: &Target,
        old: FileStamp,
        added: &Conformed<'_>,
        known: Known,
        hash: Option<u64>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Failed> {
        target::check_cancel(cancel)?;
        let bytes = added.bytes.as_ref();
        let appended = append_once(target.real(), bytes, &self.options(Expect::Same(old)))
            .map_err(|error| target.write_error(&error))?;
        self.deps
            .freshness
            .record(target.real(), appended.stamp, hash);
        let mut notes = added.notes.clone();
        if known == Known::Changed {
            notes.push("The file had changed on disk since you last read it.".to_owned());
        }
        Ok(done("Appended", bytes.len(), target, &notes))
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

    fn options(&self, expect: Expect) -> ReplaceOptions<'static> {
        ReplaceOptions {
            expect,
            durability: self.deps.durability,
            ..ReplaceOptions::default()
        }
    }
}

/// Makes the missing directories above a file, and gives them.
fn make_dirs(target: &Target) -> Result<Vec<PathBuf>, Failed> {
    let missing = target::missing_dirs(target.real()).map_err(|(dir, kind)| {
        Failed::new(format!(
            "{} can't be made: {} is {}, not a directory.",
            target.shown,
            dir.display(),
            kind.describe()
        ))
    })?;
    if let Some(parent) = target.real().parent().filter(|_| !missing.is_empty()) {
        fs::create_dirs(parent).map_err(|error| dirs_error(target, &error))?;
        // A directory made by somebody else meanwhile could be a link to anywhere.
        target.check_unmoved()?;
    }
    Ok(missing)
}

fn dirs_error(target: &Target, error: &FsError) -> Failed {
    let reason = target::io_reason(&error.source);
    Failed::new(format!(
        "The directories for {} can't be made: {reason}.",
        target.shown
    ))
}

/// Looks at what stands at the path.
fn existing(target: &Target) -> Result<Existing, Failed> {
    match fs::open_real(target.real()) {
        Ok((_, meta)) if meta.len() > MAX_EDIT_BYTES => Ok(Existing::Large(FileStamp::from(&meta))),
        Ok(_) => Ok(Existing::Content(target.read()?)),
        Err(error) if error.is_not_found() => Ok(Existing::Nothing),
        // Below something that is no directory: creating it names what is in the way.
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(Existing::Nothing),
        Err(error) => Err(target.open_error(&error)),
    }
}

/// Content the model has not seen is not thrown away.
fn check_seen(target: &Target, known: Known) -> Result<(), Failed> {
    match known {
        Known::Same => Ok(()),
        Known::Never => Err(Failed::new(format!(
            "{} exists and has not been read in this conversation; nothing was written. Read it first, then write it.",
            target.shown
        ))),
        Known::Changed => Err(Failed::new(format!(
            "{} was changed since you last read it; nothing was written. Read it again, then write it.",
            target.shown
        ))),
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
