//! A server of raw bytes for tests: it says exactly what it is told to, piece by piece, and keeps what it was asked.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What a connection does.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Sends bytes as they are, as one write.
    Send(Vec<u8>),
    /// Waits; time may be paused.
    Pause(Duration),
    /// Waits until the other side has gone.
    Hold,
    /// Resets the connection.
    Reset,
    /// Takes the next request on the same connection.
    Next,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The request line.
    pub(super) line: String,
    /// All headers, as one text.
    pub(super) headers: String,
    /// The body.
    pub(super) body: Value,
}

/// A running server; it ends with this value.
pub(super) struct Fake {
    /// Where it is.
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    n_connections: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Fake {
    /// Answers the n-th request with the n-th list, the last one for ever.
    pub(super) async fn start(answers: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let log = asked.clone();
        let n_connections = Arc::new(AtomicUsize::new(0));
        let n = n_connections.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                n.fetch_add(1, Ordering::Relaxed);
                connections.spawn(serve(stream, answers.clone(), log.clone()));
            }
        });
        Self {
            address,
            asked,
            n_connections,
            _tasks: tasks,
        }
    }

    /// Connections made so far.
    pub(super) fn n_connections(&self) -> usize {
        self.n_connections.load(Ordering::Relaxed)
    }

    /// What it was asked so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, answers: Vec<Vec<Act>>, log: Arc<Mutex<Vec<Asked>>>) {
    'request: while let Some(asked) = read(&mut stream).await {
        let acts = {
            let mut log = log.lock().unwrap();
            log.push(asked);
            answers[(log.len() - 1).min(answers.len() - 1)].clone()
        };
        for act in acts {
            match act {
                Act::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Act::Pause(pause) => tokio::time::sleep(pause).await,
                Act::Hold => {
                    let _ = stream.read(&mut [0]).await;
                    return;
                }
                Act::Next => continue 'request,
                Act::Reset => {
                    stream.set_zero_linger().unwrap();
                    return;
                }
            }
        }
        let _ = stream.shutdown().await;
        return;
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut held = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        held.extend_from_slice(&buffer[..n]);
        let Some(end) = held.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&held[..end]).into_owned();
        let length = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length:")?
                    .trim()
                    .parse::<usize>()
                    .ok()
            })
            .unwrap_or(0);
        if held.len() < end + 4 + length {
            continue;
        }
        let (line, headers) = head.split_once("\r\n").unwrap_or((&head, ""));
        let body = serde_json::from_slice(&held[end + 4..end + 4 + length]).unwrap_or(Value::Null);
        return Some(Asked {
            line: line.to_owned(),
            headers: headers.to_ascii_lowercase(),
            body,
        });
    }
}
