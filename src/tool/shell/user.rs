//! The user's own commands: run as they are, shown by stream, and let go into the background when they take long.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use longshore_protocol::id::{AgentId, SessionId};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Shell;
use super::capture::{Capture, Captured, Shown};
use super::environment::SESSION_ID;
use super::live::Live;
use crate::background::{ProcessSpec, Released, Ring, StopCause, Tap, Tasks, Why};
use crate::kernel::limits::{COMMAND_RING_BYTES, PROCESS_GRACE_IN_CALL, USER_COMMAND_TIMEOUT};
use crate::kernel::task::TaskInfo;
use crate::os::process::{Chunk, Command, Stream};
use crate::tool::Progress;

/// Why a command is stopped that the user took back.
const INTERRUPTED: &str = "interrupted by user";

/// A command of the user's own.
#[derive(Debug)]
pub struct UserCommand {
    /// The session.
    pub session: SessionId,
    /// The agent that is told of it.
    pub agent: AgentId,
    /// The command line.
    pub command: String,
    /// Absolute.
    pub cwd: PathBuf,
}

/// What came of it.
#[derive(Debug)]
pub struct UserEnd {
    /// Its standard output, shortened where it is long.
    pub stdout: String,
    /// Its standard error, likewise; where there was no output at all, why it failed.
    pub stderr: String,
    /// Whether these are not everything.
    pub truncated: bool,
    /// How it ended.
    pub outcome: UserOutcome,
}

/// How a command of the user ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserOutcome {
    /// It exited, or a signal ended it.
    Ended {
        /// Its exit code.
        code: Option<i32>,
        /// The name of the signal.
        signal: Option<String>,
    },
    /// It goes on in the background.
    Detached(Box<TaskInfo>),
    /// It was not started, or nobody knows how it ended.
    Failed,
}

impl UserOutcome {
    /// Whether it went wrong.
    pub fn is_error(&self) -> bool {
        match self {
            Self::Ended { code, .. } => *code != Some(0),
            Self::Detached(_) => false,
            Self::Failed => true,
        }
    }
}

impl Shell {
    /// Runs a command of the user to its end, or until it is let go. Output is shown through `progress`; `begun` is
    /// called once it runs.
    pub async fn run_for_user(
        &self,
        tasks: &Tasks,
        command: UserCommand,
        progress: Arc<dyn Progress>,
        cancel: CancellationToken,
        begun: impl FnOnce(),
    ) -> UserEnd {
        let (done, mut seen) = oneshot::channel();
        let tap = UserTap {
            stdout: Side::new(),
            stderr: Side::new(),
            live: Live::new(progress, cancel.clone()),
            done,
        };
        let path = self.path_of_commands(tasks.processes()).await;
        let spec = self.user_spec(command, path);
        let attached = match tasks.run_process(spec, Box::new(tap)).await {
            Ok(attached) => attached,
            Err(error) => return UserEnd::failed(format!("The command was not run: {error}.")),
        };
        begun();
        let mut give_up: Option<Instant> = None;
        let mut was_cancelled = false;
        let seen = loop {
            tokio::select! {
                biased;
                seen = &mut seen => break seen,
                () = cancel.cancelled(), if !was_cancelled => {
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
            Ok(seen) => seen.into_end(),
            // Only while the runtime is going away.
            Err(_) => UserEnd::failed("The command was abandoned; its output is lost.".to_owned()),
        }
    }

    fn user_spec(&self, command: UserCommand, path: Option<&OsString>) -> ProcessSpec {
        // What looks like an option to the shell is none.
        let guard = command.command.starts_with(['-', '+']).then_some("--");
        let process = Command::new(&self.program, &command.cwd)
            .arg("-c")
            .args(guard)
            .arg(&command.command)
            .env(self.env.iter().cloned())
            .env(path.map(|path| ("PATH", path)))
            .env([(SESSION_ID, command.session.as_str())]);
        ProcessSpec {
            command: process,
            command_line: command.command,
            cwd: command.cwd,
            description: "a command of the user".to_owned(),
            owner: command.agent,
            time_limit: Some(USER_COMMAND_TIMEOUT),
            detach_at_limit: self.auto_background,
            time_limit_detached: self.background_timeout,
            output_kill_bytes: self.output_kill_bytes,
            keep_survivors: !self.kill_survivors,
        }
    }
}

impl UserEnd {
    fn failed(why: String) -> Self {
        Self {
            stdout: String::new(),
            stderr: why,
            truncated: false,
            outcome: UserOutcome::Failed,
        }
    }
}

/// Takes the output by stream.
struct UserTap {
    stdout: Side,
    stderr: Side,
    live: Live,
    done: oneshot::Sender<UserSeen>,
}

/// One stream.
struct Side {
    capture: Option<Capture>,
    /// The latest of this stream alone.
    ring: Ring,
    captured: Captured,
}

/// What a command wrote, and what has become of it.
#[derive(Debug)]
struct UserSeen {
    stdout: Captured,
    stderr: Captured,
    released: Released,
}

impl Side {
    fn new() -> Self {
        Self {
            capture: Some(Capture::new()),
            ring: Ring::new(COMMAND_RING_BYTES),
            captured: Captured {
                is_whole: true,
                ..Captured::default()
            },
        }
    }

    fn wants_log(&self) -> bool {
        self.capture.as_ref().is_some_and(Capture::wants_log)
    }
}

impl UserTap {
    fn side(&mut self, stream: Stream) -> &mut Side {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

impl Tap for UserTap {
    fn output(&mut self, chunk: &Chunk) {
        let side = self.side(chunk.stream);
        let mut is_binary = false;
        if let Some(capture) = &mut side.capture {
            capture.push(chunk);
            is_binary = capture.is_binary();
        }
        side.ring.push(chunk.stream, &chunk.bytes);
        if is_binary {
            self.live.size_only();
        }
        self.live.push(chunk.stream, &chunk.bytes);
    }

    fn wants_log(&self) -> bool {
        self.stdout.wants_log() || self.stderr.wants_log()
    }

    fn due(&self) -> Option<Instant> {
        self.live.due()
    }

    fn flush(&mut self) {
        self.live.flush();
    }

    fn stopping(&mut self) {
        self.live.stop();
    }

    fn settle(&mut self, _: &mut Ring) -> bool {
        self.live.finish();
        for side in [&mut self.stdout, &mut self.stderr] {
            if let Some(capture) = side.capture.take() {
                side.captured = capture.finish(&mut side.ring);
            }
        }
        !(self.stdout.captured.is_whole && self.stderr.captured.is_whole)
    }

    fn release(self: Box<Self>, released: Released) {
        let seen = UserSeen {
            stdout: self.stdout.captured,
            stderr: self.stderr.captured,
            released,
        };
        // Whoever waited may be gone.
        let _ = self.done.send(seen);
    }
}

impl UserSeen {
    fn into_end(self) -> UserEnd {
        let Self {
            stdout,
            stderr,
            released,
        } = self;
        let truncated = !(stdout.is_whole && stderr.is_whole);
        let (stdout, mut stderr) = (shown(stdout), shown(stderr));
        let Released {
            why,
            info,
            exit: _,
            cause,
            read_error,
            ..
        } = released;
        let process = info.process();
        let outcome = match why {
            Why::Detached(_) => UserOutcome::Detached(Box::new(info.clone())),
            Why::Ended | Why::GivenUp => UserOutcome::Ended {
                code: process.and_then(|process| process.exit_code),
                signal: process.and_then(|process| process.signal.clone()),
            },
        };
        let reason = match (&outcome, cause, read_error) {
            (UserOutcome::Detached(_), _, _) => None,
            (_, _, Some(error)) => {
                Some(format!("The output could not be read to its end: {error}."))
            }
            (_, Some(StopCause::Asked), _) => Some(format!("The command was {INTERRUPTED}.")),
            (_, Some(StopCause::Flood), _) => {
                Some("The command was ended because it wrote too much.".to_owned())
            }
            (_, Some(StopCause::TimeLimit), _) => {
                Some("The command was ended after its time limit.".to_owned())
            }
            (
                UserOutcome::Ended {
                    signal: Some(signal),
                    ..
                },
                None,
                None,
            ) => Some(format!("The command was ended by {signal}.")),
            (
                UserOutcome::Ended {
                    code: Some(code), ..
                },
                None,
                None,
            ) if *code != 0 && stdout.is_empty() && stderr.is_empty() => {
                Some(format!("The command failed with exit code {code}."))
            }
            _ => None,
        };
        if let Some(reason) = reason {
            if !stderr.is_empty() && !stderr.ends_with('\n') {
                stderr.push('\n');
            }
            stderr.push_str(&reason);
        }
        UserEnd {
            stdout,
            stderr,
            truncated,
            outcome,
        }
    }
}

fn shown(captured: Captured) -> String {
    match captured.shown {
        Shown::Text(text) => text,
        Shown::Binary => "(binary output)".to_owned(),
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
