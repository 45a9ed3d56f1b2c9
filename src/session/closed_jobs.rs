//! Cron jobs of sessions that need not be loaded: listing them, and loading a session because one of its own is due.

use std::sync::Arc;

use longshore_protocol::id::{JobId, SessionId};
use longshore_protocol::value::cron::CronJob;
use longshore_protocol::value::page::Page;

use super::deps::{Deps, OwnTurns};
use super::lifecycle::Sessions;
use super::list::{ListFilter, bad_cursor, page_limit};
use super::store;
use crate::cron::index::Entry;
use crate::cron::jobs::JobSet;
use crate::cron::timetable::Bell;
use crate::kernel::cron::ListedJob;
use crate::kernel::fault::Fault;
use crate::kernel::limits::PAGE_MAX;
use crate::os::blocking;

/// As what a session that is not loaded stands in the timetable.
const CLOSED: &str = "closed";

impl Sessions {
    /// One page of a session's jobs, in the order they were made, without loading it.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_params` for a cursor that is none of ours, storage kinds.
    pub async fn cron_jobs(
        &self,
        id: &SessionId,
        cursor: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Page<CronJob>, Fault> {
        let start = cursor
            .map(|cursor| cursor.parse::<usize>().map_err(|_| bad_cursor()))
            .transpose()?
            .unwrap_or(0);
        let jobs = if let Some(handle) = self.loaded(id) {
            handle.cron_jobs().await?
        } else {
            let (deps, id) = (self.deps.clone(), id.clone());
            blocking::run(move || deps.stored_jobs(&id)).await?
        };
        let end = start.saturating_add(page_limit(limit));
        let next_cursor = (end < jobs.len()).then(|| end.to_string());
        let page = jobs.into_iter().skip(start).take(end - start);
        Ok(Page {
            items: page.map(|listed| listed.job).collect(),
            next_cursor,
        })
    }

    /// The sessions that have jobs. Where there is no index yet, every journal is read and one is made.
    pub async fn sessions_with_jobs(&self) -> Vec<SessionId> {
        let deps = self.deps.clone();
        let entries = if let Some(entries) = blocking::run(move || deps.cron_index.all()).await {
            entries
        } else {
            let (deps, all) = (self.deps.clone(), self.all_ids().await);
            blocking::run(move || deps.index_anew(all)).await
        };
        entries.into_iter().map(|(id, _)| id).collect()
    }

    /// Every stored session, archived ones too.
    async fn all_ids(&self) -> Vec<SessionId> {
        let mut ids = Vec::new();
        for archived in [false, true] {
            let mut filter = ListFilter {
                archived,
                limit: Some(PAGE_MAX as u32),
                ..ListFilter::default()
            };
            // A cursor of our own is always one of ours.
            while let Ok(page) = self.list(filter.clone()).await {
                ids.extend(page.items.into_iter().map(|session| session.session_id));
                filter.cursor = page.next_cursor;
                if filter.cursor.is_none() {
                    break;
                }
            }
        }
        ids
    }

    /// Has every session that is not loaded be loaded when a job of its own is due, where that is configured and a turn may
    /// run without a host.
    pub async fn wake_closed(&self) {
        let deps = self.deps.clone();
        if !deps.wakes_closed() {
            return;
        }
        let entries = blocking::run(move || deps.cron_index.all().unwrap_or_default()).await;
        for (id, entry) in entries {
            if self.loaded(&id).is_none() {
                self.deps.await_closed(&id, &entry);
            }
        }
    }
}

impl Deps {
    fn wakes_closed(&self) -> bool {
        let cron = &self.config.cron;
        cron.enabled && cron.wake_closed_sessions && self.own_turns == OwnTurns::Always
    }

    /// Puts a session that is not loaded into the timetable.
    pub(super) fn await_closed(self: &Arc<Self>, id: &SessionId, entry: &Entry) {
        if !self.wakes_closed() {
            return;
        }
        if let Some(at) = entry.next_fire_at {
            let bell: Arc<dyn Bell> = Arc::new(Opener {
                deps: self.clone(),
                session: id.clone(),
            });
            self.cron.put(id, &JobId::from(CLOSED), at, &bell);
        }
    }

    /// A session is loaded: it rings its own bell from now on.
    pub(super) fn await_no_more(&self, id: &SessionId) {
        self.cron.remove(id, &JobId::from(CLOSED));
    }

    /// The jobs of a session as its journal has them. Blocking.
    fn stored_jobs(&self, id: &SessionId) -> Result<Vec<ListedJob>, Fault> {
        let dir = self.store.find(id).ok_or_else(|| super::not_found(id))?;
        let loaded = store::load(id, &dir)?;
        let now = self.clock.now();
        Ok(JobSet::new(loaded.jobs, self.config.cron.clone(), now).list(now))
    }

    /// Reads the journals of sessions and notes those that have jobs. Blocking.
    fn index_anew(&self, sessions: Vec<SessionId>) -> Vec<(SessionId, Entry)> {
        let now = self.clock.now();
        let mut entries = Vec::new();
        for id in sessions {
            let dir = self.store.find(&id);
            let Some(loaded) = dir.and_then(|dir| store::load(&id, &dir).ok()) else {
                continue;
            };
            let jobs = JobSet::new(loaded.jobs, self.config.cron.clone(), now);
            let n_jobs = jobs.ledger().jobs().len();
            if n_jobs > 0 {
                let entry = Entry {
                    n_jobs,
                    next_fire_at: jobs.next_due(),
                };
                self.cron_index.set(&id, Some(entry));
                entries.push((id, entry));
            }
        }
        entries
    }
}

/// Loads a session. Its jobs then find by themselves that they are due.
struct Opener {
    deps: Arc<Deps>,
    session: SessionId,
}

impl Bell for Opener {
    fn ring(&self) {
        let sessions = Sessions {
            deps: self.deps.clone(),
        };
        let id = self.session.clone();
        self.deps.tasks.spawn(async move {
            if let Err(fault) = sessions.open(&id).await {
                tracing::warn!(session = %id, %fault, "a session whose job is due could not be loaded");
            }
        });
    }
}
