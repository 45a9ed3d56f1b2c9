//! The one FIFO of a connection, between everything that speaks to a host and the task that writes.
//!
//! The peer knows it by the [`Outbox`] trait alone.
//! The server's outbox also merges and drops events of slow hosts; [`PlainOutbox`] is the simple one of clients and
//! tests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use super::pending::Receipt;
use super::service::BoxFuture;

/// A batch that holds this many bytes is written without looking for more.
/// Chosen: the size of a Linux pipe buffer, so a larger write would be cut anyway.
pub const BATCH_BYTES: usize = 64 * 1024;

/// No line is added to a batch that would grow beyond this; a longer line makes a batch of its own.
pub const MAX_BATCH_BYTES: usize = 256 * 1024;

/// A complete message on its way out.
#[derive(Debug)]
pub struct Line {
    /// The text of the message, in UTF-8, without any newline.
    pub bytes: Bytes,
    /// Whom it answers. An outbox passes it on to the [`Batch`] and does nothing else with it.
    pub receipt: Receipt,
}

impl Line {
    /// A message that answers nobody.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            receipt: Receipt::default(),
        }
    }
}

/// Lines that are written together.
#[derive(Debug, Default)]
pub struct Batch {
    /// Complete lines, each with its LF.
    pub bytes: Vec<u8>,
    /// The receipts of those lines that answer somebody.
    pub receipts: Vec<Receipt>,
}

impl Batch {
    /// Appends a line and its LF.
    pub fn push(&mut self, line: Line) {
        self.bytes.reserve(line.bytes.len() + 1);
        self.bytes.extend_from_slice(&line.bytes);
        self.bytes.push(b'\n');
        if !line.receipt.is_empty() {
            self.receipts.push(line.receipt);
        }
    }

    /// Whether a line of this many bytes still belongs into this batch. An empty batch takes any.
    pub fn has_room_for(&self, line_bytes: usize) -> bool {
        self.bytes.is_empty()
            || self.bytes.len() < BATCH_BYTES && self.bytes.len() + line_bytes < MAX_BATCH_BYTES
    }
}

/// The queue of one connection.
///
/// Anybody may send; one task, the writer, drains.
/// What [`send`](Self::send) takes is never dropped or reordered while the outbox is open.
pub trait Outbox: Send + Sync + 'static {
    /// Appends a reply, a request of ours or a notification. Never blocks. A closed outbox drops it.
    ///
    /// May be called under the peer's locks: it must not call back into the peer.
    fn send(&self, line: Line);

    /// How many bytes given to [`send`](Self::send) no [`drain`](Self::drain) has taken yet.
    fn pending_bytes(&self) -> usize;

    /// Waits until there is something to write and appends as many complete lines as fit the batch.
    /// `false` when the outbox is closed and empty: nothing will ever come again.
    ///
    /// # Cancel safety
    /// A drain dropped while it waits has taken nothing.
    fn drain<'a>(&'a self, batch: &'a mut Batch) -> BoxFuture<'a, bool>;

    /// Waits until [`pending_bytes`](Self::pending_bytes) is below the mark, or the outbox is closed.
    /// One caller at a time, the reader.
    fn below(&self, mark_bytes: usize) -> BoxFuture<'_, ()>;

    /// Takes nothing more. What is queued can still be drained.
    fn close(&self);
}

/// An outbox without bounds, merging or dropping.
#[derive(Debug, Default)]
pub struct PlainOutbox {
    queue: Mutex<Queue>,
    pending_bytes: AtomicUsize,
    ready: Notify,
    drained: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Line>,
    closed: bool,
}

impl PlainOutbox {
    /// An empty, open outbox.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves lines into the batch; `None` when there are none yet.
    fn take(&self, batch: &mut Batch) -> Option<bool> {
        let mut queue = self.lock();
        if queue.lines.is_empty() {
            return queue.closed.then_some(false);
        }
        let mut taken_bytes = 0;
        while queue
            .lines
            .front()
            .is_some_and(|line| batch.has_room_for(line.bytes.len()))
        {
            let Some(line) = queue.lines.pop_front() else {
                break;
            };
            taken_bytes += line.bytes.len();
            batch.push(line);
        }
        if queue.lines.is_empty() && queue.lines.capacity() > 4096 {
            queue.lines = VecDeque::new();
        }
        self.pending_bytes.fetch_sub(taken_bytes, Ordering::Relaxed);
        drop(queue);
        self.drained.notify_one();
        Some(true)
    }
}

impl Outbox for PlainOutbox {
    fn send(&self, line: Line) {
        let mut queue = self.lock();
        if queue.closed {
            return;
        }
        self.pending_bytes
            .fetch_add(line.bytes.len(), Ordering::Relaxed);
        queue.lines.push_back(line);
        drop(queue);
        self.ready.notify_one();
    }

    fn pending_bytes(&self) -> usize {
        self.pending_bytes.load(Ordering::Relaxed)
    }

    fn drain<'a>(&'a self, batch: &'a mut Batch) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            loop {
                // A `notify_one` before the wait is kept as a permit, so nothing is missed in between.
                if let Some(more) = self.take(batch) {
                    return more;
                }
                self.ready.notified().await;
            }
        })
    }

    fn below(&self, mark_bytes: usize) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            while self.pending_bytes() >= mark_bytes && !self.lock().closed {
                self.drained.notified().await;
            }
        })
    }

    fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_one();
        self.drained.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn lines_leave_in_order_and_in_batches() {
        let outbox = PlainOutbox::new();
        let line = |n: usize, length: usize| format!("{n:03}{}", "x".repeat(length)).into_bytes();
        let sizes: Vec<usize> = [10; 3]
            .into_iter()
            .chain([MAX_BATCH_BYTES + 1])
            .chain([BATCH_BYTES / 4; 9])
            .chain([1])
            .collect();
        for (n, &size) in sizes.iter().enumerate() {
            outbox.send(Line::new(line(n, size)));
        }
        let total: usize = sizes.iter().map(|size| size + 3).sum();
        assert_eq!(outbox.pending_bytes(), total);
        outbox.close();
        outbox.send(Line::new("dropped"));

        let mut all = Vec::new();
        let mut batches = 0;
        let mut batch = Batch::default();
        while outbox.drain(&mut batch).await {
            let is_one_long_line =
                memchr::memchr(b'\n', &batch.bytes) == Some(batch.bytes.len() - 1);
            assert!(batch.bytes.len() <= MAX_BATCH_BYTES || is_one_long_line);
            all.append(&mut batch.bytes);
            batches += 1;
        }
        let expected: Vec<u8> = sizes
            .iter()
            .enumerate()
            .flat_map(|(n, &size)| [line(n, size), b"\n".to_vec()].concat())
            .collect();
        assert!(all == expected, "all lines, in order");
        assert!((4..=6).contains(&batches), "{batches} batches");
        assert_eq!(outbox.pending_bytes(), 0);
    }

    #[tokio::test]
    async fn waiting_ends_with_a_line_room_or_the_close() {
        let outbox = PlainOutbox::new();
        let mut batch = Batch::default();
        assert!(
            outbox.drain(&mut batch).now_or_never().is_none(),
            "nothing to drain"
        );
        assert!(outbox.below(3).now_or_never().is_some(), "there is room");
        outbox.send(Line::new("abc"));
        let mut room = outbox.below(3);
        assert!((&mut room).now_or_never().is_none(), "at the mark");
        assert_eq!(outbox.drain(&mut batch).now_or_never(), Some(true));
        assert_eq!(batch.bytes, b"abc\n");
        assert!(room.now_or_never().is_some());

        outbox.send(Line::new("abc"));
        let mut room = outbox.below(3);
        assert!((&mut room).now_or_never().is_none());
        outbox.close();
        assert!(room.now_or_never().is_some(), "closed");
        assert_eq!(
            outbox.drain(&mut batch).now_or_never(),
            Some(true),
            "what was queued still leaves"
        );
        assert_eq!(outbox.drain(&mut batch).now_or_never(), Some(false));
    }
}
