//! Processes known from a record: started by an earlier process of this program, which may have died.

use std::time::Duration;

use tokio::time::Instant;

use super::registry::Processes;
use super::table::{self, Entry, Snapshot};

/// The group of a child as it was recorded, with what tells it from a later one of the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedGroup {
    /// The leader's id, which is the group's.
    pub pgid: u32,
    /// When the leader started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Where it was started.
    pub origin: Origin,
}

/// What all children of one process have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The boot of the machine; process ids begin anew with each.
    pub boot_id: Option<String>,
    /// The session of the system (not ours) that children are born into.
    pub os_session: Option<i32>,
}

impl Origin {
    /// That of this process's children. Reads a small file.
    pub fn of_process() -> Self {
        let boot_id =
            crate::os::fs::read_to_string(std::path::Path::new("/proc/sys/kernel/random/boot_id"));
        Self {
            boot_id: boot_id.ok().map(|id| id.trim().to_owned()),
            os_session: table::own_session(),
        }
    }
}

impl RecordedGroup {
    /// Whether a process is a member. The leader itself is known by its start. Once it is gone, its id cannot be given
    /// to another as long as the group has members, so a member of that group is one of ours if it was born into the
    /// same session of the system, after the leader.
    fn has(&self, snapshot: &Snapshot, entry: &Entry) -> bool {
        let pgid = self.pgid as i32;
        if entry.group != pgid {
            return false;
        }
        match snapshot.entry(pgid) {
            Some(leader) => leader.key.start == self.start_ticks,
            None => {
                Some(entry.session) == self.origin.os_session && entry.key.start >= self.start_ticks
            }
        }
    }
}

impl Processes {
    /// Ends what is left of a recorded group, and all descendants: TERM, grace, KILL. Returns how many there were; 0
    /// after the machine was started anew.
    pub async fn end_recorded(&self, group: &RecordedGroup, grace: Duration) -> usize {
        let here = Origin::of_process();
        if here.boot_id.is_none() || here.boot_id != group.origin.boot_id {
            return 0;
        }
        self.inner()
            .end_found(Instant::now() + grace, |snapshot| {
                snapshot.trees(|entry| group.has(snapshot, entry))
            })
            .await
    }
}
