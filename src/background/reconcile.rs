//! After a restart: what is recorded as running is looked for, and what is not found is lost.

use super::Tasks;
use super::output::Output;
use super::record::log_path;
use super::settle::{End, Remains};
use super::table::{Entry, Live};
use crate::kernel::limits::PROCESS_GRACE_IN_CALL;
use crate::kernel::task::{TaskInfo, TaskStatus};
use crate::os::process::{RecordedGroup, TASK_MARK};
use crate::os::{blocking, fs};

/// Why a task is lost.
const LOST: &str = "the server ended while it ran";

/// Said of a log whose writer died.
const CUT_SHORT: &str = "the server ended while it was written";

impl Tasks {
    /// Takes up again with what is recorded as running and outlived the server, under the same id. Settles the rest: as
    /// its supervisor saw it end; else its processes are ended where any are left, and it is lost, with the output that
    /// is in its log. [`super::TaskSink::ended`] is called for each that is settled. To be called once the tasks of a
    /// session are loaded, before any is started; a second call does nothing. Returns the lost ones, the oldest first.
    pub async fn reconcile(&self) -> Vec<TaskInfo> {
        let mut recorded: Vec<_> = {
            let table = self.table();
            let is_stale =
                |entry: &&Entry| entry.live.is_none() && !entry.info.status.is_terminal();
            let entries = table.entries.values().filter(is_stale);
            entries
                .map(|entry| (entry.serial, entry.record()))
                .collect()
        };
        recorded.sort_unstable_by_key(|(serial, _)| *serial);
        let mut stale = Vec::new();
        for (_, record) in recorded {
            let is_kept = record
                .info
                .process()
                .is_some_and(|detail| detail.keep_alive);
            if !is_kept {
                stale.push(record);
            } else if let Some(end) = self.end_left(&record).await {
                self.revive(&record.info);
                self.settle(&record.info.id, end, Remains::Record).await;
            } else if !self.readopt(&record).await {
                stale.push(record);
            }
        }
        let processes = &self.inner.parts.processes;
        let ending = stale.iter().map(|record| async move {
            let marked = processes.end_marked(
                TASK_MARK,
                record.mark.as_str(),
                PROCESS_GRACE_IN_CALL,
            );
            let detail = record.info.process();
            let group = detail.and_then(|detail| {
                Some(RecordedGroup {
                    pgid: detail.pgid?,
                    start_ticks: detail.start_ticks?,
                    origin: record.origin.clone(),
                })
            });
            let in_group = async {
                match group {
                    Some(group) => processes.end_recorded(&group, PROCESS_GRACE_IN_CALL).await,
                    None => 0,
                }
            };
            let (n_marked, n_in_group) = tokio::join!(marked, in_group);
            if n_marked + n_in_group > 0 {
                tracing::warn!(task = %record.info.id, "processes that outlived their server were ended");
            }
        });
        futures::future::join_all(ending).await;
        let mut lost = Vec::new();
        for record in stale {
            let end = End {
                status: Some(TaskStatus::Lost),
                reason: Some(LOST.to_owned()),
                ..End::default()
            };
            lost.extend(self.settle_lost(record.info, end).await);
        }
        lost
    }

    async fn settle_lost(&self, info: TaskInfo, end: End) -> Option<TaskInfo> {
        let path = log_path(&self.inner.parts.dir, &info.id);
        let in_log = path.clone();
        let log_bytes = blocking::run(move || fs::metadata(&in_log).map(|meta| meta.len())).await;
        {
            let mut table = self.table();
            let entry = table.entries.get_mut(&info.id)?;
            if let Ok(n_bytes) = log_bytes {
                entry.output = Output::of_dead_log(&path, n_bytes, CUT_SHORT);
            }
        }
        self.revive(&info);
        self.settle(&info.id, end, Remains::Record).await
    }

    /// Makes a recorded task one that can be settled.
    fn revive(&self, info: &TaskInfo) {
        if let Some(entry) = self.table().entries.get_mut(&info.id) {
            entry.live = Some(Live::lost());
        }
    }
}
