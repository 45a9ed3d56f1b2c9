//! One connection, from its first byte to its last.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longshore_protocol::id::HostId;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Native;
use super::dispatch::NativeService;
use super::host::NativeHost;
use crate::hub::{HostQueue, QueueLimits};
use crate::kernel::limits;
use crate::rpc::{Batches, CancelWire, Connection, OnCancel, Outbox, Peer, PeerOptions};

/// How requests are cancelled, both ways.
const CANCEL: CancelWire = CancelWire {
    method: "$/cancelRequest",
    field: "id",
};

/// What handlers get to end by themselves once their host has stopped talking, before they are cancelled.
/// Chosen: long enough to answer what a shutdown has just ended, short enough not to be felt.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// A connection whose host has stopped talking, or that is to end. It can still be written to.
///
/// Dropping it ends it at once; [`close`](Self::close) is the orderly end.
#[must_use = "close it"]
pub struct Served {
    host: Arc<NativeHost>,
    connection: Option<Connection>,
}

/// Whether whoever connects may be a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Granted,
    /// Its `initialize` is answered `denied` with the policy `self_approval` and this sentence, and the connection ends.
    SelfApproval(String),
}

impl Native {
    /// Serves a host until it closes its side, the streams break, or the server is to stop.
    ///
    /// What runs in sessions goes on; what becomes of it is the caller's matter. A server that belongs to its host
    /// ends its sessions before it closes the connection, so that the host can see how they end.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection at once.
    pub async fn serve<R, W>(self: &Arc<Self>, reader: R, writer: W) -> Served
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        self.serve_as(Admission::Granted, reader, writer).await
    }

    /// As [`serve`](Self::serve), where not everybody may be a host.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection at once.
    pub async fn serve_as<R, W>(
        self: &Arc<Self>,
        admission: Admission,
        reader: R,
        writer: W,
    ) -> Served
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let deps = &self.deps;
        let clock = Arc::clone(&deps.clock);
        let now = Arc::new(move || clock.now());
        let queue = Arc::new(HostQueue::new(
            Arc::clone(&deps.log),
            QueueLimits::default(),
            now,
        ));
        let options = PeerOptions {
            max_message_bytes: deps.limits.max_message_bytes,
            max_in_flight: deps.limits.max_in_flight,
            reply_high_water_bytes: limits::HOST_REPLY_BYTES,
            batches: Batches::Accept,
            cancel: CANCEL,
            on_cancel: OnCancel::AnswerAtOnce,
        };
        let peer = Peer::new(Arc::clone(&queue) as Arc<dyn Outbox>, options);
        let number = self.n_hosts.fetch_add(1, Ordering::Relaxed) + 1;
        let id = HostId::from(format!("h{number}"));
        let host = Arc::new(NativeHost::new(Arc::clone(self), id, peer.handle(), queue));
        let service = NativeService {
            host: Arc::clone(&host),
            admission,
        };
        let connection = peer.start(reader, writer, Arc::new(service));
        let mut served = Served {
            host,
            connection: Some(connection),
        };
        if let Some(connection) = &mut served.connection {
            let is_over = tokio::select! {
                biased;
                _ = connection.ended() => true,
                () = deps.stop.cancelled() => false,
            };
            if !is_over {
                connection.handle().stop();
                connection.ended().await;
            }
            let end = connection.ended().await;
            tracing::debug!(host = %served.host.id, ?end, "a host has stopped talking");
        }
        served
    }
}

impl Served {
    /// Answers what is still open, lets the host go and writes what it has not read yet, within this time. True where
    /// everything was written.
    pub async fn close(mut self, within: Duration) -> bool {
        let Some(connection) = self.connection.take() else {
            return false;
        };
        // Whoever is not done by then is cancelled by the close.
        let _ = tokio::time::timeout(LAST_ANSWERS.min(within), connection.answered()).await;
        // Its queue is bound to the connection as long as that lasts, so what waits there is still written.
        connection.close(within).await
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.host.native.deps.hub.disconnect(&self.host.id);
    }
}
