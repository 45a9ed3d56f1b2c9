//! A file as the host of a turn holds it: what is not saved is read and edited, and never overwritten unseen.
//!
//! Only text inside the session's directories is asked of a host. What is binary, too large for a message, or no regular
//! file is the disk's alone, and so is everything where no host offers files. The host is asked by the path below the
//! session's directory as that was given, links below it resolved: that is the file that was approved.
//!
//! Start with [`Buffers`]. A call looks first ([`Buffer::look`]), and writes back ([`Buffer::write`]) to the same host.

use std::io::Read as _;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Freshness;
use super::freshness::Known;
use super::target::{self, Failed, Target};
use super::text::encoding::{Encoding, Text};
use crate::kernel::host_fs::HostFsError;
use crate::kernel::limits::HOST_TEXT_BYTES;
use crate::os::blocking;
use crate::os::fs::{self, FileStamp};
use crate::path::Workspace;
use crate::tool::CallCx;
use crate::tool::host_files::{HostFiles, HostView};

/// The byte-order mark, as it stands in a text.
const MARK: char = '\u{feff}';

/// Said where what was read is not what is on the disk.
pub(super) const UNSAVED: &str = "This is the text as the user's editor holds it, with changes that are not saved: Grep, \
    Glob and shell commands do not see them.";

/// Said where a change was taken but is not on the disk.
pub(super) const NOT_SAVED: &str = "The user's editor holds the change and has not saved it: Grep, Glob and shell \
    commands do not see it yet.";

/// Finds the buffers of one call's files.
#[derive(Debug, Clone)]
pub(super) struct Buffers {
    files: Option<HostFiles>,
    workspace: Arc<Workspace>,
}

/// One file of one host, whatever that knows of it.
#[derive(Debug)]
pub(super) struct Buffer {
    view: HostView,
    path: String,
}

/// What a look showed.
#[derive(Debug)]
pub(super) enum Look {
    /// The disk is all there is to this file.
    Disk,
    /// The host says that there is no such file, or does not say what it holds. What the disk has is not asked further.
    NotHeld {
        /// What stands on the disk, where anything does.
        disk: Option<FileStamp>,
    },
    /// The host holds it.
    Held(Held),
}

/// A text that a host holds.
#[derive(Debug)]
pub(super) struct Held {
    /// As the host gave it: its byte-order mark and line endings are the host's.
    pub text: String,
    /// The same file on the disk, where there is one.
    pub disk: Option<DiskSide>,
}

/// The file on the disk beside the text of a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiskSide {
    pub stamp: FileStamp,
    pub encoding: Encoding,
    /// Of its bytes.
    pub hash: u64,
    /// It says the same, whatever its byte-order mark and line endings.
    pub is_same: bool,
}

/// A change that a host has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// The file on the disk has changed with it.
    Saved,
    /// The disk is as it was.
    Held,
}

impl Buffers {
    /// For a call that is being resolved.
    pub(super) fn of(cx: &CallCx) -> Self {
        Self {
            files: cx.host_files.clone(),
            workspace: Arc::clone(&cx.workspace),
        }
    }

    /// The buffer of a file; `None` where no host offers files, or the file is not one for hosts.
    pub(super) fn find(&self, target: &Target) -> Option<Buffer> {
        let path = self.workspace.as_given(target.real())?;
        let path = path.to_str()?.to_owned();
        let view = self.files.as_ref()?.view()?;
        Some(Buffer { view, path })
    }
}

impl Buffer {
    /// True where the host tells what it holds.
    pub(super) fn gives(&self) -> bool {
        self.view.offers().read
    }

    /// True where the host takes new texts.
    pub(super) fn takes(&self) -> bool {
        self.view.offers().write
    }

    /// Looks at the disk, then at what the host holds.
    ///
    /// # Errors
    /// Why the host did not tell, where it was to tell and the file is on the disk. A host that does not know the
    /// request at all is [`Look::NotHeld`]; so is any refusal of a file that is not on the disk, since hosts refuse
    /// those in many ways.
    ///
    /// # Cancel safety
    /// Dropping the future takes the request back.
    pub(super) async fn look(
        &self,
        target: &Target,
        freshness: &Arc<Freshness>,
    ) -> Result<Look, HostFsError> {
        let (on_disk, keys) = (target.clone(), Arc::clone(freshness));
        let disk = match blocking::run(move || disk(&on_disk, &keys)).await {
            Disk::Alone => return Ok(Look::Disk),
            Disk::Missing => None,
            Disk::Text(disk) => Some(*disk),
        };
        let stamp = disk.as_ref().map(|disk| disk.stamp);
        if !self.gives() {
            // What it would show is what the disk has.
            return Ok(match disk {
                Some(disk) if disk.encoding == Encoding::Utf8 => Look::Held(Held {
                    disk: Some(disk.side(true)),
                    text: disk.mark_and_body(),
                }),
                _ => Look::NotHeld { disk: stamp },
            });
        }
        match self.view.read(&self.path).await {
            Ok(text) => Ok(Look::Held(Held {
                disk: disk.map(|disk| disk.side(is_same(&disk.body, &text))),
                text,
            })),
            Err(HostFsError::NotFound | HostFsError::Unsupported) => {
                Ok(Look::NotHeld { disk: stamp })
            }
            Err(_) if stamp.is_none() => Ok(Look::NotHeld { disk: None }),
            Err(error) => Err(error),
        }
    }

    /// Gives the host a new text in place of one that was looked at, and remembers it as seen. `before` is the file on
    /// the disk as it was then.
    ///
    /// # Errors
    /// Why the host did not say that it took it. It may have done so all the same.
    pub(super) async fn write(
        &self,
        target: &Target,
        before: Option<FileStamp>,
        text: String,
        freshness: &Arc<Freshness>,
    ) -> Result<Taken, HostFsError> {
        let hash = freshness.hash(text.as_bytes());
        self.view.write(&self.path, text).await?;
        let (on_disk, freshness) = (target.clone(), Arc::clone(freshness));
        Ok(blocking::run(move || {
            let after = fs::stamp_of(on_disk.real()).ok();
            match after {
                Some(stamp) if before != Some(stamp) => {
                    freshness.record(on_disk.real(), stamp, Some(hash));
                    Taken::Saved
                }
                _ => {
                    freshness.record_text(on_disk.real(), hash);
                    Taken::Held
                }
            }
        })
        .await)
    }
}

impl Held {
    /// True where the host holds changes that are not on the disk.
    pub(super) fn is_unsaved(&self) -> bool {
        !self.disk.is_some_and(|disk| disk.is_same)
    }

    /// The text without its mark.
    pub(super) fn body(&self) -> &str {
        self.text.strip_prefix(MARK).unwrap_or(&self.text)
    }

    /// How the text stands to what this agent has seen.
    pub(super) fn known(&self, target: &Target, freshness: &Freshness) -> Known {
        match self.disk {
            Some(disk) if disk.is_same => {
                freshness.compare(target.real(), disk.stamp, || Some(disk.hash))
            }
            _ => freshness.compare_text(target.real(), freshness.hash(self.text.as_bytes())),
        }
    }

    /// Remembers the text as seen.
    pub(super) fn saw(&self, target: &Target, freshness: &Freshness) {
        match self.disk {
            Some(disk) if disk.is_same => {
                freshness.record(target.real(), disk.stamp, Some(disk.hash));
            }
            _ => freshness.record_text(target.real(), freshness.hash(self.text.as_bytes())),
        }
    }

    /// Whether a change may be made to the text the host holds, or to the file on the disk in its place; `None` where
    /// the disk says the same and is to be preferred.
    ///
    /// # Errors
    /// There are changes that are not saved, and the host would not take another, or could not save it in the encoding
    /// of the file without loss.
    pub(super) fn for_change(
        self,
        buffer: &Buffer,
        target: &Target,
    ) -> Result<Option<Self>, Failed> {
        let is_utf8 = self.disk.is_none_or(|disk| disk.encoding == Encoding::Utf8);
        match (buffer.takes() && is_utf8, self.is_unsaved()) {
            (true, _) => Ok(Some(self)),
            (false, false) => Ok(None),
            (false, true) => Err(Failed::new(format!(
                "{} has changes in the user's editor that are not saved, and can't be changed there; nothing was \
                 changed. Ask the user to save it first.",
                target.shown
            ))),
        }
    }
}

/// Said where the disk was read because the host did not answer.
pub(super) fn read_from_disk(error: &HostFsError) -> String {
    format!(
        "The user's editor may hold changes that are not saved, and could not be asked ({error}): this is the file as it is \
         on the disk."
    )
}

/// What a host said in the place of an answer, as the model is told about a file that was to be changed.
pub(super) fn unread(target: &Target, error: &HostFsError) -> Failed {
    Failed::new(format!(
        "{} was not changed: the user's editor may hold changes of it that are not saved, and could not be asked \
         ({error}). Try again, or ask the user.",
        target.shown
    ))
}

/// The same where it was to take a new text.
pub(super) fn unwritten(target: &Target, error: &HostFsError) -> Failed {
    let shown = &target.shown;
    Failed::new(match error {
        HostFsError::NotFound | HostFsError::Unsupported => {
            format!(
                "{shown} was not changed: the user's editor did not take the new text ({error})."
            )
        }
        HostFsError::TimedOut | HostFsError::Left | HostFsError::Failed(_) => format!(
            "The user's editor was given the new text of {shown} and did not say that it took it ({error}). Read the \
             file to see how it is now."
        ),
    })
}

/// A cancel takes back what is waited for.
pub(super) async fn unless_cancelled<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = T>,
) -> Result<T, Failed> {
    cancel
        .run_until_cancelled(work)
        .await
        .ok_or_else(target::cancelled)
}

/// What stands on the disk, as far as it matters to a host's text.
enum Disk {
    /// Nothing a host has a say in: not regular, not text, too large, or not to be opened.
    Alone,
    Missing,
    Text(Box<DiskText>),
}

struct DiskText {
    stamp: FileStamp,
    encoding: Encoding,
    hash: u64,
    has_mark: bool,
    body: String,
}

impl DiskText {
    fn side(&self, is_same: bool) -> DiskSide {
        DiskSide {
            stamp: self.stamp,
            encoding: self.encoding,
            hash: self.hash,
            is_same,
        }
    }

    fn mark_and_body(self) -> String {
        if self.has_mark {
            format!("{MARK}{}", self.body)
        } else {
            self.body
        }
    }
}

/// Looks at the disk (blocking).
fn disk(target: &Target, freshness: &Freshness) -> Disk {
    let (mut file, meta) = match fs::open_real(target.real()) {
        Ok(opened) => opened,
        Err(error) if error.is_not_found() => return Disk::Missing,
        Err(_) => return Disk::Alone,
    };
    if meta.len() > HOST_TEXT_BYTES {
        return Disk::Alone;
    }
    let mut bytes = Vec::with_capacity(meta.len() as usize);
    if file
        .by_ref()
        .take(meta.len())
        .read_to_end(&mut bytes)
        .is_err()
    {
        return Disk::Alone;
    }
    match Text::of(&bytes) {
        Ok(text) => Disk::Text(Box::new(DiskText {
            stamp: FileStamp::from(&meta),
            encoding: text.encoding,
            hash: freshness.hash(&bytes),
            has_mark: text.mark_bytes > 0,
            body: text.body.into_owned(),
        })),
        Err(_) => Disk::Alone,
    }
}

/// Whether two texts say the same: hosts differ in whether they give the mark, and some give every line ending as `\n`.
fn is_same(disk: &str, host: &str) -> bool {
    let host = host.strip_prefix(MARK).unwrap_or(host);
    disk == host || plain_lines(disk).eq(plain_lines(host))
}

fn plain_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
mod tests;
