//! The WebSocket door: who may come in by it is said in the handshake.

use std::path::Path;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::accept_hdr_async_with_config;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{StatusCode, header};

use crate::os::fs::{self, FsError};
use crate::os::ids::{IdSource as _, RandomIds};
use crate::rpc;

/// What a host that comes by WebSocket shows: whoever can read the file that has it is the user. Made anew by each daemon.
#[derive(Clone)]
pub(super) struct Token(Arc<str>);

impl Token {
    /// Makes one and puts it into a file that only the user reads.
    pub(super) fn make(path: &Path) -> Result<Self, FsError> {
        let ids = RandomIds::default();
        let [a, b, c, d] = std::array::from_fn(|_| ids.random());
        let text = format!("{a:016x}{b:016x}{c:016x}{d:016x}");
        fs::remove_file_if_present(path)?;
        fs::write_private(path, text.as_bytes())?;
        Ok(Self(text.into()))
    }

    /// Removes the file.
    pub(super) fn remove(path: &Path) {
        if let Err(error) = fs::remove_file_if_present(path) {
            tracing::warn!(%error, "the token could not be removed");
        }
    }

    /// Whether a request shows it. Takes as long for a wrong one as for the right one.
    fn is_shown_by(&self, request: &Request) -> bool {
        let mut values = request.headers().get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return false;
        };
        let Some((scheme, shown)) = value.to_str().ok().and_then(|value| value.split_once(' '))
        else {
            return false;
        };
        scheme.eq_ignore_ascii_case("bearer")
            && bool::from(shown.trim().as_bytes().ct_eq(self.0.as_bytes()))
    }

    /// Why a request is not let in.
    fn refusal(&self, request: &Request) -> Option<(StatusCode, &'static str)> {
        if request.headers().contains_key(header::ORIGIN) {
            // Browsers say where a page is from; no page is a host.
            let why = "Requests of web pages are refused.\n";
            return Some((StatusCode::FORBIDDEN, why));
        }
        let why = "Send `Authorization: Bearer TOKEN` with the token from run/ws-token in longshore's directory.\n";
        (!self.is_shown_by(request)).then_some((StatusCode::UNAUTHORIZED, why))
    }
}

/// Opens a connection with whoever shows the token. The error says why it is not opened; the other side has been told.
pub(super) async fn accept(
    stream: TcpStream,
    token: &Token,
    max_message_bytes: usize,
) -> Result<WebSocketStream<TcpStream>, String> {
    #[expect(clippy::result_large_err, reason = "the library wants it so")]
    let judge = |request: &Request, response: Response| match token.refusal(request) {
        None => Ok(response),
        Some((status, why)) => {
            let mut refusal = ErrorResponse::new(Some(why.to_owned()));
            *refusal.status_mut() = status;
            Err(refusal)
        }
    };
    accept_hdr_async_with_config(stream, judge, Some(rpc::frames(max_message_bytes)))
        .await
        .map_err(|error| error.to_string())
}
