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
mod describe;
mod environment;
mod find;
mod going_on;
mod live;
mod login_path;
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
use std::time::Duration;

use tokio::sync::OnceCell;

use self::describe::{AtLimit, Background, LeftRunning};
use self::login_path::Probe;
use crate::config::values::{ShellConfig, TaskConfig};
use crate::os::env::Env;
use crate::os::process::Processes;

/// The shell of this machine and what commands run with. One per process, shared by `Arc`.
pub struct Shell {
    program: PathBuf,
    env: Vec<(OsString, OsString)>,
    login_path: Probe,
    /// The `PATH` of commands, once the login shell was asked, where it is another than the environment's.
    path: OnceCell<Option<OsString>>,
    /// Output at which a command is ended; `None` is never.
    output_kill_bytes: Option<u64>,
    /// Whether what a command leaves running is ended.
    kill_survivors: bool,
    /// How long a command in the background may run where its call names no time.
    background_timeout: Option<Duration>,
    /// Whether a foreground command whose time is over goes on in the background.
    auto_background: bool,
}

impl Shell {
    /// Finds the shell and makes the environment of its children (a few looks at the disk).
    ///
    /// Never fails: where there is no usable shell, each call says so.
    pub fn new(env: &Env, config: &ShellConfig, tasks: &TaskConfig) -> Self {
        let program = find::shell(env, config.path.as_deref());
        Self {
            env: environment::for_commands(env, &config.env_exclude, &program),
            login_path: Probe::of(env),
            path: OnceCell::new(),
            program,
            output_kill_bytes: Some(config.output_kill_bytes).filter(|bytes| *bytes > 0),
            kill_survivors: config.kill_survivors,
            background_timeout: tasks.bash_timeout,
            auto_background: tasks.auto_background,
        }
    }

    /// What is so for an agent that can look after commands in the background.
    fn background(&self) -> Background {
        Background::Available {
            at_limit: if self.auto_background {
                AtLimit::Background
            } else {
                AtLimit::Kill
            },
            default_limit: self.background_timeout,
            left_running: if self.kill_survivors {
                LeftRunning::Ended
            } else {
                LeftRunning::Task
            },
        }
    }

    /// Asks the user's login shell for its `PATH`, so that the first command need not wait for it.
    pub async fn prepare(&self, processes: &Processes) {
        self.path_of_commands(processes).await;
    }

    /// The `PATH` for commands, where it is another than the environment's.
    async fn path_of_commands(&self, processes: &Processes) -> Option<&OsString> {
        let ask = || self.login_path.clone().run(processes.clone());
        self.path.get_or_init(ask).await.as_ref()
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
