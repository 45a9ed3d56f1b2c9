//! A cron job as a journal has it. One that can't be read takes no other with it: it is kept as it was.

use std::sync::Arc;

use longshore_protocol::id::JobId;
use longshore_protocol::value::cron::PauseReason;
use longshore_protocol::value::usage::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cron::check::check_id;
use crate::kernel::cron::{AsideJob, StoredJob};
use crate::kernel::time::Timestamp;

/// A job. Times are milliseconds since 1970.
#[derive(Serialize, Deserialize)]
struct JobRecord {
    id: JobId,
    cron: Arc<str>,
    prompt: Arc<str>,
    recurring: bool,
    timezone: Arc<str>,
    created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    renewed_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cursor: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fired_at: Option<i64>,
    #[serde(default)]
    fires: u64,
    #[serde(default)]
    unattended_fires: u32,
    #[serde(default)]
    usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paused: Option<PauseReason>,
}

/// The record of a job.
pub(super) fn job_value(job: StoredJob) -> Value {
    let StoredJob {
        id,
        cron,
        prompt,
        recurring,
        timezone,
        created_at,
        renewed_at,
        cursor,
        fired_at,
        fires,
        unattended_fires,
        usage,
        paused,
    } = job;
    let record = JobRecord {
        id,
        cron,
        prompt,
        recurring,
        timezone,
        created_at: created_at.0,
        renewed_at: renewed_at.map(|at| at.0),
        cursor: cursor.map(|at| at.0),
        fired_at: fired_at.map(|at| at.0),
        fires,
        unattended_fires,
        usage,
        paused,
    };
    // A record of texts and numbers can always be written.
    serde_json::to_value(record).unwrap_or_default()
}

/// What a record says, or why it says nothing.
pub(super) fn read_job(value: Value) -> Result<StoredJob, AsideJob> {
    let record = match JobRecord::deserialize(&value) {
        Ok(record) => record,
        Err(error) => {
            return Err(AsideJob {
                reason: error.to_string(),
                value,
            });
        }
    };
    if let Err(error) = check_id(record.id.as_str()) {
        return Err(AsideJob {
            reason: error.to_string(),
            value,
        });
    }
    let JobRecord {
        id,
        cron,
        prompt,
        recurring,
        timezone,
        created_at,
        renewed_at,
        cursor,
        fired_at,
        fires,
        unattended_fires,
        usage,
        paused,
    } = record;
    Ok(StoredJob {
        id,
        cron,
        prompt,
        recurring,
        timezone,
        created_at: Timestamp(created_at),
        renewed_at: renewed_at.map(Timestamp),
        cursor: cursor.map(Timestamp),
        fired_at: fired_at.map(Timestamp),
        fires,
        unattended_fires,
        usage,
        paused,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn there_and_back() {
        let full = json!({
            "id": "0badcafe", "cron": "0 9 * * *", "prompt": "Look.", "recurring": true, "timezone": "Europe/Berlin",
            "created_at": 1, "renewed_at": 2, "cursor": 3, "fired_at": 4, "fires": 5, "unattended_fires": 6,
            "usage": {"inputOther": 7, "inputCacheRead": 0, "inputCacheCreation": 0, "output": 8}, "paused": "host",
        });
        assert_eq!(job_value(read_job(full.clone()).unwrap()), full);
        let least = json!({
            "id": "0badcafe", "cron": "61 * * * *", "prompt": "", "recurring": false, "timezone": "UTC", "created_at": 1,
        });
        let job = read_job(least).unwrap();
        assert_eq!((&*job.cron, job.fires, job.paused), ("61 * * * *", 0, None));
    }

    #[test]
    fn what_cannot_be_read_is_kept_as_it_was() {
        for (bad, why) in [
            (json!({"id": "0badcafe"}), "missing field"),
            (json!(7), "invalid type"),
            (
                json!({"id": "../x", "cron": "", "prompt": "", "recurring": true, "timezone": "", "created_at": 1}),
                "no job id",
            ),
        ] {
            let aside = read_job(bad.clone()).unwrap_err();
            assert_eq!(aside.value, bad);
            assert!(aside.reason.contains(why), "{}", aside.reason);
        }
    }
}
