//! One JSON line for each request a scripted model was asked, for whoever writes scripts.

use serde_json::{Value, json};

use crate::kernel::message::{Message, MessageOrigin, Part};
use crate::provider::ModelRequest;
use crate::provider::redact::excerpt;

/// A text in a trace is cut to this many bytes.
const TEXT_BYTES: usize = 2 << 10;

/// Takes lines of a trace.
pub trait TraceSink: Send + Sync {
    /// A line of JSON, without its newline. Must not block for long.
    fn line(&self, json: &str);
}

/// The request, redacted, and the turn that answered it.
pub(super) fn line(request: &ModelRequest, lane: &str, turn: usize, played: &str) -> String {
    let messages: Vec<Value> = request.messages.iter().map(|each| message(each)).collect();
    let tools: Vec<&str> = request.tools.iter().map(|tool| &*tool.name).collect();
    json!({
        "session": request.session.as_str(),
        "lane": lane,
        "asked_lane": &*request.lane,
        "turn": turn,
        "played": played,
        "attempt": request.attempt,
        "effort": request.effort.as_deref(),
        "system": excerpt(&request.system, &[], TEXT_BYTES),
        "tools": tools,
        "messages": messages,
    })
    .to_string()
}

fn message(message: &Message) -> Value {
    match message {
        Message::User {
            parts: content,
            origin,
        } => {
            let reminder = *origin == MessageOrigin::Reminder;
            json!({"role": "user", "reminder": reminder, "content": parts(content)})
        }
        Message::Assistant {
            parts: content,
            calls,
            partial,
        } => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    json!({
                        "id": call.id.as_str(),
                        "provider_id": call.provider_id.as_deref(),
                        "name": &*call.name,
                        "arguments": excerpt(&call.arguments, &[], TEXT_BYTES),
                    })
                })
                .collect();
            json!({"role": "assistant", "partial": partial, "content": parts(content), "calls": calls})
        }
        Message::ToolResult {
            call,
            parts: content,
            is_error,
            note,
        } => json!({
            "role": "tool",
            "call": call.as_str(),
            "is_error": is_error,
            "note": note.as_deref().map(|note| excerpt(note, &[], TEXT_BYTES)),
            "content": parts(content),
        }),
    }
}

fn parts(parts: &[Part]) -> Value {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => json!({"text": excerpt(text, &[], TEXT_BYTES)}),
            Part::Thinking(thinking) => {
                json!({"thinking": excerpt(&thinking.text, &[], TEXT_BYTES), "signed": thinking.signature.is_some()})
            }
            Part::Image { mime, data } => json!({"image": &**mime, "base64_chars": data.len()}),
        })
        .collect()
}
