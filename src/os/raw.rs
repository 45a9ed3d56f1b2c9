//! The few system calls that have no safe wrapper in our dependencies.

#![expect(unsafe_code, reason = "each block states why it is sound")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What a signal does now, to be put back later.
pub(super) struct Disposition {
    signal: i32,
    action: libc::sigaction,
}

impl Disposition {
    /// Reads it.
    pub(super) fn of(signal: i32) -> io::Result<Self> {
        // SAFETY: a zeroed `sigaction` is a valid value, and with a null new action the call only writes to `action`.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are valid or null as the call allows.
        let answer = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
        check(answer)?;
        Ok(Self { signal, action })
    }

    /// Whether the signal is ignored.
    pub(super) fn is_ignored(&self) -> bool {
        self.action.sa_sigaction == libc::SIG_IGN
    }

    /// Puts it back.
    pub(super) fn restore(&self) -> io::Result<()> {
        // SAFETY: `action` came from the system or from `simple`, so its handler is a valid one.
        check(unsafe { libc::sigaction(self.signal, &raw const self.action, std::ptr::null_mut()) })
    }

    /// Ignores the signal from now on.
    pub(super) fn ignore(signal: i32) -> io::Result<()> {
        Self::simple(signal, libc::SIG_IGN).restore()
    }

    /// Gives the signal its default action from now on.
    pub(super) fn default(signal: i32) -> io::Result<()> {
        Self::simple(signal, libc::SIG_DFL).restore()
    }

    fn simple(signal: i32, handler: libc::sighandler_t) -> Self {
        // SAFETY: a zeroed `sigaction` is a valid value: empty mask, no flags.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler;
        Self { signal, action }
    }
}

/// Marks a descriptor to be closed in children. One that is not open is passed over.
pub(super) fn close_on_exec(fd: i32) {
    // SAFETY: these requests only read and set a flag of the table entry, whoever owns the descriptor.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFD);
        if flags != -1 && flags & libc::FD_CLOEXEC == 0 {
            libc::fcntl(fd, libc::F_SETFD, flags | libc::FD_CLOEXEC);
        }
    }
}

/// Gives up the controlling terminal that `tty` is.
pub(super) fn disown_terminal(tty: impl AsFd) -> io::Result<()> {
    // SAFETY: this request takes no argument, and the descriptor is open for the length of the call.
    check(unsafe { libc::ioctl(tty.as_fd().as_raw_fd(), libc::TIOCNOTTY) })
}

fn check(answer: libc::c_int) -> io::Result<()> {
    if answer == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Registers a descriptor with the runtime's poll, changing none of its flags.
pub(super) fn watch_fd(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names one open description for as long as it exists, and the registration owns it.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}
