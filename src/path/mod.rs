//! Path policy.
use std::path::PathBuf;
/// Where a session's paths are anchored and what lies inside.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The session's directory.
    pub cwd: PathBuf,
}
