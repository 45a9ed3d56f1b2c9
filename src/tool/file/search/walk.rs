//! Going over a tree, on several threads, past everything a search must not see.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use ignore::types::Types;

use super::ignores::{Present, Rules};
use super::queue::Queue;
use super::{Crew, Filter};
use crate::os::fs::{self, DirReader, FileKind, OpenedFile, is_temp_name};
use crate::path::Workspace;
use crate::tool::file::target::{Failed, Target, io_reason};

/// Control directories of version control systems; a work tree may have a file of that name instead.
const VERSION_CONTROL: [&str; 6] = [".git", ".svn", ".hg", ".bzr", ".jj", ".sl"];

/// Files of one directory that a thread takes at once.
const FILES_AT_ONCE: usize = 32;

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
    /// Directories in scope are visited too.
    pub with_dirs: bool,
}

/// A file in scope, or a directory where those are visited.
pub(in super::super) struct Entry<'w> {
    /// From the root.
    pub relative: &'w Path,
    pub is_dir: bool,
    dir: &'w DirReader,
    name: &'w CStr,
}

impl Entry<'_> {
    /// Opens it, if it still is a regular file.
    pub(in super::super) fn open(&self) -> io::Result<OpenedFile> {
        self.dir.open_file(self.name)
    }

    /// When it was last modified.
    pub(in super::super) fn modified(&self) -> Option<SystemTime> {
        self.dir.modified(self.name).ok()
    }
}

/// Looks at what stands where a search is to begin (blocking).
pub(in super::super) fn open_root(target: &Target, workspace: &Workspace) -> Result<Root, Failed> {
    let kind = fs::kind_of_real(target.real()).map_err(|error| target.open_error(&error))?;
    let within = target.real().strip_prefix(workspace.real_cwd());
    let named = within.unwrap_or(target.real());
    if let Some(control) = named.iter().find(|name| is_version_control(name)) {
        return Err(Failed::new(format!(
            "{} belongs to version control ({}) and is never searched. Ask git or the like instead.",
            target.shown,
            control.to_string_lossy()
        )));
    }
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

/// A part of the walk.
enum Job {
    /// A directory by its path from the root, with the rules that come to it from above, where such count.
    Dir(PathBuf, Option<Arc<Rules>>),
    /// Some files of a directory.
    Files(Arc<Listed>, Range<usize>),
}

/// A directory whose names were read.
struct Listed {
    /// From the root.
    relative: PathBuf,
    handle: DirReader,
    rules: Option<Arc<Rules>>,
    files: Names,
}

/// Names one after the other, each with its NUL.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Names {
    fn push(&mut self, name: &CStr) {
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, range: Range<usize>) -> impl Iterator<Item = &CStr> {
        range.filter_map(|index| {
            let begin = index
                .checked_sub(1)
                .map_or(Some(0), |before| self.ends.get(before).copied());
            let bytes = self.bytes.get(begin?..*self.ends.get(index)?)?;
            CStr::from_bytes_with_nul(bytes).ok()
        })
    }
}

/// A walk that is under way.
struct Walker<'w> {
    walk: &'w Walk,
    tally: &'w Tally,
    crew: &'w Crew,
    root: DirReader,
    queue: Queue<Job>,
}

/// The path of an entry, whole and from the root, in one buffer that is used again and again.
struct EntryPath {
    bytes: Vec<u8>,
    n_root: usize,
    n_dir: usize,
}

impl EntryPath {
    fn new(root: &Path) -> Self {
        let mut bytes = root.as_os_str().as_bytes().to_vec();
        if bytes.last() != Some(&b'/') {
            bytes.push(b'/');
        }
        let n_root = bytes.len();
        Self {
            bytes,
            n_root,
            n_dir: n_root,
        }
    }

    fn enter(&mut self, relative: &Path) {
        self.bytes.truncate(self.n_root);
        self.bytes
            .extend_from_slice(relative.as_os_str().as_bytes());
        if self.bytes.len() > self.n_root {
            self.bytes.push(b'/');
        }
        self.n_dir = self.bytes.len();
    }

    fn set_name(&mut self, name: &CStr) {
        self.bytes.truncate(self.n_dir);
        self.bytes.extend_from_slice(name.to_bytes());
    }

    fn dir(&self) -> &Path {
        Path::new(OsStr::from_bytes(
            self.bytes.get(..self.n_dir).unwrap_or_default(),
        ))
    }

    fn whole(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.bytes))
    }

    fn relative(&self) -> &Path {
        Path::new(OsStr::from_bytes(
            self.bytes.get(self.n_root..).unwrap_or_default(),
        ))
    }
}

impl Walk {
    /// Hands every file in scope to visitors made for each thread (blocking).
    ///
    /// # Errors
    /// Where the search was to begin can't be looked at.
    pub(in super::super) fn run<V>(
        &self,
        tally: &Tally,
        crew: &Crew,
        visitor: impl Fn() -> V + Sync,
    ) -> Result<(), Failed>
    where
        V: FnMut(&Entry<'_>),
    {
        let root =
            DirReader::open(&self.root.real).map_err(|error| self.cannot_begin(&error.source))?;
        let Some((begin, rules)) = self.begin() else {
            return Ok(());
        };
        let walker = Walker {
            walk: self,
            tally,
            crew,
            root,
            queue: Queue::new(Job::Dir(begin, rules)),
        };
        std::thread::scope(|scope| {
            for _ in 1..crew.n_threads() {
                scope.spawn(|| walker.work(visitor(), || crew.stop.is_set() || crew.lets_go()));
            }
            walker.work(visitor(), || crew.stop.is_set());
        });
        Ok(())
    }

    /// Opens the one file that was named; rules for walking don't apply to it (blocking).
    ///
    /// # Errors
    /// It can't be opened, or is no longer a file.
    pub(in super::super) fn open_named(&self) -> Result<OpenedFile, Failed> {
        let real = &self.root.real;
        let dir = real.parent().unwrap_or(real);
        let name = real.file_name().map(|name| CString::new(name.as_bytes()));
        let opened = match (DirReader::open(dir), name) {
            (Ok(dir), Some(Ok(name))) => dir.open_file(&name),
            (Err(error), _) => Err(error.source),
            _ => Err(io::ErrorKind::InvalidFilename.into()),
        };
        opened.map_err(|error| self.cannot_begin(&error))
    }

    fn cannot_begin(&self, error: &io::Error) -> Failed {
        let shown = super::shown_path(&self.workspace, &self.root, Path::new(""));
        if fs::is_gone(error) {
            return Failed::new(format!(
                "{shown} changed since the call was approved: it is gone, or something else stands there."
            ));
        }
        Failed::new(format!("{shown} can't be searched: {}.", io_reason(error)))
    }
}

impl Walk {
    /// The directory to begin in, from the root, and the rules that come to it from above; none where everything in it
    /// is left out.
    fn begin(&self) -> Option<(PathBuf, Option<Arc<Rules>>)> {
        let begin = self
            .filter
            .as_ref()
            .map_or(Path::new(""), Filter::begins_in);
        if begin.iter().any(is_version_control) {
            return None;
        }
        if self.include_ignored {
            return Some((begin.to_owned(), None));
        }
        let mut dir = self.root.real.clone();
        let mut rules = Rules::above(&dir);
        for name in begin {
            rules = rules.below(&dir, Present::look(&dir));
            dir.push(name);
            if rules.hide(&dir, true) {
                return None;
            }
        }
        Some((begin.to_owned(), Some(rules)))
    }

    /// Whether anything below a directory can be in scope, as far as its path tells.
    fn enters(&self, relative: &Path) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| filter.may_keep_below(relative))
    }

    /// Whether a file is asked for, whatever else may keep it out.
    fn asks_for(&self, relative: &Path) -> bool {
        let by_type = |types: &Types| !types.matched(relative, false).is_ignore();
        self.filter
            .as_ref()
            .is_none_or(|filter| filter.keeps(relative))
            && self.types.as_ref().is_none_or(by_type)
    }

    /// Protected by its real path or by the one it would be written with.
    pub(in super::super) fn is_sensitive(&self, real: &Path, relative: &Path) -> bool {
        self.workspace.is_sensitive(real)
            || (self.root.declared != self.root.real
                && self
                    .workspace
                    .is_sensitive(&self.root.declared_path(relative)))
    }

    /// A place that could not be looked at, shown like other paths, with the reason.
    pub(in super::super) fn place(&self, relative: &Path, error: &io::Error) -> String {
        let shown = super::shown_path(&self.workspace, &self.root, relative);
        format!("{shown} ({})", io_reason(error))
    }
}

impl Walker<'_> {
    /// Works until nothing is left or `ends` says so.
    fn work(&self, mut visit: impl FnMut(&Entry<'_>), ends: impl Fn() -> bool) {
        let mut path = EntryPath::new(&self.walk.root.real);
        while let Some((job, _busy)) = self.queue.next(&ends) {
            match job {
                Job::Dir(relative, rules) => self.list(relative, rules, &mut path, &mut visit),
                Job::Files(listed, range) => self.visit(&listed, range, &mut path, &mut visit),
            }
        }
    }

    /// Reads the names of a directory, adds the directories in it to the work and visits its files, or leaves them to
    /// whoever is free where they are many.
    fn list(
        &self,
        relative: PathBuf,
        rules: Option<Arc<Rules>>,
        path: &mut EntryPath,
        visit: &mut impl FnMut(&Entry<'_>),
    ) {
        let handle = match self.root.open_below(&relative) {
            Ok(handle) => handle,
            Err(error) if fs::is_gone(&error) => return,
            Err(error) => return self.tally.trouble(self.walk.place(&relative, &error)),
        };
        let (mut files, mut dirs) = (Names::default(), Names::default());
        let mut present = Present::default();
        let read = handle.names(|name, kind| {
            let bare = OsStr::from_bytes(name.to_bytes());
            present.see(name.to_bytes());
            match kind {
                _ if is_version_control(bare) => {}
                FileKind::File if !is_temp_name(bare) => files.push(name),
                FileKind::Dir => dirs.push(name),
                // Links are not followed, and nothing else can be searched.
                _ => {}
            }
            !self.crew.stop.is_set()
        });
        if let Err(error) = read {
            self.tally.trouble(self.walk.place(&relative, &error));
        }
        path.enter(&relative);
        let rules = rules.map(|rules| rules.below(path.dir(), present));
        let mut jobs = Vec::new();
        for name in dirs.get(0..dirs.len()) {
            path.set_name(name);
            let is_hidden = rules
                .as_ref()
                .is_some_and(|rules| rules.hide(path.whole(), true));
            if !is_hidden && self.walk.enters(path.relative()) {
                if self.walk.with_dirs && !self.walk.is_sensitive(path.whole(), path.relative()) {
                    visit(&Entry {
                        relative: path.relative(),
                        is_dir: true,
                        dir: &handle,
                        name,
                    });
                }
                jobs.push(Job::Dir(path.relative().to_owned(), rules.clone()));
            }
        }
        let n_files = files.len();
        let listed = Arc::new(Listed {
            relative,
            handle,
            rules,
            files,
        });
        let begins = (FILES_AT_ONCE..n_files).step_by(FILES_AT_ONCE);
        jobs.extend(begins.map(|begin| {
            let end = n_files.min(begin + FILES_AT_ONCE);
            Job::Files(Arc::clone(&listed), begin..end)
        }));
        self.queue.add(jobs);
        self.visit(&listed, 0..n_files.min(FILES_AT_ONCE), path, visit);
    }

    fn visit(
        &self,
        listed: &Listed,
        range: Range<usize>,
        path: &mut EntryPath,
        visit: &mut impl FnMut(&Entry<'_>),
    ) {
        path.enter(&listed.relative);
        for name in listed.files.get(range) {
            if self.crew.stop.is_set() {
                return;
            }
            path.set_name(name);
            let relative = path.relative();
            if !self.walk.asks_for(relative) {
                continue;
            }
            // Before the ignore files: that a secret is ignored is no reason not to tell that it was left out.
            if self.walk.is_sensitive(path.whole(), relative) {
                self.tally.skip(relative.to_owned());
                continue;
            }
            let rules = listed.rules.as_ref();
            if rules.is_some_and(|rules| rules.hide(path.whole(), false)) {
                continue;
            }
            visit(&Entry {
                relative,
                is_dir: false,
                dir: &listed.handle,
                name,
            });
        }
    }
}

fn is_version_control(name: &OsStr) -> bool {
    VERSION_CONTROL.iter().any(|control| name == *control)
}
