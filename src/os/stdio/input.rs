use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use rustix::event::PollFlags;
use rustix::net::RecvFlags;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::{Channel, classify, wait_ready};
use crate::os::raw::watch_fd;

/// One read of the thread that reads what cannot be polled.
const CHUNK: usize = 64 * 1024;

/// The protocol's input. Its end is final: after end of file or an error every read gives end of file.
#[derive(Debug)]
pub struct Input {
    source: Source,
    ended: bool,
}

#[derive(Debug)]
enum Source {
    Pipe(pipe::Receiver),
    Socket(AsyncFd<OwnedFd>),
    Thread {
        chunks: mpsc::Receiver<io::Result<Bytes>>,
        rest: Bytes,
    },
}

impl Input {
    /// Uses any readable descriptor. Must be called inside a runtime.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let source = match classify(fd, libc::O_RDONLY)? {
            Channel::Pipe(fd) => Source::Pipe(pipe::Receiver::from_owned_fd(fd)?),
            Channel::Socket(fd) => Source::Socket(watch_fd(fd, Interest::READABLE)?),
            Channel::Blocking(fd) => Source::Thread {
                chunks: read_in_thread(fd)?,
                rest: Bytes::new(),
            },
        };
        Ok(Self {
            source,
            ended: false,
        })
    }
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.ended || buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let n_before = buf.filled().len();
        let answer = ready!(match &mut this.source {
            Source::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buf),
            Source::Socket(socket) => poll_recv(socket, cx, buf),
            Source::Thread { chunks, rest } => poll_chunks(chunks, rest, cx, buf),
        });
        this.ended = answer.is_err() || buf.filled().len() == n_before;
        Poll::Ready(answer)
    }
}

fn poll_recv(
    socket: &AsyncFd<OwnedFd>,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    loop {
        let mut ready = ready!(socket.poll_read_ready(cx))?;
        let space = buf.initialize_unfilled();
        match ready.try_io(|fd| Ok(rustix::net::recv(fd, &mut *space, RecvFlags::DONTWAIT)?.0)) {
            Ok(Ok(n_read)) => {
                buf.advance(n_read);
                return Poll::Ready(Ok(()));
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Poll::Ready(Err(error)),
            Err(_would_block) => {}
        }
    }
}

fn poll_chunks(
    chunks: &mut mpsc::Receiver<io::Result<Bytes>>,
    rest: &mut Bytes,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    if rest.is_empty() {
        match ready!(chunks.poll_recv(cx)) {
            Some(Ok(chunk)) => *rest = chunk,
            Some(Err(error)) => return Poll::Ready(Err(error)),
            None => return Poll::Ready(Ok(())),
        }
    }
    let n = rest.len().min(buf.remaining());
    buf.put_slice(&rest[..n]);
    rest.advance(n);
    Poll::Ready(Ok(()))
}

/// Starts a thread of its own, not one of the pool: a read that never returns must not hold up the runtime's end.
fn read_in_thread(fd: OwnedFd) -> io::Result<mpsc::Receiver<io::Result<Bytes>>> {
    let (sender, receiver) = mpsc::channel(1);
    let fd = Arc::new(fd);
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut buf = vec![0; CHUNK];
            loop {
                let chunk = match rustix::io::read(&fd, buf.as_mut_slice()) {
                    Ok(0) => return,
                    Ok(n) => Ok(Bytes::copy_from_slice(&buf[..n])),
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(rustix::io::Errno::AGAIN) => match wait_ready(&fd, PollFlags::IN) {
                        Ok(()) => continue,
                        Err(error) => Err(error),
                    },
                    Err(error) => Err(error.into()),
                };
                let failed = chunk.is_err();
                if sender.blocking_send(chunk).is_err() || failed {
                    return;
                }
            }
        })?;
    Ok(receiver)
}
