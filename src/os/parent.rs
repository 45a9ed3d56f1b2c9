//! Noticing that the process which started us is gone.

use std::time::Duration;

use rustix::process::{Pid, getppid};

use super::process::ExitWatch;

/// How often the parent is looked at where the system cannot tell us by itself.
const POLL: Duration = Duration::from_millis(500);

/// The parent as it was when this process started.
#[derive(Debug, Clone, Copy)]
pub struct Parent {
    pid: Option<Pid>,
}

impl Parent {
    /// Reads who the parent is. Call first thing in `main`: a parent that died before cannot be told from its heir.
    pub fn read() -> Self {
        Self { pid: getppid() }
    }

    /// Its process id; `None` when it lives outside this process's pid namespace.
    pub fn pid(&self) -> Option<u32> {
        self.pid.map(|pid| pid.as_raw_nonzero().get() as u32)
    }

    /// Waits until the parent process has ended. The end of the *thread* that started us says nothing and is not
    /// noticed. Never returns when the parent could not be named.
    ///
    /// # Cancel safety
    /// Can be dropped and called again.
    pub async fn gone(&self) {
        let Some(pid) = self.pid else {
            return std::future::pending().await;
        };
        let watch = ExitWatch::open(pid);
        // A process id read earlier may stand for someone else by now; as long as that id is our parent it does not.
        while getppid() == Some(pid) {
            match &watch {
                Ok(watch) => {
                    tokio::select! {
                        () = watch.exited() => {}
                        () = tokio::time::sleep(POLL * 20) => continue,
                    }
                    // The id changes hands a moment after the exit can be seen.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::process::{Signal, kill_process};

    use super::*;
    use crate::os::process::{Command, Processes};
    use crate::os::test_copy;

    /// A shell starts a copy of this binary, which watches it; the shell is killed, the copy notices.
    #[tokio::test]
    async fn a_killed_parent_is_noticed() {
        const TEST: &str = "os::parent::tests::a_killed_parent_is_noticed";
        if test_copy::is_copy() {
            let parent = Parent::read();
            writeln!(std::io::stdout(), "parent {}.", parent.pid().unwrap()).unwrap();
            parent.gone().await;
            writeln!(std::io::stdout(), "orphaned.").unwrap();
            return;
        }
        let processes = Processes::new(None);
        // The outer shell leads the group and lives on.
        let script = "/bin/sh -c '\"$@\" & wait' sh \"$@\"; read x < /dev/null; sleep 60";
        let command = Command::new("/bin/sh", "/")
            .args(["-c", script, "sh"])
            .args(test_copy::argv(TEST))
            .env(test_copy::env());
        let mut running = processes.spawn(command).await.unwrap();
        let mut seen = String::new();
        let mut parent = None;
        while !seen.contains("orphaned.") {
            let chunk = running.next_output().await.expect("the copy to notice");
            seen.push_str(&String::from_utf8_lossy(&chunk.bytes));
            let told = seen
                .split_once("parent ")
                .and_then(|(_, rest)| rest.split_once('.'));
            if let (None, Some((pid, _))) = (parent, told) {
                let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
                assert_ne!(pid.as_raw_nonzero().get() as u32, running.pid());
                assert!(!seen.contains("orphaned."));
                kill_process(pid, Signal::KILL).unwrap();
                parent = Some(pid);
            }
        }
        running.stop(Duration::ZERO);
        running.wait().await;
    }
}
