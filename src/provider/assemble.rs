//! Folds the deltas of one answer into the answer.
//!
//! The step that shows deltas live feeds the same ones to an [`Assembler`]. Pieces are appended to growing buffers and
//! never read again, so the work is linear in the size of the answer.

use std::collections::HashMap;

use longshore_protocol::value::turn::FinishReason;
use longshore_protocol::value::usage::Usage;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::Delta;
use super::error::{ErrorClass, ProviderError};
use crate::kernel::message::{Part, Thinking};

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Text and thinking, in the order they came.
    pub parts: Vec<Part>,
    /// Calls, by slot.
    pub calls: Vec<AssembledCall>,
    /// Tokens, where anything was said about them.
    pub usage: Option<Usage>,
    /// How it ended. [`FinishReason::ToolCalls`] wherever the answer is whole and has calls.
    pub finish: FinishReason,
    /// How the provider spelt it.
    pub raw_finish: Option<String>,
}

/// A call of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct AssembledCall {
    /// Its slot, as in the deltas.
    pub slot: usize,
    /// The provider's id, where it gave one.
    pub provider_id: Option<String>,
    /// The tool, not empty.
    pub name: String,
    /// The argument text as it came; empty means `{}`.
    pub arguments: String,
    /// Unknown members, to be sent back.
    pub extras: Map<String, Value>,
}

impl AssembledCall {
    /// Whether the argument text is whole JSON, or empty. In an answer that was truncated, a call for which this is
    /// false was cut off and must not run.
    pub fn is_complete(&self) -> bool {
        self.arguments.trim().is_empty()
            || serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }
}

/// Collects an answer.
#[derive(Debug, Default)]
pub struct Assembler {
    blocks: Vec<Block>,
    /// The last block takes no more text: something else came in between.
    sealed: bool,
    calls: Vec<AssembledCall>,
    by_slot: HashMap<usize, usize>,
    usage: Option<Usage>,
    finish: Option<(FinishReason, Option<String>)>,
    n_orphans: usize,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Thinking {
        text: String,
        signature: Option<String>,
    },
}

impl Assembler {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a piece.
    pub fn push(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) if text.is_empty() => {}
            Delta::Text(text) => match self.blocks.last_mut() {
                Some(Block::Text(held)) if !self.sealed => held.push_str(text),
                _ => self.open(Block::Text(text.clone())),
            },
            Delta::Thinking { text, signature } => match self.blocks.last_mut() {
                Some(Block::Thinking {
                    text: held,
                    signature: closed @ None,
                }) if !self.sealed => {
                    held.push_str(text);
                    closed.clone_from(signature);
                }
                _ => self.open(Block::Thinking {
                    text: text.clone(),
                    signature: signature.clone(),
                }),
            },
            Delta::CallStarted {
                slot,
                provider_id,
                name,
                extras,
            } => {
                self.sealed = true;
                self.by_slot.insert(*slot, self.calls.len());
                self.calls.push(AssembledCall {
                    slot: *slot,
                    provider_id: provider_id.clone(),
                    name: name.clone(),
                    arguments: String::new(),
                    extras: extras.clone(),
                });
            }
            Delta::CallArguments { slot, text } => match self.call(*slot) {
                Some(call) => call.arguments.push_str(text),
                None => self.n_orphans += 1,
            },
            Delta::CallReplaced { slot, text } => match self.call(*slot) {
                Some(call) => call.arguments.clone_from(text),
                None => self.n_orphans += 1,
            },
            Delta::Usage(usage) => self.usage = Some(*usage),
            Delta::Finished { finish, raw } => self.finish = Some((*finish, raw.clone())),
        }
    }

    /// The tokens said so far; they count even where the answer failed.
    pub fn usage(&self) -> Option<&Usage> {
        self.usage.as_ref()
    }

    /// What can be kept of an answer that was cut off by a cancel: its text and thinking so far.
    pub fn into_partial(self) -> Vec<Part> {
        into_parts(self.blocks)
    }

    /// The answer.
    ///
    /// # Errors
    /// `StreamInterrupted` where the end never came, `Filtered` where the provider filtered all there was to see, and
    /// `EmptyResponse` where there is neither text nor a call.
    pub fn finish(self) -> Result<Generated, ProviderError> {
        if self.n_orphans > 0 {
            tracing::warn!(
                n = self.n_orphans,
                "argument pieces of unknown calls were ignored"
            );
        }
        let Some((finish, raw_finish)) = self.finish else {
            return Err(ProviderError::new(
                ErrorClass::StreamInterrupted,
                "the model's answer broke off before its end",
            ));
        };
        let has_text = self
            .blocks
            .iter()
            .any(|block| matches!(block, Block::Text(text) if !text.trim().is_empty()));
        if !has_text && self.calls.is_empty() {
            return Err(nothing(finish, &self.blocks));
        }
        let finish = match finish {
            FinishReason::Completed | FinishReason::Other if !self.calls.is_empty() => {
                FinishReason::ToolCalls
            }
            FinishReason::ToolCalls if self.calls.is_empty() => FinishReason::Completed,
            other => other,
        };
        let mut calls = self.calls;
        calls.sort_by_key(|call| call.slot);
        Ok(Generated {
            parts: into_parts(self.blocks),
            calls,
            usage: self.usage,
            finish,
            raw_finish,
        })
    }

    fn open(&mut self, block: Block) {
        self.blocks.push(block);
        self.sealed = false;
    }

    fn call(&mut self, slot: usize) -> Option<&mut AssembledCall> {
        let at = *self.by_slot.get(&slot)?;
        self.calls.get_mut(at)
    }
}

fn nothing(finish: FinishReason, blocks: &[Block]) -> ProviderError {
    if finish == FinishReason::Filtered {
        return ProviderError::new(
            ErrorClass::Filtered,
            "the provider filtered the model's answer",
        );
    }
    let what = if blocks
        .iter()
        .any(|block| matches!(block, Block::Thinking { .. }))
    {
        "only thinking"
    } else {
        "nothing"
    };
    let why = match finish {
        FinishReason::Truncated => " (truncated by its output limit)",
        FinishReason::Paused => " (paused)",
        _ => "",
    };
    ProviderError::new(
        ErrorClass::EmptyResponse,
        format!("the model answered with {what}{why}"),
    )
}

fn into_parts(blocks: Vec<Block>) -> Vec<Part> {
    blocks
        .into_iter()
        .map(|block| match block {
            Block::Text(text) => Part::Text(text.into()),
            Block::Thinking { text, signature } => Part::Thinking(Thinking {
                text: text.into(),
                signature: signature.map(Into::into),
            }),
        })
        .collect()
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
