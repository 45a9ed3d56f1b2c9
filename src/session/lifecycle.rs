//! Making, loading, listing and ending sessions.

use std::path::PathBuf;

use longshore_protocol::value::session::Mode;

/// What a new session is made of.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// Absolute, an existing directory.
    pub cwd: PathBuf,
    /// Likewise.
    pub additional_dirs: Vec<PathBuf>,
    /// By alias; the configured default where absent.
    pub model: Option<String>,
    /// Thinking effort.
    pub thinking: Option<String>,
    /// The configured default where absent.
    pub mode: Option<Mode>,
    /// The beginning of the first input where absent.
    pub title: Option<String>,
    /// Nothing is kept after it ends.
    pub ephemeral: bool,
    /// The host's own data.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// No person is there.
    pub unattended: bool,
    /// A script for scripted models.
    pub script: Option<String>,
}
