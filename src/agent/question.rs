//! Questions that a running call puts to the user.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use longshore_protocol::id::{AgentId, QuestionId, SessionId, ToolCallId, TurnId};
use longshore_protocol::value::question::{Question, QuestionRequest};
use longshore_protocol::value::session::WaitingFor;
use tokio_util::sync::CancellationToken;

use super::Board;
use super::reopen::PutAgain;
use crate::kernel::ask::{Ask, AskOutcome};
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
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
    /// Those an earlier process has asked and that are open still, by call.
    open: Mutex<HashMap<ToolCallId, PutAgain<QuestionRequest>>>,
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
            open: Mutex::default(),
            sink: cx.sink.clone(),
            asks: cx.asks.clone(),
            board: cx.board.clone(),
            clock: cx.clock.clone(),
        })
    }

    /// Takes over questions that an earlier process has asked.
    pub(super) fn take_over(&self, open: Vec<PutAgain<QuestionRequest>>) {
        self.lock().extend(
            open.into_iter()
                .map(|open| (open.request.tool_call_id.clone(), open)),
        );
    }

    /// Whether a call has such a question.
    pub(super) fn is_open(&self, call: &ToolCallId) -> bool {
        self.lock().contains_key(call)
    }

    /// Ends those of them that no call has taken up.
    pub(super) fn withdraw_open(&self) -> Result<(), Fault> {
        let open = std::mem::take(&mut *self.lock());
        for put in open.into_values() {
            let (asking, id) = (self.asking(), put.request.question_id);
            asking.end(id, &AskOutcome::Withdrawn)?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ToolCallId, PutAgain<QuestionRequest>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asking(&self) -> Asking {
        Asking {
            agent: self.agent.clone(),
            sink: self.sink.clone(),
            board: self.board.clone(),
        }
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
        let asking = self.asking();
        if let Some(open) = self.lock().remove(&call) {
            let id = open.request.question_id.clone();
            let asked = open.outcome_unless(cancel);
            return Box::pin(async move { asking.finish(id, asked.await) });
        }
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
        let asks = self.asks.clone();
        Box::pin(async move {
            let requested = DomainEvent::QuestionRequested {
                request: request.clone(),
            };
            if let Err(fault) = asking.sink.durable(&asking.agent, requested) {
                return AskOutcome::Unanswered {
                    reason: format!("the question could not be recorded: {fault}"),
                };
            }
            asking.waits(|waiting| waiting.questions.push(id.clone()));
            let outcome = asks.ask(Arc::new(Ask::Question(request)), cancel).await;
            asking.finish(id, outcome)
        })
    }
}

/// Says what becomes of a question.
struct Asking {
    agent: AgentId,
    sink: Arc<dyn EventSink>,
    board: Arc<Board>,
}

impl Asking {
    fn waits(&self, change: impl FnOnce(&mut WaitingFor)) {
        self.sink.live(&self.agent, self.board.wait(change));
    }

    fn end(&self, question: QuestionId, outcome: &AskOutcome) -> Result<(), Fault> {
        self.waits(|waiting| waiting.questions.retain(|open| *open != question));
        let resolved = DomainEvent::QuestionResolved {
            question,
            outcome: outcome.resolution(),
        };
        self.sink.durable(&self.agent, resolved).map(drop)
    }

    fn finish(&self, question: QuestionId, outcome: AskOutcome) -> AskOutcome {
        if let Err(fault) = self.end(question, &outcome) {
            tracing::error!(%fault, "the end of a question could not be recorded");
        }
        outcome
    }
}
