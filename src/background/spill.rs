//! Writing a log beside the task: in order, one write at a time, with a bounded queue.

use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::log::{Caps, Log};
use super::output::Output;
use crate::kernel::limits::COMMAND_LOG_QUEUE_BYTES;
use crate::os::{blocking, fs};

/// A log and what is still to be written to it. Its owner must poll [`Self::advance`] for anything to happen.
pub(super) struct Spill {
    path: PathBuf,
    caps: Caps,
    /// Told how far the log is.
    output: Arc<Output>,
    queue: Vec<u8>,
    writer: Writer,
    /// Whether more is taken.
    is_open: bool,
}

enum Writer {
    Idle(Option<Log>),
    Busy(BoxFuture<'static, Result<Log, String>>),
    Ending(BoxFuture<'static, Option<String>>),
    /// It is in order, or cannot be.
    Ended,
}

impl Spill {
    /// A log to be; the file is made by the first write.
    pub(super) fn new(path: PathBuf, caps: Caps, output: Arc<Output>) -> Self {
        output.log_begun(&path, caps);
        Self {
            path,
            caps,
            output,
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
        if self.is_open && !matches!(self.writer, Writer::Ended) {
            self.queue.extend_from_slice(bytes);
            self.start_write();
        }
    }

    /// Takes no more output, because of this.
    pub(super) fn close(&mut self, problem: String) {
        self.is_open = false;
        self.output.log_failed(problem);
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
                    self.output.log_written(log.n_bytes());
                    self.writer = Writer::Idle(Some(log));
                    self.start_write();
                }
                Err(problem) => {
                    self.queue = Vec::new();
                    self.output.log_failed(problem);
                    self.writer = Writer::Ended;
                }
            }
        }
    }

    /// Writes what is queued, puts the log in order and on the disk.
    ///
    /// # Cancel safety
    /// Can be dropped and called again. Where it is not, [`Self::abandon`] tells that the log is incomplete.
    pub(super) async fn finish(&mut self) {
        while self.is_writing() {
            self.advance().await;
        }
        if let Writer::Idle(log) = &mut self.writer {
            self.writer = match log.take() {
                None => Writer::Ended,
                Some(log) => {
                    let end =
                        blocking::run(move || log.finish().err().map(|error| error.to_string()));
                    Writer::Ending(end.boxed())
                }
            };
        }
        if let Writer::Ending(end) = &mut self.writer {
            let problem = end.await;
            self.output.log_finished(problem);
            self.writer = Writer::Ended;
        }
    }

    /// Leaves the log as it is.
    pub(super) fn abandon(self) {
        self.output
            .log_failed("it was not written to its end".to_owned());
    }

    /// Removes the log: it turned out that nobody needs it.
    pub(super) async fn discard(mut self) {
        self.queue = Vec::new();
        while self.is_writing() {
            self.advance().await;
        }
        self.output.remove_log();
        let removed = blocking::run(move || {
            fs::remove_file_if_present(&self.path)?;
            // It was made for this file alone.
            self.path.parent().map_or(Ok(()), fs::remove_empty_dir)
        })
        .await;
        if let Err(error) = removed {
            tracing::warn!(%error, "the log of a command stays");
        }
    }

    fn start_write(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        if let Writer::Idle(log) = &mut self.writer {
            let log = log.take();
            let bytes = std::mem::take(&mut self.queue);
            self.output.log_adding(bytes.len() as u64);
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

    fn spill(path: &std::path::Path, caps: Caps) -> (Spill, Arc<Output>) {
        let output = Output::new();
        (Spill::new(path.to_owned(), caps, output.clone()), output)
    }

    #[tokio::test]
    async fn writes_in_order_and_holds_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r/x.log");
        let (mut spill, output) = spill(&path, Caps::of(64 << 20));
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
        spill.finish().await;
        let told = output.describe();
        assert_eq!(
            (told.log_path.as_deref(), told.log_problem),
            (Some(path.as_path()), None)
        );
        assert!(spill.has_room());
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        spill.discard().await;
        assert!(!path.exists() && !path.parent().unwrap().exists());
    }

    #[tokio::test]
    async fn a_disk_that_fails_stops_the_log_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let (mut spill, output) = spill(&file.join("x.log"), Caps::of(1 << 20));
        spill.push(b"a");
        spill.advance().await;
        spill.push(&vec![b'b'; 1 << 20]);
        assert!(spill.has_room() && !spill.is_writing());
        spill.finish().await;
        let problem = output.describe().log_problem.unwrap();
        assert!(problem.contains("cannot create directory"), "{problem}");
    }

    #[tokio::test]
    async fn a_closed_log_takes_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let (mut spill, output) = spill(&path, Caps::of(1 << 20));
        spill.push(b"a");
        spill.close("enough".to_owned());
        spill.push(b"b");
        spill.finish().await;
        assert_eq!(std::fs::read(&path).unwrap(), b"a");
        assert_eq!(output.describe().log_problem.as_deref(), Some("enough"));
    }

    #[tokio::test]
    async fn an_end_that_was_not_waited_for_is_told_later() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        let caps = Caps {
            head_bytes: 2,
            tail_bytes: 3,
        };
        let (mut spill, output) = spill(&path, caps);
        spill.push(b"0123456789");
        spill.advance().await;
        // Usually not ready at once.
        if spill.finish().now_or_never().is_none() {
            spill.finish().await;
        }
        let told = output.describe();
        assert_eq!((told.log_gap_bytes, told.log_problem), (5, None));
        assert_eq!(std::fs::read(&path).unwrap(), b"01789");
    }
}
