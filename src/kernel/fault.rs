//! The failure that crosses layers: a kind that hosts branch on, and a sentence that says what to do.

use std::error::Error;
use std::fmt;

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::failure::Failure;
use serde_json::{Map, Value};

/// Something could not be done. Faces turn it into their own error objects; a failed turn carries it in its end.
#[derive(Debug)]
pub struct Fault {
    /// What hosts branch on.
    pub kind: ErrorKind,
    /// One short sentence, without secrets or stack.
    pub message: String,
    /// Further typed members of the error's `data`.
    pub data: Map<String, Value>,
    /// What it came from, for the log.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl Fault {
    /// A fault of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            data: Map::new(),
            source: None,
        }
    }

    /// Adds a member to the error's `data`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.data.insert(name.to_owned(), value.into());
        self
    }

    /// Keeps what it came from.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same as a value that travels in events.
    pub fn to_failure(&self) -> Failure {
        Failure {
            kind: self.kind,
            message: self.message.clone(),
            retryable: self.kind.retryable(),
            status: self
                .data
                .get("status")
                .and_then(Value::as_u64)
                .map(|status| status as u16),
            retry_at: self
                .data
                .get("retryAt")
                .and_then(Value::as_str)
                .map(str::to_owned),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_str(), self.message)
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }
}
