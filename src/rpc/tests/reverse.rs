//! Our own requests to the host, and the peer as a client.

use std::collections::HashMap;
use std::sync::Arc;

use longshore_protocol::error::ErrorKind;
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::sync::mpsc;

use super::{CANCEL, DEADLINE, Host, Methods, options, soon};
use crate::rpc::{
    Answer, End, Inbound, Peer, PeerOptions, PlainOutbox, RequestFailure, inbox, pipe,
};

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
    // Params that cannot be written leave nothing behind.
    let odd = HashMap::from([(vec![1], 1)]);
    assert!(matches!(
        handle.start_request("m", &odd),
        Err(RequestFailure::Unwritable(_))
    ));
    host.assert_alive().await;
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
            assert_eq!(error.kind(), Some(ErrorKind::MethodNotFound));
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
