use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::output::{Chunk, Outputs, Stream};
use super::state::{Phase, Proc};
use super::{Exit, Status, Survivors};

/// A child and its output. Dropping it while the child runs stops the child and all its descendants.
///
/// Output is taken by [`Self::next_output`]; a child that writes more than the pipe holds waits until somebody takes
/// it, so memory stays bounded whatever it writes.
pub struct Running {
    proc: Arc<Proc>,
    phase: watch::Receiver<Phase>,
    outputs: Outputs,
    /// Read when the drain was over, not given out yet.
    last_chunks: VecDeque<Chunk>,
    /// Set when the drain is over and outputs are held open by what was left running.
    is_paused: bool,
    is_following: bool,
    read_error: Option<io::Error>,
    stdin: Option<pipe::Sender>,
    drop_grace: Duration,
}

/// A handle that stops a child from elsewhere.
#[derive(Clone)]
pub struct Stopper {
    proc: Arc<Proc>,
}

/// A child's whole story, for short commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Standard output, from the beginning.
    pub stdout: Vec<u8>,
    /// Standard error, from the beginning.
    pub stderr: Vec<u8>,
    /// Whether there was more of either.
    pub truncated: bool,
    /// How it ended.
    pub exit: Exit,
}

impl Collected {
    /// Standard output as text, when the child succeeded.
    pub fn success_text(&self) -> Option<String> {
        let is_success = self.exit.status == Status::Code(0) && !self.exit.stopped;
        is_success.then(|| String::from_utf8_lossy(&self.stdout).into_owned())
    }
}

impl Running {
    pub(super) fn new(
        proc: Arc<Proc>,
        outputs: Outputs,
        stdin: Option<pipe::Sender>,
        drop_grace: Duration,
    ) -> Self {
        Self {
            phase: proc.phase.subscribe(),
            proc,
            outputs,
            last_chunks: VecDeque::new(),
            is_paused: false,
            is_following: false,
            read_error: None,
            stdin,
            drop_grace,
        }
    }

    /// The child's process id, which is its group's too.
    pub fn pid(&self) -> u32 {
        self.proc.pid.as_raw_nonzero().get() as u32
    }

    /// When the child started, in clock ticks since boot: with its id this names it for ever. `None` where the system
    /// does not say.
    pub fn start_ticks(&self) -> Option<u64> {
        self.proc.start_ticks
    }

    /// The writing end of a piped standard input; drop it for end of file.
    pub fn take_stdin(&mut self) -> Option<pipe::Sender> {
        self.stdin.take()
    }

    /// Takes one of the outputs away, to be read as a byte stream until its end. What is read there is not drained:
    /// it ends when the last process that holds it does.
    pub fn take_output(&mut self, stream: Stream) -> Option<pipe::Receiver> {
        let fd = self.outputs.take(stream)?;
        if self.outputs.is_empty() {
            self.proc.drained.cancel();
        }
        pipe::Receiver::from_owned_fd(fd).ok()
    }

    /// Waits for more output: chunks as they were read, in order within each stream, in order of arrival between
    /// them. `None` when both streams have ended, or [`super::DRAIN`] after the child's end.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next_output(&mut self) -> Option<Chunk> {
        loop {
            if let Some(chunk) = self.last_chunks.pop_front() {
                return Some(chunk);
            }
            if self.outputs.is_empty() {
                self.proc.drained.cancel();
                return None;
            }
            if self.is_paused {
                return None;
            }
            let phase = *self.phase.borrow_and_update();
            let until = match phase {
                Phase::Running => None,
                Phase::Draining { until } => Some(until),
                Phase::LeftRunning(_) if self.is_following => None,
                Phase::LeftRunning(_) | Phase::Settled(_) => Some(Instant::now()),
            };
            let is_over =
                matches!(phase, Phase::Settled(_)) || self.proc.survivors == Survivors::End;
            tokio::select! {
                // The deadline comes first: output without end must not push it aside.
                biased;
                () = at(until) => {
                    let chunks = if is_over {
                        self.outputs.finish()
                    } else {
                        self.is_paused = true;
                        self.outputs.take_ready()
                    };
                    self.last_chunks.extend(chunks);
                }
                item = self.outputs.next() => match item {
                    Some(Ok(chunk)) => return Some(chunk),
                    Some(Err(error)) => {
                        self.read_error.get_or_insert(error);
                    }
                    None => {}
                },
                changed = self.phase.changed() => if changed.is_err() {
                    // The supervisor is gone with the runtime.
                    return None;
                },
            }
        }
    }

    /// Waits until the child has exited and what it left running is known. With [`Survivors::Keep`] the exit may say
    /// that something was left: then [`Self::follow`] goes on with that. Call it when [`Self::next_output`] gave `None`.
    ///
    /// # Cancel safety
    /// Can be dropped and called again.
    pub async fn exited(&self) -> Exit {
        if self.is_following {
            self.proc.settled().await
        } else {
            self.proc.left().await
        }
    }

    /// Turns to what the child left running: its output is given out from now on, [`Self::exited`] waits for its end,
    /// and a stop is meant for it.
    pub fn follow(&mut self) {
        self.is_following = true;
        self.is_paused = false;
    }

    /// The first error of reading output, if there was one. What came before it was given out.
    pub fn take_read_error(&mut self) -> Option<io::Error> {
        self.read_error.take()
    }

    /// Waits for the end of the child and of everything in its group. Output nobody took before is dropped.
    ///
    /// # Cancel safety
    /// Can be dropped and called again, at the cost of the output dropped meanwhile.
    pub async fn wait(&mut self) -> Exit {
        while self.next_output().await.is_some() {}
        let exit = self.proc.settled().await;
        self.outputs = Outputs::default();
        exit
    }

    /// Waits for the end while keeping the beginning of each stream.
    pub async fn collect(mut self, max_bytes: usize) -> Collected {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut truncated = false;
        while let Some(chunk) = self.next_output().await {
            let kept: &mut Vec<u8> = match chunk.stream {
                Stream::Stdout => &mut stdout,
                Stream::Stderr => &mut stderr,
            };
            let n = chunk.bytes.len().min(max_bytes.saturating_sub(kept.len()));
            kept.extend_from_slice(&chunk.bytes[..n]);
            truncated |= n < chunk.bytes.len();
        }
        let exit = self.proc.settled().await;
        Collected {
            stdout,
            stderr,
            truncated,
            exit,
        }
    }

    /// Asks the child and all its descendants to end: TERM now, KILL after `grace` (zero: KILL now). Returns at once;
    /// output goes on until the end, which comes within the grace and half a second. A later call can only bring the
    /// KILL forward.
    pub fn stop(&self, grace: Duration) {
        self.proc.request_stop(grace);
    }

    /// A handle for stopping from elsewhere.
    pub fn stopper(&self) -> Stopper {
        Stopper {
            proc: Arc::clone(&self.proc),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.proc.drained.cancel();
        let phase = *self.phase.borrow();
        let goes_on = matches!(phase, Phase::Running | Phase::LeftRunning(_));
        if self.proc.kill_at().is_none() && goes_on {
            self.proc.request_stop(self.drop_grace);
        }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("pid", &self.pid())
            .field("phase", &*self.phase.borrow())
            .finish_non_exhaustive()
    }
}

impl Stopper {
    /// See [`Running::stop`].
    pub fn stop(&self, grace: Duration) {
        self.proc.request_stop(grace);
    }

    /// Waits for the end of the child and its group. Takes no output, so somebody else must.
    ///
    /// # Cancel safety
    /// Can be dropped and called again.
    pub async fn ended(&self) -> Exit {
        self.proc.settled().await
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stopper").field(&self.proc.pid).finish()
    }
}

async fn at(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
