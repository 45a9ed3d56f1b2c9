//! Edit: exact replacement in one file.

#[path = "edit_held.rs"]
mod held;

use std::fmt::Write as _;
use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::buffer::Buffers;
use super::freshness::Known;
use super::splice::{self, Replacement, Spliced};
use super::target::{self, Content, Failed, MAX_EDIT_BYTES, Target};
use super::text::encoding::Encoding;
use super::{FileDeps, diff};
use crate::kernel::access::{Access, RealAccess};
use crate::kernel::rule::Subject;
use crate::os::blocking;
use crate::os::fs::{self, Expect, ReplaceError, ReplaceOptions, atomic_replace};
use crate::tool::{Call, CallCx, Execute, Outcome, Preview, Refusal, Tool, ToolSpec, args};

/// What the model gives.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArgs {
    /// Path of the file; relative paths start at the working directory.
    path: String,
    /// The text to replace, exactly as it stands in the file.
    #[schemars(length(min = 1))]
    old_string: String,
    /// The text to put in its place.
    new_string: String,
    /// Replace every occurrence instead of exactly one.
    #[serde(default)]
    replace_all: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Edit {
    spec: ToolSpec,
    deps: FileDeps,
}

impl Edit {
    /// The tool's name.
    pub const NAME: &'static str = "Edit";

    /// Makes the tool.
    pub fn new(deps: FileDeps) -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("edit.md").trim().into(),
            parameters: Arc::new(args::schema_of::<EditArgs>()),
            dedupe: false,
            own_budget: true,
        };
        Self { spec, deps }
    }
}

impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        let args: EditArgs = args::typed(args)?;
        if args.old_string == args.new_string {
            return Err(Refusal::new(
                "old_string and new_string are the same; there is nothing to change.",
            ));
        }
        let path = cx.workspace.resolve(&args.path)?.path;
        let job = Arc::new(EditJob {
            args,
            deps: self.deps.clone(),
            buffers: Buffers::of(cx),
        });
        Ok(Call {
            accesses: vec![Access::read_write(&path)],
            title: format!("Edit {}", cx.workspace.show(&path)),
            display: diff::of_fragment(&path, &job.args.old_string, &job.args.new_string),
            subject: Subject::Path(path),
            preview: Some(Arc::clone(&job).preview()),
            execute: job.execute(),
        })
    }
}

struct EditJob {
    args: EditArgs,
    deps: FileDeps,
    buffers: Buffers,
}

impl EditJob {
    fn preview(self: Arc<Self>) -> Preview {
        Box::new(move |accesses: Vec<RealAccess>| {
            async move {
                let target = target::of_call(&accesses, &self.args.path)?;
                if let Some(drawn) = self.draw_held(&target).await {
                    return Some(drawn);
                }
                blocking::run(move || match read(&target) {
                    Ok(content) => Some(self.draw(&target, &content.bytes)),
                    Err(failed) => Some(failed.into()),
                })
                .await
            }
            .boxed()
        })
    }

    /// The change as it would be made now.
    fn draw(&self, target: &Target, before: &[u8]) -> Display {
        match self.splice(target, before) {
            Ok(spliced) => diff::of_edit(target.declared(), &spliced),
            Err(failed) => failed.into(),
        }
    }

    fn execute(self: Arc<Self>) -> Execute {
        Box::new(move |cx| {
            async move {
                let Some(target) = target::of_call(&cx.accesses, &self.args.path) else {
                    return target::no_access().into();
                };
                if let Some(outcome) = self.edit_held(&cx).await {
                    return outcome;
                }
                let lock = tokio::select! {
                    biased;
                    () = cx.cancel.cancelled() => return target::cancelled().into(),
                    lock = self.deps.locks.lock(target.real()) => lock,
                };
                // The lock goes with the work: should the caller give up, no other writer comes in between.
                blocking::run(move || {
                    let _lock = lock;
                    self.edit(&target, &cx.cancel).unwrap_or_else(Outcome::from)
                })
                .await
            }
            .boxed()
        })
    }

    fn edit(&self, target: &Target, cancel: &CancellationToken) -> Result<Outcome, Failed> {
        // Someone else's write in between is met once by starting over from what they wrote.
        match self.attempt(target, cancel)? {
            Ok(outcome) => Ok(outcome),
            Err(_) => self
                .attempt(target, cancel)?
                .map_err(|error| target.write_error(&error)),
        }
    }

    /// One read and write. The inner error: the file changed between the two.
    fn attempt(
        &self,
        target: &Target,
        cancel: &CancellationToken,
    ) -> Result<Result<Outcome, ReplaceError>, Failed> {
        let freshness = &self.deps.freshness;
        target.check_unmoved()?;
        let content = read(target)?;
        let known = target.known(freshness, &content);
        self.check_known(target, known)?;
        let spliced = self.splice(target, &content.bytes)?;
        target::check_cancel(cancel)?;
        let options = ReplaceOptions {
            expect: Expect::Same(content.stamp),
            durability: self.deps.durability,
            ..ReplaceOptions::default()
        };
        let replaced = match atomic_replace(target.real(), &[&spliced.bytes], &options) {
            Ok(replaced) => replaced,
            Err(error @ ReplaceError::Changed { .. }) => return Ok(Err(error)),
            Err(error) => return Err(target.write_error(&error)),
        };
        freshness.record(
            target.real(),
            replaced.stamp,
            Some(freshness.hash(&spliced.bytes)),
        );
        Ok(Ok(outcome(target, &spliced, known)))
    }

    /// What was not seen is not replaced at every place.
    fn check_known(&self, target: &Target, known: Known) -> Result<(), Failed> {
        if self.args.replace_all && known == Known::Changed {
            return Err(Failed::new(format!(
                "{} was changed since you last read it, so replace_all may hit text you have not seen; nothing was \
                 changed. Read it again first.",
                target.shown
            )));
        }
        Ok(())
    }

    fn splice<'c>(&self, target: &Target, before: &'c [u8]) -> Result<Spliced<'c>, Failed> {
        let EditArgs {
            old_string: old,
            new_string: new,
            replace_all: all,
            ..
        } = &self.args;
        splice::splice(
            before,
            Replacement {
                old,
                new,
                all: *all,
                max_bytes: MAX_EDIT_BYTES,
            },
        )
        .map_err(|error| Failed::new(error.message(&target.shown)))
    }
}

/// The file to edit; one that is not there is not made here.
fn read(target: &Target) -> Result<Content, Failed> {
    target.read().map_err(|mut failed| {
        if fs::kind_of(target.real()).is_none() {
            failed.message.push_str(" To make a new file, use Write.");
        }
        failed
    })
}

/// What to tell about an edit that was made.
fn outcome(target: &Target, spliced: &Spliced<'_>, known: Known) -> Outcome {
    let times = match spliced.n_replaced {
        1 => "1 occurrence".to_owned(),
        n => format!("{n} occurrences"),
    };
    let (first, end) = (spliced.first_lines.start, spliced.first_lines.end - 1);
    let lines = if end > first {
        format!("lines {first}-{end}")
    } else {
        format!("line {first}")
    };
    let at = if spliced.n_replaced > 1 {
        "the first now at"
    } else {
        "now at"
    };
    let mut note = String::new();
    if known == Known::Changed {
        note.push_str("The file had changed on disk since you last read it; the rest of it may differ from what you know.\n");
    }
    if spliced.before.encoding != Encoding::Utf8 {
        // Writing to a string cannot fail.
        let _ = writeln!(
            note,
            "The file is {} text and stays so.",
            spliced.before.encoding.name()
        );
    }
    note.push_str("Around the change:\n");
    note.push_str(&spliced.excerpt());
    Outcome::text(format!(
        "Edited {}: replaced {times}, {at} {lines}.",
        target.shown
    ))
    .with_note(note)
    .with_display(diff::of_edit(target.declared(), spliced))
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
