//! Jobs that stand in a list, for tests of tools.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::value::cron::CronJob;

use super::CronDeps;
use crate::config::values::CronConfig;
use crate::cron::jobs::JobSet;
use crate::cron::ledger::Ledger;
use crate::cron::zone::Zone;
use crate::kernel::cron::{CronOp, ListedJob, NewJob};
use crate::kernel::fault::Fault;
use crate::kernel::port::CronJobs;
use crate::kernel::time::Timestamp;

/// 2026-03-01T08:00:00Z.
pub(crate) const NOW: Timestamp = Timestamp(1_772_352_000_000);

/// Jobs without a session; their ids count up.
pub(crate) struct Jobs(Mutex<JobSet>);

impl Jobs {
    pub(crate) fn new(rules: CronConfig) -> Arc<Self> {
        Arc::new(Self(Mutex::new(JobSet::new(Ledger::default(), rules, NOW))))
    }

    pub(crate) fn set(&self) -> std::sync::MutexGuard<'_, JobSet> {
        self.0.lock().unwrap()
    }

    fn add(&self, new: &NewJob) -> Result<CronJob, Fault> {
        let mut set = self.set();
        let mut n = set.ledger().jobs().len();
        let job = set.check_new(new, &Zone::utc(), NOW, || {
            n += 1;
            format!("{n:08x}")
        })?;
        set.apply(CronOp::Added(Box::new(job.clone())), NOW);
        Ok(set.view(&job, NOW))
    }

    fn remove(&self, id: &str) -> Result<CronJob, Fault> {
        let mut set = self.set();
        let job = set.find(id)?.clone();
        let view = set.view(&job, NOW);
        set.apply(CronOp::Deleted { id: job.id }, NOW);
        Ok(view)
    }
}

impl CronJobs for Jobs {
    fn list(&self) -> BoxFuture<'static, Result<Vec<ListedJob>, Fault>> {
        std::future::ready(Ok(self.set().list(NOW))).boxed()
    }

    fn create(&self, new: NewJob) -> BoxFuture<'static, Result<CronJob, Fault>> {
        std::future::ready(self.add(&new)).boxed()
    }

    fn delete(&self, id: String) -> BoxFuture<'static, Result<CronJob, Fault>> {
        std::future::ready(self.remove(&id)).boxed()
    }
}

/// What tools are made with where no test looks at jobs.
pub(crate) fn deps() -> CronDeps {
    deps_of(Jobs::new(CronConfig::default()), CronConfig::default())
}

pub(crate) fn deps_of(jobs: Arc<Jobs>, rules: CronConfig) -> CronDeps {
    CronDeps {
        jobs,
        rules,
        is_ephemeral: false,
    }
}
