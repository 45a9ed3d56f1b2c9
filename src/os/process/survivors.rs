//! What a child that exited by itself left running: ended with it, or followed until nothing of it is left.
//!
//! The child's status was taken, so each signal to its group follows a look that found a live member.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, timeout, timeout_at};

use super::member::Members;
use super::scanner::Scanner;
use super::state::{Evidence, Proc};
use super::supervise::{AFTER_KILL, KILL_ROUND, SURVIVOR_GRACE, deadline, first_deadline, tree_of};
use super::table::ProcessKey;

/// How often a group is looked at where its members cannot be listed, or ended before they could be held.
const LOOK: Duration = Duration::from_millis(100);

/// Finds what is left: the group, and where `may_be_outside` also marked processes outside it.
pub(super) async fn left_running(
    proc: &Proc,
    scanner: &Scanner,
    may_be_outside: bool,
) -> Vec<ProcessKey> {
    proc.reap_members();
    if !may_be_outside && !proc.group_exists() {
        return Vec::new();
    }
    let snapshot = scanner.snapshot().await;
    let leader = proc.pid.as_raw_nonzero().get();
    if !snapshot.is_supported {
        // A group that exists keeps its id.
        let start = 0;
        let group = ProcessKey { pid: leader, start };
        return proc.group_exists().then_some(group).into_iter().collect();
    }
    let keys = tree_of(proc, &snapshot, &Members::default());
    // The group emptied and its id went to a new process.
    let is_reused = keys.iter().any(|key| key.pid == leader);
    if is_reused { Vec::new() } else { keys }
}

/// Follows what was left until nothing of it is left. Returns whether a stop was asked for.
pub(super) async fn follow(proc: &Proc, scanner: &Scanner, left: Vec<ProcessKey>) -> bool {
    let mut kill_at = proc.kill_at.subscribe();
    let mut members = Members::default();
    members.update(&left);
    loop {
        tokio::select! {
            biased;
            _ = first_deadline(&mut kill_at) => {
                end_members(proc, scanner, &mut members).await;
                return true;
            }
            () = all_gone(&members) => {}
        }
        let left = left_running(proc, scanner, true).await;
        if left.is_empty() {
            return false;
        }
        members.update(&left);
    }
}

/// Ends what was left: TERM, the grace that was asked for, KILL.
async fn end_members(proc: &Proc, scanner: &Scanner, members: &mut Members) {
    let mut kill_at = proc.kill_at.subscribe();
    let mut asked: Vec<ProcessKey> = Vec::new();
    loop {
        let now = Instant::now();
        let left = left_running(proc, scanner, true).await;
        if left.is_empty() {
            return;
        }
        members.update(&left);
        let at = proc.kill_at().unwrap_or(now);
        if now >= at + AFTER_KILL {
            return;
        }
        if now >= at {
            proc.signal_group(Signal::KILL, Evidence::MemberSeen);
            members.signal(Signal::KILL, |_| true);
            drop(timeout(KILL_ROUND, members.all_ended()).await);
            continue;
        }
        for signal in [Signal::TERM, Signal::CONT] {
            members.signal(signal, |key| !asked.contains(&key));
            if members.is_empty() && asked.is_empty() {
                proc.signal_group(signal, Evidence::MemberSeen);
            }
        }
        asked.extend(left);
        tokio::select! {
            biased;
            () = deadline(&mut kill_at) => {}
            () = all_gone(members) => {}
        }
    }
}

/// Waits until all that are held have ended; for a moment where none can be.
async fn all_gone(members: &Members) {
    if members.is_empty() {
        tokio::time::sleep(LOOK).await;
    }
    members.all_ended().await;
}

/// Ends what a child left in its group when it exited by itself; tells how many processes that were.
pub(super) async fn end_survivors(proc: &Proc, scanner: &Scanner) -> usize {
    proc.reap_members();
    if !proc.group_exists() {
        return 0;
    }
    let group = proc.pid.as_raw_nonzero().get();
    let start = Instant::now();
    let kill_at = proc
        .kill_at()
        .unwrap_or(start + SURVIVOR_GRACE)
        .min(start + SURVIVOR_GRACE);
    let give_up = kill_at.max(start) + AFTER_KILL;
    let mut members = Members::default();
    let mut n_left = None;
    let mut was_asked = false;
    loop {
        let snapshot = scanner.snapshot().await;
        if !snapshot.is_supported {
            return end_unseen(proc, kill_at).await;
        }
        let keys = snapshot.group(group);
        if keys.iter().any(|key| key.pid == group) {
            // The group emptied and its id went to a new process.
            return n_left.unwrap_or(0);
        }
        members.update(&keys);
        let n_left = *n_left.get_or_insert(keys.len());
        let now = Instant::now();
        if members.is_empty() || now >= give_up {
            return n_left;
        }
        let until = if now >= kill_at {
            proc.signal_group(Signal::KILL, Evidence::MemberSeen);
            now + KILL_ROUND
        } else {
            if !was_asked {
                proc.signal_group(Signal::TERM, Evidence::MemberSeen);
                proc.signal_group(Signal::CONT, Evidence::MemberSeen);
                was_asked = true;
            }
            kill_at
        };
        // Either way the next look decides.
        drop(timeout_at(until, members.all_ended()).await);
        proc.reap_members();
    }
}

/// The same where members cannot be listed: a group that exists keeps its id.
async fn end_unseen(proc: &Proc, kill_at: Instant) -> usize {
    proc.signal_group(Signal::TERM, Evidence::MemberSeen);
    proc.signal_group(Signal::CONT, Evidence::MemberSeen);
    while proc.group_exists() && Instant::now() < kill_at {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    if proc.group_exists() {
        proc.signal_group(Signal::KILL, Evidence::MemberSeen);
    }
    1
}
