//! Waiting for a process to end without taking its status.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::os::raw::watch_fd;

/// A descriptor that becomes readable when a process ends, be it our child or not.
#[derive(Debug)]
pub struct ExitWatch {
    pidfd: AsyncFd<OwnedFd>,
}

impl ExitWatch {
    /// Opens a watch on the process that has this id now, as [`Self::open`] does.
    pub fn of(pid: u32) -> io::Result<Self> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Self::open(pid.ok_or(io::ErrorKind::NotFound)?)
    }

    /// Opens a watch on the process that has this id now.
    ///
    /// # Errors
    /// No such process, or a system without such descriptors.
    #[cfg(target_os = "linux")]
    pub fn open(pid: Pid) -> io::Result<Self> {
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        Ok(Self {
            pidfd: watch_fd(pidfd, Interest::READABLE)?,
        })
    }

    /// This system has no such descriptors.
    #[cfg(not(target_os = "linux"))]
    pub fn open(_pid: Pid) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Asks the process to end: at once (SIGTERM).
    pub fn ask_to_end(&self) -> io::Result<()> {
        self.send(rustix::process::Signal::TERM)
    }

    /// Asks the process to end once nothing runs in it (SIGUSR1), see [`crate::os::signal::QuietSignal`].
    pub fn ask_to_end_when_quiet(&self) -> io::Result<()> {
        self.send(rustix::process::Signal::USR1)
    }

    #[cfg(target_os = "linux")]
    fn send(&self, signal: rustix::process::Signal) -> io::Result<()> {
        self.signal(signal)
    }

    #[cfg(not(target_os = "linux"))]
    fn send(&self, _signal: rustix::process::Signal) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Waits until the process has ended (it may still be a zombie).
    ///
    /// # Cancel safety
    /// Can be dropped and called again.
    pub async fn exited(&self) {
        loop {
            match self.pidfd.readable().await {
                Ok(mut ready) => {
                    if self.has_exited() {
                        return;
                    }
                    ready.clear_ready();
                }
                // Only while the runtime is going away, and the caller with it.
                Err(_) => return std::future::pending().await,
            }
        }
    }

    /// Whether it has ended by now.
    pub fn has_exited(&self) -> bool {
        let mut fds = [PollFd::new(self.pidfd.get_ref(), PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(n) if n > 0)
    }

    /// Sends a signal to exactly this process.
    #[cfg(target_os = "linux")]
    pub(super) fn signal(&self, signal: rustix::process::Signal) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(
            self.pidfd.get_ref(),
            signal,
        )?)
    }
}
