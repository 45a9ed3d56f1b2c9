//! Sessions: durable conversations, each with one task that owns its state and one journal that outlives it.
//!
//! [`Sessions`] makes, loads and lists them; a [`SessionHandle`] talks to a loaded one. The journal is the truth: what a
//! session knows after a restart is what its journal says, `meta.json` and the index are caches of it. Only
//! `journal/` writes journals, and a record reaches the kernel before its event goes out. This layer knows no host:
//! events leave through the port `Publish`. Start reading at [`command`], the closed list of what can happen.

pub mod actor;
mod archive;
mod closed_jobs;
pub mod command;
pub mod create;
pub mod cron;
mod delete;
pub mod deps;
pub mod export;
mod facts;
pub mod files;
mod fires;
pub mod fork;
mod index;
mod jobs;
pub mod journal;
pub mod lifecycle;
pub mod list;
mod notices;
mod pages;
mod past;
mod reopen;
mod resume;
pub mod shell_run;
pub mod store;
pub mod surroundings;
pub mod tasks;
pub mod transcript;
mod turn_end;
mod turn_sink;
mod turns;
mod undo;
mod unload;
pub mod wake;

#[cfg(test)]
mod close_tests;
#[cfg(test)]
mod cron_tests;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod fixture_tests;
#[cfg(test)]
mod list_tests;
#[cfg(test)]
mod restore_tests;
#[cfg(test)]
mod shell_tests;
#[cfg(test)]
mod tasks_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod turns_tests;
#[cfg(test)]
mod unload_tests;
#[cfg(test)]
mod wake_tests;

pub use self::command::{Gate, SessionHandle, Started, TurnEnd, View};
pub use self::create::CreateOptions;
pub use self::lifecycle::Sessions;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::SessionId;
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::session::{Session, SessionPatch};

use crate::kernel::fault::Fault;

/// The fault for a session that does not exist.
pub fn not_found(id: &SessionId) -> Fault {
    Fault::new(
        ErrorKind::SessionNotFound,
        format!("session not found: {id}; session/list names those that exist"),
    )
    .with("sessionId", id.as_str())
}

/// The beginning of an input, for titles and lists: one line of at most 80 characters.
pub fn summary(input: &[ContentPart]) -> String {
    summary_of(&transcript::text_of(input))
}

/// The beginning of a text, likewise.
pub fn summary_of(text: &str) -> String {
    one_line(text, 80)
}

/// The beginning of an input that searches look at: one line of at most 200 characters.
pub(crate) fn prompt(input: &[ContentPart]) -> String {
    one_line(&transcript::text_of(input), 200)
}

fn one_line(text: &str, max_chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Changes the fields that a patch names.
pub fn apply(session: &mut Session, patch: SessionPatch) {
    let SessionPatch {
        title,
        model,
        thinking,
        mode,
        additional_dirs,
        metadata,
        archived,
    } = patch;
    if let Some(title) = title {
        session.title = title;
    }
    if let Some(model) = model {
        session.model = Some(model);
    }
    if let Some(thinking) = thinking {
        session.thinking = Some(thinking);
    }
    if let Some(mode) = mode {
        session.mode = mode;
    }
    if let Some(dirs) = additional_dirs {
        session.additional_dirs = dirs;
    }
    if let Some(metadata) = metadata {
        session.metadata = metadata;
    }
    if let Some(archived) = archived {
        session.archived = archived;
    }
}
