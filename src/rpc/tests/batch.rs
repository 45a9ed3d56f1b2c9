//! Arrays of messages.

use std::sync::atomic::Ordering;

use super::{Batches, Host, INVALID, PARSE, options, short};
use crate::rpc::PeerOptions;

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
