//! The errors a scripted model answers with.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::json;

use super::format::{Failure, FailureKind};
use crate::kernel::time::Timestamp;
use crate::provider::classify::{Answer, classify};
use crate::provider::error::{ErrorClass, ProviderError};

/// A failure that a script asks for.
pub(super) fn error(failure: &Failure) -> ProviderError {
    let mut error = match failure.kind.unwrap_or(FailureKind::Status) {
        FailureKind::Status => status(failure),
        FailureKind::Connection => {
            plain(failure, ErrorClass::Connection, "the connection was reset")
        }
        FailureKind::Timeout => plain(
            failure,
            ErrorClass::Timeout,
            "the provider did not answer in time",
        ),
        FailureKind::Overflow => plain(
            failure,
            ErrorClass::ContextOverflow,
            "the conversation is too long for the model",
        ),
        FailureKind::Filtered => plain(
            failure,
            ErrorClass::Filtered,
            "the provider filtered the model's answer",
        ),
        FailureKind::Auth => plain(
            failure,
            ErrorClass::Auth,
            "the provider did not accept the key",
        ),
        FailureKind::Quota => plain(failure, ErrorClass::QuotaExhausted, "the quota is used up"),
        FailureKind::Decode => plain(
            failure,
            ErrorClass::Decode,
            "the provider's answer could not be read",
        ),
    };
    if let Some(ms) = failure.retry_after_ms {
        error.retry_after = Some(Duration::from_millis(ms)).filter(|wait| !wait.is_zero());
    }
    error
}

/// A mistake of the script itself, or of the request it was written for. Never retried.
pub(super) fn script(kind: &str, why: &str, lane: &str, turn: usize) -> ProviderError {
    let mut error = ProviderError::new(
        ErrorClass::Script,
        format!("{kind}: lane {lane}, turn {turn}: {why}"),
    );
    error.script = Some((lane.to_owned(), turn));
    error
}

/// We stopped it.
pub(super) fn cancelled() -> ProviderError {
    ProviderError::new(ErrorClass::Cancelled, "the request was cancelled")
}

/// Nothing came for too long.
pub(super) fn idle(timeout: Duration) -> ProviderError {
    ProviderError::new(
        ErrorClass::Timeout,
        format!("the model sent nothing for {timeout:?}"),
    )
}

/// Classified as a real provider's answer would be.
fn status(failure: &Failure) -> ProviderError {
    let body = match (&failure.message, &failure.code) {
        (None, None) => String::new(),
        (message, code) => {
            json!({"error": {"message": message.as_deref().unwrap_or_default(), "code": code}})
                .to_string()
        }
    };
    classify(&Answer {
        status: failure.status,
        headers: &HeaderMap::new(),
        body: &body,
        secrets: &[],
        now: Timestamp(0),
    })
}

fn plain(failure: &Failure, class: ErrorClass, message: &str) -> ProviderError {
    let mut error = ProviderError::new(class, failure.message.as_deref().unwrap_or(message));
    error.status = failure.status;
    error
}
