//! A peer against a raw host, line by line, and against another peer.

use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use longshore_protocol::error::{ErrorKind, RpcError};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::*;
use crate::rpc::{Answer, BoxFuture, Inbound, PlainOutbox, Refuse, Request, inbox, pipe};

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
    lines: Lines<BufReader<ReadHalf<tokio::io::DuplexStream>>>,
    writer: WriteHalf<tokio::io::DuplexStream>,
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

#[tokio::test]
async fn malformed_input_is_answered_and_reading_goes_on() {
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":"{}"}}"#,
        "x".repeat(64 * 1024)
    );
    for (input, expected) in [
        (&b"{"[..], PARSE),
        (b"[1", PARSE),
        (b"nonsense", PARSE),
        (b"{\"id\":1,\"method\":\"echo\"} {}", PARSE),
        (b"{\"id\":1,\"method\":\"\xff\"}", PARSE),
        (b"{\"id\":1,\"method\":\"\xed\xa0\x80\"}", PARSE),
        (b"{\"id\":1,\"params\":\"\x01\",\"method\":\"echo\"}", PARSE),
        (b"1", INVALID),
        (b"\"text\"", INVALID),
        (b"null", INVALID),
        (b"true", INVALID),
        (b"[]", INVALID),
        (b"{}", INVALID),
        (
            br#"{"jsonrpc":"2.0","id":"7","method":5}"#,
            "\"7\" -32600 invalid_request",
        ),
        (
            br#"{"jsonrpc":"2.0","id":1.5}"#,
            "1.5 -32600 invalid_request",
        ),
        (
            br#"{"jsonrpc":"1.0","id":3,"method":"echo"}"#,
            "3 -32600 invalid_request",
        ),
        (br#"{"jsonrpc":"1.0","method":"echo"}"#, INVALID),
        (
            br#"{"jsonrpc":"2.0","id":{"a":1},"method":"echo"}"#,
            INVALID,
        ),
        (
            br#"{"jsonrpc":"2.0","id":3,"id":4,"method":"echo"}"#,
            INVALID,
        ),
        (br#"{"id":3,"method":"echo"}"#, "3 null"),
        (
            br#"{"jsonrpc":"2.0","id":3,"method":"nope"}"#,
            "3 -32601 method_not_found",
        ),
        (
            br#"{"jsonrpc":"2.0","id":3,"method":""}"#,
            "3 -32601 method_not_found",
        ),
        (
            br#"{"jsonrpc":"2.0","id":3,"method":"echo","params":[1]}"#,
            "3 [1]",
        ),
        (
            br#"{"jsonrpc":"2.0","id":3,"method":"e\u0063ho","params":{},"more":1}"#,
            "3 {}",
        ),
        (long.as_bytes(), INVALID),
    ] {
        let mut host = Host::new(options());
        host.write([input, b"\n"].concat()).await;
        let shown = String::from_utf8_lossy(&input[..input.len().min(80)]).into_owned();
        let reply = host.value().await;
        assert_eq!(short(&reply), expected, "{shown}");
        assert!(
            reply
                .get("error")
                .is_none_or(|error| error["message"].as_str().unwrap().ends_with('.')),
            "{shown}"
        );
        host.assert_alive().await;
    }
}

/// The case WIRE-04: right codes and ids, in order, on one connection.
#[tokio::test]
async fn malformed_lines_are_answered_in_order() {
    let mut host = Host::new(options());
    host.write("{\n[1\n{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"method\":5}\n{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"nope\"}\n")
        .await;
    for expected in [
        PARSE,
        PARSE,
        "\"7\" -32600 invalid_request",
        "0 -32601 method_not_found",
    ] {
        assert_eq!(short(&host.value().await), expected);
    }
    host.assert_alive().await;
}

/// The case WIRE-05: only LF ends a frame.
#[tokio::test]
async fn odd_line_separators_survive_inside_strings() {
    let mut host = Host::new(options());
    let text = "\"a\u{2028}b\u{2029}c\u{85}d\\u000b\\u000c\\re\"";
    host.send(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":{text}}}"#
    ))
    .await;
    assert_eq!(
        host.line().await.unwrap(),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{text}}}"#)
    );
}

#[tokio::test]
async fn framing_is_lenient() {
    let mut host = Host::new(options());
    let request = |id: &str| format!("{{\"id\":{id},\"method\":\"echo\",\"params\":\"ä€😀\"}}");
    host.write(format!(
        "\u{feff}{}\r\n\n \r\n\t\n  {}  \n",
        request("1"),
        request("2")
    ))
    .await;
    for id in [1, 2] {
        assert_eq!(short(&host.value().await), format!("{id} \"ä€😀\""));
    }
    for byte in format!("{}\n", request("3")).into_bytes() {
        host.write([byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(short(&host.value().await), "3 \"ä€😀\"");
    // The last line has no ending, and is answered although the stream is over.
    host.write(request("4")).await;
    host.writer.shutdown().await.unwrap();
    assert_eq!(short(&host.value().await), "4 \"ä€😀\"");
    assert!(matches!(
        soon("the end", host.connection.ended()).await,
        End::Eof
    ));
}

#[tokio::test]
async fn ids_are_echoed_byte_for_byte() {
    let mut host = Host::new(options());
    for id in [
        "0",
        "-1",
        "1.5",
        "1.0",
        "1e3",
        "1E+3",
        "-0",
        "1e999",
        "184467440737095516160",
        r#""\u0061""#,
        r#""""#,
        "null",
    ] {
        for method in ["echo", "later"] {
            host.send(&format!(
                r#"{{"jsonrpc":"2.0","id": {id} ,"method":"{method}","params":{{}}}}"#
            ))
            .await;
            assert_eq!(
                host.line().await.unwrap(),
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
            );
        }
        host.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"nope"}}"#))
            .await;
        assert!(
            host.line()
                .await
                .unwrap()
                .starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":"#))
        );
    }
}

#[tokio::test]
async fn an_oversized_line_is_answered_once_and_skipped() {
    let mut host = Host::new(options());
    let chunk = vec![b'a'; 1024 * 1024];
    for _ in 0..200 {
        host.write(&chunk).await;
    }
    let reply = host.value().await;
    assert_eq!(short(&reply), INVALID);
    assert_eq!(reply["error"]["data"]["maxMessageBytes"], 64 * 1024);
    host.write("\n").await;
    host.assert_alive().await;
}

#[tokio::test]
async fn an_id_in_flight_is_refused_and_free_once_answered() {
    for id in ["1", "null", "\"a\""] {
        let mut host = Host::new(options());
        let request = |method| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
        host.send(&request("never")).await;
        host.send(&request("echo")).await;
        assert_eq!(
            short(&host.value().await),
            format!("{id} -32600 invalid_request")
        );
        host.send(&format!(
            r#"{{"method":"$/cancelRequest","params":{{"id":{id}}}}}"#
        ))
        .await;
        assert_eq!(
            short(&host.value().await),
            format!("{id} -32800 request_cancelled")
        );
        host.send(&request("echo")).await;
        assert_eq!(short(&host.value().await), format!("{id} null"));
        assert_eq!(host.heard().await, "dropped never");
    }
}

/// The reply is queued but the writer cannot run yet: the id is still in use.
#[tokio::test]
async fn an_id_is_in_flight_until_its_reply_is_written() {
    let mut host = Host::new(options());
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"echo"}"#;
    // Both lines are in the pipe before the reader's turn, and it takes both before the writer's.
    host.write(format!("{request}\n{request}\n")).await;
    assert_eq!(short(&host.value().await), "1 null");
    assert_eq!(short(&host.value().await), "1 -32600 invalid_request");
    settle().await;
    assert_eq!(host.connection.handle().in_flight(), 0);
}

#[tokio::test]
async fn a_cancel_drops_the_handler_or_signals_it() {
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#;
    for (on_cancel, method, expected) in [
        (
            OnCancel::AnswerAtOnce,
            "until_cancelled",
            "1 -32800 request_cancelled",
        ),
        (
            OnCancel::AnswerAtOnce,
            "never",
            "1 -32800 request_cancelled",
        ),
        (OnCancel::Signal, "until_cancelled", "1 \"stopped\""),
    ] {
        let mut host = Host::new(PeerOptions {
            on_cancel,
            ..options()
        });
        // Nothing to cancel, and odd cancels, are ignored.
        for params in [r#"{"id":1}"#, r#"{"id":{}}"#, "{}", "[1]", "null"] {
            host.send(&format!(
                r#"{{"method":"$/cancelRequest","params":{params}}}"#
            ))
            .await;
        }
        host.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#
        ))
        .await;
        host.send(cancel).await;
        host.send(cancel).await;
        assert_eq!(
            short(&host.value().await),
            expected,
            "{on_cancel:?} {method}"
        );
        host.send(cancel).await;
        host.assert_alive().await;
        soon("the handlers", host.connection.answered()).await;
        settle().await;
        assert_eq!(host.connection.handle().in_flight(), 0);
    }
}

#[tokio::test]
async fn the_other_spelling_of_cancel_works() {
    let cancel = CancelWire {
        method: "$/cancel_request",
        field: "requestId",
    };
    let mut host = Host::new(PeerOptions {
        cancel,
        ..options()
    });
    host.send(r#"{"jsonrpc":"2.0","id":"a","method":"never"}"#)
        .await;
    host.send(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"a"}}"#)
        .await;
    assert_eq!(host.heard().await, "$/cancelRequest {\"id\":\"a\"}");
    host.send(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"a"}}"#)
        .await;
    assert_eq!(short(&host.value().await), "\"a\" -32800 request_cancelled");
}

/// Cancels race with handlers that end by themselves, on several threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_race_has_one_reply() {
    const N: usize = 5_000;
    let mut host = Host::new(PeerOptions {
        max_in_flight: N,
        ..options()
    });
    let mut text = String::new();
    for id in 0..N {
        text += &format!("{{\"id\":{id},\"method\":\"later\"}}\n");
        text += &format!("{{\"method\":\"$/cancelRequest\",\"params\":{{\"id\":{id}}}}}\n");
    }
    let Host {
        mut writer,
        mut lines,
        connection,
        told: _told,
        ..
    } = host;
    let writing = TaskTracker::new().spawn(async move {
        writer.write_all(text.as_bytes()).await.unwrap();
        writer
    });
    let mut replies = vec![0; N];
    for _ in 0..N {
        let line = soon("a reply", lines.next_line()).await.unwrap().unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap();
        replies[reply["id"].as_u64().unwrap() as usize] += 1;
    }
    assert!(replies.iter().all(|&n| n == 1), "one reply for each id");
    let mut writer = writing.await.unwrap();
    writer.shutdown().await.unwrap();
    assert!(soon("the close", connection.close(DEADLINE)).await);
    assert_eq!(lines.next_line().await.unwrap(), None, "no reply too many");
    host = Host::new(options());
    host.assert_alive().await;
}

#[tokio::test]
async fn a_panic_is_an_internal_error_without_details() {
    let mut host = Host::new(options());
    for method in ["panic_in_call", "panic_now", "panic_later"] {
        host.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#
        ))
        .await;
        let line = host.line().await.unwrap();
        assert_eq!(
            short(&serde_json::from_str(&line).unwrap()),
            "1 -32603 internal_error",
            "{method}"
        );
        assert!(!line.contains("in the") && !line.contains(".rs"), "{line}");
    }
    host.send(r#"{"jsonrpc":"2.0","method":"panic"}"#).await;
    host.send(r#"{"jsonrpc":"2.0","id":1,"method":"follow_panics"}"#)
        .await;
    assert_eq!(short(&host.value().await), "1 \"first\"");
    host.assert_alive().await;
}

#[tokio::test]
async fn batches_are_answered_as_arrays() {
    let mut host = Host::new(PeerOptions {
        max_in_flight: 3,
        ..options()
    });
    let echo = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo"}}"#);
    let many = |n: usize| format!("[{}]", vec!["1"; n].join(","));
    let refused = |n: usize| vec![INVALID; n];
    for (input, expected) in [
        (format!("[{}]", echo(1)), vec!["1 null"]),
        (
            format!(r#" [ {} , {{"method":"told"}}, 1, [], {{"id":9}}, {{"id":2,"method":"later"}} ] "#, echo(1)),
            vec!["1 null", INVALID, INVALID, "9 -32600 invalid_request", "2 null"],
        ),
        (
            format!("[{0},{0}]", echo(1)),
            vec!["1 null", "1 -32600 invalid_request"],
        ),
        (
            format!("[{},{},{},{}]", echo(1), echo(2), echo(3), echo(4)),
            vec!["1 null", "2 null", "3 null", "4 -32001 server_busy"],
        ),
        (
            r#"[{"id":1,"method":"never"},{"method":"$/cancelRequest","params":{"id":1}},{"id":2,"method":"panic_later"}]"#
                .to_owned(),
            vec!["1 -32800 request_cancelled", "2 -32603 internal_error"],
        ),
        (many(1024), refused(1024)),
    ] {
        host.send(&input).await;
        let reply = host.value().await;
        let replies: Vec<String> = reply.as_array().expect("an array").iter().map(short).collect();
        assert_eq!(replies, expected, "{input}");
    }
    for input in ["[]".to_owned(), many(1025)] {
        host.send(&input).await;
        assert_eq!(short(&host.value().await), INVALID, "{input}");
    }
    // Notifications and answers have no reply.
    host.send(r#"[{"method":"a"},{"id":77,"result":1},{"method":"b","params":{}}]"#)
        .await;
    host.assert_alive().await;
    for expected in ["told -", "dropped never", "a -", "b {}"] {
        assert_eq!(host.heard().await, expected);
    }
}

#[tokio::test]
async fn what_follows_a_batched_reply_follows_the_array() {
    let mut host = Host::new(options());
    host.send(r#"[{"id":1,"method":"follow"},{"id":2,"method":"later"}]"#)
        .await;
    assert_eq!(host.value().await.as_array().unwrap().len(), 2);
    assert_eq!(host.value().await["method"], "second");
}

#[tokio::test]
async fn batches_can_be_refused() {
    let mut host = Host::new(PeerOptions {
        batches: Batches::Refuse,
        ..options()
    });
    for (input, expected) in [
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"echo"},{"method":"told"}]"#,
            INVALID,
        ),
        ("[]", INVALID),
        ("[1", PARSE),
    ] {
        host.send(input).await;
        assert_eq!(short(&host.value().await), expected, "{input}");
    }
    host.assert_alive().await;
    assert_eq!(
        host.begun.load(Ordering::Relaxed),
        1,
        "nothing in the batch was done"
    );
    assert!(host.told.try_recv().is_err());
}

#[tokio::test]
async fn too_many_in_flight_are_busy() {
    let mut host = Host::new(PeerOptions {
        max_in_flight: 2,
        ..options()
    });
    for id in 1..=3 {
        host.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"never"}}"#
        ))
        .await;
    }
    let reply = host.value().await;
    assert_eq!(short(&reply), "3 -32001 server_busy");
    assert!(reply["error"]["data"]["retryAfterMs"].as_u64().unwrap() > 0);
    host.send(r#"{"method":"$/cancelRequest","params":{"id":1}}"#)
        .await;
    assert_eq!(short(&host.value().await), "1 -32800 request_cancelled");
    host.send(r#"{"jsonrpc":"2.0","id":3,"method":"echo"}"#)
        .await;
    assert_eq!(short(&host.value().await), "3 null");
}

#[tokio::test]
async fn reading_pauses_while_replies_pile_up() {
    const N: usize = 50;
    let mut host = Host::with_pipe(
        PeerOptions {
            reply_high_water_bytes: 3_000,
            ..options()
        },
        64,
    );
    let Host {
        mut writer,
        mut lines,
        connection,
        begun,
        ..
    } = host;
    let writing = TaskTracker::new().spawn(async move {
        for id in 0..N {
            writer
                .write_all(format!("{{\"id\":{id},\"method\":\"big\"}}\n").as_bytes())
                .await
                .unwrap();
        }
        writer
    });
    settle().await;
    let begun_unread = begun.load(Ordering::Relaxed);
    assert!(
        (5..=10).contains(&begun_unread),
        "{begun_unread} requests begun"
    );
    assert!(!writing.is_finished(), "the host is held up");
    for id in 0..N {
        let line = soon("a reply", lines.next_line()).await.unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["id"], id);
    }
    assert_eq!(begun.load(Ordering::Relaxed), N);
    drop(writing.await.unwrap());
    drop(connection);

    // A stop gets through to a reader that pauses.
    host = Host::with_pipe(
        PeerOptions {
            reply_high_water_bytes: 1,
            ..options()
        },
        64,
    );
    host.send(r#"{"id":1,"method":"big"}"#).await;
    settle().await;
    host.connection.handle().stop();
    assert!(matches!(
        soon("the end", host.connection.ended()).await,
        End::Stopped
    ));
}

#[tokio::test]
async fn twenty_thousand_calls_begin_and_end_in_order() {
    const N: usize = 20_000;
    let host = Host::new(PeerOptions {
        max_in_flight: N,
        ..options()
    });
    let Host {
        mut writer,
        mut lines,
        connection: _connection,
        told: _told,
        ..
    } = host;
    TaskTracker::new().spawn(async move {
        let mut text = String::new();
        for id in 0..N {
            text += &format!("{{\"id\":{id},\"method\":\"echo\",\"params\":{{\"n\":{id}}}}}\n");
        }
        writer.write_all(text.as_bytes()).await.unwrap();
        writer
    });
    for id in 0..N {
        let line = soon("a reply", lines.next_line()).await.unwrap().unwrap();
        assert_eq!(
            line,
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":{id}}}}}"#)
        );
    }
}

#[tokio::test]
async fn what_follows_a_reply_comes_after_it() {
    let mut host = Host::new(options());
    for method in ["follow", "follow_later"] {
        host.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#
        ))
        .await;
        assert_eq!(short(&host.value().await), "1 \"first\"");
        assert_eq!(host.value().await["method"], "second");
    }
    assert_eq!(host.heard().await, "dropped follow-up");
    host.send(r#"{"jsonrpc":"2.0","id":1,"method":"cancelled_at_once"}"#)
        .await;
    assert_eq!(short(&host.value().await), "1 -32800 request_cancelled");
    assert_eq!(host.heard().await, "dropped follow-up");
    host.assert_alive().await;
}

#[tokio::test]
async fn reverse_requests_take_odd_answers() {
    let remote = |code: i64, message: &str| format!("{message} (error {code})");
    for (answers, expected) in [
        (
            vec![r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#],
            Ok(r#"{"a":1}"#),
        ),
        (vec![r#"{"id":1,"result":null}"#], Ok("null")),
        (
            vec![r#"{"jsonrpc":"2.0","id":1,"result":2,"error":null}"#],
            Ok("2"),
        ),
        (vec![r#"{"jsonrpc":"2.0","id":1,"error":null}"#], Ok("null")),
        (vec![r#"{"jsonrpc":"1.0","id":1,"result":2}"#], Ok("2")),
        (vec![r#"{"jsonrpc":"2.0","id":"1","result":2}"#], Ok("2")),
        (vec![r#"{"jsonrpc":"2.0","id":1.0,"result":2}"#], Ok("2")),
        (
            vec![
                r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-32601,"message":"no","more":[]}}"#,
            ],
            Err(remote(-32601, "no")),
        ),
        (
            vec![r#"{"id":1,"error":{"code":-32000.0,"message":"no"}}"#],
            Err(remote(-32000, "no")),
        ),
        (
            vec![r#"{"id":1,"error":{}}"#],
            Err("the other side answered error 0".to_owned()),
        ),
        (vec![r#"{"id":1,"error":"gone"}"#], Err(remote(0, "gone"))),
        (
            vec![
                r#"{"id":2,"result":"unknown"}"#,
                r#"{"id":null,"result":"null"}"#,
                r#"{"result":"none"}"#,
                r#"{"id":"x","result":"odd"}"#,
                r#"{"id":{},"error":{}}"#,
                r#"{"id":null,"error":{"code":-32700,"message":"you sent rubbish"}}"#,
                r#"{"id":1,"result":"right"}"#,
                r#"{"id":1,"result":"twice"}"#,
                r#"{"id":1,"error":{}}"#,
            ],
            Ok("\"right\""),
        ),
    ] {
        let mut host = Host::new(options());
        host.send(r#"{"id":"q","method":"ask"}"#).await;
        let question = r#"{"jsonrpc":"2.0","id":1,"method":"question","params":{"n":1}}"#;
        assert_eq!(host.line().await.unwrap(), question);
        for line in &answers {
            host.send(line).await;
        }
        let reply = host.value().await;
        match expected {
            Ok(result) => assert_eq!(reply["result"].to_string(), result, "{answers:?}"),
            Err(message) => assert_eq!(reply["error"]["message"], message, "{answers:?}"),
        }
        host.assert_alive().await;
    }
}

#[tokio::test]
async fn a_request_given_up_is_cancelled_at_the_host() {
    let mut host = Host::new(options());
    let handle = host.connection.handle().clone();
    let first = handle.start_request("first", &json!({})).unwrap();
    let second = handle.start_request("second", &json!({})).unwrap();
    drop(first);
    for expected in [
        r#"{"jsonrpc":"2.0","id":1,"method":"first","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"second","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#,
    ] {
        assert_eq!(host.line().await.unwrap(), expected);
    }
    // A late answer is no news; an answered request is not cancelled.
    host.send(r#"{"id":1,"result":1}"#).await;
    host.send(r#"{"id":2,"result":2}"#).await;
    assert_eq!(soon("the answer", second).await.unwrap().get(), "2");
    host.assert_alive().await;
    assert_eq!(handle.shared.outgoing.len(), 0);
    // Params that cannot be written leave nothing behind.
    let odd = HashMap::from([(vec![1], 1)]);
    assert!(matches!(
        handle.start_request("m", &odd),
        Err(RequestFailure::Unwritable(_))
    ));
    assert_eq!(handle.shared.outgoing.len(), 0);
    host.assert_alive().await;
}

#[tokio::test]
async fn after_the_end_of_input_replies_are_still_written() {
    let mut host = Host::new(options());
    let waiting = host
        .connection
        .handle()
        .start_request("question", &json!(null))
        .unwrap();
    host.line().await.unwrap();
    host.send(r#"{"id":1,"method":"later"}"#).await;
    host.send(r#"{"id":2,"method":"never"}"#).await;
    host.write(r#"{"id":3,"method":"echo"}"#).await;
    host.writer.shutdown().await.unwrap();
    assert!(matches!(
        soon("the end", host.connection.ended()).await,
        End::Eof
    ));
    assert!(
        matches!(host.connection.ended().await, End::Eof),
        "told again"
    );
    let handle = host.connection.handle().clone();
    assert!(handle.closed().is_cancelled());
    assert!(matches!(
        soon("the failure", waiting).await,
        Err(RequestFailure::Closed)
    ));
    assert!(matches!(
        handle.request("m", &()).await,
        Err(RequestFailure::Closed)
    ));
    handle.cancel_all();
    soon("the handlers", host.connection.answered()).await;
    handle.notify("last", &json!({})).unwrap();
    assert!(soon("the close", host.connection.close(DEADLINE)).await);
    let mut seen = Vec::new();
    while let Some(line) = soon("a line", host.lines.next_line()).await.unwrap() {
        seen.push(line);
    }
    assert_eq!(
        seen.pop().unwrap(),
        r#"{"jsonrpc":"2.0","method":"last","params":{}}"#
    );
    let mut replies: Vec<_> = seen
        .iter()
        .map(|line| short(&serde_json::from_str(line).unwrap()))
        .collect();
    replies.sort();
    assert_eq!(replies, ["1 null", "2 -32800 request_cancelled", "3 null"]);
    handle.notify("nobody", &json!({})).unwrap();
}

#[tokio::test]
async fn closing_answers_what_is_open() {
    for on_cancel in [OnCancel::AnswerAtOnce, OnCancel::Signal] {
        let mut host = Host::new(PeerOptions {
            on_cancel,
            ..options()
        });
        host.send(r#"{"id":1,"method":"never"}"#).await;
        host.send(r#"[{"id":2,"method":"never"},{"id":3,"method":"echo"}]"#)
            .await;
        host.assert_alive().await;
        assert!(soon("the close", host.connection.close(DEADLINE)).await);
        let first = soon("a reply", host.lines.next_line())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            short(&serde_json::from_str(&first).unwrap()),
            "1 -32800 request_cancelled"
        );
        let batch = soon("a reply", host.lines.next_line())
            .await
            .unwrap()
            .unwrap();
        let batch: Vec<Value> = serde_json::from_str(&batch).unwrap();
        assert_eq!(
            batch.iter().map(short).collect::<Vec<_>>(),
            ["3 null", "2 -32800 request_cancelled"]
        );
        assert_eq!(soon("the end", host.lines.next_line()).await.unwrap(), None);
        for _ in 0..2 {
            assert_eq!(
                soon("the drop", host.told.recv()).await.unwrap(),
                "dropped never"
            );
        }
        assert!(
            soon("the service's drop", host.told.recv()).await.is_none(),
            "nothing holds the service"
        );
    }
}

#[tokio::test]
async fn a_host_that_never_reads_cannot_hold_up_the_close() {
    let mut host = Host::with_pipe(options(), 64);
    host.send(r#"{"id":1,"method":"big"}"#).await;
    settle().await;
    assert!(
        !soon("the close", host.connection.close(Duration::from_millis(1))).await,
        "not all was written"
    );
}

#[tokio::test]
async fn dropping_the_connection_drops_its_handlers() {
    let mut host = Host::new(options());
    host.send(r#"{"id":1,"method":"never"}"#).await;
    host.assert_alive().await;
    let handle = host.connection.handle().clone();
    drop(host.connection);
    assert_eq!(
        soon("the drop", host.told.recv()).await.unwrap(),
        "dropped never"
    );
    soon("the end", handle.closed().cancelled()).await;
    assert_eq!(soon("the end", host.lines.next_line()).await.unwrap(), None);
}

#[tokio::test]
async fn a_host_that_vanished_ends_the_connection() {
    let host = Host::new(options());
    let Host {
        lines,
        writer,
        mut connection,
        ..
    } = host;
    drop((lines, writer));
    assert!(matches!(
        soon("the end", connection.ended()).await,
        End::Eof
    ));
    connection.handle().notify("m", &()).unwrap();
    settle().await;
    assert!(
        !soon("the close", connection.close(DEADLINE)).await,
        "the line went nowhere"
    );
}

#[tokio::test]
async fn a_broken_output_ends_the_connection_like_the_end_of_input() {
    // The input stays open, only the output is gone.
    let (ours, theirs) = pipe(1024);
    let (output, gone) = pipe(1024);
    drop(gone);
    let peer = Peer::new(Arc::new(PlainOutbox::new()), options());
    let handle = peer.handle();
    let mut connection = peer.start(theirs.reader, output.writer, Arc::new(Refuse));
    let waiting = handle.start_request("question", &()).unwrap();
    match soon("the end", connection.ended()).await {
        End::WriteError(error) => assert_eq!(error.kind(), io::ErrorKind::BrokenPipe),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        soon("the failure", waiting).await,
        Err(RequestFailure::Closed)
    ));
    assert!(!soon("the close", connection.close(DEADLINE)).await);
    drop(ours);
}

#[tokio::test]
async fn a_read_error_is_final() {
    let failing = tokio_util::io::StreamReader::new(futures::stream::iter([
        Ok(&b"{\"id\":1,\"method\":\"m\"}\n"[..]),
        Err(io::Error::from(io::ErrorKind::ConnectionReset)),
    ]));
    let (mut ours, theirs) = pipe(1024);
    let peer = Peer::new(Arc::new(PlainOutbox::new()), options());
    let mut connection = peer.start(failing, theirs.writer, Arc::new(Refuse));
    assert!(matches!(
        soon("the end", connection.ended()).await,
        End::ReadError(_)
    ));
    assert!(soon("the close", connection.close(DEADLINE)).await);
    let mut text = String::new();
    soon("the reply", ours.reader.read_to_string(&mut text))
        .await
        .unwrap();
    assert!(text.contains("method_not_found"), "{text}");
}

/// Two peers, one of them a client with an inbox.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_is_a_client_too() {
    let (client_end, server_end) = pipe(64 * 1024);
    let server = Peer::new(Arc::new(PlainOutbox::new()), options());
    let (told, mut heard) = mpsc::unbounded_channel();
    let service = Methods {
        handle: server.handle(),
        told,
        begun: Arc::default(),
    };
    let mut server = server.start(server_end.reader, server_end.writer, Arc::new(service));

    let client = Peer::new(Arc::new(PlainOutbox::new()), PeerOptions::client(CANCEL));
    let (service, mut inbound) = inbox();
    let client = client.start(client_end.reader, client_end.writer, Arc::new(service));
    let handle = client.handle().clone();

    let echoed: HashMap<String, u8> = handle.request_as("later", &json!({"a": 1})).await.unwrap();
    assert_eq!(echoed["a"], 1);
    let wrong = handle.request_as::<u8, _>("echo", &json!({})).await;
    assert!(matches!(wrong, Err(RequestFailure::Unreadable(_))));
    match handle.request("nope", &()).await {
        Err(RequestFailure::Refused(error)) => {
            assert_eq!(error.kind(), Some(ErrorKind::MethodNotFound))
        }
        other => panic!("{other:?}"),
    }
    handle.notify("hello", &json!({"n": 1})).unwrap();
    assert_eq!(
        soon("the notification", heard.recv()).await.unwrap(),
        r#"hello {"n":1}"#
    );

    let mut take_request = async || match soon("a request", inbound.recv()).await.unwrap() {
        Inbound::Request {
            method,
            params,
            cancel,
            answer,
        } => (method, params, cancel, answer),
        other @ Inbound::Notification { .. } => panic!("{other:?}"),
    };
    let asking = handle.start_request("ask", &()).unwrap();
    let (method, params, _, answer) = take_request().await;
    assert_eq!(
        (method.as_str(), params.unwrap().get()),
        ("question", r#"{"n":1}"#)
    );
    answer.send(Ok(to_raw_value("yes").unwrap()));
    assert_eq!(soon("the answer", asking).await.unwrap().get(), "\"yes\"");

    // An answer that is dropped is still an answer.
    let asking = handle.start_request("ask", &()).unwrap();
    let (.., answer) = take_request().await;
    drop::<Answer>(answer);
    assert!(matches!(
        soon("the answer", asking).await,
        Err(RequestFailure::Refused(_))
    ));

    // Giving up the outer request drops its handler, whose own request is given up in turn.
    let asking = handle.start_request("ask", &()).unwrap();
    let (_, _, cancel, _answer) = take_request().await;
    drop(asking);
    soon("the cancel", cancel.cancelled()).await;

    assert!(soon("the close", client.close(DEADLINE)).await);
    assert!(matches!(soon("the end", server.ended()).await, End::Eof));
}
