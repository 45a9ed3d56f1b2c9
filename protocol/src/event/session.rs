//! Sessions and their state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::session::{Session, SessionPatch, Status, WaitingFor};
use crate::value::todo::Todo;
use crate::value::usage::Usage;

/// A session exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionCreatedEvent")]
pub struct Created {
    /// As it was made.
    pub session: Session,
}

/// Settings changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionUpdatedEvent")]
pub struct Updated {
    /// The changed ones.
    pub changed: SessionPatch,
}

/// What it does changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionStatusEvent")]
pub struct StatusChanged {
    /// The new status.
    pub status: Status,
    /// What it waits for, while waiting.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub waiting: WaitingFor,
}

fn is_empty(waiting: &WaitingFor) -> bool {
    waiting.approvals.is_empty() && waiting.questions.is_empty()
}

/// Tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionUsageEvent")]
pub struct UsageChanged {
    /// Tokens the next request starts from.
    pub context_tokens: u64,
    /// Tokens the model's context holds.
    pub context_window: u64,
    /// All spent so far.
    pub total: Usage,
}

/// It was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionClosedEvent")]
pub struct Closed {}

/// It is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionDeletedEvent")]
pub struct Deleted {}

/// Its conversation begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionClearedEvent")]
pub struct Cleared {}

/// The checklist changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TodoUpdatedEvent")]
pub struct TodoUpdated {
    /// All entries.
    pub todos: Vec<Todo>,
}

/// Live events were dropped here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ResyncEvent")]
pub struct Resync {
    /// The last durable event this host had got; the next ones follow.
    pub from_seq: u64,
}
