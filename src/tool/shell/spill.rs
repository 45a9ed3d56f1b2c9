//! Writing a log beside the command: in order, one write at a time, with a bounded queue.

use std::path::PathBuf;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::log::{Caps, Log};
use crate::kernel::limits::COMMAND_LOG_QUEUE_BYTES;
use crate::os::{blocking, fs};

/// A log and what is still to be written to it. Its owner must poll [`Self::advance`] for anything to happen.
pub(super) struct Spill {
    path: PathBuf,
    caps: Caps,
    queue: Vec<u8>,
    writer: Writer,
    /// Whether more is taken.
    is_open: bool,
}

enum Writer {
    Idle(Option<Log>),
    Busy(BoxFuture<'static, Result<Log, String>>),
    Ending(BoxFuture<'static, Kept>),
    Failed(String),
}

/// A log as it was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// The file.
    pub(super) path: PathBuf,
    /// How much is missing between its beginning and its end.
    pub(super) gap_bytes: u64,
    /// Why it is incomplete, where it is for another reason.
    pub(super) problem: Option<String>,
}

impl Spill {
    /// A log to be; the file is made by the first write.
    pub(super) fn new(path: PathBuf, caps: Caps) -> Self {
        Self {
            path,
            caps,
            queue: Vec::new(),
            writer: Writer::Idle(None),
            is_open: true,
        }
    }

    /// Whether more output should be taken from the command.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < COMMAND_LOG_QUEUE_BYTES
    }

    /// Queues output.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.is_open && !matches!(self.writer, Writer::Failed(_)) {
            self.queue.extend_from_slice(bytes);
            self.start_write();
        }
    }

    /// Takes no more output.
    pub(super) fn close(&mut self) {
        self.is_open = false;
    }

    /// Whether a write is under way.
    pub(super) fn is_writing(&self) -> bool {
        matches!(self.writer, Writer::Busy(_))
    }

    /// Waits for the write under way, and starts the next.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn advance(&mut self) {
        if let Writer::Busy(write) = &mut self.writer {
            match write.await {
                Ok(log) => {
                    self.writer = Writer::Idle(Some(log));
                    self.start_write();
                }
                Err(problem) => {
                    self.queue = Vec::new();
                    self.writer = Writer::Failed(problem);
                }
            }
        }
    }

    /// Writes what is queued and puts the log in order.
    ///
    /// # Cancel safety
    /// Can be dropped and called again. Where it is not, [`Self::abandon`] tells that the log is incomplete.
    pub(super) async fn finish(&mut self) -> Kept {
        while self.is_writing() {
            self.advance().await;
        }
        match &mut self.writer {
            Writer::Idle(log) => {
                let Some(log) = log.take() else {
                    return self.kept(None);
                };
                let kept = self.kept(None);
                let end = blocking::run(move || Kept {
                    gap_bytes: log.gap_bytes(),
                    problem: log.straighten().err().map(|error| error.to_string()),
                    ..kept
                });
                self.writer = Writer::Ending(end.boxed());
            }
            Writer::Failed(problem) => {
                let problem = problem.clone();
                return self.kept(Some(problem));
            }
            Writer::Busy(_) | Writer::Ending(_) => {}
        }
        let Writer::Ending(end) = &mut self.writer else {
            return self.kept(None);
        };
        let kept = end.await;
        self.writer = Writer::Idle(None);
        kept
    }

    /// Leaves the log as it is.
    pub(super) fn abandon(self) -> Kept {
        self.kept(Some("it was not written to its end".to_owned()))
    }

    /// Removes the log: it turned out that nobody needs it.
    pub(super) async fn discard(mut self) {
        self.queue = Vec::new();
        while self.is_writing() {
            self.advance().await;
        }
        let removed = blocking::run(move || fs::remove_file_if_present(&self.path)).await;
        if let Err(error) = removed {
            tracing::warn!(%error, "a command's log stays");
        }
    }

    fn kept(&self, problem: Option<String>) -> Kept {
        Kept {
            path: self.path.clone(),
            gap_bytes: 0,
            problem,
        }
    }

    fn start_write(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        if let Writer::Idle(log) = &mut self.writer {
            let log = log.take();
            let bytes = std::mem::take(&mut self.queue);
            let (path, caps) = (self.path.clone(), self.caps);
            let write = blocking::run(move || {
                let mut log = match log {
                    Some(log) => log,
                    None => Log::create(&path, caps).map_err(|error| error.to_string())?,
                };
                log.append(&bytes).map_err(|error| error.to_string())?;
                Ok(log)
            });
            self.writer = Writer::Busy(write.boxed());
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests look at real files")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn writes_in_order_and_holds_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r/x.log");
        let mut spill = Spill::new(path.clone(), Caps::default());
        let mut expected = Vec::new();
        spill.push(b"first ");
        expected.extend_from_slice(b"first ");
        for n in 0..8u8 {
            let chunk = vec![b'a' + n; 100 << 10];
            spill.push(&chunk);
            expected.extend_from_slice(&chunk);
        }
        // The first write is under way, the rest waits behind it.
        assert!(spill.is_writing() && !spill.has_room());
        assert_eq!(
            spill.finish().await,
            Kept {
                path: path.clone(),
                gap_bytes: 0,
                problem: None
            }
        );
        assert!(spill.has_room());
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        spill.discard().await;
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_disk_that_fails_stops_the_log_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut spill = Spill::new(file.join("x.log"), Caps::default());
        spill.push(b"a");
        spill.advance().await;
        spill.push(&vec![b'b'; 1 << 20]);
        assert!(spill.has_room() && !spill.is_writing());
        let kept = spill.finish().await;
        assert!(kept.problem.unwrap().contains("cannot create directory"));
    }

    #[tokio::test]
    async fn a_closed_log_takes_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let mut spill = Spill::new(path.clone(), Caps::default());
        spill.push(b"a");
        spill.close();
        spill.push(b"b");
        spill.finish().await;
        assert_eq!(std::fs::read(&path).unwrap(), b"a");
    }

    #[tokio::test]
    async fn an_end_that_was_not_waited_for_is_told_later() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let mut spill = Spill::new(
            path.clone(),
            Caps {
                head_bytes: 2,
                tail_bytes: 3,
            },
        );
        spill.push(b"0123456789");
        spill.advance().await;
        // Usually not ready at once.
        let early = spill.finish().now_or_never();
        let kept = match early {
            Some(kept) => kept,
            None => spill.finish().await,
        };
        let expected = Kept {
            path: path.clone(),
            gap_bytes: 5,
            problem: None,
        };
        assert_eq!(kept, expected);
        assert_eq!(std::fs::read(&path).unwrap(), b"01789");
    }
}
