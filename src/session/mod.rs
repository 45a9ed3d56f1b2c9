//! Sessions: durable conversations, each with one task that owns its state and one journal that outlives it.
//!
//! [`Sessions`] makes, loads and lists them; a [`SessionHandle`] talks to a loaded one. The journal is the truth: what a
//! session knows after a restart is what its journal says, `meta.json` and the index are caches of it. Only
//! `journal/` writes journals, and a record reaches the kernel before its event goes out. This layer knows no host:
//! events leave through the port `Publish`. Start reading at [`command`], the closed list of what can happen.

pub mod actor;
pub mod command;
pub mod journal;
pub mod lifecycle;
pub mod store;
pub mod transcript;

pub use self::command::{Gate, SessionHandle, Started, TurnEnd, View};
pub use self::lifecycle::{CreateOptions, Sessions};

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::SessionId;

use crate::kernel::fault::Fault;

/// The fault for a session that does not exist.
pub fn not_found(id: &SessionId) -> Fault {
    Fault::new(ErrorKind::SessionNotFound, format!("session not found: {id}; session/list names those that exist"))
        .with("sessionId", id.as_str())
}
