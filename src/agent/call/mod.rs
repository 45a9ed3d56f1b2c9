//! From the calls of an answer to their results, one small stage after another.
//!
//! Look up and validate ([`prepare`]) → resolve, real paths, preview ([`resolve`]) → announce → permission
//! ([`permit`]) → schedule ([`schedule`]) → run ([`execute`]) → cap and record ([`record`]). Calls are decided one after
//! another in the provider's order, while earlier ones run already. Whatever happens, every call gets exactly one
//! result, and results enter the history in the provider's order.

mod execute;
mod permit;
mod prepare;
mod record;
mod resolve;
mod schedule;

use std::pin::pin;
use std::sync::Arc;

use longshore_protocol::value::turn::FinishReason;
use tokio::task::JoinSet;

use self::execute::{Finished, Runnable};
use self::permit::Permit;
use self::prepare::Prepared;
use self::resolve::Resolved;
use self::schedule::Schedule;
use super::question::Questioner;
use super::repeat::{Advice, Streak};
use super::{Agent, TurnCx};
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::limits::{MAX_PARALLEL_CALLS, TOOL_CANCEL_GRACE};
use crate::kernel::message::{Message, ModelCall};
use crate::tool::{Effect, Outcome};

/// How a batch ended; its results are complete in every case.
pub(super) enum BatchEnd {
    /// The model goes on.
    Done,
    /// The turn was cancelled.
    Cancelled,
    /// The turn can't go on.
    Failed(Fault),
}

/// Runs the calls of one answer.
pub(super) async fn run_batch(
    agent: &mut Agent,
    cx: &TurnCx,
    calls: &[ModelCall],
    finish: FinishReason,
    streak: &mut Streak,
) -> (Vec<Message>, Advice, BatchEnd) {
    let prepared: Vec<Prepared> = calls.iter().map(|call| prepare::prepare(cx, call, finish)).collect();
    let keys: Vec<String> = prepared.iter().map(|call| call.key.clone()).collect();
    let mut batch = Batch {
        calls,
        twins: prepare::twins(cx, &prepared),
        results: calls.iter().map(|_| None).collect(),
        schedule: Schedule::new(MAX_PARALLEL_CALLS),
        ready: calls.iter().map(|_| None).collect(),
        running: JoinSet::new(),
        questioner: Questioner::new(agent, cx),
        end: BatchEnd::Done,
    };
    for (n, prepared) in prepared.into_iter().enumerate() {
        if matches!(batch.end, BatchEnd::Failed(_)) || cx.cancel.is_cancelled() {
            batch.announce_unrun(agent, cx, n, &prepared);
        } else {
            batch.decide(agent, cx, n, prepared).await;
        }
    }
    batch.finish(agent, cx).await;
    agent.ids.questions = batch.questioner.asked();
    let (results, end) = batch.into_results(agent, cx);
    (results, streak.observe(&keys), end)
}

struct Batch<'a> {
    calls: &'a [ModelCall],
    /// For a call that repeats an earlier one of this step: which.
    twins: Vec<Option<usize>>,
    results: Vec<Option<Message>>,
    schedule: Schedule,
    /// Calls that were allowed and wait for their turn.
    ready: Vec<Option<Runnable>>,
    running: JoinSet<(usize, Finished)>,
    questioner: Arc<Questioner>,
    end: BatchEnd,
}

impl Batch<'_> {
    /// Takes one call from its arguments to the schedule, while earlier calls go on.
    async fn decide(&mut self, agent: &mut Agent, cx: &TurnCx, n: usize, prepared: Prepared) {
        let (who, todos) = ((agent.session.clone(), agent.id.clone()), agent.todos.clone());
        let resolved = match self.beside(agent, cx, resolve::resolve(cx, &who, &todos, prepared)).await {
            Ok(resolved) => resolved,
            Err(refused) => {
                if self.announce(agent, cx, n, &refused.drawn) {
                    self.complete(agent, cx, n, Finished::unrun(refused.outcome));
                }
                return;
            }
        };
        if !self.announce(agent, cx, n, &resolved.drawn) || self.twins[n].is_some() {
            return;
        }
        let desk = permit::Desk::new(agent, cx, &self.calls[n]);
        let permit = self.beside(agent, cx, desk.decide(resolved)).await;
        match permit {
            Permit::Run { resolved, grant, approval_used } => {
                if approval_used {
                    agent.ids.approvals += 1;
                }
                if let Some(grant) = grant {
                    if let Err(fault) = agent.granted(cx, grant) {
                        self.end = BatchEnd::Failed(fault);
                        return;
                    }
                }
                self.schedule(cx, n, resolved);
            }
            Permit::Refused { outcome, approval_used, stop } => {
                if approval_used {
                    agent.ids.approvals += 1;
                }
                self.complete(agent, cx, n, Finished::unrun(outcome));
                if stop {
                    cx.cancel.cancel();
                }
            }
            Permit::Failed(fault) => self.end = BatchEnd::Failed(fault),
        }
    }

    fn schedule(&mut self, cx: &TurnCx, n: usize, resolved: Box<Resolved>) {
        let accesses = resolved.accesses.clone();
        self.ready[n] = Some(Runnable::new(cx, &self.questioner, self.calls[n].id.clone(), resolved));
        if self.schedule.add(n, accesses) {
            self.start(n);
        }
    }

    fn start(&mut self, n: usize) {
        if let Some(runnable) = self.ready[n].take() {
            self.running.spawn(async move { (n, runnable.run().await) });
        }
    }

    /// Awaits something while running calls end and waiting ones start.
    async fn beside<T>(&mut self, agent: &mut Agent, cx: &TurnCx, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                Some(joined) = self.running.join_next() => self.joined(agent, cx, joined),
                done = &mut work => return done,
            }
        }
    }

    /// Waits for everything that runs; after a cancel only for the grace.
    async fn finish(&mut self, agent: &mut Agent, cx: &TurnCx) {
        while !self.running.is_empty() {
            tokio::select! {
                biased;
                () = cx.cancel.cancelled() => {
                    self.schedule.drop_waiting();
                    self.drain_cancelled(agent, cx).await;
                }
                Some(joined) = self.running.join_next() => self.joined(agent, cx, joined),
            }
        }
    }

    async fn drain_cancelled(&mut self, agent: &mut Agent, cx: &TurnCx) {
        let deadline = tokio::time::Instant::now() + TOOL_CANCEL_GRACE;
        while !self.running.is_empty() {
            match tokio::time::timeout_at(deadline, self.running.join_next()).await {
                Ok(Some(joined)) => self.joined(agent, cx, joined),
                Ok(None) => return,
                Err(_) => {
                    // Dropping a call's future ends what it holds; its result says that the outcome is unknown.
                    self.running.abort_all();
                    while self.running.join_next().await.is_some() {}
                }
            }
        }
    }

    fn joined(&mut self, agent: &mut Agent, cx: &TurnCx, joined: Result<(usize, Finished), tokio::task::JoinError>) {
        // `Runnable::run` catches panics itself; only an abort gets here, and that call is closed at the end.
        let Ok((n, finished)) = joined else { return };
        self.complete(agent, cx, n, finished);
        for next in self.schedule.end(n) {
            self.start(next);
        }
    }

    fn announce(&mut self, agent: &Agent, cx: &TurnCx, n: usize, drawn: &resolve::Drawn) -> bool {
        match record::announce(agent, cx, &self.calls[n], drawn) {
            Ok(()) => true,
            Err(fault) => {
                self.end = BatchEnd::Failed(fault);
                false
            }
        }
    }

    fn announce_unrun(&mut self, agent: &Agent, cx: &TurnCx, n: usize, prepared: &Prepared) {
        if !matches!(self.end, BatchEnd::Failed(_)) {
            self.announce(agent, cx, n, &resolve::Drawn::plain(prepared));
        }
    }

    /// Records what came of a call and applies its effects.
    fn complete(&mut self, agent: &mut Agent, cx: &TurnCx, n: usize, finished: Finished) {
        let Finished { mut outcome, duration_ms } = finished;
        let fault = outcome.fault.take();
        for effect in std::mem::take(&mut outcome.effects) {
            if let Err(fault) = agent.apply(cx, effect) {
                self.end = BatchEnd::Failed(fault);
            }
        }
        let (message, recorded) = record::complete(agent, cx, &self.calls[n], outcome, duration_ms);
        self.results[n] = Some(message);
        if let Some(fault) = recorded.err().or(fault) {
            self.end = BatchEnd::Failed(fault);
        }
    }

    /// Closes whatever is still open and gives the results in the provider's order.
    fn into_results(mut self, agent: &mut Agent, cx: &TurnCx) -> (Vec<Message>, BatchEnd) {
        if cx.cancel.is_cancelled() && matches!(self.end, BatchEnd::Done) {
            self.end = BatchEnd::Cancelled;
        }
        for n in 0..self.calls.len() {
            if self.results[n].is_some() {
                continue;
            }
            let outcome = match self.twins[n].and_then(|twin| self.results[twin].as_ref()) {
                Some(Message::ToolResult { parts, is_error, .. }) => {
                    Outcome { is_error: *is_error, ..Outcome::parts(parts.clone()) }
                }
                _ => record::closed(&self.end),
            };
            self.complete(agent, cx, n, Finished::unrun(outcome));
        }
        let results = self.results.into_iter().flatten().collect();
        (results, self.end)
    }
}

impl Agent {
    fn granted(&mut self, cx: &TurnCx, grant: crate::kernel::rule::Grant) -> Result<(), Fault> {
        let record = crate::kernel::event::StateRecord::Granted { grant: grant.clone() };
        cx.sink.state(&self.id, record)?;
        self.grants.push(grant);
        Ok(())
    }

    fn apply(&mut self, cx: &TurnCx, effect: Effect) -> Result<(), Fault> {
        match effect {
            Effect::SetTodos(todos) => {
                self.todos = Arc::from(todos.clone());
                cx.board.set_todos(self.todos.clone());
                cx.sink.durable(&self.id, DomainEvent::TodoUpdated { todos })?;
            }
        }
        Ok(())
    }
}
