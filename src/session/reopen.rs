//! What an earlier process had begun is taken up: the turn that waited for a person, and the turns behind it.
//!
//! The asks are put to hosts before the session takes its first command, so whoever loads it finds them open.
//! Turns that only waited begin as soon as a host is there, or nobody need be.

use std::sync::Arc;

use longshore_protocol::id::AgentId;
use tokio_util::sync::CancellationToken;

use super::actor::Actor;
use super::resume::{close_turn, waited};
use super::surroundings::Abilities;
use super::turns::{Begin, Launch, Waiting};
use crate::agent::open::{Left, OpenTurn};
use crate::agent::reopen::{PutAgain, Reopened};
use crate::agent::{Steer, Steers};
use crate::kernel::ask::Ask;
use crate::kernel::fault::Fault;
use crate::kernel::port::EventSink;

impl Actor {
    /// Takes up what the journal left open.
    pub(super) async fn take_up(&mut self, mut left: Left) {
        self.turns.carried = std::mem::take(&mut left.carried);
        for queued in std::mem::take(&mut left.queued) {
            self.turns.queue.push_back(Waiting::again(queued));
        }
        match left.turn.take() {
            Some(turn) => self.reopen(turn, left).await,
            None => self.queue_leftover(left.steers.into_iter().flatten().collect()),
        }
        if !self.turns.queue.is_empty() {
            self.wakes.look();
        }
    }

    async fn reopen(&mut self, turn: OpenTurn, mut left: Left) {
        let parts = match self.workplace().await {
            Ok(workplace) => self.model().map(|model| (workplace, model)),
            Err(fault) => Err(fault),
        };
        let (workplace, model) = match parts {
            Ok(parts) => parts,
            Err(fault) => {
                left.turn = Some(turn);
                return self.give_up(left, &fault);
            }
        };
        let Some(agent) = self.agent.take() else {
            return;
        };
        let (cancel, steers) = (CancellationToken::new(), Arc::new(Steers::default()));
        for words in left.steers {
            steers.push(Steer::Words(words));
        }
        let given = self.wakes.take();
        for wake in &given {
            steers.push(Steer::Wake(wake.clone()));
        }
        let (now, asks) = (self.deps.clock.now(), &self.deps.asks);
        let put = |ask: Ask, created_at: &str| {
            asks.ask_again(Arc::new(ask), waited(now, created_at), cancel.clone())
        };
        let status = self.board.wait(|waiting| {
            let approvals = left.approvals.iter();
            waiting.approvals = approvals.map(|ask| ask.approval_id.clone()).collect();
            let questions = left.questions.iter();
            waiting.questions = questions.map(|ask| ask.question_id.clone()).collect();
        });
        self.journal.live(&AgentId::main(), status);
        let abilities = Abilities {
            can_ask: self.abilities().can_ask || !left.questions.is_empty(),
            ..self.abilities()
        };
        let id = turn.turn.clone();
        tracing::info!(session = %self.session.session_id, turn = %id, "a turn that waited for a person goes on");
        let reopened = Reopened {
            turn,
            approvals: left
                .approvals
                .into_iter()
                .map(|request| PutAgain {
                    outcome: put(Ask::Approval(request.clone()), &request.created_at),
                    request,
                })
                .collect(),
            questions: left
                .questions
                .into_iter()
                .map(|request| PutAgain {
                    outcome: put(Ask::Question(request.clone()), &request.created_at),
                    request,
                })
                .collect(),
        };
        let launch = Launch {
            turn: id,
            cancel,
            steers,
            begin: Begin::Again(Box::new(reopened)),
            gate: None,
            model,
            tools: workplace.tools(abilities),
            workplace,
            given,
            is_woken: false,
        };
        self.launch(agent, launch);
    }

    /// A turn can't be taken up after all.
    fn give_up(&mut self, mut left: Left, why: &Fault) {
        let turn = left.turn.as_ref().map(|turn| turn.turn.clone());
        if let Some(agent) = &mut self.agent
            && let Err(fault) = close_turn(&self.journal, agent, &mut left, why)
        {
            tracing::error!(%fault, ?turn, "the end of a turn could not be recorded");
        }
        self.queue_leftover(left.steers.into_iter().flatten().collect());
    }
}
