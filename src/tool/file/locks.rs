//! One writer per file at a time, in the whole process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Locks by real path, held from the read of a file to the write that follows from it. Waiters come first by first.
#[derive(Debug, Default)]
pub struct FileLocks {
    locks: Mutex<HashMap<PathBuf, Weak<AsyncMutex<()>>>>,
}

/// Locks in the table at which those nobody holds any more are cleared out.
const CLEAR_AT: usize = 256;

impl FileLocks {
    /// Waits for the lock of a file.
    ///
    /// # Cancel safety
    /// A waiter that is dropped gives up its place.
    pub(super) async fn lock(&self, real: &Path) -> OwnedMutexGuard<()> {
        self.of(real).lock_owned().await
    }

    fn of(&self, real: &Path) -> Arc<AsyncMutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(real).and_then(Weak::upgrade) {
            return lock;
        }
        if locks.len() >= CLEAR_AT {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::new(AsyncMutex::new(()));
        locks.insert(real.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_holder_per_path() {
        let locks = FileLocks::default();
        let held = locks.lock(Path::new("/a")).await;
        assert!(locks.lock(Path::new("/a")).now_or_never().is_none());
        assert!(locks.lock(Path::new("/b")).now_or_never().is_some());
        drop(held);
        assert!(locks.lock(Path::new("/a")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn the_table_does_not_grow_with_files_long_let_go() {
        let locks = FileLocks::default();
        for n in 0..CLEAR_AT * 3 {
            drop(locks.lock(Path::new(&format!("/{n}"))).await);
        }
        assert!(locks.locks.lock().unwrap().len() <= CLEAR_AT);
    }
}
