//! What a session's jobs are, by everything that has happened to them.
//!
//! The same changes make the ledger when a journal is read back and while its session is loaded, so that both always say
//! the same. A fire is no operation of its own: it stands in the record of the turn it began, and [`Ledger::fired`] takes
//! it from there. That is what makes it happen once.

use longshore_protocol::id::{JobId, TurnId};
use longshore_protocol::value::cron::PauseReason;
use longshore_protocol::value::usage::Usage;

use crate::kernel::cron::{AsideJob, CronOp, StoredJob};
use crate::kernel::time::Timestamp;

/// The jobs of a session as they are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    /// In the order they were made.
    jobs: Vec<StoredJob>,
    /// What could not be read, as it was.
    aside: Vec<AsideJob>,
    /// The turn that jobs began and that has not ended, with what has fired: its cost is theirs.
    turn: Option<(TurnId, Vec<JobId>)>,
    /// Operations since the last snapshot.
    n_ops: usize,
}

/// A fire as the record of its turn has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The job.
    pub job: JobId,
    /// The last instant it answers for.
    pub ideal_at: Timestamp,
    /// Whether the job is gone with it.
    pub is_last: bool,
}

impl Ledger {
    /// The jobs, in the order they were made.
    pub fn jobs(&self) -> &[StoredJob] {
        &self.jobs
    }

    /// One job.
    pub fn get(&self, id: &str) -> Option<&StoredJob> {
        self.jobs.iter().find(|job| job.id.as_str() == id)
    }

    /// What could not be read.
    pub fn aside(&self) -> &[AsideJob] {
        &self.aside
    }

    /// Operations since everything was last written down in one.
    pub fn n_ops(&self) -> usize {
        self.n_ops
    }

    /// Everything in one operation.
    pub fn snapshot(&self) -> CronOp {
        CronOp::Snapshot {
            jobs: self.jobs.clone(),
            aside: self.aside.clone(),
        }
    }

    /// The jobs for a copy of their session: paused, since two that fire would do everything twice.
    pub fn for_fork(&self) -> CronOp {
        let paused = |job: &StoredJob| StoredJob {
            paused: Some(job.paused.unwrap_or(PauseReason::Forked)),
            ..job.clone()
        };
        CronOp::Snapshot {
            jobs: self.jobs.iter().map(paused).collect(),
            aside: Vec::new(),
        }
    }

    /// Takes in an operation that happened at an instant. One about a job that is not there changes nothing.
    pub fn apply(&mut self, op: CronOp, at: Timestamp) {
        self.n_ops += 1;
        match op {
            CronOp::Added(job) => {
                // A line that stands twice counts once.
                self.remove(&job.id);
                self.jobs.push(*job);
            }
            CronOp::Deleted { id } => self.remove(&id),
            CronOp::Paused { id, reason } => {
                if let Some(job) = self.get_mut(&id) {
                    job.paused = Some(reason);
                }
            }
            CronOp::Resumed { id } => {
                if let Some(job) = self.get_mut(&id)
                    && job.paused.take().is_some()
                {
                    job.unattended_fires = 0;
                    // A job that fires once has nothing but what it missed.
                    if job.recurring {
                        job.cursor = job.cursor.max(Some(at));
                    }
                }
            }
            CronOp::Renewed { id } => {
                if let Some(job) = self.get_mut(&id) {
                    job.renewed_at = Some(at);
                }
            }
            CronOp::Snapshot { jobs, aside } => {
                (self.jobs, self.aside) = (jobs, aside);
                self.n_ops = 0;
            }
            CronOp::Unreadable(aside) => self.aside.push(aside),
        }
    }

    /// Jobs have fired and begun a turn.
    pub fn fired(&mut self, turn: &TurnId, fires: &[Fired], at: Timestamp) {
        for fire in fires {
            let Some(job) = self.get_mut(&fire.job) else {
                continue;
            };
            if fire.is_last || !job.recurring {
                let id = job.id.clone();
                self.remove(&id);
                continue;
            }
            job.cursor = Some(fire.ideal_at);
            job.fired_at = Some(at);
            job.fires += 1;
            job.unattended_fires += 1;
        }
        self.turn = Some((
            turn.clone(),
            fires.iter().map(|fire| fire.job.clone()).collect(),
        ));
    }

    /// A turn has ended. What it took is shared among the jobs that began it.
    pub fn turn_ended(&mut self, turn: &TurnId, usage: &Usage) {
        let Some((_, jobs)) = self.turn.take_if(|(began, _)| began == turn) else {
            return;
        };
        for (n, id) in jobs.iter().enumerate() {
            let share = share(usage, n as u64, jobs.len() as u64);
            if let Some(job) = self.get_mut(id) {
                job.usage.add(&share);
            }
        }
    }

    /// Somebody has said something.
    pub fn attended(&mut self) {
        for job in &mut self.jobs {
            job.unattended_fires = 0;
        }
    }

    fn get_mut(&mut self, id: &JobId) -> Option<&mut StoredJob> {
        self.jobs.iter_mut().find(|job| job.id == *id)
    }

    fn remove(&mut self, id: &JobId) {
        self.jobs.retain(|job| job.id != *id);
    }
}

/// The `n`-th of `of` shares of something; together they are all of it.
fn share(usage: &Usage, n: u64, of: u64) -> Usage {
    let part = |all: u64| all / of + u64::from(n < all % of);
    Usage {
        input_other: part(usage.input_other),
        input_cache_read: part(usage.input_cache_read),
        input_cache_creation: part(usage.input_cache_creation),
        output: part(usage.output),
        reasoning: usage.reasoning.map(part),
        estimated: usage.estimated,
    }
}
