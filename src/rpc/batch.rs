//! Gathers the replies to the entries of one batch into one line.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longshore_protocol::envelope::RequestId;

use super::outbox::{Line, Outbox};
use super::pending::Receipt;
use super::service::{FollowUp, run};
use super::wire;

/// The replies to one batch, in the order they come.
///
/// The array is sent when nobody is expected to add to it any more; a batch of notifications is not answered.
pub(super) struct BatchReplies {
    state: Mutex<State>,
}

struct State {
    /// `[` and the replies so far, with commas between; empty before the first.
    text: Vec<u8>,
    answered: Vec<RequestId>,
    follow_ups: Vec<FollowUp>,
    /// Entries without a reply yet, and one for the reader while it goes through the batch.
    expected: usize,
}

impl BatchReplies {
    /// An empty batch that waits for the reader to [`finish`](Self::finish).
    pub(super) fn new() -> Self {
        let state = State {
            text: Vec::new(),
            answered: Vec::new(),
            follow_ups: Vec::new(),
            expected: 1,
        };
        Self {
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces an entry whose reply comes by [`answer`](Self::answer). It must be announced before anybody can
    /// answer it.
    pub(super) fn expect(&self) {
        self.lock().expected += 1;
    }

    /// Adds the reply to an expected entry.
    pub(super) fn answer(
        &self,
        id: RequestId,
        reply: &[u8],
        follow_up: Option<FollowUp>,
        outbox: &dyn Outbox,
    ) {
        let mut state = self.lock();
        state.push(reply);
        state.answered.push(id);
        state.follow_ups.extend(follow_up);
        Self::one_less(state, outbox);
    }

    /// Takes the announcement of an entry back.
    pub(super) fn unexpect(&self) {
        self.lock().expected -= 1;
    }

    /// Adds a reply to an entry that nobody was expected to answer. Only the reader does so, before it finishes.
    pub(super) fn refuse(&self, reply: &[u8]) {
        self.lock().push(reply);
    }

    /// Says that the reader has gone through all entries.
    pub(super) fn finish(&self, outbox: &dyn Outbox) {
        Self::one_less(self.lock(), outbox);
    }

    fn one_less(mut state: MutexGuard<'_, State>, outbox: &dyn Outbox) {
        state.expected -= 1;
        if state.expected > 0 || state.text.is_empty() {
            return;
        }
        let mut text = std::mem::take(&mut state.text);
        let receipt = Receipt::many(std::mem::take(&mut state.answered));
        let follow_ups = std::mem::take(&mut state.follow_ups);
        drop(state);
        text.push(b']');
        outbox.send(Line {
            bytes: wire::single_line(text),
            receipt,
        });
        follow_ups.into_iter().for_each(run);
    }
}

impl State {
    fn push(&mut self, reply: &[u8]) {
        self.text
            .push(if self.text.is_empty() { b'[' } else { b',' });
        self.text.extend_from_slice(reply);
    }
}

impl fmt::Debug for BatchReplies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchReplies")
            .field("expected", &self.lock().expected)
            .finish_non_exhaustive()
    }
}
