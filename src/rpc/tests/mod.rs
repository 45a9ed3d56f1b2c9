//! A peer against a raw host, line by line, and against another peer.

mod batch;
mod end;
mod input;
mod requests;
mod reverse;

use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longshore_protocol::error::{ErrorKind, RpcError};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc;

use super::{
    Batches, BoxFuture, CancelWire, Connection, OnCancel, Peer, PeerHandle, PeerOptions,
    PlainOutbox, Refuse, Reply, Request, Service, pipe,
};

const CANCEL: CancelWire = CancelWire {
    method: "$/cancelRequest",
    field: "id",
};
const DEADLINE: Duration = Duration::from_secs(20);

fn options() -> PeerOptions {
    PeerOptions {
        max_message_bytes: 64 * 1024,
        max_in_flight: 256,
        reply_high_water_bytes: 16 * 1024 * 1024,
        batches: Batches::Accept,
        cancel: CANCEL,
        on_cancel: OnCancel::AnswerAtOnce,
    }
}

/// Fails the test with a reason instead of hanging.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future)
        .await
        .unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Lets every task that can go on do so. Only for the single-threaded runtime of these tests.
async fn settle() {
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
}

/// Methods that behave in every way a handler can.
struct Methods {
    handle: PeerHandle,
    told: mpsc::UnboundedSender<String>,
    begun: Arc<AtomicUsize>,
}

/// Tells the test that its owner was dropped.
struct Dropped(mpsc::UnboundedSender<String>, &'static str);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(format!("dropped {}", self.1));
    }
}

fn answer(value: &(impl Serialize + ?Sized)) -> Reply {
    Reply::result(to_raw_value(value).unwrap())
}

impl Service for Methods {
    fn call(&self, request: Request<'_>) -> BoxFuture<'static, Reply> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let params = request.params.unwrap_or(RawValue::NULL).to_owned();
        let cancel = request.cancel;
        let told = self.told.clone();
        let handle = self.handle.clone();
        match request.method {
            "echo" => Box::pin(async { Reply::result(params) }),
            "later" => Box::pin(async {
                tokio::task::yield_now().await;
                Reply::result(params)
            }),
            "never" => Box::pin(async move {
                let _dropped = Dropped(told, "never");
                pending().await
            }),
            "until_cancelled" => Box::pin(async move {
                cancel.cancelled().await;
                answer("stopped")
            }),
            "follow" => Box::pin(async move {
                answer("first").after(move || handle.notify("second", &json!({})).unwrap())
            }),
            "follow_later" => Box::pin(async move {
                tokio::task::yield_now().await;
                let guard = Dropped(told, "follow-up");
                answer("first").after(move || {
                    let _guard = guard;
                    handle.notify("second", &json!({})).unwrap();
                })
            }),
            "follow_panics" => {
                Box::pin(async { answer("first").after(|| panic!("in a follow-up")) })
            }
            "cancelled_at_once" => Box::pin(async move {
                // What a cancel that comes in at the last moment looks like.
                handle.cancel_all();
                let guard = Dropped(told, "follow-up");
                answer("too late").after(move || {
                    drop(guard);
                    panic!("nothing may follow a reply that was not sent");
                })
            }),
            "big" => Box::pin(async { answer(&"x".repeat(600)) }),
            "ask" => Box::pin(async move {
                match handle.request("question", &json!({"n": 1})).await {
                    Ok(result) => Reply::result(result),
                    Err(failure) => {
                        Reply::error(RpcError::new(ErrorKind::InternalError, failure.to_string()))
                    }
                }
            }),
            "panic_in_call" => panic!("in the call"),
            "panic_now" => Box::pin(async { panic!("at the first poll") }),
            "panic_later" => Box::pin(async {
                tokio::task::yield_now().await;
                panic!("in the task")
            }),
            _ => Refuse.call(Request { cancel, ..request }),
        }
    }

    fn notify(&self, method: &str, params: Option<&RawValue>) {
        assert!(method != "panic", "in a notification");
        let _ = self
            .told
            .send(format!("{method} {}", params.map_or("-", RawValue::get)));
    }
}

/// The host's end of a connection, in bytes.
struct Host {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    connection: Connection,
    told: mpsc::UnboundedReceiver<String>,
    begun: Arc<AtomicUsize>,
}

impl Host {
    fn new(options: PeerOptions) -> Self {
        Self::with_pipe(options, 1024 * 1024)
    }

    fn with_pipe(options: PeerOptions, buffer_bytes: usize) -> Self {
        let (ours, theirs) = pipe(buffer_bytes);
        let peer = Peer::new(Arc::new(PlainOutbox::new()), options);
        let (sender, told) = mpsc::unbounded_channel();
        let begun = Arc::new(AtomicUsize::new(0));
        let service = Methods {
            handle: peer.handle(),
            told: sender,
            begun: Arc::clone(&begun),
        };
        let connection = peer.start(theirs.reader, theirs.writer, Arc::new(service));
        Self {
            lines: BufReader::new(ours.reader).lines(),
            writer: ours.writer,
            connection,
            told,
            begun,
        }
    }

    async fn write(&mut self, text: impl AsRef<[u8]>) {
        soon("the peer to read", self.writer.write_all(text.as_ref()))
            .await
            .unwrap();
    }

    async fn send(&mut self, line: &str) {
        self.write(format!("{line}\n")).await;
    }

    async fn line(&mut self) -> Option<String> {
        soon("a line", self.lines.next_line()).await.unwrap()
    }

    async fn value(&mut self) -> Value {
        let line = self.line().await.expect("a line before the end");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    async fn heard(&mut self) -> String {
        soon("a notification", self.told.recv()).await.unwrap()
    }

    /// Asks for something quick: everything sent before has been dealt with when it is answered.
    async fn assert_alive(&mut self) {
        self.send(r#"{"jsonrpc":"2.0","id":"alive","method":"echo"}"#)
            .await;
        assert_eq!(
            self.line().await.as_deref(),
            Some(r#"{"jsonrpc":"2.0","id":"alive","result":null}"#)
        );
    }
}

/// A reply in short: the id, then the result or the code and kind.
fn short(reply: &Value) -> String {
    assert_eq!(reply["jsonrpc"], "2.0");
    match reply.get("error") {
        Some(error) => format!(
            "{} {} {}",
            reply["id"],
            error["code"],
            error["data"]["kind"].as_str().unwrap()
        ),
        None => format!("{} {}", reply["id"], reply["result"]),
    }
}

const PARSE: &str = "null -32700 parse_error";
const INVALID: &str = "null -32600 invalid_request";
