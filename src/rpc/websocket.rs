//! WebSocket text frames as the lines of a peer.
//!
//! One message is one frame, in both directions. A frame that is too long ends the connection (close code 1009), as does
//! one that is not text (1003); pings are answered by the library.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use longshore_protocol::envelope::RequestId;
use longshore_protocol::error::{ErrorKind, RpcError};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadHalf,
    WriteHalf,
};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::memory::PipeEnd;
use super::service::Body;
use super::wire;

/// Buffers of one connection. Chosen: small enough for many idle hosts; long messages grow them for a time.
const BUFFER_BYTES: usize = 16 << 10;

/// What the other side gets to say goodbye, and to take what is left.
const GOODBYE: Duration = Duration::from_secs(5);

/// Limits of a WebSocket whose messages are at most so long. A message may come in any number of frames.
pub fn frames(max_message_bytes: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(max_message_bytes))
        .max_frame_size(Some(max_message_bytes))
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
}

/// Why we end a connection.
struct Farewell {
    code: CloseCode,
    reason: &'static str,
    /// Said before the end.
    error: Option<RpcError>,
}

/// Carries messages between a WebSocket and the end of a pipe, at the other end of which is a peer, until both have ended.
/// Never waits for one direction to go on with the other.
///
/// # Cancel safety
/// Dropping the future ends the connection at once.
pub async fn carry<S>(socket: WebSocketStream<S>, pipe: PipeEnd, max_message_bytes: usize)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sink, mut stream) = socket.split();
    let (say_farewell, farewell) = oneshot::channel();
    let is_over = {
        let mut incoming = std::pin::pin!(async {
            let ended = take_in(&mut stream, pipe.writer, max_message_bytes).await;
            if let Some(ended) = ended {
                // Where nobody listens any more, there is no connection to end.
                drop(say_farewell.send(ended));
            }
        });
        let mut outgoing = std::pin::pin!(give_out(&mut sink, pipe.reader, farewell));
        // Whichever is over first, the other gets some time, and no more.
        let over = tokio::select! {
            () = &mut outgoing => timeout(GOODBYE, incoming).await,
            () = &mut incoming => timeout(GOODBYE + GOODBYE, outgoing).await,
        };
        over.is_ok()
    };
    if let Ok(socket) = sink.reunite(stream)
        && is_over
    {
        // A socket that is closed with bytes unread takes back what was said last.
        let mut rest = socket.into_inner();
        let leaving = async {
            rest.shutdown().await?;
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
        };
        if let Ok(Err(error)) = timeout(GOODBYE, leaving).await {
            tracing::debug!(%error, "a WebSocket did not end in order");
        }
    }
}

/// Gives frames to the peer as lines, until the end. Says why, where it is for us to say.
async fn take_in<S>(
    stream: &mut SplitStream<WebSocketStream<S>>,
    mut lines: WriteHalf<DuplexStream>,
    max_message_bytes: usize,
) -> Option<Farewell>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let farewell = loop {
        match stream.next().await {
            Some(Ok(Message::Text(text))) => {
                let line = one_line(Bytes::from(text));
                let written = async {
                    lines.write_all(&line).await?;
                    lines.write_all(b"\n").await
                };
                if written.await.is_err() {
                    break None;
                }
            }
            Some(Ok(Message::Binary(_))) => {
                break Some(Farewell {
                    code: CloseCode::Unsupported,
                    reason: "messages are text frames",
                    error: None,
                });
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Close(_))) | None => break None,
            Some(Err(Error::Capacity(CapacityError::MessageTooLong { .. }))) => {
                let message = format!("A message may be at most {max_message_bytes} bytes long.");
                let error = RpcError::new(ErrorKind::InvalidRequest, message);
                break Some(Farewell {
                    code: CloseCode::Size,
                    reason: "the message is too long",
                    error: Some(error.with("maxMessageBytes", max_message_bytes)),
                });
            }
            Some(Err(Error::Utf8(_))) => {
                break Some(Farewell {
                    code: CloseCode::Invalid,
                    reason: "the message is not valid UTF-8",
                    error: None,
                });
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "a WebSocket broke");
                break None;
            }
        }
    };
    // The peer sees the end of its input.
    drop(lines.shutdown().await);
    farewell
}

/// A frame may hold line feeds between the tokens of its JSON. A carriage return is white space there as well, and just as
/// wrong inside a string.
fn one_line(text: Bytes) -> Bytes {
    if memchr::memchr(b'\n', &text).is_none() {
        return text;
    }
    let mut line = Vec::from(text);
    for byte in &mut line {
        if *byte == b'\n' {
            *byte = b'\r';
        }
    }
    line.into()
}

/// Sends the peer's lines as frames until it has ended, or a farewell is to be said.
async fn give_out<S>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    lines: ReadHalf<DuplexStream>,
    mut farewell: oneshot::Receiver<Farewell>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut lines = BufReader::with_capacity(BUFFER_BYTES, lines);
    let mut line = Vec::new();
    let mut is_farewell_due = true;
    let sent = async {
        loop {
            tokio::select! {
                read = lines.read_until(b'\n', &mut line) => {
                    if read? == 0 {
                        return sink.close().await;
                    }
                }
                last = &mut farewell, if is_farewell_due => {
                    let Ok(last) = last else {
                        is_farewell_due = false;
                        continue;
                    };
                    return say_goodbye(sink, last).await;
                }
            }
            // A read that a farewell cut short has kept what it had read.
            if line.pop() != Some(b'\n') {
                return sink.close().await;
            }
            let text = Utf8Bytes::try_from(Bytes::from(std::mem::take(&mut line)));
            match text {
                Ok(text) => sink.feed(Message::Text(text)).await?,
                Err(error) => tracing::error!(%error, "a message was not UTF-8 and is lost"),
            }
            if lines.buffer().is_empty() {
                sink.flush().await?;
            }
        }
    };
    if let Err(error) = sent.await {
        tracing::debug!(%error, "a WebSocket could not be written to");
    }
}

async fn say_goodbye<S>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    farewell: Farewell,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Farewell {
        code,
        reason,
        error,
    } = farewell;
    if let Some(error) = error {
        let text = wire::reply(&RequestId::null(), &Body::Error(Box::new(error)));
        if let Ok(text) = Utf8Bytes::try_from(text) {
            sink.feed(Message::Text(text)).await?;
        }
    }
    let close = CloseFrame {
        code,
        reason: reason.into(),
    };
    sink.send(Message::Close(Some(close))).await
}
