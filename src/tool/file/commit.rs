//! Changing a file for a call: under the lock of the file, in the directory that was judged, unless a cancel comes first.

use std::path::PathBuf;

use longshore_protocol::value::display::Display;
use tokio_util::sync::CancellationToken;

use super::FileDeps;
use super::freshness::{self, Change, Known, Verdict};
use super::target::{self, Content, Failed, Target};
use crate::os::blocking;
use crate::os::fs::{
    Appended, Expect, FileStamp, ReplaceError, ReplaceOptions, Replaced, Spot, append_once,
    atomic_replace,
};
use crate::store::blob::BlobId;
use crate::tool::{ExecCx, Outcome};

/// Bytes that are named beside the write instead of after it. Chosen: a hash of so many takes ten times what a thread
/// costs.
const WORTH_A_THREAD: usize = 1 << 20;

/// A call that holds the lock of its file.
pub(super) struct Commit {
    /// The file.
    pub target: Target,
    deps: FileDeps,
    cancel: CancellationToken,
    /// Where the old content is kept while a file is overwritten in place.
    backups: PathBuf,
}

/// What the model is to be told of a file besides what was done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing.
    Nothing,
    /// Its content has changed since the model knew it.
    Changed,
}

/// Why an attempt did not come to its end.
pub(super) enum NotDone {
    /// To be told to the model.
    Failed(Failed),
    /// A change was refused by the disk, or by what else happened on it.
    Refused(ReplaceError),
}

impl From<Failed> for NotDone {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl From<ReplaceError> for NotDone {
    fn from(error: ReplaceError) -> Self {
        Self::Refused(error)
    }
}

/// Waits for the lock of the call's file and does the job on a blocking thread.
///
/// The lock goes with the work: should the caller give up, no other writer comes in between, and the work itself looks
/// at the cancel once more just before its effect.
pub(super) async fn under_lock(
    deps: FileDeps,
    shown: String,
    cx: ExecCx,
    job: impl FnOnce(&Commit) -> Result<Outcome, Failed> + Send + 'static,
) -> Outcome {
    let Some(target) = target::of_call(&cx.accesses, &shown) else {
        return target::no_access().into();
    };
    let lock = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return target::cancelled().into(),
        lock = deps.locks.lock(target.real()) => lock,
    };
    let commit = Commit {
        target,
        deps,
        cancel: cx.cancel,
        backups: cx.results_dir,
    };
    blocking::run(move || {
        let _lock = lock;
        job(&commit).unwrap_or_else(Outcome::from)
    })
    .await
}

/// Whether the agent knows a file well enough for a change; tells whether the file has changed since it knew it.
///
/// # Errors
/// It is to be read first, or again.
pub(super) fn check_known(
    deps: &FileDeps,
    target: &Target,
    change: Change,
    known: Known,
) -> Result<Told, Failed> {
    let shown = &target.shown;
    match freshness::judge(deps.must_be_fresh, change, known) {
        Verdict::Go => Ok(Told::Nothing),
        Verdict::GoAndTell => Ok(Told::Changed),
        Verdict::ReadFirst => Err(Failed::new(format!(
            "{shown} exists and has not been read in this conversation; nothing was written. Read it first, then change \
             it."
        ))),
        Verdict::ReadAgain => Err(Failed::new(format!(
            "{shown} was changed since you last read it, and the change could hit what you have not seen; nothing was \
             written. Read it again, then change it."
        ))),
    }
}

/// Adds to the drawing of a change that was made what the bytes were before.
pub(super) fn with_pre_image(mut outcome: Outcome, old: BlobId) -> Outcome {
    if let Some(Display::Diff { old_sha256, .. }) = &mut outcome.display {
        *old_sha256 = Some(old.to_string());
    }
    outcome
}

impl Commit {
    /// Runs an attempt, and once more from the start where the file changed under the first.
    pub(super) fn restart_once(
        &self,
        attempt: impl Fn() -> Result<Outcome, NotDone>,
    ) -> Result<Outcome, Failed> {
        let ended = match attempt() {
            Err(NotDone::Refused(ReplaceError::Changed { .. } | ReplaceError::Exists { .. })) => {
                attempt()
            }
            ended => ended,
        };
        ended.map_err(|not_done| match not_done {
            NotDone::Failed(failed) => failed,
            NotDone::Refused(error) => self.target.write_error(&error),
        })
    }

    /// See [`check_known`].
    pub(super) fn check_known(&self, change: Change, known: Known) -> Result<Told, Failed> {
        check_known(&self.deps, &self.target, change, known)
    }

    /// Gives a file that was read new content, and remembers that the agent knows it. Returns what the old one was.
    pub(super) fn replace(&self, old: &Content, new: &[u8]) -> Result<BlobId, ReplaceError> {
        let write = || self.put(&old.spot, new, Expect::Same(old.stamp));
        if old.bytes.len() < WORTH_A_THREAD {
            return write().map(|_| BlobId::of(&old.bytes));
        }
        std::thread::scope(|scope| {
            let name = scope.spawn(|| BlobId::of(&old.bytes));
            write()?;
            // Nothing in it can panic; if it did, it is named here.
            Ok(name.join().unwrap_or_else(|_| BlobId::of(&old.bytes)))
        })
    }

    /// As [`Self::replace`], for what stands at a place, or is to be made there.
    pub(super) fn put(
        &self,
        spot: &Spot,
        new: &[u8],
        expect: Expect,
    ) -> Result<Replaced, ReplaceError> {
        let stop = || self.cancel.is_cancelled();
        let replaced = atomic_replace(spot, &[new], &self.options(expect, &stop))?;
        let freshness = &self.deps.freshness;
        freshness.record(
            self.target.real(),
            replaced.stamp,
            Some(freshness.hash(new)),
        );
        Ok(replaced)
    }

    /// Adds to the end of a file. `hash` is that of the whole new content, where it is known.
    pub(super) fn append(
        &self,
        spot: &Spot,
        more: &[u8],
        old: FileStamp,
        hash: Option<u64>,
    ) -> Result<Appended, ReplaceError> {
        let stop = || self.cancel.is_cancelled();
        let appended = append_once(spot, more, &self.options(Expect::Same(old), &stop))?;
        self.deps
            .freshness
            .record(self.target.real(), appended.stamp, hash);
        Ok(appended)
    }

    /// Nothing is begun after a cancel.
    pub(super) fn check_cancel(&self) -> Result<(), Failed> {
        target::check_cancel(&self.cancel)
    }

    fn options<'a>(&'a self, expect: Expect, stop: &'a dyn Fn() -> bool) -> ReplaceOptions<'a> {
        ReplaceOptions {
            expect,
            durability: self.deps.durability,
            backup_dir: Some(&self.backups),
            temps: self.deps.temps.as_deref(),
            stop: Some(stop),
            ..ReplaceOptions::default()
        }
    }
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
