//! What an error answer means.
//!
//! Order: structured code or type, then status, then wording. The body is unwrapped first, since gateways wrap the error
//! of another server in text, lists and envelopes of their own.

use reqwest::header::HeaderMap;
use secrecy::SecretString;
use serde_json::Value;

use super::delay::server_delay;
use super::error::{ErrorClass, ProviderError};
use super::redact::excerpt;
use crate::kernel::limits::ERROR_BODY_BYTES;
use crate::kernel::time::Timestamp;

/// A server's message is quoted up to this many bytes.
const MESSAGE_BYTES: usize = 400;
/// Envelopes within envelopes are opened this deep.
const MAX_UNWRAP: u32 = 6;

/// An error answer.
pub(crate) struct Answer<'a> {
    /// HTTP status; `None` where the error came in a stream that had begun well.
    pub(crate) status: Option<u16>,
    /// The response's headers.
    pub(crate) headers: &'a HeaderMap,
    /// The body, or the error event's data.
    pub(crate) body: &'a str,
    /// Secrets that must not be shown.
    pub(crate) secrets: &'a [SecretString],
    /// The time, for servers that name an instant.
    pub(crate) now: Timestamp,
}

/// Names the error's class and everything known about it.
pub(crate) fn classify(answer: &Answer<'_>) -> ProviderError {
    let detail = Detail::read(answer.body);
    let status = answer
        .status
        .filter(|status| *status >= 400)
        .or(detail.status);
    let said = detail.message.as_deref().unwrap_or_default();
    let class = class(status, &detail, &said.to_ascii_lowercase());
    let quoted = excerpt(said.trim(), answer.secrets, MESSAGE_BYTES);
    let head = match status {
        Some(status) => format!("the provider answered {status}"),
        None => "the provider reported an error".to_owned(),
    };
    let mut error = ProviderError::new(
        class,
        if quoted.is_empty() {
            head
        } else {
            format!("{head}: {quoted}")
        },
    );
    error.status = status;
    error.retry_after = server_delay(
        answer.headers,
        detail.retry_delay.as_deref(),
        said,
        answer.now,
    );
    error.request_id = request_id(answer.headers).map(Into::into);
    error.body = Some(excerpt(
        answer.body.trim(),
        answer.secrets,
        ERROR_BODY_BYTES,
    ))
    .filter(|body| !body.is_empty())
    .map(Into::into);
    error
}

/// The id by which the server's operators find the request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    ["x-request-id", "request-id", "x-trace-id"]
        .iter()
        .find_map(|name| headers.get(*name)?.to_str().ok())
        .map(|id| excerpt(id, &[], 200))
}

/// What an error body says, whatever its shape.
#[derive(Debug, Default, PartialEq, Eq)]
struct Detail {
    message: Option<String>,
    code: Option<String>,
    kind: Option<String>,
    status: Option<u16>,
    retry_delay: Option<String>,
    /// A Google quota that does not come back soon.
    exhausted: bool,
}

impl Detail {
    fn read(body: &str) -> Self {
        let mut detail = Self::default();
        detail.text(body, MAX_UNWRAP);
        detail
    }

    fn text(&mut self, text: &str, depth: u32) {
        let text = text.trim();
        if text.is_empty() || depth == 0 {
            return;
        }
        // A gateway's prefix may stand before the JSON of the server behind it.
        let json = text.find(['{', '[']).and_then(|at| {
            let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
            values
                .next()?
                .ok()
                .filter(|value| value.is_object() || at == 0)
        });
        if let Some(value) = json {
            self.value(&value, depth - 1);
        }
        if self.status.is_none() {
            self.status = embedded_status(text);
        }
        if self.message.is_none() {
            self.message = Some(if text.starts_with('<') {
                page_title(text)
            } else {
                text.to_owned()
            });
        }
    }

    fn value(&mut self, value: &Value, depth: u32) {
        if depth == 0 {
            return;
        }
        match value {
            Value::String(text) => self.text(text, depth),
            Value::Array(items) => {
                if let Some(first) = items.first() {
                    self.value(first, depth - 1);
                }
            }
            Value::Object(members) => {
                if let Some(inner) = members
                    .get("error")
                    .filter(|inner| inner.is_object() || inner.is_string())
                {
                    self.value(inner, depth - 1);
                }
                for inner in ["message", "detail", "msg"]
                    .iter()
                    .filter_map(|name| members.get(*name))
                {
                    if self.message.is_none() {
                        self.value(inner, depth - 1);
                    }
                }
                match members.get("code") {
                    Some(Value::Number(code)) => self.take_status(code.as_u64()),
                    Some(Value::String(code)) => match code.parse::<u64>() {
                        Ok(number) => self.take_status(Some(number)),
                        Err(_) => {
                            self.code =
                                self.code.take().or_else(|| Some(code.to_ascii_lowercase()));
                        }
                    },
                    _ => {}
                }
                match members.get("status") {
                    Some(Value::Number(status)) => self.take_status(status.as_u64()),
                    Some(Value::String(status)) if self.code.is_none() => {
                        self.code = Some(status.to_ascii_lowercase());
                    }
                    _ => {}
                }
                self.take_status(members.get("status_code").and_then(Value::as_u64));
                if let Some(kind) = members.get("type").and_then(Value::as_str)
                    && self.kind.is_none()
                {
                    self.kind = Some(kind.to_ascii_lowercase());
                }
                self.google(members.get("details"));
            }
            _ => {}
        }
    }

    fn take_status(&mut self, number: Option<u64>) {
        if self.status.is_none() {
            self.status = number
                .and_then(|number| u16::try_from(number).ok())
                .filter(|n| (400..600).contains(n));
        }
    }

    fn google(&mut self, details: Option<&Value>) {
        for detail in details.and_then(Value::as_array).into_iter().flatten() {
            if let Some(delay) = detail.get("retryDelay").and_then(Value::as_str) {
                self.retry_delay = Some(delay.to_owned());
            }
            for violation in detail
                .get("violations")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let daily = violation
                    .get("quotaId")
                    .and_then(Value::as_str)
                    .is_some_and(|id| id.contains("PerDay"));
                let none = violation.get("quotaValue").and_then(Value::as_str) == Some("0");
                self.exhausted |= daily || none;
            }
        }
    }
}

fn class(status: Option<u16>, detail: &Detail, said: &str) -> ErrorClass {
    if detail.exhausted {
        return ErrorClass::QuotaExhausted;
    }
    for word in [&detail.code, &detail.kind].into_iter().flatten() {
        if let Some(class) = by_code(word) {
            return class;
        }
    }
    match status {
        Some(401 | 403) => ErrorClass::Auth,
        Some(402) => ErrorClass::QuotaExhausted,
        Some(429) if names(said, &QUOTA) => ErrorClass::QuotaExhausted,
        Some(429) => ErrorClass::RateLimit,
        // Some local servers report a prompt that does not fit as their own failure.
        Some(400 | 413 | 422 | 500) if is_overflow(said) => ErrorClass::ContextOverflow,
        Some(413) if names(said, &BODY_SIZE) => ErrorClass::RequestTooLarge,
        Some(408 | 409 | 500..=599) => ErrorClass::Overloaded,
        Some(400 | 422) if is_image(said) => ErrorClass::ImageRejected,
        Some(400 | 422) if names(said, &STRUCTURE) => ErrorClass::BadStructure,
        Some(_) => ErrorClass::Status,
        None if is_overflow(said) => ErrorClass::ContextOverflow,
        None if names(said, &QUOTA) => ErrorClass::QuotaExhausted,
        None if names(said, &RATE) => ErrorClass::RateLimit,
        None if names(said, &BUSY) => ErrorClass::Overloaded,
        None => ErrorClass::Unclassified,
    }
}

fn by_code(code: &str) -> Option<ErrorClass> {
    Some(match code {
        "context_length_exceeded"
        | "context_window_exceeded"
        | "model_context_window_exceeded"
        | "exceed_context_size_error" => ErrorClass::ContextOverflow,
        "insufficient_quota"
        | "exceeded_current_quota_error"
        | "quota_exceeded"
        | "insufficient_balance"
        | "billing_hard_limit_reached"
        | "billing_not_active" => ErrorClass::QuotaExhausted,
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "rate_limit_reached_error"
        | "too_many_requests"
        | "resource_exhausted" => ErrorClass::RateLimit,
        "overloaded_error"
        | "engine_overloaded_error"
        | "server_error"
        | "internal_server_error"
        | "internal_error"
        | "service_unavailable"
        | "unavailable_error"
        | "unavailable" => ErrorClass::Overloaded,
        "authentication_error"
        | "invalid_authentication_error"
        | "invalid_api_key"
        | "permission_error"
        | "permission_denied"
        | "unauthenticated" => ErrorClass::Auth,
        "request_too_large" => ErrorClass::RequestTooLarge,
        "content_filter" | "content_policy_violation" => ErrorClass::Filtered,
        "invalid_image" | "invalid_image_format" | "image_parse_error" => ErrorClass::ImageRejected,
        _ => return None,
    })
}

const QUOTA: [&str; 8] = [
    "insufficient balance",
    "insufficient account balance",
    "insufficient_quota",
    "credit balance",
    "recharge",
    "arrears",
    "check your plan and billing",
    "out of credits",
];
const RATE: [&str; 3] = ["rate limit", "rate_limit", "too many requests"];
const BUSY: [&str; 4] = [
    "overloaded",
    "server is busy",
    "temporarily unavailable",
    "internal server error",
];
const BODY_SIZE: [&str; 6] = [
    "entity too large",
    "payload too large",
    "content too large",
    "body",
    "bytes",
    "request too large",
];
const STRUCTURE: [&str; 11] = [
    "tool_call_id",
    "tool_calls",
    "tool_use_id",
    "tool_result",
    "roles must alternate",
    "role must",
    "unexpected role",
    "must not be empty",
    "content is empty",
    "empty content",
    "duplicate id",
];
const OVERFLOW: [&str; 14] = [
    "context length",
    "context_length",
    "context window",
    "context size",
    "maximum context",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "too many tokens",
    "token limit",
    "maximum prompt length",
    "reduce the length of the messages",
    "exceeds the maximum number of tokens",
    "input token count",
];

fn names(said: &str, words: &[&str]) -> bool {
    words.iter().any(|word| said.contains(word))
}

fn is_overflow(said: &str) -> bool {
    names(said, &OVERFLOW)
}

/// The format or the data of an image, not how many or how large, and not another medium.
fn is_image(said: &str) -> bool {
    said.contains("image")
        && !names(
            said,
            &[
                "audio",
                "video",
                "too many",
                "too large",
                "dimension",
                "pixels",
                "exceed",
                "size",
            ],
        )
        && names(
            said,
            &[
                "decode",
                "format",
                "unsupported",
                "invalid",
                "corrupt",
                "could not",
                "process",
                "parse",
            ],
        )
}

/// `status_code=429`, `Error code: 429`, `HTTP 503`.
fn embedded_status(text: &str) -> Option<u16> {
    let lower = text.to_ascii_lowercase();
    [
        "status_code=",
        "status_code: ",
        "status code ",
        "status code: ",
        "error code: ",
        "http ",
    ]
    .iter()
    .find_map(|lead| {
        let rest = lower.get(lower.find(lead)? + lead.len()..)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits]
            .parse()
            .ok()
            .filter(|status| digits == 3 && (400..600).contains(status))
    })
}

fn page_title(html: &str) -> String {
    let lower = html.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|start| {
        let start = start + "<title>".len();
        let end = start + lower[start..].find("</title>")?;
        html.get(start..end)
    });
    title.map_or_else(
        || "a web page instead of an answer".to_owned(),
        |title| title.trim().to_owned(),
    )
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
