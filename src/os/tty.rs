//! Leaving the terminal, so that no child can prompt on it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use super::raw::{Disposition, disown_terminal};

/// Gives up this process's controlling terminal, if it has one; tells whether it had.
///
/// Call once, before any other thread exists. Programs started later that open `/dev/tty` (ssh, sudo, gpg) then fail
/// at once instead of asking a person who sees nothing of it. Giving up a terminal sends SIGHUP to whoever leads its
/// session, which may be this process: the signal is ignored meanwhile.
pub fn detach() -> io::Result<bool> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open("/dev/tty");
    // Without a controlling terminal the device cannot be opened.
    let Ok(tty) = opened else {
        return Ok(false);
    };
    let before = Disposition::of(libc::SIGHUP)?;
    Disposition::ignore(libc::SIGHUP)?;
    let answer = disown_terminal(&tty);
    before.restore()?;
    answer.map(|()| true)
}
