//! Requests of the host: order, limits, cancels, panics, and what follows a reply.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio_util::task::TaskTracker;

use super::{DEADLINE, Host, options, settle, short, soon};
use crate::rpc::{CancelWire, End, OnCancel, PeerOptions};

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
        writeln!(text, r#"{{"id":{id},"method":"later"}}"#).unwrap();
        writeln!(
            text,
            r#"{{"method":"$/cancelRequest","params":{{"id":{id}}}}}"#
        )
        .unwrap();
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
            writeln!(
                text,
                r#"{{"id":{id},"method":"echo","params":{{"n":{id}}}}}"#
            )
            .unwrap();
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
