use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::event::PollFlags;
use rustix::net::SendFlags;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use super::{Channel, classify, wait_ready};
use crate::os::raw::watch_fd;

/// The most that one write hands to a thread.
const CHUNK: usize = 64 * 1024;

/// The protocol's output. A write to a closed pipe or socket is an error (never a signal). Flush to be sure that the
/// last write has reached the kernel.
#[derive(Debug)]
pub struct Output {
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Pipe(pipe::Sender),
    Socket(AsyncFd<OwnedFd>),
    Thread(ThreadWriter),
}

impl Output {
    /// Uses any writable descriptor. Must be called inside a runtime.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let sink = match classify(fd, libc::O_WRONLY)? {
            Channel::Pipe(fd) => Sink::Pipe(pipe::Sender::from_owned_fd(fd)?),
            Channel::Socket(fd) => Sink::Socket(watch_fd(fd, Interest::WRITABLE)?),
            Channel::Blocking(fd) => Sink::Thread(ThreadWriter {
                fd: Arc::new(fd),
                writing: None,
            }),
        };
        Ok(Self { sink })
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().sink {
            Sink::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Sink::Socket(socket) => poll_send(socket, cx, bytes),
            Sink::Thread(writer) => writer.poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().sink {
            Sink::Pipe(_) | Sink::Socket(_) => Poll::Ready(Ok(())),
            Sink::Thread(writer) => writer.poll_done(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

fn poll_send(
    socket: &AsyncFd<OwnedFd>,
    cx: &mut Context<'_>,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    loop {
        let mut ready = ready!(socket.poll_write_ready(cx))?;
        match ready.try_io(|fd| Ok(rustix::net::send(fd, bytes, SendFlags::DONTWAIT)?)) {
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(answer) => return Poll::Ready(answer),
            Err(_would_block) => {}
        }
    }
}

/// Writes one chunk at a time on the blocking pool. An error shows at the next call.
#[derive(Debug)]
struct ThreadWriter {
    fd: Arc<OwnedFd>,
    writing: Option<JoinHandle<io::Result<()>>>,
}

impl ThreadWriter {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_done(cx))?;
        let chunk = bytes[..bytes.len().min(CHUNK)].to_vec();
        let n = chunk.len();
        let fd = Arc::clone(&self.fd);
        self.writing = Some(tokio::task::spawn_blocking(move || {
            write_blocking(&fd, &chunk)
        }));
        Poll::Ready(Ok(n))
    }

    fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writing) = &mut self.writing else {
            return Poll::Ready(Ok(()));
        };
        let answer = ready!(Pin::new(writing).poll(cx));
        self.writing = None;
        Poll::Ready(answer.unwrap_or_else(|error| Err(io::Error::other(error))))
    }
}

fn write_blocking(fd: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => wait_ready(fd, PollFlags::OUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
