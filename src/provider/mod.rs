//! Model clients: one form of request and of answer, and a wire behind it.
//!
//! A client turns a [`ModelRequest`] into a stream of [`Delta`]s. Quirks of servers end in its own folder: what comes out
//! has calls in first-seen order with one slot each, and errors with a class that decides whether to try again. Clients
//! hold no conversation. The step that consumes the stream, retries and their events belong to `agent`.

pub mod error;

pub mod assemble;
pub mod registry;
pub mod retry;

pub mod chat;
pub mod scripted;

mod classify;
mod delay;
mod estimate;
mod redact;
mod slots;

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use longshore_protocol::id::SessionId;
use longshore_protocol::value::model::ModelInfo;
use longshore_protocol::value::turn::FinishReason;
use longshore_protocol::value::usage::Usage;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use self::error::ProviderError;
use crate::kernel::message::{Message, ToolDef};

/// A named model behind a wire.
pub trait ModelClient: Send + Sync {
    /// What hosts see of it.
    fn info(&self) -> &ModelInfo;

    /// Sends one request. The outer future ends when the response has begun; dropping either ends the request.
    /// `cancel` ends a wait for the network at once with [`error::ErrorClass::Cancelled`].
    fn stream(
        &self,
        request: ModelRequest,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<DeltaStream, ProviderError>>;

    /// What has to be kept with the session so that a later process goes on where this one stopped, such as a script's
    /// place; asked after each answer.
    fn state(&self, _session: &SessionId) -> Option<Value> {
        None
    }

    /// Puts back what [`ModelClient::state`] gave.
    fn restore(&self, _session: &SessionId, _state: Value) {}

    /// The session is gone: forget what was held for it.
    fn forget(&self, _session: &SessionId) {}
}

/// The answer to a request, as it comes.
pub type DeltaStream = BoxStream<'static, Result<Delta, ProviderError>>;

/// One model request.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Whose it is, for cache affinity and for scripted models.
    pub session: SessionId,
    /// `main`; children and summaries have lanes of their own.
    pub lane: Arc<str>,
    /// The session's directory, for scripted templates.
    pub cwd: Arc<str>,
    /// A script given at `session/create`, for scripted models only.
    pub script: Option<Arc<str>>,
    /// The system prompt.
    pub system: Arc<str>,
    /// The conversation: valid for any provider (each call has one result right after it).
    pub messages: Vec<Arc<Message>>,
    /// Tools on offer.
    pub tools: Arc<[ToolDef]>,
    /// Thinking effort; `None` is the model's own default.
    pub effort: Option<Arc<str>>,
    /// 1 for the first try of a step.
    pub attempt: u32,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Thinking. A signature closes the block.
    Thinking {
        /// The text.
        text: String,
        /// The provider's signature.
        signature: Option<String>,
    },
    /// A call begins. Slots count from 0 in first-seen order.
    CallStarted {
        /// Which call of this answer.
        slot: usize,
        /// The provider's id, where it gave one.
        provider_id: Option<String>,
        /// The tool, not empty.
        name: String,
        /// Unknown members, to be sent back.
        extras: Map<String, Value>,
    },
    /// More argument text of a call.
    CallArguments {
        /// Which call.
        slot: usize,
        /// The text.
        text: String,
    },
    /// The whole argument text of a call, replacing what came before.
    CallReplaced {
        /// Which call.
        slot: usize,
        /// The text.
        text: String,
    },
    /// Tokens; the last one counts.
    Usage(Usage),
    /// The end: always the last delta of a whole answer.
    Finished {
        /// What it means.
        finish: FinishReason,
        /// How the provider spelt it.
        raw: Option<String>,
    },
}
