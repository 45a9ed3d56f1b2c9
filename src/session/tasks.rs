//! The tasks of a session, as its journal, its hosts and its model come to know of them.
//!
//! The task manager says what became of detached tasks through [`Reporter`]: it writes the event and, where the model is
//! to be told of an end, wakes the session. `task/ended` in the journal is the durable fact a notice is made from; that it
//! was told stands with the text that told it. What ended and was not told is therefore known after any crash
//! ([`TaskFacts`]), and is told with the next turn.
//!
//! When a session is loaded, journal and manager are brought together before anything else happens
//! ([`Actor::settle_tasks`]): a task that one of them saw end and the other did not has ended.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, TaskId};
use longshore_protocol::value::task::{Kind, Status, Task};
use tokio_util::sync::CancellationToken;

use super::actor::Actor;
use super::journal::write::Journal;
use super::notices;
use super::wake::WakeDoor;
use crate::background::{StopOptions, TaskSink, Tasks, Which, Whose, Window};
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::limits::{TASK_END_TAIL_BYTES, TASK_OUTPUT_WAIT};
use crate::kernel::port::EventSink;
use crate::kernel::task::{TaskDetail, TaskInfo, TaskStatus};
use crate::kernel::time::Timestamp;
use crate::kernel::wake::{Urgency, Wake, WakeKey};
use crate::tool::task::window::{self, TextWindow};

/// Why a task ended that a host ended.
pub const STOPPED_BY_USER: &str = "stopped by user";
/// Why a task is lost whose record is gone.
const UNRECORDED: &str = "its record is gone";

/// Writes and wakes on behalf of the task manager.
pub(super) struct Reporter {
    journal: Arc<Journal>,
    door: WakeDoor,
    /// True until the session has settled what the last process left: a restart begins no turn.
    is_settling: AtomicBool,
    /// Tasks whose end begins no turn, because whoever ended them wants quiet.
    quiet: Mutex<HashSet<TaskId>>,
}

/// What a journal says of tasks.
#[derive(Debug, Default)]
pub struct TaskFacts {
    /// Those that began and have no end, in their order.
    pub open: Vec<Arc<Task>>,
    /// Those that ended, in their order, with the ends of their outputs. Which of them the model was told of, its agent
    /// knows: an undo can make it unsaid.
    pub ended: Vec<(Arc<Task>, Arc<str>)>,
}

impl TaskFacts {
    /// Takes in an event.
    pub fn take(&mut self, event: &DomainEvent) {
        match event {
            DomainEvent::TaskStarted { task } => self.open.push(task.clone()),
            DomainEvent::TaskEnded { task, tail } => {
                self.open.retain(|open| open.task_id != task.task_id);
                self.ended.push((task.clone(), tail.clone()));
            }
            _ => {}
        }
    }

    /// What the main agent's model is to be told with its next turn.
    pub(super) fn wakes(&self, told: &HashSet<WakeKey>) -> Vec<Wake> {
        self.ended
            .iter()
            .filter(|(task, _)| is_mains(task) && !told.contains(&notices::key(task)))
            .map(|(task, tail)| notices::wake(task, tail, Urgency::NextTurn))
            .collect()
    }
}

impl Reporter {
    /// For the session whose journal this is.
    pub(super) fn new(journal: Arc<Journal>, door: WakeDoor) -> Self {
        Self {
            journal,
            door,
            is_settling: AtomicBool::new(true),
            quiet: Mutex::default(),
        }
    }

    /// The end of this task begins no turn; the model hears of it with the next one.
    pub(super) fn be_quiet_about(&self, task: &TaskId) {
        self.quiet
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(task.clone());
    }

    /// Tells of a task's end, once. The caller has seen to it that the journal does not say so yet.
    fn tell_end(&self, task: Task, tail: &str) {
        let wakes = !task.suppressed && is_mains(&task);
        let is_quiet = self
            .quiet
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&task.task_id);
        let urgency = if is_quiet || self.is_settling.load(Ordering::Relaxed) {
            Urgency::NextTurn
        } else {
            Urgency::Turn
        };
        let wake = wakes.then(|| notices::wake(&task, tail, urgency));
        self.keep(
            &task.owner_agent_id.clone(),
            DomainEvent::TaskEnded {
                task: Arc::new(task),
                tail: tail.into(),
            },
        );
        if let Some(wake) = wake {
            self.door.wake(wake);
        }
    }

    /// Hosts are told even where the journal can't take it.
    fn keep(&self, agent: &AgentId, event: DomainEvent) {
        if let Err(fault) = self.journal.durable(agent, event.clone()) {
            tracing::error!(%fault, "what became of a task could not be recorded");
            self.journal.show_unkept(agent, event);
        }
    }
}

impl TaskSink for Reporter {
    fn started(&self, info: &TaskInfo) {
        let task = Arc::new(wire(info));
        self.keep(&info.owner, DomainEvent::TaskStarted { task });
    }

    fn updated(&self, info: &TaskInfo) {
        let task = Arc::new(wire(info));
        self.journal
            .live(&info.owner, DomainEvent::TaskUpdated { task });
    }

    fn ended(&self, info: &TaskInfo, tail: &str) {
        self.tell_end(wire(info), tail);
    }
}

impl Actor {
    /// Brings together what the journal and the task manager know, before the first command is taken.
    pub(super) async fn settle_tasks(&mut self) {
        self.tasks.reconcile().await;
        for open in std::mem::take(&mut self.left_open) {
            match self.tasks.get(Whose::Anyones, &open.task_id) {
                Ok(info) if !info.status.is_terminal() => {}
                // The server died between the record of its end and the journal's.
                Ok(info) => {
                    let tail = end_tail(&self.tasks, &info).await;
                    self.reporter.tell_end(wire(&info), &tail);
                }
                Err(_) => {
                    let lost = Task {
                        status: Status::Lost,
                        ended_at: Some(self.deps.clock.now().to_string()),
                        stop_reason: Some(UNRECORDED.to_owned()),
                        suppressed: false,
                        ..Task::clone(&open)
                    };
                    self.reporter.tell_end(lost, "");
                }
            }
        }
        self.reporter.is_settling.store(false, Ordering::Relaxed);
    }

    /// Ends every detached task of the session without waiting for it; the model hears of them with its next turn.
    pub(super) fn stop_tasks(&self) {
        for info in self.tasks.list(Whose::Anyones, Which::Active) {
            if !info.detached {
                continue;
            }
            self.reporter.be_quiet_about(&info.id);
            let tasks = self.tasks.clone();
            self.deps.tasks.spawn(async move {
                let options = StopOptions {
                    reason: Some(STOPPED_BY_USER.to_owned()),
                    suppress: false,
                };
                if let Err(error) = tasks.stop(Whose::Anyones, &info.id, options).await {
                    tracing::warn!(%error, "a task could not be stopped");
                }
            });
        }
    }
}

async fn end_tail(tasks: &Tasks, info: &TaskInfo) -> String {
    let read = window::read(
        tasks,
        Whose::Anyones,
        &info.id,
        Window::Tail,
        TASK_END_TAIL_BYTES,
    );
    match read.await {
        Ok(window) => window.text,
        Err(error) => {
            tracing::warn!(%error, "the end of a task is told without its output");
            String::new()
        }
    }
}

fn is_mains(task: &Task) -> bool {
    task.owner_agent_id == AgentId::main()
}

/// A task as hosts see it.
pub fn wire(info: &TaskInfo) -> Task {
    let mut task = Task {
        kind: match info.detail {
            TaskDetail::Process(_) => Kind::Process,
            TaskDetail::Agent { .. } => Kind::Agent,
            TaskDetail::Question { .. } => Kind::Question,
        },
        description: info.description.clone(),
        status: match info.status {
            TaskStatus::Running => Status::Running,
            TaskStatus::Completed => Status::Completed,
            TaskStatus::Failed => Status::Failed,
            TaskStatus::TimedOut => Status::TimedOut,
            TaskStatus::Killed => Status::Killed,
            TaskStatus::Lost => Status::Lost,
        },
        detached: info.detached,
        owner_agent_id: info.owner.clone(),
        started_at: info.started_at.to_string(),
        ended_at: info.ended_at.as_ref().map(Timestamp::to_string),
        duration_ms: info.ended_at.map(|ended| info.duration_ms(ended)),
        stop_reason: info.stop_reason.clone(),
        timeout_ms: info.timeout_ms,
        output_size_bytes: info.output.size_bytes,
        output_path: info.output.log_path.as_deref().map(shown),
        log_gap_bytes: info.output.log_gap_bytes,
        full_output_available: info.output.full_output_available(),
        parent_task_id: info.parent.clone(),
        suppressed: info.suppressed,
        ..Task::begun(info.id.clone())
    };
    match &info.detail {
        TaskDetail::Process(process) => {
            task.command = Some(process.command.clone());
            task.cwd = Some(shown(&process.cwd));
            task.pid = process.pid;
            task.exit_code = process.exit_code;
            task.signal.clone_from(&process.signal);
        }
        TaskDetail::Agent {
            agent_id,
            subagent_type,
            model,
            effort,
        } => {
            task.child_agent_id = Some(agent_id.clone());
            task.subagent_type = Some(subagent_type.clone());
            task.model.clone_from(model);
            task.effort.clone_from(effort);
        }
        TaskDetail::Question {
            question_count,
            tool_call_id,
        } => {
            task.question_count = Some(*question_count);
            task.tool_call_id.clone_from(tool_call_id);
        }
    }
    task
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Ends a task for a host and waits until it has ended.
///
/// # Errors
/// `task_not_found`, `task_finished`.
pub async fn stop(tasks: &Tasks, id: &TaskId, reason: Option<String>) -> Result<Task, Fault> {
    let before = tasks.get(Whose::Anyones, id)?;
    if before.status.is_terminal() {
        let message = format!(
            "the task {id} has ended already ({})",
            before.status.as_str()
        );
        return Err(Fault::new(ErrorKind::TaskFinished, message)
            .with("taskId", id.as_str())
            .with("status", before.status.as_str()));
    }
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let options = StopOptions {
        reason: Some(reason.unwrap_or_else(|| STOPPED_BY_USER.to_owned())),
        suppress: false,
    };
    Ok(wire(&tasks.stop(Whose::Anyones, id, options).await?))
}

/// Reads a part of a task's output for a host. Where there is nothing from `window` on, waits up to `wait` for more
/// output or the end of the task.
///
/// # Errors
/// `task_not_found`, `storage_error`.
///
/// # Cancel safety
/// Can be dropped and called again.
pub async fn output(
    tasks: &Tasks,
    id: &TaskId,
    part: Window,
    max_bytes: usize,
    wait: Duration,
) -> Result<TextWindow, Fault> {
    let deadline = tokio::time::Instant::now() + wait.min(TASK_OUTPUT_WAIT);
    let whose = Whose::Anyones;
    let mut beyond = match part {
        Window::From(offset) => offset,
        Window::Tail => tasks.get(whose, id)?.output.size_bytes,
    };
    loop {
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        if !left.is_zero() {
            tasks
                .wait_output(whose, id, beyond, left, &CancellationToken::new())
                .await?;
        }
        let read = window::read(tasks, whose, id, part, max_bytes).await?;
        // A character that is not whole yet is no output.
        if !read.text.is_empty() || read.info.status.is_terminal() || left.is_zero() {
            return Ok(read);
        }
        beyond = beyond.max(read.total_bytes);
    }
}
