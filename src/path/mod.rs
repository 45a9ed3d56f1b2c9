//! Path policy: what a path a model wrote stands for, whether it lies in the workspace, and which files stay closed.
//!
//! It works in two steps. The lexical one ([`Workspace::resolve`]) is pure: it expands, joins and folds, and refuses
//! what can be refused by name alone. The real one ([`Workspace::real_accesses`]) looks at the disk once, follows every
//! link, and says what the path really is; decisions and schedules are made from that, and the file is opened by that
//! real path without following any link, so that the answer holds.
//!
//! Invariants: where a file is protected, names are compared in a form common to all spellings that some file system
//! takes for the same ([`fold`]); a file is protected when its written *or* its real path is; inside means at or below a
//! root by whole components. None of this binds programs a shell command starts. Nothing here knows tools or rules. Start
//! with [`Workspace`].

mod error;
mod fold;
mod guarded;
mod lexical;
mod real;
mod sensitive;
#[cfg(any(windows, test))]
mod windows;

pub use error::PathError;
pub use lexical::Lexical;
pub use real::RealPath;
pub use sensitive::{BadGlob, SensitiveFiles};

use std::path::{Path, PathBuf};

use crate::os::fs;

/// Where a session's paths are anchored, what lies inside, and which files stay closed.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The session's directory as it was given: absolute, `.` and `..` folded.
    pub cwd: PathBuf,
    /// Further directories that count as inside, absolute and folded.
    pub additional_dirs: Vec<PathBuf>,
    /// The user's home, for `~`.
    pub home: Option<PathBuf>,
    /// Where longshore keeps its own files: writes there are guarded.
    pub longshore_home: Option<PathBuf>,
    /// Files that file tools refuse.
    pub sensitive: SensitiveFiles,
    /// The roots with links resolved, the working directory first.
    real_roots: Vec<PathBuf>,
    real_longshore_home: Option<PathBuf>,
    /// With links resolved.
    trusted_link_targets: Vec<PathBuf>,
}

/// What a [`Workspace`] is made of.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceOptions {
    /// The session's directory, absolute.
    pub cwd: PathBuf,
    /// Further directories that count as inside, absolute.
    pub additional_dirs: Vec<PathBuf>,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// Where longshore keeps its own files.
    pub longshore_home: Option<PathBuf>,
    /// Files that file tools refuse.
    pub sensitive: SensitiveFiles,
    /// Directories, absolute, that links in the workspace may lead to: what is read there through such a link counts as
    /// inside. Only the user lists them.
    pub trusted_link_targets: Vec<PathBuf>,
}

impl Workspace {
    /// Makes a workspace, resolving its roots on the disk (blocking).
    ///
    /// A root that does not exist is resolved as far as it does.
    pub fn open(options: WorkspaceOptions) -> Self {
        let cwd = lexical::fold(&options.cwd);
        let additional_dirs: Vec<_> = options
            .additional_dirs
            .iter()
            .map(|dir| lexical::fold(dir))
            .collect();
        let real_roots = std::iter::once(&cwd)
            .chain(&additional_dirs)
            .map(|root| real::best_effort(root))
            .collect();
        let home = options.home.map(|home| lexical::fold(&home));
        let longshore_home = options.longshore_home.map(|dir| lexical::fold(&dir));
        let real_longshore_home = longshore_home.as_deref().map(real::best_effort);
        let both = |dir: &Option<PathBuf>| -> Vec<PathBuf> {
            let written = dir.iter().cloned();
            written
                .chain(dir.as_deref().map(real::best_effort))
                .collect()
        };
        let mut sensitive = options.sensitive;
        sensitive.set_places(&both(&home), &both(&longshore_home));
        let trusted = options.trusted_link_targets.iter();
        let trusted_link_targets = trusted
            .map(|dir| real::best_effort(&lexical::fold(dir)))
            .collect();
        Self {
            cwd,
            additional_dirs,
            home,
            longshore_home,
            sensitive,
            real_roots,
            real_longshore_home,
            trusted_link_targets,
        }
    }

    /// A workspace of one directory, without home or settings (blocking).
    pub fn of_dir(cwd: impl Into<PathBuf>) -> Self {
        Self::open(WorkspaceOptions {
            cwd: cwd.into(),
            ..WorkspaceOptions::default()
        })
    }

    /// The working directory with links resolved.
    pub fn real_cwd(&self) -> &Path {
        self.real_roots.first().map_or(&self.cwd, |root| root)
    }

    /// Whether a folded absolute path lies at or below a root as the roots are written.
    pub fn contains(&self, path: &Path) -> bool {
        std::iter::once(&self.cwd)
            .chain(&self.additional_dirs)
            .any(|root| lexical::is_within(path, root))
    }

    /// Whether a path with links resolved lies at or below a root with links resolved.
    pub fn contains_real(&self, path: &Path) -> bool {
        let mut roots = self.real_roots.iter();
        roots.any(|root| lexical::is_within(path, root))
    }

    /// A real path below a root, by that root as it was given; `None` for what lies below none. For those who know the
    /// workspace by what it was opened as.
    pub fn as_given(&self, real: &Path) -> Option<PathBuf> {
        let given = std::iter::once(&self.cwd).chain(&self.additional_dirs);
        given
            .zip(&self.real_roots)
            .find_map(|(given, root)| Some(given.join(real.strip_prefix(root).ok()?)))
    }

    /// Whether the path, written or real, is a file that stays closed.
    pub fn is_sensitive(&self, path: &Path) -> bool {
        self.sensitive.covers(path)
    }

    /// How a path is shown: relative to the working directory where it lies below it, else whole.
    pub fn show(&self, path: &Path) -> String {
        let relative = path
            .strip_prefix(&self.cwd)
            .or_else(|_| path.strip_prefix(self.real_cwd()));
        match relative {
            Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
            Ok(relative) => relative.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }

    /// Whether the working directory lies in a git work tree: a `.git` file or directory stands in it or above it
    /// (blocking; asked anew for each decision, because it may be made or removed at any time).
    pub fn in_work_tree(&self) -> bool {
        in_work_tree(self.real_cwd())
    }
}

/// Whether a `.git` file or directory stands in a directory or above it (blocking).
pub fn in_work_tree(dir: &Path) -> bool {
    dir.ancestors()
        .any(|dir| fs::symlink_metadata(&dir.join(".git")).is_ok_and(|meta| !meta.is_symlink()))
}

#[cfg(test)]
mod forest_tests;
#[cfg(test)]
mod tests;
