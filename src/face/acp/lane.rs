//! The prompts of one session, one after the other.
//!
//! A prompt takes its place when it is read off the wire, and leaves it when its answer is on its way. Only the first in
//! the lane has a turn, so everything of one turn is out before anything of the next; and a cancel reaches exactly the
//! prompts that came before it, whether or not they have begun.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A lane.
#[derive(Debug)]
pub(super) struct Lane {
    max_waiting: usize,
    queue: Mutex<Queue>,
    /// The ticket at the front; 0 while the lane is empty.
    front: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Queue {
    last_ticket: u64,
    tickets: VecDeque<(u64, CancellationToken)>,
}

/// A place in a lane, given back by its drop.
#[derive(Debug)]
pub(super) struct Ticket {
    lane: Arc<Lane>,
    number: u64,
    cancel: CancellationToken,
}

/// Too many wait already: this many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full(pub(super) usize);

impl Lane {
    /// An empty lane in which so many may wait behind the first.
    pub(super) fn new(max_waiting: usize) -> Arc<Self> {
        Arc::new(Self {
            max_waiting,
            queue: Mutex::default(),
            front: watch::Sender::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the last place. `cancel` fires for this prompt alone; [`cancel_all`](Self::cancel_all) fires it too.
    pub(super) fn enter(self: &Arc<Self>, cancel: &CancellationToken) -> Result<Ticket, Full> {
        let mut queue = self.lock();
        if queue.tickets.len() > self.max_waiting {
            return Err(Full(self.max_waiting));
        }
        queue.last_ticket += 1;
        let number = queue.last_ticket;
        let cancel = cancel.child_token();
        queue.tickets.push_back((number, cancel.clone()));
        self.show_front(&queue);
        Ok(Ticket {
            lane: Arc::clone(self),
            number,
            cancel,
        })
    }

    /// Cancels every prompt that is in the lane now.
    pub(super) fn cancel_all(&self) {
        let tokens: Vec<_> = self
            .lock()
            .tickets
            .iter()
            .map(|(_, cancel)| cancel.clone())
            .collect();
        for token in tokens {
            token.cancel();
        }
    }

    /// Waits until the lane is empty.
    pub(super) async fn empty(&self) {
        // The sender lives as long as this borrow, so the wait cannot fail.
        let _ = self.front.subscribe().wait_for(|front| *front == 0).await;
    }

    fn show_front(&self, queue: &Queue) {
        self.front
            .send_replace(queue.tickets.front().map_or(0, |(number, _)| *number));
    }
}

impl Ticket {
    /// Fires when this prompt is cancelled, in whatever way.
    pub(super) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Waits until this prompt is the first.
    pub(super) async fn first(&self) {
        // The lane is kept alive by this ticket, so the wait cannot fail.
        let _ = self
            .lane
            .front
            .subscribe()
            .wait_for(|front| *front == self.number)
            .await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut queue = self.lane.lock();
        queue.tickets.retain(|(number, _)| *number != self.number);
        self.lane.show_front(&queue);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn places_come_up_in_order() {
        let (lane, token) = (Lane::new(2), CancellationToken::new());
        let [first, second, third] = [(); 3].map(|()| lane.enter(&token).unwrap());
        assert_eq!(lane.enter(&token).unwrap_err(), Full(2));
        assert!(first.first().now_or_never().is_some());
        assert!(second.first().now_or_never().is_none());
        drop(second);
        assert!(
            third.first().now_or_never().is_none(),
            "the first is still there"
        );
        drop(first);
        third.first().await;
        assert!(lane.empty().now_or_never().is_none());
        drop(third);
        lane.empty().await;
    }

    #[tokio::test]
    async fn a_cancel_reaches_what_is_in_the_lane_and_nothing_later() {
        let (lane, one) = (Lane::new(8), CancellationToken::new());
        let first = lane.enter(&one).unwrap();
        let second = lane.enter(&CancellationToken::new()).unwrap();
        one.cancel();
        assert!(first.cancel().is_cancelled() && !second.cancel().is_cancelled());
        lane.cancel_all();
        assert!(second.cancel().is_cancelled());
        let third = lane.enter(&CancellationToken::new()).unwrap();
        assert!(!third.cancel().is_cancelled());
    }
}
