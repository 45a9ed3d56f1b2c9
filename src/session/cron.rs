//! The cron jobs of a loaded session: what hosts and the model do with them, and how one fires.
//!
//! The jobs live in the journal. An operation is on the disk before it is answered; a fire stands in the record of the
//! turn it begins, so that a crash keeps both or neither and nothing fires twice. In memory there is the [`JobSet`] made
//! from it, whose appointments stand with the server's one [`Scheduler`](crate::cron::scheduler::Scheduler). When one is
//! due the scheduler rings, and [`Actor::fire_due_jobs`] looks; so does every moment at which the session becomes idle.
//! What is due then is decided there and nowhere else: while a turn runs nothing is counted and nothing moves on.
//!
//! A fire that could not be put into a turn leaves its job as it is and waits a little, longer each time.

use std::collections::HashSet;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::id::{AgentId, JobId, SessionId, TurnId};
use longshore_protocol::value::cron::{CronChange, CronJob, PauseReason};
use longshore_protocol::value::failure::Warning;
use longshore_protocol::value::turn::{Origin, StartState};
use longshore_protocol::value::usage::Usage;
use tokio::sync::{mpsc, oneshot};

use super::actor::{Actor, answer};
use super::command::{Command, Gate, Reply, SessionHandle, Started};
use super::deps::Deps;
use super::turns::Waiting;
use super::wake::WakeDoor;
use crate::cron::fire::{Fire, texts};
use crate::cron::index::Entry;
use crate::cron::jobs::{CronError, JobSet};
use crate::cron::ledger::{Fired, Ledger};
use crate::cron::timetable::Bell;
use crate::cron::zone::Zone;
use crate::kernel::cron::{CronOp, ListedJob, NewJob, StoredJob};
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::port::{CronJobs, EventSink};
use crate::kernel::time::Timestamp;
use crate::kernel::wake::{Urgency, Wake, WakeKey};

/// Operations after which all jobs are written down in one: whoever reads them need not go through every change.
const SNAPSHOT_OPS: usize = 64;

/// What a session's task is asked about jobs.
#[derive(Debug)]
pub(super) enum CronCommand {
    /// All of them.
    List { reply: Reply<Vec<ListedJob>> },
    /// A new one.
    Create { new: NewJob, reply: Reply<CronJob> },
    /// One less.
    Delete { id: String, reply: Reply<CronJob> },
    /// One that does not fire for now.
    Pause { id: String, reply: Reply<CronJob> },
    /// One that fires again, or is renewed.
    Resume {
        id: String,
        renew: Renew,
        reply: Reply<CronJob>,
    },
    /// One that fires at once.
    Fire {
        id: String,
        reply: Reply<Option<Started>>,
    },
}

/// Whether a job's age counts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renew {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// What a loaded session has of cron.
pub(super) struct Cron {
    jobs: JobSet,
    zone: Zone,
    bell: Arc<dyn Bell>,
    /// Jobs with an appointment.
    booked: HashSet<JobId>,
    /// What the turn that runs was begun with.
    given: Option<Given>,
    /// The newest state that the index does not have yet.
    unindexed: Arc<Mutex<Option<Option<Entry>>>>,
}

/// Fires that were put into a turn.
struct Given {
    turn: TurnId,
    fires: Vec<Fire>,
    /// Hears when the record of the turn is written; gone once it was heard, or will not come.
    recorded: Option<oneshot::Receiver<()>>,
    is_told: bool,
}

impl Bell for WakeDoor {
    fn ring(&self) {
        self.look();
    }
}

impl Cron {
    pub(super) fn new(deps: &Deps, ledger: Ledger, zone: Option<&str>, door: &WakeDoor) -> Self {
        Self {
            jobs: JobSet::new(ledger, deps.config.cron.clone(), deps.clock.now()),
            zone: zone.and_then(Zone::find).unwrap_or_else(Zone::system),
            bell: Arc::new(door.clone()),
            booked: HashSet::new(),
            given: None,
            unindexed: Arc::default(),
        }
    }

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
        pending().await
    }

    /// Somebody has said something.
    pub(super) fn attended(&mut self) {
        self.jobs.attended();
    }

    /// Jobs that may fire some day.
    pub(super) fn n_jobs(&self) -> usize {
        self.jobs.ledger().jobs().len()
    }
}

impl Actor {
    pub(super) async fn cron(&mut self, command: CronCommand) {
        match command {
            CronCommand::List { reply } => answer(reply, Ok(self.cron.jobs.list(self.now()))),
            CronCommand::Create { new, reply } => {
                let made = self.create_job(&new).await;
                answer(reply, made);
            }
            CronCommand::Delete { id, reply } => {
                let deleted = self.delete_job(&id).await;
                answer(reply, deleted);
            }
            CronCommand::Pause { id, reply } => {
                let paused = self.pause_job(&id, PauseReason::Host).await;
                answer(reply, paused);
            }
            CronCommand::Resume { id, renew, reply } => {
                let resumed = self.resume_job(&id, renew).await;
                answer(reply, resumed);
            }
            CronCommand::Fire { id, reply } => {
                let fired = self.fire_job(&id).await;
                answer(reply, fired);
            }
        }
    }

    async fn create_job(&mut self, new: &NewJob) -> Result<CronJob, Fault> {
        self.check_open()?;
        let ids = self.deps.ids.clone();
        let job = self
            .cron
            .jobs
            .check_new(new, &self.cron.zone, self.now(), || ids.hex8())?;
        let id = job.id.clone();
        self.keep(CronOp::Added(Box::new(job))).await?;
        let job = self.cron.jobs.find(id.as_str())?.clone();
        self.changed(CronChange::Created, &job)
    }

    async fn delete_job(&mut self, id: &str) -> Result<CronJob, Fault> {
        let job = self.cron.jobs.find(id)?.clone();
        let view = self.cron.jobs.view(&job, self.now());
        let id = job.id.clone();
        self.keep(CronOp::Deleted { id }).await?;
        self.show(CronChange::Deleted, view)
    }

    async fn pause_job(&mut self, id: &str, reason: PauseReason) -> Result<CronJob, Fault> {
        let job = self.cron.jobs.find(id)?.clone();
        if job.paused.is_some() {
            return Ok(self.cron.jobs.view(&job, self.now()));
        }
        let id = job.id.clone();
        self.keep(CronOp::Paused { id, reason }).await?;
        let job = self.cron.jobs.find(job.id.as_str())?.clone();
        self.changed(CronChange::Paused, &job)
    }

    async fn resume_job(&mut self, id: &str, renew: Renew) -> Result<CronJob, Fault> {
        let job = self.cron.jobs.find(id)?.clone();
        let id = &job.id;
        let mut changes = Vec::new();
        if job.paused.is_some() {
            self.keep(CronOp::Resumed { id: id.clone() }).await?;
            changes.push(CronChange::Resumed);
        }
        if renew == Renew::Yes {
            self.keep(CronOp::Renewed { id: id.clone() }).await?;
            changes.push(CronChange::Renewed);
        }
        let job = self.cron.jobs.find(id.as_str())?.clone();
        for change in changes {
            self.changed(change, &job)?;
        }
        self.wakes.look();
        Ok(self.cron.jobs.view(&job, self.now()))
    }

    /// Fires a job now, or as soon as the session is idle.
    async fn fire_job(&mut self, id: &str) -> Result<Option<Started>, Fault> {
        self.check_open()?;
        self.check_model()?;
        self.cron.jobs.fire_by_hand(id)?;
        if self.turns.is_busy() {
            return Ok(None);
        }
        let (gate, released) = Gate::new();
        let fires = self.due_jobs();
        let turn = self.begin_fires(fires, Some(released)).await?;
        Ok(Some(Started {
            turn,
            state: StartState::Running,
            gate,
        }))
    }

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

    fn due_jobs(&self) -> Vec<Fire> {
        let ids = self.deps.ids.clone();
        self.cron.jobs.due(self.now(), || ids.ulid())
    }

    async fn begin_fires(
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

    /// A turn has ended: its jobs have fired by now, or not at all.
    pub(super) fn fires_settled(&mut self, turn: &TurnId, usage: &Usage) {
        let Some(given) = self.cron.given.take_if(|given| given.turn == *turn) else {
            return;
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
        let last = fires.iter().filter(|fire| fire.is_last());
        let gone: Vec<CronJob> = last
            .map(|fire| self.cron.jobs.view_last(&fire.job, now))
            .collect();
        self.cron.jobs.fired(&turn, &fired, now);
        for fire in fires {
            self.say(DomainEvent::CronFired {
                turn: turn.clone(),
                fire: Box::new(fire.wire()),
            });
        }
        let count = fires.iter().filter(|fire| fire.is_missed).count() as u32;
        if count > 0 {
            self.say(DomainEvent::CronMissed { turn, count });
        }
        for job in gone {
            let change = if job.recurring {
                CronChange::Expired
            } else {
                CronChange::Completed
            };
            let job = Box::new(job);
            self.say(DomainEvent::CronChanged { change, job });
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

    /// Writes an operation to the disk and takes it in.
    async fn keep(&mut self, op: CronOp) -> Result<(), Fault> {
        let main = AgentId::main();
        self.journal.state(&main, StateRecord::Cron(op.clone()))?;
        if !self.session.ephemeral {
            self.journal.sync().await?;
        }
        self.cron.jobs.apply(op, self.now());
        if self.cron.jobs.ledger().n_ops() >= SNAPSHOT_OPS {
            let snapshot = self.cron.jobs.ledger().snapshot();
            self.journal
                .state(&main, StateRecord::Cron(snapshot.clone()))?;
            self.cron.jobs.apply(snapshot, self.now());
        }
        self.book();
        self.index_jobs();
        Ok(())
    }

    /// The session is loaded: its jobs have their appointments, and what came due meanwhile is looked at.
    pub(super) fn begin_jobs(&mut self) {
        if let Some(agent) = &mut self.agent {
            // The jobs know what has fired.
            agent
                .told
                .retain(|key| !matches!(key, WakeKey::Fire { .. }));
        }
        self.book();
        self.wakes.look();
    }

    /// Brings the index of all sessions' jobs up to date.
    fn index_jobs(&self) {
        if !self.session.ephemeral {
            self.deps.tasks.spawn_blocking(self.index_writer());
        }
    }

    /// What writes this session's entry of the index. The slot is held meanwhile, so an older state never replaces a newer
    /// one.
    pub(super) fn index_writer(&self) -> impl FnOnce() + Send + use<> {
        let (index, id) = (
            self.deps.cron_index.clone(),
            self.session.session_id.clone(),
        );
        let slot = self.cron.unindexed.clone();
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.index_entry());
        move || {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = slot.take() {
                index.set(&id, entry);
            }
        }
    }

    /// What is known of the jobs without loading the session.
    pub(super) fn index_entry(&self) -> Option<Entry> {
        let jobs = self.cron.jobs.ledger().jobs();
        (!jobs.is_empty()).then(|| Entry {
            n_jobs: jobs.len(),
            next_fire_at: self.cron.jobs.next_due(),
        })
    }

    fn changed(&self, change: CronChange, job: &StoredJob) -> Result<CronJob, Fault> {
        self.show(change, self.cron.jobs.view(job, self.now()))
    }

    /// Tells hosts what changed about a job. It is kept already.
    fn show(&self, change: CronChange, job: CronJob) -> Result<CronJob, Fault> {
        self.journal.durable(
            &AgentId::main(),
            DomainEvent::CronChanged {
                change,
                job: Box::new(job.clone()),
            },
        )?;
        Ok(job)
    }

    /// Tells hosts something that is true whether or not the journal can take it.
    fn say(&self, event: DomainEvent) {
        if let Err(fault) = self.journal.durable(&AgentId::main(), event.clone()) {
            tracing::error!(%fault, "what happened to a job could not be recorded");
            self.journal.show_unkept(&AgentId::main(), event);
        }
    }

    fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }
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
    }
}

fn wakes(fires: &[Fire]) -> Vec<Wake> {
    let told = texts(fires);
    fires
        .iter()
        .zip(told)
        .map(|(fire, text)| Wake {
            key: key(fire),
            text: text.into(),
            urgency: Urgency::Turn,
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
                fire: _,
                is_last,
            } => Some(Fired {
                job: job.clone(),
                ideal_at: *ideal_at,
                is_last: *is_last,
            }),
        })
        .collect()
}

/// The jobs of a session as its tools reach them.
pub(super) struct JobsOf {
    pub(super) session: SessionId,
    pub(super) inbox: mpsc::WeakSender<Command>,
}

impl JobsOf {
    fn ask<T: Send + 'static>(
        &self,
        command: impl FnOnce(Reply<T>) -> CronCommand + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Fault>> {
        let (session, inbox) = (self.session.clone(), self.inbox.clone());
        async move {
            let (reply, answer) = oneshot::channel();
            let gone = || super::not_found(&session);
            let inbox = inbox.upgrade().ok_or_else(gone)?;
            let sent = inbox.send(Command::Cron(command(reply))).await;
            sent.map_err(|_| gone())?;
            answer.await.unwrap_or_else(|_| Err(gone()))
        }
        .boxed()
    }
}

impl CronJobs for JobsOf {
    fn list(&self) -> BoxFuture<'static, Result<Vec<ListedJob>, Fault>> {
        self.ask(|reply| CronCommand::List { reply })
    }

    fn create(&self, new: NewJob) -> BoxFuture<'static, Result<CronJob, Fault>> {
        self.ask(|reply| CronCommand::Create { new, reply })
    }

    fn delete(&self, id: String) -> BoxFuture<'static, Result<CronJob, Fault>> {
        self.ask(|reply| CronCommand::Delete { id, reply })
    }
}

impl SessionHandle {
    /// The jobs, in the order they were made.
    pub async fn cron_jobs(&self) -> Result<Vec<ListedJob>, Fault> {
        self.call(|reply| Command::Cron(CronCommand::List { reply }))
            .await
    }

    /// Makes a job; it is on the disk when this returns.
    ///
    /// # Errors
    /// `invalid_params` for what can't be read or never comes, `limit_exceeded`, `not_supported` where jobs are switched
    /// off, storage kinds.
    pub async fn create_job(&self, new: NewJob) -> Result<CronJob, Fault> {
        self.call(|reply| Command::Cron(CronCommand::Create { new, reply }))
            .await
    }

    /// Deletes a job and gives it as it was.
    ///
    /// # Errors
    /// `job_not_found`, `invalid_params` for what is no id, storage kinds.
    pub async fn delete_job(&self, id: &str) -> Result<CronJob, Fault> {
        let id = id.to_owned();
        self.call(|reply| Command::Cron(CronCommand::Delete { id, reply }))
            .await
    }

    /// Has a job not fire until it is resumed.
    pub async fn pause_job(&self, id: &str) -> Result<CronJob, Fault> {
        let id = id.to_owned();
        self.call(|reply| Command::Cron(CronCommand::Pause { id, reply }))
            .await
    }

    /// Has a job fire again from now on, and counts its age anew where that is wanted.
    pub async fn resume_job(&self, id: &str, renew: Renew) -> Result<CronJob, Fault> {
        let id = id.to_owned();
        self.call(|reply| Command::Cron(CronCommand::Resume { id, renew, reply }))
            .await
    }

    /// Fires a job. `None` where a turn runs: it fires once the session is idle.
    pub async fn fire_job(&self, id: &str) -> Result<Option<Started>, Fault> {
        let id = id.to_owned();
        self.call(|reply| Command::Cron(CronCommand::Fire { id, reply }))
            .await
    }
}

/// Where a new session's clock is.
///
/// # Errors
/// `invalid_params` where there is no such zone.
pub(super) fn check_zone(name: &str) -> Result<String, Fault> {
    match Zone::find(name) {
        Some(zone) => Ok(zone.name().to_owned()),
        None => Err(CronError::UnknownZone(name.to_owned()).into()),
    }
}
