//! Tasks that are not processes: child agents and questions.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::id::{AgentId, TaskId};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Tasks;
use super::log::Caps;
use super::output::Output;
use super::record;
use super::settle::{End, Remains};
use super::spec::StartError;
use super::spill::Spill;
use super::table::{Handle, Live, StopCause};
use crate::kernel::task::{TaskDetail, TaskInfo, TaskKind, TaskOutput, TaskStatus};
use crate::os::process::Stream;

/// A piece of work to run as a task.
#[derive(Debug, Clone)]
pub struct WorkerSpec {
    /// What it is: not a process.
    pub detail: TaskDetail,
    /// What it is for.
    pub description: String,
    /// The agent it belongs to.
    pub owner: AgentId,
    /// How long it may run; `None` is without limit.
    pub time_limit: Option<Duration>,
}

/// What a piece of work is given.
#[derive(Debug, Clone)]
pub struct WorkerCx {
    /// Its task.
    pub id: TaskId,
    /// Fires when its end is asked for. It has the session's grace to end by itself; then it is dropped.
    pub cancel: CancellationToken,
    output: Arc<Output>,
}

impl WorkerCx {
    /// Shows progress in the task's output, as long as it runs. The result replaces it.
    pub fn show(&self, text: &str) {
        self.output.push(Stream::Stdout, text.as_bytes());
    }
}

/// How a piece of work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerEnd {
    /// With this result, which is stored whole.
    Completed(String),
    /// It went wrong.
    Failed {
        /// What went wrong, in a sentence.
        message: String,
        /// What there is of a result.
        output: String,
    },
    /// It gave up because its end was asked for.
    Cancelled {
        /// What there is of a result.
        output: String,
    },
}

impl Tasks {
    /// Starts a piece of work in the background. Its task is recorded, and [`super::TaskSink::started`] was called,
    /// when this returns.
    ///
    /// # Errors
    /// See [`StartError`]; `work` was not called then.
    pub async fn start_worker(
        &self,
        spec: WorkerSpec,
        work: impl FnOnce(WorkerCx) -> BoxFuture<'static, WorkerEnd> + Send + 'static,
    ) -> Result<TaskInfo, StartError> {
        let slots = self.take_slots()?;
        let kind = match spec.detail {
            TaskDetail::Process(_) => TaskKind::Process,
            TaskDetail::Agent { .. } => TaskKind::Agent,
            TaskDetail::Question { .. } => TaskKind::Question,
        };
        let id = self.fresh_id(kind);
        let info = TaskInfo {
            id: id.clone(),
            detail: spec.detail,
            description: spec.description,
            owner: spec.owner,
            status: TaskStatus::Running,
            detached: true,
            started_at: self.inner.parts.clock.now(),
            ended_at: None,
            stop_reason: None,
            timeout_ms: spec.time_limit.map(|limit| limit.as_millis() as u64),
            parent: None,
            suppressed: false,
            output: TaskOutput::default(),
        };
        let cancel = CancellationToken::new();
        let output = Output::new();
        let live = Live::new(Handle::Worker(cancel.clone()), Some(slots));
        let record = self.record_of(info.clone(), id.clone());
        self.table().add(record, output.clone(), Some(live));
        let cx = WorkerCx {
            id: id.clone(),
            cancel: cancel.clone(),
            output,
        };
        let carrier = Carrier {
            tasks: self.clone(),
            id,
            cancel,
        };
        let work = async move { work(cx).await }.boxed();
        self.carry(&info, carrier.run(work, spec.time_limit)).await;
        Ok(info)
    }
}

/// What carries a piece of work to its end.
struct Carrier {
    tasks: Tasks,
    id: TaskId,
    cancel: CancellationToken,
}

impl Carrier {
    async fn run(self, work: BoxFuture<'static, WorkerEnd>, time_limit: Option<Duration>) {
        let mut work = AssertUnwindSafe(work).catch_unwind();
        let ended = tokio::select! {
            biased;
            // One that ended first has won against a stop.
            ended = &mut work => Some(ended),
            () = self.cancel.cancelled() => None,
            () = sleep(time_limit) => {
                self.tasks.ask_for_end(&self.id, StopCause::TimeLimit, None);
                None
            }
        };
        let ended = match ended {
            Some(ended) => Some(ended),
            None => timeout(self.tasks.inner.parts.limits.grace, &mut work)
                .await
                .ok(),
        };
        // Whatever it holds goes before its end is told.
        drop(work);
        let cause = self.tasks.stop_cause(&self.id);
        let stopped_as = match cause {
            Some(StopCause::TimeLimit) => Some(TaskStatus::TimedOut),
            Some(StopCause::Asked | StopCause::Flood) => Some(TaskStatus::Killed),
            None => None,
        };
        let is_late = cause == Some(StopCause::TimeLimit);
        let (status, reason, result) = match ended {
            Some(Ok(WorkerEnd::Completed(result))) => (TaskStatus::Completed, None, result),
            Some(Ok(WorkerEnd::Failed { message, output })) => {
                (TaskStatus::Failed, Some(message), output)
            }
            Some(Ok(WorkerEnd::Cancelled { output })) => {
                let status = stopped_as.unwrap_or(TaskStatus::Killed);
                (status, None, output)
            }
            Some(Err(panic)) => {
                let message = format!("internal error: {}", panic_text(&*panic));
                let status = stopped_as.unwrap_or(TaskStatus::Failed);
                (status, Some(message), String::new())
            }
            None => (
                stopped_as.unwrap_or(TaskStatus::Killed),
                None,
                String::new(),
            ),
        };
        // What ends within the grace after its time was over came too late.
        let status = if is_late {
            TaskStatus::TimedOut
        } else {
            status
        };
        self.store(result).await;
        let end = End {
            status: Some(status),
            reason,
            ..End::default()
        };
        self.tasks.settle(&self.id, end, Remains::Record).await;
    }

    /// Puts the result, or without one what progress there is, into the log.
    async fn store(&self, result: String) {
        let Some((output, bytes)) = self.tasks.put_result(&self.id, result) else {
            return;
        };
        if bytes.is_empty() {
            return;
        }
        let path = record::log_path(&self.tasks.inner.parts.dir, &self.id);
        let mut spill = Spill::new(path, Caps::UNLIMITED, output);
        spill.push(&bytes);
        spill.finish().await;
    }
}

impl Tasks {
    /// Makes a result the output of a task, in place of its progress; without one the latest progress stays.
    fn put_result(&self, id: &TaskId, result: String) -> Option<(Arc<Output>, Vec<u8>)> {
        let mut table = self.table();
        let entry = table.entries.get_mut(id)?;
        let bytes = if result.is_empty() {
            let progress = entry.output.with_ring(|ring| ring.bytes().to_vec());
            progress.unwrap_or_default()
        } else {
            result.into_bytes()
        };
        entry.output = Output::new();
        entry.output.push(Stream::Stdout, &bytes);
        Some((entry.output.clone(), bytes))
    }
}

async fn sleep(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}
