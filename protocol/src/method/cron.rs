//! Cron jobs of a session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{JobId, SessionId, TurnId};
use crate::value::cron::CronJob;
use crate::value::page::Page;

/// Params of `cron/list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CronListParams")]
pub struct ListParams {
    /// The session. It need not be loaded.
    pub session_id: SessionId,
    /// From the page before.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Jobs wanted, 50 where absent, at most 200.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// Result of `cron/list`: the jobs in the order they were made.
pub type ListResult = Page<CronJob>;

/// Params of `cron/create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CronCreateParams")]
pub struct CreateParams {
    /// The session.
    pub session_id: SessionId,
    /// When: five fields (minute, hour, day of month, month, day of week), or a word such as `@daily`.
    pub cron: String,
    /// What the model is told when it fires, at most 8,192 bytes.
    pub prompt: String,
    /// False where it is to fire once.
    #[serde(default = "recurring")]
    pub recurring: bool,
    /// An IANA time zone; the session's where absent.
    #[serde(default)]
    pub timezone: Option<String>,
}

/// Result of `cron/create`; the job is on the disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CronCreateResult")]
pub struct CreateResult {
    /// The job.
    pub job: CronJob,
}

/// Params of the methods that name one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CronJobParams")]
pub struct JobParams {
    /// The session.
    pub session_id: SessionId,
    /// The job.
    pub job_id: JobId,
}

/// Params of `cron/resume`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CronResumeParams")]
pub struct ResumeParams {
    /// The session.
    pub session_id: SessionId,
    /// The job. Nothing changes where it is not paused.
    pub job_id: JobId,
    /// True where its age is to count anew, so that it does not expire for another while.
    #[serde(default)]
    pub renew: bool,
}

/// Result of the methods that change one job: the job as it is now, or as it was when it was deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CronJobResult")]
pub struct JobResult {
    /// The job.
    pub job: CronJob,
}

/// Result of `cron/fire`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CronFireResult")]
pub struct FireResult {
    /// The turn it begins; absent where it waits for the session to be idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
}

fn recurring() -> bool {
    true
}
