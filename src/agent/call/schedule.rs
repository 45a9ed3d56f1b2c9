//! Which calls run side by side: those whose accesses do not conflict, whatever order they came in.

use crate::kernel::access::{RealAccess, conflict};

/// Calls of one step, by number. A call starts when it conflicts with none that runs and none that waits before it, so
/// an independent call overtakes a waiting one and a waiting one is never starved.
#[derive(Debug)]
pub(super) struct Schedule {
    running: Vec<(usize, Vec<RealAccess>)>,
    waiting: Vec<(usize, Vec<RealAccess>)>,
    max_running: usize,
}

impl Schedule {
    /// An empty one.
    pub(super) fn new(max_running: usize) -> Self {
        Self {
            running: Vec::new(),
            waiting: Vec::new(),
            max_running,
        }
    }

    /// Takes in a call; true where it starts now.
    pub(super) fn add(&mut self, call: usize, accesses: Vec<RealAccess>) -> bool {
        let starts = self.fits(&accesses, self.waiting.len());
        let list = if starts {
            &mut self.running
        } else {
            &mut self.waiting
        };
        list.push((call, accesses));
        starts
    }

    /// A call has ended, however it did; gives those that start now, in order.
    pub(super) fn end(&mut self, call: usize) -> Vec<usize> {
        self.running.retain(|(running, _)| *running != call);
        let mut started = Vec::new();
        let mut n = 0;
        while n < self.waiting.len() {
            if self.fits(&self.waiting[n].1, n) {
                let next = self.waiting.remove(n);
                started.push(next.0);
                self.running.push(next);
            } else {
                n += 1;
            }
        }
        started
    }

    fn fits(&self, accesses: &[RealAccess], n_before: usize) -> bool {
        self.running.len() < self.max_running
            && !self
                .running
                .iter()
                .any(|(_, other)| conflict(other, accesses))
            && !self.waiting[..n_before]
                .iter()
                .any(|(_, other)| conflict(other, accesses))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::kernel::access::Access;

    fn on(access: Access) -> Vec<RealAccess> {
        let real = match &access {
            Access::All => PathBuf::new(),
            Access::File(file) => file.path.clone(),
        };
        vec![RealAccess {
            access,
            real,
            ..RealAccess::all()
        }]
    }

    #[test]
    fn independent_calls_overtake_and_conflicting_ones_keep_their_order() {
        let mut schedule = Schedule::new(16);
        assert!(schedule.add(0, on(Access::read("/w/a"))));
        assert!(schedule.add(1, on(Access::read("/w/a"))));
        assert!(
            !schedule.add(2, on(Access::read_write("/w/a"))),
            "waits for both reads"
        );
        assert!(schedule.add(3, on(Access::read("/w/b"))), "overtakes");
        assert!(
            !schedule.add(4, on(Access::read("/w/a"))),
            "never overtakes what it conflicts with"
        );
        assert_eq!(schedule.end(0), [] as [usize; 0]);
        assert_eq!(schedule.end(1), [2]);
        assert_eq!(schedule.end(2), [4]);
    }

    #[test]
    fn exclusive_calls_run_alone_and_empty_ones_always_fit() {
        let mut schedule = Schedule::new(16);
        assert!(schedule.add(0, on(Access::All)));
        assert!(!schedule.add(1, on(Access::All)));
        assert!(schedule.add(2, vec![]));
        assert_eq!(schedule.end(0), [1]);
    }

    #[test]
    fn no_more_than_the_most_run_at_once() {
        let mut schedule = Schedule::new(2);
        assert!(schedule.add(0, vec![]) && schedule.add(1, vec![]));
        assert!(!schedule.add(2, vec![]) && !schedule.add(3, vec![]));
        assert_eq!(schedule.end(1), [2]);
        assert_eq!(schedule.end(0), [3]);
    }
}
