//! What a face implements to be spoken to, and the reply it gives.

use std::fmt;
use std::panic::AssertUnwindSafe;

use jsonrpsee::core::server::MethodResponse;
use longshore_protocol::error::{ErrorKind, RpcError};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

/// A boxed future, as the object-safe traits of the peer return it.
pub type BoxFuture<'a, T> = futures::future::BoxFuture<'a, T>;

/// How every `MethodResponse` made for the id `null` begins.
const NULL_ID_PREFIX: &str = r#"{"jsonrpc":"2.0","id":null,"#;

/// One side of a conversation: answers requests and hears notifications of the other side.
pub trait Service: Send + Sync + 'static {
    /// Answers a request.
    ///
    /// Called by the reader, in the order of arrival, and its future is polled once before the next line is read.
    /// So requests begin in order, and what the body does before its first wait is done in order; long computation
    /// there stops reading.
    /// A future that is not ready then goes on in a task of its own, and may be dropped at any of its waits.
    /// A panic is answered with `internal_error`.
    fn call(&self, request: Request<'_>) -> BoxFuture<'static, Reply>;

    /// Hears a notification, in the order of arrival.
    ///
    /// Called by the reader between two lines: it must not wait, and a panic in it is logged and swallowed.
    fn notify(&self, method: &str, params: Option<&RawValue>);
}

/// A request as a [`Service`] sees it. The id stays with the peer.
#[derive(Debug)]
pub struct Request<'a> {
    /// What is asked for.
    pub method: &'a str,
    /// Raw params of any JSON type; `None` when absent or `null`. Checking their shape is the service's matter.
    pub params: Option<&'a RawValue>,
    /// Fires when the sender cancels this request, or everything is cancelled for the end of the connection.
    pub cancel: CancellationToken,
}

/// What a request is answered with.
pub struct Reply {
    pub(super) body: Body,
    pub(super) after: Option<FollowUp>,
}

/// What is done once a reply is queued.
pub(super) type FollowUp = Box<dyn FnOnce() + Send>;

/// The reply from behind its id member on.
pub(super) enum Body {
    Result(Box<RawValue>),
    Error(Box<RpcError>),
    /// A whole reply with the id `null`; what follows [`NULL_ID_PREFIX`] counts.
    Spliced(Box<RawValue>),
}

impl Reply {
    /// A success.
    pub fn result(result: Box<RawValue>) -> Self {
        Self {
            body: Body::Result(result),
            after: None,
        }
    }

    /// A refusal or failure.
    pub fn error(error: RpcError) -> Self {
        Self {
            body: Body::Error(Box::new(error)),
            after: None,
        }
    }

    /// Takes over a reply that a method of an `RpcModule` made for the id `null`; the peer puts the real id in.
    ///
    /// A `notify_on_completion` of the response is told once the reply is queued, like any
    /// [`after`](Self::after).
    ///
    /// # Errors
    /// When the text does not begin as a reply to the id `null` does: a subscription, or a response made for another
    /// id.
    pub fn from_method_response(response: MethodResponse) -> Result<Self, SpliceError> {
        let (text, notifier, _) = response.into_parts();
        if !text.get().starts_with(NULL_ID_PREFIX) {
            return Err(SpliceError);
        }
        let reply = Self {
            body: Body::Spliced(text),
            after: None,
        };
        Ok(match notifier {
            Some(notifier) => reply.after(|| notifier.notify(true)),
            None => reply,
        })
    }

    /// Runs `follow_up` right after this reply has been given to the connection's outbox.
    ///
    /// What it sends to that outbox comes after the reply, which is how the events that a request sets going keep
    /// their place.
    /// It runs even if the host is gone by then, on the thread that queued the reply, so it must not wait.
    /// It is dropped without being run when somebody else has answered the request: a cancel, or the shutdown.
    /// What it owns must then undo itself by its drop.
    #[must_use]
    pub fn after(mut self, follow_up: impl FnOnce() + Send + 'static) -> Self {
        let earlier = self.after.take();
        self.after = Some(match earlier {
            None => Box::new(follow_up),
            Some(earlier) => Box::new(move || {
                earlier();
                follow_up();
            }),
        });
        self
    }

    /// Whether this is a refusal or failure.
    pub fn is_error(&self) -> bool {
        match &self.body {
            Body::Result(_) => false,
            Body::Error(_) => true,
            Body::Spliced(_) => self.body.spliced_tail().starts_with("\"error\":"),
        }
    }
}

/// Runs a follow-up. A panic in it must end neither the reader nor the handler that happens to run it.
pub(super) fn run(follow_up: FollowUp) {
    if std::panic::catch_unwind(AssertUnwindSafe(follow_up)).is_err() {
        tracing::error!("what was to follow a reply panicked");
    }
}

impl Body {
    /// What follows the id member in a spliced reply.
    pub(super) fn spliced_tail(&self) -> &str {
        match self {
            Self::Spliced(text) => text.get().get(NULL_ID_PREFIX.len()..).unwrap_or_default(),
            Self::Result(_) | Self::Error(_) => "",
        }
    }
}

impl From<Result<Box<RawValue>, RpcError>> for Reply {
    fn from(outcome: Result<Box<RawValue>, RpcError>) -> Self {
        match outcome {
            Ok(result) => Self::result(result),
            Err(error) => Self::error(error),
        }
    }
}

impl fmt::Debug for Reply {
    /// Says which kind of reply it is, not what is in it: results may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_error() {
            "Reply(error)"
        } else {
            "Reply(result)"
        })
    }
}

/// The response was not made for the id `null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response was not made for the id null")]
pub struct SpliceError;

/// The service of a side that offers nothing: requests are refused, notifications ignored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refuse;

impl Service for Refuse {
    fn call(&self, request: Request<'_>) -> BoxFuture<'static, Reply> {
        let message = format!("There is no method {}.", request.method);
        Box::pin(std::future::ready(Reply::error(RpcError::new(
            ErrorKind::MethodNotFound,
            message,
        ))))
    }

    fn notify(&self, _: &str, _: Option<&RawValue>) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use jsonrpsee::core::server::ResponsePayload;
    use jsonrpsee::types::{ErrorObject, Id};
    use jsonrpsee::{MethodResponse, RpcModule};
    use serde_json::json;

    use super::*;

    fn tail(response: MethodResponse) -> String {
        Reply::from_method_response(response)
            .unwrap()
            .body
            .spliced_tail()
            .to_owned()
    }

    /// The prefix is the one thing an upgrade of the library can break.
    #[test]
    fn every_kind_of_response_can_be_spliced() {
        let object = || ErrorObject::owned(-32010, "no", Some(json!({"kind": "x"})));
        let payload = ResponsePayload::success(json!({"a": 1}));
        assert_eq!(
            tail(MethodResponse::response(Id::Null, payload, usize::MAX)),
            r#""result":{"a":1}}"#
        );
        let payload = ResponsePayload::success(());
        assert_eq!(
            tail(MethodResponse::response(Id::Null, payload, usize::MAX)),
            r#""result":null}"#
        );
        let error = r#""error":{"code":-32010,"message":"no","data":{"kind":"x"}}}"#;
        let payload = ResponsePayload::<()>::error(object());
        assert_eq!(
            tail(MethodResponse::response(Id::Null, payload, usize::MAX)),
            error
        );
        assert_eq!(tail(MethodResponse::error(Id::Null, object())), error);
        let payload = ResponsePayload::success("longer than the limit");
        let refused =
            Reply::from_method_response(MethodResponse::response(Id::Null, payload, 10)).unwrap();
        assert!(refused.is_error());
        let subscribed = MethodResponse::subscription_response(
            Id::Null,
            ResponsePayload::success(1),
            usize::MAX,
        );
        assert_eq!(tail(subscribed), r#""result":1}"#);
        let other = MethodResponse::error(Id::Number(1), object());
        assert_eq!(Reply::from_method_response(other).unwrap_err(), SpliceError);
    }

    #[tokio::test]
    async fn responses_of_a_module_can_be_spliced() {
        use jsonrpsee::core::server::MethodCallback;
        use jsonrpsee::{ConnectionId, Extensions};

        let mut module = RpcModule::new(());
        module.register_method("sync", |_, (), _| 1).unwrap();
        module
            .register_async_method("async", |_, _, _| async { 2 })
            .unwrap();
        module
            .register_blocking_method("blocking", |_, _, _| 3)
            .unwrap();
        module
            .register_blocking_method("panics", |_, _, _| -> u8 {
                panic!("a handler that panics")
            })
            .unwrap();
        for (method, expected) in [
            ("sync", "1"),
            ("async", "2"),
            ("blocking", "3"),
            ("panics", "error"),
        ] {
            let params = jsonrpsee::types::Params::new(None);
            let response = match module.method(method).unwrap() {
                MethodCallback::Sync(f) => f(Id::Null, params, usize::MAX, Extensions::new()),
                MethodCallback::Async(f) => {
                    f(
                        Id::Null,
                        params,
                        ConnectionId(0),
                        usize::MAX,
                        Extensions::new(),
                    )
                    .await
                }
                _ => panic!("{method} is no subscription"),
            };
            let reply = Reply::from_method_response(response).unwrap();
            match expected {
                "error" => assert!(reply.is_error(), "{method}"),
                result => assert_eq!(
                    reply.body.spliced_tail(),
                    format!("\"result\":{result}}}"),
                    "{method}"
                ),
            }
        }
    }

    #[tokio::test]
    async fn the_notifier_of_a_response_becomes_a_follow_up() {
        let (payload, queued) = ResponsePayload::success(1).notify_on_completion();
        let reply =
            Reply::from_method_response(MethodResponse::response(Id::Null, payload, usize::MAX))
                .unwrap();
        reply.after.expect("a follow-up")();
        queued.await.unwrap();
    }

    #[test]
    fn follow_ups_run_in_the_order_they_were_given() {
        let order = Arc::new(AtomicU32::new(0));
        let step = |digit: u32| {
            let order = Arc::clone(&order);
            move || {
                let earlier = order.load(Ordering::Relaxed);
                order.store(earlier * 10 + digit, Ordering::Relaxed);
            }
        };
        let reply = Reply::result(RawValue::NULL.to_owned())
            .after(step(1))
            .after(step(2));
        reply.after.expect("a follow-up")();
        assert_eq!(order.load(Ordering::Relaxed), 12);
    }
}
