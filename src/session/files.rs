//! Files of a session's workspace, for people who name them in their input.

use std::path::PathBuf;
use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::SessionId;

use super::create::check_dir;
use super::lifecycle::Sessions;
use super::surroundings;
use crate::kernel::fault::Fault;
use crate::os::blocking;
use crate::tool::file::mention::{self, CompleteError, Mentions};

/// What a host is told to wait where other searches have all threads. Chosen: most are over by then.
const RETRY_AFTER_MS: u32 = 500;

/// Where files are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The working directory of a session.
    Session(SessionId),
    /// A directory, absolute.
    Dir(String),
}

impl Sessions {
    /// Finds files and directories that a query may mean, without loading a session.
    ///
    /// # Errors
    /// `session_not_found`; `invalid_params` for a directory that is none; `file_not_found` where the directory can't
    /// be looked at; `server_busy` where other searches take all threads.
    pub async fn find_files(
        &self,
        place: Place,
        query: &str,
        limit: usize,
    ) -> Result<Mentions, Fault> {
        let cwd = match place {
            Place::Session(id) => self.view(&id).await?.session.cwd,
            Place::Dir(dir) => dir,
        };
        let deps = self.deps.clone();
        let pool = Arc::clone(&deps.search);
        let workspace = blocking::run(move || {
            check_dir(&cwd, "/cwd")?;
            Ok::<_, Fault>(surroundings::workspace(&deps, PathBuf::from(cwd), Vec::new()).0)
        })
        .await?;
        mention::complete(&pool, Arc::new(workspace), query, limit)
            .await
            .map_err(|error| match error {
                CompleteError::Busy => Fault::new(ErrorKind::ServerBusy, error.to_string())
                    .with("retryAfterMs", RETRY_AFTER_MS),
                CompleteError::Unreadable { .. } => {
                    Fault::new(ErrorKind::FileNotFound, error.to_string())
                }
            })
    }
}
