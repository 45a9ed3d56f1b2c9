//! Work that several threads share, deepest first, until nobody has any left.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a thread without work looks whether the search is to end.
const LOOK_UP: Duration = Duration::from_millis(10);

/// A stack of jobs. It is empty for good when no job is left and none is being done.
#[derive(Debug)]
pub(super) struct Queue<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<J> {
    jobs: Vec<J>,
    n_busy: usize,
    n_waiting: usize,
}

/// A job that is being done; more may come of it until this is dropped.
#[derive(Debug)]
pub(super) struct Busy<'q, J>(&'q Queue<J>);

impl<J> Queue<J> {
    pub(super) fn new(first: J) -> Self {
        Self {
            state: Mutex::new(State {
                jobs: vec![first],
                n_busy: 0,
                n_waiting: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// The next job, waited for while others may bring one; none at the end of all work or when `ends` says so.
    pub(super) fn next(&self, ends: impl Fn() -> bool) -> Option<(J, Busy<'_, J>)> {
        let mut state = self.lock();
        loop {
            if ends() {
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                state.n_busy += 1;
                return Some((job, Busy(self)));
            }
            if state.n_busy == 0 {
                return None;
            }
            state.n_waiting += 1;
            let waited = self.changed.wait_timeout(state, LOOK_UP);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.n_waiting -= 1;
        }
    }

    /// Adds jobs, the last to be done first.
    pub(super) fn add(&self, jobs: impl IntoIterator<Item = J>) {
        let mut state = self.lock();
        state.jobs.extend(jobs);
        if state.n_waiting > 0 {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J> Drop for Busy<'_, J> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.n_busy -= 1;
        if state.n_busy == 0 && state.jobs.is_empty() {
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn everything_is_done_once_by_whoever_is_free() {
        let queue = Queue::new(12_u32);
        let n_done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some((job, _busy)) = queue.next(|| false) {
                        n_done.fetch_add(1, Ordering::Relaxed);
                        queue.add((0..2).filter(|_| job > 0).map(|_| job - 1));
                    }
                });
            }
        });
        assert_eq!(n_done.into_inner(), (1 << 13) - 1);
    }

    #[test]
    fn a_waiting_thread_ends_with_the_search_and_when_a_job_panics() {
        let queue = Queue::new(());
        let ((), busy) = queue.next(|| false).unwrap();
        let n_asked = AtomicUsize::new(0);
        let ends = || n_asked.fetch_add(1, Ordering::Relaxed) > 1;
        assert!(queue.next(ends).is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.next(|| false).is_none());
            let panicking = scope.spawn(move || {
                let _busy = busy;
                panic!("in a job");
            });
            assert!(panicking.join().is_err() && waiting.join().unwrap());
        });
    }
}
