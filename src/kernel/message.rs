//! The conversation as the model sees it: what histories are made of and adapters convert from.

use std::sync::Arc;

use longshore_protocol::id::ToolCallId;
use serde_json::{Map, Value};

/// One entry of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Words from outside the model.
    User {
        /// What was said.
        parts: Vec<Part>,
        /// Why it is there; never sent to a provider.
        origin: MessageOrigin,
    },
    /// Words of the model, and the calls it asked for.
    Assistant {
        /// Text and thinking, in the order they came.
        parts: Vec<Part>,
        /// The calls, in the provider's order.
        calls: Vec<ModelCall>,
        /// True where the answer was cut off by a cancel.
        partial: bool,
    },
    /// What came of a call.
    ToolResult {
        /// The call.
        call: ToolCallId,
        /// Text and images.
        parts: Vec<Part>,
        /// Whether it failed.
        is_error: bool,
        /// Side text for the model only: never shown to people.
        note: Option<String>,
    },
}

/// Why a user-role message exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOrigin {
    /// A person or driver wrote it.
    User,
    /// The engine reminds the model of something.
    Reminder,
    /// The engine tells the model what happened outside its turns.
    Notice,
    /// The user's own command, or what it wrote.
    Shell,
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text(Arc<str>),
    /// Thinking of the model.
    Thinking(Thinking),
    /// An image of a format every provider takes (PNG, JPEG, GIF, WebP).
    Image {
        /// Canonical MIME type.
        mime: Arc<str>,
        /// The bytes, base64.
        data: Arc<str>,
    },
}

/// A block of thinking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thinking {
    /// What can be read of it.
    pub text: Arc<str>,
    /// The provider's signature or encrypted form, sent back unchanged to the model that made it.
    pub signature: Option<Arc<str>>,
}

/// A call the model asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// Our id, unique in the session.
    pub id: ToolCallId,
    /// The provider's id, sent back on its wire only.
    pub provider_id: Option<Arc<str>>,
    /// The tool.
    pub name: Arc<str>,
    /// The argument text as it came; empty means `{}`.
    pub arguments: Arc<str>,
    /// Unknown members of the provider's call, sent back unchanged.
    pub extras: Map<String, Value>,
}

/// A tool as a model request declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDef {
    /// The name.
    pub name: Arc<str>,
    /// What the model is told.
    pub description: Arc<str>,
    /// JSON Schema of the arguments.
    pub parameters: Arc<Value>,
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }
}

impl Message {
    /// A user-role message of one text.
    pub fn user(text: impl Into<Arc<str>>, origin: MessageOrigin) -> Self {
        Self::User {
            parts: vec![Part::text(text)],
            origin,
        }
    }
}
