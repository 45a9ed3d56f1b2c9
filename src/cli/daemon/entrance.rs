//! Where hosts come in: by the socket, and by WebSocket where that is wanted. Who comes is looked at once, at the door.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use longshore_protocol::error::{ErrorKind, RpcError};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use super::place::Place;
use super::websocket::{self, Token};
use crate::cli::record::Record;
use crate::face::native::{Admission, Native};
use crate::kernel::limits::{DAEMON_CONNECTIONS, WEBSOCKET_HANDSHAKE};
use crate::os::blocking;
use crate::os::lock::FileLock;
use crate::os::process::{Kin, kin_of, kin_of_tcp};
use crate::os::socket::{self, Peer, PrivateListener};
use crate::rpc;

/// What is said to a process that longshore started and that wants to be a host.
pub(in crate::cli) const STARTED_BY_LONGSHORE: &str = "This process was started by longshore, so it can't be a host: what \
                                                       longshore runs must not answer what it asks.";

/// What a host that has stopped talking gets to read what waits for it. Nobody else waits.
const LAST_WRITES: Duration = Duration::from_secs(5);
/// What somebody who can't be let in gets to read why.
const REFUSAL: Duration = Duration::from_secs(1);
/// Before the next try where a connection could not be taken: most often there is no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the socket is looked after.
pub(super) const LOOK: Duration = Duration::from_secs(3);
/// Bytes under way between a WebSocket and its peer, in each direction.
const PIPE_BYTES: usize = 64 << 10;

/// What listens.
pub(super) struct Doors {
    socket: PrivateListener,
    websocket: Option<(TcpListener, Token)>,
}

impl Doors {
    /// Opens them. The record tells of them, and is written before the socket can be found.
    pub(super) async fn open(
        place: &Place,
        listen: Option<SocketAddr>,
        record: &mut Record,
    ) -> Result<Self, String> {
        let websocket = match listen {
            Some(address) => Some(Self::open_websocket(place, address, record).await?),
            None => None,
        };
        record
            .write(&place.run)
            .map_err(|error| error.to_string())?;
        let socket = PrivateListener::bind(&place.socket()).map_err(|error| error.to_string())?;
        Ok(Self { socket, websocket })
    }

    async fn open_websocket(
        place: &Place,
        address: SocketAddr,
        record: &mut Record,
    ) -> Result<(TcpListener, Token), String> {
        let failed = |error: std::io::Error| format!("cannot listen at ws://{address}: {error}");
        let listener = socket::listen_tcp(address).await.map_err(failed)?;
        let real = listener.local_addr().map_err(failed)?;
        let token = Token::make(&place.token()).map_err(|error| error.to_string())?;
        record.listen = Some(format!("ws://{real}"));
        Ok((listener, token))
    }

    /// Lets nobody in any more.
    pub(super) fn close(self, place: &Place) {
        if let Err(error) = self.socket.remove() {
            tracing::warn!(%error, "the socket could not be removed");
        }
        if self.websocket.is_some() {
            Token::remove(&place.token());
        }
    }
}

/// The hosts that came in.
pub(super) struct Entrance {
    native: Arc<Native>,
    hosts: TaskTracker,
    max_message_bytes: usize,
}

impl Entrance {
    pub(super) fn new(native: Arc<Native>, max_message_bytes: usize) -> Self {
        Self {
            native,
            hosts: TaskTracker::new(),
            max_message_bytes,
        }
    }

    /// True where no connection is open.
    pub(super) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Waits until the last connection is closed. No further one may be let in.
    pub(super) async fn emptied(&self) {
        self.hosts.close();
        self.hosts.wait().await;
    }

    /// Lets hosts in, until it is dropped.
    pub(super) async fn let_in(&self, doors: &mut Doors, place: &Place, lock: &FileLock) {
        let Doors { socket, websocket } = doors;
        tokio::join!(self.by_socket(socket, place, lock), async {
            if let Some((listener, token)) = websocket {
                self.by_websocket(listener, token).await;
            }
        });
    }

    async fn by_socket(&self, listener: &mut PrivateListener, place: &Place, lock: &FileLock) {
        let mut looks = tokio::time::interval(LOOK);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = looks.tick() => {
                    // Without the lock, the socket that stands there is that of another daemon.
                    if !listener.is_in_place() && lock.is_in_place() {
                        put_back(listener, place);
                    }
                    continue;
                }
            };
            match accepted {
                Ok((_, peer)) if !peer.is_own_user() => {
                    tracing::warn!(uid = peer.uid, "another user was not let in");
                }
                Ok((stream, _)) if self.is_full() => {
                    self.hosts.spawn(turn_away(stream));
                }
                Ok((stream, peer)) => {
                    let native = self.native.clone();
                    self.hosts.spawn(host(native, stream, peer));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn by_websocket(&self, listener: &TcpListener, token: &Token) {
        loop {
            match listener.accept().await {
                Ok((_, peer)) if self.is_full() => {
                    tracing::warn!(%peer, "not let in: there are too many connections");
                }
                Ok((stream, peer)) => {
                    let (native, token, max) =
                        (self.native.clone(), token.clone(), self.max_message_bytes);
                    self.hosts.spawn(async move {
                        if let Err(error) = far_host(native, stream, peer, &token, max).await {
                            tracing::info!(%peer, error, "not let in by WebSocket");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        self.hosts.len() >= DAEMON_CONNECTIONS
    }
}

/// Puts a socket where one was taken away: who holds the lock of the daemon can be found.
fn put_back(listener: &mut PrivateListener, place: &Place) {
    match PrivateListener::bind(&place.socket()) {
        Ok(fresh) => {
            tracing::warn!("the socket was gone and has been put back");
            *listener = fresh;
        }
        Err(error) => tracing::warn!(%error, "the socket is gone and can't be put back"),
    }
}

/// Serves one host of the socket.
async fn host(native: Arc<Native>, stream: UnixStream, peer: Peer) {
    let admission = match peer.pid {
        Some(pid) => admission(blocking::run(move || kin_of(pid)).await),
        None => admission(Kin::Unknown),
    };
    let (reader, writer) = stream.into_split();
    serve(&native, admission, reader, writer).await;
}

/// Serves one host that comes by WebSocket. The error says why it was not let in.
async fn far_host(
    native: Arc<Native>,
    stream: TcpStream,
    peer: SocketAddr,
    token: &Token,
    max_message_bytes: usize,
) -> Result<(), String> {
    let own = stream.local_addr().map_err(|error| error.to_string())?;
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    let accepting = websocket::accept(stream, token, max_message_bytes);
    let socket = timeout(WEBSOCKET_HANDSHAKE, accepting)
        .await
        .map_err(|_| "it did not open the connection in time".to_owned())??;
    let admission = admission(blocking::run(move || kin_of_tcp(peer, own)).await);
    let (ours, theirs) = rpc::pipe(PIPE_BYTES);
    let serving = serve(&native, admission, theirs.reader, theirs.writer);
    tokio::join!(serving, rpc::carry(socket, ours, max_message_bytes));
    Ok(())
}

async fn serve<R, W>(native: &Arc<Native>, admission: Admission, reader: R, writer: W)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    if admission != Admission::Granted {
        tracing::warn!(?admission, "a process may not be a host here");
    }
    let served = native.serve_as(admission, reader, writer).await;
    served.close(LAST_WRITES).await;
}

/// Whether a process may be a host: what longshore started may not answer what longshore asks.
fn admission(kin: Kin) -> Admission {
    let why = match kin {
        Kin::Stranger => return Admission::Granted,
        Kin::Descendant | Kin::Marked => STARTED_BY_LONGSHORE,
        Kin::Unknown => {
            "It can't be told which process this is, so it can't be a host: what longshore runs must not answer what it \
             asks. Connect from a process that this machine shows to the daemon."
        }
    };
    Admission::SelfApproval(why.to_owned())
}

/// Says that there are too many.
async fn turn_away(mut stream: UnixStream) {
    tracing::warn!("not let in: there are too many connections");
    let message = format!("The daemon has {DAEMON_CONNECTIONS} connections already; close some.");
    let error = RpcError::new(ErrorKind::LimitExceeded, message)
        .with("name", "daemon_connections")
        .with("value", DAEMON_CONNECTIONS);
    let line = format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "id": null, "error": error})
    );
    if let Ok(Err(error)) = timeout(REFUSAL, stream.write_all(line.as_bytes())).await {
        tracing::debug!(%error, "nobody reads why it was not let in");
    }
}
