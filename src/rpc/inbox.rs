//! A [`Service`] that hands everything to one receiver, for clients and tests that are one loop rather than a face.

use std::fmt;

use longshore_protocol::error::{ErrorKind, RpcError};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::service::{BoxFuture, Reply, Request, Service};

/// Makes an inbox service and the receiver of what it hears, in the order of arrival.
///
/// The channel has no bound: it is for a client that trusts the server it speaks to.
pub fn inbox() -> (Inbox, mpsc::UnboundedReceiver<Inbound>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Inbox { sender }, receiver)
}

/// The sending side of [`inbox`]; give it to a peer as its service.
#[derive(Clone, Debug)]
pub struct Inbox {
    sender: mpsc::UnboundedSender<Inbound>,
}

/// Something the other side said.
#[derive(Debug)]
pub enum Inbound {
    /// It told something.
    Notification {
        /// What it told.
        method: String,
        /// Raw params; `None` when absent or `null`.
        params: Option<Box<RawValue>>,
    },
    /// It asked something.
    Request {
        /// What it asks for.
        method: String,
        /// Raw params; `None` when absent or `null`.
        params: Option<Box<RawValue>>,
        /// Fires when it takes the request back.
        cancel: CancellationToken,
        /// The way to answer.
        answer: Answer,
    },
}

/// The right to answer a request taken from an inbox. Dropping it answers with `internal_error`.
pub struct Answer(oneshot::Sender<Reply>);

impl Answer {
    /// Answers. A request that has been cancelled meanwhile has its reply already, and this one is dropped.
    pub fn send(self, reply: impl Into<Reply>) {
        // The reply of a cancelled request has nowhere to go.
        let _ = self.0.send(reply.into());
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

impl Service for Inbox {
    fn call(&self, request: Request<'_>) -> BoxFuture<'static, Reply> {
        let (sender, receiver) = oneshot::channel();
        let inbound = Inbound::Request {
            method: request.method.to_owned(),
            params: request.params.map(ToOwned::to_owned),
            cancel: request.cancel,
            answer: Answer(sender),
        };
        // With the receiver gone the answer is dropped here, which is what the future below then reports.
        let _ = self.sender.send(inbound);
        Box::pin(async {
            receiver.await.unwrap_or_else(|_| {
                Reply::error(RpcError::new(
                    ErrorKind::InternalError,
                    "Nobody is there to answer this request.",
                ))
            })
        })
    }

    fn notify(&self, method: &str, params: Option<&RawValue>) {
        let inbound = Inbound::Notification {
            method: method.to_owned(),
            params: params.map(ToOwned::to_owned),
        };
        // With the receiver gone nobody wants to hear it.
        let _ = self.sender.send(inbound);
    }
}
