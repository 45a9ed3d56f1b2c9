//! The reading half of a connection: takes lines apart, starts requests, routes answers.

use std::any::Any;
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::{FutureExt, StreamExt};
use longshore_protocol::envelope::{self, Message, RequestId, Response};
use longshore_protocol::error::{ErrorKind, RpcError};
use serde_json::value::RawValue;
use tokio::io::AsyncRead;
use tokio_util::codec::FramedRead;
use tokio_util::sync::CancellationToken;

use super::batch::BatchReplies;
use super::codec::{Frame, LineCodec, READ_BYTES};
use super::outbox::Line;
use super::peer::{Batches, End, OnCancel, Shared};
use super::pending::{NotBegun, RequestFailure};
use super::service::{Body, Reply, Request, Service};
use super::wire::{self, RemoteError};

/// Entries that one batch may hold. Chosen: several times the usual limit of requests in flight; without it a
/// message of many tiny entries would cost far more memory than its own size.
const MAX_BATCH_ENTRIES: usize = 1024;

/// How long a host that had too many requests in flight is told to wait. Chosen: longer than a quick request takes.
const RETRY_AFTER_MS: u32 = 100;

/// The task that reads one connection.
pub(super) struct Reader {
    shared: Arc<Shared>,
    service: Arc<dyn Service>,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>, service: Arc<dyn Service>) -> Self {
        Self { shared, service }
    }

    /// Reads until the end of the stream, an error or a stop. Whichever it is, our own open requests fail then.
    pub(super) async fn run(self, source: impl AsyncRead + Unpin) -> End {
        // A guard, so that it holds for a reader that is dropped, too.
        let _closing = Closing(&self.shared);
        let options = &self.shared.options;
        let mut frames = FramedRead::with_capacity(
            source,
            LineCodec::new(options.max_message_bytes),
            READ_BYTES,
        );
        let mut stop = pin!(self.shared.stop.cancelled());
        loop {
            if self.shared.outbox.pending_bytes() >= options.reply_high_water_bytes {
                tracing::debug!("reading pauses until the host reads its replies");
                tokio::select! {
                    biased;
                    () = &mut stop => return End::Stopped,
                    () = self.shared.outbox.below(options.reply_high_water_bytes) => {}
                }
            }
            let frame = tokio::select! {
                biased;
                () = &mut stop => return End::Stopped,
                frame = frames.next() => frame,
            };
            match frame {
                Some(Ok(Frame::Line(line))) => self.line(&line),
                Some(Ok(Frame::Oversized)) => self.oversized(),
                Some(Err(error)) => return End::ReadError(error),
                None => return End::Eof,
            }
        }
    }

    fn oversized(&self) {
        let max = self.shared.options.max_message_bytes;
        let message = format!("A message may be at most {max} bytes long.");
        let error = RpcError::new(ErrorKind::InvalidRequest, message).with("maxMessageBytes", max);
        self.refuse(&RequestId::null(), error, None);
    }

    fn line(&self, line: &[u8]) {
        let Ok(text) = simdutf8::basic::from_utf8(line) else {
            let error = RpcError::new(ErrorKind::ParseError, "The message is not valid UTF-8.");
            return self.refuse(&RequestId::null(), error, None);
        };
        if envelope::is_batch(text) {
            self.batch(text);
        } else {
            self.message(text, None);
        }
    }

    fn batch(&self, text: &str) {
        let invalid = |message| RpcError::new(ErrorKind::InvalidRequest, message);
        let error = match envelope::parse_batch(text, MAX_BATCH_ENTRIES) {
            Err(_) => RpcError::new(ErrorKind::ParseError, "The message is not valid JSON."),
            Ok(_) if self.shared.options.batches == Batches::Refuse => {
                invalid("Batches are not supported.")
            }
            Ok(None) => {
                invalid("The batch has too many entries.").with("maxEntries", MAX_BATCH_ENTRIES)
            }
            Ok(Some(entries)) if entries.is_empty() => invalid("The batch is empty."),
            Ok(Some(entries)) => {
                let replies = Arc::new(BatchReplies::new());
                for entry in entries {
                    self.message(entry.get(), Some(&replies));
                }
                return replies.finish(&*self.shared.outbox);
            }
        };
        self.refuse(&RequestId::null(), error, None);
    }

    fn message(&self, text: &str, batch: Option<&Arc<BatchReplies>>) {
        match Message::parse(text) {
            Message::Request { id, method, params } => self.request(id, &method, params, batch),
            Message::Notification { method, params } => self.notification(&method, params),
            Message::Response(response) => self.response(&response),
            Message::Invalid { id, reason } => {
                let error = RpcError::new(
                    ErrorKind::InvalidRequest,
                    format!("This is no request: {reason}."),
                );
                self.refuse(&id, error, batch);
            }
            Message::Malformed => {
                let error = RpcError::new(ErrorKind::ParseError, "The message is not valid JSON.");
                self.refuse(&RequestId::null(), error, batch);
            }
        }
    }

    /// Answers something that never got into the in-flight table.
    fn refuse(&self, id: &RequestId, error: RpcError, batch: Option<&Arc<BatchReplies>>) {
        tracing::debug!(%id, kind = error.kind().as_str(), message = error.message, "refused a message");
        let text = wire::reply(id, &Body::Error(Box::new(error)));
        match batch {
            Some(batch) => batch.refuse(&text),
            None => self.shared.outbox.send(Line::new(text)),
        }
    }

    fn request(
        &self,
        id: RequestId,
        method: &str,
        params: Option<&RawValue>,
        batch: Option<&Arc<BatchReplies>>,
    ) {
        let cancel = CancellationToken::new();
        if let Some(batch) = batch {
            batch.expect();
        }
        let serial = match self
            .shared
            .incoming
            .begin(&id, cancel.clone(), batch.cloned())
        {
            Ok(serial) => serial,
            Err(refusal) => {
                if let Some(batch) = batch {
                    batch.unexpect();
                }
                let error = match refusal {
                    NotBegun::Duplicate => RpcError::new(
                        ErrorKind::InvalidRequest,
                        "A request with this id is in flight.",
                    ),
                    NotBegun::Busy => {
                        RpcError::new(ErrorKind::ServerBusy, "Too many requests are in flight.")
                            .with("retryAfterMs", RETRY_AFTER_MS)
                    }
                };
                return self.refuse(&id, error, batch);
            }
        };
        let right = Right {
            shared: Arc::clone(&self.shared),
            id,
            serial,
            is_used: false,
        };

        let request = Request {
            method,
            params,
            cancel: cancel.clone(),
        };
        let called = std::panic::catch_unwind(AssertUnwindSafe(|| self.service.call(request)));
        let mut handler = match called {
            Ok(handler) => AssertUnwindSafe(handler).catch_unwind(),
            Err(panic) => return right.answer(panicked(method, &*panic)),
        };
        // Quick handlers are done here, without a task. One that is not registers its real waker when its task polls
        // it again. The context must be gone before that, or this future could not move between threads.
        let first = handler.poll_unpin(&mut Context::from_waker(Waker::noop()));
        match first {
            Poll::Ready(Ok(reply)) => right.answer(reply),
            Poll::Ready(Err(panic)) => right.answer(panicked(method, &*panic)),
            Poll::Pending => {
                let method = method.to_owned();
                let shared = Arc::clone(&self.shared);
                let drops_on_cancel = shared.options.on_cancel == OnCancel::AnswerAtOnce;
                self.shared.handlers.spawn(async move {
                    let outcome = tokio::select! {
                        biased;
                        // Either way `right` answers by its drop, if the canceller has not done so.
                        () = shared.abandon.cancelled() => return,
                        () = cancel.cancelled(), if drops_on_cancel => return,
                        outcome = handler => outcome,
                    };
                    right.answer(outcome.unwrap_or_else(|panic| panicked(&method, &*panic)));
                });
            }
        }
    }

    fn notification(&self, method: &str, params: Option<&RawValue>) {
        let cancel = &self.shared.options.cancel;
        if method == cancel.method {
            if let Some(id) = wire::cancelled_id(params, cancel.field) {
                self.shared.cancel(&id);
            } else {
                tracing::debug!("ignored a cancel that names no id");
            }
            return;
        }
        let told =
            std::panic::catch_unwind(AssertUnwindSafe(|| self.service.notify(method, params)));
        if let Err(panic) = told {
            tracing::error!(
                method,
                panic = &*panic_text(&*panic),
                "a notification handler panicked"
            );
        }
    }

    fn response(&self, response: &Response<'_>) {
        let Some(id) = response.id.and_then(wire::own_id) else {
            tracing::debug!(
                id = response.id.map(RawValue::get),
                "ignored an answer with an id that is not ours"
            );
            return;
        };
        let outcome = match response.outcome {
            Ok(result) => Ok(result.to_owned()),
            Err(error) => Err(RequestFailure::Refused(RemoteError::read(error))),
        };
        if !self.shared.outgoing.resolve(id, outcome) {
            tracing::debug!(id, "ignored an answer nobody waits for");
        }
    }
}

/// Marks the connection as closed when reading is over.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.closed.cancel();
        self.0.outgoing.close();
    }
}

/// A handler's side of the right to answer. Dropped unused, it answers that the request was cancelled.
struct Right {
    shared: Arc<Shared>,
    id: RequestId,
    serial: u64,
    is_used: bool,
}

impl Right {
    fn answer(mut self, reply: Reply) {
        self.is_used = true;
        self.shared.answer(&self.id, self.serial, reply);
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        if !self.is_used {
            self.shared
                .answer(&self.id, self.serial, Shared::cancelled());
        }
    }
}

fn panicked(method: &str, panic: &(dyn Any + Send)) -> Reply {
    tracing::error!(
        method,
        panic = &*panic_text(panic),
        "a request handler panicked"
    );
    Reply::error(RpcError::new(
        ErrorKind::InternalError,
        "The server failed on this request; its log says more.",
    ))
}

fn panic_text(panic: &(dyn Any + Send)) -> Cow<'_, str> {
    if let Some(text) = panic.downcast_ref::<&str>() {
        Cow::Borrowed(text)
    } else if let Some(text) = panic.downcast_ref::<String>() {
        Cow::Borrowed(text)
    } else {
        Cow::Borrowed("no message")
    }
}
