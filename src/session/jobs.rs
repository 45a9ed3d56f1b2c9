//! The cron jobs of a loaded session as others reach them: its tools by the port `CronJobs`, everybody else by its handle.

use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::id::SessionId;
use longshore_protocol::value::cron::CronJob;
use tokio::sync::{mpsc, oneshot};

use super::command::{Command, Reply, SessionHandle, Started};
use super::cron::{CronCommand, Renew};
use crate::kernel::cron::{ListedJob, NewJob};
use crate::kernel::fault::Fault;
use crate::kernel::port::CronJobs;

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
