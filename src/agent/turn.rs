//! A turn: from one input to idle.

use std::collections::HashSet;
use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::failure::Failure;
use longshore_protocol::value::turn::{FinishReason, Origin, StopReason, TurnReason};
use longshore_protocol::value::usage::Usage;
use tokio::sync::oneshot;

use super::call::{BatchEnd, run_batch};
use super::context::input::convert;
use super::context::prompt;
use super::repeat::{Advice, Streak, Why};
use super::step::{Answer, Whole};
use super::{Agent, Steer, TurnCx};
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::limits::{INVALID_STOP, REPEAT_STOP};
use crate::kernel::message::{Message, MessageOrigin, ModelCall, Part};
use crate::kernel::wake::{Wake, WakeKey};

/// What begins a turn.
#[derive(Debug)]
pub struct TurnInput {
    /// Why.
    pub origin: Origin,
    /// As the host sent it.
    pub input: Vec<ContentPart>,
    /// What the model is told by it, where the engine begins the turn.
    pub wakes: Vec<WakeKey>,
    /// Hears when the record of all this is written; dropped where it can't be.
    pub recorded: Option<oneshot::Sender<()>>,
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
pub(super) enum End {
    /// The model did, or was stopped.
    Stopped(StopReason),
    /// By a cancel.
    Cancelled,
}

const INTERRUPTED: &str = "The user interrupted the last turn. Calls that were running then may have had part of their \
    effect: look before you repeat them.";

impl Agent {
    /// Runs a turn to its end. Never fails: what goes wrong is in the outcome.
    pub async fn run(&mut self, cx: &TurnCx, input: TurnInput) -> TurnOutcome {
        let mut progress = Progress::default();
        let end = match self.begin(cx, input).await {
            Ok(()) => self.run_steps(cx, 0, &mut progress).await,
            Err(fault) => Err(fault),
        };
        self.outcome(cx, end, progress)
    }

    pub(super) fn outcome(
        &mut self,
        cx: &TurnCx,
        end: Result<End, Fault>,
        progress: Progress,
    ) -> TurnOutcome {
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
        TurnOutcome {
            reason,
            stop,
            error,
            usage: progress.usage,
            text: progress.text,
        }
    }

    /// Runs steps after so many until the turn ends.
    pub(super) async fn run_steps(
        &mut self,
        cx: &TurnCx,
        mut step: u32,
        progress: &mut Progress,
    ) -> Result<End, Fault> {
        let limit = cx.limits.max_steps_per_turn;
        loop {
            if cx.cancel.is_cancelled() {
                return Ok(End::Cancelled);
            }
            if limit > 0 && step >= limit {
                return Err(max_steps(limit));
            }
            step += 1;
            self.take_steers(cx).await?;
            let whole = match self.request(cx, step, progress).await? {
                Answer::Whole(whole) => whole,
                Answer::Cancelled => return Ok(End::Cancelled),
            };
            progress.said(&whole.parts);
            let ended = self
                .finish_step(cx, step, whole, &mut progress.streak)
                .await?;
            if let Some(end) = self.ends(cx, step, ended) {
                return Ok(end);
            }
        }
    }

    /// Whether the turn ends after a step. What was added while the model had its say is answered in this turn, as long
    /// as it has steps left.
    pub(super) fn ends(&self, cx: &TurnCx, step: u32, ended: Option<End>) -> Option<End> {
        let limit = cx.limits.max_steps_per_turn;
        ended.filter(|end| {
            let goes_on = matches!(end, End::Stopped(_))
                && cx.steers.has_news(&self.told)
                && (limit == 0 || step < limit);
            !goes_on
        })
    }

    async fn begin(&mut self, cx: &TurnCx, input: TurnInput) -> Result<(), Fault> {
        let TurnInput {
            origin,
            input,
            wakes,
            recorded,
        } = input;
        self.left_out.begin_turn();
        let shown = cx.attachments.admit(input, &cx.cancel).await;
        let parts = convert(&shown);
        cx.sink.durable(
            &self.id,
            DomainEvent::TurnStarted {
                turn: cx.turn.clone(),
                origin,
                input: shown,
                wakes: wakes.clone(),
            },
        )?;
        self.told.extend(wakes);
        if let Some(recorded) = recorded {
            // Whoever wanted to hear it may be gone.
            let _ = recorded.send(());
        }
        self.context.push(Message::User {
            parts,
            origin: message_origin(origin),
        });
        if std::mem::take(&mut self.interrupted) {
            self.remind(cx, INTERRUPTED)?;
        }
        self.render_system(cx).await;
        Ok(())
    }

    /// Renders the system prompt, where this process has not yet.
    pub(super) async fn render_system(&mut self, cx: &TurnCx) {
        if self.system.is_none() {
            let (surroundings, cwd) = (cx.surroundings.clone(), cx.workspace.cwd.clone());
            let rendering = crate::os::blocking::run(move || prompt::render(&surroundings, &cwd));
            // A directory that does not answer must not hold a cancelled turn.
            self.system = cx.cancel.run_until_cancelled(rendering).await;
        }
    }

    /// Tells the model something it was not told by anybody else.
    pub(super) fn remind(&mut self, cx: &TurnCx, text: &str) -> Result<(), Fault> {
        let text: Arc<str> = text.into();
        cx.sink
            .state(&self.id, StateRecord::Reminder { text: text.clone() })?;
        self.context
            .push(Message::user(text, MessageOrigin::Reminder));
        Ok(())
    }

    async fn take_steers(&mut self, cx: &TurnCx) -> Result<(), Fault> {
        let mut wakes = Vec::new();
        // One at a time, so that nothing is lost where one can't be recorded.
        while let Some(steer) = cx.steers.pop() {
            if let Steer::Wake(wake) = steer {
                wakes.push(wake);
                continue;
            }
            let taken = match self.take_wakes(cx, std::mem::take(&mut wakes)) {
                Ok(()) => self.take_steer(cx, &steer).await,
                Err(fault) => Err(fault),
            };
            if let Err(fault) = taken {
                cx.steers.put_back(steer);
                return Err(fault);
            }
        }
        self.take_wakes(cx, wakes)
    }

    async fn take_steer(&mut self, cx: &TurnCx, steer: &Steer) -> Result<(), Fault> {
        match steer {
            Steer::Words(words) => {
                let shown = cx.attachments.admit(words.clone(), &cx.cancel).await;
                self.steered(cx, Origin::Steer, shown, Vec::new())
            }
            Steer::Shell { input, output } => {
                self.hear_shell(cx.sink.as_ref(), input.clone(), output.clone())
            }
            Steer::Wake(wake) => self.take_wakes(cx, vec![wake.clone()]),
        }
    }

    /// What came together is told together.
    fn take_wakes(&mut self, cx: &TurnCx, mut wakes: Vec<Wake>) -> Result<(), Fault> {
        let mut seen = HashSet::new();
        wakes.retain(|wake| !self.told.contains(&wake.key) && seen.insert(wake.key.clone()));
        for group in wakes.chunk_by(|a, b| a.key.origin() == b.key.origin()) {
            let origin = group[0].key.origin();
            let texts = group.iter().map(Wake::shown).collect();
            let keys = group.iter().map(|wake| wake.key.clone()).collect();
            self.steered(cx, origin, texts, keys)?;
        }
        Ok(())
    }

    fn steered(
        &mut self,
        cx: &TurnCx,
        origin: Origin,
        input: Vec<ContentPart>,
        wakes: Vec<WakeKey>,
    ) -> Result<(), Fault> {
        let parts = convert(&input);
        cx.sink.durable(
            &self.id,
            DomainEvent::TurnSteered {
                turn: cx.turn.clone(),
                origin,
                input,
                wakes: wakes.clone(),
            },
        )?;
        self.told.extend(wakes);
        self.context.push(Message::User {
            parts,
            origin: message_origin(origin),
        });
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
        let Whole {
            parts,
            calls,
            finish,
            usage,
            context_tokens,
        } = whole;
        let ended = DomainEvent::StepEnded {
            turn: cx.turn.clone(),
            step,
            finish,
            usage,
        };
        if finish == FinishReason::Filtered {
            // Neither the calls nor the half answer are sent again: they would be filtered again.
            cx.sink.durable(&self.id, ended)?;
            let message =
                "the provider filtered the model's answer; put the request in other words";
            return Err(Fault::new(ErrorKind::Filtered, message));
        }
        let ran = run_batch(self, cx, &calls, finish, streak).await;
        let answered = Answered {
            parts,
            calls,
            finish,
            context_tokens,
        };
        self.end_step(cx, ended, answered, ran)
    }

    /// Puts an answer and the results of its calls into the history and says whether the turn ends here.
    pub(super) fn end_step(
        &mut self,
        cx: &TurnCx,
        ended: DomainEvent,
        answered: Answered,
        ran: (Vec<Message>, Advice, BatchEnd),
    ) -> Result<Option<End>, Fault> {
        let Answered {
            parts,
            calls,
            finish,
            context_tokens,
        } = answered;
        let (results, advice, end) = ran;
        let asked = !calls.is_empty();
        self.context.push_exchange(
            Message::Assistant {
                parts,
                calls,
                partial: false,
            },
            context_tokens,
            results,
        );
        cx.board.set_context(self.context.tokens());
        let recorded = cx.sink.durable(&self.id, ended);
        match end {
            BatchEnd::Done => {}
            BatchEnd::Cancelled => return recorded.map(|_| Some(End::Cancelled)),
            BatchEnd::Failed(fault) => {
                // The fault counts even where the journal can't take the end of the step any more.
                if let Err(error) = recorded {
                    tracing::error!(%error, "the end of a step could not be recorded");
                }
                return Err(fault);
            }
        }
        recorded?;
        match advice {
            Advice::None => {}
            Advice::Remind(text) => self.remind(cx, text)?,
            Advice::Stop(text, why) => {
                self.remind(cx, text)?;
                return Err(stopped(why));
            }
        }
        Ok(match finish {
            FinishReason::ToolCalls | FinishReason::Completed | FinishReason::Other if asked => {
                None
            }
            FinishReason::Truncated => Some(End::Stopped(StopReason::MaxTokens)),
            _ => Some(End::Stopped(StopReason::EndTurn)),
        })
    }
}

/// What a turn has gathered.
#[derive(Default)]
pub(super) struct Progress {
    /// Tokens, those of failed requests included.
    pub(super) usage: Usage,
    text: String,
    streak: Streak,
}

impl Progress {
    /// Of a turn that another process began.
    pub(super) fn of(usage: Usage, text: String) -> Self {
        Self {
            usage,
            text,
            streak: Streak::default(),
        }
    }

    pub(super) fn said(&mut self, parts: &[Part]) {
        let text = text_of(parts);
        if !text.is_empty() {
            self.text = text;
        }
    }

    pub(super) fn streak(&mut self) -> &mut Streak {
        &mut self.streak
    }
}

/// An answer whose calls have ended.
pub(super) struct Answered {
    /// Text and thinking.
    pub(super) parts: Vec<Part>,
    /// The calls, in the provider's order.
    pub(super) calls: Vec<ModelCall>,
    /// How it ended.
    pub(super) finish: FinishReason,
    /// Tokens in the context once it stands there.
    pub(super) context_tokens: u64,
}

/// The words of an answer.
pub(super) fn text_of(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        })
        .collect()
}

/// As what an input stands in the history.
pub(super) fn message_origin(origin: Origin) -> MessageOrigin {
    if origin.is_from_host() {
        MessageOrigin::User
    } else {
        MessageOrigin::Notice
    }
}

fn max_steps(limit: u32) -> Fault {
    let message = format!(
        "the turn took its {limit} steps without coming to an end; start another, or raise loop.max_steps_per_turn"
    );
    Fault::new(ErrorKind::MaxSteps, message)
        .with("name", "max_steps_per_turn")
        .with("value", limit)
}

fn stopped(why: Why) -> Fault {
    let (message, name, value) = match why {
        Why::Repeated => (
            "the model made the same call",
            "identical_calls",
            REPEAT_STOP,
        ),
        Why::Invalid => (
            "the model made only calls that could not be run",
            "invalid_calls",
            INVALID_STOP,
        ),
    };
    let message = format!("{message} {value} times in a row, so the turn was stopped");
    Fault::new(ErrorKind::LimitExceeded, message)
        .with("name", name)
        .with("value", value)
}
