//! Reads the `delta` (or whole `message`) of a Chat Completions choice, whatever the server's dialect.

use serde_json::{Map, Value};

use super::think::TagSplitter;
use crate::provider::Delta;
use crate::provider::slots::{Arguments, CallPiece, CallSlots, Index, Repetition};

/// The fields in which servers send thinking, in the order in which they are looked for.
pub(super) const REASONING_KEYS: [&str; 3] =
    ["reasoning_content", "reasoning", "reasoning_details"];

/// What an endpoint is like, as far as reading goes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dialect {
    /// How arguments are repeated.
    pub(crate) repetition: Repetition,
    /// `<think>` tags in text are thinking.
    pub(crate) inline_think: bool,
}

/// Reads the deltas of one answer.
#[derive(Debug, Default)]
pub(crate) struct DeltaReader {
    /// The calls so far.
    pub(crate) slots: CallSlots,
    tags: Option<TagSplitter>,
    reasoning_key: Option<&'static str>,
    details: Vec<Value>,
    refused: bool,
}

impl DeltaReader {
    /// For one answer.
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            slots: CallSlots::new(dialect.repetition),
            tags: dialect.inline_think.then(TagSplitter::default),
            ..Self::default()
        }
    }

    /// The field in which thinking came, once any has.
    pub(crate) fn reasoning_key(&self) -> Option<&'static str> {
        self.reasoning_key
    }

    /// True where the model refused.
    pub(crate) fn refused(&self) -> bool {
        self.refused
    }

    /// Takes one `delta` or `message`.
    pub(crate) fn read(&mut self, delta: Map<String, Value>, out: &mut Vec<Delta>) {
        let mut delta = delta;
        self.reasoning(&mut delta, out);
        match delta.remove("content") {
            Some(Value::String(text)) => self.text(text, out),
            Some(Value::Array(parts)) => {
                for part in parts {
                    if let Some(text) = part.get("text").and_then(Value::as_str) {
                        self.text(text.to_owned(), out);
                    }
                }
            }
            _ => {}
        }
        if let Some(Value::String(text)) = delta.remove("refusal")
            && !text.is_empty()
        {
            self.refused = true;
            self.text(text, out);
        }
        match delta.remove("tool_calls") {
            Some(Value::Array(calls)) => {
                for call in calls {
                    if let Value::Object(call) = call {
                        self.call(call, out);
                    }
                }
            }
            Some(Value::Object(call)) => self.call(call, out),
            _ => {}
        }
        if let Some(Value::Object(function)) = delta.remove("function_call") {
            self.call(
                Map::from_iter([("function".to_owned(), Value::Object(function))]),
                out,
            );
        }
    }

    /// No more comes: gives out what was held back.
    pub(crate) fn flush(&mut self, out: &mut Vec<Delta>) {
        self.close_reasoning(out);
        if let Some(tags) = &mut self.tags {
            tags.flush(out);
        }
    }

    fn text(&mut self, text: String, out: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        self.close_reasoning(out);
        match &mut self.tags {
            Some(tags) => tags.push(&text, out),
            None => out.push(Delta::Text(text)),
        }
    }

    fn reasoning(&mut self, delta: &mut Map<String, Value>, out: &mut Vec<Delta>) {
        let details = match delta.get_mut("reasoning_details") {
            Some(details @ Value::Array(_)) => details.take(),
            _ => Value::Null,
        };
        let said = REASONING_KEYS
            .iter()
            .find_map(|key| match delta.get_mut(*key) {
                Some(Value::String(text)) => Some((*key, std::mem::take(text))),
                _ => None,
            });
        let mut listed = String::new();
        if let Value::Array(entries) = details {
            for entry in entries {
                for text in ["text", "summary"]
                    .iter()
                    .filter_map(|name| entry.get(*name)?.as_str())
                {
                    listed.push_str(text);
                }
                self.keep_detail(entry);
            }
        }
        match said {
            Some((key, text)) => {
                self.reasoning_key = Some(key);
                out.push(Delta::Thinking {
                    text,
                    signature: None,
                });
            }
            None if !listed.is_empty() => out.push(Delta::Thinking {
                text: listed,
                signature: None,
            }),
            None => {}
        }
    }

    /// Pieces of one entry come with the same type and number; their texts are joined.
    fn keep_detail(&mut self, entry: Value) {
        let same = |held: &Value| {
            held.get("type") == entry.get("type") && held.get("index") == entry.get("index")
        };
        let (Some(Value::Object(held)), Value::Object(more)) =
            (self.details.last_mut().filter(|held| same(held)), &entry)
        else {
            self.details.push(entry);
            return;
        };
        for (name, value) in more {
            match (held.get_mut(name), value) {
                (_, Value::Null) => {}
                (Some(Value::String(text)), Value::String(more))
                    if ["text", "summary", "data", "signature"].contains(&&**name) =>
                {
                    text.push_str(more);
                }
                _ => {
                    held.insert(name.clone(), value.clone());
                }
            }
        }
    }

    /// Signed or encrypted thinking has to go back as it came: its entries become the block's signature.
    fn close_reasoning(&mut self, out: &mut Vec<Delta>) {
        let details = std::mem::take(&mut self.details);
        let sealed = |entry: &Value| {
            ["signature", "data"]
                .iter()
                .any(|name| entry.get(*name).is_some_and(Value::is_string))
        };
        if details.iter().any(sealed) {
            out.push(Delta::Thinking {
                text: String::new(),
                signature: Some(Value::Array(details).to_string()),
            });
        }
    }

    fn call(&mut self, mut call: Map<String, Value>, out: &mut Vec<Delta>) {
        self.close_reasoning(out);
        let mut function = match call.remove("function") {
            Some(Value::Object(function)) => function,
            _ => Map::new(),
        };
        let index = call
            .remove("index")
            .and_then(index)
            .or_else(|| function.remove("index").and_then(index));
        let text = |value: Option<Value>| match value {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let id = text(call.remove("id"));
        call.remove("type");
        let piece = CallPiece {
            index,
            id,
            name: text(function.remove("name")),
            arguments: match function.remove("arguments") {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(Arguments::Piece(text)),
                Some(other) => Some(Arguments::Whole(other.to_string())),
            },
            extras: call,
        };
        self.slots.feed(piece, out);
    }
}

fn index(value: Value) -> Option<Index> {
    match value {
        Value::Number(number) => number.as_u64().map(Index::Number),
        Value::String(text) => Some(Index::Text(text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DeltaReader, Dialect};
    use crate::provider::Delta;

    fn read(dialect: Dialect, deltas: &[Value]) -> (Vec<Delta>, DeltaReader) {
        let mut reader = DeltaReader::new(dialect);
        let mut out = Vec::new();
        for delta in deltas {
            reader.read(delta.as_object().unwrap().clone(), &mut out);
        }
        reader.flush(&mut out);
        (out, reader)
    }

    fn show(deltas: &[Delta]) -> Vec<String> {
        deltas
            .iter()
            .map(|delta| match delta {
                Delta::Text(text) => format!("text {text}"),
                Delta::Thinking {
                    text,
                    signature: None,
                } => format!("think {text}"),
                Delta::Thinking {
                    text,
                    signature: Some(signature),
                } => format!("think {text} #{signature}"),
                Delta::CallStarted { name, extras, .. } => {
                    format!("call {name} {}", Value::Object(extras.clone()))
                }
                Delta::CallArguments { text, .. } => format!("args {text}"),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn dialects_of_content_and_thinking() {
        for (what, deltas, shown, key) in [
            (
                "null content",
                vec![
                    json!({"role": "assistant", "content": null}),
                    json!({"content": "a"}),
                ],
                vec!["text a"],
                None,
            ),
            (
                "content parts",
                vec![json!({"content": [{"type": "text", "text": "a"}, {"text": "b"}]})],
                vec!["text a", "text b"],
                None,
            ),
            (
                "refusal",
                vec![json!({"refusal": "no"})],
                vec!["text no"],
                None,
            ),
            (
                "reasoning_content",
                vec![
                    json!({"reasoning_content": "a", "content": ""}),
                    json!({"reasoning_content": null, "content": "b"}),
                ],
                vec!["think a", "text b"],
                Some("reasoning_content"),
            ),
            (
                "reasoning",
                vec![json!({"reasoning": "a"})],
                vec!["think a"],
                Some("reasoning"),
            ),
            (
                "explicitly empty",
                vec![json!({"reasoning_content": ""}), json!({"content": "b"})],
                vec!["think ", "text b"],
                Some("reasoning_content"),
            ),
            (
                "signed details",
                vec![
                    json!({"reasoning": "a", "reasoning_details": [{"type": "t", "index": 0, "text": "a", "signature": null}]}),
                    json!({"reasoning": "b", "reasoning_details": [{"type": "t", "index": 0, "text": "b"}]}),
                    json!({"reasoning_details": [{"type": "t", "index": 0, "signature": "S"}]}),
                    json!({"content": "x"}),
                ],
                vec![
                    "think a",
                    "think b",
                    r#"think  #[{"type":"t","index":0,"text":"ab","signature":"S"}]"#,
                    "text x",
                ],
                Some("reasoning"),
            ),
            (
                "plain details",
                vec![
                    json!({"reasoning_details": [{"type": "t", "text": "a"}]}),
                    json!({"content": "x"}),
                ],
                vec!["think a", "text x"],
                None,
            ),
            (
                "unknown members of a call are kept",
                vec![
                    json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "extra_content": {"g": 1},
                    "function": {"name": "Read", "arguments": "{}"}}]}),
                ],
                vec![r#"call Read {"extra_content":{"g":1}}"#, "args {}"],
                None,
            ),
            (
                "an index inside the function, arguments as an object",
                vec![
                    json!({"tool_calls": [{"function": {"index": 0, "name": "Read", "arguments": {"p": 1}}}]}),
                ],
                vec!["call Read {}", "args {\"p\":1}"],
                None,
            ),
            (
                "the old function_call",
                vec![json!({"function_call": {"name": "Read", "arguments": "{}"}})],
                vec!["call Read {}", "args {}"],
                None,
            ),
            (
                "null arguments",
                vec![
                    json!({"tool_calls": [{"index": 0, "function": {"name": "Read", "arguments": null}}]}),
                ],
                vec!["call Read {}"],
                None,
            ),
        ] {
            let (out, reader) = read(Dialect::default(), &deltas);
            assert_eq!(show(&out), shown, "{what}");
            assert_eq!(reader.reasoning_key(), key, "{what}");
            assert_eq!(reader.refused(), what == "refusal");
        }
    }

    #[test]
    fn tags_are_split_where_asked_for() {
        let deltas = [
            json!({"content": "<thi"}),
            json!({"content": "nk>a</think>b"}),
        ];
        let inline = Dialect {
            inline_think: true,
            ..Dialect::default()
        };
        assert_eq!(show(&read(inline, &deltas).0), ["think a", "text b"]);
        assert_eq!(
            show(&read(Dialect::default(), &deltas).0),
            ["text <thi", "text nk>a</think>b"]
        );
    }
}
