//! Where the daemon of a home is met.

use std::path::{Path, PathBuf};

use crate::app::{self, StartError};
use crate::cli::args::Common;
use crate::cli::server;
use crate::os::env::Env;

/// The directory of running things of a home.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Place {
    /// longshore's directory.
    pub(in crate::cli) home: PathBuf,
    /// `run` in it.
    pub(in crate::cli) run: PathBuf,
}

impl Place {
    /// That of the home which the command line or the environment name.
    pub(in crate::cli) fn of(env: &Env, common: &Common) -> Result<Self, StartError> {
        app::home(env, &server::options(common)).map(|home| Self::in_home(&home))
    }

    /// That of a home.
    pub(in crate::cli) fn in_home(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            run: home.join("run"),
        }
    }

    /// Where the daemon listens.
    pub(in crate::cli) fn socket(&self) -> PathBuf {
        self.run.join("daemon.sock")
    }

    /// What the daemon holds as long as it lives.
    pub(super) fn lock(&self) -> PathBuf {
        self.run.join("daemon.lock")
    }

    /// What whoever starts a daemon holds meanwhile.
    pub(super) fn start_lock(&self) -> PathBuf {
        self.run.join("daemon-start.lock")
    }

    /// The token of its WebSocket.
    pub(super) fn token(&self) -> PathBuf {
        self.run.join("ws-token")
    }
}
