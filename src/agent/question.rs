//! Questions that a running call puts to the user.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use longshore_protocol::id::{AgentId, QuestionId, SessionId, ToolCallId, TurnId};
use longshore_protocol::value::question::{Question, QuestionRequest};
use tokio_util::sync::CancellationToken;

use super::Board;
use crate::kernel::ask::{Ask, AskOutcome};
use crate::kernel::event::DomainEvent;
use crate::kernel::port::{AskHost, EventSink};
use crate::os::clock::Clock;
use crate::tool::AskUser;

/// Asks on behalf of the calls of one turn.
pub struct Questioner {
    session: SessionId,
    agent: AgentId,
    turn: TurnId,
    /// Questions asked in this session so far; calls of one step may ask at the same time.
    asked: AtomicU64,
    sink: Arc<dyn EventSink>,
    asks: Arc<dyn AskHost>,
    board: Arc<Board>,
    clock: Arc<dyn Clock>,
}

impl Questioner {
    /// For one batch of calls.
    pub(super) fn new(agent: &super::Agent, cx: &super::TurnCx) -> Arc<Self> {
        Arc::new(Self {
            session: agent.session.clone(),
            agent: agent.id.clone(),
            turn: cx.turn.clone(),
            asked: AtomicU64::new(agent.ids.questions),
            sink: cx.sink.clone(),
            asks: cx.asks.clone(),
            board: cx.board.clone(),
            clock: cx.clock.clone(),
        })
    }

    /// The session it asks in.
    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// The agent it asks for.
    pub(super) fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// Questions asked in this session so far.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl AskUser for Questioner {
    fn ask(
        &self,
        call: ToolCallId,
        questions: Vec<Question>,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, AskOutcome> {
        let id = QuestionId::from(format!(
            "q{}",
            self.asked.fetch_add(1, Ordering::Relaxed) + 1
        ));
        let request = QuestionRequest {
            question_id: id.clone(),
            session_id: self.session.clone(),
            agent_id: self.agent.clone(),
            turn_id: self.turn.clone(),
            tool_call_id: call,
            questions,
            created_at: self.clock.now().to_string(),
        };
        let (agent, sink, board) = (self.agent.clone(), self.sink.clone(), self.board.clone());
        let asks = self.asks.clone();
        Box::pin(async move {
            if let Err(fault) = sink.durable(
                &agent,
                DomainEvent::QuestionRequested {
                    request: request.clone(),
                },
            ) {
                return AskOutcome::Unanswered {
                    reason: format!("the question could not be recorded: {fault}"),
                };
            }
            sink.live(
                &agent,
                board.wait(|waiting| waiting.questions.push(id.clone())),
            );
            let outcome = asks.ask(Arc::new(Ask::Question(request)), cancel).await;
            sink.live(
                &agent,
                board.wait(|waiting| waiting.questions.retain(|open| *open != id)),
            );
            let resolved = DomainEvent::QuestionResolved {
                question: id,
                outcome: outcome.resolution(),
            };
            if let Err(fault) = sink.durable(&agent, resolved) {
                tracing::error!(%fault, "the end of a question could not be recorded");
            }
            outcome
        })
    }
}
