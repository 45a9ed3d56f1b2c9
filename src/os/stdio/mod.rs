//! This process's standard streams as the channel of a protocol.
//!
//! [`take`] moves the channel to private descriptors and leaves decoys behind: descriptor 0 becomes `/dev/null` and
//! descriptor 1 becomes standard error, so that nothing that prints, in this process or a child, can put a byte into
//! the protocol, and no child can eat its input.
//!
//! Whatever the host put there works: pipe, socket, file or terminal. The descriptor may be shared with other
//! processes, so its flags are never changed: pipes are opened anew, sockets are used with a per-call flag, and the
//! rest is read and written by threads.

mod input;
mod output;

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

pub use input::Input;
pub use output::Output;

use rustix::fs::{FileType, fstat};

use crate::os::raw::close_on_exec;

/// Takes over standard input and output. Call once, early, inside a runtime.
pub fn take() -> io::Result<(Input, Output)> {
    let input = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(io::stdout().as_fd(), 3)?;
    let null = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_CLOEXEC)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(io::stderr().as_fd())?;
    Ok((Input::from_fd(input)?, Output::from_fd(output)?))
}

/// Keeps descriptors beyond 2 that this process inherited from its starter out of its children. Call once, early.
pub fn seal_inherited() {
    // The listing's own descriptor is among those listed; it closes at exec as it is.
    let Ok(entries) = std::fs::read_dir("/dev/fd") else {
        return;
    };
    for entry in entries.flatten() {
        let fd = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok());
        if let Some(fd) = fd.filter(|fd| *fd > 2) {
            close_on_exec(fd);
        }
    }
}

/// How a descriptor can be used without waiting in the kernel and without touching its shared flags.
enum Channel {
    /// A pipe, opened anew: the flags of this description are ours alone.
    Pipe(OwnedFd),
    /// A socket.
    Socket(OwnedFd),
    /// Anything else.
    Blocking(OwnedFd),
}

fn classify(fd: OwnedFd, access: libc::c_int) -> io::Result<Channel> {
    Ok(match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
        FileType::Fifo => match reopen(&fd, access) {
            Some(own) => Channel::Pipe(own),
            None => Channel::Blocking(fd),
        },
        FileType::Socket => Channel::Socket(fd),
        _ => Channel::Blocking(fd),
    })
}

/// Opens a pipe a second time. Impossible when it belongs to another user, or when its other end is closed already
/// (writing will tell).
#[cfg(target_os = "linux")]
fn reopen(fd: &OwnedFd, access: libc::c_int) -> Option<OwnedFd> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    OpenOptions::new()
        .read(access == libc::O_RDONLY)
        .write(access == libc::O_WRONLY)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(path)
        .ok()
        .map(OwnedFd::from)
}

#[cfg(not(target_os = "linux"))]
fn reopen(_fd: &OwnedFd, _access: libc::c_int) -> Option<OwnedFd> {
    None
}

/// Waits, in a thread, for a descriptor that someone made non-blocking.
fn wait_ready(fd: &OwnedFd, flags: rustix::event::PollFlags) -> io::Result<()> {
    let mut fds = [rustix::event::PollFd::new(fd, flags)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None))?;
    Ok(())
}

#[cfg(test)]
mod tests;
