//! The calls of an answer that an earlier process began to work on.

use longshore_protocol::value::approval::ApprovalRequest;
use longshore_protocol::value::question::QuestionRequest;
use longshore_protocol::value::turn::FinishReason;
use tokio::task::JoinSet;

use super::super::open::{CallStage, OpenCall};
use super::super::question::Questioner;
use super::super::reopen::PutAgain;
use super::super::repeat::{Advice, Streak};
use super::super::{Agent, TurnCx};
use super::execute::Finished;
use super::permit::Again;
use super::prepare::{self, Prepared};
use super::resolve::{self, Drawn};
use super::schedule::Schedule;
use super::{Batch, BatchEnd, Slot, Stage};
use crate::kernel::limits::MAX_PARALLEL_CALLS;
use crate::kernel::message::Message;

/// The asks that hosts have again.
type Asks = (
    Vec<PutAgain<ApprovalRequest>>,
    Vec<PutAgain<QuestionRequest>>,
);

/// Goes on with calls where they were. First those that a person was asked about: the others wait for the first answer,
/// since nothing begins by itself because a session was loaded. Then all others, in the provider's order.
pub(in crate::agent) async fn take_up(
    agent: &mut Agent,
    cx: &TurnCx,
    calls: &[OpenCall],
    (mut approvals, questions): Asks,
    finish: FinishReason,
    streak: &mut Streak,
) -> (Vec<Message>, Advice, BatchEnd) {
    let prepared: Vec<Prepared> = calls
        .iter()
        .map(|call| prepare::prepare(cx, &call.call, finish))
        .collect();
    let seen: Vec<_> = prepared.iter().map(|call| call.seen.clone()).collect();
    let slots = calls.iter().zip(prepare::twins(&prepared));
    let slots = slots.map(|(open, twin)| {
        let id = &open.call.id;
        let put = approvals.extract_if(.., |put| put.request.tool_call_id == *id);
        let again = match put.last() {
            Some(put) => Some(Again::Open(Box::new(put))),
            None => open.was_allowed().then_some(Again::Allowed),
        };
        Slot {
            stage: match open.stage {
                CallStage::New => Stage::New,
                CallStage::Announced => Stage::Announced,
                CallStage::Running => Stage::Started,
            },
            result: open.result.clone(),
            again,
            ..Slot::new(&open.call, twin)
        }
    });
    let mut batch = Batch {
        slots: slots.collect(),
        schedule: Schedule::new(MAX_PARALLEL_CALLS),
        running: JoinSet::new(),
        questioner: Questioner::new(agent, cx),
        halt: cx.cancel.child_token(),
        end: BatchEnd::Done,
    };
    batch.questioner.take_over(questions);
    let mut prepared: Vec<Option<Prepared>> = prepared.into_iter().map(Some).collect();
    for (n, prepared) in prepared.iter_mut().enumerate() {
        if batch.questioner.is_open(&batch.slots[n].call.id)
            && let Some(prepared) = prepared.take()
        {
            batch.ask_on(agent, cx, n, prepared).await;
        }
    }
    if let Some(n) = batch.first_asked() {
        if let Some(prepared) = prepared[n].take() {
            batch.decide(agent, cx, n, prepared).await;
        }
    } else if let Some(joined) = batch.running.join_next().await {
        batch.joined(agent, cx, joined);
    }
    for (n, prepared) in prepared.into_iter().enumerate() {
        let Some(prepared) = prepared.filter(|_| batch.slots[n].result.is_none()) else {
            continue;
        };
        if batch.halt.is_cancelled() {
            let again = batch.slots[n].again.take();
            batch.withdraw(agent, cx, again);
            batch.announce(agent, cx, n, &Drawn::plain(&prepared));
        } else {
            batch.decide(agent, cx, n, prepared).await;
        }
    }
    batch.finish(agent, cx).await;
    if let Err(fault) = batch.questioner.withdraw_open() {
        batch.fail(fault);
    }
    agent.ids.questions = batch.questioner.asked();
    let (results, end) = batch.into_results(agent, cx);
    (results, streak.observe(&seen), end)
}

impl Batch<'_> {
    /// The call that a person is asked about first.
    fn first_asked(&self) -> Option<usize> {
        let mut slots = self.slots.iter();
        let open = slots.position(|slot| matches!(slot.again, Some(Again::Open(_))));
        open.or_else(|| self.slots.iter().position(|slot| slot.again.is_some()))
    }

    /// Runs a call again that had done nothing but ask the user something: it gets the answer to that.
    async fn ask_on(&mut self, agent: &mut Agent, cx: &TurnCx, n: usize, prepared: Prepared) {
        let (who, todos) = (
            (agent.session.clone(), agent.id.clone()),
            agent.todos.clone(),
        );
        let halt = self.halt.clone();
        match halt
            .run_until_cancelled(resolve::resolve(cx, &who, &todos, prepared))
            .await
        {
            Some(Ok(resolved)) => self.schedule(agent, cx, n, resolved),
            Some(Err(refused)) => {
                self.complete(agent, cx, n, Finished::unrun(refused.outcome));
            }
            None => {}
        }
    }
}
