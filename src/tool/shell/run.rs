//! One call from its start to its outcome.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::id::SessionId;
use tokio::time::{Instant, sleep_until, timeout};

use super::Shell;
use super::capture::{Capture, Captured};
use super::environment::SESSION_ID;
use super::live::Live;
use super::report::{Ending, Report};
use super::spill::{Kept, Spill};
use crate::kernel::limits::PROCESS_GRACE_IN_CALL;
use crate::os::process::{Chunk, Command, Exit, Running, SpawnError};
use crate::tool::{ExecCx, Outcome};

/// How long a cancelled call waits for its log to be written.
const LOG_WAIT_AFTER_CANCEL: Duration = Duration::from_millis(300);

/// A command to run.
pub(super) struct Job {
    pub(super) shell: Arc<Shell>,
    pub(super) session: SessionId,
    /// The command line.
    pub(super) command: String,
    /// Absolute.
    pub(super) cwd: PathBuf,
    /// How long it may run.
    pub(super) time_limit: Duration,
    /// A line for the result, where the limit is not the one that was asked for.
    pub(super) timeout_note: Option<String>,
}

/// What the command did next.
enum Event {
    Wrote(Chunk),
    Ended(Exit),
}

/// Why a stop was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Timeout,
    Flood { limit_bytes: u64 },
    Cancel,
}

impl Job {
    /// Runs the command in the foreground.
    pub(super) async fn run(self, cx: ExecCx) -> Outcome {
        if cx.cancel.is_cancelled() {
            return Outcome::failed("The call was aborted before start; the command was not run.");
        }
        let task_id = self.shell.new_task_id();
        let deadline = Instant::now() + self.time_limit;
        let running = match self.spawn(&task_id).await {
            Ok(running) => running,
            Err(error) => return Outcome::failed(not_run(&error)),
        };
        let pump = Pump {
            running,
            capture: Capture::new(cx.results_dir.join(format!("{task_id}.log"))),
            live: Live::new(Arc::clone(&cx.progress), cx.cancel.clone()),
            stop: None,
        };
        pump.run(self, &cx, deadline).await
    }

    async fn spawn(&self, task_id: &str) -> Result<Running, SpawnError> {
        let program = &self.shell.program;
        if !program.is_absolute() {
            return Err(SpawnError::Program {
                program: program.clone(),
                source: std::io::Error::new(
                    std::io::ErrorKind::NotFound,
                    "it is not in PATH and not an absolute path",
                ),
            });
        }
        // What looks like an option to the shell is none.
        let guard = self.command.starts_with(['-', '+']).then_some("--");
        let command = Command::new(program, &self.cwd)
            .arg("-c")
            .args(guard)
            .arg(&self.command)
            .env(self.shell.env.iter().cloned())
            .env([(SESSION_ID, self.session.as_str())])
            .mark(task_id)
            .drop_grace(self.shell.grace);
        self.shell.processes.spawn(command).await
    }
}

/// A command being run.
struct Pump {
    running: Running,
    capture: Capture,
    live: Live,
    /// The first reason for a stop, which is the one that is told.
    stop: Option<Stop>,
}

impl Pump {
    async fn run(mut self, job: Job, cx: &ExecCx, deadline: Instant) -> Outcome {
        let grace = job.shell.grace;
        // Set by a cancel: when the call gives up waiting for the end.
        let mut give_up: Option<Instant> = None;
        let exit = loop {
            let is_writing = self.capture.spill().is_some_and(|spill| spill.is_writing());
            let has_room = self.capture.spill().is_none_or(|spill| spill.has_room());
            tokio::select! {
                // Whatever a command writes must not keep a stop from being noticed.
                biased;
                () = cx.cancel.cancelled(), if give_up.is_none() => {
                    self.ask_to_stop(Stop::Cancel, grace);
                    give_up = Some(Instant::now() + PROCESS_GRACE_IN_CALL);
                }
                () = at(give_up) => break None,
                () = sleep_until(deadline), if self.stop.is_none() => {
                    self.live.flush();
                    self.ask_to_stop(Stop::Timeout, grace);
                }
                () = at(self.live.due()) => self.live.flush(),
                () = advance(self.capture.spill()), if is_writing => {}
                event = next_event(&mut self.running), if has_room => match event {
                    Event::Wrote(chunk) => self.take(&chunk, &job.shell),
                    Event::Ended(exit) => break Some(exit),
                },
            }
        };
        match self.stop {
            None => self.live.finish(),
            Some(_) => self.live.stop(),
        }
        let read_error = self
            .running
            .take_read_error()
            .map(|error| error.to_string());
        // From here on the processes are on their own: a stop that was asked for goes on without us.
        drop(self.running);
        let ending = match (self.stop, exit) {
            // It had ended by itself before the stop reached it.
            (_, Some(exit)) if !exit.stopped => Ending::Exited(exit),
            (Some(Stop::Timeout), _) => Ending::TimedOut {
                limit: job.time_limit,
            },
            (Some(Stop::Flood { limit_bytes }), _) => Ending::Flooded { limit_bytes },
            (Some(Stop::Cancel) | None, _) => Ending::Interrupted {
                is_over: exit.is_some(),
            },
        };
        let Captured {
            shown,
            total_bytes,
            is_whole,
            spill,
        } = self.capture.finish();
        let kept = match spill {
            Some(spill) if is_whole => {
                spill.discard().await;
                None
            }
            Some(spill) => Some(keep(spill, cx).await),
            None => None,
        };
        let timeout_note = job.timeout_note;
        Report {
            ending,
            exit,
            shown,
            total_bytes,
            kept,
            timeout_note,
            read_error,
        }
        .into_outcome()
    }

    fn take(&mut self, chunk: &Chunk, shell: &Shell) {
        self.capture.push(chunk);
        if self.capture.is_binary() {
            self.live.size_only();
        }
        self.live.push(chunk.stream, &chunk.bytes);
        if let Some(limit_bytes) = shell.output_kill_bytes
            && self.capture.total_bytes() > limit_bytes
            && self.stop.is_none()
        {
            self.capture.close_log();
            self.ask_to_stop(Stop::Flood { limit_bytes }, shell.grace);
        }
    }

    fn ask_to_stop(&mut self, reason: Stop, grace: Duration) {
        self.running.stop(grace);
        self.live.stop();
        self.stop.get_or_insert(reason);
    }
}

/// Why nothing was run, for the model.
fn not_run(error: &SpawnError) -> String {
    let advice = match error {
        SpawnError::Cwd { .. } => " Give an existing directory as `cwd`.",
        SpawnError::Program { .. } => {
            " There is no shell to run commands with; tell the user (setting shell.path)."
        }
        SpawnError::System { source }
            if source.kind() == std::io::ErrorKind::ArgumentListTooLong =>
        {
            " Write long text to a file first and use it from there."
        }
        SpawnError::System { .. } | SpawnError::Closed => "",
    };
    format!("The command was not run: {error}.{advice}")
}

/// Finishes a log. A disk that hangs must not make a cancelled call hang.
async fn keep(mut spill: Spill, cx: &ExecCx) -> Kept {
    let finished = tokio::select! {
        biased;
        kept = spill.finish() => Some(kept),
        () = cx.cancel.cancelled() => None,
    };
    let finished = match finished {
        Some(kept) => Some(kept),
        None => timeout(LOG_WAIT_AFTER_CANCEL, spill.finish()).await.ok(),
    };
    finished.unwrap_or_else(|| spill.abandon())
}

/// # Cancel safety
/// Nothing is lost when the future is dropped.
async fn next_event(running: &mut Running) -> Event {
    match running.next_output().await {
        Some(chunk) => Event::Wrote(chunk),
        None => Event::Ended(running.wait().await),
    }
}

async fn advance(spill: Option<&mut Spill>) {
    match spill {
        Some(spill) => spill.advance().await,
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
