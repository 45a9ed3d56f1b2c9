//! The threads of all searches together, and how one search is ended from outside.

use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::os::blocking;

/// More threads than this help no disk.
const MAX_THREADS: usize = 8;

/// How long a cancelled search is waited for. A thread stuck in the kernel is left behind.
const CANCEL_GRACE: Duration = Duration::from_millis(80);

/// How long a search that ran out of time is waited for; what it found until then is used.
const TIMEOUT_GRACE: Duration = Duration::from_millis(500);

/// Searches left behind at once, above which none is begun: their threads are lost until the kernel lets go of them.
const MAX_LEFT_BEHIND: isize = 8;

/// How many threads may search at once, in the whole process.
///
/// A search takes those that are free, at least one, and gives all but one back when another waits for its first.
#[derive(Debug)]
pub struct SearchPool {
    threads: Arc<Semaphore>,
    n_threads: usize,
    n_waiting: Arc<AtomicUsize>,
    n_left_behind: Arc<AtomicIsize>,
}

/// Told to a running search: end now.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Stop(Arc<AtomicBool>);

/// What a running search has of the pool.
#[derive(Debug)]
pub(in super::super) struct Crew {
    /// To be looked at often.
    pub stop: Stop,
    n_threads: usize,
    shares: Shares,
    n_waiting: Arc<AtomicUsize>,
}

/// One for each thread of a search. They are shared with whoever waits for it, so that a search that is left behind
/// keeps no other from running.
type Shares = Arc<Mutex<Vec<OwnedSemaphorePermit>>>;

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Ended {
    /// By itself.
    Completed,
    /// It took too long.
    TimedOut,
    /// It never began: others had all threads until its time was up.
    NeverBegun,
    /// It never began: too many threads are lost.
    Exhausted,
    /// The call was cancelled.
    Cancelled,
}

impl Stop {
    /// Whether to end.
    pub(in super::super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(in super::super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Crew {
    /// Threads the search may use, its own among them.
    pub(super) fn n_threads(&self) -> usize {
        self.n_threads
    }

    /// Whether a further thread of the search is to end now, because another search waits for its first. Its share is
    /// given back then.
    pub(super) fn lets_go(&self) -> bool {
        if self.n_waiting.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.len() > 1 && shares.pop().is_some()
    }

    #[cfg(test)]
    pub(in super::super) fn alone() -> Self {
        Self {
            stop: Stop::default(),
            n_threads: 1,
            shares: Shares::default(),
            n_waiting: Arc::default(),
        }
    }
}

impl Default for SearchPool {
    fn default() -> Self {
        let n_cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::new(n_cores.min(MAX_THREADS))
    }
}

/// States of a search, for counting those left behind.
const RUNNING: u8 = 0;
const LEFT_BEHIND: u8 = 1;
const ENDED: u8 = 2;

impl SearchPool {
    /// A pool of this many threads, at least one.
    pub fn new(n_threads: usize) -> Self {
        let n_threads = n_threads.max(1);
        Self {
            threads: Arc::new(Semaphore::new(n_threads)),
            n_threads,
            n_waiting: Arc::default(),
            n_left_behind: Arc::default(),
        }
    }

    /// Runs a search on blocking threads.
    ///
    /// What it finds goes to a place shared with the caller, who reads it however the search ended. `time` begins
    /// now: waiting for a free thread is part of it.
    ///
    /// # Cancel safety
    /// Dropping the future ends the search soon; what it found is dropped.
    pub(in super::super) async fn run(
        &self,
        cancel: &CancellationToken,
        time: Duration,
        search: impl FnOnce(&Crew) + Send + 'static,
    ) -> Ended {
        let deadline = tokio::time::sleep(time);
        tokio::pin!(deadline);
        if self.n_left_behind.load(Ordering::Relaxed) >= MAX_LEFT_BEHIND {
            return Ended::Exhausted;
        }
        let shares = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ended::Cancelled,
            shares = self.take() => shares,
            () = &mut deadline => return Ended::NeverBegun,
        };
        let shares = Shares::new(Mutex::new(shares));
        let crew = Crew {
            stop: Stop::default(),
            n_threads: lock(&shares).len(),
            shares: Arc::clone(&shares),
            n_waiting: Arc::clone(&self.n_waiting),
        };
        let stop = StopOnDrop(crew.stop.clone());
        let state = Arc::new(AtomicU8::new(RUNNING));
        let running = blocking::run({
            let (state, n_left_behind) = (Arc::clone(&state), Arc::clone(&self.n_left_behind));
            move || {
                search(&crew);
                if state.swap(ENDED, Ordering::AcqRel) == LEFT_BEHIND {
                    n_left_behind.fetch_sub(1, Ordering::Relaxed);
                }
            }
        });
        tokio::pin!(running);
        let (ended, grace) = tokio::select! {
            biased;
            () = cancel.cancelled() => (Ended::Cancelled, CANCEL_GRACE),
            () = &mut running => (Ended::Completed, Duration::ZERO),
            () = &mut deadline => (Ended::TimedOut, TIMEOUT_GRACE),
        };
        drop(stop);
        if ended != Ended::Completed
            && tokio::time::timeout(grace, running).await.is_err()
            && state.swap(LEFT_BEHIND, Ordering::AcqRel) == RUNNING
        {
            let n_left_behind = 1 + self.n_left_behind.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                n_left_behind,
                "a search did not end in time; its threads are left behind"
            );
        }
        lock(&shares).clear();
        ended
    }

    /// One share, waited for, and all others that are free. None once the pool is closed, which it never is.
    async fn take(&self) -> Vec<OwnedSemaphorePermit> {
        let first = if let Ok(share) = Arc::clone(&self.threads).try_acquire_owned() {
            Some(share)
        } else {
            let _waiting = Waiting::new(&self.n_waiting);
            Arc::clone(&self.threads).acquire_owned().await.ok()
        };
        let mut shares: Vec<_> = first.into_iter().collect();
        while shares.len() < self.n_threads {
            match Arc::clone(&self.threads).try_acquire_owned() {
                Ok(share) => shares.push(share),
                Err(_) => break,
            }
        }
        shares
    }
}

fn lock(shares: &Shares) -> std::sync::MutexGuard<'_, Vec<OwnedSemaphorePermit>> {
    shares.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a search when nobody waits for it any more.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Counted as long as it lives.
struct Waiting<'p>(&'p AtomicUsize);

impl<'p> Waiting<'p> {
    fn new(count: &'p AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn searches_share_the_threads() {
        let pool = SearchPool::new(3);
        let cancel = CancellationToken::new();
        for (n_taken, expected) in [(0, 3), (2, 1)] {
            let _taken = pool.threads.clone().acquire_many_owned(n_taken).await;
            let (tell, told) = mpsc::channel();
            let search = move |crew: &Crew| tell.send(crew.n_threads()).unwrap();
            assert_eq!(pool.run(&cancel, LONG, search).await, Ended::Completed);
            assert_eq!(told.recv().unwrap(), expected);
        }
        assert_eq!(pool.threads.available_permits(), 3);
    }

    #[tokio::test]
    async fn a_search_makes_room_for_another() {
        let pool = Arc::new(SearchPool::new(3));
        let (cancel, begun) = (CancellationToken::new(), CancellationToken::new());
        let (tell, told) = mpsc::channel();
        let first = pool.run(&cancel, LONG, {
            let begun = begun.clone();
            move |crew| {
                begun.cancel();
                while !crew.lets_go() {
                    std::thread::yield_now();
                }
                // It ends only after the other did, which thus ran beside it.
                told.recv().unwrap();
                assert!(!crew.lets_go());
            }
        });
        let second = async {
            begun.cancelled().await;
            let search = move |_: &Crew| tell.send(()).unwrap();
            pool.run(&cancel, LONG, search).await
        };
        let both = futures::future::join(first, second).await;
        assert_eq!(both, (Ended::Completed, Ended::Completed));
        assert_eq!(pool.threads.available_permits(), 3);
    }

    #[tokio::test]
    async fn a_running_search_is_told_to_end() {
        for (time, is_cancelled, expected) in [
            (LONG, true, Ended::Cancelled),
            (Duration::from_millis(1), false, Ended::TimedOut),
        ] {
            let pool = SearchPool::new(1);
            let cancel = CancellationToken::new();
            let (tell, told) = mpsc::channel();
            let on_start = cancel.clone();
            let ended = pool.run(&cancel, time, move |crew| {
                if is_cancelled {
                    on_start.cancel();
                }
                while !crew.stop.is_set() {
                    std::thread::yield_now();
                }
                tell.send(()).unwrap();
            });
            assert_eq!(ended.await, expected);
            told.recv().unwrap();
            assert_eq!(pool.threads.available_permits(), 1);
        }
    }

    #[tokio::test]
    async fn a_waiting_search_can_be_cancelled_and_runs_out_of_time() {
        for (time, is_cancelled, expected) in [
            (LONG, true, Ended::Cancelled),
            (Duration::ZERO, false, Ended::NeverBegun),
        ] {
            let pool = SearchPool::new(1);
            let _taken = pool.threads.clone().acquire_owned().await.unwrap();
            let cancel = CancellationToken::new();
            if is_cancelled {
                cancel.cancel();
            }
            let ended = pool.run(&cancel, time, |_| unreachable!());
            assert_eq!(ended.await, expected);
            assert_eq!(pool.n_waiting.load(Ordering::Relaxed), 0);
        }
    }

    #[tokio::test]
    async fn a_search_that_nobody_waits_for_ends() {
        let pool = SearchPool::new(1);
        let cancel = CancellationToken::new();
        let begun = CancellationToken::new();
        let on_start = begun.clone();
        let search = move |crew: &Crew| {
            on_start.cancel();
            while !crew.stop.is_set() {
                std::thread::yield_now();
            }
        };
        tokio::select! {
            _ = pool.run(&cancel, LONG, search) => unreachable!(),
            () = begun.cancelled() => {}
        }
        let share = pool.threads.acquire().await;
        assert!(share.is_ok());
    }

    #[tokio::test]
    async fn threads_left_behind_are_counted_and_take_no_turn() {
        let pool = SearchPool::new(1);
        let cancel = CancellationToken::new();
        let mut held = Vec::new();
        for n in 0..MAX_LEFT_BEHIND {
            let (release, released) = mpsc::channel::<()>();
            let cancel = CancellationToken::new();
            let on_start = cancel.clone();
            // As a thread that hangs in the kernel does, it never looks at the sign to end.
            let ended = pool.run(&cancel, LONG, move |_| {
                on_start.cancel();
                let _ = released.recv();
            });
            assert_eq!(ended.await, Ended::Cancelled);
            held.push(release);
            assert_eq!(pool.n_left_behind.load(Ordering::Relaxed), n + 1);
            assert_eq!(pool.threads.available_permits(), 1);
        }
        let ended = pool.run(&cancel, LONG, |_| unreachable!()).await;
        assert_eq!(ended, Ended::Exhausted);
        drop(held);
        while pool.n_left_behind.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(&cancel, LONG, |_| ()).await, Ended::Completed);
    }
}
