//! Turns a conversation into the body of a Chat Completions request.

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::Endpoint;
use super::ids::WireIds;
use crate::kernel::message::{Message, ModelCall, Part};
use crate::provider::{ModelRequest, estimate};

/// More than this is refused by the strictest of the well-known endpoints.
const MAX_OUTPUT: u64 = 131_072;
/// A limit below this would only cut the answer; then none is sent and the provider says that the context is full.
const MIN_OUTPUT: u64 = 1024;
/// What endpoints call thinking where nothing else is known.
const REASONING_KEY: &str = "reasoning_content";

/// A request's body, and the output limit in it.
pub(super) struct Body {
    /// JSON.
    pub(super) json: Vec<u8>,
    /// Tokens the answer may have, where a limit was sent.
    pub(super) max_output: Option<u64>,
}

/// Writes a request.
pub(super) fn body(endpoint: &Endpoint, request: &ModelRequest) -> Result<Body, serde_json::Error> {
    let mut body = Map::new();
    let compat = &endpoint.compat;
    body.insert("model".into(), endpoint.model.model.clone().into());
    body.insert("messages".into(), Value::Array(messages(endpoint, request)));
    body.insert("stream".into(), true.into());
    if compat.stream_usage.unwrap_or(true) {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let function =
                json!({"name": &*tool.name, "description": &*tool.description, "parameters": &*tool.parameters});
            json!({"type": "function", "function": function})
        });
        body.insert("tools".into(), tools.collect());
        if let Some(parallel) = compat.parallel_tool_calls {
            body.insert("parallel_tool_calls".into(), parallel.into());
        }
    }
    let max_output = max_output(endpoint, request);
    let max_tokens_field = max_tokens_field(endpoint);
    if let Some(max) = max_output {
        body.insert(max_tokens_field.into(), max.into());
    }
    if let Some(temperature) = endpoint.model.temperature {
        body.insert("temperature".into(), temperature.into());
    }
    if let Some(top_p) = endpoint.model.top_p {
        body.insert("top_p".into(), top_p.into());
    }
    if let Some(effort) = effort(endpoint, request) {
        body.insert("reasoning_effort".into(), effort.into());
    }
    // Other servers need not know this member, and some refuse what they do not know.
    if endpoint.is_at("openai.com") || is_moonshot(endpoint) {
        body.insert("prompt_cache_key".into(), request.session.as_str().into());
    }
    for name in &compat.drop_params {
        body.remove(name);
    }
    merge(&mut body, &endpoint.extra_body);
    let max_output = body.get(max_tokens_field).and_then(Value::as_u64);
    Ok(Body {
        json: serde_json::to_vec(&body)?,
        max_output,
    })
}

/// Puts the members of one object into another, deeply; other values are replaced.
pub(super) fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (name, value) in from {
        match (into.get_mut(name), value) {
            (Some(Value::Object(held)), Value::Object(more)) => merge(held, more),
            _ => {
                into.insert(name.clone(), value.clone());
            }
        }
    }
}

fn max_tokens_field(endpoint: &Endpoint) -> &str {
    let model = endpoint.model.model.rsplit('/').next().unwrap_or_default();
    let reasons = model.starts_with("gpt-5")
        || (model.starts_with('o') && model[1..].starts_with(|c: char| c.is_ascii_digit()));
    match &endpoint.compat.max_tokens_field {
        Some(field) => field,
        None if reasons || is_moonshot(endpoint) => "max_completion_tokens",
        None => "max_tokens",
    }
}

fn max_output(endpoint: &Endpoint, request: &ModelRequest) -> Option<u64> {
    let cap = endpoint.model.max_output_size?.min(MAX_OUTPUT);
    if cap.saturating_mul(2) < endpoint.model.max_context_size && request.messages.len() < 8 {
        // Far from the window: a short conversation need not be counted unless it holds much.
        let bytes: usize = request.messages.iter().map(|message| size(message)).sum();
        if (bytes as u64) < endpoint.model.max_context_size / 2 {
            return Some(cap);
        }
    }
    let left = endpoint
        .model
        .max_context_size
        .saturating_sub(estimate::request(request));
    Some(cap.min(left)).filter(|max| *max >= MIN_OUTPUT.min(cap))
}

fn size(message: &Message) -> usize {
    let (Message::User { parts, .. }
    | Message::Assistant { parts, .. }
    | Message::ToolResult { parts, .. }) = message;
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.len(),
            Part::Thinking(thinking) => thinking.text.len(),
            Part::Image { data, .. } => data.len(),
        })
        .sum()
}

fn effort(endpoint: &Endpoint, request: &ModelRequest) -> Option<String> {
    let configured = request
        .effort
        .as_deref()
        .or(endpoint.model.default_effort.as_deref());
    match configured {
        Some("off" | "on") => None,
        Some(effort) => Some(effort.to_owned()),
        // Gateways want an effort once the conversation holds thinking.
        None => request
            .messages
            .iter()
            .any(|message| matches!(&**message, Message::Assistant { parts, .. } if has_thinking(parts)))
            .then(|| "medium".to_owned()),
    }
}

fn is_moonshot(endpoint: &Endpoint) -> bool {
    endpoint.is_at("moonshot.ai") || endpoint.is_at("moonshot.cn")
}

fn messages(endpoint: &Endpoint, request: &ModelRequest) -> Vec<Value> {
    let writer = Writer {
        ids: WireIds::of(&request.messages),
        reasoning_key: endpoint
            .reasoning_key()
            .or_else(|| (!endpoint.is_at("openai.com")).then(|| REASONING_KEY.to_owned())),
        needs_reasoning: is_moonshot(endpoint) && request.effort.as_deref() != Some("off"),
        takes_images: takes_images(&endpoint.model.capabilities),
    };
    let mut out = Vec::with_capacity(request.messages.len() + 1);
    let mut prefix = None;
    if !request.system.is_empty() {
        if endpoint.compat.system_in_user {
            prefix = Some(&*request.system);
        } else {
            let role = if endpoint.compat.developer_role {
                "developer"
            } else {
                "system"
            };
            out.push(json!({"role": role, "content": &*request.system}));
        }
    }
    // Images of a run of results wait here until the run has ended: no message may come between results.
    let mut images: Vec<Value> = Vec::new();
    for message in &request.messages {
        if !matches!(&**message, Message::ToolResult { .. }) {
            flush_images(&mut images, &mut out);
        }
        match &**message {
            Message::User { parts, .. } => {
                let mut content = writer.content(parts);
                if let Some(system) = prefix.take() {
                    content.insert(0, json!({"type": "text", "text": system}));
                }
                out.push(json!({"role": "user", "content": simple(content)}));
            }
            Message::Assistant { parts, calls, .. } => out.push(writer.assistant(parts, calls)),
            Message::ToolResult {
                call, parts, note, ..
            } => {
                let id = writer.ids.get(call);
                let (mut text, more) = writer.result(parts);
                if let Some(note) = note {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(note);
                }
                if !more.is_empty() {
                    images.push(
                        json!({"type": "text", "text": format!("Images of tool result {id}:")}),
                    );
                    images.extend(more);
                    if text.is_empty() {
                        text.push_str("The images follow.");
                    }
                }
                out.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
            }
        }
    }
    flush_images(&mut images, &mut out);
    if let Some(system) = prefix {
        out.insert(0, json!({"role": "user", "content": system}));
    }
    out
}

fn flush_images(images: &mut Vec<Value>, out: &mut Vec<Value>) {
    if !images.is_empty() {
        out.push(json!({"role": "user", "content": std::mem::take(images)}));
    }
}

/// A model that lists what it can do, and not this, cannot; one that lists nothing is unknown.
fn takes_images(capabilities: &[String]) -> bool {
    capabilities.is_empty() || capabilities.iter().any(|each| each == "image_in")
}

fn has_thinking(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::Thinking(_)))
}

struct Writer {
    ids: WireIds,
    reasoning_key: Option<String>,
    needs_reasoning: bool,
    takes_images: bool,
}

impl Writer {
    fn content(&self, parts: &[Part]) -> Vec<Value> {
        parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(json!({"type": "text", "text": &**text})),
                Part::Thinking(_) => None,
                Part::Image { mime, data } => Some(self.image(mime, data)),
            })
            .collect()
    }

    fn image(&self, mime: &str, data: &str) -> Value {
        if self.takes_images {
            json!({"type": "image_url", "image_url": {"url": format!("data:{mime};base64,{data}")}})
        } else {
            json!({"type": "text", "text": format!("[an image ({mime}) that this model cannot see]")})
        }
    }

    fn result(&self, parts: &[Part]) -> (String, Vec<Value>) {
        let mut text = String::new();
        let mut images = Vec::new();
        for part in self.content(parts) {
            match part.get("text").and_then(Value::as_str) {
                Some(more) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(more);
                }
                None => images.push(part),
            }
        }
        (text, images)
    }

    fn assistant(&self, parts: &[Part], calls: &[ModelCall]) -> Value {
        let text: String = parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(&**text),
                _ => None,
            })
            .collect();
        let content = if calls.is_empty() || !text.trim().is_empty() {
            Value::String(text)
        } else {
            Value::Null
        };
        let mut message = json!({"role": "assistant", "content": content});
        if let Some(key) = &self.reasoning_key {
            self.reasoning(key, parts, !calls.is_empty(), &mut message);
        }
        if !calls.is_empty() {
            message["tool_calls"] = calls.iter().map(|call| self.call(call)).collect();
        }
        message
    }

    /// Thinking goes back as it came: as text under the endpoint's own name, and signed entries unchanged.
    fn reasoning(&self, key: &str, parts: &[Part], has_calls: bool, message: &mut Value) {
        let mut text = String::new();
        let mut details = Vec::new();
        for part in parts {
            if let Part::Thinking(thinking) = part {
                text.push_str(&thinking.text);
                if let Some(Ok(Value::Array(entries))) =
                    thinking.signature.as_deref().map(serde_json::from_str)
                {
                    details.extend(entries);
                }
            }
        }
        if has_thinking(parts) || (self.needs_reasoning && has_calls) {
            message[key] = text.into();
        }
        if !details.is_empty() {
            message["reasoning_details"] = Value::Array(details);
        }
    }

    fn call(&self, call: &ModelCall) -> Value {
        // Providers refuse a whole conversation for one call whose arguments are no object.
        let is_object = call.arguments.trim_start().starts_with('{')
            && serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok();
        let arguments = if is_object { &*call.arguments } else { "{}" };
        let mut out = call.extras.clone();
        out.insert("id".into(), self.ids.get(&call.id).into());
        out.insert("type".into(), "function".into());
        out.insert(
            "function".into(),
            json!({"name": &*call.name, "arguments": arguments}),
        );
        Value::Object(out)
    }
}

/// Text alone is sent as text: not every server takes lists of parts.
fn simple(content: Vec<Value>) -> Value {
    let texts: Option<Vec<&str>> = content
        .iter()
        .map(|part| part.get("text").and_then(Value::as_str))
        .collect();
    match texts {
        Some(texts) => Value::String(texts.join("\n")),
        None => Value::Array(content),
    }
}
