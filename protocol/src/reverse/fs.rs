//! Text files as a host holds them, unsaved changes included.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::SessionId;

/// Params of `fs/readTextFile`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadTextFileParams {
    /// The session on whose behalf it is asked.
    pub session_id: SessionId,
    /// Absolute path, inside the session's directories.
    pub path: String,
}

/// Answer to `fs/readTextFile`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadTextFileResult {
    /// The whole text.
    pub content: String,
}

/// Params of `fs/writeTextFile`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteTextFileParams {
    /// The session on whose behalf it is asked.
    pub session_id: SessionId,
    /// Absolute path, inside the session's directories.
    pub path: String,
    /// The whole new text.
    pub content: String,
}

/// Answer to `fs/writeTextFile`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WriteTextFileResult {}
