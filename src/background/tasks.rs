//! The task manager of a session.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_protocol::id::{AgentId, TaskId};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::output::{Output, OutputSlice, Window};
use super::pump::{Plan, Pump};
use super::record::{self, Record};
use super::slots::TaskSlots;
use super::spec::{ProcessSpec, StartError, StopOptions, TaskError, TaskLimits, Which, Whose};
use super::table::{Handle, Live, StopCause, Table, Taken, Wish};
use super::tap::{Attached, Tap};
use super::{TaskSink, id};
use crate::kernel::task::{ProcessDetail, TaskDetail, TaskInfo, TaskKind, TaskOutput, TaskStatus};
use crate::os::blocking;
use crate::os::clock::Clock;
use crate::os::fs::Durability;
use crate::os::ids::IdSource;
use crate::os::process::{Origin, Processes, Running, Survivors};

/// Why a task is stopped whose call was dropped.
const ABANDONED: &str = "the call that ran it was abandoned";

/// What a close keeps of its time for the end of processes after KILL, and for their logs.
const CLOSE_MARGIN: Duration = Duration::from_secs(1);

/// The tasks of one session. Cheap to clone.
#[derive(Clone)]
pub struct Tasks {
    pub(super) inner: Arc<Inner>,
}

/// What a task manager is made of.
pub struct TasksParts {
    /// The session's `tasks` directory; made when something is first written.
    pub dir: PathBuf,
    /// Limits and periods.
    pub limits: TaskLimits,
    /// The slots of the whole process.
    pub slots: TaskSlots,
    /// Children.
    pub processes: Processes,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Ids.
    pub ids: Arc<dyn IdSource>,
    /// Told of detached tasks.
    pub sink: Arc<dyn TaskSink>,
    /// Owns what carries the tasks.
    pub tracker: TaskTracker,
    /// Whether records are put on the disk, or only given to the kernel (sessions that are not kept).
    pub durability: Durability,
    /// This program's file, where commands begun in the background are to go on when the server ends: it is started
    /// again as their supervisor. Absent where they end with the session.
    pub supervisor: Option<PathBuf>,
}

pub(super) struct Inner {
    pub(super) parts: TasksParts,
    pub(super) table: Mutex<Table>,
    /// The slots of this session.
    slots: TaskSlots,
    origin: Origin,
    /// Fires when the session is closed.
    pub(super) closing: CancellationToken,
}

impl Tasks {
    /// The manager of a session, with the tasks that are recorded in its directory. Bad records are left out with a
    /// line in the log. Blocking.
    ///
    /// Tasks recorded as running are not looked after yet: see `reconcile`.
    pub fn open(parts: TasksParts) -> Self {
        let mut table = Table::default();
        for record in record::load_all(&parts.dir) {
            let output = Output::recorded(&record.info.output);
            table.add(record, output, None);
        }
        let slots = TaskSlots::new(parts.limits.max_running);
        Self {
            inner: Arc::new(Inner {
                parts,
                table: Mutex::new(table),
                slots,
                origin: Origin::of_process(),
                closing: CancellationToken::new(),
            }),
        }
    }

    /// Starts a command in the background. Its task is recorded, and [`TaskSink::started`] was called, when this
    /// returns.
    ///
    /// # Errors
    /// See [`StartError`]; nothing was begun then.
    ///
    /// # Cancel safety
    /// When the future is dropped, either nothing was begun or the command goes on as a task like any other.
    pub async fn start_process(&self, spec: ProcessSpec) -> Result<TaskInfo, StartError> {
        let slots = self.take_slots()?;
        let id = self.fresh_id(TaskKind::Process);
        if let Some(program) = self.inner.parts.supervisor.clone() {
            let (told, heard) = oneshot::channel();
            let tasks = self.clone();
            self.inner.parts.tracker.spawn(async move {
                let started = tasks.start_supervised(program, id, spec, slots).await;
                // Whoever asked may have gone.
                drop(told.send(started));
            });
            return heard.await.unwrap_or(Err(StartError::Closed));
        }
        let (running, info) = self.spawn(&id, &spec, true).await?;
        let plan = Plan::of(&spec);
        let (pump, info) = self.register(running, info, plan, None, Some(slots));
        self.carry(&info, pump.run()).await;
        Ok(info)
    }

    /// Records a task that has begun, tells of it and then carries it to its end, whether or not whoever started it
    /// still waits. Returns when it was told of.
    pub(super) async fn carry(
        &self,
        info: &TaskInfo,
        carrier: impl Future<Output = ()> + Send + 'static,
    ) {
        let (told, heard) = oneshot::channel();
        let (tasks, info) = (self.clone(), info.clone());
        self.inner.parts.tracker.spawn(async move {
            tasks.write_record(&info.id).await;
            tasks.tell_start(&info);
            // Whoever asked may have gone.
            let _ = told.send(());
            carrier.await;
        });
        // An error means that the runtime is going away.
        drop(heard.await);
    }

    /// Runs a command that somebody waits for, through the tap. No limit refuses it.
    ///
    /// # Errors
    /// See [`StartError`]; nothing was begun then.
    pub async fn run_process(
        &self,
        spec: ProcessSpec,
        tap: Box<dyn Tap>,
    ) -> Result<Attached, StartError> {
        if self.table().is_closed {
            return Err(StartError::Closed);
        }
        let id = self.fresh_id(TaskKind::Process);
        let (running, info) = self.spawn(&id, &spec, false).await?;
        let plan = Plan::of(&spec);
        let (pump, _) = self.register(running, info, plan, Some(tap), None);
        self.inner.parts.tracker.spawn(pump.run());
        Ok(Attached {
            tasks: self.clone(),
            id,
        })
    }

    /// Tasks, the newest first.
    pub fn list(&self, whose: Whose<'_>, which: Which) -> Vec<TaskInfo> {
        self.table().list(whose, which)
    }

    /// How many detached tasks run, or have ended without the sink having heard of it.
    pub fn n_unsettled(&self) -> usize {
        self.table().n_unsettled()
    }

    /// What starts the processes of its tasks.
    pub fn processes(&self) -> &Processes {
        &self.inner.parts.processes
    }

    /// How many detached tasks run.
    pub fn n_running(&self) -> usize {
        self.inner.slots.used()
    }

    /// One task.
    pub fn get(&self, whose: Whose<'_>, id: &TaskId) -> Result<TaskInfo, TaskError> {
        let table = self.table();
        let entry = table.get(whose, id);
        entry
            .map(super::table::Entry::describe)
            .ok_or_else(|| TaskError::NotFound(id.clone()))
    }

    /// Reads a part of a task's output, of at most `max_bytes`.
    pub async fn output(
        &self,
        whose: Whose<'_>,
        id: &TaskId,
        window: Window,
        max_bytes: usize,
    ) -> Result<OutputSlice, TaskError> {
        let output = self.output_of(whose, id)?;
        let slice = output.read(window, max_bytes).await;
        slice.map_err(|error| TaskError::Unreadable {
            id: id.clone(),
            reason: error.to_string(),
        })
    }

    /// Ends a task and waits until it has ended. One that has ended already is returned as it is; a stop under way is
    /// joined, and keeps its first reason.
    ///
    /// # Cancel safety
    /// The stop goes on when the future is dropped.
    pub async fn stop(
        &self,
        whose: Whose<'_>,
        id: &TaskId,
        options: StopOptions,
    ) -> Result<TaskInfo, TaskError> {
        let wait = {
            let mut table = self.table();
            let entry = table
                .entries
                .get_mut(id)
                .filter(|entry| whose.includes(&entry.info.owner))
                .ok_or_else(|| TaskError::NotFound(id.clone()))?;
            let Some(live) = &entry.live else {
                return Ok(entry.describe());
            };
            let seen = live.seen.subscribe();
            entry.info.suppressed |= options.suppress;
            seen
        };
        self.ask_for_end(id, StopCause::Asked, options.reason);
        self.seen_to_end(id, wait).await
    }

    /// Says that a task's end is not to be told to the model, or that it has been.
    pub fn suppress(&self, id: &TaskId) {
        if let Some(entry) = self.table().entries.get_mut(id) {
            entry.info.suppressed = true;
        }
    }

    /// Lets an attached command go on without its call. Returns when it is detached, or with what it has become
    /// meanwhile; one that is detached or has ended already is returned as it is.
    ///
    /// # Cancel safety
    /// It is detached even when the future is dropped.
    pub async fn detach(&self, whose: Whose<'_>, id: &TaskId) -> Result<TaskInfo, TaskError> {
        let mut seen = {
            let table = self.table();
            let entry = table
                .get(whose, id)
                .ok_or_else(|| TaskError::NotFound(id.clone()))?;
            match &entry.live {
                Some(live) if !entry.info.detached && live.stop.is_none() => {
                    live.wish.send_modify(|wish| wish.detach = true);
                    live.seen.subscribe()
                }
                _ => return Ok(entry.describe()),
            }
        };
        loop {
            let now = seen.borrow_and_update().clone();
            if let Some(info) = now.ended {
                return Ok(TaskInfo::clone(&info));
            }
            if now.detached {
                return self.get(whose, id);
            }
            if seen.changed().await.is_err() {
                return self.get(whose, id);
            }
        }
    }

    /// Gives the tasks of an agent that has ended to another. Returns those that still run.
    pub fn hand_over(&self, from: &AgentId, to: &AgentId) -> Vec<TaskInfo> {
        let (mut running, mut told) = (Vec::new(), Vec::new());
        for entry in self.table().entries.values_mut() {
            if entry.info.owner == *from {
                entry.info.owner = to.clone();
                if let Some(live) = &entry.live {
                    let info = entry.describe();
                    told.extend(live.is_told.then(|| info.clone()));
                    running.push(info);
                }
            }
        }
        for info in &told {
            self.inner.parts.sink.updated(info);
        }
        running
    }

    /// Tells that a task runs detached.
    pub(super) fn tell_start(&self, info: &TaskInfo) {
        self.inner.parts.sink.started(info);
        if let Some(live) = self
            .table()
            .entries
            .get_mut(&info.id)
            .and_then(|entry| entry.live.as_mut())
        {
            live.is_told = true;
        }
    }

    /// Starts no more tasks and ends all that run, side by side, without telling the model; those that outlive the
    /// server go on. Returns when all have ended and their records are written, or when `within` is over; the rest goes
    /// on to its end then.
    pub async fn close(&self, reason: &str, within: Duration) {
        let running: Vec<_> = {
            let mut table = self.table();
            table.is_closed = true;
            self.inner.closing.cancel();
            let entries = table.entries.iter_mut();
            entries
                .filter_map(|(id, entry)| {
                    let live = entry.live.as_ref()?;
                    if matches!(live.handle, Handle::Supervised(_)) {
                        return None;
                    }
                    entry.info.suppressed = true;
                    Some((id.clone(), live.seen.subscribe()))
                })
                .collect()
        };
        let grace = self.inner.parts.limits.grace;
        let grace = grace.min(within.saturating_sub(CLOSE_MARGIN));
        for (id, _) in &running {
            self.ask_for_end_within(id, StopCause::Asked, Some(reason.to_owned()), grace);
        }
        let all_ended = running.into_iter().map(|(id, seen)| async move {
            // Whoever is gone has ended.
            drop(self.seen_to_end(&id, seen).await);
        });
        let all_ended = futures::future::join_all(all_ended);
        if tokio::time::timeout(within, all_ended).await.is_err() {
            tracing::warn!(?within, "not every task of a session ended in time");
        }
    }

    pub(super) fn ask_to_stop(&self, id: &TaskId, reason: &str) {
        self.ask_for_end(id, StopCause::Asked, Some(reason.to_owned()));
    }

    pub(super) fn let_go(&self, id: &TaskId) {
        self.wish(id, |wish| wish.let_go = true);
    }

    /// The call of an attached task is gone: nobody will look at what it does.
    pub(super) fn abandon(&self, id: &TaskId) {
        let is_attached = {
            let table = self.table();
            let entry = table.entries.get(id);
            entry.is_some_and(|entry| entry.live.is_some() && !entry.info.detached)
        };
        if is_attached {
            self.ask_for_end(id, StopCause::Asked, Some(ABANDONED.to_owned()));
            self.let_go(id);
        }
    }

    fn wish(&self, id: &TaskId, change: impl FnOnce(&mut Wish)) {
        if let Some(live) = self
            .table()
            .entries
            .get(id)
            .and_then(|entry| entry.live.as_ref())
        {
            live.wish.send_modify(change);
        }
    }

    /// Asks for the end of a running task. The first cause and reason stay.
    pub(super) fn ask_for_end(&self, id: &TaskId, cause: StopCause, reason: Option<String>) {
        let grace = self.inner.parts.limits.grace;
        self.ask_for_end_within(id, cause, reason, grace);
    }

    fn ask_for_end_within(
        &self,
        id: &TaskId,
        cause: StopCause,
        reason: Option<String>,
        grace: Duration,
    ) {
        let reason = reason
            .map(|reason| reason.trim().to_owned())
            .filter(|reason| !reason.is_empty());
        let (handle, told) = {
            let mut table = self.table();
            let Some(entry) = table.entries.get_mut(id) else {
                return;
            };
            let Some(live) = &mut entry.live else { return };
            let is_first = live.stop.is_none();
            if is_first {
                live.stop = Some(cause);
                entry.info.stop_reason = reason;
            }
            live.wish.send_modify(|wish| wish.stop = true);
            let handle = live.handle.clone();
            let is_told = is_first && live.is_told;
            let told = is_told.then(|| entry.describe());
            (handle, told)
        };
        match handle {
            Handle::Process(stopper) => stopper.stop(grace),
            Handle::Worker(cancel) => cancel.cancel(),
            Handle::Supervised(spared) => spared.terminate(),
            Handle::Nothing => {}
        }
        if let Some(info) = told {
            self.inner.parts.sink.updated(&info);
        }
    }

    /// Why a running task is being stopped.
    pub(super) fn stop_cause(&self, id: &TaskId) -> Option<StopCause> {
        let table = self.table();
        table.entries.get(id)?.live.as_ref()?.stop
    }

    /// The slots of a detached task.
    pub(super) fn take_slots(&self) -> Result<Taken, StartError> {
        if self.table().is_closed {
            return Err(StartError::Closed);
        }
        let (session, process) = (&self.inner.slots, &self.inner.parts.slots);
        let refused = |slots: &TaskSlots| StartError::LimitExceeded {
            running: slots.used(),
            max: slots.max(),
        };
        Ok(Taken {
            _session: session.take().ok_or_else(|| refused(session))?,
            _process: process.take().ok_or_else(|| refused(process))?,
        })
    }

    /// The slots of a task that is detached while it runs.
    pub(super) fn take_slots_anyway(&self) -> Taken {
        Taken {
            _session: self.inner.slots.take_anyway(),
            _process: self.inner.parts.slots.take_anyway(),
        }
    }

    pub(super) fn fresh_id(&self, kind: TaskKind) -> TaskId {
        let table = self.table();
        id::fresh(&*self.inner.parts.ids, kind, |id| {
            table.entries.contains_key(id)
        })
    }

    /// Starts the process of a task. The future may be dropped at any point.
    async fn spawn(
        &self,
        id: &TaskId,
        spec: &ProcessSpec,
        detached: bool,
    ) -> Result<(Running, TaskInfo), StartError> {
        let survivors = if spec.keep_survivors {
            Survivors::Keep
        } else {
            Survivors::End
        };
        let parts = &self.inner.parts;
        let command = spec.command.clone();
        let command = command
            .mark(id.as_str())
            .survivors(survivors)
            .drop_grace(parts.limits.grace);
        let running = parts.processes.spawn(command).await?;
        let pid = running.pid();
        let mut info = self.new_info(id, spec, detached);
        if let TaskDetail::Process(detail) = &mut info.detail {
            detail.pid = Some(pid);
            detail.pgid = Some(pid);
            detail.start_ticks = running.start_ticks();
        }
        Ok((running, info))
    }

    /// A command's task that begins.
    pub(super) fn new_info(&self, id: &TaskId, spec: &ProcessSpec, detached: bool) -> TaskInfo {
        let detail = ProcessDetail {
            command: spec.command_line.clone(),
            cwd: spec.cwd.clone(),
            ..ProcessDetail::default()
        };
        TaskInfo {
            id: id.clone(),
            detail: TaskDetail::Process(detail),
            description: spec.description.clone(),
            owner: spec.owner.clone(),
            status: TaskStatus::Running,
            detached,
            started_at: self.inner.parts.clock.now(),
            ended_at: None,
            stop_reason: None,
            timeout_ms: spec.time_limit.map(|limit| limit.as_millis() as u64),
            parent: None,
            suppressed: false,
            output: TaskOutput::default(),
        }
    }

    /// Makes a started process known, with the pump that carries it.
    pub(super) fn register(
        &self,
        running: Running,
        info: TaskInfo,
        plan: Plan,
        tap: Option<Box<dyn Tap>>,
        slots: Option<Taken>,
    ) -> (Pump, TaskInfo) {
        let output = Output::new();
        let live = Live::new(Handle::Process(running.stopper()), slots);
        let wish = live.wish.subscribe();
        let mark = info.parent.clone().unwrap_or_else(|| info.id.clone());
        let is_closed = {
            let mut table = self.table();
            table.add(
                self.record_of(info.clone(), mark),
                output.clone(),
                Some(live),
            );
            table.is_closed
        };
        if is_closed {
            // Everything was ended while this one started.
            let reason = StartError::Closed.to_string();
            self.ask_for_end(&info.id, StopCause::Asked, Some(reason));
        }
        let pump = Pump::new(self.clone(), running, info.clone(), output, plan, tap, wish);
        (pump, info)
    }

    pub(super) fn record_of(&self, info: TaskInfo, mark: TaskId) -> Record {
        Record {
            info,
            mark,
            origin: self.inner.origin.clone(),
        }
    }

    /// Writes the record of a task as it is now. A disk that refuses is told in the log; the task goes on.
    pub(super) async fn write_record(&self, id: &TaskId) {
        let record = {
            let table = self.table();
            let Some(entry) = table.entries.get(id) else {
                return;
            };
            entry.record()
        };
        self.save(record).await;
    }

    pub(super) async fn save(&self, record: Record) {
        let parts = &self.inner.parts;
        let (dir, durability) = (parts.dir.clone(), parts.durability);
        let id = record.info.id.clone();
        let written = blocking::run(move || record.write(&dir, durability)).await;
        if let Err(error) = written {
            tracing::error!(task = %id, %error, "the record of a task could not be written");
        }
    }

    pub(super) fn output_of(
        &self,
        whose: Whose<'_>,
        id: &TaskId,
    ) -> Result<Arc<Output>, TaskError> {
        let table = self.table();
        let entry = table.get(whose, id);
        entry
            .map(|entry| entry.output.clone())
            .ok_or_else(|| TaskError::NotFound(id.clone()))
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.inner
            .table
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("dir", &self.inner.parts.dir)
            .field("running", &self.n_running())
            .finish_non_exhaustive()
    }
}
