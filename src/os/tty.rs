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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::os::env::Env;
    use crate::os::process::{Command, Processes};
    use crate::os::test_copy;

    /// In a copy of this binary that leads a session on a terminal of its own, made by `script`.
    #[tokio::test]
    async fn the_terminal_is_left() {
        const TEST: &str = "os::tty::tests::the_terminal_is_left";
        if test_copy::is_copy() {
            assert!(std::fs::metadata("/dev/tty").is_ok());
            assert!(detach().unwrap());
            assert!(!detach().unwrap(), "there is none any more");
            assert!(!Disposition::of(libc::SIGHUP).unwrap().is_ignored());
            return;
        }
        if Env::of(test_copy::env()).find_program("script").is_none() {
            return;
        }
        let command = Command::new("script", "/")
            .args([
                "-qec",
                &format!("exec {}", test_copy::argv(TEST).join(" ")),
                "/dev/null",
            ])
            .env(test_copy::env())
            .env([("SHELL", "/bin/sh")]);
        let done = Processes::new(None)
            .spawn(command)
            .await
            .unwrap()
            .collect(1 << 20)
            .await;
        let output = String::from_utf8_lossy(&done.stdout);
        assert!(
            done.exit.status.is_success() && output.contains("1 passed"),
            "{output}"
        );
    }
}
