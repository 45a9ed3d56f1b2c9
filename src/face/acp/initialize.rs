//! `initialize` and `authenticate`. Neither looks at the disk or the network.

use std::sync::Arc;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AgentCapabilities, AuthenticateRequest, AuthenticateResponse, Implementation,
    InitializeRequest, InitializeResponse, McpCapabilities, Meta, PromptCapabilities,
    SessionAdditionalDirectoriesCapabilities, SessionCapabilities, SessionCloseCapabilities,
    SessionDeleteCapabilities, SessionForkCapabilities, SessionListCapabilities,
    SessionResumeCapabilities,
};
use longshore_protocol::error::{ErrorKind, RpcError};
use serde_json::{Map, Value, json};

use super::client::Client;
use super::host::Host;
use super::{Conn, auth, error, params};
use crate::kernel::port::HostConn;

const NAME: &str = "longshore";

/// The refusal of a request that came too early.
pub(super) fn not_yet() -> RpcError {
    error::error(
        ErrorKind::NotInitialized,
        "The connection is not initialized; send initialize first.",
    )
}

pub(super) fn initialize(
    conn: &Arc<Conn>,
    mut members: Map<String, Value>,
) -> Result<InitializeResponse, RpcError> {
    if conn.host.get().is_some() {
        return Err(error::error(
            ErrorKind::InvalidRequest,
            "The connection is initialized already.",
        ));
    }
    // Versions to come may be any whole number; this agent's highest is the answer to all of them.
    if let Some(version) = members.get_mut("protocolVersion")
        && version
            .as_u64()
            .is_some_and(|version| version > u64::from(u16::MAX))
    {
        *version = Value::from(u16::MAX);
    }
    let request: InitializeRequest = params::read(members)?;
    let client = Client::new(&request);
    let host = Arc::new(Host::new(conn.id.clone(), client.caps, conn.peer.clone()));
    if conn.host.set(Arc::clone(&host)).is_err() {
        return Err(error::error(
            ErrorKind::InvalidRequest,
            "The connection is initialized already.",
        ));
    }
    conn.deps.hub.connect(
        host as Arc<dyn HostConn>,
        Arc::clone(&conn.queue),
        &client.name,
    );
    let version = env!("CARGO_PKG_VERSION");
    // Whatever the client asked for: 1 is the only version there is here, and it may leave.
    Ok(InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities(conn, version))
        .auth_methods(auth::methods())
        .agent_info(Implementation::new(NAME, version).title(NAME)))
}

fn capabilities(conn: &Conn, version: &str) -> AgentCapabilities {
    let models = conn.deps.sessions.models();
    let takes_images = models.iter().any(|model| {
        model
            .capabilities
            .iter()
            .any(|capability| capability == "image_in")
    });
    let session = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .fork(SessionForkCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new());
    let mut meta = Meta::new();
    meta.insert(
        NAME.to_owned(),
        json!({"version": version, "promptQueueing": true, "extensions": []}),
    );
    AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(
            PromptCapabilities::new()
                .image(takes_images)
                .embedded_context(true),
        )
        .mcp_capabilities(McpCapabilities::new())
        .session_capabilities(session)
        .meta(meta)
}

pub(super) fn authenticate(
    conn: &Arc<Conn>,
    members: Map<String, Value>,
) -> Result<AuthenticateResponse, RpcError> {
    let request: AuthenticateRequest = params::read(members)?;
    if &*request.method_id.0 != auth::METHOD {
        return Err(error::invalid(
            "/methodId",
            format!("There is no authentication method {}.", request.method_id),
        ));
    }
    let sessions = &conn.deps.sessions;
    auth::check(sessions, sessions.default_model().as_deref())?;
    Ok(AuthenticateResponse::new())
}
