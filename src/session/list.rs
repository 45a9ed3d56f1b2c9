//! What a list of sessions is asked for, and where its pages begin.

use std::collections::HashSet;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::session::Session;

use super::index::Facts;
use crate::kernel::fault::Fault;
use crate::kernel::limits::{PAGE, PAGE_MAX};
use crate::kernel::time::Timestamp;

/// Which sessions a list has.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Only those of this directory, by whatever path.
    pub cwd: Option<String>,
    /// Only those with this text in the title or in the beginning of a prompt, in any case.
    pub text: Option<String>,
    /// The archived ones instead of the others.
    pub archived: bool,
    /// Those of this process that are not to be kept, instead of the others.
    pub ephemeral: bool,
    /// Where to go on.
    pub cursor: Option<String>,
    /// Entries wanted.
    pub limit: Option<u32>,
}

impl ListFilter {
    /// Whether a session is wanted. `is_here` tells that it was made in the wanted directory by another path, `text` is the wanted text in lower case, `prompted` the sessions with a prompt that
    /// holds it.
    pub(super) fn takes(
        &self,
        facts: &Facts<'_>,
        is_here: bool,
        text: Option<&str>,
        prompted: Option<&HashSet<String>>,
    ) -> bool {
        facts.archived == self.archived
            && self
                .cwd
                .as_ref()
                .is_none_or(|cwd| is_here || *cwd == facts.cwd)
            && text.is_none_or(|text| {
                let holds = |hay: &str| hay.to_lowercase().contains(text);
                holds(&facts.title)
                    || facts.last_prompt.as_deref().is_some_and(holds)
                    || prompted.is_some_and(|ids| ids.contains(&*facts.session_id))
            })
    }
}

/// Where a page begins: after a session of this time and id.
pub(super) type Place = (String, String);

pub(super) fn write_cursor(session: &Session) -> String {
    format!("{}/{}", session.updated_at, session.session_id)
}

pub(super) fn read_cursor(cursor: &str) -> Result<Place, Fault> {
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
