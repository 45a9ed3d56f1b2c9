//! Keeps all decodes of the process within a number and a memory budget.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::kernel::limits::{IMAGE_DECODE_BYTES, IMAGE_DECODES};
use crate::os::blocking;

const MIB: u64 = 1 << 20;

/// One for the process. Work waits until there is room for it, in the order it came.
#[derive(Debug, Clone)]
pub struct ImagePool {
    decodes: Arc<Semaphore>,
    /// In MiB.
    memory: Arc<Semaphore>,
}

impl Default for ImagePool {
    fn default() -> Self {
        Self {
            decodes: Arc::new(Semaphore::new(IMAGE_DECODES)),
            memory: Arc::new(Semaphore::new(units(IMAGE_DECODE_BYTES) as usize)),
        }
    }
}

impl ImagePool {
    /// Runs work that takes this much memory, at most [`IMAGE_DECODE_BYTES`], on a blocking thread. `None` where a cancel
    /// came before it could begin.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop work that has begun; its room stays taken until it ends.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        n_bytes: u64,
        cancel: &CancellationToken,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let room = async {
            let decode = self.decodes.clone().acquire_owned().await;
            let memory = self.memory.clone().acquire_many_owned(units(n_bytes)).await;
            (decode, memory)
        };
        let room = cancel.run_until_cancelled(room).await?;
        let done = blocking::run(move || {
            let done = work();
            drop(room);
            done
        });
        Some(done.await)
    }
}

fn units(n_bytes: u64) -> u32 {
    u32::try_from(n_bytes.min(IMAGE_DECODE_BYTES).div_ceil(MIB)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn never_more_at_once_than_there_is_room_for() {
        let pool = ImagePool::default();
        let cancel = CancellationToken::new();
        let (running, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut all = JoinSet::new();
        for _ in 0..12 {
            let (pool, cancel) = (pool.clone(), cancel.clone());
            let (running, most) = (running.clone(), most.clone());
            all.spawn(async move {
                // Two of them would fit by number, but not by memory.
                pool.run(IMAGE_DECODE_BYTES / 2 + 1, &cancel, move || {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    std::thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                })
                .await
            });
        }
        while let Some(done) = all.join_next().await {
            assert_eq!(done.unwrap(), Some(()));
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_cancel_ends_the_wait() {
        let pool = ImagePool::default();
        let (go, gate) = mpsc::channel::<()>();
        let holder = {
            let pool = pool.clone();
            JoinSet::from_iter([async move {
                pool.run(IMAGE_DECODE_BYTES, &CancellationToken::new(), move || {
                    gate.recv_timeout(Duration::from_secs(60))
                })
                .await
            }])
        };
        while pool.memory.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let cancel = CancellationToken::new();
        let waiting = pool.run(1, &cancel, || ());
        cancel.cancel();
        assert_eq!(waiting.await, None);
        go.send(()).unwrap();
        assert!(holder.join_all().await[0].is_some());
    }
}
