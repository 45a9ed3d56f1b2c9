//! The Agent Client Protocol, version 1: what `longshore acp` speaks.
//!
//! One [`Acp`] serves any number of clients, each on a connection of its own ([`serve`]); the types are those of the protocol's own schema crate. A request goes
//! through [`service`] to a handler ([`initialize`], [`session`], [`prompt`]); events go out through [`project`], asks
//! through [`permission`] and [`question`], requests about text files through [`files`], errors through [`error`], and nowhere else.
//!
//! Invariants:
//! - a session's updates come after the answer that names it, and a turn's after the answer to the prompt before it;
//!   history comes before the answer to `session/load`;
//! - every prompt gets one answer, and nothing of its turn follows it; a cancel ends every prompt that came before it;
//! - nothing but an option that says so approves a call;
//! - nothing is advertised that is not served, and nothing is asked of a client that it did not offer;
//! - this folder knows the wire and nothing of the engine.

mod auth;
mod card;
mod client;
mod error;
mod files;
mod host;
mod initialize;
mod input;
mod lane;
mod options;
mod params;
mod permission;
mod project;
mod prompt;
mod question;
mod serve;
mod service;
mod session;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use longshore_protocol::error::RpcError;
use longshore_protocol::id::{HostId, SessionId};
use longshore_protocol::value::model::ModelInfo;
use tokio_util::sync::CancellationToken;

pub use self::serve::Served;

use self::host::Host;
use self::lane::Lane;
use crate::config::values::LimitsConfig;
use crate::hub::{HostQueue, Hub};
use crate::kernel::limits::MAX_QUEUED_PROMPTS;
use crate::kernel::port::EventLog;
use crate::os::clock::Clock;
use crate::rpc::PeerHandle;
use crate::session::{SessionHandle, Sessions};

/// What the face is built over.
pub struct AcpDeps {
    /// The sessions.
    pub sessions: Sessions,
    /// Where clients are connected.
    pub hub: Arc<Hub>,
    /// Where events are read again.
    pub log: Arc<dyn EventLog>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Limits of a connection.
    pub limits: LimitsConfig,
    /// Ends every connection.
    pub stop: CancellationToken,
}

/// The face of an agent.
pub struct Acp {
    deps: Arc<AcpDeps>,
    /// Connections so far, for their ids.
    n_clients: AtomicU64,
}

impl Acp {
    /// A face that serves nobody yet.
    pub fn new(deps: AcpDeps) -> Self {
        Self {
            deps: Arc::new(deps),
            n_clients: AtomicU64::new(0),
        }
    }
}

/// The connection to the client.
struct Conn {
    deps: Arc<AcpDeps>,
    id: HostId,
    peer: PeerHandle,
    queue: Arc<HostQueue>,
    /// The client, once it has been initialized.
    host: OnceLock<Arc<Host>>,
    /// The sessions it has opened.
    open: Mutex<HashMap<SessionId, Arc<Open>>>,
}

/// A session that the client has opened.
struct Open {
    handle: SessionHandle,
    lane: Arc<Lane>,
    /// The models it can choose from.
    models: Arc<[ModelInfo]>,
}

impl Conn {
    /// The client.
    ///
    /// # Errors
    /// -32600 before `initialize`.
    fn host(&self) -> Result<&Arc<Host>, RpcError> {
        self.host.get().ok_or_else(initialize::not_yet)
    }

    /// A session the client has opened.
    ///
    /// # Errors
    /// -32002.
    fn opened(&self, id: &str) -> Result<Arc<Open>, RpcError> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(id).cloned().ok_or_else(|| error::no_session(id))
    }

    /// Takes a session in. One that was open already keeps its lane: its prompts go on.
    fn add(&self, handle: SessionHandle, models: Arc<[ModelInfo]>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = open.get(handle.id()).map_or_else(
            || Lane::new(MAX_QUEUED_PROMPTS),
            |known| Arc::clone(&known.lane),
        );
        open.insert(
            handle.id().clone(),
            Arc::new(Open {
                handle,
                lane,
                models,
            }),
        );
    }

    /// Forgets a session; prompts that come later do not find it.
    fn remove(&self, id: &SessionId) -> Option<Arc<Open>> {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id)
    }

    /// Cancels every prompt of every session.
    fn cancel_all(&self) {
        let open: Vec<Arc<Open>> = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect();
        for session in open {
            session.lane.cancel_all();
        }
    }
}

#[cfg(test)]
mod tests;
