//! One connection: its options, its two tasks and the handle through which it is used.
//!
//! [`Peer::new`] makes the handle before anything runs, so that a service can hold the handle of its own peer;
//! [`Peer::start`] starts the reader and the writer.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use longshore_protocol::envelope::RequestId;
use longshore_protocol::error::{ErrorKind, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::outbox::{Batch, Line, MAX_BATCH_BYTES, Outbox};
pub use super::pending::RequestFailure;
use super::pending::{Incoming, Outcome, Outgoing, Receipt};
use super::reader::Reader;
use super::service::{Reply, Service, run};
use super::wire;

/// How a connection behaves. The values come from the caller: this layer has no limits of its own.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// The longest message taken, in bytes, its line ending not counted.
    pub max_message_bytes: usize,
    /// How many requests of the other side may be in flight at a time.
    pub max_in_flight: usize,
    /// Reading pauses while this many bytes wait in the outbox. Only one side of a connection may have a mark that
    /// can be reached: two sides that wait for one another to read would never go on.
    pub reply_high_water_bytes: usize,
    /// Whether arrays of messages are taken.
    pub batches: Batches,
    /// How a request is cancelled, both ways.
    pub cancel: CancelWire,
    /// What a cancel does to a request in flight.
    pub on_cancel: OnCancel,
}

impl PeerOptions {
    /// The options of a client: it takes whatever its server sends, and never stops reading.
    pub fn client(cancel: CancelWire) -> Self {
        Self {
            max_message_bytes: usize::MAX,
            max_in_flight: usize::MAX,
            reply_high_water_bytes: usize::MAX,
            batches: Batches::Accept,
            cancel,
            on_cancel: OnCancel::AnswerAtOnce,
        }
    }
}

/// Whether arrays of messages are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batches {
    /// As JSON-RPC 2.0 says: an array in, an array out.
    Accept,
    /// An array is answered with one `invalid_request`, and nothing in it is done.
    Refuse,
}

/// The notification that cancels a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelWire {
    /// Its method.
    pub method: &'static str,
    /// The member of its params that holds the id, spelled as the request spelled it.
    pub field: &'static str,
}

/// What a cancel does to a request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCancel {
    /// The peer answers `request_cancelled`, fires the request's token and drops its handler.
    AnswerAtOnce,
    /// The peer fires the request's token; the handler answers what it thinks right.
    Signal,
}

/// Why a connection is over.
#[derive(Debug)]
pub enum End {
    /// The other side closed its sending direction. It may still read.
    Eof,
    /// Reading failed.
    ReadError(io::Error),
    /// Writing failed; a broken pipe comes here, and means no more than the end of the stream.
    WriteError(io::Error),
    /// We stopped reading.
    Stopped,
}

/// What the tasks and handles of a connection share.
pub(super) struct Shared {
    pub(super) options: PeerOptions,
    pub(super) outbox: Arc<dyn Outbox>,
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// Asks the reader to stop.
    pub(super) stop: CancellationToken,
    /// Reading is over.
    pub(super) closed: CancellationToken,
    /// Handlers are to be dropped where they are.
    pub(super) abandon: CancellationToken,
    /// The tasks of handlers that were not done at once.
    pub(super) handlers: TaskTracker,
    write_error: Mutex<Option<io::Error>>,
}

impl Shared {
    /// Answers a request, unless somebody has done so.
    pub(super) fn answer(&self, id: &RequestId, serial: u64, reply: Reply) {
        if let Some(open) = self.incoming.take(id, serial) {
            self.send_reply(id, open.batch.as_deref(), reply);
        }
    }

    fn send_reply(&self, id: &RequestId, batch: Option<&super::batch::BatchReplies>, reply: Reply) {
        let text = wire::reply(id, &reply.body);
        if let Some(batch) = batch {
            return batch.answer(id.clone(), &text, reply.after, &*self.outbox);
        }
        self.outbox.send(Line {
            bytes: text,
            receipt: Receipt::one(id.clone()),
        });
        if let Some(follow_up) = reply.after {
            run(follow_up);
        }
    }

    /// Cancels a request of the other side as the options say. Unknown and answered ids are ignored.
    pub(super) fn cancel(&self, id: &RequestId) {
        match self.options.on_cancel {
            OnCancel::AnswerAtOnce => self.answer_cancelled(id),
            OnCancel::Signal => {
                if let Some(token) = self.incoming.token(id) {
                    token.cancel();
                } else {
                    tracing::debug!(%id, "ignored a cancel of a request that is not open");
                }
            }
        }
    }

    fn answer_cancelled(&self, id: &RequestId) {
        if let Some(open) = self.incoming.take_any(id) {
            self.send_reply(id, open.batch.as_deref(), Self::cancelled());
            open.cancel.cancel();
        } else {
            tracing::debug!(%id, "ignored a cancel of a request that is not open");
        }
    }

    /// The reply of a request that was cancelled.
    pub(super) fn cancelled() -> Reply {
        Reply::error(RpcError::new(
            ErrorKind::RequestCancelled,
            "The request was cancelled.",
        ))
    }
}

/// A connection that has not started.
pub struct Peer {
    shared: Arc<Shared>,
}

impl Peer {
    /// Prepares a connection that sends through this outbox.
    pub fn new(outbox: Arc<dyn Outbox>, options: PeerOptions) -> Self {
        let shared = Shared {
            incoming: Incoming::new(options.max_in_flight),
            options,
            outbox,
            outgoing: Outgoing::default(),
            stop: CancellationToken::new(),
            closed: CancellationToken::new(),
            abandon: CancellationToken::new(),
            handlers: TaskTracker::new(),
            write_error: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The handle of this connection. What is sent before the start leaves with it.
    pub fn handle(&self) -> PeerHandle {
        PeerHandle {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Starts reading and writing, each in a task. Must be called inside a tokio runtime.
    pub fn start<R, W>(self, reader: R, writer: W, service: Arc<dyn Service>) -> Connection
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let tasks = TaskTracker::new();
        let reading = tasks.spawn(Reader::new(Arc::clone(&self.shared), service).run(reader));
        let writing = tasks.spawn(write(Arc::clone(&self.shared), writer));
        Connection {
            handle: PeerHandle {
                shared: self.shared,
            },
            reading,
            writing,
            end: None,
        }
    }
}

/// Writes what the outbox holds until it is closed and empty, then shuts the stream down. `true` when all was written.
async fn write(shared: Arc<Shared>, mut writer: impl AsyncWrite + Unpin) -> bool {
    let mut batch = Batch::default();
    while shared.outbox.drain(&mut batch).await {
        // A host may use an id again as soon as it has read the reply, so the id is freed first.
        shared.incoming.release(batch.receipts.drain(..));
        let written = async {
            writer.write_all(&batch.bytes).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "writing failed; the connection is over");
            *shared
                .write_error
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(error);
            shared.outbox.close();
            shared.stop.cancel();
            return false;
        }
        batch.bytes.clear();
        batch.bytes.shrink_to(MAX_BATCH_BYTES);
    }
    if let Err(error) = writer.shutdown().await {
        tracing::debug!(%error, "the stream could not be shut down");
    }
    true
}

/// A running connection. Dropping it ends both tasks and all handlers at once, with whatever is unwritten.
///
/// The orderly end is: wait for [`ended`](Self::ended) (or cause it with [`PeerHandle::stop`]), let the handlers
/// come to their end ([`PeerHandle::cancel_all`], [`answered`](Self::answered)), then [`close`](Self::close).
pub struct Connection {
    handle: PeerHandle,
    reading: JoinHandle<End>,
    writing: JoinHandle<bool>,
    end: Option<End>,
}

impl Connection {
    /// The handle of this connection.
    pub fn handle(&self) -> &PeerHandle {
        &self.handle
    }

    /// Waits until reading is over and says why. Replies can still be written after [`End::Eof`].
    ///
    /// # Cancel safety
    /// Can be dropped and called again, also after it has returned.
    pub async fn ended(&mut self) -> &End {
        if self.end.is_none() {
            let mut end = (&mut self.reading).await.unwrap_or_else(|error| {
                tracing::error!(%error, "the reading task failed");
                End::Stopped
            });
            let write_error = self
                .handle
                .shared
                .write_error
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(error) = write_error {
                end = End::WriteError(error);
            }
            self.end = Some(end);
        }
        self.end.as_ref().unwrap_or(&End::Stopped)
    }

    /// Waits until no handler is running. Meaningful once reading has ended; before, new ones may start.
    ///
    /// # Cancel safety
    /// Can be dropped and called again.
    pub async fn answered(&self) {
        let handlers = &self.handle.shared.handlers;
        handlers.close();
        handlers.wait().await;
    }

    /// Ends the connection: stops reading, answers every request still open with `request_cancelled`, drops its
    /// handler, closes the outbox, and writes what is queued for at most `drain`.
    ///
    /// `true` when everything was written.
    pub async fn close(mut self, drain: Duration) -> bool {
        let shared = Arc::clone(&self.handle.shared);
        shared.stop.cancel();
        self.ended().await;
        for id in shared.incoming.open_ids() {
            shared.answer_cancelled(&id);
        }
        shared.abandon.cancel();
        shared.outbox.close();
        let written = tokio::time::timeout(drain, &mut self.writing).await;
        matches!(written, Ok(Ok(true)))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reading.abort();
        self.writing.abort();
        self.handle.shared.abandon.cancel();
        self.handle.shared.outbox.close();
    }
}

/// The way to use a connection; clones are handles of the same one. It does not keep the connection alive.
#[derive(Clone)]
pub struct PeerHandle {
    shared: Arc<Shared>,
}

impl PeerHandle {
    /// Sends a request and waits for its answer.
    ///
    /// The request is queued when the future is first polled; see [`start_request`](Self::start_request) for an
    /// exact place in the order.
    ///
    /// # Errors
    /// See [`RequestFailure`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request at the other side.
    pub async fn request<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> Outcome {
        self.start_request(method, params)?.await
    }

    /// Like [`request`](Self::request), with the result read into a type.
    ///
    /// # Errors
    /// See [`RequestFailure`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request at the other side.
    pub async fn request_as<R, P>(&self, method: &str, params: &P) -> Result<R, RequestFailure>
    where
        R: DeserializeOwned,
        P: Serialize + ?Sized,
    {
        let result = self.request(method, params).await?;
        serde_json::from_str(result.get()).map_err(RequestFailure::Unreadable)
    }

    /// Queues a request at once, behind everything in the outbox, and returns the future of its answer.
    ///
    /// Params that serialise to `null` are left out.
    ///
    /// # Errors
    /// [`RequestFailure::Closed`] and [`RequestFailure::Unwritable`].
    pub fn start_request<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<PendingRequest, RequestFailure> {
        let (id, answer) = self.shared.outgoing.begin().ok_or(RequestFailure::Closed)?;
        match wire::call(Some(id), method, params) {
            Ok(text) => self.shared.outbox.send(Line::new(text)),
            Err(error) => {
                self.shared.outgoing.forget(id);
                return Err(RequestFailure::Unwritable(error));
            }
        }
        Ok(PendingRequest {
            shared: Arc::clone(&self.shared),
            id,
            answer,
        })
    }

    /// Queues a notification. After the end of the connection it goes nowhere.
    ///
    /// # Errors
    /// [`RequestFailure::Unwritable`].
    pub fn notify<P: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<(), RequestFailure> {
        let text = wire::call(None, method, params).map_err(RequestFailure::Unwritable)?;
        self.shared.outbox.send(Line::new(text));
        Ok(())
    }

    /// The outbox this connection sends through.
    pub fn outbox(&self) -> &Arc<dyn Outbox> {
        &self.shared.outbox
    }

    /// Fires when reading is over, for whatever reason. From then on our own requests fail.
    pub fn closed(&self) -> &CancellationToken {
        &self.shared.closed
    }

    /// Stops reading. What is queued is still written.
    pub fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// Cancels all requests of the other side that are open now, as if it had cancelled each.
    pub fn cancel_all(&self) {
        for id in self.shared.incoming.open_ids() {
            self.shared.cancel(&id);
        }
    }

    /// How many requests of the other side are in flight: open, or answered and not yet written.
    pub fn in_flight(&self) -> usize {
        self.shared.incoming.len()
    }
}

/// One of our requests that awaits its answer.
///
/// Dropping it gives the request up and sends the cancel notification; a late answer is ignored.
pub struct PendingRequest {
    shared: Arc<Shared>,
    id: u64,
    answer: oneshot::Receiver<Outcome>,
}

impl Future for PendingRequest {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.answer)
            .poll(cx)
            .map(|answer| answer.unwrap_or(Err(RequestFailure::Closed)))
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if !self.shared.outgoing.forget(self.id) {
            return;
        }
        let CancelWire { method, field } = self.shared.options.cancel;
        match wire::call(
            None,
            method,
            &std::collections::BTreeMap::from([(field, self.id)]),
        ) {
            Ok(text) => self.shared.outbox.send(Line::new(text)),
            Err(error) => tracing::error!(%error, "a cancel could not be written"),
        }
    }
}
