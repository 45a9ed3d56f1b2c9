//! The only place where failures become errors of this protocol.
//!
//! Codes: -32600 a request that makes no sense now, -32601 no such method, -32602 a wrong value, -32603 failures of
//! providers and our own, -32000 a model must be configured first, -32002 no such session, -32800 cancelled. `data` is
//! always an object and says the kind; messages are one sentence, since clients show them as they are.

use longshore_protocol::error::{ErrorKind, RpcError};
use longshore_protocol::value::failure::Failure;
use serde_json::Value;

use super::auth;
use crate::kernel::fault::Fault;

const AUTH_REQUIRED: i32 = -32000;
const NOT_FOUND: i32 = -32002;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL: i32 = -32603;
const PARSE: i32 = -32700;
const CANCELLED: i32 = -32800;

fn code(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::ParseError => PARSE,
        ErrorKind::InvalidRequest
        | ErrorKind::NotInitialized
        | ErrorKind::ServerBusy
        | ErrorKind::SessionBusy
        | ErrorKind::LimitExceeded => INVALID_REQUEST,
        ErrorKind::MethodNotFound => METHOD_NOT_FOUND,
        ErrorKind::InvalidParams | ErrorKind::ModelUnknown => INVALID_PARAMS,
        ErrorKind::RequestCancelled => CANCELLED,
        ErrorKind::SessionNotFound | ErrorKind::FileNotFound => NOT_FOUND,
        ErrorKind::AuthRequired | ErrorKind::ModelNotConfigured => AUTH_REQUIRED,
        _ => INTERNAL,
    }
}

/// An error of a kind.
pub(super) fn error(kind: ErrorKind, message: impl Into<String>) -> RpcError {
    let error = RpcError::new(kind, message).with_code(code(kind));
    match kind {
        ErrorKind::AuthRequired | ErrorKind::ModelNotConfigured => {
            let reason = error.message.clone();
            error
                .with("authMethods", vec![auth::METHOD])
                .with("reason", reason)
        }
        _ => error,
    }
}

/// A value that is wrong, and where it stands, as a JSON pointer into the params.
pub(super) fn invalid(path: &str, message: impl Into<String>) -> RpcError {
    error(ErrorKind::InvalidParams, message).with("path", path)
}

/// No session of this id can be used here.
pub(super) fn no_session(id: &str) -> RpcError {
    error(
        ErrorKind::SessionNotFound,
        format!("session not found: {id}"),
    )
    .with("sessionId", id)
}

/// No model can be used; the reason says what to configure.
pub(super) fn no_model(reason: impl Into<String>) -> RpcError {
    error(ErrorKind::ModelNotConfigured, reason)
}

/// A request that was taken back.
pub(super) fn cancelled() -> RpcError {
    error(ErrorKind::RequestCancelled, "The request was cancelled.")
}

/// Too many prompts wait.
pub(super) fn busy(waiting: usize) -> RpcError {
    error(
        ErrorKind::SessionBusy,
        format!("{waiting} prompts are waiting in this session already; wait for one to end"),
    )
    .with("code", "turn.agent_busy")
}

/// Something the engine could not do.
pub(super) fn from_fault(fault: &Fault) -> RpcError {
    if fault.kind == ErrorKind::InternalError {
        tracing::error!(%fault, "a request failed");
    }
    let message = sentence(fault.kind, &fault.message);
    with_members(error(fault.kind, message), &fault.data)
}

/// Why a turn ended badly.
pub(super) fn from_failure(failure: &Failure) -> RpcError {
    let mut error = error(failure.kind, sentence(failure.kind, &failure.message));
    // A model answered, so whatever is wrong with it is not a value of this request.
    if !matches!(error.code, AUTH_REQUIRED) {
        error = error.with_code(INTERNAL);
    }
    if let Some(status) = failure.status {
        error = error.with("status", status);
    }
    if let Some(at) = &failure.retry_at {
        error = error.with("retryAfter", at.as_str());
    }
    error
}

fn with_members(mut error: RpcError, members: &serde_json::Map<String, Value>) -> RpcError {
    for (name, value) in members {
        if name == "kind" || name == "retryable" {
            continue;
        }
        let value = match (name.as_str(), value.as_str()) {
            ("path", Some(path)) => Value::from(our_path(path)),
            _ => value.clone(),
        };
        error = error.with(name, value);
    }
    error
}

/// Where a value stands in the params of this protocol.
fn our_path(path: &str) -> String {
    if let Some(rest) = path.strip_prefix("/input") {
        return format!("/prompt{rest}");
    }
    if let Some(rest) = path.strip_prefix("/additionalDirs") {
        return format!("/additionalDirectories{rest}");
    }
    path.to_owned()
}

fn sentence(kind: ErrorKind, message: &str) -> String {
    match kind {
        ErrorKind::InternalError => "Internal error; the log of the agent says more.".to_owned(),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_keep_what_clients_need() {
        let check = |fault: Fault, code: i32, data: Value| {
            let error = from_fault(&fault);
            assert_eq!(
                (error.code, serde_json::to_value(&error.data).unwrap()),
                (code, data),
                "{fault}"
            );
        };
        check(
            Fault::new(ErrorKind::SessionNotFound, "session not found: s").with("sessionId", "s"),
            -32002,
            json!({"kind": "session_not_found", "retryable": false, "sessionId": "s"}),
        );
        check(
            Fault::new(ErrorKind::InvalidParams, "part 1 is no image").with("path", "/input/1"),
            -32602,
            json!({"kind": "invalid_params", "retryable": false, "path": "/prompt/1"}),
        );
        check(
            Fault::new(ErrorKind::InvalidParams, "no").with("path", "/additionalDirs"),
            -32602,
            json!({"kind": "invalid_params", "retryable": false, "path": "/additionalDirectories"}),
        );
        check(
            Fault::new(ErrorKind::ModelNotConfigured, "no model"),
            -32000,
            json!({"kind": "model_not_configured", "retryable": false, "authMethods": [auth::METHOD], "reason": "no model"}),
        );
        check(
            Fault::new(
                ErrorKind::SessionLocked,
                "the session is in use by process 7",
            )
            .with("pid", 7),
            -32603,
            json!({"kind": "session_locked", "retryable": false, "pid": 7}),
        );
        let internal = from_fault(&Fault::new(ErrorKind::InternalError, "index 3 at x.rs:7"));
        assert!(!internal.message.contains("x.rs"), "no inner detail leaves");
    }

    #[test]
    fn failures_of_providers_are_internal_errors_with_a_kind() {
        let failure = |kind: ErrorKind| Failure {
            kind,
            message: "the provider says no".to_owned(),
            retryable: kind.retryable(),
            status: Some(429),
            retry_at: Some("2026-01-01T00:00:00Z".to_owned()),
        };
        for (kind, code) in [
            (ErrorKind::RateLimited, -32603),
            (ErrorKind::ProviderError, -32603),
            (ErrorKind::ContextOverflow, -32603),
            (ErrorKind::LimitExceeded, -32603),
            (ErrorKind::AuthRequired, -32000),
        ] {
            let error = from_failure(&failure(kind));
            assert_eq!((error.code, error.kind()), (code, kind));
            assert_eq!(error.data.extra["status"], 429);
            assert_eq!(error.message, "the provider says no");
        }
    }
}
