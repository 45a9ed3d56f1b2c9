//! `longshore sessions`: stored sessions, without a host.

use std::fmt::Write as _;
use std::process::ExitCode;

use longshore_protocol::id::{SessionId, TurnId};
use longshore_protocol::value::session::{Session, SessionPatch};
use longshore_protocol::value::transcript::{Item, Turn};
use longshore_protocol::value::turn::TurnReason;

use super::args::{Common, ListSessions, Sessions};
use super::offline;
use super::terminal::complain;
use crate::app::App;
use crate::kernel::fault::Fault;
use crate::kernel::limits::PAGE_MAX;
use crate::os::env::Env;
use crate::session::fork::ForkOptions;
use crate::session::list::ListFilter;
use crate::session::{not_found, summary_of, transcript};

/// Does what is wanted.
pub(super) fn run(env: Env, common: &Common, what: Sessions) -> ExitCode {
    let start = env.start_dir().map(std::path::Path::to_owned);
    offline::run(env, common, async |app: &App| match what {
        Sessions::List(mut wanted) => {
            wanted.cwd = wanted.cwd.map(|cwd| match &start {
                Some(start) => start.join(&cwd),
                None => cwd,
            });
            list(app, wanted).await
        }
        Sessions::Show { session } => show(app, &session).await,
        Sessions::Rename { session, title } => rename(app, &session, title).await,
        Sessions::Fork { session, turn } => fork(app, &session, turn).await,
        Sessions::Archive { sessions, archived } => archive(app, sessions, archived).await,
        Sessions::Delete { sessions } => delete(app, sessions).await,
    })
}

async fn list(app: &App, wanted: ListSessions) -> Result<String, Fault> {
    let ListSessions {
        cwd,
        text,
        archived,
        limit,
        json,
    } = wanted;
    let mut filter = ListFilter {
        cwd: cwd.map(|cwd| cwd.display().to_string()),
        text,
        archived,
        ..ListFilter::default()
    };
    let (mut out, mut left) = (String::new(), limit.unwrap_or(usize::MAX));
    loop {
        filter.limit = Some(left.min(PAGE_MAX) as u32);
        let page = app.sessions.list(filter.clone()).await?;
        left -= page.items.len();
        for session in &page.items {
            // Writing to a string cannot fail.
            let _ = if json {
                writeln!(
                    out,
                    "{}",
                    serde_json::to_string(session).unwrap_or_default()
                )
            } else {
                writeln!(out, "{}", line(session))
            };
        }
        filter.cursor = page.next_cursor.filter(|_| left > 0);
        if filter.cursor.is_none() {
            break;
        }
    }
    if out.is_empty() && !json {
        "There are no sessions.".clone_into(&mut out);
    }
    Ok(out)
}

fn line(session: &Session) -> String {
    let title = match summary_of(&session.title) {
        title if title.is_empty() => "(no title)".to_owned(),
        title => title,
    };
    let turns = match session.turn_count {
        1 => "1 turn".to_owned(),
        n => format!("{n} turns"),
    };
    format!(
        "{}  {}  {turns:>9}  {title}\n    {}",
        session.session_id,
        minute(&session.updated_at),
        session.cwd
    )
}

/// `2026-01-31 12:00` of a time as it stands on the wire.
fn minute(at: &str) -> String {
    at.replace('T', " ").chars().take(16).collect()
}

async fn show(app: &App, id: &SessionId) -> Result<String, Fault> {
    let session = app.sessions.view(id).await?.session;
    let mut out = String::new();
    let usage = session.usage;
    let facts = [
        ("title", session.title.clone()),
        ("directory", session.cwd.clone()),
        ("further directories", session.additional_dirs.join(", ")),
        ("model", session.model.clone().unwrap_or_default()),
        ("mode", session.mode.as_str().to_owned()),
        ("created", session.created_at.clone()),
        ("updated", session.updated_at.clone()),
        ("tokens", usage.total().to_string()),
        (
            "fork of",
            session
                .parent_session_id
                .as_ref()
                .map(SessionId::to_string)
                .unwrap_or_default(),
        ),
        (
            "archived",
            if session.archived {
                "yes".to_owned()
            } else {
                String::new()
            },
        ),
    ];
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{id}");
    for (name, value) in facts {
        if !value.is_empty() {
            let _ = writeln!(out, "  {name}: {value}");
        }
    }
    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let page = app
            .sessions
            .transcript(id, cursor, Some(PAGE_MAX as u32))
            .await?;
        pages.push(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    for turn in pages.iter().rev().flatten() {
        let _ = writeln!(out, "\n{}", told(turn));
    }
    Ok(out)
}

/// A turn in a few lines: what began it, what was called, what was said at last.
fn told(turn: &Turn) -> String {
    let how = match turn.reason {
        None => "not ended",
        Some(TurnReason::Completed) => "",
        Some(TurnReason::Cancelled) => "cancelled",
        Some(TurnReason::Failed) => "failed",
    };
    let mut out = format!("{}  {}", turn.turn_id, minute(&turn.started_at));
    if !how.is_empty() {
        out.push_str("  ");
        out.push_str(how);
    }
    let _ = write!(
        out,
        "\n  > {}",
        summary_of(&transcript::text_of(&turn.input))
    );
    for item in &turn.items {
        let _ = match item {
            Item::Tool { name, title, .. } => write!(out, "\n  {name}: {}", summary_of(title)),
            Item::Message { text, .. } => write!(out, "\n  {}", summary_of(text)),
            Item::Thinking { .. } | Item::Notice { .. } => Ok(()),
        };
    }
    out
}

async fn rename(app: &App, id: &SessionId, title: String) -> Result<String, Fault> {
    let handle = app.sessions.open(id).await?;
    let changes = SessionPatch {
        title: Some(title),
        ..SessionPatch::default()
    };
    let renamed = handle.set(changes).await;
    // It was loaded for this alone.
    handle.close().await?;
    let session = renamed?;
    Ok(format!("{id} is now called {}.", session.title))
}

async fn fork(app: &App, id: &SessionId, turn: Option<TurnId>) -> Result<String, Fault> {
    let options = ForkOptions {
        turn,
        ..ForkOptions::default()
    };
    let (handle, session) = app.sessions.fork(id, options).await?;
    handle.close().await?;
    Ok(session.session_id.to_string())
}

async fn archive(app: &App, ids: Vec<SessionId>, archived: bool) -> Result<String, Fault> {
    let word = if archived { "Archived" } else { "Unarchived" };
    each(ids, word, async |id| {
        app.sessions.archive(id, archived).await.map(drop)
    })
    .await
}

async fn delete(app: &App, ids: Vec<SessionId>) -> Result<String, Fault> {
    each(ids, "Deleted", async |id| {
        if app.sessions.delete(id).await? {
            Ok(())
        } else {
            Err(not_found(id))
        }
    })
    .await
}

/// Does something to each session. One that it can't be done to holds up no other, and fails the command.
async fn each(
    ids: Vec<SessionId>,
    word: &str,
    work: impl AsyncFn(&SessionId) -> Result<(), Fault>,
) -> Result<String, Fault> {
    let (mut out, mut failed) = (String::new(), None);
    for id in &ids {
        match work(id).await {
            Ok(()) => {
                // Writing to a string cannot fail.
                let _ = writeln!(out, "{word} {id}.");
            }
            Err(fault) => {
                if let Some(earlier) = failed.replace(fault) {
                    complain(&format!("longshore: {}", earlier.message));
                }
            }
        }
    }
    match failed {
        None => Ok(out),
        Some(fault) => {
            if !out.is_empty() {
                super::terminal::say(out.trim_end());
            }
            Err(fault)
        }
    }
}
