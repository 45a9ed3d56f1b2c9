//! Runs a call: the record that it runs, its progress, its questions, and a wall around its panics.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use longshore_protocol::id::{AgentId, ToolCallId};
use longshore_protocol::value::tool::ProgressStream;
use tokio_util::sync::CancellationToken;

use super::super::TurnCx;
use super::super::question::Questioner;
use super::resolve::{Once, Resolved};
use crate::kernel::access::RealAccess;
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::port::{Ability, AskKind, EventSink};
use crate::os::clock::Clock;
use crate::tool::output::within_budget;
use crate::tool::{AskUser, ExecCx, Outcome, Progress, Tool};

/// A call that may run, with everything it needs.
pub(super) struct Runnable {
    call: ToolCallId,
    agent: AgentId,
    tool: Arc<dyn Tool>,
    accesses: Vec<RealAccess>,
    execute: Once,
    note: Option<String>,
    cancel: CancellationToken,
    sink: Arc<dyn EventSink>,
    clock: Arc<dyn Clock>,
    ask_user: Option<Arc<dyn AskUser>>,
    results_dir: PathBuf,
    /// True where an earlier process has recorded that it runs.
    is_recorded: bool,
}

/// A call that has ended.
pub(super) struct Finished {
    /// What came of it.
    pub(super) outcome: Outcome,
    /// How long it ran; 0 where it never did.
    pub(super) duration_ms: u64,
}

impl Finished {
    /// A call that never ran.
    pub(super) fn unrun(outcome: Outcome) -> Self {
        Self {
            outcome,
            duration_ms: 0,
        }
    }
}

impl Runnable {
    /// Makes ready what was allowed.
    pub(super) fn new(
        cx: &TurnCx,
        questioner: &Arc<Questioner>,
        call: ToolCallId,
        resolved: Box<Resolved>,
        halt: CancellationToken,
    ) -> Self {
        let session = questioner.session();
        let is_asking = questioner.is_open(&call);
        let can_ask = is_asking
            || !cx.unattended && cx.asks.ability(session, AskKind::Question) != Ability::Unable;
        Self {
            call,
            agent: questioner.agent().clone(),
            tool: resolved.tool,
            accesses: resolved.accesses,
            execute: resolved.execute,
            note: resolved.note,
            cancel: halt,
            sink: cx.sink.clone(),
            clock: cx.clock.clone(),
            ask_user: can_ask.then(|| questioner.clone() as Arc<dyn AskUser>),
            results_dir: cx.results_dir.clone(),
            is_recorded: is_asking,
        }
    }

    /// Runs it. `None` where a cancel came before its effect could begin.
    pub(super) async fn run(self) -> Option<Finished> {
        let (clock, call, name) = (self.clock.clone(), self.call.clone(), self.tool.spec().name);
        let started = clock.elapsed();
        let ran = AssertUnwindSafe(self.guarded()).catch_unwind().await;
        let outcome = ran.unwrap_or_else(|_| {
            tracing::error!(tool = name, %call, "tool panicked");
            Some(Outcome::failed(format!(
                "{name} failed by an internal error. What it had done until then is unknown: check before you go on."
            )))
        });
        let duration_ms = elapsed_ms(clock.elapsed().saturating_sub(started));
        outcome.map(|outcome| Finished {
            outcome,
            duration_ms,
        })
    }

    async fn guarded(self) -> Option<Outcome> {
        if self.cancel.is_cancelled() {
            return None;
        }
        if let Err(fault) = self.say_running().await {
            let message = "The call was not run, because its start could not be recorded.";
            return Some(Outcome {
                fault: Some(fault),
                ..Outcome::failed(message)
            });
        }
        if self.cancel.is_cancelled() {
            return None;
        }
        Some(self.execute().await)
    }

    /// The record that it runs is on the disk before an effect begins, so that a crash leaves no effect unknown to us.
    async fn say_running(&self) -> Result<(), Fault> {
        if self.is_recorded {
            return Ok(());
        }
        self.sink.durable(
            &self.agent,
            DomainEvent::ToolRunning {
                call: self.call.clone(),
            },
        )?;
        if self.accesses.iter().any(|access| access.access.writes()) {
            self.sink.sync().await?;
        }
        Ok(())
    }

    async fn execute(self) -> Outcome {
        let cx = ExecCx {
            call: self.call.clone(),
            cancel: self.cancel.clone(),
            accesses: self.accesses,
            progress: Arc::new(LiveProgress {
                call: self.call.clone(),
                agent: self.agent,
                sink: self.sink,
                cancel: self.cancel,
                offsets: Mutex::default(),
            }),
            ask_user: self.ask_user,
            results_dir: self.results_dir.clone(),
        };
        let mut outcome = (self.execute.take())(cx).await;
        let spec = self.tool.spec();
        if let Some(note) = self.note {
            outcome.add_note(&note);
        }
        within_budget(outcome, spec, &self.call, &self.results_dir).await
    }
}

fn elapsed_ms(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// Turns a tool's progress into live events, until the turn is cancelled.
struct LiveProgress {
    call: ToolCallId,
    agent: AgentId,
    sink: Arc<dyn EventSink>,
    cancel: CancellationToken,
    /// Bytes said so far on stdout and stderr.
    offsets: Mutex<[u64; 2]>,
}

impl LiveProgress {
    fn emit(&self, stream: ProgressStream, offset: u64, text: &str) {
        if !self.cancel.is_cancelled() {
            let event = DomainEvent::ToolProgress {
                call: self.call.clone(),
                stream,
                offset,
                text: text.to_owned(),
            };
            self.sink.live(&self.agent, event);
        }
    }
}

impl Progress for LiveProgress {
    fn output(&self, stream: ProgressStream, text: &str) {
        let n = usize::from(stream == ProgressStream::Stderr);
        let offset = {
            let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
            let offset = offsets[n];
            offsets[n] += text.len() as u64;
            offset
        };
        self.emit(stream, offset, text);
    }

    fn status(&self, text: &str) {
        self.emit(ProgressStream::Status, 0, text);
    }
}
