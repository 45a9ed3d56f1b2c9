//! Adopting descendants whose parents died, and taking their statuses when they end.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::Processes;
use super::registry::Inner;

/// Exits that come within this time are seen to together.
#[cfg(target_os = "linux")]
const PAUSE: Duration = Duration::from_millis(20);

impl Processes {
    /// Makes this process the one that orphaned descendants come to, so that none escapes [`Processes::kill_all`],
    /// and takes the status of each when it ends. Call once, in a server, inside a runtime.
    ///
    /// From then on no other code of this process may start children: their statuses would be taken too.
    #[cfg(target_os = "linux")]
    pub fn adopt_orphans(&self) -> io::Result<()> {
        let kind = tokio::signal::unix::SignalKind::child();
        let mut child_exits = tokio::signal::unix::signal(kind)?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let inner = self.inner();
        inner
            .adopts_orphans
            .store(true, std::sync::atomic::Ordering::SeqCst);
        let dropped = inner.dropped.clone();
        let weak = Arc::downgrade(inner);
        inner.tracker.spawn(async move {
            loop {
                tokio::select! {
                    biased;
                    () = dropped.cancelled() => return,
                    _ = child_exits.recv() => {}
                }
                let Some(inner) = weak.upgrade() else { return };
                inner.reap_orphans();
                drop(inner);
                tokio::time::sleep(PAUSE).await;
            }
        });
        Ok(())
    }

    /// Does nothing on this system: orphans go to its first process.
    #[cfg(not(target_os = "linux"))]
    pub fn adopt_orphans(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(target_os = "linux")]
impl Inner {
    /// Takes the statuses of ended children that were not started here.
    fn reap_orphans(&self) {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        // No child is between its start and its registration while this is held.
        let _none_unregistered = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let registered: HashSet<i32> = {
            let children = self.children();
            children
                .values()
                .map(|child| child.pid.as_raw_nonzero().get())
                .collect()
        };
        let strangers = super::table::children_of(std::process::id() as i32);
        for pid in strangers
            .into_iter()
            .filter(|pid| !registered.contains(pid))
        {
            if let Some(pid) = Pid::from_raw(pid) {
                // Nothing to do for one that still runs.
                let _ = waitid(
                    WaitId::Pid(pid),
                    WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
                );
            }
        }
    }
}
