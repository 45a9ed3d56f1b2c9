//! Lists of sessions, page by page, the newest first.

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::page::Page;
use longshore_protocol::value::session::Session;

use crate::kernel::fault::Fault;
use crate::kernel::limits::{PAGE, PAGE_MAX};
use crate::kernel::time::Timestamp;

/// Which sessions a list has.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Only those of this directory.
    pub cwd: Option<String>,
    /// Only those with this text in title or last prompt, in any case.
    pub text: Option<String>,
    /// The archived ones instead of the others.
    pub archived: bool,
    /// Where to go on.
    pub cursor: Option<String>,
    /// Entries wanted.
    pub limit: Option<u32>,
}

impl ListFilter {
    fn takes(&self, session: &Session) -> bool {
        let text = self.text.as_ref().map(|text| text.to_lowercase());
        session.archived == self.archived
            && self.cwd.as_ref().is_none_or(|cwd| *cwd == session.cwd)
            && text.is_none_or(|text| {
                session.title.to_lowercase().contains(&text)
                    || session
                        .last_prompt
                        .as_ref()
                        .is_some_and(|prompt| prompt.to_lowercase().contains(&text))
            })
    }
}

/// Where a page begins: after a session of this time and id.
pub(super) type Place = (String, String);

/// The page of those sessions that the filter takes.
pub(super) fn page(
    mut sessions: Vec<Session>,
    filter: &ListFilter,
    start: Option<&Place>,
) -> Page<Session> {
    sessions.retain(|session| filter.takes(session));
    sessions.sort_by(|a, b| place(b).cmp(&place(a)));
    if let Some((at, id)) = start {
        sessions.retain(|session| place(session) < (at.as_str(), id.as_str()));
    }
    let limit = page_limit(filter.limit);
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    let next_cursor = more.then(|| sessions.last().map(write_cursor)).flatten();
    Page {
        items: sessions,
        next_cursor,
    }
}

fn place(session: &Session) -> (&str, &str) {
    (&session.updated_at, session.session_id.as_str())
}

fn write_cursor(session: &Session) -> String {
    format!("{}/{}", session.updated_at, session.session_id)
}

pub(super) fn read_cursor(cursor: &str) -> Result<(String, String), Fault> {
    let (at, id) = cursor.split_once('/').ok_or_else(bad_cursor)?;
    Timestamp::parse(at).ok_or_else(bad_cursor)?;
    Ok((at.to_owned(), id.to_owned()))
}

pub(super) fn bad_cursor() -> Fault {
    Fault::new(
        ErrorKind::InvalidParams,
        "the cursor is none that this server gave out; leave it out to begin anew",
    )
    .with("path", "/cursor")
}

pub(super) fn page_limit(limit: Option<u32>) -> usize {
    limit.map_or(PAGE, |limit| (limit as usize).clamp(1, PAGE_MAX))
}
