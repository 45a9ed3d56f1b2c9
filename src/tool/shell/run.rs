//! One call from its start to its outcome.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::id::{AgentId, SessionId};
use tokio::time::{Instant, sleep_until};

use super::Shell;
use super::describe::{AtLimit, Background, LeftRunning};
use super::environment::SESSION_ID;
use super::going_on;
use super::report::{Ending, Report};
use super::tap::{CallTap, Seen};
use crate::background::{ProcessSpec, Released, StartError, StopCause, Tasks, Why};
use crate::kernel::limits::PROCESS_GRACE_IN_CALL;
use crate::os::process::{Command, SpawnError};
use crate::tool::{ExecCx, Outcome};

/// Why a command is stopped whose turn was cancelled.
const INTERRUPTED: &str = "interrupted by user";

/// A command to run.
pub(super) struct Job {
    pub(super) shell: Arc<Shell>,
    pub(super) tasks: Tasks,
    pub(super) session: SessionId,
    pub(super) agent: AgentId,
    /// The command line.
    pub(super) command: String,
    /// Absolute.
    pub(super) cwd: PathBuf,
    /// What it is for; may be empty.
    pub(super) description: String,
    pub(super) place: Place,
    pub(super) limit: TimeLimit,
    pub(super) background: Background,
}

/// Where a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The call waits for it.
    Foreground,
    /// The call returns at once.
    Background,
}

/// How long a command may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TimeLimit {
    /// `None` is for ever.
    pub(super) limit: Option<Duration>,
    /// A line for the result, where the limit is not the one that was asked for.
    pub(super) note: Option<String>,
}

impl Job {
    /// Runs the command, or starts it.
    pub(super) async fn run(self, cx: ExecCx) -> Outcome {
        if cx.cancel.is_cancelled() {
            return Outcome::failed("The call was aborted before start; the command was not run.");
        }
        match self.place {
            Place::Foreground => self.attach(cx).await,
            Place::Background => self.start().await,
        }
    }

    async fn start(self) -> Outcome {
        let started = match self.spec().await {
            Ok(spec) => self.tasks.start_process(spec).await,
            Err(error) => Err(error.into()),
        };
        match started {
            Ok(info) => going_on::started(&info, self.limit.note.as_deref()),
            Err(error) => Outcome::failed(not_run(&error)),
        }
    }

    async fn attach(self, cx: ExecCx) -> Outcome {
        let (tap, mut seen) = CallTap::new(&cx.progress, &cx.cancel);
        let started = match self.spec().await {
            Ok(spec) => self.tasks.run_process(spec, Box::new(tap)).await,
            Err(error) => Err(error.into()),
        };
        let attached = match started {
            Ok(attached) => attached,
            Err(error) => return Outcome::failed(not_run(&error)),
        };
        // Set by a cancel: when the call gives up waiting for the end.
        let mut give_up: Option<Instant> = None;
        let mut was_cancelled = false;
        let seen = loop {
            tokio::select! {
                biased;
                seen = &mut seen => break seen,
                () = cx.cancel.cancelled(), if !was_cancelled => {
                    was_cancelled = true;
                    attached.stop(INTERRUPTED);
                    give_up = Some(Instant::now() + PROCESS_GRACE_IN_CALL);
                }
                () = at(give_up) => {
                    give_up = None;
                    attached.give_up();
                }
            }
        };
        match seen {
            Ok(seen) => self.report(seen, was_cancelled),
            // Only while the runtime is going away.
            Err(_) => Outcome::failed("The command was abandoned; its output is lost."),
        }
    }

    async fn spec(&self) -> Result<ProcessSpec, SpawnError> {
        let shell = &self.shell;
        if !shell.program.is_absolute() {
            return Err(SpawnError::Program {
                program: shell.program.clone(),
                source: std::io::Error::new(
                    std::io::ErrorKind::NotFound,
                    "it is not in PATH and not an absolute path",
                ),
            });
        }
        let (detach_at_limit, time_limit_detached, keep_survivors) = match self.background {
            Background::Unavailable => (false, None, false),
            Background::Available {
                at_limit,
                default_limit,
                left_running,
            } => (
                at_limit == AtLimit::Background,
                default_limit,
                left_running == LeftRunning::Task,
            ),
        };
        let path = shell.path_of_commands(self.tasks.processes()).await;
        // What looks like an option to the shell is none.
        let guard = self.command.starts_with(['-', '+']).then_some("--");
        let command = Command::new(&shell.program, &self.cwd)
            .arg("-c")
            .args(guard)
            .arg(&self.command)
            .env(shell.env.iter().cloned())
            .env(path.map(|path| ("PATH", path)))
            .env([(SESSION_ID, self.session.as_str())]);
        Ok(ProcessSpec {
            command,
            command_line: self.command.clone(),
            cwd: self.cwd.clone(),
            description: self.description.clone(),
            owner: self.agent.clone(),
            time_limit: self.limit.limit,
            detach_at_limit,
            time_limit_detached,
            output_kill_bytes: shell.output_kill_bytes,
            keep_survivors,
        })
    }

    fn report(self, seen: Seen, was_cancelled: bool) -> Outcome {
        let Seen { captured, released } = seen;
        let Released {
            why,
            info,
            exit,
            cause,
            residual,
            read_error,
        } = released;
        if let Why::Detached(cause) = why {
            let limit = self.limit;
            return going_on::detached(&info, captured, cause, &limit);
        }
        let is_over = why == Why::Ended;
        let ending = match (cause, exit) {
            // It had ended by itself before a stop reached it.
            (_, Some(exit)) if !exit.stopped => Ending::Exited(exit),
            (Some(StopCause::TimeLimit), _) => Ending::TimedOut {
                limit: self.limit.limit.unwrap_or_default(),
            },
            (Some(StopCause::Flood), _) => Ending::Flooded {
                limit_bytes: self.shell.output_kill_bytes.unwrap_or_default(),
            },
            (Some(StopCause::Asked), _) if !was_cancelled => Ending::Stopped {
                reason: info.stop_reason.clone(),
            },
            (Some(StopCause::Asked) | None, _) => Ending::Interrupted { is_over },
        };
        Report {
            ending,
            exit,
            shown: captured.shown,
            info,
            residual,
            timeout_note: self.limit.note,
            read_error,
            is_over,
        }
        .into_outcome()
    }
}

/// Why nothing was run, for the model.
fn not_run(error: &StartError) -> String {
    let advice = match error {
        StartError::Spawn(SpawnError::Cwd { .. }) => " Give an existing directory as `cwd`.",
        StartError::Spawn(SpawnError::Program { .. }) => {
            " There is no shell to run commands with; tell the user (setting shell.path)."
        }
        StartError::Spawn(SpawnError::System { source })
            if source.kind() == std::io::ErrorKind::ArgumentListTooLong =>
        {
            " Write long text to a file first and use it from there."
        }
        StartError::LimitExceeded { .. } => {
            " Wait until one has ended, stop one that is no longer needed, or run the command in the foreground."
        }
        StartError::Spawn(SpawnError::System { .. } | SpawnError::Closed) | StartError::Closed => {
            ""
        }
    };
    format!("The command was not run: {error}.{advice}")
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
