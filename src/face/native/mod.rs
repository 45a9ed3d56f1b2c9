//! The native protocol, as `longshore-protocol` has it in three tables.
//!
//! One [`Native`] serves any number of connections ([`serve`]). A request goes through [`dispatch`], which checks its
//! params and calls a handler of [`handler`]: convert, one call of the layers below, convert back. Events go out
//! through [`project`], errors through [`error`], and nowhere else. What is known of one connected host is in
//! [`host`], its text files in [`files`].
//!
//! Invariants:
//! - before `initialize` nothing but its refusal is answered, and no event is sent;
//! - what a request sets going is shown after its reply (see [`dispatch::Cx::after`]);
//! - this folder keeps no state of sessions.

mod dispatch;
mod error;
mod files;
mod handler;
mod host;
mod params;
mod project;
mod serve;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jsonrpsee::Methods;
use longshore_protocol::method::host::ServerInfo;
use longshore_protocol::value::failure::Warning;
use tokio_util::sync::CancellationToken;

pub use self::serve::{Admission, Served};

use crate::config::values::LimitsConfig;
use crate::hub::Hub;
use crate::kernel::port::EventLog;
use crate::os::clock::Clock;
use crate::session::Sessions;

/// What the face is built over.
pub struct NativeDeps {
    /// The sessions.
    pub sessions: Sessions,
    /// Where hosts are connected.
    pub hub: Arc<Hub>,
    /// Where events are read again.
    pub log: Arc<dyn EventLog>,
    /// Time; its `elapsed` is the server's uptime.
    pub clock: Arc<dyn Clock>,
    /// What hosts are told about this process.
    pub server: ServerInfo,
    /// Limits of a connection.
    pub limits: LimitsConfig,
    /// Problems with the configuration as it is now.
    pub warnings: Box<dyn Fn() -> Vec<Warning> + Send + Sync>,
    /// What `shutdown` ends.
    pub on_shutdown: OnShutdown,
    /// Ends every connection. Fired by the face itself once a `shutdown` of the server has been answered; the process then
    /// exits.
    pub stop: CancellationToken,
}

/// What `shutdown` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnShutdown {
    /// The server: it belongs to its host.
    Server,
    /// The connection: the server is there for others, too.
    Connection,
}

/// The native face of a server.
pub struct Native {
    deps: NativeDeps,
    methods: Methods,
    /// Connections so far, for their ids.
    n_hosts: AtomicU64,
    /// A `shutdown` is under way: nothing new is begun.
    is_draining: AtomicBool,
}

impl Native {
    /// A face that serves nobody yet.
    pub fn new(deps: NativeDeps) -> Arc<Self> {
        Arc::new(Self {
            deps,
            methods: dispatch::methods(),
            n_hosts: AtomicU64::new(0),
            is_draining: AtomicBool::new(false),
        })
    }

    /// The server is about to end: from now on requests are refused with `server_busy`, but the few that do no harm.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
