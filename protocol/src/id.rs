//! Newtype ids. All are opaque strings on the wire; cloning one is a reference count.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps the text of an id.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schemars::json_schema!({"type": "string", "description": concat!($($doc),+)})
            }
        }
    )+};
}

ids! {
    /// A session: a lower-case ULID, unique for ever.
    SessionId;
    /// A turn of a session: `t1`, `t2`, …
    TurnId;
    /// An agent of a session: `main`, or `sub-1`, `sub-2`, …
    AgentId;
    /// A displayed item (message or thinking block) of a session: `i1`, `i2`, …
    ItemId;
    /// A tool call of a session: `call_1`, `call_2`, … The provider's own id never leaves the provider's wire.
    ToolCallId;
    /// An approval asked of hosts: `a1`, `a2`, …
    ApprovalId;
    /// A question asked of hosts: `q1`, `q2`, …
    QuestionId;
    /// A task: `bash-`, `agent-` or `question-` and eight letters or digits. Unique in its session, never used again.
    TaskId;
    /// A command of the user's own: named by the host that runs it, or `cmd-` and eight letters or digits.
    CommandId;
    /// A cron job: 8 hex digits, unique in its session.
    JobId;
    /// A host attached to this server, for messages and status only.
    HostId;
}

impl AgentId {
    /// The agent that answers the user, as opposed to a child it started.
    pub fn main() -> Self {
        Self::new("main")
    }
}
