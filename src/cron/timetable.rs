//! What is due when, of all sessions: an ordered set with a map beside it.
//!
//! Adding, moving, removing and taking the first are O(log n). An entry that was taken because it was due is gone: whoever
//! it belongs to puts in its next appointment.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use longshore_protocol::id::{JobId, SessionId};

use crate::kernel::time::Timestamp;

/// Tells a session that something of its is due. It must not wait.
pub trait Bell: Send + Sync {
    /// Have it look.
    fn ring(&self);
}

/// Whose appointment it is.
type Key = (SessionId, JobId);

/// Appointments by time.
#[derive(Default)]
pub struct Timetable {
    by_time: BTreeMap<(Timestamp, u64), Key>,
    places: HashMap<Key, (Timestamp, u64)>,
    bells: HashMap<SessionId, (Arc<dyn Bell>, usize)>,
    /// Appointments put in so far: of those at the same time the one that was put in first comes first.
    n_put: u64,
}

impl Timetable {
    /// Puts in an appointment, in place of the one that the job has.
    pub fn put(&mut self, session: &SessionId, job: &JobId, at: Timestamp, bell: &Arc<dyn Bell>) {
        let key = (session.clone(), job.clone());
        if let Some(place) = self.places.get_mut(&key) {
            if place.0 != at {
                self.by_time.remove(place);
                place.0 = at;
                self.by_time.insert(*place, key);
            }
            return;
        }
        let place = (at, self.n_put);
        self.n_put += 1;
        let (_, n) = self
            .bells
            .entry(session.clone())
            .or_insert_with(|| (bell.clone(), 0));
        *n += 1;
        self.by_time.insert(place, key.clone());
        self.places.insert(key, place);
    }

    /// Takes out a job's appointment, where it has one.
    pub fn remove(&mut self, session: &SessionId, job: &JobId) {
        let key = (session.clone(), job.clone());
        if let Some(place) = self.places.remove(&key) {
            self.by_time.remove(&place);
            self.forget_one(session);
        }
    }

    /// The time of the first appointment.
    pub fn first(&self) -> Option<Timestamp> {
        self.by_time.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes out everything due at an instant, and gives the bell of each session concerned once.
    pub fn take_due(&mut self, now: Timestamp) -> Vec<Arc<dyn Bell>> {
        let (mut due, mut seen) = (Vec::new(), HashSet::new());
        while let Some(first) = self.by_time.first_entry() {
            if first.key().0 > now {
                break;
            }
            let key = first.remove();
            self.places.remove(&key);
            if seen.insert(key.0.clone())
                && let Some((bell, _)) = self.bells.get(&key.0)
            {
                due.push(bell.clone());
            }
            self.forget_one(&key.0);
        }
        due
    }

    /// The bells of all sessions.
    pub fn all(&self) -> Vec<Arc<dyn Bell>> {
        self.bells.values().map(|(bell, _)| bell.clone()).collect()
    }

    /// How many appointments there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn forget_one(&mut self, session: &SessionId) {
        if let Some((_, n)) = self.bells.get_mut(session) {
            *n -= 1;
            if *n == 0 {
                self.bells.remove(session);
            }
        }
    }
}
