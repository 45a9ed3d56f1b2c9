//! Shell commands, in the foreground.
//!
//! [`Shell`] knows which shell there is and what its children's environment is; there is one per process. [`Bash`] is
//! the tool. One call is one [`run`], which pumps output into a [`capture`] (what the model reads, and the log) and
//! [`live`] (what hosts see meanwhile) until the command and everything in its group have ended.
//!
//! Invariants:
//! - memory is bounded whatever a command writes: a ring of the latest output, the text the model may see, a queue for
//!   the log;
//! - nothing a command or a disk does keeps a cancel from being noticed;
//! - output the model sees whole leaves nothing on the disk; anything cut is in a log that the result names;
//! - sizes count raw bytes, and logs hold raw bytes.
//!
//! Processes are started and ended by `os::process` alone. Nothing here judges commands. Start with [`bash`].

mod bash;
mod capture;
mod environment;
mod find;
mod live;
mod log;
mod report;
mod ring;
mod run;
mod sample;
mod spill;
mod utf8;
mod view;

pub use bash::Bash;

#[cfg(test)]
mod bash_tests;
#[cfg(test)]
mod capture_tests;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::values::ShellConfig;
use crate::kernel::limits::PROCESS_GRACE;
use crate::os::env::Env;
use crate::os::ids::{IdSource, RandomIds};
use crate::os::process::Processes;

/// The shell of this machine and what commands run with. One per process, shared by `Arc`.
pub struct Shell {
    program: PathBuf,
    env: Vec<(OsString, OsString)>,
    processes: Processes,
    ids: RandomIds,
    /// Between TERM and KILL.
    grace: Duration,
    /// Output at which a command is ended; `None` is never.
    output_kill_bytes: Option<u64>,
}

impl Shell {
    /// Finds the shell and makes the environment of its children (a few looks at the disk).
    ///
    /// Never fails: where there is no usable shell, each call says so.
    pub fn new(env: &Env, config: &ShellConfig, processes: Processes) -> Self {
        let program = find::shell(env, config.path.as_deref());
        Self {
            env: environment::for_commands(env, &config.env_exclude, &program),
            program,
            processes,
            ids: RandomIds::default(),
            grace: PROCESS_GRACE,
            output_kill_bytes: Some(config.output_kill_bytes).filter(|bytes| *bytes > 0),
        }
    }

    /// The shell's program file.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its name, such as `bash`.
    fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or(self.program.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// An id that marks the processes of one call.
    fn new_task_id(&self) -> String {
        format!("bash-{}", self.ids.short(8))
    }
}

impl fmt::Debug for Shell {
    /// Without the environment, which may hold what is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shell")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}
