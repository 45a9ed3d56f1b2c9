use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::os::env::find_in_path;
use crate::os::fs;

/// The variable that marks a child and all its descendants with the id of the task they belong to, so that one that
/// left its group is still found.
pub const TASK_MARK: &str = "LONGSHORE_TASK_ID";

/// Grace of a child whose owner named none.
const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// What the child reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stdin {
    /// `/dev/null`: end of file at once.
    #[default]
    Null,
    /// A pipe, written through [`super::Running::take_stdin`].
    Piped,
}

/// Where the child's standard error goes. Its standard output is always captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stderr {
    /// Captured beside standard output.
    #[default]
    Captured,
    /// This process's own.
    Inherited,
}

/// What becomes of processes that are left running in the child's group when it exits by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Survivors {
    /// They are ended with it: TERM, a second, KILL.
    #[default]
    End,
    /// They are followed, see [`super::Running::follow`].
    Keep,
}

/// A program to run: everything about it is said here, nothing is inherited but limits and identity.
#[derive(Debug, Clone)]
pub struct Command {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) cwd: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) mark: Option<String>,
    pub(super) stdin: Stdin,
    pub(super) stderr: Stderr,
    pub(super) survivors: Survivors,
    pub(super) drop_grace: Duration,
}

impl Command {
    /// A program, absolute or a bare name to be found in the `PATH` given with [`Self::env`], started in the absolute
    /// directory `cwd`. Without more it has no arguments and an empty environment.
    pub fn new(program: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: Vec::new(),
            mark: None,
            stdin: Stdin::default(),
            stderr: Stderr::default(),
            survivors: Survivors::default(),
            drop_grace: DEFAULT_GRACE,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds variables to the environment; a later value of a name wins.
    #[must_use]
    pub fn env<K: Into<OsString>, V: Into<OsString>>(
        mut self,
        vars: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.env.extend(
            vars.into_iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        self
    }

    /// Sets [`TASK_MARK`] to a task's id. Without it, descendants that leave the group are found only while the chain
    /// of parents leads to them.
    #[must_use]
    pub fn mark(mut self, task_id: impl Into<String>) -> Self {
        let task_id = task_id.into();
        self.env.push((TASK_MARK.into(), task_id.clone().into()));
        self.mark = Some(task_id);
        self
    }

    /// Chooses what the child reads.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Chooses where standard error goes.
    #[must_use]
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = stderr;
        self
    }

    /// Chooses what becomes of what it leaves running.
    #[must_use]
    pub fn survivors(mut self, survivors: Survivors) -> Self {
        self.survivors = survivors;
        self
    }

    /// The grace between TERM and KILL when the [`super::Running`] is dropped while the child runs (5 s at first).
    #[must_use]
    pub fn drop_grace(mut self, grace: Duration) -> Self {
        self.drop_grace = grace;
        self
    }

    /// The program and its arguments.
    pub fn line(&self) -> Vec<OsString> {
        let program = self.program.clone().into_os_string();
        std::iter::once(program)
            .chain(self.args.iter().cloned())
            .collect()
    }

    /// Another program in the same directory with the same environment.
    #[must_use]
    pub fn replaced_by(
        mut self,
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = OsString>,
    ) -> Self {
        self.program = program.into();
        self.args = args.into_iter().collect();
        self
    }

    /// Finds the program file: a bare name in the child's `PATH`, a relative path from its directory.
    pub(super) fn locate(&self) -> Result<PathBuf, SpawnError> {
        let is_bare = self.program.components().count() == 1 && !self.program.is_absolute();
        if !is_bare {
            return Ok(self.cwd.join(&self.program));
        }
        let path = self.env.iter().rev().find(|(name, _)| name == "PATH");
        path.and_then(|(_, path)| find_in_path(path, self.program.as_os_str()))
            .ok_or_else(|| SpawnError::Program {
                program: self.program.clone(),
                source: io::ErrorKind::NotFound.into(),
            })
    }

    /// Says what a failed spawn failed on. The system's answer does not tell program and directory apart.
    pub(super) fn explain(&self, program: &Path, source: io::Error) -> SpawnError {
        if let Err(cwd_error) = check_dir(&self.cwd) {
            return SpawnError::Cwd {
                cwd: self.cwd.clone(),
                source: cwd_error,
            };
        }
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => SpawnError::Program {
                program: program.to_owned(),
                source,
            },
            _ if !fs::is_executable(program) => SpawnError::Program {
                program: program.to_owned(),
                source,
            },
            _ => SpawnError::System { source },
        }
    }
}

/// Whether a process could be started in a directory.
pub(super) fn check_dir(dir: &Path) -> io::Result<()> {
    if !dir.is_absolute() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path is not absolute",
        ));
    }
    if !fs::metadata(dir).map_err(|error| error.source)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let access = rustix::fs::accessat(
        rustix::fs::CWD,
        dir,
        rustix::fs::Access::EXEC_OK,
        rustix::fs::AtFlags::EACCESS,
    );
    Ok(access?)
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The directory is missing, is not one, or may not be entered.
    #[error("cannot start in {}: {source}", cwd.display())]
    Cwd {
        /// The directory.
        cwd: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The program is missing or cannot be executed.
    #[error("cannot run {}: {source}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The system has no room for another process, or the arguments are too long.
    #[error("cannot start a process: {source}")]
    System {
        /// The system's answer.
        #[from]
        source: io::Error,
    },
    /// This process is shutting down.
    #[error("shutting down: no more processes are started")]
    Closed,
}

/// The value of a variable in a NUL-separated environment block.
pub(super) fn value_in_block<'a>(block: &'a [u8], name: &OsStr) -> Option<&'a [u8]> {
    block.split(|byte| *byte == 0).find_map(|entry| {
        entry
            .strip_prefix(name.as_encoded_bytes())?
            .strip_prefix(b"=")
    })
}
