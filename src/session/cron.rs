//! The cron jobs of a loaded session: what hosts and the model do with them.
//!
//! The jobs live in the journal. An operation is on the disk before it is answered; a fire stands in the record of the
//! turn it begins, so that a crash keeps both or neither and nothing fires twice. In memory there is the [`JobSet`] made
//! from it, whose appointments stand with the server's one [`Scheduler`](crate::cron::scheduler::Scheduler). When one is
//! due the scheduler rings, and [`Actor::fire_due_jobs`] in `fires` looks; so does every moment at which the session
//! becomes idle. Others reach the jobs by what is in `jobs`.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use longshore_protocol::id::{AgentId, JobId};
use longshore_protocol::value::cron::{CronChange, CronJob, PauseReason};
use longshore_protocol::value::turn::StartState;

use super::actor::{Actor, answer};
use super::command::{Gate, Reply, Started};
use super::deps::Deps;
use super::fires::Given;
use super::wake::WakeDoor;
use crate::cron::check::CronError;
use crate::cron::index::Entry;
use crate::cron::jobs::JobSet;
use crate::cron::ledger::Ledger;
use crate::cron::timetable::Bell;
use crate::cron::zone::Zone;
use crate::kernel::cron::{CronOp, ListedJob, NewJob, StoredJob};
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::port::EventSink;
use crate::kernel::time::Timestamp;
use crate::kernel::wake::WakeKey;

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
    pub(super) jobs: JobSet,
    zone: Zone,
    pub(super) bell: Arc<dyn Bell>,
    /// Jobs with an appointment.
    pub(super) booked: HashSet<JobId>,
    /// What the turn that runs was begun with.
    pub(super) given: Option<Given>,
    /// The newest state that the index does not have yet.
    unindexed: Arc<Mutex<Option<Unindexed>>>,
}

/// What is to stand in the index: an entry, or none.
struct Unindexed(Option<Entry>);

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

    pub(super) async fn pause_job(
        &mut self,
        id: &str,
        reason: PauseReason,
    ) -> Result<CronJob, Fault> {
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
        match self.begin_fires(fires, Some(released)).await {
            Ok(turn) => Ok(Some(Started {
                turn,
                state: StartState::Running,
                gate,
            })),
            Err(fault) => {
                self.cron.jobs.not_by_hand(id);
                Err(fault)
            }
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
            match self
                .journal
                .state(&main, StateRecord::Cron(snapshot.clone()))
            {
                Ok(()) => self.cron.jobs.apply(snapshot, self.now()),
                // The operation itself is kept; the next one tries again.
                Err(fault) => {
                    tracing::warn!(%fault, "the cron jobs could not be written down in one");
                }
            }
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
        if !self.due_jobs().is_empty() {
            self.wakes.look();
        }
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
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Unindexed(self.index_entry()));
        move || {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(Unindexed(entry)) = slot.take() {
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
    pub(super) fn say(&self, event: DomainEvent) {
        if let Err(fault) = self.journal.durable(&AgentId::main(), event.clone()) {
            tracing::error!(%fault, "what happened to a job could not be recorded");
            self.journal.show_unkept(&AgentId::main(), event);
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.deps.clock.now()
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
