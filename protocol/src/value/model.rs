//! Models a session can use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A model as a host sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    /// The alias by which it is chosen.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// The provider entry it belongs to.
    pub provider: String,
    /// Tokens its context holds.
    pub max_context_size: u64,
    /// `image_in`, `thinking`, `tool_use`, …
    pub capabilities: Vec<String>,
    /// Thinking efforts it takes; empty where it has none to choose from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub efforts: Vec<String>,
}
