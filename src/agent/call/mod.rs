//! From the calls of an answer to their results, one small stage after another.
//!
//! Look up and validate ([`prepare`]) → resolve, real paths, preview ([`resolve`]) → announce → permission
//! ([`permit`]) → schedule ([`schedule`]) → run ([`execute`]) → cap and record ([`record`]). Calls are decided one after
//! another in the provider's order, while earlier ones run already. Whatever happens, every call gets exactly one
//! result, and results enter the history in the provider's order.

mod again;
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
use tokio_util::sync::CancellationToken;

pub(super) use self::again::take_up;
use self::execute::{Finished, Runnable};
use self::permit::{Again, Judged, Permit};
use self::prepare::Prepared;
use self::resolve::{Drawn, Resolved};
use self::schedule::Schedule;
use super::question::Questioner;
use super::repeat::{Advice, Streak};
use super::{Agent, TurnCx};
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::limits::{MAX_PARALLEL_CALLS, TOOL_CANCEL_GRACE};
use crate::kernel::message::{Message, ModelCall};
use crate::kernel::rule::{Grant, Subject};
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
    let prepared: Vec<Prepared> = calls
        .iter()
        .map(|call| prepare::prepare(cx, call, finish))
        .collect();
    let seen: Vec<_> = prepared.iter().map(|call| call.seen.clone()).collect();
    let mut batch = Batch {
        slots: calls
            .iter()
            .zip(prepare::twins(&prepared))
            .map(|(call, twin)| Slot::new(call, twin))
            .collect(),
        schedule: Schedule::new(MAX_PARALLEL_CALLS),
        running: JoinSet::new(),
        questioner: Questioner::new(agent, cx),
        halt: cx.cancel.child_token(),
        end: BatchEnd::Done,
    };
    if let Err(fault) = record::called(agent, cx, calls, finish) {
        batch.fail(fault);
    }
    for (n, prepared) in prepared.into_iter().enumerate() {
        if batch.halt.is_cancelled() {
            batch.announce(agent, cx, n, &Drawn::plain(&prepared));
        } else {
            batch.decide(agent, cx, n, prepared).await;
        }
    }
    batch.finish(agent, cx).await;
    agent.ids.questions = batch.questioner.asked();
    let (results, end) = batch.into_results(agent, cx);
    (results, streak.observe(&seen), end)
}

struct Batch<'a> {
    /// The calls, in the provider's order.
    slots: Vec<Slot<'a>>,
    schedule: Schedule,
    running: JoinSet<(usize, Option<Finished>)>,
    questioner: Arc<Questioner>,
    /// Fires when the turn is cancelled and when the batch can't go on: what runs is to end, what waits never starts,
    /// what is asked is taken back.
    halt: CancellationToken,
    end: BatchEnd,
}

struct Slot<'a> {
    call: &'a ModelCall,
    /// The earlier call of this step that it repeats.
    twin: Option<usize>,
    stage: Stage,
    /// Set while the call is allowed and waits for others to end.
    ready: Option<Runnable>,
    result: Option<Message>,
    /// Set where an earlier process had asked a person about it.
    again: Option<Again>,
}

impl<'a> Slot<'a> {
    fn new(call: &'a ModelCall, twin: Option<usize>) -> Self {
        Self {
            call,
            twin,
            stage: Stage::New,
            ready: None,
            result: None,
            again: None,
        }
    }
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody but the model knows of it.
    New,
    /// It is known, and has had no effect.
    Announced,
    /// It may have had an effect.
    Started,
}

impl Batch<'_> {
    /// Takes one call from its arguments to the schedule, while earlier calls go on.
    async fn decide(&mut self, agent: &mut Agent, cx: &TurnCx, n: usize, prepared: Prepared) {
        let (who, todos) = (
            (agent.session.clone(), agent.id.clone()),
            agent.todos.clone(),
        );
        let (plain, halt) = (Drawn::plain(&prepared), self.halt.clone());
        let again = self.slots[n].again.take();
        let resolving = halt.run_until_cancelled(resolve::resolve(cx, &who, &todos, prepared));
        let resolved = match self.beside(agent, cx, resolving).await {
            Some(Ok(resolved)) => resolved,
            Some(Err(refused)) => {
                self.withdraw(agent, cx, again);
                self.announce(agent, cx, n, &refused.drawn);
                return self.complete(agent, cx, n, Finished::unrun(refused.outcome));
            }
            None => {
                self.withdraw(agent, cx, again);
                return self.announce(agent, cx, n, &plain);
            }
        };
        self.announce(agent, cx, n, &resolved.drawn);
        if let Some(twin) = self.slots[n].twin {
            self.withdraw(agent, cx, again);
            return self.share(agent, cx, twin, n);
        }
        if self.halt.is_cancelled() {
            return self.withdraw(agent, cx, again);
        }
        let permit = match permit::judge(agent, cx, self.slots[n].call, resolved, again) {
            Judged::Permit(permit) => permit,
            Judged::Ask(ask, open) => self.beside(agent, cx, ask.put(open, halt.clone())).await,
        };
        match permit {
            Permit::Run { resolved, grant } => {
                if let Some(grant) = grant
                    && let Err(fault) = agent.granted(cx, grant)
                {
                    return self.fail(fault);
                }
                self.schedule(agent, cx, n, resolved);
            }
            Permit::Refused { outcome, stop } => {
                self.complete(agent, cx, n, Finished::unrun(outcome));
                if stop {
                    cx.cancel.cancel();
                }
            }
            Permit::Withdrawn => {}
            Permit::Failed(fault) => self.fail(fault),
        }
    }

    fn schedule(&mut self, agent: &mut Agent, cx: &TurnCx, n: usize, resolved: Box<Resolved>) {
        agent.ran_commands |= matches!(resolved.subject, Subject::Command { .. });
        let (accesses, call) = (resolved.accesses.clone(), self.slots[n].call.id.clone());
        self.slots[n].ready = Some(Runnable::new(
            cx,
            &self.questioner,
            call,
            resolved,
            self.halt.clone(),
        ));
        if self.schedule.add(n, accesses) {
            self.start(n);
        }
    }

    fn start(&mut self, n: usize) {
        if self.halt.is_cancelled() {
            return;
        }
        if let Some(runnable) = self.slots[n].ready.take() {
            self.slots[n].stage = Stage::Started;
            self.running.spawn(async move { (n, runnable.run().await) });
        }
    }

    /// Awaits something while running calls end and waiting ones start.
    async fn beside<T>(
        &mut self,
        agent: &mut Agent,
        cx: &TurnCx,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                Some(joined) = self.running.join_next() => self.joined(agent, cx, joined),
                done = &mut work => return done,
            }
        }
    }

    /// Waits for everything that runs; after a halt only for the grace.
    async fn finish(&mut self, agent: &mut Agent, cx: &TurnCx) {
        let halt = self.halt.clone();
        while !self.running.is_empty() {
            tokio::select! {
                biased;
                () = halt.cancelled() => return self.drain(agent, cx).await,
                Some(joined) = self.running.join_next() => self.joined(agent, cx, joined),
            }
        }
    }

    async fn drain(&mut self, agent: &mut Agent, cx: &TurnCx) {
        let deadline = tokio::time::Instant::now() + TOOL_CANCEL_GRACE;
        while let Ok(Some(joined)) =
            tokio::time::timeout_at(deadline, self.running.join_next()).await
        {
            self.joined(agent, cx, joined);
        }
        // Dropping a call's future ends what it holds. It is not waited for: a call that never yields can't be ended,
        // and its result says that the outcome is unknown.
        self.running = JoinSet::new();
    }

    fn joined(
        &mut self,
        agent: &mut Agent,
        cx: &TurnCx,
        joined: Result<(usize, Option<Finished>), tokio::task::JoinError>,
    ) {
        // `Runnable::run` catches panics itself, and nothing aborts a call that is still waited for.
        let Ok((n, finished)) = joined else { return };
        match finished {
            Some(finished) => self.complete(agent, cx, n, finished),
            None => self.slots[n].stage = Stage::Announced,
        }
        for next in self.schedule.end(n) {
            self.start(next);
        }
    }

    /// Says that a call is known, where that was not said.
    fn announce(&mut self, agent: &Agent, cx: &TurnCx, n: usize, drawn: &Drawn) {
        if self.slots[n].stage != Stage::New {
            return;
        }
        match record::announce(agent, cx, self.slots[n].call, drawn) {
            Ok(()) => self.slots[n].stage = Stage::Announced,
            Err(fault) => self.fail(fault),
        }
    }

    /// Takes back an ask that need not be made any more.
    fn withdraw(&mut self, agent: &Agent, cx: &TurnCx, again: Option<Again>) {
        if let Some(again) = again
            && let Err(fault) = again.withdraw(agent, cx)
        {
            self.fail(fault);
        }
    }

    /// Nothing can go on. The first fault is the one that counts.
    fn fail(&mut self, fault: Fault) {
        if matches!(self.end, BatchEnd::Failed(_)) {
            tracing::error!(%fault, "a further fault after the one that ends the turn");
        } else {
            self.end = BatchEnd::Failed(fault);
        }
        self.halt.cancel();
    }

    /// Records what came of a call and applies its effects.
    fn complete(&mut self, agent: &mut Agent, cx: &TurnCx, n: usize, finished: Finished) {
        let Finished {
            mut outcome,
            duration_ms,
        } = finished;
        let fault = outcome.fault.take();
        let mut told = Vec::new();
        for effect in std::mem::take(&mut outcome.effects) {
            if let Effect::Told(keys) = &effect {
                told.extend_from_slice(keys);
            }
            if let Err(fault) = agent.apply(cx, effect) {
                self.fail(fault);
            }
        }
        let slot = &mut self.slots[n];
        let (message, event) = record::completed(cx, slot.call, outcome, duration_ms, told);
        slot.result = Some(message);
        // What nobody was told of has no end to be told.
        if slot.stage != Stage::New
            && let Err(fault) = cx.sink.durable(&agent.id, event)
        {
            self.fail(fault);
        }
        if let Some(fault) = fault {
            self.fail(fault);
        }
        for twin in n + 1..self.slots.len() {
            if self.slots[twin].twin == Some(n) && self.slots[twin].stage == Stage::Announced {
                self.share(agent, cx, n, twin);
            }
        }
    }

    /// Gives a call the result of the one it repeats, as soon as there is one.
    fn share(&mut self, agent: &mut Agent, cx: &TurnCx, of: usize, to: usize) {
        if self.slots[to].result.is_some() {
            return;
        }
        if let Some(Message::ToolResult {
            parts,
            is_error,
            note,
            ..
        }) = &self.slots[of].result
        {
            let outcome = Outcome {
                is_error: *is_error,
                note: note.clone(),
                ..Outcome::parts(parts.clone())
            };
            self.complete(agent, cx, to, Finished::unrun(outcome));
        }
    }

    /// Closes whatever is still open and gives the results in the provider's order.
    fn into_results(mut self, agent: &mut Agent, cx: &TurnCx) -> (Vec<Message>, BatchEnd) {
        if cx.cancel.is_cancelled() && matches!(self.end, BatchEnd::Done) {
            self.end = BatchEnd::Cancelled;
        }
        for n in 0..self.slots.len() {
            if self.slots[n].result.is_none() {
                let outcome = record::closed(&self.end, self.slots[n].stage);
                self.complete(agent, cx, n, Finished::unrun(outcome));
            }
        }
        let results = self
            .slots
            .into_iter()
            .filter_map(|slot| slot.result)
            .collect();
        (results, self.end)
    }
}

impl Agent {
    fn granted(&mut self, cx: &TurnCx, grant: Grant) -> Result<(), Fault> {
        cx.sink.state(
            &self.id,
            StateRecord::Granted {
                grant: grant.clone(),
            },
        )?;
        self.grants.push(grant);
        Ok(())
    }

    fn apply(&mut self, cx: &TurnCx, effect: Effect) -> Result<(), Fault> {
        match effect {
            Effect::SetTodos(todos) => {
                cx.sink.durable(
                    &self.id,
                    DomainEvent::TodoUpdated {
                        todos: todos.clone(),
                    },
                )?;
                self.todos = Arc::from(todos);
                cx.board.set_todos(self.todos.clone());
            }
            // They stand in the record of the output that tells them.
            Effect::Told(keys) => self.told.extend(keys),
        }
        Ok(())
    }
}
