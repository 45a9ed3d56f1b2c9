//! Shell commands.
//!
//! [`Shell`] knows which shell there is and what its children's environment is; there is one per process. [`Bash`] is
//! the tool. One call is one [`run`]: an attached task of the session's task manager, whose output goes through a
//! [`tap`] into a [`capture`] (what the model reads) and [`live`] (what hosts see meanwhile).
//!
//! Invariants:
//! - memory is bounded whatever a command writes;
//! - nothing a command or a disk does keeps a cancel from being noticed;
//! - output the model sees whole leaves nothing on the disk; anything cut is in a log that the result names;
//! - sizes count raw bytes, and logs hold raw bytes.
//!
//! Processes are started, pumped and ended by `background` and `os::process` alone. Nothing here judges commands. Start with [`bash`].

mod bash;
mod capture;
mod environment;
mod find;
mod live;
mod report;
mod run;
mod sample;
mod tap;
pub mod user;
mod utf8;
mod view;

pub use bash::Bash;

#[cfg(test)]
mod bash_tests;
#[cfg(test)]
mod capture_tests;
#[cfg(test)]
mod testing;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::values::ShellConfig;
use crate::os::env::Env;

/// The shell of this machine and what commands run with. One per process, shared by `Arc`.
pub struct Shell {
    program: PathBuf,
    env: Vec<(OsString, OsString)>,
    /// Output at which a command is ended; `None` is never.
    output_kill_bytes: Option<u64>,
}

impl Shell {
    /// Finds the shell and makes the environment of its children (a few looks at the disk).
    ///
    /// Never fails: where there is no usable shell, each call says so.
    pub fn new(env: &Env, config: &ShellConfig) -> Self {
        let program = find::shell(env, config.path.as_deref());
        Self {
            env: environment::for_commands(env, &config.env_exclude, &program),
            program,
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
}

impl fmt::Debug for Shell {
    /// Without the environment, which may hold what is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shell")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}
