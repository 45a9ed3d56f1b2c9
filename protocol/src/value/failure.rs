//! Failures that travel inside values and events, and warnings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorKind;

/// Why something ended badly; the same kinds as in RPC errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The kind hosts branch on.
    pub kind: ErrorKind,
    /// One short sentence that says what to do.
    pub message: String,
    /// True where trying again later can help.
    pub retryable: bool,
    /// HTTP status of the provider, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// When trying again can help, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<String>,
}

/// Something that was ignored, repaired or left out, said to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Warning {
    /// What it is about: `config`, `permission`, `journal`, `ask`, `tool`, `media`, …
    pub topic: String,
    /// One sentence.
    pub message: String,
    /// The file at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The key at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Warning {
    /// A warning that is not about a place in a file.
    pub fn new(topic: &str, message: impl Into<String>) -> Self {
        Self {
            topic: topic.to_owned(),
            message: message.into(),
            file: None,
            line: None,
            key: None,
        }
    }
}
