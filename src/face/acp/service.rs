//! Methods to handlers.

use std::sync::Arc;

use agent_client_protocol_schema::v1::{CancelNotification, SetSessionModeRequest};
use longshore_protocol::error::{ErrorKind, RpcError};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{Conn, error, initialize, params, prompt, session};
use crate::rpc::{BoxFuture, Reply, Request, Service};

/// The service of a connection.
pub(super) struct Face(pub(super) Arc<Conn>);

impl Service for Face {
    fn call(&self, request: Request<'_>) -> BoxFuture<'static, Reply> {
        let members = match params::members(request.params) {
            Ok(members) => members,
            Err(error) => return ready(Reply::error(error)),
        };
        let conn = Arc::clone(&self.0);
        if request.method == "initialize" {
            return ready(reply(initialize::initialize(&conn, members)));
        }
        if let Err(error) = conn.host() {
            return ready(Reply::error(error));
        }
        dispatch(request.method, conn, members, request.cancel)
    }

    fn notify(&self, method: &str, params: Option<&RawValue>) {
        // Everything else is ignored, as the protocol asks for.
        if method == "session/cancel"
            && let Ok(members) = params::members(params)
            && let Ok(CancelNotification { session_id, .. }) = params::read(members)
            && let Ok(open) = self.0.opened(&session_id.0)
        {
            open.lane.cancel_all();
        }
    }
}

fn dispatch(
    method: &str,
    conn: Arc<Conn>,
    members: Map<String, Value>,
    cancel: CancellationToken,
) -> BoxFuture<'static, Reply> {
    match method {
        "authenticate" => ready(reply(initialize::authenticate(&conn, members))),
        // What is synchronous in a prompt happens here and now, so that prompts and cancels keep their order.
        "session/prompt" => match prompt::accept(&conn, members, &cancel) {
            Ok(accepted) => Box::pin(accepted.run()),
            Err(error) => ready(Reply::error(error)),
        },
        "session/new" => until_cancelled(cancel, session::new(conn, members)),
        "session/load" => until_cancelled(cancel, session::load(conn, members)),
        "session/resume" => until_cancelled(cancel, session::resume(conn, members)),
        "session/fork" => until_cancelled(cancel, session::fork(conn, members)),
        "session/list" => until_cancelled(cancel, async move {
            Ok(reply(session::list(&conn, members).await))
        }),
        "session/close" => Box::pin(async move { reply(session::close(&conn, members).await) }),
        "session/delete" => Box::pin(async move { reply(session::delete(&conn, members).await) }),
        "session/set_mode" => Box::pin(async move {
            let result = params::read::<SetSessionModeRequest>(members);
            flat(match result {
                Ok(request) => session::set_mode(conn, request).await,
                Err(error) => Err(error),
            })
        }),
        "session/set_config_option" => {
            Box::pin(async move { flat(session::set_config_option(conn, members).await) })
        }
        "session/set_model" => {
            Box::pin(async move { flat(session::set_model(conn, members).await) })
        }
        _ => ready(Reply::error(error::error(
            ErrorKind::MethodNotFound,
            format!("There is no method {method}."),
        ))),
    }
}

/// A handler that a cancel ends with the error for that.
fn until_cancelled(
    cancel: CancellationToken,
    handler: impl Future<Output = Result<Reply, RpcError>> + Send + 'static,
) -> BoxFuture<'static, Reply> {
    Box::pin(async move {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Reply::error(error::cancelled()),
            result = handler => flat(result),
        }
    })
}

fn ready(reply: Reply) -> BoxFuture<'static, Reply> {
    Box::pin(std::future::ready(reply))
}

fn flat(result: Result<Reply, RpcError>) -> Reply {
    result.unwrap_or_else(Reply::error)
}

/// A reply with this result.
pub(super) fn reply<T: Serialize>(result: Result<T, RpcError>) -> Reply {
    let written = result.and_then(|result| {
        to_raw_value(&result).map_err(|reason| {
            tracing::error!(%reason, "a result could not be written");
            error::error(ErrorKind::InternalError, "The result could not be written.")
        })
    });
    written.into()
}
