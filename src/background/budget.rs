//! What all logs of a session may take on the disk: the oldest make room.

use super::Tasks;
use crate::os::{blocking, fs};

impl Tasks {
    /// Removes logs of ended tasks, the oldest first, until all logs together fit. Their records stay. Returns false
    /// where the logs of running tasks alone are too much.
    pub(super) async fn has_room_for_logs(&self) -> bool {
        let budget = self.inner.parts.limits.session_log_budget;
        let (removed, fits) = {
            let table = self.table();
            let sizes = table.entries.values();
            let mut used: u64 = sizes.map(|entry| entry.output.log_file_bytes()).sum();
            if used <= budget {
                return true;
            }
            let mut ended: Vec<_> = table
                .entries
                .values()
                .filter(|entry| entry.live.is_none() && entry.output.log_file_bytes() > 0)
                .collect();
            ended.sort_unstable_by_key(|entry| (entry.info.ended_at, entry.serial));
            let mut removed = Vec::new();
            for entry in ended {
                if used <= budget {
                    break;
                }
                if let Some((path, n_bytes)) = entry.output.remove_log() {
                    used -= n_bytes.min(used);
                    removed.push((path, entry.record()));
                }
            }
            (removed, used <= budget)
        };
        for (path, record) in removed {
            let id = record.info.id.clone();
            let gone = blocking::run(move || fs::remove_file_if_present(&path)).await;
            if let Err(error) = gone {
                tracing::warn!(task = %id, %error, "a log that had to make room stays");
            }
            self.save(record).await;
        }
        fits
    }
}
