//! Unloading what nobody uses: a server that outlives its hosts lets a session go after some time in which nothing
//! happened in it. Its journal stays; whoever wants it again loads it.
//!
//! A session rests while it has no host, turn, task, open ask or cron job. The time is that of the wall, so a machine
//! that slept for hours counts them.
//!
//! A session is out of [`Loads`](super::deps::Loads) before it is asked to go, under the turnstile that its loaders pass.
//! So nobody is given a handle of a session that is about to end: who comes meanwhile waits, and finds either the session
//! that stayed or the one that is loaded anew. A host is watching before it asks for its session.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::SessionId;

use super::actor::Actor;
use super::command::{Command, SessionHandle};
use super::lifecycle::Sessions;
use crate::kernel::fault::Fault;
use crate::kernel::port::Presence;
use crate::kernel::time::Timestamp;

/// Sessions are looked at at least this often, and at most …
const LOOK_MAX: Duration = Duration::from_secs(60);
/// … this often.
const LOOK_MIN: Duration = Duration::from_millis(100);
/// Between the two: so many times within the time that a session may rest.
const LOOKS: u32 = 8;

/// Sees to it that sessions which nobody uses are unloaded.
pub(super) struct Unloader {
    sessions: Sessions,
    presence: Arc<dyn Presence>,
    after: Duration,
    /// The sessions that rested when they were last looked at.
    resting: HashMap<SessionId, Rest>,
}

/// How long a session rests already.
#[derive(Clone, Copy)]
struct Rest {
    since: Timestamp,
    last_seq: u64,
}

impl Unloader {
    pub(super) fn new(sessions: Sessions, after: Duration, presence: Arc<dyn Presence>) -> Self {
        Self {
            sessions,
            presence,
            after,
            resting: HashMap::new(),
        }
    }

    /// Looks at every session once, and unloads those that have rested for long enough.
    pub(super) async fn look(&mut self) {
        let deps = self.sessions.deps.clone();
        let handles: Vec<SessionHandle> = deps.loaded.lock().values().cloned().collect();
        let mut still = HashMap::with_capacity(handles.len());
        for handle in handles {
            let Some(last_seq) = handle.rests_at(&self.presence).await else {
                continue;
            };
            let now = deps.clock.now();
            let known = self.resting.get(handle.id()).copied();
            let rest = known
                .filter(|rest| rest.last_seq == last_seq && rest.since <= now)
                .unwrap_or(Rest {
                    since: now,
                    last_seq,
                });
            let rested_ms = now.0.saturating_sub(rest.since.0);
            if u128::try_from(rested_ms).is_ok_and(|ms| ms >= self.after.as_millis()) {
                self.sessions.unload(&handle, &self.presence).await;
            } else {
                still.insert(handle.id().clone(), rest);
            }
        }
        self.resting = still;
    }
}

impl Sessions {
    /// Unloads sessions that have rested for so long. Goes on until it is dropped.
    pub async fn unload_resting(&self, after: Duration, presence: Arc<dyn Presence>) {
        let clock = &self.deps.clock;
        let pause = (after / LOOKS).clamp(LOOK_MIN, LOOK_MAX);
        let mut unloader = Unloader::new(self.clone(), after, presence);
        loop {
            clock.sleep_until(clock.elapsed() + pause).await;
            unloader.look().await;
        }
    }

    /// True where nothing is loaded, and nothing is to be loaded at some time.
    pub fn is_deserted(&self) -> bool {
        self.loaded_count() == 0 && self.deps.cron.is_empty()
    }

    /// Ends a session if it still rests.
    async fn unload(&self, handle: &SessionHandle, presence: &Arc<dyn Presence>) {
        let id = handle.id();
        let _passed = self.deps.loaded.turnstile(id).lock_owned().await;
        if self.deps.loaded.lock().remove(id).is_none() {
            return;
        }
        match handle.close_if_resting(presence).await {
            Ok(()) => {
                tracing::info!(session = %id, "unloaded: nothing has happened in it for long");
            }
            Err(fault) if fault.kind == ErrorKind::SessionBusy => {
                let mut loaded = self.deps.loaded.lock();
                loaded.insert(id.clone(), handle.clone());
            }
            Err(fault) => {
                tracing::warn!(session = %id, %fault, "a session ended while it was to be unloaded");
            }
        }
    }
}

impl SessionHandle {
    /// The last event of the session, where it rests.
    async fn rests_at(&self, presence: &Arc<dyn Presence>) -> Option<u64> {
        let presence = presence.clone();
        let rests = self.call(|reply| Command::Rests { presence, reply }).await;
        // One that is being closed needs no unloading.
        rests.unwrap_or_default()
    }

    async fn close_if_resting(&self, presence: &Arc<dyn Presence>) -> Result<(), Fault> {
        let presence = presence.clone();
        self.call(|reply| Command::CloseIfResting { presence, reply })
            .await
    }
}

impl Actor {
    /// Whether nothing happens here and nobody watches.
    pub(super) fn rests(&self, presence: &dyn Presence) -> bool {
        let is_idle = !self.turns.is_busy()
            && self.turns.closing.is_empty()
            && self.shells.is_empty()
            && self.wakes.due().is_none();
        is_idle
            && self.tasks.n_running() == 0
            && self.cron.n_jobs() == 0
            && !presence.is_watched(&self.session.session_id)
    }
}
