//! Going over a tree, on several threads, past everything a search must not see.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::types::Types;
use ignore::{DirEntry, WalkBuilder, WalkState};

use super::{Filter, Pattern, Stop};
use crate::os::fs::{self, FileKind, is_temp_name};
use crate::path::{Workspace, in_work_tree};
use crate::tool::file::target::{Failed, Target, io_reason};

/// Control directories of version control systems; a work tree may have a file of that name instead.
const VERSION_CONTROL: [&str; 6] = [".git", ".svn", ".hg", ".bzr", ".jj", ".sl"];

/// Where a search begins.
#[derive(Debug, Clone)]
pub(in super::super) struct Root {
    /// As the call declared it.
    pub declared: PathBuf,
    /// With links resolved.
    pub real: PathBuf,
    /// A single file.
    pub is_file: bool,
}

/// What a search left out, gathered by all its threads.
#[derive(Debug, Default)]
pub(in super::super) struct Tally {
    skipped: Mutex<BTreeSet<PathBuf>>,
    trouble: Mutex<BTreeSet<String>>,
}

/// A tree and the rules for going over it.
#[derive(Debug)]
pub(in super::super) struct Walk {
    pub workspace: Arc<Workspace>,
    pub root: Root,
    /// Ignore files don't count.
    pub include_ignored: bool,
    pub types: Option<Types>,
    pub filter: Option<Filter>,
    /// Where only some directories can hold a match.
    pub narrow: Option<Pattern>,
}

/// Looks at what stands where a search is to begin (blocking).
pub(in super::super) fn open_root(target: &Target) -> Result<Root, Failed> {
    let kind = fs::kind_of_real(target.real()).map_err(|error| target.open_error(&error))?;
    match kind {
        FileKind::File | FileKind::Dir => Ok(Root {
            declared: target.declared().to_owned(),
            real: target.real().to_owned(),
            is_file: kind == FileKind::File,
        }),
        other => Err(Failed::new(format!(
            "{} is {}; only files and directories can be searched.",
            target.shown,
            other.describe()
        ))),
    }
}

impl Root {
    /// The path of an entry as it would be written by who named the root.
    pub(in super::super) fn declared_path(&self, relative: &Path) -> PathBuf {
        if relative.as_os_str().is_empty() {
            self.declared.clone()
        } else {
            self.declared.join(relative)
        }
    }
}

impl Tally {
    /// A protected file stands in the scope of the search.
    pub(in super::super) fn skip(&self, relative: PathBuf) {
        self.skipped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(relative);
    }

    /// Something could not be looked at.
    pub(in super::super) fn trouble(&self, what: String) {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(what);
    }

    /// Protected files, sorted.
    pub(in super::super) fn skipped(&self) -> Vec<PathBuf> {
        self.skipped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }

    /// Places that could not be looked at, sorted.
    pub(in super::super) fn troubles(&self) -> Vec<String> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }
}

impl Walk {
    /// Hands every file in scope, by entry and path from the root, to visitors made for each thread (blocking).
    pub(in super::super) fn run<'s, V>(
        &'s self,
        tally: &'s Tally,
        stop: &'s Stop,
        n_threads: usize,
        visitor: impl Fn() -> V,
    ) where
        V: FnMut(&DirEntry, &Path) + Send + 's,
    {
        self.builder().threads(n_threads).build_parallel().run(|| {
            let mut visit = visitor();
            Box::new(move |entry| {
                if stop.is_set() {
                    return WalkState::Quit;
                }
                match entry {
                    Ok(entry) => self.visit(&entry, tally, &mut visit),
                    Err(error) => tally.trouble(self.reason(&error)),
                }
                WalkState::Continue
            })
        });
    }

    fn visit(&self, entry: &DirEntry, tally: &Tally, visit: &mut impl FnMut(&DirEntry, &Path)) {
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if !is_file || is_temp_name(entry.file_name()) {
            return;
        }
        let Ok(relative) = entry.path().strip_prefix(&self.root.real) else {
            return;
        };
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| !filter.keeps(relative))
        {
            return;
        }
        if self.is_sensitive(entry.path(), relative) {
            tally.skip(relative.to_owned());
            return;
        }
        visit(entry, relative);
    }

    /// Protected by its real path or by the one it would be written with.
    pub(in super::super) fn is_sensitive(&self, real: &Path, relative: &Path) -> bool {
        self.workspace.is_sensitive(real)
            || self
                .workspace
                .is_sensitive(&self.root.declared_path(relative))
    }

    fn builder(&self) -> WalkBuilder {
        let root = &self.root.real;
        let mut builder = WalkBuilder::new(root);
        builder.hidden(false).follow_links(false).current_dir(root);
        if self.include_ignored {
            builder
                .ignore(false)
                .git_ignore(false)
                .git_global(false)
                .git_exclude(false)
                .parents(false);
        } else {
            builder.add_custom_ignore_filename(".rgignore");
            if !in_work_tree(root) {
                // Ignore files count here too, but none from above: a `*` in the home would hide everything.
                builder.require_git(false).parents(false);
            }
        }
        if let Some(types) = &self.types {
            builder.types(types.clone());
        }
        let (root, narrow) = (root.clone(), self.narrow.clone());
        builder.filter_entry(move |entry| {
            if is_version_control(entry.file_name()) {
                return false;
            }
            let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
            match (&narrow, entry.path().strip_prefix(&root)) {
                (Some(narrow), Ok(relative)) if is_dir => narrow.may_match_below(relative),
                _ => true,
            }
        });
        builder
    }

    /// A walk error by its place, shown like other paths.
    fn reason(&self, error: &ignore::Error) -> String {
        match error {
            ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
                self.reason(err)
            }
            ignore::Error::WithPath { path, err } => {
                let relative = path.strip_prefix(&self.root.real).unwrap_or(path);
                let shown = super::shown_path(&self.workspace, &self.root, relative);
                format!("{shown} ({})", self.reason(err))
            }
            ignore::Error::Io(error) => io_reason(error),
            other => other.to_string(),
        }
    }
}

fn is_version_control(name: &OsStr) -> bool {
    VERSION_CONTROL.iter().any(|control| name == *control)
}
