//! What is said about a request that failed.

use std::error::Error as _;

use futures::StreamExt as _;
use reqwest::Response;
use reqwest::header::LOCATION;

use super::Endpoint;
use super::stream::{TAIL_TIMEOUT, within};
use crate::provider::classify::{Answer, classify};
use crate::provider::error::{ErrorClass, ProviderError};

/// Any error's body is read this far.
const ERROR_READ_BYTES: usize = 256 << 10;

/// An answer that is no success.
pub(super) async fn refusal(endpoint: &Endpoint, response: Response) -> ProviderError {
    let status = response.status();
    let headers = response.headers().clone();
    if status.is_redirection() {
        let to = headers
            .get(LOCATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|to| endpoint.url.join(to).ok());
        let to = to.map_or_else(
            || "nowhere".to_owned(),
            |to| to.origin().ascii_serialization(),
        );
        let mut error = ProviderError::new(
            ErrorClass::Status,
            format!(
                "{} redirects to {to}: set base_url to where the endpoint is",
                host(endpoint)
            ),
        );
        error.status = Some(status.as_u16());
        return error;
    }
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    // The status says enough if the body does not come.
    while let Some(Some(Ok(piece))) =
        within(endpoint.idle_timeout.min(TAIL_TIMEOUT), pieces.next()).await
    {
        body.extend_from_slice(&piece);
        if body.len() > ERROR_READ_BYTES {
            break;
        }
    }
    let answer = Answer {
        status: Some(status.as_u16()),
        headers: &headers,
        body: &String::from_utf8_lossy(&body),
        secrets: &endpoint.secrets,
        now: endpoint.http.now(),
    };
    hinted(endpoint, classify(&answer))
}

/// Adds what the user can do about it.
pub(super) fn hinted(endpoint: &Endpoint, mut error: ProviderError) -> ProviderError {
    let said = error.message.to_ascii_lowercase();
    let efforts = &endpoint.model.support_efforts;
    if matches!(error.status, Some(400 | 422)) && said.contains("effort") && !efforts.is_empty() {
        let efforts = efforts.join(", ");
        error.message = format!("{} (this model takes the efforts {efforts})", error.message);
    }
    if matches!(error.status, Some(400 | 404 | 422 | 500)) && said.contains("support tool") {
        error.class = ErrorClass::Status;
        error.message.push_str(" (choose a model that takes tools)");
    }
    error
}

/// A request that did not get an answer.
pub(super) fn transport(endpoint: &Endpoint, error: &reqwest::Error) -> ProviderError {
    let who = host(endpoint);
    if error.is_timeout() {
        return ProviderError::new(
            ErrorClass::Timeout,
            format!(
                "no connection to {who} within {:?}",
                endpoint.connect_timeout
            ),
        );
    }
    let why = error
        .source()
        .map_or_else(|| "the request failed".to_owned(), root);
    ProviderError::new(ErrorClass::Connection, format!("cannot reach {who}: {why}"))
}

/// A body that broke off.
pub(super) fn cut(endpoint: &Endpoint, error: &reqwest::Error) -> ProviderError {
    let class = if error.is_timeout() {
        ErrorClass::Timeout
    } else if error.is_decode()
        && !error.is_body()
        && error
            .source()
            .is_some_and(|source| root(source).contains("gzip"))
    {
        ErrorClass::Decode
    } else {
        ErrorClass::StreamInterrupted
    };
    let why = error.source().map(root).unwrap_or_default();
    ProviderError::new(
        class,
        format!("the answer of {} broke off: {why}", host(endpoint)),
    )
}

pub(super) fn cancelled() -> ProviderError {
    ProviderError::new(ErrorClass::Cancelled, "the request was cancelled")
}

pub(super) fn host(endpoint: &Endpoint) -> String {
    let host = endpoint.url.host_str().unwrap_or_default();
    endpoint
        .url
        .port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The innermost reason: the outer ones only say that something failed.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut at = error;
    while let Some(source) = at.source() {
        at = source;
    }
    at.to_string()
}

pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(source) = at {
        text = format!("{text}: {source}");
        at = source.source();
    }
    text
}
