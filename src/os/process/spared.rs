//! Processes that are meant to outlive this one: they are watched and asked, never owned.

use std::process::Stdio;
use std::sync::PoisonError;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use super::command::Command;
use super::registry::{Inner, Processes};
use super::table::{ProcessKey, bears, is_current, start_of};
use super::{ExitWatch, SpawnError, TASK_MARK};
use crate::os::blocking;

/// A process that is spared when others are ended. Dropping this changes nothing for it.
#[derive(Debug)]
pub struct Spared {
    key: ProcessKey,
    watch: ExitWatch,
}

impl Processes {
    /// Starts a process that outlives this one: its streams go nowhere, it is in nobody's way when this process ends,
    /// and dropping what is returned does not end it. It is to leave this process's session by itself.
    ///
    /// # Errors
    /// See [`SpawnError`]; nothing was started then.
    pub async fn spawn_spared(&self, command: Command) -> Result<Spared, SpawnError> {
        let inner = self.inner().clone();
        blocking::run(move || inner.spawn_spared(&command)).await
    }

    /// Takes hold of a process that was started by an earlier process of this program, and spares it from now on.
    /// `None` where it is not alive any more, or does not bear the mark of this task. Blocking; inside a runtime.
    pub fn adopt_spared(&self, pid: u32, start_ticks: u64, task_id: &str) -> Option<Spared> {
        let key = ProcessKey {
            pid: pid as i32,
            start: start_ticks,
        };
        let watch = ExitWatch::open(Pid::from_raw(key.pid)?).ok()?;
        // Looked at once it is held: the id may have changed hands before.
        let is_the_one =
            is_current(key) && !watch.has_exited() && bears(key.pid, TASK_MARK, task_id);
        is_the_one.then(|| {
            self.inner().spared().insert(key);
            Spared { key, watch }
        })
    }

    /// Spares a process no longer.
    pub fn give_up_sparing(&self, spared: &Spared) {
        self.inner().spared().remove(&spared.key);
    }
}

impl Inner {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the module those rules point to"
    )]
    fn spawn_spared(&self, command: &Command) -> Result<Spared, SpawnError> {
        let program = command.locate()?;
        let mut os_command = std::process::Command::new(&program);
        os_command
            .args(&command.args)
            .current_dir(&command.cwd)
            .env_clear()
            .envs(command.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let _unregistered = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let child = os_command
            .spawn()
            .map_err(|error| command.explain(&program, error))?;
        let pid = child.id() as i32;
        let gone = || SpawnError::System {
            source: std::io::ErrorKind::NotFound.into(),
        };
        let raw = Pid::from_raw(pid).ok_or_else(gone)?;
        self.restore_limit(raw);
        // It is our child and its status is not taken yet, so the id is still its own.
        let key = ProcessKey {
            pid,
            start: start_of(pid).ok_or_else(gone)?,
        };
        let watch = ExitWatch::open(raw).map_err(SpawnError::from)?;
        self.spared().insert(key);
        let reaper = ExitWatch::open(raw).map_err(SpawnError::from)?;
        self.tracker.spawn(async move {
            reaper.exited().await;
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            // Whoever takes orphans' statuses may have been quicker.
            let _ = waitid(WaitId::Pid(raw), options);
        });
        Ok(Spared { key, watch })
    }
}

impl Spared {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.key.pid as u32
    }

    /// When it started, in clock ticks since boot.
    pub fn start_ticks(&self) -> u64 {
        self.key.start
    }

    /// Asks it to end.
    #[cfg(target_os = "linux")]
    pub fn terminate(&self) {
        // One that has ended needs no asking.
        drop(self.watch.signal(Signal::TERM));
    }

    /// Asks it to end.
    #[cfg(not(target_os = "linux"))]
    pub fn terminate(&self) {}

    /// Waits until it has ended.
    ///
    /// # Cancel safety
    /// Can be dropped and called again.
    pub async fn exited(&self) {
        self.watch.exited().await;
    }

    /// Whether it has ended by now.
    pub fn has_exited(&self) -> bool {
        self.watch.has_exited()
    }
}

/// Makes this process the head of a session of the system, away from its parent's.
///
/// # Errors
/// It heads a group already.
pub fn begin_session() -> std::io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// This process's own start time in clock ticks since boot.
pub fn own_start_ticks() -> Option<u64> {
    start_of(std::process::id() as i32)
}
