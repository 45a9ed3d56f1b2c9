//! How turns end in a session, and what comes next.

use longshore_protocol::id::AgentId;
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::session::{Status, WaitingFor};
use longshore_protocol::value::turn::{Origin, StopReason, TurnReason};
use longshore_protocol::value::usage::Usage;

use super::actor::{Actor, answer};
use super::command::{Parting, TurnEnd};
use super::journal::write::Journal;
use super::turns::{TurnDone, Waiting};
use super::{resume, store};
use crate::agent::open::QueuedTurn;
use crate::agent::{Agent, Steer};
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::port::EventSink;
use crate::os::blocking;

/// Ended turns that are remembered for `turn/wait`.
const REMEMBERED_TURNS: usize = 64;

impl Actor {
    /// A turn's task has ended: say so, and begin what waits.
    pub(super) async fn done(&mut self, done: TurnDone) {
        let TurnDone {
            agent,
            outcome,
            duration_ms,
        } = done;
        // What its record says comes before its end.
        self.hear_fires();
        let Some(running) = self.turns.running.take() else {
            return;
        };
        self.agent = match agent {
            Some(agent) => Some(agent),
            None => self.rescued().await,
        };
        if running.sink.is_cut() {
            // It is not over: the next server goes on with it.
            return;
        }
        let end = TurnEnd {
            turn: running.turn,
            reason: outcome.reason,
            stop: outcome.stop,
            text: outcome.text,
            usage: outcome.usage,
            error: outcome.error,
        };
        record_end(&self.journal, &end, duration_ms);
        if let Some(agent) = &self.agent {
            self.session.usage = agent.usage;
            self.board.set_todos(agent.todos.clone());
            self.board.set_context(agent.context.tokens());
        }
        self.take_back(running.given, running.is_woken, end.reason);
        self.fires_settled(&end.turn, &end.usage);
        let mut leftover: Vec<ContentPart> = Vec::new();
        for steer in running.steers.take() {
            match steer {
                Steer::Words(words) => leftover.extend(words),
                Steer::Shell { input, output } => self.enter_shell(input, output),
                // Those that were not told are taken back already.
                Steer::Wake(_) => {}
            }
        }
        if end.reason == TurnReason::Cancelled {
            self.turns.carried.extend(leftover);
        } else if self.turns.closing.is_empty() {
            self.queue_leftover(leftover);
        }
        self.tell_end(end);
        self.begin_next().await;
        self.wake_up().await;
        if self.turns.running.is_none() {
            self.board.set_status(Status::Idle);
            let status = DomainEvent::SessionStatus {
                status: Status::Idle,
                waiting: WaitingFor::default(),
            };
            self.journal.live(&AgentId::main(), status);
        }
        self.settle();
    }

    /// Words that a turn has not taken in become one turn, which comes next. Where that can't be recorded, they come
    /// before the next input.
    pub(super) fn queue_leftover(&mut self, input: Vec<ContentPart>) {
        if input.is_empty() {
            return;
        }
        let (main, turn, origin) = (AgentId::main(), self.new_turn(), Origin::Steer);
        let queued = QueuedTurn {
            turn: turn.clone(),
            origin,
            input: input.clone(),
        };
        let record = StateRecord::Queued {
            turn: turn.clone(),
            origin,
            input: input.clone(),
        };
        if let Err(fault) = self.journal.state(&main, record) {
            tracing::error!(%fault, "a queued turn could not be recorded");
            return self.turns.carried.extend(input);
        }
        if let Err(fault) = self
            .journal
            .durable(&main, DomainEvent::TurnQueued { turn, input })
        {
            tracing::error!(%fault, "a queued turn could not be told");
        }
        self.turns.queue.push_front(Waiting::again(queued));
    }

    pub(super) async fn begin_next(&mut self) {
        if !self.turns.closing.is_empty() {
            return;
        }
        while let Some(waiting) = self.turns.queue.pop_front() {
            let turn = waiting.turn.clone();
            match self.begin_turn(waiting).await {
                Ok(()) => return,
                Err(fault) => {
                    let end = TurnEnd {
                        turn,
                        reason: TurnReason::Failed,
                        stop: StopReason::Error,
                        text: String::new(),
                        usage: Usage::default(),
                        error: Some(fault.to_failure()),
                    };
                    record_end(&self.journal, &end, 0);
                    self.tell_end(end);
                }
            }
        }
    }

    /// What a panicked turn took with it is read from the journal again, and what it left open is closed.
    async fn rescued(&self) -> Option<Box<Agent>> {
        let (id, dir) = (self.session.session_id.clone(), self.dir.clone());
        let loaded = match blocking::run(move || store::load_open(&id, &dir)).await {
            Ok(loaded) => loaded,
            Err(fault) => {
                tracing::error!(%fault, "the agent could not be restored");
                return None;
            }
        };
        let (mut agent, mut left) = (loaded.agent, loaded.left);
        if let Err(fault) = resume::close_step(&self.journal, &mut agent, &mut left) {
            tracing::error!(%fault, "what a panicked turn left open could not be closed");
        }
        agent.interrupted = false;
        // Nobody knows any more; looking costs little.
        agent.ran_commands = true;
        Some(Box::new(agent))
    }

    /// Ends all turns of a session that is being closed.
    pub(super) fn part(&mut self, parting: Parting) {
        match parting {
            Parting::End => self.end_all_turns(),
            Parting::Keep => self.leave_turns(),
        }
    }

    /// Leaves to the next server what can go on there: turns that wait, and the one that waits for a person. The journal
    /// has them.
    fn leave_turns(&mut self) {
        self.turns.queue.clear();
        if let Some(running) = &self.turns.running {
            let waiting = self.board.get().waiting;
            if !waiting.approvals.is_empty() || !waiting.questions.is_empty() {
                running.sink.cut();
            }
            running.cancel.cancel();
        }
    }

    /// Takes back what waits and cancels what runs.
    fn end_all_turns(&mut self) {
        while let Some(waiting) = self.turns.queue.pop_front() {
            self.end_unbegun(waiting);
        }
        if let Some(running) = &self.turns.running {
            running.cancel.cancel();
        }
    }

    pub(super) fn tell_end(&mut self, end: TurnEnd) {
        for waiter in self.turns.waiters.remove(&end.turn).unwrap_or_default() {
            answer(waiter, Ok(end.clone()));
        }
        if self.turns.ended.len() == REMEMBERED_TURNS {
            self.turns.ended.pop_front();
        }
        self.turns.ended.push_back(end);
    }
}

/// Says that a turn has ended; hosts are told even where the journal can't take it.
pub(super) fn record_end(journal: &Journal, end: &TurnEnd, duration_ms: u64) {
    let event = DomainEvent::TurnEnded {
        turn: end.turn.clone(),
        reason: end.reason,
        stop: end.stop,
        error: end.error.clone(),
        usage: end.usage,
        duration_ms,
    };
    if let Err(fault) = journal.durable(&AgentId::main(), event.clone()) {
        tracing::error!(%fault, "the end of a turn could not be recorded");
        journal.show_unkept(&AgentId::main(), event);
    }
}
