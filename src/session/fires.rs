//! How a session's jobs fire.
//!
//! [`Actor::fire_due_jobs`] runs whenever the session may begin a turn of its own, and decides there and then what is due
//! and what each fire answers for: while a turn runs nothing is counted and nothing moves on. The keys of the fires stand
//! in the record of the turn they begin; only when that is written have the jobs fired, in memory as in the journal. A
//! fire whose turn could not be recorded leaves its job as it is and waits a little, longer each time.

use std::sync::Arc;

use std::collections::HashSet;
use std::future::pending;

use longshore_protocol::id::{JobId, TurnId};
use longshore_protocol::value::cron::{CronChange, PauseReason};
use longshore_protocol::value::failure::Warning;
use longshore_protocol::value::turn::Origin;
use longshore_protocol::value::usage::Usage;
use tokio::sync::oneshot;

use super::actor::Actor;
use super::cron::Cron;
use super::turns::Waiting;
use crate::config::values::CronConfig;
use crate::cron::fire::{Fire, texts};
use crate::cron::jobs::JobSet;
use crate::cron::ledger::{Fired, Ledger};
use crate::cron::timing::Due;
use crate::cron::zone::Zone;
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::time::Timestamp;
use crate::kernel::wake::{Urgency, Wake, WakeKey};

/// Fires that were put into a turn.
pub(super) struct Given {
    turn: TurnId,
    fires: Vec<Fire>,
    /// Hears when the record of the turn is written; gone once it was heard, or will not come.
    recorded: Option<oneshot::Receiver<()>>,
    is_told: bool,
}

impl Cron {
    /// Ends when the record of a turn that jobs began is written; never where there is none to wait for.
    pub(super) async fn recorded(&mut self) {
        if let Some(given) = &mut self.given
            && let Some(recorded) = &mut given.recorded
        {
            if recorded.await.is_ok() {
                return;
            }
            // It will not be written; the end of the turn says so.
            given.recorded = None;
        }
        pending::<()>().await;
    }
}

impl Actor {
    /// Begins a turn with the jobs that are due, where there are any and the session may. It must be idle.
    pub(super) async fn fire_due_jobs(&mut self) {
        self.cron.jobs.refresh(self.now());
        for id in self.cron.jobs.unattended(self.now()) {
            if let Err(fault) = self.pause_job(id.as_str(), PauseReason::Unattended).await {
                tracing::error!(session = %self.session.session_id, job = %id, %fault, "a job could not be paused");
            }
        }
        self.book();
        let fires = self.due_jobs();
        if fires.is_empty() {
            return;
        }
        if let Err(why) = self.may_wake() {
            tracing::info!(session = %self.session.session_id, n = fires.len(), %why, "jobs that are due wait");
            return;
        }
        if let Err(fault) = self.begin_fires(fires, None).await {
            tracing::warn!(session = %self.session.session_id, %fault, "jobs could not begin a turn");
        }
    }

    pub(super) fn due_jobs(&self) -> Vec<Fire> {
        let ids = self.deps.ids.clone();
        self.cron.jobs.due(self.now(), || ids.ulid())
    }

    pub(super) async fn begin_fires(
        &mut self,
        fires: Vec<Fire>,
        gate: Option<oneshot::Receiver<()>>,
    ) -> Result<TurnId, Fault> {
        let wakes = wakes(&fires);
        let turn = self.new_turn();
        let (recorded, hears) = oneshot::channel();
        let waiting = Waiting::woken(turn.clone(), Origin::Cron, wakes).heard_by(recorded, gate);
        match self.begin_turn(waiting).await {
            Ok(()) => {
                self.cron.given = Some(Given {
                    turn: turn.clone(),
                    fires,
                    recorded: Some(hears),
                    is_told: false,
                });
                Ok(turn)
            }
            Err(fault) => {
                self.undelivered(&fires, &fault.message);
                Err(fault)
            }
        }
    }

    /// The turn that jobs began is recorded: they have fired.
    pub(super) fn fires_recorded(&mut self) {
        if let Some(given) = &mut self.cron.given {
            given.recorded = None;
            if !std::mem::replace(&mut given.is_told, true) {
                let (turn, fires) = (given.turn.clone(), given.fires.clone());
                self.fired(turn, &fires);
            }
        }
    }

    /// Takes in what the task of the turn that runs has said about its record, where that was not done yet.
    pub(super) fn hear_fires(&mut self) {
        if let Some(given) = &mut self.cron.given
            && let Some(recorded) = &mut given.recorded
            && recorded.try_recv().is_ok()
        {
            self.fires_recorded();
        }
    }

    /// A turn has ended: its jobs have fired by now, or not at all.
    pub(super) fn fires_settled(&mut self, turn: &TurnId, usage: &Usage) {
        let Some(given) = self.cron.given.take_if(|given| given.turn == *turn) else {
            // A turn that an earlier process began has told its jobs already.
            return self.cron.jobs.turn_ended(turn, usage);
        };
        let keys: HashSet<WakeKey> = given.fires.iter().map(key).collect();
        let mut is_told = given.is_told;
        if let Some(agent) = &mut self.agent {
            is_told |= keys.iter().all(|key| agent.told.contains(key));
            // What has fired is kept by the jobs; a set that grows with every fire for years is not needed.
            agent.told.retain(|key| !keys.contains(key));
        }
        self.wakes.forget(&keys);
        if !is_told {
            self.undelivered(&given.fires, "its turn could not be recorded");
            return;
        }
        if !given.is_told {
            self.fired(given.turn, &given.fires);
        }
        self.cron.jobs.turn_ended(turn, usage);
    }

    fn fired(&mut self, turn: TurnId, fires: &[Fire]) {
        let now = self.now();
        let fired: Vec<Fired> = fires.iter().map(Fire::fired).collect();
        let told = told(&turn, fires, &self.cron.jobs, now);
        self.cron.jobs.fired(&turn, &fired, now);
        for event in told {
            self.say(event);
        }
        self.book();
    }

    fn undelivered(&mut self, fires: &[Fire], why: &str) {
        let fired: Vec<Fired> = fires.iter().map(Fire::fired).collect();
        if self.cron.jobs.undelivered(&fired, self.now()) {
            let jobs: Vec<&str> = fires.iter().map(|fire| fire.job.id.as_str()).collect();
            let message = format!(
                "cron job {} could not fire ({why}); it is tried again until it can",
                jobs.join(", ")
            );
            self.say(DomainEvent::Warning {
                warning: Warning::new("cron", message),
            });
        }
        self.book();
    }

    /// Puts the appointments of all jobs into the server's timetable.
    pub(super) fn book(&mut self) {
        let id = &self.session.session_id;
        let appointments = self.cron.jobs.appointments(self.now());
        let wanted: HashSet<JobId> = appointments.iter().map(|(job, _)| job.clone()).collect();
        for job in self.cron.booked.difference(&wanted) {
            self.deps.cron.remove(id, job);
        }
        for (job, at) in &appointments {
            self.deps.cron.put(id, job, *at, &self.cron.bell);
        }
        self.cron.booked = wanted;
    }

    /// Takes all appointments out: the session is closed.
    pub(super) fn cancel_appointments(&mut self) {
        for job in self.cron.booked.drain() {
            self.deps.cron.remove(&self.session.session_id, &job);
        }
    }
}

/// What hosts are told of fires whose turn is recorded; `jobs` has those that are gone with them, as far as it can.
fn told(turn: &TurnId, fires: &[Fire], jobs: &JobSet, now: Timestamp) -> Vec<DomainEvent> {
    let mut events: Vec<DomainEvent> = fires
        .iter()
        .map(|fire| DomainEvent::CronFired {
            turn: turn.clone(),
            fire: Box::new(fire.wire()),
        })
        .collect();
    let count = fires.iter().filter(|fire| fire.is_missed).count() as u32;
    if count > 0 {
        let turn = turn.clone();
        events.push(DomainEvent::CronMissed { turn, count });
    }
    let last = fires.iter().filter(|fire| fire.is_last());
    events.extend(last.map(|fire| DomainEvent::CronChanged {
        change: if fire.job.recurring {
            CronChange::Expired
        } else {
            CronChange::Completed
        },
        job: Box::new(jobs.view_last(&fire.job, now)),
    }));
    events
}

/// Fires of an open turn that hosts were not told of: the server ended right after the turn was recorded.
#[derive(Default)]
pub(super) struct Untold {
    turn: Option<TurnId>,
    fires: Vec<Fire>,
}

impl Untold {
    /// Takes in an event of a journal, before `jobs` does.
    pub(super) fn take(&mut self, jobs: &Ledger, event: &DomainEvent, at: Timestamp) {
        match event {
            DomainEvent::TurnStarted { turn, wakes, .. } => {
                self.turn = Some(turn.clone());
                self.fires = wakes
                    .iter()
                    .filter_map(|key| again(jobs, key, at))
                    .collect();
            }
            DomainEvent::CronFired { fire: told, .. } => {
                self.fires.retain(|fire| fire.id != told.fire_id);
            }
            DomainEvent::TurnEnded { turn, .. } if self.turn.as_ref() == Some(turn) => {
                *self = Self::default();
            }
            _ => {}
        }
    }

    /// What hosts are to be told.
    pub(super) fn events(&self, rules: &CronConfig, now: Timestamp) -> Vec<DomainEvent> {
        match &self.turn {
            Some(turn) if !self.fires.is_empty() => {
                let jobs = JobSet::new(Ledger::default(), rules.clone(), now);
                told(turn, &self.fires, &jobs, now)
            }
            _ => Vec::new(),
        }
    }
}

/// A fire from its key in the record of its turn.
fn again(jobs: &Ledger, key: &WakeKey, at: Timestamp) -> Option<Fire> {
    let WakeKey::Fire {
        job,
        ideal_at,
        fire,
        is_last,
        n_due,
        is_missed,
    } = key
    else {
        return None;
    };
    let job = jobs.get(job.as_str())?.clone();
    let due = (*n_due > 0).then_some(Due {
        n_coalesced: *n_due,
        first: *ideal_at,
        last: *ideal_at,
    });
    Some(Fire {
        zone: Zone::find(&job.timezone).unwrap_or_else(Zone::utc),
        is_stale: *is_last && job.recurring,
        id: fire.to_string(),
        due,
        is_missed: *is_missed,
        at,
        job,
    })
}

fn key(fire: &Fire) -> WakeKey {
    let Fired {
        job,
        ideal_at,
        is_last,
    } = fire.fired();
    WakeKey::Fire {
        job,
        ideal_at,
        fire: fire.id.as_str().into(),
        is_last,
        n_due: fire.due.map_or(0, |due| due.n_coalesced),
        is_missed: fire.is_missed,
    }
}

fn wakes(fires: &[Fire]) -> Vec<Wake> {
    let told = texts(fires);
    fires
        .iter()
        .zip(told)
        .map(|(fire, text)| {
            let text: Arc<str> = text.into();
            Wake {
                key: key(fire),
                brief: text.clone(),
                text,
                urgency: Urgency::Turn,
            }
        })
        .collect()
}

/// Takes in what an event of a journal says about jobs: fires, what they cost, and that somebody has said something.
pub(super) fn replay(jobs: &mut Ledger, event: &DomainEvent, at: Timestamp) {
    match event {
        DomainEvent::TurnStarted { origin, .. } | DomainEvent::TurnSteered { origin, .. }
            if origin.is_from_host() =>
        {
            jobs.attended();
        }
        DomainEvent::TurnStarted { turn, wakes, .. } => {
            let fired = fired(wakes);
            if !fired.is_empty() {
                jobs.fired(turn, &fired, at);
            }
        }
        DomainEvent::TurnEnded { turn, usage, .. } => jobs.turn_ended(turn, usage),
        _ => {}
    }
}

/// What the record of a turn says has fired.
fn fired(wakes: &[WakeKey]) -> Vec<Fired> {
    wakes
        .iter()
        .filter_map(|key| match key {
            WakeKey::Task { .. } => None,
            WakeKey::Fire {
                job,
                ideal_at,
                is_last,
                ..
            } => Some(Fired {
                job: job.clone(),
                ideal_at: *ideal_at,
                is_last: *is_last,
            }),
        })
        .collect()
}
