//! A host in a few lines, for the commands that drive a server themselves.

use longshore_protocol::method::host::{
    HostCapabilities, HostInfo, InitializeParams, InitializeResult,
};
use longshore_protocol::method::{MethodSpec, spec};
use longshore_protocol::reverse::Reverse;
use longshore_protocol::value::approval::{ApprovalAnswer, ApprovalRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::rpc::{
    CancelWire, Connection, Inbound, Peer, PeerOptions, PlainOutbox, RequestFailure, inbox,
};

/// A connection to a server, and what it says.
pub(super) struct Driver {
    connection: Connection,
    inbound: UnboundedReceiver<Inbound>,
}

/// Something the server says.
pub(super) enum Said {
    /// An event.
    Event {
        method: String,
        params: serde_json::Value,
    },
    /// An approval it wants, and the way to give it.
    Approval(Box<ApprovalRequest>, Respond),
}

/// The way to answer a reverse request.
pub(super) struct Respond(crate::rpc::Answer);

impl Respond {
    /// Answers an approval.
    pub(super) fn approval(self, answer: &ApprovalAnswer) {
        self.send(answer);
    }

    fn send<T: Serialize>(self, answer: &T) {
        match to_raw_value(answer) {
            Ok(text) => self
                .0
                .send(Ok::<_, longshore_protocol::error::RpcError>(text)),
            Err(error) => tracing::error!(%error, "an answer could not be written"),
        }
    }
}

impl Driver {
    /// Speaks to a server over these streams.
    pub(super) fn connect(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (service, inbound) = inbox();
        let options = PeerOptions::client(CancelWire {
            method: "$/cancelRequest",
            field: "id",
        });
        let peer = Peer::new(std::sync::Arc::new(PlainOutbox::new()), options);
        let connection = peer.start(reader, writer, std::sync::Arc::new(service));
        Self {
            connection,
            inbound,
        }
    }

    /// Opens the conversation.
    pub(super) async fn initialize(
        &self,
        capabilities: HostCapabilities,
    ) -> Result<InitializeResult, RequestFailure> {
        let host = HostInfo {
            name: "longshore".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            title: None,
        };
        let protocol_version = longshore_protocol::PROTOCOL_VERSION;
        self.call::<spec::Initialize>(&InitializeParams {
            protocol_version,
            host,
            capabilities,
            strict: true,
        })
        .await
    }

    /// Calls a method of the table.
    pub(super) async fn call<M: MethodSpec>(
        &self,
        params: &M::Params,
    ) -> Result<M::Result, RequestFailure>
    where
        M::Params: Serialize,
        M::Result: DeserializeOwned,
    {
        self.connection.handle().request_as(M::NAME, params).await
    }

    /// The next thing the server says; `None` when the connection is over.
    pub(super) async fn next(&mut self) -> Option<Said> {
        loop {
            match self.inbound.recv().await? {
                Inbound::Notification { method, params } => {
                    let params = params.as_deref().map_or("null", RawValue::get);
                    let params = serde_json::from_str(params).unwrap_or_default();
                    return Some(Said::Event { method, params });
                }
                Inbound::Request {
                    method,
                    params,
                    answer,
                    ..
                } => {
                    let params = params.as_deref().map_or("null", RawValue::get);
                    let respond = Respond(answer);
                    if method == Reverse::ApprovalRequest.name()
                        && let Ok(request) = serde_json::from_str(params)
                    {
                        return Some(Said::Approval(Box::new(request), respond));
                    }
                    // Dropping the answer refuses what this host does not know.
                    drop(respond);
                }
            }
        }
    }

    /// Whether nothing waits to be taken.
    pub(super) fn has_heard_all(&self) -> bool {
        self.inbound.is_empty()
    }

    /// Ends the conversation once everything is written.
    pub(super) async fn close(self) {
        self.connection
            .close(std::time::Duration::from_secs(5))
            .await;
    }
}
