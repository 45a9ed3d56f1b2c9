use std::collections::HashMap;

use futures::future::join_all;
use rustix::process::{Pid, Signal};

use super::ExitWatch;
use super::table::{ProcessKey, is_current};

/// Descendants of a child that are to be ended, each held by a descriptor so that no signal can reach a later process
/// with its id.
#[derive(Debug, Default)]
pub(super) struct Members {
    held: HashMap<ProcessKey, ExitWatch>,
}

impl Members {
    /// Makes these the members: new ones are taken hold of, others let go. Returns the new ones.
    pub(super) fn update(&mut self, keys: &[ProcessKey]) -> Vec<ProcessKey> {
        self.held.retain(|key, _| keys.contains(key));
        let mut added = Vec::new();
        for key in keys {
            if self.held.contains_key(key) {
                continue;
            }
            let watch = Pid::from_raw(key.pid).and_then(|pid| ExitWatch::open(pid).ok());
            // The id may have changed hands between the look at the table and the hold.
            if let Some(watch) = watch.filter(|_| is_current(*key)) {
                self.held.insert(*key, watch);
                added.push(*key);
            }
        }
        added
    }

    /// Whether a process is held.
    pub(super) fn contains(&self, key: ProcessKey) -> bool {
        self.held.contains_key(&key)
    }

    /// Whether nobody is left.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Sends a signal to those of the members that `wanted` picks. Whoever is gone is passed over.
    pub(super) fn signal(&self, signal: Signal, wanted: impl Fn(ProcessKey) -> bool) {
        for (_, watch) in self.held.iter().filter(|(key, _)| wanted(**key)) {
            drop(watch.signal(signal));
        }
    }

    /// Waits until all of them have ended.
    pub(super) async fn all_ended(&self) {
        join_all(self.held.values().map(ExitWatch::exited)).await;
    }
}

/// Kills one process, unless its id has gone to another.
#[cfg(target_os = "linux")]
pub(super) fn kill_exactly(key: ProcessKey) {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Some(pid) = Pid::from_raw(key.pid) else {
        return;
    };
    let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    if is_current(key) {
        // One that ended meanwhile is what was wanted.
        let _ = pidfd_send_signal(&held, Signal::KILL);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kill_exactly(_key: ProcessKey) {}
