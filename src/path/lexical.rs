//! The pure step: from what a model wrote to an absolute path, by name alone.

use std::path::{Component, Path, PathBuf};

#[cfg(windows)]
use super::windows::below_home;
use super::{PathError, Workspace};

/// A path after the pure step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lexical {
    /// Absolute, `.` and `..` folded, links not resolved.
    pub path: PathBuf,
    /// At or below a root as it is written.
    pub inside: bool,
}

impl Workspace {
    /// Resolves the path of a file that is to be read or written.
    ///
    /// `~` and `~/…` mean the home; other relative paths join the working directory.
    ///
    /// # Errors
    /// The path is empty or holds a NUL, names a protected file, or is relative and leads out of the workspace.
    pub fn resolve(&self, written: &str) -> Result<Lexical, PathError> {
        let lexical = self.resolve_root(written)?;
        if self.is_sensitive(&lexical.path) {
            return Err(PathError::Sensitive { path: lexical.path });
        }
        Ok(lexical)
    }

    /// As [`Self::resolve`] for the root of a search, which may be protected: what is found there is left out later.
    pub fn resolve_root(&self, written: &str) -> Result<Lexical, PathError> {
        if written.is_empty() {
            return Err(PathError::Invalid {
                reason: "The path is empty.".to_owned(),
            });
        }
        if written.contains('\0') {
            return Err(PathError::Invalid {
                reason: "The path holds a NUL character.".to_owned(),
            });
        }
        #[cfg(windows)]
        let written = &*super::windows::native(written)?;
        let expanded = self.expand_home(written)?;
        let path = fold(&self.cwd.join(&expanded));
        let inside = self.contains(&path);
        if !inside && expanded.is_relative() {
            return Err(PathError::Outside {
                written: written.to_owned(),
                path,
            });
        }
        Ok(Lexical { path, inside })
    }

    fn expand_home(&self, written: &str) -> Result<PathBuf, PathError> {
        let Some(rest) = below_home(written) else {
            // `~user` stays as it is: a file may well be called that.
            return Ok(PathBuf::from(written));
        };
        match &self.home {
            Some(home) => Ok(home.join(rest)),
            None => Err(PathError::Invalid {
                reason:
                    "The home directory is not known here; use an absolute path instead of `~`."
                        .to_owned(),
            }),
        }
    }
}

/// What stands behind `~` where it means the home.
#[cfg(not(windows))]
fn below_home(written: &str) -> Option<&str> {
    let rest = written.strip_prefix('~')?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

/// Whether a folded path lies at or below a folded directory, by whole components.
pub(super) fn is_within(path: &Path, dir: &Path) -> bool {
    if cfg!(windows) {
        // There, case never tells two files apart.
        return super::fold::path(path).starts_with(super::fold::path(dir));
    }
    path.starts_with(dir)
}

/// Folds `.` and `..` by name. A `..` at the top stays there.
pub(super) fn fold(path: &Path) -> PathBuf {
    let mut folded = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                folded.pop();
            }
            other => folded.push(other),
        }
    }
    folded
}
