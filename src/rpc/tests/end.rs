//! How a connection ends.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{DEADLINE, Host, options, settle, short, soon};
use crate::rpc::{End, OnCancel, Peer, PeerOptions, PlainOutbox, Refuse, RequestFailure, pipe};

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
