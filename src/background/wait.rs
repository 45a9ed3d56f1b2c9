//! Waiting for tasks.

use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use futures::{FutureExt, StreamExt};
use longshore_protocol::id::TaskId;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Tasks;
use super::spec::{TaskError, Which, Whose};
use super::table::Seen;
use crate::kernel::task::TaskInfo;

impl Tasks {
    /// Waits until a task has ended, `limit` is over or `cancel` fires, and gives it as it is then: at once where it has
    /// ended already. The task is not touched.
    ///
    /// # Cancel safety
    /// Can be dropped and called again.
    pub async fn wait(
        &self,
        whose: Whose<'_>,
        id: &TaskId,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<TaskInfo, TaskError> {
        let seen = {
            let table = self.table();
            let entry = table
                .get(whose, id)
                .ok_or_else(|| TaskError::NotFound(id.clone()))?;
            match &entry.live {
                Some(live) => live.seen.subscribe(),
                None => return Ok(entry.describe()),
            }
        };
        let ended = tokio::select! {
            biased;
            ended = timeout(limit, ended(seen)) => ended.ok().flatten(),
            () = cancel.cancelled() => None,
        };
        match ended {
            Some(info) => Ok(TaskInfo::clone(&info)),
            None => self.get(whose, id),
        }
    }

    /// Waits until one of the tasks that run now, attached ones left out, has ended. `None` where none runs, `limit` is
    /// over or `cancel` fires.
    ///
    /// # Cancel safety
    /// Can be dropped and called again.
    pub async fn wait_any(
        &self,
        whose: Whose<'_>,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Option<TaskInfo> {
        let running: Vec<_> = {
            let table = self.table();
            let entries = table.entries.values();
            entries
                .filter(|entry| entry.info.detached && whose.includes(&entry.info.owner))
                .filter_map(|entry| entry.live.as_ref())
                .map(|live| ended(live.seen.subscribe()).boxed())
                .collect()
        };
        if running.is_empty() {
            return None;
        }
        let first = async {
            let (ended, _, _) = select_all(running).await;
            ended
        };
        tokio::select! {
            biased;
            ended = timeout(limit, first) => Some(TaskInfo::clone(ended.ok().flatten()?.as_ref())),
            () = cancel.cancelled() => None,
        }
    }

    /// Waits until no detached task runs, those started meanwhile included. Returns false where `limit` or `cancel`
    /// came first.
    pub async fn wait_all(
        &self,
        whose: Whose<'_>,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> bool {
        let all = async {
            loop {
                let running: futures::stream::FuturesUnordered<_> = {
                    let table = self.table();
                    let entries = table.entries.values();
                    entries
                        .filter(|entry| entry.info.detached && whose.includes(&entry.info.owner))
                        .filter_map(|entry| entry.live.as_ref())
                        .map(|live| ended(live.seen.subscribe()))
                        .collect()
                };
                if running.is_empty() {
                    return;
                }
                running.for_each(|_| async {}).await;
            }
        };
        tokio::select! {
            biased;
            ended = timeout(limit, all) => ended.is_ok(),
            () = cancel.cancelled() => false,
        }
    }

    /// Waits until a task's output is longer than `beyond`, the task has ended, `limit` is over or `cancel` fires.
    ///
    /// # Cancel safety
    /// Can be dropped and called again.
    pub async fn wait_output(
        &self,
        whose: Whose<'_>,
        id: &TaskId,
        beyond: u64,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<TaskInfo, TaskError> {
        let (mut grew, seen) = {
            let table = self.table();
            let entry = table
                .get(whose, id)
                .ok_or_else(|| TaskError::NotFound(id.clone()))?;
            match &entry.live {
                Some(live) => (entry.output.grew(), live.seen.subscribe()),
                None => return Ok(entry.describe()),
            }
        };
        let happened = async {
            tokio::select! {
                biased;
                info = ended(seen) => info,
                // An error is the end too.
                _ = grew.wait_for(|total_bytes| *total_bytes > beyond) => None,
            }
        };
        let info = tokio::select! {
            biased;
            happened = timeout(limit, happened) => happened.ok().flatten(),
            () = cancel.cancelled() => None,
        };
        match info {
            Some(info) => Ok(TaskInfo::clone(&info)),
            None => self.get(whose, id),
        }
    }

    /// Everything of one sort that `whose` includes and that has ended, newest first.
    pub fn list_ended(&self, whose: Whose<'_>) -> Vec<TaskInfo> {
        let mut all = self.list(whose, Which::All);
        all.retain(|info| info.status.is_terminal());
        all
    }

    pub(super) async fn seen_to_end(
        &self,
        id: &TaskId,
        seen: watch::Receiver<Seen>,
    ) -> Result<TaskInfo, TaskError> {
        match ended(seen).await {
            Some(info) => Ok(TaskInfo::clone(&info)),
            None => self.get(Whose::Anyones, id),
        }
    }
}

/// Waits for the end of a task. `None` where its carrier is gone without a word, which only the end of the runtime does.
async fn ended(mut seen: watch::Receiver<Seen>) -> Option<Arc<TaskInfo>> {
    let seen = seen.wait_for(|seen| seen.ended.is_some()).await.ok()?;
    seen.ended.clone()
}
