use std::fmt;

use rustix::process::WaitIdStatus;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It exited with this code.
    Code(i32),
    /// A signal of this number ended it.
    Signal(i32),
    /// Nobody knows: it did not end even when killed, or its status was taken by someone else.
    Unknown,
}

impl Status {
    /// Whether it exited with code 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }

    /// As a shell would report it: the code, or 128 and the signal's number.
    pub fn shell_code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::Signal(number) => Some(128 + number),
            Self::Unknown => None,
        }
    }

    /// The name of the signal that ended it: `SIGKILL`.
    pub fn signal_name(self) -> Option<String> {
        match self {
            Self::Signal(number) => Some(signal_name(number)),
            Self::Code(_) | Self::Unknown => None,
        }
    }

    pub(super) fn of(status: &WaitIdStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(number)) => Self::Signal(number),
            (None, None) => Self::Unknown,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => write!(f, "{} ({})", signal_name(*number), 128 + number),
            Self::Unknown => f.write_str("unknown status"),
        }
    }
}

/// What is known when a child and its group are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// How the child itself ended.
    pub status: Status,
    /// Whether a stop was asked for while it ran. The status may be a success even so.
    pub stopped: bool,
    /// How many processes it left running in its group when it exited by itself. They have been ended.
    pub left_running: usize,
}

/// The name of a signal: `SIGTERM`, or `signal 40` for one without a name.
pub fn signal_name(number: i32) -> String {
    let name = match number {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGSYS => "SIGSYS",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_read_well() {
        for (status, text, code) in [
            (Status::Code(0), "exit code 0", Some(0)),
            (Status::Code(7), "exit code 7", Some(7)),
            (Status::Signal(9), "SIGKILL (137)", Some(137)),
            (Status::Signal(40), "signal 40 (168)", Some(168)),
            (Status::Unknown, "unknown status", None),
        ] {
            assert_eq!(
                (status.to_string().as_str(), status.shell_code()),
                (text, code)
            );
        }
    }
}
