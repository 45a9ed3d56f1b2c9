//! Tokens spent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens of one or more model requests. The input total is the sum of the three input fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Input tokens neither read from nor written to a cache.
    pub input_other: u64,
    /// Input tokens read from the provider's cache.
    pub input_cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub input_cache_creation: u64,
    /// Output tokens, thinking included.
    pub output: u64,
    /// The part of `output` that was thinking, where the provider says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// True where the provider reported nothing and these are estimates.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Usage {
    /// All input tokens.
    pub fn input(&self) -> u64 {
        self.input_other + self.input_cache_read + self.input_cache_creation
    }

    /// All tokens.
    pub fn total(&self) -> u64 {
        self.input() + self.output
    }

    /// Adds another request's tokens, field by field.
    pub fn add(&mut self, other: &Self) {
        self.input_other += other.input_other;
        self.input_cache_read += other.input_cache_read;
        self.input_cache_creation += other.input_cache_creation;
        self.output += other.output;
        self.reasoning = match (self.reasoning, other.reasoning) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
        };
        self.estimated |= other.estimated;
    }
}
