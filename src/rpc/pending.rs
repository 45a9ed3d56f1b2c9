//! The in-flight tables of a connection: requests of the other side, and our own.
//!
//! An entry in [`Incoming`] is the right to answer. Whoever takes it sends the one reply: the handler, a cancel, a
//! panic or the shutdown; for all others the request is over.
//! An answered request stays in the table, and its id in use, until the writer has its reply in hand.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_protocol::envelope::RequestId;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::batch::BatchReplies;
use super::wire::RemoteError;

/// The requests a line answers. Given out by the peer, and handed back to it by the writer.
#[derive(Debug, Default)]
pub struct Receipt(Ids);

#[derive(Debug, Default)]
enum Ids {
    #[default]
    None,
    One(RequestId),
    Many(Vec<RequestId>),
}

impl Receipt {
    pub(super) fn one(id: RequestId) -> Self {
        Self(Ids::One(id))
    }

    pub(super) fn many(ids: Vec<RequestId>) -> Self {
        Self(if ids.is_empty() {
            Ids::None
        } else {
            Ids::Many(ids)
        })
    }

    /// Whether the line answers nobody, so that the receipt need not be kept.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Ids::None)
    }
}

/// Requests of the other side.
#[derive(Debug)]
pub(super) struct Incoming {
    max_in_flight: usize,
    table: Mutex<Requests>,
}

#[derive(Debug, Default)]
struct Requests {
    last_serial: u64,
    by_id: HashMap<RequestId, State>,
}

#[derive(Debug)]
enum State {
    /// Nobody has answered yet.
    Open(OpenRequest),
    /// The reply waits to be written.
    Answered,
}

/// What is known of a request nobody has answered.
#[derive(Debug)]
pub(super) struct OpenRequest {
    /// Tells this request from later ones with the same id.
    serial: u64,
    pub(super) cancel: CancellationToken,
    /// Where the reply goes if the request came in a batch.
    pub(super) batch: Option<Arc<BatchReplies>>,
}

/// Why a request was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotBegun {
    /// Its id is in flight.
    Duplicate,
    /// There are too many in flight.
    Busy,
}

impl Incoming {
    pub(super) fn new(max_in_flight: usize) -> Self {
        Self {
            max_in_flight,
            table: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a request in and returns its serial, which answering it needs.
    pub(super) fn begin(
        &self,
        id: &RequestId,
        cancel: CancellationToken,
        batch: Option<Arc<BatchReplies>>,
    ) -> Result<u64, NotBegun> {
        let mut table = self.lock();
        let is_full = table.by_id.len() >= self.max_in_flight;
        let serial = table.last_serial + 1;
        match table.by_id.entry(id.clone()) {
            Entry::Occupied(_) => return Err(NotBegun::Duplicate),
            Entry::Vacant(_) if is_full => return Err(NotBegun::Busy),
            Entry::Vacant(entry) => entry.insert(State::Open(OpenRequest {
                serial,
                cancel,
                batch,
            })),
        };
        table.last_serial = serial;
        Ok(serial)
    }

    /// Takes the right to answer this very request; `None` when somebody has it already.
    pub(super) fn take(&self, id: &RequestId, serial: u64) -> Option<OpenRequest> {
        let mut table = self.lock();
        let state = table.by_id.get_mut(id)?;
        match state {
            State::Open(open) if open.serial == serial => answered(state),
            State::Open(_) | State::Answered => None,
        }
    }

    /// Takes the right to answer whatever is open under this id.
    pub(super) fn take_any(&self, id: &RequestId) -> Option<OpenRequest> {
        answered(self.lock().by_id.get_mut(id)?)
    }

    /// The token of an open request, which stays open.
    pub(super) fn token(&self, id: &RequestId) -> Option<CancellationToken> {
        match self.lock().by_id.get(id)? {
            State::Open(open) => Some(open.cancel.clone()),
            State::Answered => None,
        }
    }

    /// The ids of all open requests, oldest first.
    pub(super) fn open_ids(&self) -> Vec<RequestId> {
        let table = self.lock();
        let mut open: Vec<_> = table
            .by_id
            .iter()
            .filter_map(|(id, state)| match state {
                State::Open(open) => Some((open.serial, id.clone())),
                State::Answered => None,
            })
            .collect();
        open.sort_unstable_by_key(|(serial, _)| *serial);
        open.into_iter().map(|(_, id)| id).collect()
    }

    /// Frees the ids whose replies are being written.
    pub(super) fn release(&self, receipts: impl Iterator<Item = Receipt>) {
        let mut table = self.lock();
        for receipt in receipts {
            let ids = match &receipt.0 {
                Ids::None => &[],
                Ids::One(id) => std::slice::from_ref(id),
                Ids::Many(ids) => ids.as_slice(),
            };
            for id in ids {
                table.by_id.remove(id);
            }
        }
    }

    /// How many requests are in flight, those included whose replies are not yet written.
    pub(super) fn len(&self) -> usize {
        self.lock().by_id.len()
    }
}

fn answered(state: &mut State) -> Option<OpenRequest> {
    match std::mem::replace(state, State::Answered) {
        State::Open(open) => Some(open),
        State::Answered => None,
    }
}

/// Why one of our own requests has no result.
#[derive(Debug, thiserror::Error)]
pub enum RequestFailure {
    /// The other side answered with an error.
    #[error("{0}")]
    Refused(RemoteError),
    /// The connection ended before an answer came, or had ended before the request was made.
    #[error("the connection is closed")]
    Closed,
    /// The params cannot be written as JSON.
    #[error("the params cannot be written")]
    Unwritable(#[source] serde_json::Error),
    /// The result does not have the expected shape.
    #[error("the result cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

/// The raw result of one of our requests.
pub(super) type Outcome = Result<Box<RawValue>, RequestFailure>;

/// Our own requests.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    table: Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    last_id: u64,
    closed: bool,
    waiting: HashMap<u64, oneshot::Sender<Outcome>>,
}

impl Outgoing {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a request under a fresh id, never used before on this connection. `None` once the connection is closed.
    pub(super) fn begin(&self) -> Option<(u64, oneshot::Receiver<Outcome>)> {
        let mut table = self.lock();
        if table.closed {
            return None;
        }
        table.last_id += 1;
        let id = table.last_id;
        let (sender, receiver) = oneshot::channel();
        table.waiting.insert(id, sender);
        Some((id, receiver))
    }

    /// Hands an answer to the request it belongs to; `false` when nobody waits for it.
    pub(super) fn resolve(&self, id: u64, outcome: Outcome) -> bool {
        let waiting = self.lock().waiting.remove(&id);
        waiting.is_some_and(|sender| sender.send(outcome).is_ok())
    }

    /// Gives up a request; `false` when it has been answered or has failed.
    pub(super) fn forget(&self, id: u64) -> bool {
        self.lock().waiting.remove(&id).is_some()
    }

    /// Fails all requests with [`RequestFailure::Closed`], and all later ones.
    pub(super) fn close(&self) {
        let waiting = {
            let mut table = self.lock();
            table.closed = true;
            std::mem::take(&mut table.waiting)
        };
        for (_, sender) in waiting {
            // A requester that has gone needs no news.
            let _ = sender.send(Err(RequestFailure::Closed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> RequestId {
        RequestId::from(number)
    }

    #[test]
    fn the_entry_is_the_right_to_answer() {
        let table = Incoming::new(2);
        let begin = |number| table.begin(&id(number), CancellationToken::new(), None);
        let first = begin(1).unwrap();
        assert_eq!(begin(1), Err(NotBegun::Duplicate));
        let second = begin(2).unwrap();
        assert_eq!(begin(3), Err(NotBegun::Busy));
        assert_eq!(
            begin(2),
            Err(NotBegun::Duplicate),
            "told before the lack of room"
        );

        assert!(
            table.take(&id(1), second).is_none(),
            "another request's serial"
        );
        assert!(table.take(&id(1), first).is_some());
        assert!(
            table.take(&id(1), first).is_none() && table.take_any(&id(1)).is_none(),
            "answered once"
        );
        assert!(table.token(&id(1)).is_none());
        assert_eq!(
            begin(1),
            Err(NotBegun::Duplicate),
            "in flight until written"
        );
        assert_eq!((table.open_ids(), table.len()), (vec![id(2)], 2));

        table.release([Receipt::one(id(1))].into_iter());
        let again = begin(1).unwrap();
        assert!(
            table.take(&id(1), first).is_none(),
            "a late handler of the first request"
        );
        assert_eq!(table.open_ids(), [id(2), id(1)]);
        assert!(table.take(&id(1), again).is_some() && table.take_any(&id(2)).is_some());
        table.release([Receipt::many(vec![id(1), id(2)]), Receipt::many(Vec::new())].into_iter());
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn answers_reach_the_request_they_belong_to_once() {
        let table = Outgoing::default();
        let result = || Ok(RawValue::NULL.to_owned());
        let (first, mut first_answer) = table.begin().unwrap();
        let (second, _) = table.begin().unwrap();
        let (third, mut third_answer) = table.begin().unwrap();
        assert_eq!((first, second, third), (1, 2, 3));
        assert!(!table.resolve(7, result()), "unknown");
        assert!(table.resolve(first, result()));
        assert!(!table.resolve(first, result()), "twice");
        assert!(first_answer.try_recv().unwrap().is_ok());
        assert!(!table.resolve(second, result()), "the requester has gone");
        let (given_up, _answer) = table.begin().unwrap();
        assert!(table.forget(given_up) && !table.forget(given_up));
        assert!(!table.resolve(given_up, result()), "a late answer");
        table.close();
        assert!(matches!(
            third_answer.try_recv(),
            Ok(Err(RequestFailure::Closed))
        ));
        assert!(!table.forget(third) && table.begin().is_none());
    }
}
