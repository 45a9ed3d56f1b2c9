//! Faults become errors on the wire here, and nowhere else.

use jsonrpsee::types::ErrorObjectOwned;
use longshore_protocol::error::{ErrorKind, RpcError};

use crate::kernel::fault::Fault;

/// The error a host gets. What a fault came from stays in the log.
pub(super) fn rpc(fault: Fault) -> RpcError {
    let Fault {
        kind,
        message,
        data,
        source,
    } = fault;
    if kind == ErrorKind::InternalError {
        tracing::error!(
            message,
            source = source.map(tracing::field::display),
            "a request failed"
        );
    } else {
        tracing::debug!(
            kind = kind.as_str(),
            message,
            source = source.map(tracing::field::display),
            "refused a request"
        );
    }
    let mut error = RpcError::new(kind, message);
    for (name, value) in data {
        if name != "kind" && name != "retryable" {
            error.data.extra.insert(name, value);
        }
    }
    error
}

/// The same for a method of the module.
pub(super) fn object(fault: Fault) -> ErrorObjectOwned {
    let RpcError {
        code,
        message,
        data,
    } = rpc(fault);
    ErrorObjectOwned::owned(code, message, Some(data))
}

/// Params that can't be used: where (a JSON pointer), and what was expected there.
pub(super) fn invalid_params(path: &str, expected: &str, message: impl Into<String>) -> Fault {
    Fault::new(ErrorKind::InvalidParams, message)
        .with("path", path)
        .with("expected", expected)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fault_keeps_its_data_and_loses_its_source() {
        let fault = Fault::new(ErrorKind::SessionLocked, "It is in use.")
            .with("pid", 7)
            .with("kind", "other")
            .caused_by("secret");
        let expected = json!({
            "code": -32011, "message": "It is in use.",
            "data": {"kind": "session_locked", "retryable": false, "pid": 7},
        });
        assert_eq!(serde_json::to_value(object(fault)).unwrap(), expected);
    }
}
