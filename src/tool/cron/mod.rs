//! Cron jobs for the model: making, listing and deleting them. The jobs belong to the session; tools reach them through
//! the port [`CronJobs`], and only the main agent's do.

pub mod create;
pub mod delete;
pub mod list;

#[cfg(test)]
mod cron_tests;
#[cfg(test)]
pub(crate) mod testing;

use std::fmt;
use std::sync::Arc;

use longshore_protocol::value::cron::CronJob;

pub use self::create::CronCreate;
pub use self::delete::CronDelete;
pub use self::list::CronList;
use super::Outcome;
use crate::config::values::CronConfig;
use crate::kernel::fault::Fault;
use crate::kernel::port::CronJobs;

/// What the tools are made with.
#[derive(Clone)]
pub struct CronDeps {
    /// The session's jobs.
    pub jobs: Arc<dyn CronJobs>,
    /// What is configured.
    pub rules: CronConfig,
    /// True where nothing of the session is kept after it ends.
    pub is_ephemeral: bool,
}

impl fmt::Debug for CronDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CronDeps").finish_non_exhaustive()
    }
}

/// `key: value` lines that say which job it is and when it runs.
fn lines(job: &CronJob) -> Vec<String> {
    let mut lines = vec![
        format!("id: {}", job.job_id),
        format!("cron: {}", job.cron),
        format!("schedule: {}", job.schedule),
        format!("timezone: {}", job.timezone),
        format!("recurring: {}", job.recurring),
    ];
    let next = job.next_fire_at.as_deref().unwrap_or("null");
    lines.push(format!("next_fire: {next}"));
    lines
}

/// A failure for the model.
fn failed(fault: Fault) -> Outcome {
    Outcome::failed(format!("{}.", fault.message))
}
