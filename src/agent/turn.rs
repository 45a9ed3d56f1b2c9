//! A turn: from one input to idle.

use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::failure::Failure;
use longshore_protocol::value::turn::{FinishReason, Origin, StopReason, TurnReason};
use longshore_protocol::value::usage::Usage;

use super::call::{BatchEnd, run_batch};
use super::context::prompt;
use super::repeat::{Advice, Streak};
use super::step::{Answer, Whole};
use super::{Agent, TurnCx};
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::limits::REPEAT_STOP;
use crate::kernel::message::{Message, MessageOrigin, Part};

/// What begins a turn.
#[derive(Debug)]
pub struct TurnInput {
    /// Why.
    pub origin: Origin,
    /// As the host sent it.
    pub shown: Vec<ContentPart>,
    /// As the model sees it.
    pub parts: Vec<Part>,
}

/// How a turn went; its session says so to hosts.
#[derive(Debug)]
pub struct TurnOutcome {
    /// How it ended.
    pub reason: TurnReason,
    /// What stopped the model.
    pub stop: StopReason,
    /// Why it failed.
    pub error: Option<Failure>,
    /// Tokens it took.
    pub usage: Usage,
    /// The text of its last answer.
    pub text: String,
}

/// Why the loop stopped.
enum End {
    Stopped(StopReason),
    Cancelled,
}

const INTERRUPTED: &str = "The user interrupted the last turn. Calls that were running then may have had part of their \
    effect: look before you repeat them.";

impl Agent {
    /// Runs a turn to its end. Never fails: what goes wrong is in the outcome.
    pub async fn run(&mut self, cx: &TurnCx, input: TurnInput) -> TurnOutcome {
        let mut progress = Progress::default();
        let end = self.run_steps(cx, input, &mut progress).await;
        let (reason, stop, error) = match end {
            Ok(End::Stopped(stop)) => (TurnReason::Completed, stop, None),
            Ok(End::Cancelled) => {
                self.interrupted = true;
                (TurnReason::Cancelled, StopReason::Cancelled, None)
            }
            Err(fault) => {
                tracing::warn!(turn = %cx.turn, %fault, "turn failed");
                let stop = match fault.kind {
                    ErrorKind::MaxSteps => StopReason::MaxSteps,
                    ErrorKind::Filtered => StopReason::Refusal,
                    _ => StopReason::Error,
                };
                (TurnReason::Failed, stop, Some(fault.to_failure()))
            }
        };
        TurnOutcome { reason, stop, error, usage: progress.usage, text: progress.text }
    }

    async fn run_steps(&mut self, cx: &TurnCx, input: TurnInput, progress: &mut Progress) -> Result<End, Fault> {
        self.begin(cx, input).await?;
        let mut streak = Streak::default();
        let mut step = 0;
        loop {
            if cx.cancel.is_cancelled() {
                return Ok(End::Cancelled);
            }
            if cx.limits.max_steps_per_turn > 0 && step >= cx.limits.max_steps_per_turn {
                return Err(max_steps(cx.limits.max_steps_per_turn));
            }
            step += 1;
            self.take_steers(cx)?;
            let whole = match self.request(cx, step).await? {
                Answer::Whole(whole) => whole,
                Answer::Cancelled => return Ok(End::Cancelled),
            };
            progress.take(&whole);
            if let Some(end) = self.finish_step(cx, step, whole, &mut streak).await? {
                if matches!(end, End::Cancelled) || cx.steers.is_empty() {
                    return Ok(end);
                }
            }
        }
    }

    async fn begin(&mut self, cx: &TurnCx, input: TurnInput) -> Result<(), Fault> {
        let TurnInput { origin, shown, parts } = input;
        cx.sink.durable(&self.id, DomainEvent::TurnStarted { turn: cx.turn.clone(), origin, input: shown })?;
        if self.system.is_none() {
            let (surroundings, cwd) = (cx.surroundings.clone(), cx.workspace.cwd.to_owned());
            self.system = Some(crate::os::blocking::run(move || prompt::render(&surroundings, &cwd)).await);
        }
        self.context.push(Message::User { parts, origin: MessageOrigin::User });
        if std::mem::take(&mut self.interrupted) {
            self.remind(cx, INTERRUPTED)?;
        }
        Ok(())
    }

    /// Tells the model something it was not told by anybody else.
    pub(super) fn remind(&mut self, cx: &TurnCx, text: &str) -> Result<(), Fault> {
        let text: Arc<str> = text.into();
        cx.sink.state(&self.id, StateRecord::Reminder { text: text.clone() })?;
        self.context.push(Message::user(text, MessageOrigin::Reminder));
        Ok(())
    }

    fn take_steers(&mut self, cx: &TurnCx) -> Result<(), Fault> {
        for shown in cx.steers.take() {
            // It was checked when it was taken in.
            let parts = super::context::input::convert(&shown)?;
            cx.sink.durable(&self.id, DomainEvent::TurnSteered { turn: cx.turn.clone(), input: shown })?;
            self.context.push(Message::User { parts, origin: MessageOrigin::User });
        }
        Ok(())
    }

    /// Runs the calls of an answer, puts both into the history and says whether the turn ends here.
    async fn finish_step(
        &mut self,
        cx: &TurnCx,
        step: u32,
        whole: Whole,
        streak: &mut Streak,
    ) -> Result<Option<End>, Fault> {
        let Whole { parts, calls, finish, usage } = whole;
        let ended = DomainEvent::StepEnded { turn: cx.turn.clone(), step, finish, usage };
        if finish == FinishReason::Filtered {
            // Neither the calls nor the half answer are sent again: they would be filtered again.
            cx.sink.durable(&self.id, ended)?;
            let message = "the provider filtered the model's answer; put the request in other words";
            return Err(Fault::new(ErrorKind::Filtered, message));
        }
        if calls.is_empty() {
            self.context.push(Message::Assistant { parts, calls, partial: false });
            cx.sink.durable(&self.id, ended)?;
            let stop = match finish {
                FinishReason::Truncated => StopReason::MaxTokens,
                _ => StopReason::EndTurn,
            };
            return Ok(Some(End::Stopped(stop)));
        }
        let (results, advice, end) = run_batch(self, cx, &calls, finish, streak).await;
        self.context.push_exchange(Message::Assistant { parts, calls, partial: false }, results);
        match end {
            BatchEnd::Done => {
                cx.sink.durable(&self.id, ended)?;
                match advice {
                    Advice::None => {}
                    Advice::Remind(text) => self.remind(cx, text)?,
                    Advice::Stop(text) => {
                        self.remind(cx, text)?;
                        return Err(repeated());
                    }
                }
                match finish {
                    FinishReason::ToolCalls | FinishReason::Completed | FinishReason::Other => Ok(None),
                    FinishReason::Truncated => Ok(Some(End::Stopped(StopReason::MaxTokens))),
                    _ => Ok(Some(End::Stopped(StopReason::EndTurn))),
                }
            }
            BatchEnd::Cancelled => {
                cx.sink.durable(&self.id, ended)?;
                Ok(Some(End::Cancelled))
            }
            BatchEnd::Failed(fault) => {
                // The fault counts even where the journal can't take the end of the step any more.
                if let Err(error) = cx.sink.durable(&self.id, ended) {
                    tracing::error!(%error, "the end of a step could not be recorded");
                }
                Err(fault)
            }
        }
    }
}

#[derive(Default)]
struct Progress {
    usage: Usage,
    text: String,
}

impl Progress {
    fn take(&mut self, whole: &Whole) {
        self.usage.add(&whole.usage);
        let text: String = whole
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(&**text),
                _ => None,
            })
            .collect();
        if !text.is_empty() {
            self.text = text;
        }
    }
}

fn max_steps(limit: u32) -> Fault {
    let message = format!(
        "the turn took its {limit} steps without coming to an end; start another, or raise loop.max_steps_per_turn"
    );
    Fault::new(ErrorKind::MaxSteps, message).with("name", "max_steps_per_turn").with("value", limit)
}

fn repeated() -> Fault {
    let message = format!("the model made the same call {REPEAT_STOP} times in a row, so the turn was stopped");
    Fault::new(ErrorKind::LimitExceeded, message).with("name", "identical_calls").with("value", REPEAT_STOP)
}
