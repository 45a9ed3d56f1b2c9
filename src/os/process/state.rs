//! What the owner, the supervisor and the registry share about one child.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, test_kill_process_group,
    waitid,
};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Exit, ExitWatch, Status, Survivors, table};

/// How far a child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The leader runs, or a stop is under way.
    Running,
    /// The leader is gone; output is taken until this moment at the latest.
    Draining { until: Instant },
    /// The leader is gone and what it left running is followed.
    LeftRunning(Exit),
    /// It is over.
    Settled(Exit),
}

/// Why a group may be signalled although its leader's status was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// None: the leader must still hold the id.
    LeaderHolds,
    /// A live member was identified a moment ago.
    MemberSeen,
}

/// One child.
#[derive(Debug)]
pub(super) struct Proc {
    /// The leader's id, which is the group's too.
    pub(super) pid: Pid,
    pub(super) mark: Option<String>,
    pub(super) survivors: Survivors,
    /// When it started, in clock ticks since boot.
    pub(super) start_ticks: Option<u64>,
    pub(super) phase: watch::Sender<Phase>,
    /// When the group is to be killed at the latest; `None` until a stop is asked for.
    pub(super) kill_at: watch::Sender<Option<Instant>>,
    /// Set when nobody takes output any more.
    pub(super) drained: CancellationToken,
    leader: Mutex<Leader>,
    watch: Option<ExitWatch>,
}

#[derive(Debug, Clone, Copy)]
enum Leader {
    /// Running, or a zombie that still holds its id.
    Unreaped,
    Reaped(Status),
}

impl Proc {
    /// A child just started. Must be called inside a runtime.
    pub(super) fn new(pid: Pid, mark: Option<String>, survivors: Survivors) -> Self {
        Self {
            pid,
            mark,
            survivors,
            start_ticks: super::table::start_of(pid.as_raw_nonzero().get()),
            phase: watch::Sender::new(Phase::Running),
            kill_at: watch::Sender::new(None),
            drained: CancellationToken::new(),
            leader: Mutex::new(Leader::Unreaped),
            // Nobody else takes the status, so the id is still this child's.
            watch: ExitWatch::open(pid).ok(),
        }
    }

    /// Waits until the leader has exited, without taking its status.
    pub(super) async fn exited(&self) {
        if let Some(watch) = &self.watch {
            return watch.exited().await;
        }
        // Without a descriptor to wait on: any child's exit is a reason to look.
        let kind = tokio::signal::unix::SignalKind::child();
        let Ok(mut child_exits) = tokio::signal::unix::signal(kind) else {
            while !self.has_exited() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            return;
        };
        while !self.has_exited() {
            child_exits.recv().await;
        }
    }

    /// Whether the leader has exited by now.
    pub(super) fn has_exited(&self) -> bool {
        if let Leader::Reaped(_) = *self.leader() {
            return true;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.pid), options), Ok(None))
    }

    /// Takes the leader's status if it has exited. From then on its id may be given to another process.
    pub(super) fn reap(&self) -> Option<Status> {
        let mut leader = self.leader();
        if let Leader::Reaped(status) = *leader {
            return Some(status);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = match rustix::io::retry_on_intr(|| waitid(WaitId::Pid(self.pid), options)) {
            Ok(None) => return None,
            Ok(Some(status)) => Status::of(&status),
            Err(_) => Status::Unknown,
        };
        *leader = Leader::Reaped(status);
        Some(status)
    }

    /// Takes the statuses of group members that became this process's children. The leader's must be taken already.
    pub(super) fn reap_members(&self) {
        if self.reap().is_none() {
            return;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        while let Ok(Some(_)) = waitid(WaitId::Pgid(Some(self.pid)), options) {}
    }

    /// Whether the group has a member, dead or alive. Only meaningful once the leader's status was taken.
    pub(super) fn group_exists(&self) -> bool {
        self.is_foreign_group() && test_kill_process_group(self.pid) != Err(Errno::SRCH)
    }

    /// Sends a signal to the whole group. A group that is gone is no error.
    pub(super) fn signal_group(&self, signal: Signal, evidence: Evidence) {
        // Held over the call: the id must not be freed between the check and the signal.
        let leader = self.leader();
        let holds_id = matches!(*leader, Leader::Unreaped);
        if !self.is_foreign_group() || !(holds_id || evidence == Evidence::MemberSeen) {
            return;
        }
        if kill_process_group(self.pid, signal) == Err(Errno::PERM) && holds_id {
            // A member of another user hides the rest from us on some systems; the leader is ours.
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Asks for a stop, or brings forward the end of one under way.
    pub(super) fn request_stop(&self, grace: Duration) {
        let new = Instant::now().checked_add(grace);
        self.kill_at.send_if_modified(|kill_at| {
            // A grace beyond the end of time is the default one of a century.
            let new = new.unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400 * 365));
            let sooner = kill_at.is_none_or(|old| new < old);
            if sooner {
                *kill_at = Some(new);
            }
            sooner
        });
    }

    /// When the child is to be killed at the latest, once a stop was asked for.
    pub(super) fn kill_at(&self) -> Option<Instant> {
        *self.kill_at.borrow()
    }

    /// Waits until everything about the child is over.
    pub(super) async fn settled(&self) -> Exit {
        self.reached(|phase| match phase {
            Phase::Settled(exit) => Some(exit),
            Phase::Running | Phase::Draining { .. } | Phase::LeftRunning(_) => None,
        })
        .await
    }

    /// Waits until the leader is gone and either everything is over or what it left running is followed.
    pub(super) async fn left(&self) -> Exit {
        self.reached(|phase| match phase {
            Phase::Settled(exit) | Phase::LeftRunning(exit) => Some(exit),
            Phase::Running | Phase::Draining { .. } => None,
        })
        .await
    }

    async fn reached(&self, wanted: impl Fn(Phase) -> Option<Exit>) -> Exit {
        let mut phase = self.phase.subscribe();
        loop {
            let now = *phase.borrow_and_update();
            if let Some(exit) = wanted(now) {
                return exit;
            }
            if phase.changed().await.is_err() {
                // The sender lives in `self`.
                return std::future::pending().await;
            }
        }
    }

    /// Never this process's own group, nor an id that means something else to `kill`.
    fn is_foreign_group(&self) -> bool {
        !self.pid.is_init()
            && table::own_group() != Some(self.pid.as_raw_nonzero().get())
            && self.pid != rustix::process::getpid()
    }

    fn leader(&self) -> MutexGuard<'_, Leader> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
