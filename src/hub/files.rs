//! Text files as hosts hold them: which host's view counts for a turn, and asking it within a deadline.
//!
//! One call of a tool stays with one host, so that what it writes back goes where it was read. A host that answers that
//! it does not know the request is not asked again on its connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use longshore_protocol::id::{HostId, SessionId, TurnId};

use super::{Host, Hub};
use crate::kernel::host_fs::{FsAbilities, FsHost, HostFsError};
use crate::kernel::limits::{HOST_READ, HOST_WRITE};
use crate::kernel::port::HostFs;

impl Host {
    /// What it does with files, as far as it has kept its word.
    fn fs(&self) -> FsAbilities {
        if self.refuses_files.load(Ordering::Relaxed) {
            FsAbilities::default()
        } else {
            self.conn.abilities().fs
        }
    }
}

impl Hub {
    /// A host has started a turn: its view of files counts for it. Called before the turn's events begin; a host whose
    /// input merely joined a turn does not take it over.
    pub fn started(&self, session: &SessionId, turn: &TurnId, by: &HostId) {
        let mut table = self.write();
        let turns = table.starters.entry(session.clone()).or_default();
        turns.entry(turn.clone()).or_insert_with(|| by.clone());
    }

    fn attached(&self, session: &SessionId, host: &HostId) -> Option<Arc<Host>> {
        let table = self.read();
        let hosts = table.watchers.get(session)?;
        hosts.iter().find(|other| other.conn.id() == host).cloned()
    }
}

impl HostFs for Hub {
    fn host_for(&self, session: &SessionId, turn: &TurnId) -> Option<FsHost> {
        let table = self.read();
        let starter = table
            .starters
            .get(session)
            .and_then(|turns| turns.get(turn));
        let mut offering = table
            .watchers
            .get(session)?
            .iter()
            .filter(|host| host.fs().any())
            .peekable();
        let first = offering.peek().copied();
        let host = offering
            .find(|host| Some(host.conn.id()) == starter)
            .or(first)?;
        Some(FsHost {
            id: host.conn.id().clone(),
            offers: host.fs(),
        })
    }

    fn read_text(
        &self,
        host: &HostId,
        session: &SessionId,
        path: &str,
    ) -> BoxFuture<'static, Result<String, HostFsError>> {
        let Some(host) = self.attached(session, host) else {
            return futures::future::ready(Err(HostFsError::Left)).boxed();
        };
        let asked = host.conn.read_text(session, path);
        within(host, HOST_READ, asked).boxed()
    }

    fn write_text(
        &self,
        host: &HostId,
        session: &SessionId,
        path: &str,
        text: String,
    ) -> BoxFuture<'static, Result<(), HostFsError>> {
        let Some(host) = self.attached(session, host) else {
            return futures::future::ready(Err(HostFsError::Left)).boxed();
        };
        let asked = host.conn.write_text(session, path, text);
        within(host, HOST_WRITE, asked).boxed()
    }
}

/// Waits for an answer. Dropping what is asked, as a deadline does, takes the request back at the host.
async fn within<T>(
    host: Arc<Host>,
    deadline: Duration,
    asked: BoxFuture<'static, Result<T, HostFsError>>,
) -> Result<T, HostFsError> {
    let answer = tokio::time::timeout(deadline, asked)
        .await
        .unwrap_or(Err(HostFsError::TimedOut));
    match &answer {
        Err(HostFsError::Unsupported) => {
            tracing::info!(host = %host.conn.id(), "a host does not know files after all; it is not asked again");
            host.refuses_files.store(true, Ordering::Relaxed);
        }
        Err(error) => {
            tracing::debug!(host = %host.conn.id(), %error, "a host did not do what it was asked with a file");
        }
        Ok(_) => {}
    }
    answer
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
