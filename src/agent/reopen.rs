//! A turn that waited for a person when its server ended, taken up where it was.
//!
//! Its asks are open again under their names before anything else happens, and nothing begins until one of them is
//! answered. A call that had not begun is judged anew and asked about again; the calls behind it follow as they would
//! have; what ran is over, and its result says so.

use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::value::approval::ApprovalRequest;
use longshore_protocol::value::question::QuestionRequest;
use longshore_protocol::value::turn::FinishReason;
use tokio_util::sync::CancellationToken;

use super::call::take_up;
use super::context::render::estimate_answer;
use super::open::{OpenStep, OpenTurn};
use super::turn::{Answered, End, Progress, TurnOutcome};
use super::{Agent, TurnCx};
use crate::kernel::ask::AskOutcome;
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::message::ModelCall;

/// A turn that is taken up.
pub struct Reopened {
    /// The turn.
    pub turn: OpenTurn,
    /// Its open approvals, put to hosts again.
    pub approvals: Vec<PutAgain<ApprovalRequest>>,
    /// Its open questions, likewise.
    pub questions: Vec<PutAgain<QuestionRequest>>,
}

/// An ask that hosts have again.
pub struct PutAgain<R> {
    /// As it was put first.
    pub request: R,
    /// How it ends.
    pub outcome: BoxFuture<'static, AskOutcome>,
}

impl<R> PutAgain<R> {
    /// How it ends, where nothing takes it back before.
    pub(super) fn outcome_unless(self, halt: CancellationToken) -> BoxFuture<'static, AskOutcome> {
        let outcome = self.outcome;
        async move {
            halt.run_until_cancelled(outcome)
                .await
                .unwrap_or(AskOutcome::Withdrawn)
        }
        .boxed()
    }
}

impl Agent {
    /// Runs a turn from where it was to its end. Never fails: what goes wrong is in the outcome.
    pub async fn go_on(&mut self, cx: &TurnCx, reopened: Reopened) -> TurnOutcome {
        let OpenTurn {
            usage, text, step, ..
        } = reopened.turn;
        let mut progress = Progress::of(usage, text);
        let asks = (reopened.approvals, reopened.questions);
        let end = self.go_on_steps(cx, step, asks, &mut progress).await;
        self.outcome(cx, end, progress)
    }

    async fn go_on_steps(
        &mut self,
        cx: &TurnCx,
        step: Option<OpenStep>,
        asks: (
            Vec<PutAgain<ApprovalRequest>>,
            Vec<PutAgain<QuestionRequest>>,
        ),
        progress: &mut Progress,
    ) -> Result<End, Fault> {
        self.left_out.begin_turn();
        self.render_system(cx).await;
        let Some(step) = step else {
            return self.run_steps(cx, 0, progress).await;
        };
        progress.said(&step.parts);
        let (number, usage) = (step.number, step.usage);
        let finish = step.finish.unwrap_or(FinishReason::ToolCalls);
        let ran = take_up(self, cx, &step.calls, asks, finish, progress.streak()).await;
        let calls: Vec<ModelCall> = step.calls.into_iter().map(|call| call.call).collect();
        let context_tokens = step
            .tokens
            .unwrap_or_else(|| self.context.tokens() + estimate_answer(&step.parts, &calls));
        let ended = DomainEvent::StepEnded {
            turn: cx.turn.clone(),
            step: number,
            finish,
            usage,
        };
        let answered = Answered {
            parts: step.parts,
            calls,
            finish,
            context_tokens,
        };
        let ended = self.end_step(cx, ended, answered, ran)?;
        match self.ends(cx, number, ended) {
            Some(end) => Ok(end),
            None => self.run_steps(cx, number, progress).await,
        }
    }
}
