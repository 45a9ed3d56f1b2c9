//! The look at the disk: every link followed, as far as the path exists.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use longshore_protocol::value::tool::Operation;

use super::lexical::is_within;
use super::{PathError, Workspace, guarded};
use crate::kernel::access::{Access, FileAccess, RealAccess};
use crate::os::{blocking, fs};

/// Links followed before a path counts as a circle; the same as the kernel's own limit.
const MAX_LINKS: usize = 40;

/// A path with every link resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealPath {
    /// The longest existing part resolved, the rest appended.
    pub path: PathBuf,
    /// A link was followed.
    pub crosses_link: bool,
    /// A link leads to something that does not exist.
    pub dangling: bool,
}

impl RealPath {
    /// Resolves an absolute folded path (blocking).
    ///
    /// # Errors
    /// [`PathError::Loop`].
    pub fn of(path: &Path) -> Result<Self, PathError> {
        let mut real = Self {
            path: PathBuf::new(),
            crosses_link: false,
            dangling: false,
        };
        // What is left to walk, with the mark of names that came from a link.
        let mut left: VecDeque<(OsString, bool)> = VecDeque::new();
        push_front(&mut left, path, false);
        if path.is_absolute() {
            real.path.push("/");
        }
        let mut n_links = 0;
        let mut exists = true;
        // What `real.path` names is known to be no directory: the system goes nowhere from there, not even up.
        let mut is_file = false;
        while let Some((name, from_link)) = left.pop_front() {
            if name == ".." {
                // Steps up come from links only.
                real.dangling |= is_file;
                exists &= !is_file;
                is_file = false;
                real.path.pop();
                continue;
            }
            let next = real.path.join(&name);
            if !exists {
                real.path = next;
                continue;
            }
            match fs::symlink_metadata(&next) {
                Ok(meta) if meta.is_symlink() => {
                    n_links += 1;
                    let target = fs::read_link(&next).ok().filter(|_| n_links <= MAX_LINKS);
                    let Some(target) = target else {
                        return Err(PathError::Loop {
                            path: path.to_owned(),
                        });
                    };
                    real.crosses_link = true;
                    if target.is_absolute() {
                        real.path = PathBuf::from("/");
                    }
                    push_front(&mut left, &target, true);
                }
                Ok(meta) => {
                    is_file = !meta.is_dir();
                    real.path = next;
                }
                // Whether it is missing or hidden from us, nothing below it can be a link that we would follow.
                Err(_) => {
                    exists = false;
                    real.dangling = from_link;
                    real.path = next;
                }
            }
        }
        Ok(real)
    }
}

fn push_front(left: &mut VecDeque<(OsString, bool)>, path: &Path, from_link: bool) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => left.push_front((name.to_owned(), from_link)),
            Component::ParentDir => left.push_front((OsString::from(".."), from_link)),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
}

/// The real path of a directory of the user's own choosing; as written where it leads in a circle.
pub(super) fn best_effort(path: &Path) -> PathBuf {
    RealPath::of(path).map_or_else(|_| path.to_owned(), |real| real.path)
}

impl Workspace {
    /// Looks at the disk for what a call declared, in the same order.
    ///
    /// # Errors
    /// A file to be read or written is protected by its real path, or its path goes through a link that leads to
    /// nothing or in a circle.
    pub async fn real_accesses(
        self: &Arc<Self>,
        accesses: &[Access],
    ) -> Result<Vec<RealAccess>, PathError> {
        if accesses.iter().all(|access| matches!(access, Access::All)) {
            return Ok(accesses.iter().map(|_| RealAccess::all()).collect());
        }
        let (workspace, accesses) = (Arc::clone(self), accesses.to_vec());
        blocking::run(move || workspace.real_accesses_blocking(&accesses)).await
    }

    /// As [`Self::real_accesses`], on this thread.
    pub fn real_accesses_blocking(
        &self,
        accesses: &[Access],
    ) -> Result<Vec<RealAccess>, PathError> {
        let control_dirs = guarded::control_dirs(self);
        let roots = self.roots_now();
        accesses
            .iter()
            .map(|access| match access {
                Access::All => Ok(RealAccess::all()),
                Access::File(file) => self.real_file(access, file, &roots, &control_dirs),
            })
            .collect()
    }

    /// The real roots; one that is gone is resolved again, since the link to it may lead elsewhere by now.
    fn roots_now(&self) -> Vec<PathBuf> {
        let written = std::iter::once(&self.cwd).chain(&self.additional_dirs);
        let roots = self.real_roots.iter().zip(written);
        roots
            .map(|(real, written)| match fs::symlink_metadata(real) {
                Err(error) if error.is_not_found() => best_effort(written),
                Ok(_) | Err(_) => real.clone(),
            })
            .collect()
    }

    fn real_file(
        &self,
        access: &Access,
        file: &FileAccess,
        roots: &[PathBuf],
        control_dirs: &[PathBuf],
    ) -> Result<RealAccess, PathError> {
        let real = RealPath::of(&file.path)?;
        let sensitive = self.is_sensitive(&file.path) || self.is_sensitive(&real.path);
        if sensitive && file.operation != Operation::Search {
            return Err(PathError::Sensitive {
                path: file.path.clone(),
            });
        }
        if real.dangling {
            return Err(PathError::Dangling {
                path: file.path.clone(),
                target: real.path,
            });
        }
        let inside = self.contains(&file.path);
        // A link that stands in the workspace and leads to a place the user listed may be read through, never written.
        let is_trusted = || {
            let mut trusted = self.trusted_link_targets.iter();
            inside && !access.writes() && trusted.any(|dir| is_within(&real.path, dir))
        };
        let real_inside = roots.iter().any(|root| is_within(&real.path, root)) || is_trusted();
        Ok(RealAccess {
            access: access.clone(),
            inside,
            real_inside,
            crosses_link: real.crosses_link,
            sensitive,
            guarded: guarded::is_guarded(
                self,
                [&file.path, &real.path],
                access.writes(),
                control_dirs,
            ),
            real: real.path,
        })
    }
}
