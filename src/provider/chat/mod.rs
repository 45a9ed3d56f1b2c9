//! OpenAI Chat Completions, streaming, at any base URL.
//!
//! `request` turns a conversation into a body, `delta` reads what comes back whatever the server's dialect, `stream`
//! follows the response. The only state is the field in which the endpoint was seen to send thinking, so that it gets
//! its thinking back under the same name.

pub(crate) mod delta;
mod fail;
mod ids;
mod request;
mod stream;
mod think;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use longshore_protocol::value::model::ModelInfo;
use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use self::delta::Dialect;
use super::error::ProviderError;
use super::slots::Repetition;
use super::{DeltaStream, ModelClient, ModelRequest};
use crate::config::values::{ModelConfig, ProviderConfig};
use crate::http::Http;

/// Where the wire is by default.
const DEFAULT_BASE: &str = "https://api.openai.com/v1";

/// A model behind a Chat Completions endpoint.
pub struct ChatClient {
    info: ModelInfo,
    endpoint: Arc<Endpoint>,
}

/// Everything a request needs besides the conversation.
struct Endpoint {
    url: Url,
    headers: HeaderMap,
    secrets: Vec<SecretString>,
    model: ModelConfig,
    extra_body: Map<String, Value>,
    compat: Compat,
    connect_timeout: Duration,
    headers_timeout: Duration,
    idle_timeout: Duration,
    http: Arc<Http>,
    /// The field in which thinking came.
    seen_reasoning_key: Mutex<Option<&'static str>>,
}

/// Quirks of a server, as its provider entry names them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Compat {
    /// Ask for usage in the stream; true where absent.
    stream_usage: Option<bool>,
    /// Sent where given.
    parallel_tool_calls: Option<bool>,
    /// The system prompt's role is `developer`.
    developer_role: bool,
    /// The system prompt goes before the first user message's text.
    system_in_user: bool,
    /// The name of the output limit.
    max_tokens_field: Option<String>,
    /// The field of thinking.
    reasoning_key: Option<String>,
    /// Members that the server does not take.
    drop_params: Vec<String>,
    /// Each piece of arguments holds all of them so far.
    cumulative_args: bool,
}

impl ChatClient {
    /// A client for a model entry.
    ///
    /// # Errors
    /// What is wrong with the provider entry, in words.
    pub(super) fn new(
        info: ModelInfo,
        provider: &ProviderConfig,
        model: &ModelConfig,
        http: Arc<Http>,
    ) -> Result<Self, String> {
        let url = url(provider)?;
        let (headers, secrets) = headers(provider)?;
        let mut extra_body = provider.extra_body.clone();
        request::merge(&mut extra_body, &model.extra_body);
        let endpoint = Endpoint {
            url,
            headers,
            secrets,
            extra_body,
            compat: Compat::read(&provider.compat)?,
            model: model.clone(),
            connect_timeout: provider.connect_timeout,
            headers_timeout: provider.headers_timeout,
            idle_timeout: provider.idle_timeout,
            http,
            seen_reasoning_key: Mutex::default(),
        };
        Ok(Self {
            info,
            endpoint: Arc::new(endpoint),
        })
    }
}

impl ModelClient for ChatClient {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(
        &self,
        request: ModelRequest,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<DeltaStream, ProviderError>> {
        stream::open(self.endpoint.clone(), request, cancel).boxed()
    }
}

impl Endpoint {
    fn dialect(&self) -> Dialect {
        Dialect {
            repetition: if self.compat.cumulative_args {
                Repetition::Cumulative
            } else {
                Repetition::Pieces
            },
            inline_think: self.model.inline_think,
        }
    }

    /// The field for thinking: as configured, as seen, or none known.
    fn reasoning_key(&self) -> Option<String> {
        let pinned = [&self.model.reasoning_key, &self.compat.reasoning_key]
            .into_iter()
            .flatten()
            .find(|key| !key.trim().is_empty());
        pinned.cloned().or_else(|| {
            let seen = *self
                .seen_reasoning_key
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            seen.map(str::to_owned)
        })
    }

    fn saw_reasoning_key(&self, key: &'static str) {
        *self
            .seen_reasoning_key
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(key);
    }

    /// Whether the host is this one or below it.
    fn is_at(&self, domain: &str) -> bool {
        self.url.host_str().is_some_and(|host| {
            host == domain
                || host
                    .strip_suffix(domain)
                    .is_some_and(|rest| rest.ends_with('.'))
        })
    }
}

impl Compat {
    fn read(members: &Map<String, Value>) -> Result<Self, String> {
        let mut compat = Self::default();
        for (name, value) in members {
            let wrong = |wanted: &str| format!("compat.{name} should be {wanted}");
            let flag = || value.as_bool().ok_or_else(|| wrong("true or false"));
            let text = || {
                value
                    .as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| wrong("text"))
            };
            match name.as_str() {
                "stream_usage" => compat.stream_usage = Some(flag()?),
                "parallel_tool_calls" => compat.parallel_tool_calls = Some(flag()?),
                "developer_role" => compat.developer_role = flag()?,
                "system_in_user" => compat.system_in_user = flag()?,
                "cumulative_args" => compat.cumulative_args = flag()?,
                "max_tokens_field" => compat.max_tokens_field = Some(text()?),
                "reasoning_key" => compat.reasoning_key = Some(text()?),
                "drop_params" => {
                    let items = value.as_array().ok_or_else(|| wrong("a list of names"))?;
                    compat.drop_params = items
                        .iter()
                        .map(|item| {
                            item.as_str()
                                .map(str::to_owned)
                                .ok_or_else(|| wrong("a list of names"))
                        })
                        .collect::<Result<_, _>>()?;
                }
                _ => return Err(format!("compat.{name} is not known")),
            }
        }
        Ok(compat)
    }
}

fn url(provider: &ProviderConfig) -> Result<Url, String> {
    const PATH: &str = "/chat/completions";
    let base = provider.base_url.as_deref().unwrap_or(DEFAULT_BASE);
    let mut url =
        Url::parse(base).map_err(|error| format!("base_url {base:?} is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!(
            "base_url {base:?} should begin with http:// or https://"
        ));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&if path.ends_with(PATH) {
        path
    } else {
        path + PATH
    });
    if !provider.query.is_empty() {
        url.query_pairs_mut().extend_pairs(&provider.query);
    }
    Ok(url)
}

fn headers(provider: &ProviderConfig) -> Result<(HeaderMap, Vec<SecretString>), String> {
    let mut headers = HeaderMap::new();
    let mut secrets = Vec::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let secret = |text: &str, what: &str| {
        let mut value = HeaderValue::from_str(text)
            .map_err(|_| format!("{what} has characters no header can hold"))?;
        value.set_sensitive(true);
        Ok::<_, String>(value)
    };
    if let Some(key) = &provider.api_key {
        let key = key.as_ref().map_err(|why| format!("api_key: {why}"))?;
        let text = key.expose_secret().trim();
        if !text.is_empty() {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {text}"), "api_key")?);
            secrets.push(text.to_owned().into());
        }
    }
    for (name, value) in &provider.headers {
        let value = value
            .as_ref()
            .map_err(|why| format!("header {name}: {why}"))?;
        let text = value.expose_secret();
        if text.is_empty() {
            continue;
        }
        let header: HeaderName = name
            .parse()
            .map_err(|_| format!("header {name:?} has no valid name"))?;
        headers.insert(header, secret(text, &format!("header {name}"))?);
        secrets.push(text.to_owned().into());
    }
    Ok((headers, secrets))
}

#[cfg(test)]
mod fake;
#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
