//! Ignore files: which entries of a directory git and ripgrep would leave out.
//!
//! A node is made for each directory that has ignore files or begins a repository, and points to the one above it. The
//! order of precedence is ripgrep's: `.rgignore`, `.ignore`, `.gitignore`, `.git/info/exclude`, the user's global file;
//! of each kind the nearest file that says anything decides.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::os::fs::{self, FileKind};

/// Of an ignore file, more is not read.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The rules in force in one directory.
#[derive(Debug)]
pub(super) struct Rules {
    above: Option<Arc<Rules>>,
    /// By [`Kind`].
    files: [Option<Gitignore>; 4],
    /// A repository begins here: git's rules from above end.
    begins_repository: bool,
    /// The search began in a repository, so repositories below it are told apart.
    in_repository: bool,
    global: Option<Arc<Gitignore>>,
}

/// Names that stand in a directory and say something about others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Present {
    custom: bool,
    ignore: bool,
    git_ignore: bool,
    git: bool,
    jj: bool,
}

/// Kinds of ignore files, in the order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Custom,
    Ignore,
    GitIgnore,
    GitExclude,
}

impl Kind {
    const ALL: [Self; 4] = [
        Self::Custom,
        Self::Ignore,
        Self::GitIgnore,
        Self::GitExclude,
    ];

    fn is_git(self) -> bool {
        matches!(self, Self::GitIgnore | Self::GitExclude)
    }
}

impl Present {
    /// Takes note of a name.
    pub(super) fn see(&mut self, name: &[u8]) {
        match name {
            b".rgignore" => self.custom = true,
            b".ignore" => self.ignore = true,
            b".gitignore" => self.git_ignore = true,
            b".git" => self.git = true,
            b".jj" => self.jj = true,
            _ => {}
        }
    }

    /// Looks into a directory whose names nobody reads (blocking).
    pub(super) fn look(dir: &Path) -> Self {
        let stands = |name: &str| fs::symlink_metadata(&dir.join(name)).is_ok();
        Self {
            custom: stands(".rgignore"),
            ignore: stands(".ignore"),
            git_ignore: stands(".gitignore"),
            git: stands(".git"),
            jj: stands(".jj"),
        }
    }

    /// A repository begins in the directory; a `.git` may be a directory or a file that names one.
    fn begins_repository(self, dir: &Path) -> bool {
        self.jj || (self.git && fs::kind_of(&dir.join(".git")).is_some())
    }
}

impl Rules {
    /// The rules that come to a search from above and from the user's global file (blocking).
    ///
    /// In a repository the ignore files of all directories above `root` count, except those that would hide the root
    /// itself: it was named, and a `*` in a home directory must not hide everything. Outside of one none from above
    /// count.
    pub(super) fn above(root: &Path) -> Arc<Self> {
        let in_repository = root
            .ancestors()
            .any(|dir| Present::look(dir).begins_repository(dir));
        // What is wrong with a line of it is for git to tell; the others count.
        let (global, _) = GitignoreBuilder::new(root).build_global();
        let global = Some(global)
            .filter(|global| !global.is_empty() && !global.matched(root, true).is_ignore());
        let mut rules = Arc::new(Self {
            above: None,
            files: [const { None }; 4],
            begins_repository: false,
            in_repository,
            global: global.map(Arc::new),
        });
        if in_repository {
            let above: Vec<_> = root.ancestors().skip(1).collect();
            for dir in above.into_iter().rev() {
                let mut here = rules.read(dir, Present::look(dir));
                for file in &mut here.files {
                    file.take_if(|file| file.matched_path_or_any_parents(root, true).is_ignore());
                }
                rules = here.unless_silent().unwrap_or(rules);
            }
        }
        rules
    }

    /// The rules for the entries of a directory below, given which names stand in it (blocking).
    pub(super) fn below(self: &Arc<Self>, dir: &Path, present: Present) -> Arc<Self> {
        let here = (present != Present::default()).then(|| self.read(dir, present).unless_silent());
        here.flatten().unwrap_or_else(|| Arc::clone(self))
    }

    /// Whether an entry, by its absolute path, is left out.
    pub(super) fn hide(&self, path: &Path, is_dir: bool) -> bool {
        let mut said = [None; 4];
        let mut git_ended = false;
        let mut node = Some(self);
        while let Some(rules) = node {
            for kind in Kind::ALL {
                let said = &mut said[kind as usize];
                if said.is_some() || (kind.is_git() && git_ended) {
                    continue;
                }
                let file = rules.files[kind as usize].as_ref();
                *said = match file.map_or(Match::None, |file| file.matched(path, is_dir)) {
                    Match::None => None,
                    Match::Ignore(_) => Some(true),
                    Match::Whitelist(_) => Some(false),
                };
            }
            if said[0].is_some() {
                break;
            }
            git_ended |= rules.begins_repository;
            node = rules.above.as_deref();
        }
        let by_file = said.into_iter().flatten().next();
        by_file.unwrap_or_else(|| {
            self.global
                .as_ref()
                .is_some_and(|global| global.matched(path, is_dir).is_ignore())
        })
    }

    fn read(self: &Arc<Self>, dir: &Path, present: Present) -> Self {
        let file = |is_there: bool, name: &str| is_there.then(|| read(dir, &dir.join(name)));
        let exclude = || read(dir, &git_dir(dir)?.join("info/exclude"));
        Self {
            above: Some(Arc::clone(self)),
            files: [
                file(present.custom, ".rgignore").flatten(),
                file(present.ignore, ".ignore").flatten(),
                file(present.git_ignore, ".gitignore").flatten(),
                present.git.then(exclude).flatten(),
            ],
            begins_repository: self.in_repository && present.begins_repository(dir),
            in_repository: self.in_repository,
            global: self.global.clone(),
        }
    }

    fn unless_silent(self) -> Option<Arc<Self>> {
        let says = self.begins_repository || self.files.iter().any(Option::is_some);
        says.then(|| Arc::new(self))
    }
}

/// Reads an ignore file for the entries of `dir`. Lines that can't be read are passed over, as git does.
fn read(dir: &Path, path: &Path) -> Option<Gitignore> {
    let text = read_some(path, MAX_FILE_BYTES).ok()?;
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&text);
    let mut builder = GitignoreBuilder::new(dir);
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Ok(line) = std::str::from_utf8(line) {
            // A glob that is not valid matches nothing; the other lines count.
            let _ = builder.add_line(None, line);
        }
    }
    builder.build().ok().filter(|file| !file.is_empty())
}

/// The directory of a repository that worktrees share.
fn git_dir(dir: &Path) -> Option<PathBuf> {
    let dot_git = dir.join(".git");
    if fs::kind_of(&dot_git)? != FileKind::File {
        return Some(dot_git);
    }
    let named = PathBuf::from(first_line(&dot_git)?.strip_prefix("gitdir: ")?);
    let named = dir.join(named);
    let common = first_line(&named.join("commondir"))?;
    Some(named.join(common))
}

fn first_line(path: &Path) -> Option<String> {
    let text = String::from_utf8(read_some(path, 1 << 16).ok()?).ok()?;
    text.lines().next().map(str::to_owned)
}

fn read_some(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let (file, _) = fs::open_read(path).map_err(|error| error.source)?;
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
#[path = "ignores_tests.rs"]
mod tests;
