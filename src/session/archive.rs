//! Hiding sessions from lists.

use longshore_protocol::id::SessionId;
use longshore_protocol::value::session::{Session, SessionPatch};

use super::lifecycle::Sessions;
use crate::kernel::fault::Fault;
use crate::kernel::port::{Ability, AskKind};

impl Sessions {
    /// Hides a session from lists, or shows it again. One that was loaded for this alone is closed again, so that other
    /// processes can have it.
    ///
    /// # Errors
    /// `session_not_found`, `session_locked`, storage kinds.
    pub async fn archive(&self, id: &SessionId, archived: bool) -> Result<Session, Fault> {
        let was_loaded = self.loaded(id).is_some();
        let handle = self.open(id).await?;
        let before = handle.view().await?.session;
        let session = if before.archived == archived {
            Ok(before)
        } else {
            let changes = SessionPatch {
                archived: Some(archived),
                ..SessionPatch::default()
            };
            handle.set(changes).await
        };
        // A host may have come meanwhile.
        if !was_loaded && self.deps.asks.ability(id, AskKind::Approval) == Ability::Nobody {
            handle.close().await?;
        }
        session
    }
}
