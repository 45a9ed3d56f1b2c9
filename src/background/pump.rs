//! What carries a process: from its pipes to the ring, the log and the tap, until it has ended.
//!
//! One loop per process. Every chunk is counted, shown to the tap, kept in the ring and, once there is reason for a log,
//! queued for it; a full queue is the only thing that makes the process wait. The log begins when the task is detached,
//! when the tap cannot show everything, or when the ring would lose something; everything in the ring goes in first, so
//! it is always whole and in order. Stops do not go through here: they reach the process directly, whatever the disk
//! does.

use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::id::TaskId;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::log::Caps;
use super::output::Output;
use super::record;
use super::settle::{End, Remains};
use super::spec::ProcessSpec;
use super::spill::Spill;
use super::table::{StopCause, Wish};
use super::tap::{DetachCause, Released, Tap, Why};
use super::{Tasks, id};
use crate::kernel::task::{TaskDetail, TaskInfo, TaskOutput};
use crate::os::process::{Chunk, Exit, Running};

/// How often the growth of a detached task's output is told.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// How long the end of a task waits for its log. A disk that hangs must not keep a task from ending.
const LOG_WAIT: Duration = Duration::from_secs(5);

/// The same for a log whose call was cancelled.
const LOG_WAIT_STOPPED: Duration = Duration::from_secs(1);

/// What is known of a process beforehand.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    deadline: Option<Instant>,
    detach_at_limit: bool,
    time_limit_detached: Option<Duration>,
    output_kill_bytes: Option<u64>,
    /// Whether what it leaves running becomes a task of its own.
    keep_survivors: bool,
    /// Whether it is what another command left running.
    is_residual: bool,
}

impl Plan {
    /// From now on.
    pub(super) fn of(spec: &ProcessSpec) -> Self {
        Self {
            deadline: spec.time_limit.and_then(from_now),
            detach_at_limit: spec.detach_at_limit,
            time_limit_detached: spec.time_limit_detached,
            output_kill_bytes: spec.output_kill_bytes,
            keep_survivors: spec.keep_survivors,
            is_residual: false,
        }
    }
}

/// See the module.
pub(super) struct Pump {
    tasks: Tasks,
    id: TaskId,
    running: Running,
    output: Arc<Output>,
    plan: Plan,
    tap: Option<Box<dyn Tap>>,
    wish: watch::Receiver<Wish>,
    spill: Option<Spill>,
    is_detached: bool,
    is_flooded: bool,
    /// Set when the growth is to be told.
    update_due: Option<Instant>,
    /// What the log had grown to when it was last counted.
    counted_bytes: u64,
}

/// What the process did next.
pub(super) enum Happening {
    Wrote(Chunk),
    Ended(Exit),
}

impl Pump {
    pub(super) fn new(
        tasks: Tasks,
        running: Running,
        info: TaskInfo,
        output: Arc<Output>,
        plan: Plan,
        tap: Option<Box<dyn Tap>>,
        wish: watch::Receiver<Wish>,
    ) -> Self {
        Self {
            tasks,
            id: info.id,
            running,
            output,
            plan,
            tap,
            wish,
            spill: None,
            is_detached: info.detached,
            is_flooded: false,
            update_due: None,
            counted_bytes: 0,
        }
    }

    /// Carries the process to its end, and then what it left running to its own.
    pub(super) async fn run(mut self) {
        loop {
            let exit = self.carry().await;
            match self.end(exit).await {
                Some(residual) => self = residual,
                None => return,
            }
        }
    }

    async fn carry(&mut self) -> Exit {
        loop {
            let is_writing = self.spill.as_ref().is_some_and(Spill::is_writing);
            let has_room = self.spill.as_ref().is_none_or(Spill::has_room);
            let deadline = self.plan.deadline;
            let flush_due = self.tap.as_ref().and_then(|tap| tap.due());
            tokio::select! {
                // Whatever a process writes must not keep a wish from being noticed.
                biased;
                changed = self.wish.changed() => match changed {
                    Ok(()) => self.on_wish().await,
                    // Its entry is gone, which only happens after the end.
                    Err(_) => self.wish = watch::channel(Wish::default()).1,
                },
                () = at(deadline) => self.on_deadline().await,
                () = at(flush_due) => self.tap.iter_mut().for_each(|tap| tap.flush()),
                () = at(self.update_due) => self.tell_growth(),
                () = advance(&mut self.spill), if is_writing => self.count_log().await,
                happening = next(&mut self.running), if has_room => match happening {
                    Happening::Wrote(chunk) => self.take(&chunk),
                    Happening::Ended(exit) => return exit,
                },
            }
        }
    }

    fn take(&mut self, chunk: &Chunk) {
        if let Some(tap) = &mut self.tap {
            tap.output(chunk);
        }
        let needs_log = self.is_detached
            || self.tap.as_ref().is_some_and(|tap| tap.wants_log())
            || !self.output.has_room(chunk.bytes.len());
        if needs_log && !self.is_flooded {
            self.open_log().push(&chunk.bytes);
        }
        self.output.push(chunk.stream, &chunk.bytes);
        if self.is_detached {
            self.update_due
                .get_or_insert_with(|| Instant::now() + UPDATE_INTERVAL);
        } else if let Some(limit) = self.plan.output_kill_bytes
            && self.output.total_bytes() > limit
            && !self.is_flooded
        {
            self.is_flooded = true;
            if let Some(spill) = &mut self.spill {
                spill.close(format!("the command wrote more than {limit} bytes"));
            }
            let reason = format!("it wrote more than {limit} bytes");
            self.tasks
                .ask_for_end(&self.id, StopCause::Flood, Some(reason));
        }
    }

    /// The log, begun with everything in the ring. Before the first call that is the whole output without the chunk
    /// that is being taken.
    fn open_log(&mut self) -> &mut Spill {
        let parts = &self.tasks.inner.parts;
        let output = &self.output;
        self.spill.get_or_insert_with(|| {
            let path = record::log_path(&parts.dir, &self.id);
            let caps = Caps::of(parts.limits.log_max_bytes);
            let mut spill = Spill::new(path, caps, output.clone());
            // Copied out first: the log says how far it is to the same output.
            if let Some(bytes) = output.with_ring(|ring| ring.bytes().to_vec()) {
                spill.push(&bytes);
            }
            spill
        })
    }

    async fn on_wish(&mut self) {
        let wish = *self.wish.borrow_and_update();
        if wish.stop {
            self.tap.iter_mut().for_each(|tap| tap.stopping());
        }
        if wish.detach && !wish.stop {
            self.detach(DetachCause::Host).await;
        }
        if wish.let_go {
            self.let_go();
        }
    }

    async fn on_deadline(&mut self) {
        self.plan.deadline = None;
        if !self.is_detached && self.plan.detach_at_limit {
            self.detach(DetachCause::TimeLimit).await;
            return;
        }
        self.tap.iter_mut().for_each(|tap| tap.flush());
        self.tasks.ask_for_end(&self.id, StopCause::TimeLimit, None);
    }

    /// Goes on without the call.
    async fn detach(&mut self, cause: DetachCause) {
        if self.is_detached || self.tap.is_none() {
            return;
        }
        let slots = self.tasks.take_slots_anyway();
        let limit = self.plan.time_limit_detached;
        {
            let mut table = self.tasks.table();
            let Some(entry) = table.entries.get_mut(&self.id) else {
                return;
            };
            let Some(live) = entry.live.as_mut().filter(|live| live.stop.is_none()) else {
                return;
            };
            live.slots = Some(slots);
            entry.info.detached = true;
            entry.info.timeout_ms = limit.map(|limit| limit.as_millis() as u64);
        }
        self.is_detached = true;
        self.plan.deadline = limit.and_then(from_now);
        if self.output.total_bytes() > 0 {
            self.open_log();
        }
        if let Some(tap) = &mut self.tap {
            tap.flush();
            self.output.with_ring(|ring| tap.settle(ring));
        }
        self.tasks.write_record(&self.id).await;
        let Some(info) = self.info() else { return };
        self.tasks.tell_start(&info);
        if let Some(live) = self.live_seen() {
            live.send_modify(|seen| seen.detached = true);
        }
        self.release(Why::Detached(cause), info);
    }

    /// The end was asked for, and the call does not wait for it.
    fn let_go(&mut self) {
        if self.is_detached {
            return;
        }
        if let Some(tap) = &mut self.tap {
            let needs_log = self.output.with_ring(|ring| tap.settle(ring));
            if needs_log == Some(true) {
                self.open_log();
            }
        }
        if let Some(info) = self.info() {
            self.release(Why::GivenUp, info);
        }
    }

    /// Settles the task. Gives the pump of what the process left running.
    async fn end(mut self, exit: Exit) -> Option<Self> {
        let cause = self.tasks.stop_cause(&self.id);
        let needs_log = match &mut self.tap {
            Some(tap) => {
                if !exit.stopped {
                    tap.flush();
                }
                let settled = self.output.with_ring(|ring| tap.settle(ring));
                settled == Some(true)
            }
            None => true,
        };
        if needs_log && self.tap.is_some() {
            self.open_log();
        }
        let remains = self.finish_log(needs_log, cause).await;
        let read_error = self
            .running
            .take_read_error()
            .map(|error| error.to_string());
        let residual = if exit.left_running > 0 && self.plan.keep_survivors {
            self.residual_info()
        } else {
            None
        };
        let mut end = if self.plan.is_residual {
            End::of_residual(exit, cause)
        } else {
            End::of_process(exit, cause)
        };
        if end.reason.is_none() {
            end.reason = read_error
                .as_ref()
                .map(|error| format!("its output could not be read to its end: {error}"));
        }
        let before = self.info();
        let Self {
            tasks,
            id,
            mut running,
            tap,
            ..
        } = self;
        let mut next = None;
        // Known before the command's own end is: nothing runs that is in no list.
        if let Some(residual) = residual.clone() {
            running.follow();
            let slots = tasks.take_slots_anyway();
            let plan = Plan {
                deadline: None,
                detach_at_limit: false,
                time_limit_detached: None,
                output_kill_bytes: None,
                keep_survivors: false,
                is_residual: true,
            };
            let (pump, info) = tasks.register(running, residual, plan, None, Some(slots));
            tasks.write_record(&info.id).await;
            tasks.tell_start(&info);
            next = Some(pump);
        }
        let info = tasks.settle(&id, end, remains).await;
        if let (Some(tap), Some(info)) = (tap, info.or(before)) {
            tap.release(Released {
                why: Why::Ended,
                info,
                exit: Some(exit),
                cause,
                residual,
                read_error,
            });
        }
        next
    }

    /// Puts the log in order, or away where the tap has shown everything.
    async fn finish_log(&mut self, needs_log: bool, cause: Option<StopCause>) -> Remains {
        let Some(mut spill) = self.spill.take() else {
            return Remains::Nothing;
        };
        if !needs_log && !self.is_detached {
            spill.discard().await;
            return Remains::Nothing;
        }
        let wait = if cause == Some(StopCause::Asked) && !self.is_detached {
            LOG_WAIT_STOPPED
        } else {
            LOG_WAIT
        };
        if timeout(wait, spill.finish()).await.is_err() {
            spill.abandon();
        }
        self.count_log().await;
        Remains::Record
    }

    /// What the process left running, as a task of its own.
    fn residual_info(&self) -> Option<TaskInfo> {
        let info = self.info()?;
        let parts = &self.tasks.inner.parts;
        let id = {
            let table = self.tasks.table();
            id::fresh(&*parts.ids, info.kind(), |id| {
                table.entries.contains_key(id)
            })
        };
        let mut detail = info.process().cloned().unwrap_or_default();
        detail.pid = None;
        Some(TaskInfo {
            id,
            detail: TaskDetail::Process(detail),
            description: format!("left running by {}", info.id),
            detached: true,
            started_at: parts.clock.now(),
            stop_reason: None,
            timeout_ms: None,
            parent: Some(info.id),
            suppressed: false,
            output: TaskOutput::default(),
            ..info
        })
    }

    /// Lets the tap go while the process runs.
    fn release(&mut self, why: Why, info: TaskInfo) {
        let cause = self.tasks.stop_cause(&self.id);
        if let Some(tap) = self.tap.take() {
            tap.release(Released {
                why,
                info,
                exit: None,
                cause,
                residual: None,
                read_error: None,
            });
        }
    }

    fn tell_growth(&mut self) {
        self.update_due = None;
        if let Some(info) = self.info() {
            self.tasks.inner.parts.sink.updated(&info);
        }
    }

    /// Counts what the log has grown by against what all logs of the session may take.
    async fn count_log(&mut self) {
        let n_bytes = self.output.log_file_bytes();
        let grown = n_bytes.saturating_sub(self.counted_bytes);
        self.counted_bytes = n_bytes;
        if grown > 0 && !self.tasks.has_room_for_logs().await {
            let budget = self.tasks.inner.parts.limits.session_log_budget;
            if let Some(spill) = &mut self.spill {
                spill.close(format!(
                    "the logs of this session have used up their {budget} bytes"
                ));
            }
        }
    }

    fn info(&self) -> Option<TaskInfo> {
        let table = self.tasks.table();
        Some(table.entries.get(&self.id)?.describe())
    }

    fn live_seen(&self) -> Option<watch::Sender<super::table::Seen>> {
        let table = self.tasks.table();
        let live = table.entries.get(&self.id)?.live.as_ref()?;
        Some(live.seen.clone())
    }
}

/// # Cancel safety
/// Nothing is lost when the future is dropped.
pub(super) async fn next(running: &mut Running) -> Happening {
    match running.next_output().await {
        Some(chunk) => Happening::Wrote(chunk),
        None => Happening::Ended(running.exited().await),
    }
}

async fn advance(spill: &mut Option<Spill>) {
    match spill {
        Some(spill) => spill.advance().await,
        None => std::future::pending().await,
    }
}

pub(super) async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// A moment so far away that it cannot be reckoned is never.
fn from_now(limit: Duration) -> Option<Instant> {
    Instant::now().checked_add(limit)
}
