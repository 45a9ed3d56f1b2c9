//! Reading a child's pipes: exact order within each, order of arrival between them, and never more than one buffer.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use futures::stream::{SelectAll, StreamExt};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::os::raw::watch_fd;

/// How much one read takes at most.
const READ_BYTES: usize = 64 * 1024;

/// Reads up to this size are copied out, so that a slow trickle of small chunks does not hold big buffers.
const COPY_BYTES: usize = 16 * 1024;

/// Which of a child's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of output as it was read: raw bytes, cut anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where it came from.
    pub stream: Stream,
    /// What came; never empty, at most 64 KiB.
    pub bytes: Bytes,
}

/// The outputs of one child that are still open.
///
/// They are polled in the order in which the system found them readable, so a line on one pipe that was written
/// before a line on the other comes first as long as both are read as they come.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    pipes: SelectAll<Pipe>,
    /// Pipes whose output is no longer wanted. They stay open until this is dropped: closing them would end what still
    /// writes by SIGPIPE, before anyone has counted it.
    unwanted: Vec<Pipe>,
}

impl Outputs {
    /// Adds the reading end of a pipe. To be called before the child starts, so that its first write is an event.
    pub(super) fn add(&mut self, stream: Stream, fd: OwnedFd) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        self.pipes.push(Pipe {
            stream,
            fd: watch_fd(fd, Interest::READABLE)?,
            buffer: Vec::new(),
            failed: false,
        });
        Ok(())
    }

    /// Begins to note which pipe becomes readable first. To be called when all are added and the child has not started
    /// yet; without it the order of what is written before the first [`Self::next`] would be unknown.
    pub(super) fn listen(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        // Nothing can have been written, so this only leaves each pipe's own waker with the system's events.
        let nothing = self.pipes.poll_next_unpin(&mut cx);
        debug_assert!(nothing.is_pending() || self.pipes.is_empty());
    }

    /// Whether all have ended.
    pub(super) fn is_empty(&self) -> bool {
        self.pipes.is_empty()
    }

    /// Waits for the next chunk; `None` when all pipes have ended.
    ///
    /// # Cancel safety
    /// Nothing read is lost.
    pub(super) async fn next(&mut self) -> Option<io::Result<Chunk>> {
        self.pipes.next().await
    }

    /// Takes a pipe out, for an owner that reads it in its own way.
    pub(super) fn take(&mut self, stream: Stream) -> Option<OwnedFd> {
        let pipes = std::mem::take(&mut self.pipes);
        let (taken, kept): (Vec<_>, Vec<_>) =
            pipes.into_iter().partition(|pipe| pipe.stream == stream);
        self.pipes.extend(kept);
        taken.into_iter().next().map(|pipe| pipe.fd.into_inner())
    }

    /// Ends all pipes, after reading what is in them at this moment: no more than that, however fast something still
    /// writes.
    pub(super) fn finish(&mut self) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for mut pipe in std::mem::take(&mut self.pipes) {
            pipe.read_ready(&mut chunks);
            self.unwanted.push(pipe);
        }
        chunks
    }

    /// Reads what is in the pipes at this moment, and leaves them open.
    pub(super) fn take_ready(&mut self) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for pipe in &mut self.pipes {
            pipe.read_ready(&mut chunks);
        }
        chunks
    }
}

#[derive(Debug)]
struct Pipe {
    stream: Stream,
    fd: AsyncFd<OwnedFd>,
    buffer: Vec<u8>,
    failed: bool,
}

impl Pipe {
    fn read(&mut self) -> io::Result<Bytes> {
        read_once(self.fd.get_ref(), &mut self.buffer)
    }

    /// Reads as much as there is when it begins.
    fn read_ready(&mut self, chunks: &mut Vec<Chunk>) {
        let mut n_left = rustix::io::ioctl_fionread(self.fd.get_ref()).unwrap_or(0) as usize;
        while n_left > 0 {
            match self.read() {
                Ok(bytes) if !bytes.is_empty() => {
                    n_left = n_left.saturating_sub(bytes.len());
                    chunks.push(Chunk {
                        stream: self.stream,
                        bytes,
                    });
                }
                Ok(_) | Err(_) => break,
            }
        }
    }
}

/// Reads once without waiting. Empty at end of file.
fn read_once(fd: &OwnedFd, buffer: &mut Vec<u8>) -> io::Result<Bytes> {
    buffer.clear();
    buffer.reserve_exact(READ_BYTES);
    let n =
        rustix::io::retry_on_intr(|| rustix::io::read(fd, rustix::buffer::spare_capacity(buffer)))?;
    Ok(if n <= COPY_BYTES {
        Bytes::copy_from_slice(buffer)
    } else {
        Bytes::from(std::mem::take(buffer))
    })
}

impl futures::Stream for Pipe {
    type Item = io::Result<Chunk>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.failed {
            return Poll::Ready(None);
        }
        loop {
            let mut ready = match ready!(this.fd.poll_read_ready(cx)) {
                Ok(ready) => ready,
                Err(error) => {
                    this.failed = true;
                    return Poll::Ready(Some(Err(error)));
                }
            };
            match ready.try_io(|fd| read_once(fd.get_ref(), &mut this.buffer)) {
                Ok(Ok(bytes)) if bytes.is_empty() => return Poll::Ready(None),
                Ok(Ok(bytes)) => {
                    let stream = this.stream;
                    return Poll::Ready(Some(Ok(Chunk { stream, bytes })));
                }
                Ok(Err(error)) => {
                    this.failed = true;
                    return Poll::Ready(Some(Err(error)));
                }
                Err(_would_block) => {}
            }
        }
    }
}
