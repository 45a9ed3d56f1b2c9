//! `longshore cron`: the jobs of all stored sessions, without a host.

use std::fmt::Write as _;
use std::process::ExitCode;

use longshore_protocol::id::SessionId;
use longshore_protocol::value::cron::{CronJob, PauseReason};

use super::args::{Common, Cron};
use super::offline;
use super::terminal::complain;
use crate::app::App;
use crate::kernel::fault::Fault;
use crate::os::env::Env;
use crate::session::summary_of;

/// Lists or deletes.
pub(super) fn run(env: Env, common: &Common, what: &Cron) -> ExitCode {
    offline::run(env, common, async |app: &App| match what {
        Cron::List { session } => list(app, session.as_ref()).await,
        Cron::Delete { session, job } => delete(app, session, job).await,
    })
}

async fn list(app: &App, session: Option<&SessionId>) -> Result<String, Fault> {
    let ids = match session {
        Some(session) => vec![session.clone()],
        None => app.sessions.sessions_with_jobs().await,
    };
    let mut text = String::new();
    for id in ids {
        let (mut jobs, mut cursor) = (Vec::new(), None);
        loop {
            let page = match app.sessions.cron_jobs(&id, cursor.as_deref(), None).await {
                Ok(page) => page,
                // One that can't be read does not hide the others; one that was asked for is told.
                Err(fault) if session.is_some() => return Err(fault),
                Err(fault) => {
                    complain(&format!("longshore: session {id}: {}", fault.message));
                    break;
                }
            };
            jobs.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        if jobs.is_empty() {
            continue;
        }
        let title = app.sessions.view(&id).await?.session.title;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{id}  {}", summary_of(&title));
        for job in &jobs {
            let _ = writeln!(text, "{}", line(job));
        }
    }
    if text.is_empty() {
        "There are no cron jobs.".clone_into(&mut text);
    }
    Ok(text)
}

async fn delete(app: &App, session: &SessionId, job: &str) -> Result<String, Fault> {
    let handle = app.sessions.open(session).await?;
    let deleted = handle.delete_job(job).await;
    // It was loaded for this alone.
    handle.close().await?;
    let job = deleted?;
    Ok(format!("Deleted {} ({}).", job.job_id, job.schedule))
}

fn line(job: &CronJob) -> String {
    let next = match (&job.error, job.paused, &job.next_fire_at) {
        (Some(error), ..) => format!("can't fire: {error}"),
        (None, Some(reason), _) => {
            let why = match reason {
                PauseReason::Host => "by the user",
                PauseReason::Unattended => "it fired unattended",
                PauseReason::Forked => "copied with its session",
            };
            format!("paused ({why})")
        }
        (None, None, Some(at)) => format!("next {at}"),
        (None, None, None) => "never".to_owned(),
    };
    let often = if job.recurring { "" } else { ", once" };
    format!(
        "  {}  {}{often} ({})  {next}  fired {} times, {} tokens\n            {}",
        job.job_id,
        job.schedule,
        job.timezone,
        job.fires,
        job.usage.total(),
        summary_of(&job.prompt)
    )
}
