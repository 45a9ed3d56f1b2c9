//! Cron jobs.

use longshore_protocol::method::cron::{
    CreateParams, CreateResult, FireResult, JobParams, JobResult, ListParams, ListResult,
    ResumeParams,
};

use crate::face::native::dispatch::Cx;
use crate::kernel::cron::NewJob;
use crate::kernel::fault::Fault;
use crate::session::cron::Renew;

pub(in crate::face::native) async fn list(cx: Cx, params: ListParams) -> Result<ListResult, Fault> {
    let ListParams {
        session_id,
        cursor,
        limit,
    } = params;
    cx.deps()
        .sessions
        .cron_jobs(&session_id, cursor.as_deref(), limit)
        .await
}

pub(in crate::face::native) async fn create(
    cx: Cx,
    params: CreateParams,
) -> Result<CreateResult, Fault> {
    let CreateParams {
        session_id,
        cron,
        prompt,
        recurring,
        timezone,
    } = params;
    let handle = cx.deps().sessions.open(&session_id).await?;
    let new = NewJob {
        cron,
        prompt,
        recurring,
        timezone,
    };
    let job = handle.create_job(new).await?;
    Ok(CreateResult { job })
}

pub(in crate::face::native) async fn delete(cx: Cx, params: JobParams) -> Result<JobResult, Fault> {
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let job = handle.delete_job(params.job_id.as_str()).await?;
    Ok(JobResult { job })
}

pub(in crate::face::native) async fn pause(cx: Cx, params: JobParams) -> Result<JobResult, Fault> {
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let job = handle.pause_job(params.job_id.as_str()).await?;
    Ok(JobResult { job })
}

pub(in crate::face::native) async fn resume(
    cx: Cx,
    params: ResumeParams,
) -> Result<JobResult, Fault> {
    let renew = if params.renew { Renew::Yes } else { Renew::No };
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let job = handle.resume_job(params.job_id.as_str(), renew).await?;
    Ok(JobResult { job })
}

pub(in crate::face::native) async fn fire(cx: Cx, params: JobParams) -> Result<FireResult, Fault> {
    let handle = cx.deps().sessions.open(&params.session_id).await?;
    let started = handle.fire_job(params.job_id.as_str()).await?;
    let turn_id = started.map(|started| {
        cx.after(move || started.gate.release());
        started.turn
    });
    Ok(FireResult { turn_id })
}
