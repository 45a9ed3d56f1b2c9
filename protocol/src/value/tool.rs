//! Tools and what their calls touch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a call does to something it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Reads a file.
    Read,
    /// Searches a tree.
    Search,
    /// Writes a file.
    Write,
    /// Reads and writes a file.
    Readwrite,
    /// May touch anything: runs alone.
    All,
}

/// One thing a call touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessInfo {
    /// What is done to it.
    pub operation: Operation,
    /// Absolute path; absent for `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The path with links resolved, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_path: Option<String>,
    /// True where everything below the path is meant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
}

/// A tool as a host sees it in `tool/list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolInfo {
    /// The name the model uses.
    pub name: String,
    /// What the model is told about it.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: serde_json::Value,
}

/// A stream of a running call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgressStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A line about the state, replacing the one before.
    Status,
}
