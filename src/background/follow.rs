//! The server's side of a supervised command: starting the supervisor, following it, and taking up with it again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::id::TaskId;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::Tasks;
use super::log::Caps;
use super::output::Output;
use super::pump::at;
use super::record::{self, Record};
use super::runtime::{Runtime, RuntimeEnd};
use super::settle::{End, Remains};
use super::spec::{ProcessSpec, StartError};
use super::supervisor::Supervision;
use super::table::{Handle, Live, StopCause, Taken, Wish};
use crate::kernel::task::{ProcessDetail, TaskDetail, TaskInfo, TaskStatus};
use crate::kernel::time::Timestamp;
use crate::os::process::{Processes, Spared, SpawnError, TASK_MARK};
use crate::os::{blocking, fs};

/// What starts a supervisor: the word after the program's name.
pub const SUPERVISE: &str = "supervise";

/// How long a supervisor may take to start its command.
const START_WAIT: Duration = Duration::from_secs(10);

/// How often it is looked at while it starts.
const START_LOOK: Duration = Duration::from_millis(3);

/// How often what it says is read.
const LOOK: Duration = Duration::from_secs(1);

/// How long it may take beyond the grace to end after it was asked to.
const AFTER_GRACE: Duration = Duration::from_secs(2);

impl Tasks {
    /// Starts a command that goes on when this process ends.
    pub(super) async fn start_supervised(
        &self,
        program: PathBuf,
        id: TaskId,
        spec: ProcessSpec,
        slots: Taken,
    ) -> Result<TaskInfo, StartError> {
        let parts = &self.inner.parts;
        let command = spec.command.clone().mark(id.as_str());
        let work = Supervision {
            dir: parts.dir.clone(),
            task_id: id.to_string(),
            grace: parts.limits.grace,
            log_max_bytes: parts.limits.log_max_bytes,
            time_limit: spec.time_limit,
            command: command.line(),
        };
        let task_dir = record::task_dir(&parts.dir, &id);
        let made = task_dir.clone();
        blocking::run(move || fs::create_private_dirs(&made))
            .await
            .map_err(|error| SpawnError::System {
                source: std::io::Error::new(error.kind(), error.to_string()),
            })?;
        let args = std::iter::once(OsString::from(SUPERVISE)).chain(work.args());
        let supervisor = command.replaced_by(program, args);
        let spared = parts.processes.spawn_spared(supervisor).await?;
        let runtime = match first_word(&spared, &task_dir).await {
            Ok(runtime) => runtime,
            Err(error) => {
                parts.processes.give_up_sparing(&spared);
                return Err(error.into());
            }
        };
        let detail = ProcessDetail {
            command: spec.command_line.clone(),
            cwd: spec.cwd.clone(),
            pid: Some(runtime.pid),
            pgid: Some(runtime.pid),
            start_ticks: runtime.start_ticks,
            keep_alive: true,
            ..ProcessDetail::default()
        };
        let mut info = self.new_info(&id, &spec, true);
        info.detail = TaskDetail::Process(detail);
        let follower = self.register_supervised(info.clone(), spared, &runtime, slots);
        self.carry(&info, follower.run()).await;
        Ok(info)
    }

    fn register_supervised(
        &self,
        info: TaskInfo,
        spared: Spared,
        runtime: &Runtime,
        slots: Taken,
    ) -> Follower {
        let parts = &self.inner.parts;
        let path = record::log_path(&parts.dir, &info.id);
        let output = Output::followed(&path, Caps::of(parts.limits.log_max_bytes));
        output.grown_to(runtime.output_size_bytes);
        let spared = Arc::new(spared);
        let live = Live::new(Handle::Supervised(spared.clone()), Some(slots));
        let wish = live.wish.subscribe();
        let id = info.id.clone();
        let record = self.record_of(info, id.clone());
        self.table().add(record, output.clone(), Some(live));
        Follower {
            tasks: self.clone(),
            task_dir: record::task_dir(&parts.dir, &id),
            id,
            spared,
            output,
            wish,
        }
    }

    /// Takes up with the supervisor of a recorded task, where it is still there. Returns whether it is.
    pub(super) async fn readopt(&self, record: &Record) -> bool {
        let parts = &self.inner.parts;
        let task_dir = record::task_dir(&parts.dir, &record.info.id);
        let (processes, now) = (parts.processes.clone(), parts.clock.now());
        let id = record.info.id.clone();
        let found = blocking::run(move || alive(&task_dir, &id, &processes, now)).await;
        let Some((spared, runtime)) = found else {
            return false;
        };
        let slots = self.take_slots_anyway();
        let follower = self.register_supervised(record.info.clone(), spared, &runtime, slots);
        if let Some(live) = self
            .table()
            .entries
            .get_mut(&record.info.id)
            .and_then(|entry| entry.live.as_mut())
        {
            // By the server that started it.
            live.is_told = true;
        }
        parts.tracker.spawn(follower.run());
        true
    }

    /// How a recorded task ended whose supervisor saw it to its end.
    pub(super) async fn end_left(&self, record: &Record) -> Option<End> {
        let parts = &self.inner.parts;
        let task_dir = record::task_dir(&parts.dir, &record.info.id);
        let runtime = blocking::run(move || Runtime::read(&task_dir)).await?;
        let end = runtime.end.as_ref()?;
        let output = Output::followed(
            &record::log_path(&parts.dir, &record.info.id),
            Caps::of(parts.limits.log_max_bytes),
        );
        finish(&output, &runtime);
        self.table().entries.get_mut(&record.info.id)?.output = output;
        Some(end_of(end, None))
    }
}

/// Spares the supervisors of the tasks in a session's directory, before what bears the session's mark is ended.
/// Blocking; inside a runtime.
pub fn spare_supervised(dir: &Path, processes: &Processes, now: Timestamp) {
    for record in kept(dir) {
        let task_dir = record::task_dir(dir, &record.info.id);
        // Held only to look at it: from then on it is spared.
        drop(alive(&task_dir, &record.info.id, processes, now));
    }
}

/// Ends the supervised tasks in a session's directory, which is going to be removed.
pub async fn end_supervised(dir: PathBuf, processes: &Processes, now: Timestamp, grace: Duration) {
    let (look, in_dir) = (processes.clone(), dir.clone());
    let found = blocking::run(move || {
        let tasks = kept(&in_dir).into_iter();
        let supervisors = tasks.filter_map(|record| {
            let task_dir = record::task_dir(&in_dir, &record.info.id);
            let (spared, _) = alive(&task_dir, &record.info.id, &look, now)?;
            Some((record.info.id, spared))
        });
        supervisors.collect::<Vec<_>>()
    })
    .await;
    let ending = found.iter().map(|(id, spared)| async move {
        spared.terminate();
        if timeout(grace + AFTER_GRACE, spared.exited()).await.is_err() {
            processes.give_up_sparing(spared);
            processes
                .end_marked(TASK_MARK, id.as_str(), Duration::ZERO)
                .await;
        }
    });
    futures::future::join_all(ending).await;
}

fn kept(dir: &Path) -> Vec<Record> {
    let mut records = record::load_all(dir);
    records.retain(|record| {
        let is_kept = record
            .info
            .process()
            .is_some_and(|detail| detail.keep_alive);
        is_kept && !record.info.status.is_terminal()
    });
    records
}

/// The supervisor of a task, where it lives and says so.
fn alive(
    task_dir: &Path,
    id: &TaskId,
    processes: &Processes,
    now: Timestamp,
) -> Option<(Spared, Runtime)> {
    let runtime = Runtime::read(task_dir)?;
    if runtime.end.is_some() || !runtime.is_fresh(now) {
        return None;
    }
    let (pid, start) = (runtime.supervisor_pid, runtime.supervisor_start_ticks);
    let spared = processes.adopt_spared(pid, start, id.as_str())?;
    Some((spared, runtime))
}

/// Waits until a supervisor has started its command.
async fn first_word(spared: &Spared, task_dir: &Path) -> Result<Runtime, SpawnError> {
    let failed = |text: String| SpawnError::System {
        source: std::io::Error::other(text),
    };
    let until = Instant::now() + START_WAIT;
    loop {
        let has_ended = spared.has_exited();
        let dir = task_dir.to_owned();
        match blocking::run(move || Runtime::read(&dir)).await {
            Some(Runtime {
                not_started: Some(reason),
                ..
            }) => return Err(failed(reason)),
            Some(runtime) => return Ok(runtime),
            None if has_ended => return Err(failed("its supervisor did not start".to_owned())),
            None if Instant::now() > until => {
                spared.terminate();
                return Err(failed("its supervisor did not start in time".to_owned()));
            }
            None => {
                // Either way it is looked at again.
                drop(timeout(START_LOOK, spared.exited()).await);
            }
        }
    }
}

/// Follows one supervisor.
struct Follower {
    tasks: Tasks,
    id: TaskId,
    task_dir: PathBuf,
    spared: Arc<Spared>,
    output: Arc<Output>,
    wish: watch::Receiver<Wish>,
}

impl Follower {
    async fn run(mut self) {
        let closing = self.tasks.inner.closing.clone();
        let mut look = tokio::time::interval(LOOK);
        let mut give_up: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                () = self.spared.exited() => break,
                // The session goes, the command stays.
                () = closing.cancelled() => return,
                Ok(()) = self.wish.changed(), if give_up.is_none() => {
                    if self.wish.borrow_and_update().stop {
                        let wait = self.tasks.inner.parts.limits.grace + AFTER_GRACE;
                        give_up = Some(Instant::now() + wait);
                    }
                }
                () = at(give_up) => {
                    give_up = None;
                    self.end_by_force().await;
                }
                _ = look.tick() => self.look().await,
            }
        }
        let dir = self.task_dir.clone();
        let runtime = blocking::run(move || Runtime::read(&dir)).await;
        let cause = self.tasks.stop_cause(&self.id);
        let end = match &runtime {
            Some(runtime) => {
                finish(&self.output, runtime);
                runtime.end.as_ref().map(|end| end_of(end, cause))
            }
            None => None,
        };
        let end = if let Some(end) = end {
            end
        } else {
            self.end_by_force().await;
            let was_asked = cause.is_some();
            let status = if was_asked {
                TaskStatus::Killed
            } else {
                TaskStatus::Lost
            };
            End {
                status: Some(status),
                reason: (!was_asked).then(|| "its supervisor ended without a word".to_owned()),
                ..End::default()
            }
        };
        self.tasks.settle(&self.id, end, Remains::Record).await;
    }

    async fn look(&self) {
        let dir = self.task_dir.clone();
        let Some(runtime) = blocking::run(move || Runtime::read(&dir)).await else {
            return;
        };
        if runtime.output_size_bytes > self.output.total_bytes() {
            self.output.grown_to(runtime.output_size_bytes);
            let told = {
                let table = self.tasks.table();
                let entry = table.entries.get(&self.id);
                entry.map(super::table::Entry::describe)
            };
            if let Some(info) = told {
                self.tasks.inner.parts.sink.updated(&info);
            }
        }
    }

    /// Ends the command without its supervisor.
    async fn end_by_force(&self) {
        let processes = &self.tasks.inner.parts.processes;
        processes.give_up_sparing(&self.spared);
        processes
            .end_marked(TASK_MARK, self.id.as_str(), Duration::ZERO)
            .await;
    }
}

/// Takes over what a supervisor says of the output of a command that has ended.
fn finish(output: &Output, runtime: &Runtime) {
    output.grown_to(runtime.output_size_bytes);
    if let Some(problem) = &runtime.log_incomplete {
        output.log_failed(problem.clone());
    }
    output.log_finished(None);
}

fn end_of(end: &RuntimeEnd, cause: Option<StopCause>) -> End {
    let status = match (end.stopped, cause) {
        (true, None) if end.timed_out => TaskStatus::TimedOut,
        (true, _) => TaskStatus::Killed,
        (false, _) if end.exit_code == Some(0) => TaskStatus::Completed,
        (false, _) => TaskStatus::Failed,
    };
    End {
        status: Some(status),
        reason: None,
        exit_code: end.exit_code,
        signal: end.signal.clone(),
    }
}
