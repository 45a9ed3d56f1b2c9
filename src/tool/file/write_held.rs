//! Writing what a host holds: the new text is given to it, and the disk is the host's to write.

use std::path::PathBuf;
use std::sync::Arc;

use longshore_protocol::value::display::Display;
use tokio_util::sync::CancellationToken;

use super::super::buffer::{self, Buffer, Held, Look, Taken};
use super::super::commit;
use super::super::diff;
use super::super::freshness::Change;
use super::super::target::{self, Failed, Target};
use super::{Mode, WriteJob, done, list, new_file, told_note, unchanged};
use crate::kernel::host_fs::HostFsError;
use crate::os::blocking;
use crate::os::fs::FileStamp;
use crate::tool::{ExecCx, Outcome};

/// What became of a write at the host.
pub(super) enum Through {
    /// It is done, or can't be.
    Host(Box<Outcome>),
    /// The disk is to be written, and the model told this about it.
    Disk { more: Option<String> },
}

/// What a host is given, and what is told once it has taken it.
struct Given {
    text: String,
    /// The file on the disk as it was.
    before: Option<FileStamp>,
    outcome: Outcome,
}

impl WriteJob {
    /// The write of what a host holds, or is to hold.
    pub(super) async fn write_held(self: &Arc<Self>, cx: &ExecCx) -> Through {
        let target = target::of_call(&cx.accesses, &self.args.path);
        let found = target.and_then(|target| Some((self.buffers.find(&target)?, target)));
        let Some((buffer, target)) = found else {
            return Through::Disk { more: None };
        };
        let written = self.write_at(&target, &buffer, &cx.cancel).await;
        written.unwrap_or_else(|failed| Through::Host(Box::new(failed.into())))
    }

    /// That write as it would be made now, drawn; `None` where the disk, or the call itself, says it all.
    pub(super) async fn draw_held(self: &Arc<Self>, target: &Target) -> Option<Display> {
        let buffer = self.buffers.find(target)?;
        match self.look(target, &buffer).await {
            Ok(Some(At::Held(held))) => {
                let (job, of) = (Arc::clone(self), target.clone());
                blocking::run(move || Some(job.draw_over(&of, held.text.as_bytes()))).await
            }
            Ok(Some(At::New) | None) => None,
            Err(failed) => Some(failed.into()),
        }
    }

    async fn write_at(
        self: &Arc<Self>,
        target: &Target,
        buffer: &Buffer,
        cancel: &CancellationToken,
    ) -> Result<Through, Failed> {
        let locks = &self.deps.locks;
        let _lock = buffer::unless_cancelled(cancel, locks.lock(target.real())).await?;
        let at = buffer::unless_cancelled(cancel, self.look(target, buffer)).await??;
        target::check_cancel(cancel)?;
        match at {
            None => Ok(Through::Disk { more: None }),
            Some(At::New) => self.create_held(target, buffer).await,
            Some(At::Held(held)) => {
                let (job, of) = (Arc::clone(self), target.clone());
                let given = blocking::run(move || job.given(&of, &held)).await?;
                let outcome = match given {
                    Ok(given) => self.give(target, buffer, given).await?,
                    Err(nothing_to_do) => nothing_to_do,
                };
                Ok(Through::Host(Box::new(outcome)))
            }
        }
    }

    /// What there is to write through the host.
    async fn look(&self, target: &Target, buffer: &Buffer) -> Result<Option<At>, Failed> {
        match buffer.look(target, &self.deps.freshness).await {
            Ok(Look::Held(held)) => Ok(held.for_change(buffer, target)?.map(At::Held)),
            Ok(Look::NotHeld { disk: None }) if buffer.takes() => Ok(Some(At::New)),
            Ok(Look::Disk | Look::NotHeld { .. }) => Ok(None),
            Err(error) => Err(buffer::unread(target, &error)),
        }
    }

    /// Works out a new text in place of one that is held. The inner error: there is nothing to do.
    fn given(&self, target: &Target, held: &Held) -> Result<Result<Given, Outcome>, Failed> {
        let old = held.text.as_bytes();
        let known = held.known(target, &self.deps.freshness);
        let (new, mut notes) = self.conformed(target, old)?;
        let (verb, n_bytes) = match self.args.mode {
            Mode::Overwrite => ("Wrote", new.len()),
            Mode::Append => ("Appended", new.len() - old.len()),
        };
        if self.args.mode == Mode::Overwrite && new == old {
            held.saw(target, &self.deps.freshness);
            return Ok(Err(unchanged(target)));
        }
        if !old.is_empty() {
            let change = match self.args.mode {
                Mode::Overwrite => Change::Whole,
                Mode::Append => Change::End,
            };
            let told = commit::check_known(&self.deps, target, change, known)?;
            notes.extend(told_note(told));
        }
        let drawn = diff::of_file(target.declared(), Some(old), &new);
        let outcome = done(verb, n_bytes, target, &notes).with_display(drawn);
        let text = String::from_utf8(new)
            .map_err(|_| Failed::new(format!("{} can't be written as text.", target.shown)))?;
        Ok(Ok(Given {
            text,
            before: held.disk.map(|disk| disk.stamp),
            outcome,
        }))
    }

    async fn give(
        &self,
        target: &Target,
        buffer: &Buffer,
        given: Given,
    ) -> Result<Outcome, Failed> {
        let Given {
            text,
            before,
            mut outcome,
        } = given;
        let freshness = &self.deps.freshness;
        if before.is_none() {
            make_dirs(target).await?;
        }
        match buffer.write(target, before, text, freshness).await {
            Ok(Taken::Saved) => Ok(outcome),
            Ok(Taken::Held) => {
                outcome.add_note(buffer::NOT_SAVED);
                Ok(outcome)
            }
            Err(error) => Err(buffer::unwritten(target, &error)),
        }
    }

    /// A file that neither the host nor the disk has. Hosts refuse such files in many ways; then it is made on the disk.
    async fn create_held(&self, target: &Target, buffer: &Buffer) -> Result<Through, Failed> {
        let made = make_dirs(target).await?;
        let text = self.args.content.clone();
        let taken = buffer.write(target, None, text, &self.deps.freshness).await;
        match taken {
            Ok(taken) => {
                let mut outcome = new_file(self.args.mode, target, &self.args.content, &made);
                if taken == Taken::Held {
                    outcome.add_note(buffer::NOT_SAVED);
                }
                Ok(Through::Host(Box::new(outcome)))
            }
            Err(error) => Ok(Through::Disk {
                more: Some(not_taken(&made, &error)),
            }),
        }
    }
}

/// What is written.
enum At {
    Held(Held),
    New,
}

/// Makes the missing directories above a file, and gives them.
async fn make_dirs(target: &Target) -> Result<Vec<PathBuf>, Failed> {
    let of = target.clone();
    blocking::run(move || super::make_dirs(&of)).await
}

fn not_taken(made: &[PathBuf], error: &HostFsError) -> String {
    let dirs = if made.is_empty() {
        String::new()
    } else {
        format!(" Directories made: {}.", list(made))
    };
    format!("The user's editor did not take it ({error}), so it was written to the disk.{dirs}")
}
