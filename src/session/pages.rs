//! Durable events read back for hosts, page by page.
//!
//! Whoever catches up asks for one page after the other: while it takes one, the next is read. Where pages began and ended
//! is remembered, so that a journal is not read from its front for each of them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_protocol::id::SessionId;
use tokio::task::JoinHandle;

use super::journal::read::{Mark, Page, events};
use crate::kernel::event::Stamped;
use crate::os::blocking;
use crate::os::fs::FsError;

/// Places that are remembered. Chosen: two for each of more hosts than anybody has.
const MAX_PLACES: usize = 64;
/// Pages that are read before they are asked for. Chosen: more hosts seldom catch up at a time, and none is lost by it.
const MAX_AHEAD: usize = 4;

/// Which page of a session.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The session.
    pub(super) session: SessionId,
    /// Its directory.
    pub(super) dir: PathBuf,
    /// A place to read from, where none that is remembered is nearer.
    pub(super) from: Mark,
    /// Events after this number.
    pub(super) after: u64,
    /// Up to about so many bytes of them.
    pub(super) max_bytes: usize,
}

/// What is remembered of pages.
#[derive(Debug, Default)]
pub(super) struct Pages {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    places: VecDeque<(SessionId, Mark)>,
    ahead: VecDeque<Ahead>,
}

/// A page that is being read.
#[derive(Debug)]
struct Ahead {
    session: SessionId,
    after: u64,
    page: JoinHandle<Result<Page, FsError>>,
}

impl Pages {
    /// Reads a page.
    pub(super) async fn read(&self, wanted: Wanted) -> Result<Vec<Arc<Stamped>>, FsError> {
        let read_ahead = match self.take_ahead(&wanted) {
            // What came to the journal since then is in the next page.
            Some(page) => page.await.ok().and_then(Result::ok),
            None => None,
        };
        let read_ahead = read_ahead.filter(|page| !page.events.is_empty());
        let page = if let Some(page) = read_ahead {
            page
        } else {
            let wanted = self.nearest(&wanted);
            blocking::run(move || read(&wanted)).await?
        };
        self.remember(&wanted, &page);
        Ok(page.events)
    }

    /// Forgets a session whose journal is written no more.
    pub(super) fn forget(&self, session: &SessionId) {
        let mut state = self.lock();
        state.ahead.retain(|ahead| ahead.session != *session);
        state.places.retain(|(of, _)| of != session);
    }

    fn take_ahead(&self, wanted: &Wanted) -> Option<JoinHandle<Result<Page, FsError>>> {
        let mut state = self.lock();
        let n = state
            .ahead
            .iter()
            .position(|ahead| ahead.session == wanted.session && ahead.after == wanted.after)?;
        state.ahead.remove(n).map(|ahead| ahead.page)
    }

    fn nearest(&self, wanted: &Wanted) -> Wanted {
        let state = self.lock();
        let of_session = state.places.iter().filter(|(of, _)| *of == wanted.session);
        let from = of_session
            .map(|(_, place)| *place)
            .filter(|place| place.seq <= wanted.after)
            .chain([wanted.from])
            .max_by_key(|place| place.seq)
            .unwrap_or(wanted.from);
        Wanted {
            from,
            ..wanted.clone()
        }
    }

    fn remember(&self, wanted: &Wanted, page: &Page) {
        let mut state = self.lock();
        for place in [page.begin, page.end].into_iter().flatten() {
            let place = (wanted.session.clone(), place);
            if !state.places.contains(&place) {
                state.places.push_back(place);
            }
        }
        while state.places.len() > MAX_PLACES {
            state.places.pop_front();
        }
        let (Some(from), Some(after)) = (page.end, page.events.last().and_then(|last| last.seq))
        else {
            return;
        };
        if !page.is_full {
            return;
        }
        let next = Wanted {
            from,
            after,
            ..wanted.clone()
        };
        state.ahead.push_back(Ahead {
            session: next.session.clone(),
            after,
            page: blocking::begin(move || read(&next)),
        });
        while state.ahead.len() > MAX_AHEAD {
            state.ahead.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(wanted: &Wanted) -> Result<Page, FsError> {
    let dir: &Path = &wanted.dir;
    events(
        &wanted.session,
        dir,
        wanted.from,
        wanted.after,
        wanted.max_bytes,
    )
}
