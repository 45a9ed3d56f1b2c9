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
