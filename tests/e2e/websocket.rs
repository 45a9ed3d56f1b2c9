//! Hosts that come to the daemon by WebSocket: full hosts, once they have shown the token.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream as AsyncTcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::daemon::Daemon;
use crate::support::server::DEADLINE;

const TALKS: &str = "turns:\n- steps: [{text: Hello}, {tool_call: {name: Bash, args: {command: touch asked}}}]\n- steps: [{text: Bye.}]\non_exhausted: repeat_last";

impl Daemon {
    /// A daemon that listens at a port of the system's choice.
    fn listening() -> Self {
        let at = Self::with_script(TALKS);
        let (said, code) = at.says(&["start", "--listen", "ws://127.0.0.1:0"]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(&format!("WebSocket: {}", at.url())), "{said}");
        at
    }

    fn url(&self) -> String {
        self.record()["listen"].as_str().unwrap().to_owned()
    }

    fn address(&self) -> SocketAddr {
        self.url().strip_prefix("ws://").unwrap().parse().unwrap()
    }

    fn token(&self) -> String {
        let path = self.socket().with_file_name("ws-token");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::read_to_string(path).unwrap()
    }

    async fn connect(&self) -> Host {
        let stream = AsyncTcpStream::connect(self.address()).await.unwrap();
        let mut request = self.url().into_client_request().unwrap();
        let token = format!("Bearer {}", self.token());
        request
            .headers_mut()
            .insert("authorization", token.parse().unwrap());
        let (socket, _) = client_async(request, stream).await.unwrap();
        Host {
            socket,
            n_requests: 0,
            events: Vec::new(),
        }
    }
}

/// A host at the far end of a WebSocket.
struct Host {
    socket: WebSocketStream<AsyncTcpStream>,
    n_requests: u64,
    events: Vec<Value>,
}

impl Host {
    async fn send(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// The next message; `None` at the end.
    async fn next(&mut self) -> Option<Result<Message, Error>> {
        tokio::time::timeout(DEADLINE, self.socket.next())
            .await
            .expect("a message")
    }

    async fn said(&mut self) -> Value {
        loop {
            match self.next().await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.n_requests += 1;
        let id = self.n_requests;
        // Pretty, over several lines: a frame is a message, whatever is in it.
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(Message::text(
            serde_json::to_string_pretty(&request).unwrap(),
        ))
        .await;
        loop {
            let said = self.said().await;
            if said.get("method").is_none() && said["id"] == id {
                assert!(said.get("error").is_none(), "{method}: {said}");
                return said["result"].clone();
            }
            self.events.push(said);
        }
    }

    async fn event(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.events.iter().position(|said| said["method"] == method) {
                return self.events.remove(at);
            }
            let said = self.said().await;
            self.events.push(said);
        }
    }

    async fn initialize(&mut self) -> Value {
        let hello = json!({"protocolVersion": 1, "host": {"name": "far", "version": "1"}, "capabilities": {"approvals": true}});
        self.request("initialize", hello).await
    }

    /// Reads to the close, and gives its code.
    async fn close_code(&mut self) -> Option<CloseCode> {
        loop {
            match self.next().await {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
                Some(Ok(_)) => {}
                other => panic!("no goodbye: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_far_host_is_a_full_host() {
    let at = Daemon::listening();
    let mut host = at.connect().await;
    let hello = host.initialize().await;
    assert_eq!(hello["server"]["pid"], at.pid());
    let created = host
        .request("session/create", json!({"cwd": at.scratch.repository()}))
        .await;
    let session = created["session"]["sessionId"].clone();
    let mut near = at.host();
    near.request("session/attach", json!({"sessionId": session}));
    let turn = host
        .request("turn/start", json!({"sessionId": session, "input": "Go."}))
        .await;
    let asked = host.event("approval/request").await;
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"optionId": "allow_once"}});
    host.send(Message::text(answer.to_string())).await;
    let ended = host.event("turn/ended").await;
    assert_eq!(ended["params"]["turnId"], turn["turnId"]);
    assert_eq!(
        near.ended(turn["turnId"].as_str().unwrap())["reason"],
        "completed"
    );
    assert!(at.scratch.file("asked").exists());

    // A ping is answered, a line of garbage too, and both leave the connection as it was.
    host.send(Message::Ping("are you there".into())).await;
    while !matches!(host.next().await.unwrap().unwrap(), Message::Pong(bytes) if bytes == "are you there")
    {
    }
    for (text, code) in [
        ("{", -32700),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\nng\"}",
            -32700,
        ),
        ("1", -32600),
    ] {
        host.send(Message::text(text)).await;
        assert_eq!(host.said().await["error"]["code"], code, "{text}");
    }
    let status = host.request("server/status", json!({})).await;
    let names: Vec<&Value> = status["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| &host["name"])
        .collect();
    assert_eq!(names, ["far", "e2e"]);
    // It says goodbye, and so does the daemon.
    host.send(Message::Close(None)).await;
    assert!(
        host.next()
            .await
            .is_some_and(|said| matches!(said, Ok(Message::Close(_))))
    );
    assert!(!matches!(host.next().await, Some(Ok(_))));
    near.request("ping", json!({}));
}

#[tokio::test]
async fn a_shutdown_of_the_daemon_says_goodbye() {
    let at = Daemon::listening();
    let mut host = at.connect().await;
    host.initialize().await;
    let token = at.token();
    assert_eq!(at.says(&["stop"]).1, Some(0));
    assert_eq!(host.close_code().await, None, "closed without a reason");
    assert!(!at.socket().with_file_name("ws-token").exists());
    at.says(&["start", "--listen", "ws://127.0.0.1:0"]);
    assert_ne!(at.token(), token, "each daemon has its own");
}

#[tokio::test]
async fn what_is_too_long_or_no_text_ends_the_connection() {
    let at = Daemon::with_script(TALKS);
    at.scratch
        .configure_more("[limits]\nmax_message_bytes = 100000\n");
    assert_eq!(
        at.says(&["start", "--listen", "ws://127.0.0.1:0"]).1,
        Some(0)
    );
    let mut host = at.connect().await;
    host.initialize().await;
    // As much as is allowed, and one more.
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}";
    let fits = format!("{ping}{}", " ".repeat(100_000 - ping.len()));
    host.send(Message::text(fits)).await;
    assert_eq!(host.said().await["result"], json!({}));
    host.send(Message::text("x".repeat(100_001))).await;
    let refused = host.said().await;
    assert_eq!(
        (&refused["error"]["code"], &refused["id"]),
        (&json!(-32600), &Value::Null)
    );
    assert_eq!(refused["error"]["data"]["maxMessageBytes"], 100_000);
    assert_eq!(host.close_code().await, Some(CloseCode::Size));

    let mut host = at.connect().await;
    host.initialize().await;
    host.send(Message::binary(ping.as_bytes().to_vec())).await;
    assert_eq!(host.close_code().await, Some(CloseCode::Unsupported));
    let mut host = at.connect().await;
    host.initialize().await;
}

/// What the daemon answers to these bytes.
fn answer(at: &Daemon, head: &str) -> String {
    let mut stream = TcpStream::connect(at.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut chunk = [0; 1024];
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(n) => answer.extend_from_slice(&chunk[..n]),
        }
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn only_who_shows_the_token_and_is_no_web_page_comes_in() {
    let at = Daemon::listening();
    let token = at.token();
    let upgrade = |more: &str| {
        format!(
            "GET / HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n",
            at.address()
        )
    };
    let shown = format!("Authorization: Bearer {token}\r\n");
    let wrong = format!(
        "Authorization: Bearer {}\r\n",
        token.replace(|digit: char| digit.is_ascii_digit(), "x")
    );
    for (head, status) in [
        (upgrade(&shown), "101"),
        (upgrade(&shown.replace("Bearer", "bearer")), "101"),
        (upgrade(""), "401"),
        (upgrade(&wrong), "401"),
        (
            upgrade(&format!("Authorization: Bearer {token}x\r\n")),
            "401",
        ),
        (upgrade(&format!("Authorization: Basic {token}\r\n")), "401"),
        (upgrade("Authorization: Bearer \r\n"), "401"),
        (upgrade(&format!("{shown}{shown}")), "401"),
        (
            upgrade(&format!("{shown}Origin: http://{}\r\n", at.address())),
            "403",
        ),
        (upgrade(&format!("{shown}Origin: null\r\n")), "403"),
        (upgrade("Origin: https://example.org\r\n"), "403"),
    ] {
        let answer = answer(&at, &head);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{head}{answer}"
        );
    }
    // What is no WebSocket at all gets nothing of use.
    let plain = answer(
        &at,
        &format!("POST / HTTP/1.1\r\nHost: x\r\n{shown}Content-Length: 0\r\n\r\n"),
    );
    assert!(
        !plain.starts_with("HTTP/1.1 2") && !plain.starts_with("HTTP/1.1 101"),
        "{plain}"
    );
}

#[test]
fn whoever_does_not_open_the_connection_is_dropped() {
    let at = Daemon::listening();
    let mut stream = TcpStream::connect(at.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let mut rest = Vec::new();
    // Ten seconds are what it gets.
    let read = stream.read_to_end(&mut rest);
    assert!(rest.is_empty(), "{read:?} {rest:?}");
    assert!(
        !matches!(&read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
        "not dropped"
    );
    at.host().request("ping", json!({}));
}

#[test]
fn addresses_beyond_this_machine_are_a_decision() {
    let at = Daemon::with_script(TALKS);
    for words in [&["start"][..], &[]] {
        let (said, code) = at.says(&[words, &["--listen", "ws://0.0.0.0:0"]].concat());
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("--listen-anywhere"), "{said}");
    }
    let (said, code) = at.says(&["start", "--listen", "ws://0.0.0.0:0", "--listen-anywhere"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("ws://0.0.0.0:"), "{said}");
    assert!(!said.contains("ws://0.0.0.0:0,"), "{said}");
}

#[test]
fn a_command_can_not_come_in_by_websocket_either() {
    let speak = "exec 3<>/dev/tcp/127.0.0.1/PORT; printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: Upgrade\\r\\nUpgrade: \
                    websocket\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\nAuthorization: \
                    Bearer %s\\r\\n\\r\\n' \"$(cat \"$LONGSHORE_HOME/run/ws-token\")\" >&3; while IFS= read -r line <&3; \
                    do echo \"$line\"; [ \"$line\" != $'\\r' ] || break; done > answer; FRAME; timeout 20 head -c 400 <&3 >> answer";
    // One unmasked byte sequence will not do: a client masks its frames. A mask of zeros is a mask.
    let hello = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,\"host\":{\"name\":\"x\",\"version\":\"1\"}}}";
    assert!(hello.len() < 126, "{}", hello.len());
    let frame = format!(
        "printf '\\x81\\x{:02x}\\x00\\x00\\x00\\x00%s' '{hello}' >&3",
        0x80 | hello.len()
    );
    let at = Daemon::with_script("turns: []");
    assert_eq!(
        at.says(&["start", "--listen", "ws://127.0.0.1:0"]).1,
        Some(0)
    );
    let command = speak
        .replace("PORT", &at.address().port().to_string())
        .replace("FRAME", &frame);
    let script = json!({"turns": [
        {"steps": [{"tool_call": {"name": "Bash", "args": {"command": command, "timeout": 60}}}]},
        {"steps": [{"text": "ok"}]},
    ]});
    at.scratch.script(&script.to_string());
    let mut host = at.host();
    let session = host.create(&at.scratch, json!({"mode": "yolo"}));
    let turn = host.turn(&session, "Go.");
    assert_eq!(host.ended(&turn)["reason"], "completed");
    let answer =
        String::from_utf8_lossy(&fs::read(at.scratch.file("answer")).unwrap()).into_owned();
    assert!(answer.contains("101 Switching Protocols"), "{answer}");
    assert!(answer.contains("\"policy\":\"self_approval\""), "{answer}");
}
