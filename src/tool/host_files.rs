//! Text files as the host of a turn holds them, for tools.

use std::fmt;
use std::sync::Arc;

use longshore_protocol::id::{SessionId, TurnId};

use crate::kernel::host_fs::{FsAbilities, FsHost, HostFsError};
use crate::kernel::port::HostFs;

/// Asks, on behalf of one turn, which host's view of files counts.
#[derive(Clone)]
pub struct HostFiles {
    fs: Arc<dyn HostFs>,
    session: SessionId,
    turn: TurnId,
}

/// One host's view of files. A call stays with it from its first look to its last write.
#[derive(Clone)]
pub struct HostView {
    fs: Arc<dyn HostFs>,
    session: SessionId,
    host: FsHost,
}

impl HostFiles {
    /// For a turn of a session.
    pub fn new(fs: Arc<dyn HostFs>, session: SessionId, turn: TurnId) -> Self {
        Self { fs, session, turn }
    }

    /// The view that counts now; `None` where that is the disk.
    pub fn view(&self) -> Option<HostView> {
        Some(HostView {
            fs: Arc::clone(&self.fs),
            session: self.session.clone(),
            host: self.fs.host_for(&self.session, &self.turn)?,
        })
    }
}

impl HostView {
    /// What the host offers.
    pub fn offers(&self) -> FsAbilities {
        self.host.offers
    }

    /// The text of a file, by its absolute path.
    ///
    /// # Errors
    /// Why the host did not give it.
    ///
    /// # Cancel safety
    /// Dropping the future takes the request back.
    pub async fn read(&self, path: &str) -> Result<String, HostFsError> {
        self.fs.read_text(&self.host.id, &self.session, path).await
    }

    /// Gives the host a new text for a file, by its absolute path.
    ///
    /// # Errors
    /// Why the host did not say that it took it. It may have done so all the same.
    pub async fn write(&self, path: &str, text: String) -> Result<(), HostFsError> {
        self.fs
            .write_text(&self.host.id, &self.session, path, text)
            .await
    }
}

impl fmt::Debug for HostFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFiles")
            .field("session", &self.session)
            .field("turn", &self.turn)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for HostView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostView")
            .field("session", &self.session)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}
