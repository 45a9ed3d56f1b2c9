//! Editing what a host holds: its text is read, changed and given back, and the disk is the host's to write.

use std::sync::Arc;

use longshore_protocol::value::display::Display;
use tokio_util::sync::CancellationToken;

use super::super::buffer::{self, Buffer, Held, Look, Taken};
use super::super::target::{self, Failed, Target};
use super::{EditJob, outcome};
use crate::os::blocking;
use crate::tool::{ExecCx, Outcome};

impl EditJob {
    /// The edit of what a host holds; `None` where the file on the disk is to be edited.
    pub(super) async fn edit_held(self: &Arc<Self>, cx: &ExecCx) -> Option<Outcome> {
        let target = target::of_call(&cx.accesses, &self.args.path)?;
        let buffer = self.buffers.find(&target)?;
        let edited = self.edit_at(&target, &buffer, &cx.cancel).await;
        edited.unwrap_or_else(|failed| Some(failed.into()))
    }

    /// That edit as it would be made now, drawn.
    pub(super) async fn draw_held(self: &Arc<Self>, target: &Target) -> Option<Display> {
        let buffer = self.buffers.find(target)?;
        match self.held(target, &buffer).await {
            Ok(Some(held)) => {
                let (job, of) = (Arc::clone(self), target.clone());
                blocking::run(move || Some(job.draw(&of, held.text.as_bytes()))).await
            }
            Ok(None) => None,
            Err(failed) => Some(failed.into()),
        }
    }

    async fn edit_at(
        self: &Arc<Self>,
        target: &Target,
        buffer: &Buffer,
        cancel: &CancellationToken,
    ) -> Result<Option<Outcome>, Failed> {
        let locks = &self.deps.locks;
        let _lock = buffer::unless_cancelled(cancel, locks.lock(target.real())).await?;
        let held = buffer::unless_cancelled(cancel, self.held(target, buffer)).await??;
        let Some(held) = held else { return Ok(None) };
        let before = held.disk.map(|disk| disk.stamp);
        let (job, of) = (Arc::clone(self), target.clone());
        let (mut outcome, text) = blocking::run(move || job.worked_out(&of, &held)).await?;
        target::check_cancel(cancel)?;
        let taken = buffer
            .write(target, before, text, &self.deps.freshness)
            .await
            .map_err(|error| buffer::unwritten(target, &error))?;
        if taken == Taken::Held {
            outcome.add_note(buffer::NOT_SAVED);
        }
        Ok(Some(outcome))
    }

    /// The text that a host holds and takes changes of.
    async fn held(&self, target: &Target, buffer: &Buffer) -> Result<Option<Held>, Failed> {
        match buffer.look(target, &self.deps.freshness).await {
            Ok(Look::Held(held)) => held.for_change(buffer, target),
            Ok(Look::Disk | Look::NotHeld { .. }) => Ok(None),
            Err(error) => Err(buffer::unread(target, &error)),
        }
    }

    /// The new text, and what is told about it.
    fn worked_out(&self, target: &Target, held: &Held) -> Result<(Outcome, String), Failed> {
        let before = held.text.as_bytes();
        let known = held.known(target, &self.deps.freshness);
        let told = self.check_known(target, known)?;
        let spliced = self.splice(target, before)?;
        let outcome = outcome(target, &spliced, told);
        let text = String::from_utf8(spliced.bytes)
            .map_err(|_| Failed::new(format!("{} can't be edited as text.", target.shown)))?;
        Ok((outcome, text))
    }
}
