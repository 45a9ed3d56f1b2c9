//! What the peer reads: framing, malformed input, odd ids.

use tokio::io::AsyncWriteExt;

use super::{Host, INVALID, PARSE, options, short, soon};
use crate::rpc::End;

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
