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

use super::buffer::Buffers;
use super::commit::{self, Commit, NotDone, Told};
use super::freshness::{Change, Known};
use super::splice::{self, Replacement, Spliced};
use super::target::{self, Content, Failed, MAX_EDIT_BYTES, Target};
use super::text::encoding::Encoding;
use super::{FileDeps, diff};
use crate::kernel::access::{Access, RealAccess};
use crate::kernel::rule::Subject;
use crate::os::blocking;
use crate::os::fs;
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
                if let Some(outcome) = self.edit_held(&cx).await {
                    return outcome;
                }
                let (deps, shown) = (self.deps.clone(), self.args.path.clone());
                let job = move |commit: &Commit| commit.restart_once(|| self.attempt(commit));
                commit::under_lock(deps, shown, cx, job).await
            }
            .boxed()
        })
    }

    /// One read and write.
    fn attempt(&self, commit: &Commit) -> Result<Outcome, NotDone> {
        let target = &commit.target;
        let content = read(target)?;
        let known = target.known(&self.deps.freshness, &content);
        let told = self.check_known(target, known)?;
        let spliced = self.splice(target, &content.bytes)?;
        let old = commit.replace(&content, &spliced.bytes)?;
        let outcome = outcome(target, &spliced, told);
        Ok(commit::with_pre_image(outcome, old))
    }

    fn check_known(&self, target: &Target, known: Known) -> Result<Told, Failed> {
        let change = if self.args.replace_all {
            Change::EveryPlace
        } else {
            Change::OnePlace
        };
        commit::check_known(&self.deps, target, change, known)
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
fn outcome(target: &Target, spliced: &Spliced<'_>, told: Told) -> Outcome {
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
    if told == Told::Changed {
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
