//! The supervisor: a process of this program that carries one command and outlives the server.
//!
//! It begins a session of its own, starts the command, writes its output to the task's log and what becomes of it to
//! `runtime.json`, at once, whenever output grew (once a second) and every five seconds. SIGTERM asks it to stop the
//! command; it ends when nothing of the command is left. The server follows it (`follow.rs`) and takes up with it again
//! after a restart.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::log::Caps;
use super::output::Output;
use super::pump::{Happening, at, next};
use super::record;
use super::runtime::{Runtime, RuntimeEnd};
use super::spill::Spill;
use crate::os::blocking;
use crate::os::clock::Clock;
use crate::os::env::Env;
use crate::os::process::{Command, Processes, Running, Status, Survivors, own_start_ticks};
use crate::os::signal::StopSignals;

/// How often a supervisor says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How often it says that output grew.
const GROWTH: Duration = Duration::from_secs(1);

/// What a supervisor is told on its command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supervision {
    /// The session's `tasks` directory.
    pub dir: PathBuf,
    /// The task.
    pub task_id: String,
    /// Between TERM and KILL.
    pub grace: Duration,
    /// Of the log.
    pub log_max_bytes: u64,
    /// How long the command may run.
    pub time_limit: Option<Duration>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

impl Supervision {
    /// As a command line, for [`Self::parse`].
    pub(super) fn args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec![
            self.dir.clone().into(),
            self.task_id.clone().into(),
            self.grace.as_millis().to_string().into(),
            self.log_max_bytes.to_string().into(),
            match self.time_limit {
                Some(limit) => limit.as_millis().to_string().into(),
                None => "-".into(),
            },
        ];
        args.extend(self.command.iter().cloned());
        args
    }

    /// Reads a command line. `None` where it is not one of ours.
    pub fn parse(args: &[OsString]) -> Option<Self> {
        let [
            dir,
            task_id,
            grace_ms,
            log_max_bytes,
            limit_ms,
            command @ ..,
        ] = args
        else {
            return None;
        };
        let task_id = task_id.to_str()?.to_owned();
        if !super::is_task_id(&task_id) || command.is_empty() {
            return None;
        }
        let number = |text: &OsString| text.to_str()?.parse::<u64>().ok();
        let time_limit = match limit_ms.to_str()? {
            "-" => None,
            _ => Some(Duration::from_millis(number(limit_ms)?)),
        };
        Some(Self {
            dir: dir.into(),
            task_id,
            grace: Duration::from_millis(number(grace_ms)?),
            log_max_bytes: number(log_max_bytes)?,
            time_limit,
            command: command.to_vec(),
        })
    }
}

/// Carries a command to its end, in the directory and with the environment of this process.
pub async fn supervise(
    work: Supervision,
    env: &Env,
    processes: Processes,
    clock: Arc<dyn Clock>,
    mut signals: StopSignals,
) {
    let task = work.task_id.as_str().into();
    let task_dir = record::task_dir(&work.dir, &task);
    let mut runtime = Runtime {
        supervisor_pid: std::process::id(),
        supervisor_start_ticks: own_start_ticks().unwrap_or_default(),
        not_started: None,
        pid: 0,
        start_ticks: None,
        heartbeat_at_ms: clock.now().0,
        output_size_bytes: 0,
        log_incomplete: None,
        end: None,
    };
    let cwd = env.start_dir().unwrap_or(&work.dir).to_owned();
    let Some((program, args)) = work.command.split_first() else {
        return;
    };
    let vars = env
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let command = Command::new(PathBuf::from(program), cwd)
        .args(args.iter().cloned())
        .env(vars)
        .mark(work.task_id.as_str())
        .survivors(Survivors::Keep)
        .drop_grace(work.grace);
    let running = match processes.spawn(command).await {
        Ok(running) => running,
        Err(error) => {
            runtime.not_started = Some(error.to_string());
            write(&runtime, &task_dir).await;
            return;
        }
    };
    runtime.pid = running.pid();
    runtime.start_ticks = running.start_ticks();
    let output = Output::new();
    let log = record::log_path(&work.dir, &task);
    let mut carried = Carried {
        running,
        spill: Spill::new(log, Caps::of(work.log_max_bytes), output.clone()),
        output,
        runtime,
        task_dir,
        clock,
        grow_at: None,
        timed_out: false,
        grace: work.grace,
    };
    carried.tell().await;
    let deadline = work
        .time_limit
        .and_then(|limit| Instant::now().checked_add(limit));
    carried.run(&mut signals, deadline).await;
}

struct Carried {
    running: Running,
    spill: Spill,
    output: Arc<Output>,
    runtime: Runtime,
    task_dir: PathBuf,
    clock: Arc<dyn Clock>,
    grow_at: Option<Instant>,
    timed_out: bool,
    grace: Duration,
}

impl Carried {
    async fn run(mut self, signals: &mut StopSignals, mut deadline: Option<Instant>) {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        let mut is_following = false;
        let exit = loop {
            let (is_writing, has_room) = (self.spill.is_writing(), self.spill.has_room());
            tokio::select! {
                biased;
                _ = signals.recv() => self.running.stop(self.grace),
                () = at(deadline) => {
                    deadline = None;
                    self.timed_out = true;
                    self.running.stop(self.grace);
                }
                _ = heartbeat.tick() => self.tell().await,
                () = at(self.grow_at) => self.tell().await,
                () = self.spill.advance(), if is_writing => {}
                happening = next(&mut self.running), if has_room => match happening {
                    Happening::Wrote(chunk) => {
                        self.spill.push(&chunk.bytes);
                        self.output.push(chunk.stream, &chunk.bytes);
                        self.grow_at.get_or_insert_with(|| Instant::now() + GROWTH);
                    }
                    // What it left running belongs to it: nobody may be there to make a task of it.
                    Happening::Ended(exit) if exit.left_running > 0 && !is_following => {
                        is_following = true;
                        self.running.follow();
                    }
                    Happening::Ended(exit) => break exit,
                },
            }
        };
        self.spill.finish().await;
        self.runtime.end = Some(RuntimeEnd {
            exit_code: match exit.status {
                Status::Code(code) => Some(code),
                Status::Signal(_) | Status::Unknown => None,
            },
            signal: exit.status.signal_name(),
            stopped: exit.stopped,
            timed_out: exit.stopped && self.timed_out,
            ended_at_ms: self.clock.now().0,
        });
        self.tell().await;
    }

    async fn tell(&mut self) {
        self.grow_at = None;
        let told = self.output.describe();
        self.runtime.output_size_bytes = told.size_bytes;
        self.runtime.log_incomplete = told.log_problem;
        self.runtime.heartbeat_at_ms = self.clock.now().0;
        write(&self.runtime, &self.task_dir).await;
    }
}

async fn write(runtime: &Runtime, task_dir: &std::path::Path) {
    let (runtime, task_dir) = (runtime.clone(), task_dir.to_owned());
    let written = blocking::run(move || runtime.write(&task_dir)).await;
    if let Err(error) = written {
        tracing::error!(%error, "the state of a supervised command could not be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let work = Supervision {
            dir: "/s/tasks".into(),
            task_id: "bash-01234567".to_owned(),
            grace: Duration::from_millis(50),
            log_max_bytes: 64,
            time_limit: None,
            command: vec!["/bin/sh".into(), "-c".into(), "--odd".into()],
        };
        assert_eq!(Supervision::parse(&work.args()), Some(work.clone()));
        let limited = Supervision {
            time_limit: Some(Duration::from_secs(1)),
            ..work.clone()
        };
        assert_eq!(Supervision::parse(&limited.args()), Some(limited));
        let bad = Supervision {
            task_id: "../x".to_owned(),
            ..work.clone()
        };
        assert_eq!(Supervision::parse(&bad.args()), None);
        let none = Supervision {
            command: Vec::new(),
            ..work
        };
        assert_eq!(Supervision::parse(&none.args()), None);
    }
}
