//! The connection, from its first byte to its last.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use longshore_protocol::id::HostId;
use tokio::io::{AsyncRead, AsyncWrite};

use super::service::Face;
use super::{Acp, AcpDeps, Conn};
use crate::hub::{HostQueue, QueueLimits};
use crate::kernel::limits;
use crate::kernel::port::HostConn as _;
use crate::rpc::{Batches, CancelWire, Connection, OnCancel, Outbox, Peer, PeerOptions};

/// How requests are cancelled, both ways.
const CANCEL: CancelWire = CancelWire {
    method: "$/cancel_request",
    field: "requestId",
};

/// What handlers get to answer by themselves once everything has been ended, before they are cut off.
/// Chosen: they have nothing left to do but to say so.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// A connection whose client has stopped talking, or that is to end. It can still be written to.
///
/// Dropping it ends it at once; [`close`](Self::close) is the orderly end.
#[must_use = "close it"]
pub struct Served {
    conn: Arc<Conn>,
    connection: Option<Connection>,
}

impl Acp {
    /// Serves the client until it closes its side, the streams break, or the agent is to stop. Its prompts are
    /// cancelled then.
    ///
    /// Sessions are the caller's to end, before it closes the connection, so that the client sees how its prompts end.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection at once.
    pub fn serve<R, W>(&self, reader: R, writer: W) -> impl Future<Output = Served> + Send + 'static
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let number = self.n_clients.fetch_add(1, Ordering::Relaxed) + 1;
        serve(
            Arc::clone(&self.deps),
            HostId::from(format!("acp-{number}")),
            reader,
            writer,
        )
    }
}

async fn serve<R, W>(deps: Arc<AcpDeps>, id: HostId, reader: R, writer: W) -> Served
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
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
        batches: Batches::Refuse,
        cancel: CANCEL,
        // Only the handler knows how a cancelled request is answered: a prompt is never an error.
        on_cancel: OnCancel::Signal,
    };
    let stop = deps.stop.clone();
    let peer = Peer::new(Arc::clone(&queue) as Arc<dyn Outbox>, options);
    let conn = Conn {
        deps,
        id,
        peer: peer.handle(),
        queue,
        host: OnceLock::new(),
        open: Mutex::default(),
    };
    let conn = Arc::new(conn);
    let mut connection = peer.start(reader, writer, Arc::new(Face(Arc::clone(&conn))));
    let is_over = tokio::select! {
        biased;
        _ = connection.ended() => true,
        () = stop.cancelled() => false,
    };
    if !is_over {
        connection.handle().stop();
    }
    let end = connection.ended().await;
    tracing::debug!(?end, "the client has stopped talking");
    conn.cancel_all();
    Served {
        conn,
        connection: Some(connection),
    }
}

impl Served {
    /// Answers what is still open and writes what has not been read yet, within this time. True where everything was
    /// written.
    pub async fn close(mut self, within: Duration) -> bool {
        let Some(connection) = self.connection.take() else {
            return false;
        };
        // Whoever is not done by then is cut off by the close.
        let _ = tokio::time::timeout(LAST_ANSWERS.min(within), connection.answered()).await;
        connection.close(within).await
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(host) = self.conn.host.get() {
            self.conn.deps.hub.disconnect(host.id());
        }
    }
}
