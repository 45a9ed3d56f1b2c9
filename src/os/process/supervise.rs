//! The sequences that end a child: by itself, or because it was asked to.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::member::Members;
use super::scanner::Scanner;
use super::state::{Evidence, Phase, Proc};
use super::survivors::{end_survivors, follow, left_running};
use super::table::{ProcessKey, Snapshot, walk_tree};
use super::{Exit, Status, Survivors};

/// How long output is taken after the end of a child, in all: what is written later is nobody's.
pub const DRAIN: Duration = Duration::from_millis(250);

/// Grace of processes that a child leaves running in its group when it exits by itself.
pub const SURVIVOR_GRACE: Duration = Duration::from_secs(1);

/// How long processes may take to vanish after KILL. One stuck in the kernel may never do so.
pub(super) const AFTER_KILL: Duration = Duration::from_millis(200);

/// Pause between rounds of KILL, for descendants that appeared meanwhile.
pub(super) const KILL_ROUND: Duration = Duration::from_millis(50);

/// Watches one child from its start until nothing of it is left. `done` is called before the last zombie is waited
/// for, once the exit was published.
pub(super) async fn supervise(proc: Arc<Proc>, scanner: Scanner, done: impl FnOnce()) {
    let mut kill_at = proc.kill_at.subscribe();
    let mut stopped = tokio::select! {
        biased;
        _ = first_deadline(&mut kill_at) => true,
        () = proc.exited() => false,
    };
    let left_running = if stopped {
        end_tree(&proc, &scanner).await;
        drain(&proc).await;
        0
    } else {
        tokio::select! {
            biased;
            () = drain(&proc) => {}
            _ = first_deadline(&mut kill_at) => {}
        }
        // A stop that comes now wants what the child left, in its group and out of it.
        if proc.kill_at().is_some() {
            end_tree(&proc, &scanner).await;
        }
        let status = proc.reap();
        match proc.survivors {
            Survivors::End => end_survivors(&proc, &scanner).await,
            Survivors::Keep => {
                // Whoever still holds an output may have left the group.
                let may_be_outside = !proc.drained.is_cancelled();
                let left = left_running(&proc, &scanner, may_be_outside).await;
                let n_left = left.len();
                if n_left > 0 {
                    proc.phase.send_replace(Phase::LeftRunning(Exit {
                        status: status.unwrap_or(Status::Unknown),
                        stopped,
                        left_running: n_left,
                    }));
                    stopped = follow(&proc, &scanner, left).await;
                }
                n_left
            }
        }
    };
    let status = proc.reap();
    proc.reap_members();
    proc.phase.send_replace(Phase::Settled(Exit {
        status: status.unwrap_or(Status::Unknown),
        stopped,
        left_running,
    }));
    if status.is_none() {
        // Stuck in the kernel. Its id stays taken, and it stays registered, until it lets go.
        proc.exited().await;
        proc.reap();
        proc.reap_members();
    }
    done();
}

/// Lets the owner take what output there is, for a limited time that nothing extends.
async fn drain(proc: &Proc) {
    let until = Instant::now() + DRAIN;
    proc.phase.send_replace(Phase::Draining { until });
    tokio::select! {
        biased;
        () = proc.drained.cancelled() => {}
        () = sleep_until(until) => {}
    }
}

/// Ends the leader, its group, and every descendant that can be found: TERM, the grace that was asked for, KILL.
/// The leader's status is not taken, so its id stays ours all the while.
async fn end_tree(proc: &Proc, scanner: &Scanner) {
    let has_grace = proc.kill_at().is_some_and(|at| at > Instant::now());
    // Before the first signal: once a parent is dead its children can only be found by their marks.
    let tree = walk_tree(proc.pid.as_raw_nonzero().get());
    let mut members = Members::default();
    members.update(&tree.all());
    if has_grace {
        proc.signal_group(Signal::TERM, Evidence::LeaderHolds);
        // A stopped process takes the first signal only when it goes on.
        proc.signal_group(Signal::CONT, Evidence::LeaderHolds);
        give_grace(proc, scanner, &tree, &mut members).await;
    } else {
        proc.signal_group(Signal::KILL, Evidence::LeaderHolds);
        members.signal(Signal::KILL, |_| true);
        let snapshot = scanner.snapshot().await;
        members.update(&tree_of(proc, &snapshot, &members));
    }
    kill_tree(proc, scanner, &mut members).await;
}

/// Waits until everybody has ended or the grace is over. The group was asked to end; descendants outside it are asked
/// here, each when it is first seen, beginning with those in `tree`.
async fn give_grace(proc: &Proc, scanner: &Scanner, tree: &Snapshot, members: &mut Members) {
    let mut kill_at = proc.kill_at.subscribe();
    let group = proc.pid.as_raw_nonzero().get();
    let ask_strays = |seen: &Snapshot, members: &Members, added: &[ProcessKey]| {
        let strays = |key: ProcessKey| added.contains(&key) && seen.group_of(key) != Some(group);
        members.signal(Signal::TERM, strays);
        members.signal(Signal::CONT, strays);
    };
    ask_strays(tree, members, &tree.all());
    loop {
        let snapshot = tokio::select! {
            biased;
            snapshot = scanner.snapshot() => snapshot,
            () = deadline(&mut kill_at) => return,
        };
        let added = members.update(&tree_of(proc, &snapshot, members));
        ask_strays(&snapshot, members, &added);
        if proc.has_exited() && members.is_empty() {
            return;
        }
        tokio::select! {
            biased;
            () = ended(proc, members) => {}
            () = deadline(&mut kill_at) => return,
        }
    }
}

/// Kills whoever is left, in rounds, until nobody is or KILL has had its time.
async fn kill_tree(proc: &Proc, scanner: &Scanner, members: &mut Members) {
    let give_up = Instant::now() + AFTER_KILL;
    loop {
        // Also when nobody was found: it costs nothing while the leader holds the id.
        proc.signal_group(Signal::KILL, Evidence::LeaderHolds);
        members.signal(Signal::KILL, |_| true);
        let all_ended = timeout(KILL_ROUND, ended(proc, members)).await.is_ok();
        if Instant::now() >= give_up || (all_ended && members.is_empty()) {
            return;
        }
        let snapshot = scanner.snapshot().await;
        members.update(&tree_of(proc, &snapshot, members));
    }
}

/// What belongs to a child: its group, whoever bears its mark, whoever was known to belong, and all their descendants.
pub(super) fn tree_of(proc: &Proc, snapshot: &Snapshot, known: &Members) -> Vec<ProcessKey> {
    let leader = proc.pid.as_raw_nonzero().get();
    snapshot.trees(|entry| {
        let is_marked = || match &proc.mark {
            Some(mark) => entry.has_env(super::TASK_MARK, mark),
            None => false,
        };
        entry.key.pid == leader || entry.group == leader || known.contains(entry.key) || is_marked()
    })
}

async fn ended(proc: &Proc, members: &Members) {
    proc.exited().await;
    members.all_ended().await;
}

/// Waits until a stop is asked for.
pub(super) async fn first_deadline(kill_at: &mut watch::Receiver<Option<Instant>>) -> Instant {
    loop {
        if let Some(at) = *kill_at.borrow_and_update() {
            return at;
        }
        if kill_at.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Waits until the moment to kill, which may be brought forward meanwhile.
pub(super) async fn deadline(kill_at: &mut watch::Receiver<Option<Instant>>) {
    loop {
        let at = first_deadline(kill_at).await;
        tokio::select! {
            biased;
            () = sleep_until(at) => return,
            changed = kill_at.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
        }
    }
}
