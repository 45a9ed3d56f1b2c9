//! One model request: sent, streamed to hosts, tried again where that can help, and turned into an answer.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use longshore_protocol::id::{ItemId, ToolCallId};
use longshore_protocol::value::turn::FinishReason;
use longshore_protocol::value::usage::Usage;

use super::context::render::estimate_answer;
use super::turn::Progress;
use super::{Agent, TurnCx};
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::message::{Message, ModelCall, Part};
use crate::provider::assemble::{Assembler, Generated};
use crate::provider::error::{ErrorClass, ProviderError};
use crate::provider::retry::{Budget, Decision};
use crate::provider::{Delta, ModelRequest};

/// What came of a step's request.
pub(super) enum Answer {
    /// The whole answer. Its items are recorded, its calls are not yet.
    Whole(Whole),
    /// A cancel cut it off; what had come is in the history.
    Cancelled,
}

/// A whole answer.
pub(super) struct Whole {
    /// Text and thinking.
    pub(super) parts: Vec<Part>,
    /// Calls with our ids, in the provider's order.
    pub(super) calls: Vec<ModelCall>,
    /// How it ended.
    pub(super) finish: FinishReason,
    /// Tokens.
    pub(super) usage: Usage,
    /// Tokens in the context once it stands there.
    pub(super) context_tokens: u64,
}

impl Agent {
    /// Sends one request and follows its answer.
    ///
    /// # Errors
    /// The fault the turn fails with: the last provider error, or a storage fault.
    pub(super) async fn request(
        &mut self,
        cx: &TurnCx,
        step: u32,
        progress: &mut Progress,
    ) -> Result<Answer, Fault> {
        cx.sink.durable(
            &self.id,
            DomainEvent::StepStarted {
                turn: cx.turn.clone(),
                step,
            },
        )?;
        let mut budget = Budget::new(cx.limits.max_attempts_per_step);
        let mut attempt = 1;
        loop {
            let request = self.model_request(cx, attempt);
            let mut shown = Shown::default();
            let mut assembler = Assembler::new();
            let outcome = tokio::select! {
                biased;
                () = cx.cancel.cancelled() => Err(ProviderError::new(ErrorClass::Cancelled, "cancelled")),
                outcome = self.follow(cx, request, &mut assembler, &mut shown) => outcome,
            };
            let spent = assembler.usage().copied();
            if outcome.is_err() && cx.cancel.is_cancelled() {
                self.keep_partial(cx, step, assembler.into_partial(), &shown, spent, progress)?;
                return Ok(Answer::Cancelled);
            }
            let error = match outcome.map(|()| assembler.finish()) {
                Ok(Ok(answer)) => {
                    return Ok(Answer::Whole(self.take(cx, answer, shown, progress)?));
                }
                Ok(Err(error)) | Err(error) => error,
            };
            tracing::warn!(class = ?error.class, attempt, %error, "model request failed");
            if let Some(usage) = spent {
                self.spend(cx, usage, self.context.tokens(), progress)?;
            }
            let delay = if self.left_out.more(error.class, &self.context.messages()) {
                Duration::ZERO
            } else {
                let begun = !shown.items.is_empty() || !shown.calls.is_empty();
                match budget.decide(&error, begun, jitter(), cx.clock.now()) {
                    Decision::After(delay) => delay,
                    Decision::GiveUp { retry_at } => {
                        self.interrupt(cx, step, FinishReason::Error)?;
                        let fault = error.into_fault();
                        return Err(match retry_at {
                            Some(at) => fault.with("retryAt", at.to_string()),
                            None => fault,
                        });
                    }
                }
            };
            attempt += 1;
            cx.sink.live(
                &self.id,
                DomainEvent::StepRetrying {
                    turn: cx.turn.clone(),
                    step,
                    attempt,
                    max_attempts: budget.max_attempts(),
                    delay_ms: delay.as_millis() as u64,
                    error: error.into_fault().to_failure(),
                    discard: shown.ids(),
                },
            );
            if cx
                .cancel
                .run_until_cancelled(tokio::time::sleep(delay))
                .await
                .is_none()
            {
                self.interrupt(cx, step, FinishReason::Interrupted)?;
                return Ok(Answer::Cancelled);
            }
        }
    }

    fn model_request(&self, cx: &TurnCx, attempt: u32) -> ModelRequest {
        let mut messages = self.context.messages();
        self.left_out.apply(&mut messages);
        ModelRequest {
            session: self.session.clone(),
            lane: Arc::from(self.id.as_str()),
            cwd: cx.workspace.cwd.to_string_lossy().into(),
            script: cx.script.clone(),
            system: self.system.clone().unwrap_or_else(|| Arc::from("")),
            messages,
            tools: cx.tools.defs(),
            effort: cx.effort.clone(),
            attempt,
        }
    }

    /// Streams an answer to hosts and into the assembler.
    async fn follow(
        &mut self,
        cx: &TurnCx,
        request: ModelRequest,
        assembler: &mut Assembler,
        shown: &mut Shown,
    ) -> Result<(), ProviderError> {
        let mut deltas = cx.model.stream(request, cx.cancel.clone()).await?;
        while let Some(delta) = deltas.next().await {
            let delta = delta?;
            assembler.push(&delta);
            self.show(cx, delta, shown);
        }
        Ok(())
    }

    fn show(&mut self, cx: &TurnCx, delta: Delta, shown: &mut Shown) {
        match delta {
            Delta::Text(text) if !text.is_empty() => {
                let (item, offset) = shown.item(Kind::Message, &mut self.ids, text.len());
                cx.sink
                    .live(&self.id, DomainEvent::MessageDelta { item, offset, text });
            }
            Delta::Thinking { text, signature } => {
                let (item, offset) = shown.item(Kind::Thinking, &mut self.ids, text.len());
                shown.sealed = signature.is_some();
                if !text.is_empty() {
                    cx.sink
                        .live(&self.id, DomainEvent::ThinkingDelta { item, offset, text });
                }
            }
            Delta::CallStarted { slot, name, .. } => {
                shown.sealed = true;
                let call = ShownCall {
                    slot,
                    id: self.ids.call(),
                    name: name.into(),
                    bytes: 0,
                };
                cx.sink.live(&self.id, call.delta(0, String::new()));
                shown.calls.push(call);
            }
            Delta::CallArguments { slot, text } => {
                if let Some(call) = shown.calls.iter_mut().find(|call| call.slot == slot) {
                    let offset = call.bytes;
                    call.bytes += text.len() as u64;
                    cx.sink.live(&self.id, call.delta(offset, text));
                }
            }
            Delta::CallReplaced { slot, text } => {
                if let Some(call) = shown.calls.iter_mut().find(|call| call.slot == slot) {
                    call.bytes = text.len() as u64;
                    cx.sink.live(&self.id, call.delta(0, text));
                }
            }
            Delta::Text(_) | Delta::Usage(_) | Delta::Finished { .. } => {}
        }
    }

    /// Records the items of a whole answer and what it cost, before any of its calls runs.
    fn take(
        &mut self,
        cx: &TurnCx,
        answer: Generated,
        shown: Shown,
        progress: &mut Progress,
    ) -> Result<Whole, Fault> {
        self.record_items(cx, &answer.parts, &shown, Completeness::Whole)?;
        let calls: Vec<ModelCall> = answer
            .calls
            .into_iter()
            .map(|call| ModelCall {
                id: shown
                    .calls
                    .iter()
                    .find(|shown| shown.slot == call.slot)
                    .map_or_else(|| self.ids.call(), |shown| shown.id.clone()),
                provider_id: call.provider_id.map(Into::into),
                name: call.name.into(),
                arguments: call.arguments.into(),
                extras: call.extras,
            })
            .collect();
        let parts = answer.parts;
        let usage = answer.usage.unwrap_or_else(|| Usage {
            input_other: self.context.tokens(),
            output: estimate_answer(&parts, &calls),
            estimated: true,
            ..Usage::default()
        });
        let context_tokens = match usage.total() {
            0 => self.context.tokens() + estimate_answer(&parts, &calls),
            reported => reported,
        };
        self.spend(cx, usage, context_tokens, progress)?;
        if let Some(value) = cx.model.state(&self.session) {
            cx.sink.state(
                &self.id,
                StateRecord::ModelState {
                    key: cx.model.info().id.clone(),
                    value,
                },
            )?;
        }
        Ok(Whole {
            parts,
            calls,
            finish: answer.finish,
            usage,
            context_tokens,
        })
    }

    /// Records what a request cost, whatever came of it.
    fn spend(
        &mut self,
        cx: &TurnCx,
        usage: Usage,
        context_tokens: u64,
        progress: &mut Progress,
    ) -> Result<(), Fault> {
        self.usage.add(&usage);
        progress.usage.add(&usage);
        cx.sink.state(
            &self.id,
            StateRecord::Spent {
                usage,
                context_tokens,
            },
        )?;
        let context_window = cx.model.info().max_context_size;
        cx.sink.live(
            &self.id,
            DomainEvent::SessionUsage {
                context_tokens,
                context_window,
                total: self.usage,
            },
        );
        Ok(())
    }

    /// Keeps what a cancelled answer had said; its calls, never whole, are dropped.
    fn keep_partial(
        &mut self,
        cx: &TurnCx,
        step: u32,
        parts: Vec<Part>,
        shown: &Shown,
        spent: Option<Usage>,
        progress: &mut Progress,
    ) -> Result<(), Fault> {
        self.record_items(cx, &parts, shown, Completeness::Partial)?;
        let says_something = parts
            .iter()
            .any(|part| matches!(part, Part::Text(text) if !text.trim().is_empty()));
        let added = if says_something {
            estimate_answer(&parts, &[])
        } else {
            0
        };
        let context_tokens = self.context.tokens() + added;
        if let Some(usage) = spent {
            self.spend(cx, usage, context_tokens, progress)?;
        }
        if says_something {
            let answer = Message::Assistant {
                parts,
                calls: Vec::new(),
                partial: true,
            };
            self.context
                .push_exchange(answer, context_tokens, Vec::new());
        }
        self.interrupt(cx, step, FinishReason::Interrupted)
    }

    fn interrupt(&self, cx: &TurnCx, step: u32, finish: FinishReason) -> Result<(), Fault> {
        cx.sink.durable(
            &self.id,
            DomainEvent::StepInterrupted {
                turn: cx.turn.clone(),
                step,
                finish,
            },
        )?;
        Ok(())
    }

    fn record_items(
        &mut self,
        cx: &TurnCx,
        parts: &[Part],
        shown: &Shown,
        completeness: Completeness,
    ) -> Result<(), Fault> {
        let partial = completeness == Completeness::Partial;
        for (n, part) in parts.iter().enumerate() {
            let item = shown
                .items
                .get(n)
                .map_or_else(|| self.ids.item(), |shown| shown.id.clone());
            let turn = cx.turn.clone();
            let event = match part {
                Part::Text(text) => DomainEvent::MessageCompleted {
                    turn,
                    item,
                    text: text.clone(),
                    partial,
                },
                Part::Thinking(thinking) => DomainEvent::ThinkingCompleted {
                    turn,
                    item,
                    text: thinking.text.clone(),
                    signature: thinking.signature.clone(),
                    partial,
                },
                // No wire gives images back yet; one that does would have to say how hosts see them.
                Part::Image { .. } => continue,
            };
            cx.sink.durable(&self.id, event)?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Completeness {
    Whole,
    Partial,
}

/// What hosts have seen of an answer. Items follow the assembler's blocks one to one.
#[derive(Default)]
struct Shown {
    items: Vec<ShownItem>,
    calls: Vec<ShownCall>,
    /// The last item takes no more: a call or a signature came in between.
    sealed: bool,
}

struct ShownItem {
    kind: Kind,
    id: ItemId,
    bytes: u64,
}

struct ShownCall {
    slot: usize,
    id: ToolCallId,
    name: Arc<str>,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message,
    Thinking,
}

impl Shown {
    /// The item that takes so many more bytes, and where they begin in it.
    fn item(&mut self, kind: Kind, ids: &mut super::Ids, bytes: usize) -> (ItemId, u64) {
        let continues = !self.sealed && self.items.last().is_some_and(|last| last.kind == kind);
        if !continues {
            self.items.push(ShownItem {
                kind,
                id: ids.item(),
                bytes: 0,
            });
            self.sealed = false;
        }
        let last = self.items.len() - 1;
        let item = &mut self.items[last];
        let offset = item.bytes;
        item.bytes += bytes as u64;
        (item.id.clone(), offset)
    }

    fn ids(&self) -> Vec<String> {
        let items = self.items.iter().map(|item| item.id.to_string());
        items
            .chain(self.calls.iter().map(|call| call.id.to_string()))
            .collect()
    }
}

impl ShownCall {
    fn delta(&self, offset: u64, text: String) -> DomainEvent {
        DomainEvent::ToolDelta {
            call: self.id.clone(),
            name: self.name.clone(),
            offset,
            text,
        }
    }
}

/// A number from 0 to 1 that differs between processes and calls, for spreading retries.
fn jitter() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(0) % 1000) as f64 / 1000.0
}
