//! Sends a request and follows its response, however the server frames it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use longshore_protocol::value::turn::FinishReason;
use longshore_protocol::value::usage::Usage;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::{Map, Value};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Endpoint;
use super::delta::DeltaReader;
use super::fail::{cancelled, chain, cut, hinted, host, refusal, transport};
use super::request;
use crate::http::sse::{SseEvent, SseParser};
use crate::kernel::limits::{RESPONSE_BODY_BYTES, SSE_EVENT_BYTES};
use crate::provider::classify::{Answer, classify, request_id};
use crate::provider::error::{ErrorClass, ProviderError};
use crate::provider::estimate::{self, Tally};
use crate::provider::{Delta, DeltaStream, ModelRequest};

/// Once the answer's end was seen, what may follow it (usage, the end mark) is waited for this long at most.
pub(super) const TAIL_TIMEOUT: Duration = Duration::from_secs(10);
/// After the end mark, the end of the body is waited for this long. Whoever reads on until the stream's end waits for it,
/// the last delta does not.
const LINGER: Duration = Duration::from_millis(20);

/// Sends a request. Ends when the response has begun well.
pub(super) async fn open(
    endpoint: Arc<Endpoint>,
    request: ModelRequest,
    cancel: CancellationToken,
) -> Result<DeltaStream, ProviderError> {
    if cancel.is_cancelled() {
        return Err(cancelled());
    }
    let body = request::body(&endpoint, &request).map_err(|error| {
        ProviderError::new(
            ErrorClass::Status,
            format!("the request cannot be written: {error}"),
        )
    })?;
    let client = endpoint
        .http
        .client(&endpoint.url, endpoint.connect_timeout)
        .map_err(|error| ProviderError::new(ErrorClass::Connection, chain(&error)))?;
    let sent = client
        .post(endpoint.url.clone())
        .headers(endpoint.headers.clone())
        .body(body.json)
        .send();
    let response = match cancel
        .run_until_cancelled(within(endpoint.headers_timeout, sent))
        .await
    {
        None => return Err(cancelled()),
        Some(None) => {
            let waited = endpoint.headers_timeout;
            return Err(ProviderError::new(
                ErrorClass::Timeout,
                format!("{} did not answer within {waited:?}", host(&endpoint)),
            ));
        }
        Some(Some(Err(error))) => return Err(transport(&endpoint, &error)),
        Some(Some(Ok(response))) => response,
    };
    let status = response.status().as_u16();
    let request_id = request_id(response.headers());
    tracing::debug!(
        model = endpoint.model.model,
        attempt = request.attempt,
        status,
        request_id,
        "the provider answers"
    );
    if !response.status().is_success() {
        return match cancel
            .run_until_cancelled(refusal(&endpoint, response))
            .await
        {
            None => Err(cancelled()),
            Some(error) => Err(error),
        };
    }
    let headers = response.headers().clone();
    let mime = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_ascii_lowercase();
    let framing = if mime.starts_with("application/json") {
        Framing::Whole(Vec::new())
    } else {
        Framing::Events
    };
    let following = Following {
        reader: DeltaReader::new(endpoint.dialect()),
        parser: SseParser::new(SSE_EVENT_BYTES),
        framing,
        is_page: mime.starts_with("text/html"),
        body: response.bytes_stream().boxed(),
        headers,
        request_id,
        out: VecDeque::new(),
        usage: None,
        finish: None,
        ended: false,
        state: State::Reading,
        failure: None,
        output: Tally::default(),
        max_output: body.max_output,
        request,
        endpoint,
        cancel,
    };
    Ok(
        stream::unfold(Box::new(following), |mut following| async move {
            following.next().await.map(|item| (item, following))
        })
        .boxed(),
    )
}

/// How the body is read.
enum Framing {
    /// As events, or as lines of JSON.
    Events,
    /// As one JSON document, though a stream was asked for.
    Whole(Vec<u8>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// What is left in `out` is the end.
    Closing,
    Over,
}

struct Following {
    endpoint: Arc<Endpoint>,
    request: ModelRequest,
    cancel: CancellationToken,
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    headers: HeaderMap,
    request_id: Option<String>,
    framing: Framing,
    is_page: bool,
    parser: SseParser,
    reader: DeltaReader,
    out: VecDeque<Delta>,
    usage: Option<Usage>,
    finish: Option<(FinishReason, String)>,
    /// The end mark was seen.
    ended: bool,
    state: State,
    failure: Option<ProviderError>,
    output: Tally,
    max_output: Option<u64>,
}

impl Following {
    async fn next(&mut self) -> Option<Result<Delta, ProviderError>> {
        loop {
            if self.state != State::Over && self.cancel.is_cancelled() {
                return Some(Err(self.fail(cancelled())));
            }
            if let Some(delta) = self.out.pop_front() {
                return Some(Ok(delta));
            }
            match self.state {
                State::Over => return None,
                State::Closing => {
                    self.state = State::Over;
                    if self.ended && self.failure.is_none() {
                        // The connection can be used again only once its end was read, which mostly is close behind.
                        let _ = timeout(LINGER, self.body.next()).await;
                    }
                    return self.failure.take().map(|error| Err(self.fail(error)));
                }
                State::Reading => {}
            }
            if let Err(error) = self.read().await {
                // What was read before the error comes before it.
                self.failure = Some(error);
                self.state = State::Closing;
            }
        }
    }

    fn fail(&mut self, mut error: ProviderError) -> ProviderError {
        self.state = State::Over;
        self.body = stream::empty().boxed();
        if error.request_id.is_none() {
            error.request_id = self.request_id.as_deref().map(Into::into);
        }
        error
    }

    /// Waits for more of the body and reads it.
    async fn read(&mut self) -> Result<(), ProviderError> {
        let idle = self.endpoint.idle_timeout;
        let wait = match &self.finish {
            Some(_) if idle.is_zero() => TAIL_TIMEOUT,
            Some(_) => idle.min(TAIL_TIMEOUT),
            None => idle,
        };
        let piece = match self
            .cancel
            .run_until_cancelled(within(wait, self.body.next()))
            .await
        {
            None => return Err(cancelled()),
            Some(None) if self.finish.is_some() => return self.close(),
            Some(None) => {
                let who = host(&self.endpoint);
                return Err(ProviderError::new(
                    ErrorClass::Timeout,
                    format!("{who} sent nothing for {idle:?}"),
                ));
            }
            Some(Some(piece)) => piece,
        };
        match piece {
            Some(Ok(bytes)) => {
                self.take(&bytes)?;
                if self.ended {
                    return self.close();
                }
                Ok(())
            }
            None => {
                self.end_of_body()?;
                self.close()
            }
            Some(Err(_)) if self.finish.is_some() => self.close(),
            Some(Err(error)) => Err(cut(&self.endpoint, &error)),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), ProviderError> {
        match &mut self.framing {
            Framing::Whole(held) => {
                if held.len() + bytes.len() > RESPONSE_BODY_BYTES {
                    return Err(ProviderError::new(
                        ErrorClass::Decode,
                        format!("the answer is larger than {RESPONSE_BODY_BYTES} bytes"),
                    ));
                }
                held.extend_from_slice(bytes);
                Ok(())
            }
            Framing::Events => {
                let mut events = Vec::new();
                let pushed = self.parser.push(bytes, &mut events);
                self.events(events)?;
                pushed.map_err(|error| ProviderError::new(ErrorClass::Decode, error.to_string()))
            }
        }
    }

    fn end_of_body(&mut self) -> Result<(), ProviderError> {
        let mut events = Vec::new();
        if let Framing::Whole(held) = &mut self.framing {
            let held = std::mem::take(held);
            if let Ok(Value::Object(answer)) = serde_json::from_slice(&held) {
                self.ended = answer.contains_key("choices");
                let text = String::from_utf8_lossy(&held).into_owned();
                return self.chunk(answer, &text);
            }
            let pushed = self.parser.push(&held, &mut events);
            pushed.map_err(|error| ProviderError::new(ErrorClass::Decode, error.to_string()))?;
        }
        self.parser.finish(&mut events);
        self.events(events)
    }

    fn events(&mut self, events: Vec<SseEvent>) -> Result<(), ProviderError> {
        for SseEvent { name, data } in events {
            let text = data.trim();
            if self.ended || text.is_empty() {
                continue;
            }
            if text == "[DONE]" {
                self.ended = true;
                continue;
            }
            if name == "error" {
                return Err(self.reported(text));
            }
            match serde_json::from_str::<Map<String, Value>>(text) {
                Ok(chunk) => self.chunk(chunk, text)?,
                Err(error) => {
                    return Err(ProviderError::new(
                        ErrorClass::Decode,
                        format!("an event of the answer cannot be read: {error}"),
                    ));
                }
            }
        }
        Ok(())
    }

    fn chunk(&mut self, mut chunk: Map<String, Value>, text: &str) -> Result<(), ProviderError> {
        let is_error = |name: &str| chunk.get(name).and_then(Value::as_str) == Some("error");
        if chunk.get("error").is_some_and(|error| !error.is_null())
            || (!chunk.contains_key("choices")
                && (is_error("object") || is_error("type") || chunk.contains_key("detail")))
        {
            return Err(self.reported(text));
        }
        self.usage(chunk.get("usage"));
        let Some(Value::Array(choices)) = chunk.get_mut("choices") else {
            return Ok(());
        };
        let first = choices
            .iter_mut()
            .find(|choice| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0);
        let Some(Value::Object(choice)) = first.map(Value::take) else {
            return Ok(());
        };
        let mut choice = choice;
        self.usage(choice.get("usage"));
        let delta = match (choice.remove("delta"), choice.remove("message")) {
            (Some(Value::Object(delta)), _) => Some(delta),
            (_, Some(Value::Object(message))) => Some(message),
            _ => None,
        };
        if let Some(delta) = delta {
            let mut out = Vec::new();
            self.reader.read(delta, &mut out);
            self.emit(out);
            if let Some(key) = self.reader.reasoning_key() {
                self.endpoint.saw_reasoning_key(key);
            }
        }
        if let Some(Value::String(raw)) = choice.remove("finish_reason")
            && !raw.is_empty()
        {
            self.finish = Some((meaning(&raw), raw));
        }
        Ok(())
    }

    fn emit(&mut self, deltas: Vec<Delta>) {
        for delta in &deltas {
            match delta {
                Delta::Text(text)
                | Delta::Thinking { text, .. }
                | Delta::CallArguments { text, .. }
                | Delta::CallStarted { name: text, .. } => self.output.add(text),
                Delta::CallReplaced { .. } | Delta::Usage(_) | Delta::Finished { .. } => {}
            }
        }
        self.out.extend(deltas);
    }

    fn usage(&mut self, value: Option<&Value>) {
        if let Some(usage) = value.and_then(read_usage) {
            self.usage = Some(usage);
        }
    }

    fn reported(&self, text: &str) -> ProviderError {
        let answer = Answer {
            status: None,
            headers: &self.headers,
            body: text,
            secrets: &self.endpoint.secrets,
            now: self.endpoint.http.now(),
        };
        hinted(&self.endpoint, classify(&answer))
    }

    /// The response has ended: well, if its end mark or a finish reason was seen.
    fn close(&mut self) -> Result<(), ProviderError> {
        let mut out = Vec::new();
        self.reader.flush(&mut out);
        self.emit(out);
        let unfinished = self.reader.slots.any_unfinished();
        if self.finish.is_none() && (!self.ended || unfinished) {
            return Err(if self.is_page {
                ProviderError::new(
                    ErrorClass::Decode,
                    format!(
                        "{} answered with a web page: check base_url",
                        host(&self.endpoint)
                    ),
                )
            } else {
                ProviderError::new(
                    ErrorClass::StreamInterrupted,
                    format!(
                        "the answer of {} broke off before its end",
                        host(&self.endpoint)
                    ),
                )
            });
        }
        let usage = self.usage.unwrap_or_else(|| {
            estimate::usage(estimate::request(&self.request), self.output.tokens())
        });
        let (said, raw) = match self.finish.take() {
            Some((said, raw)) => (said, Some(raw)),
            None => (FinishReason::Completed, None),
        };
        let at_cap = !usage.estimated && self.max_output.is_some_and(|max| usage.output >= max);
        let finish = match said {
            FinishReason::ToolCalls | FinishReason::Completed if unfinished && at_cap => {
                FinishReason::Truncated
            }
            FinishReason::Completed if self.reader.refused() => FinishReason::Filtered,
            FinishReason::Completed if self.reader.slots.any_started() => FinishReason::ToolCalls,
            other => other,
        };
        tracing::debug!(
            model = self.endpoint.model.model,
            input = usage.input(),
            output = usage.output,
            n_orphans = self.reader.slots.n_orphans(),
            request_id = self.request_id,
            "the answer is whole"
        );
        self.out.push_back(Delta::Usage(usage));
        self.out.push_back(Delta::Finished { finish, raw });
        self.state = State::Closing;
        Ok(())
    }
}

/// What a finish reason means.
fn meaning(raw: &str) -> FinishReason {
    match raw {
        "stop" | "eos" | "end_turn" => FinishReason::Completed,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "length" | "max_tokens" => FinishReason::Truncated,
        "content_filter" => FinishReason::Filtered,
        _ => FinishReason::Other,
    }
}

/// Tokens in any of the shapes servers use. `None` where nothing was counted.
fn read_usage(value: &Value) -> Option<Usage> {
    let count = |path: &[&str]| {
        let found = path
            .iter()
            .try_fold(value, |value, name| value.get(*name))?;
        found
            .as_u64()
            .or_else(|| found.as_f64().map(|number| number.max(0.0) as u64))
    };
    let input = count(&["prompt_tokens"]).or_else(|| count(&["input_tokens"]));
    let output = count(&["completion_tokens"]).or_else(|| count(&["output_tokens"]));
    if input.is_none() && output.is_none() {
        return None;
    }
    let cached = count(&["prompt_tokens_details", "cached_tokens"])
        .or_else(|| count(&["cached_tokens"]))
        .or_else(|| count(&["prompt_cache_hit_tokens"]))
        .unwrap_or(0)
        .min(input.unwrap_or(0));
    Some(Usage {
        input_other: input.unwrap_or(0) - cached,
        input_cache_read: cached,
        input_cache_creation: 0,
        output: output.unwrap_or(0),
        reasoning: count(&["completion_tokens_details", "reasoning_tokens"]),
        estimated: false,
    })
}

/// `None` where the time is over; a zero limit is off.
pub(super) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    if limit.is_zero() {
        Some(work.await)
    } else {
        timeout(limit, work).await.ok()
    }
}
