//! What can go wrong with a model request, and whether trying again can help.

use std::time::Duration;

use longshore_protocol::error::ErrorKind;

use crate::kernel::fault::Fault;

/// The class decides what is done about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// DNS, refused, reset, TLS.
    Connection,
    /// No connection, no headers or no data in time.
    Timeout,
    /// Too many requests.
    RateLimit,
    /// The account is out of quota.
    QuotaExhausted,
    /// The server is overloaded or failing.
    Overloaded,
    /// The key was not accepted.
    Auth,
    /// The conversation is too long for the model.
    ContextOverflow,
    /// The request has too many bytes.
    RequestTooLarge,
    /// An image could not be used.
    ImageRejected,
    /// The provider found the conversation malformed.
    BadStructure,
    /// The answer was filtered.
    Filtered,
    /// Nothing came that could be used.
    EmptyResponse,
    /// The stream ended before the answer did.
    StreamInterrupted,
    /// The answer could not be read.
    Decode,
    /// Any other HTTP status.
    Status,
    /// A scripted model ran out of turns, or its expectation was not met.
    Script,
    /// None of the above.
    Unclassified,
    /// We stopped it.
    Cancelled,
}

/// An error of a model request.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What is done about it.
    pub class: ErrorClass,
    /// One sentence, without secrets or payloads.
    pub message: String,
    /// HTTP status.
    pub status: Option<u16>,
    /// The server's own wish for a pause.
    pub retry_after: Option<Duration>,
    /// Request id of the server.
    pub request_id: Option<Box<str>>,
    /// The beginning of the body, at most 2 KiB, redacted.
    pub body: Option<Box<str>>,
    /// Lane and turn of a script.
    pub script: Option<(String, usize)>,
}

impl ProviderError {
    /// An error of a class.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            status: None,
            retry_after: None,
            request_id: None,
            body: None,
            script: None,
        }
    }

    /// True where the same request may be sent again.
    pub fn retryable(&self) -> bool {
        match self.class {
            ErrorClass::Connection
            | ErrorClass::Timeout
            | ErrorClass::RateLimit
            | ErrorClass::Overloaded
            | ErrorClass::EmptyResponse
            | ErrorClass::StreamInterrupted
            | ErrorClass::Decode
            | ErrorClass::Unclassified => true,
            ErrorClass::QuotaExhausted
            | ErrorClass::Auth
            | ErrorClass::ContextOverflow
            | ErrorClass::RequestTooLarge
            | ErrorClass::ImageRejected
            | ErrorClass::BadStructure
            | ErrorClass::Filtered
            | ErrorClass::Status
            | ErrorClass::Script
            | ErrorClass::Cancelled => false,
        }
    }

    /// The kind hosts see.
    pub fn kind(&self) -> ErrorKind {
        match self.class {
            ErrorClass::Connection | ErrorClass::Timeout => ErrorKind::ConnectionError,
            ErrorClass::RateLimit => ErrorKind::RateLimited,
            ErrorClass::QuotaExhausted => ErrorKind::QuotaExhausted,
            ErrorClass::Overloaded => ErrorKind::Overloaded,
            ErrorClass::Auth => ErrorKind::AuthRequired,
            ErrorClass::ContextOverflow => ErrorKind::ContextOverflow,
            ErrorClass::RequestTooLarge => ErrorKind::RequestTooLarge,
            ErrorClass::Filtered => ErrorKind::Filtered,
            ErrorClass::EmptyResponse => ErrorKind::EmptyResponse,
            ErrorClass::StreamInterrupted => ErrorKind::StreamInterrupted,
            ErrorClass::Script => ErrorKind::ScriptError,
            ErrorClass::Cancelled => ErrorKind::RequestCancelled,
            ErrorClass::ImageRejected
            | ErrorClass::BadStructure
            | ErrorClass::Decode
            | ErrorClass::Status
            | ErrorClass::Unclassified => ErrorKind::ProviderError,
        }
    }

    /// The fault a turn fails with.
    pub fn into_fault(self) -> Fault {
        let mut fault = Fault::new(self.kind(), self.message.clone());
        if let Some(status) = self.status {
            fault = fault.with("status", status);
        }
        if let Some(body) = &self.body {
            fault = fault.with("body", &**body);
        }
        if let Some(id) = &self.request_id {
            fault = fault.with("requestId", &**id);
        }
        if let Some((lane, turn)) = &self.script {
            fault = fault.with("lane", lane.clone()).with("turn", *turn);
        }
        fault.caused_by(self)
    }
}
