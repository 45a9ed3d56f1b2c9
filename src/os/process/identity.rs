//! Processes known by more than their id.

use super::table;

/// A process of this machine that cannot be mistaken for a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot; 0 where the system does not tell.
    pub start: u64,
}

impl Identity {
    /// This process.
    pub fn own() -> Self {
        let pid = std::process::id();
        let start = started(pid).unwrap_or(0);
        Self { pid, start }
    }

    /// Whether it still runs. One that has ended and was not waited for does not count.
    pub fn is_alive(self) -> bool {
        started(self.pid) == Some(self.start)
    }
}

fn started(pid: u32) -> Option<u64> {
    let pid: i32 = pid.try_into().ok()?;
    if table::is_of_this_namespace() {
        return table::live(pid).map(|key| key.start);
    }
    let pid = rustix::process::Pid::from_raw(pid)?;
    match rustix::process::test_kill_process(pid) {
        Ok(()) | Err(rustix::io::Errno::PERM) => Some(0),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        reason = "the test starts a process of its own"
    )]

    use super::*;

    #[test]
    fn an_id_alone_is_not_enough() {
        let own = Identity::own();
        assert!(own.is_alive());
        let mut child = std::process::Command::new("/bin/cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let start = started(child.id()).unwrap();
        let child_identity = Identity {
            pid: child.id(),
            start,
        };
        assert!(child_identity.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!child_identity.is_alive());
        if cfg!(target_os = "linux") {
            let later = Identity {
                start: own.start + 1,
                ..own
            };
            assert!(!later.is_alive());
        }
    }
}
