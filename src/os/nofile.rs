//! The limit on open files: high for this process, as it was for its children.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit this process started with, for its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalLimit(pub(super) Rlimit);

/// Raises this process's soft limit to the hard one. Returns what it was when it changed.
///
/// Children must not inherit it: programs that use `select` break on descriptors above 1024. Only Linux lets a parent
/// set a child's limit without code between fork and exec, so elsewhere nothing is raised.
pub fn raise() -> Option<OriginalLimit> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    if raised == before {
        return None;
    }
    setrlimit(Resource::Nofile, raised).ok()?;
    Some(OriginalLimit(before))
}
