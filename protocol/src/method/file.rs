//! Files of a workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::SessionId;

/// Params of `file/search`: either a session or a directory says where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FileSearchParams")]
pub struct SearchParams {
    /// A session, whose working directory is searched. It is not loaded for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// A directory, absolute, where there is no session yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What was typed so far. Each word in it must occur in the path, its characters in their order but not
    /// necessarily together; small letters stand for capital ones too. Empty: what lies highest, the newest first.
    #[serde(default)]
    pub query: String,
    /// Items wanted at most: 50 where absent, never more than 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Result of `file/search`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FileSearchResult")]
pub struct SearchResult {
    /// Files and directories, the best fit first; the same tree and query give the same order.
    pub items: Vec<FoundFile>,
    /// The tree was too large to be looked at as a whole in time: a better fit may be missing.
    pub incomplete: bool,
}

/// A file or directory that a query may mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundFile {
    /// From the working directory, with `/` between names.
    pub path: String,
    /// A directory.
    pub is_directory: bool,
    /// How well it fits. Comparable within one result only; 0 where the query is empty.
    pub score: u32,
    /// Which characters of `path` the query stands for, in order, counted from 0 in Unicode code points.
    pub positions: Vec<u32>,
}
