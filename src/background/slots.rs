//! How many detached tasks run at once, in one session and in the whole process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The slots of the whole process, shared by the task managers of all sessions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TaskSlots {
    used: Arc<AtomicUsize>,
    max: usize,
}

/// One taken slot of the process, until dropped.
#[derive(Debug)]
pub(super) struct Slot(Arc<AtomicUsize>);

impl TaskSlots {
    /// So many slots, all free.
    pub fn new(max: usize) -> Self {
        Self {
            used: Arc::default(),
            max,
        }
    }

    /// The most there may be.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// How many are taken.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    /// Takes a slot where one is free.
    pub(super) fn take(&self) -> Option<Slot> {
        let taken = self
            .used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |used| {
                (used < self.max).then_some(used + 1)
            });
        taken.ok().map(|_| Slot(Arc::clone(&self.used)))
    }

    /// Takes a slot whether or not one is free: for a task that runs already.
    pub(super) fn take_anyway(&self) -> Slot {
        self.used.fetch_add(1, Ordering::SeqCst);
        Slot(Arc::clone(&self.used))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slot_goes_to_one() {
        let slots = TaskSlots::new(2);
        let first = slots.take().unwrap();
        let other = slots.clone();
        let second = other.take().unwrap();
        assert!(slots.take().is_none() && other.take().is_none());
        let third = slots.take_anyway();
        assert_eq!(slots.used(), 3);
        drop(first);
        assert!(slots.take().is_none(), "one too many still runs");
        drop((second, third));
        assert_eq!(slots.used(), 0);
    }
}
