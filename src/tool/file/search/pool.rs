//! The threads of all searches together, and how one search is ended from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// How many threads may search at once, in the whole process: a search takes those that are free, at least one.
#[derive(Debug)]
pub struct SearchPool {
    threads: Arc<Semaphore>,
    n_threads: usize,
}

/// Told to a running search: end now.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Stop(Arc<AtomicBool>);

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Ended {
    /// By itself.
    Completed,
    /// It took too long.
    TimedOut,
    /// The call was cancelled.
    Cancelled,
}

impl Stop {
    /// Whether to end.
    pub(in super::super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Default for SearchPool {
    fn default() -> Self {
        let n_cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::with_threads(n_cores.min(MAX_THREADS))
    }
}

impl SearchPool {
    /// A pool of this many threads, at least one.
    pub fn with_threads(n_threads: usize) -> Self {
        let n_threads = n_threads.max(1);
        Self {
            threads: Arc::new(Semaphore::new(n_threads)),
            n_threads,
        }
    }

    /// Runs a search on blocking threads, handing it the sign to end and the number of threads it may use.
    ///
    /// What it finds goes to a place shared with the caller, who reads it however the search ended.
    pub(in super::super) async fn run(
        &self,
        cancel: &CancellationToken,
        time: Duration,
        search: impl FnOnce(&Stop, usize) + Send + 'static,
    ) -> Ended {
        let permits = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ended::Cancelled,
            permits = self.take() => permits,
        };
        let Some(permits) = permits else {
            return Ended::Cancelled;
        };
        let n_threads = permits.num_permits();
        let stop = Stop::default();
        let running = blocking::run({
            let stop = stop.clone();
            move || search(&stop, n_threads)
        });
        tokio::pin!(running);
        // The permits are held here and not by the search: a thread left behind waits in the kernel and takes no turn.
        let (ended, grace) = tokio::select! {
            biased;
            () = cancel.cancelled() => (Ended::Cancelled, CANCEL_GRACE),
            () = &mut running => return Ended::Completed,
            () = tokio::time::sleep(time) => (Ended::TimedOut, TIMEOUT_GRACE),
        };
        stop.set();
        if tokio::time::timeout(grace, running).await.is_err() {
            tracing::warn!("a search did not end in time; its threads are left behind");
        }
        ended
    }

    /// One permit, waited for, and all others that are free. None once the pool is closed, which it never is.
    async fn take(&self) -> Option<OwnedSemaphorePermit> {
        let mut permits = Arc::clone(&self.threads).acquire_owned().await.ok()?;
        while permits.num_permits() < self.n_threads {
            match Arc::clone(&self.threads).try_acquire_owned() {
                Ok(more) => permits.merge(more),
                Err(_) => break,
            }
        }
        Some(permits)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn searches_share_the_threads() {
        let pool = SearchPool::with_threads(3);
        let cancel = CancellationToken::new();
        let (tell, told) = mpsc::channel();
        let ended = pool
            .run(&cancel, Duration::from_secs(60), move |_, n_threads| {
                tell.send(n_threads).unwrap();
            })
            .await;
        assert_eq!((ended, told.recv().unwrap()), (Ended::Completed, 3));

        let _taken = pool.threads.clone().acquire_many_owned(2).await.unwrap();
        let (tell, told) = mpsc::channel();
        pool.run(&cancel, Duration::from_secs(60), move |_, n_threads| {
            tell.send(n_threads).unwrap();
        })
        .await;
        assert_eq!(told.recv().unwrap(), 1);
    }

    #[tokio::test]
    async fn a_running_search_is_told_to_end() {
        for (time, is_cancelled, expected) in [
            (Duration::from_secs(60), true, Ended::Cancelled),
            (Duration::ZERO, false, Ended::TimedOut),
        ] {
            let pool = SearchPool::with_threads(1);
            let cancel = CancellationToken::new();
            let (tell, told) = mpsc::channel();
            let on_start = cancel.clone();
            let ended = pool.run(&cancel, time, move |stop, _| {
                if is_cancelled {
                    on_start.cancel();
                }
                while !stop.is_set() {
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
    async fn a_waiting_search_can_be_cancelled() {
        let pool = SearchPool::with_threads(1);
        let _taken = pool.threads.clone().acquire_owned().await.unwrap();
        let cancel = CancellationToken::new();
        cancel.cancel();
        let ended = pool
            .run(&cancel, Duration::from_secs(60), |_, _| unreachable!())
            .await;
        assert_eq!(ended, Ended::Cancelled);
    }
}
