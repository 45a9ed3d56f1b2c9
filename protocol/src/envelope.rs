//! One JSON-RPC message as it stands on the wire, read without copying.
//!
//! [`Message::parse`] sorts a text into request, notification, response or one of the two malformed kinds, and never
//! fails: what to answer to a malformed text is part of the result.
//! Ids stay the raw text the sender wrote, so that a reply can repeat them byte for byte (`-1`, `1.5`, `1e3`,
//! `"\u0061"`).
//! Reading is lenient where hosts are known to differ: `jsonrpc` may be absent, `params: null` counts as absent, an
//! `error: null` beside a `result` is no error.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::ser::{self, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The id of a request: a JSON string, number or null, kept as the raw text its sender wrote.
///
/// Two ids are equal when their texts are: `1` and `1.0` are different ids, and a cancel must spell an id as its
/// request did.
/// Cloning is a reference count.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The id `null`, which answers to unreadable messages carry.
    pub fn null() -> Self {
        Self(Arc::from("null"))
    }

    /// The id of a raw JSON value; `None` when it is an array, an object or a boolean, which are no ids.
    pub fn from_raw(raw: &RawValue) -> Option<Self> {
        match raw.get().as_bytes().first() {
            Some(b'"' | b'-' | b'0'..=b'9' | b'n') => Some(Self(Arc::from(raw.get()))),
            _ => None,
        }
    }

    /// The raw JSON text, for example `7` or `"a"` (with its quotes).
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<u64> for RequestId {
    fn from(number: u64) -> Self {
        Self(Arc::from(number.to_string()))
    }
}

impl Borrow<str> for RequestId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({})", self.0)
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_raw(&raw).ok_or_else(|| de::Error::custom("an id is a string, a number or null"))
    }
}

impl JsonSchema for RequestId {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("RequestId")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The id of a request: a string, a number or null. It is repeated exactly as it was written.",
            "type": ["string", "number", "null"],
        })
    }
}

/// The members of a JSON-RPC message, borrowed from its text.
///
/// Absent and `null` are kept apart where the difference counts: for the id, the result and the error.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// The version member, if any.
    #[serde(default, borrow, deserialize_with = "present")]
    pub jsonrpc: Option<&'a RawValue>,
    /// The id, `null` included.
    #[serde(default, borrow, deserialize_with = "present")]
    pub id: Option<&'a RawValue>,
    /// The method; it borrows unless it is written with escapes.
    #[serde(default, borrow, deserialize_with = "method")]
    pub method: Option<Cow<'a, str>>,
    /// The params; `null` counts as absent.
    #[serde(default, borrow)]
    pub params: Option<&'a RawValue>,
    /// The result of a response, `null` included.
    #[serde(default, borrow, deserialize_with = "present")]
    pub result: Option<&'a RawValue>,
    /// The error of a response, `null` included.
    #[serde(default, borrow, deserialize_with = "present")]
    pub error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn method<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    // `Cow` borrows only where the attribute says so, hence the wrapper.
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    Text::deserialize(deserializer).map(|text| Some(text.0))
}

/// A message, sorted by what must be done with it.
#[derive(Debug)]
pub enum Message<'a> {
    /// Must be answered, exactly once, with this id.
    Request {
        /// The id to repeat.
        id: RequestId,
        /// What is asked for.
        method: Cow<'a, str>,
        /// Raw params of any JSON type; `None` when absent or `null`.
        params: Option<&'a RawValue>,
    },
    /// Must not be answered.
    Notification {
        /// What is told.
        method: Cow<'a, str>,
        /// Raw params of any JSON type; `None` when absent or `null`.
        params: Option<&'a RawValue>,
    },
    /// An answer to one of our own requests. It must never be answered, however odd it is.
    Response(Response<'a>),
    /// Valid JSON that is no JSON-RPC message: answered with `invalid_request`.
    Invalid {
        /// The id to answer with, `null` when none could be read.
        id: RequestId,
        /// What is wrong, as one sentence for the sender.
        reason: &'static str,
    },
    /// Not JSON: answered with `parse_error` and the id `null`.
    Malformed,
}

/// An answer to a request.
#[derive(Debug)]
pub struct Response<'a> {
    /// The id it answers; `None` when absent.
    pub id: Option<&'a RawValue>,
    /// What was answered. An error wins over a result; an answer with neither value is a `null` result.
    pub outcome: Result<&'a RawValue, &'a RawValue>,
}

impl<'a> Message<'a> {
    /// Sorts the text of one message. Arrays are no single message; see [`parse_batch`].
    pub fn parse(text: &'a str) -> Self {
        // The derived reader would take an array for the fields in order.
        if !text.trim_ascii_start().starts_with('{') {
            return Self::unreadable(text);
        }
        match serde_json::from_str::<Envelope<'a>>(text) {
            Ok(envelope) => Self::sort(envelope),
            Err(_) => Self::unreadable(text),
        }
    }

    fn sort(envelope: Envelope<'a>) -> Self {
        let Envelope {
            jsonrpc,
            id,
            method,
            params,
            result,
            error,
        } = envelope;
        let Some(method) = method else {
            let outcome = match (result, error.filter(|error| error.get() != "null")) {
                (_, Some(error)) => Err(error),
                (Some(result), None) => Ok(result),
                (None, None) if error.is_some() => Ok(RawValue::NULL),
                (None, None) => return Self::invalid(id, "a request needs a method"),
            };
            return Self::Response(Response { id, outcome });
        };
        if !jsonrpc.is_none_or(is_version_2) {
            return Self::invalid(id, "jsonrpc must be \"2.0\"");
        }
        match id {
            None => Self::Notification { method, params },
            Some(raw) => match RequestId::from_raw(raw) {
                Some(id) => Self::Request { id, method, params },
                None => Self::invalid(None, "an id must be a string, a number or null"),
            },
        }
    }

    fn invalid(id: Option<&RawValue>, reason: &'static str) -> Self {
        Self::Invalid {
            id: id
                .and_then(RequestId::from_raw)
                .unwrap_or_else(RequestId::null),
            reason,
        }
    }

    /// Tells "not JSON" from "not a message", and finds the id of the latter if there is one.
    fn unreadable(text: &str) -> Self {
        #[derive(Deserialize)]
        struct IdOnly<'a> {
            #[serde(default, borrow, deserialize_with = "present")]
            id: Option<&'a RawValue>,
        }
        if serde_json::from_str::<IgnoredAny>(text).is_err() {
            return Self::Malformed;
        }
        if !text.trim_ascii_start().starts_with('{') {
            return Self::invalid(None, "a message must be an object");
        }
        match serde_json::from_str::<IdOnly<'_>>(text) {
            Ok(IdOnly { id }) => Self::invalid(
                id,
                "the method must be a string, and no member may occur twice",
            ),
            Err(_) => Self::invalid(None, "no member may occur twice"),
        }
    }
}

fn is_version_2(raw: &RawValue) -> bool {
    raw.get() == "\"2.0\""
        || serde_json::from_str::<Cow<'_, str>>(raw.get()).is_ok_and(|text| text == "2.0")
}

/// Whether a text is a batch (an array) rather than one message.
pub fn is_batch(text: &str) -> bool {
    text.trim_ascii_start().starts_with('[')
}

/// Reads the entries of a batch, without looking into them.
///
/// `Ok(None)` when there are more than `max_entries`: collecting them all would let one short entry repeated many
/// times cost far more memory than the message itself.
///
/// # Errors
/// When the text is not a JSON array.
pub fn parse_batch(
    text: &str,
    max_entries: usize,
) -> Result<Option<Vec<&RawValue>>, serde_json::Error> {
    struct Entries(usize);

    impl<'de> Visitor<'de> for Entries {
        type Value = Option<Vec<&'de RawValue>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of messages")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = seq.next_element()? {
                if entries.len() == self.0 {
                    while seq.next_element::<IgnoredAny>()?.is_some() {}
                    return Ok(None);
                }
                entries.push(entry);
            }
            Ok(Some(entries))
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(text);
    let entries = deserializer.deserialize_seq(Entries(max_entries))?;
    deserializer.end()?;
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One word for the kind, then what a test can compare.
    fn sorted(text: &str) -> String {
        match Message::parse(text) {
            Message::Request { id, method, params } => {
                format!(
                    "request {id} {method} {}",
                    params.map_or("-", RawValue::get)
                )
            }
            Message::Notification { method, params } => {
                format!(
                    "notification {method} {}",
                    params.map_or("-", RawValue::get)
                )
            }
            Message::Response(Response { id, outcome }) => {
                let id = id.map_or("-", RawValue::get);
                match outcome {
                    Ok(result) => format!("result {id} {result}"),
                    Err(error) => format!("error {id} {error}"),
                }
            }
            Message::Invalid { id, .. } => format!("invalid {id}"),
            Message::Malformed => "malformed".to_owned(),
        }
    }

    #[test]
    fn messages_are_sorted() {
        for (text, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1]}}"#,
                r#"request 1 m {"a":[1]}"#,
            ),
            (r#" { "method" : "m" , "id" : "x" } "#, "request \"x\" m -"),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#,
                "request 1 m -",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}"#,
                "request 1 m [1]",
            ),
            (
                r#"{"jsonrpc":"2\u002e0","id":1,"method":"\u006d"}"#,
                "request 1 m -",
            ),
            (r#"{"id":1,"method":"","more":{}}"#, "request 1  -"),
            (r#"{"jsonrpc":"2.0","method":"m"}"#, "notification m -"),
            (r#"{"jsonrpc":"2.0","id":3,"result":null}"#, "result 3 null"),
            (
                r#"{"jsonrpc":"2.0","id":3,"result":{},"error":null}"#,
                "result 3 {}",
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"result":null,"error":"no"}"#,
                "error 3 \"no\"",
            ),
            (r#"{"id":3,"error":null}"#, "result 3 null"),
            (r#"{"jsonrpc":"1.0","id":3,"result":1}"#, "result 3 1"),
            (r#"{"result":1}"#, "result - 1"),
            ("{", "malformed"),
            ("[1", "malformed"),
            ("", "malformed"),
            ("nul", "malformed"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#, "malformed"),
            (r#"{"id":"7","method":5"#, "malformed"),
            ("1", "invalid null"),
            ("\"text\"", "invalid null"),
            ("null", "invalid null"),
            ("[1]", "invalid null"),
            ("{}", "invalid null"),
            (r#"{"jsonrpc":"2.0","id":5}"#, "invalid 5"),
            (r#"{"jsonrpc":"2.0","id":"7","method":5}"#, "invalid \"7\""),
            (r#"{"jsonrpc":"2.0","id":7,"method":null}"#, "invalid 7"),
            (r#"{"jsonrpc":"1.0","id":8,"method":"m"}"#, "invalid 8"),
            (r#"{"jsonrpc":2.0,"id":8,"method":"m"}"#, "invalid 8"),
            (r#"{"jsonrpc":null,"id":8,"method":"m"}"#, "invalid 8"),
            (r#"{"jsonrpc":"1.0","method":"m"}"#, "invalid null"),
            (r#"{"id":{},"method":"m"}"#, "invalid null"),
            (r#"{"id":[1],"method":"m"}"#, "invalid null"),
            (r#"{"id":true,"method":"m"}"#, "invalid null"),
            (r#"{"id":1,"id":2,"method":"m"}"#, "invalid null"),
            (r#"{"id":1,"method":"a","method":"b"}"#, "invalid 1"),
            (r#"{"id":1,"method":"\ud800"}"#, "invalid 1"),
        ] {
            assert_eq!(sorted(text), expected, "{text}");
        }
    }

    #[test]
    fn ids_keep_their_spelling() {
        for id in [
            "-1",
            "1.5",
            "1.0",
            "1e3",
            "1e999",
            "18446744073709551616",
            r#""\u0061""#,
            r#""a b""#,
            "null",
            "-0",
        ] {
            let text = format!(r#"{{"id": {id} ,"method":"m"}}"#);
            let Message::Request { id: read, .. } = Message::parse(&text) else {
                panic!("{text} is a request")
            };
            assert_eq!(read.as_str(), id);
            assert_eq!(serde_json::to_string(&read).unwrap(), id);
            assert_eq!(serde_json::from_str::<RequestId>(id).unwrap(), read);
        }
        assert!(serde_json::from_str::<RequestId>("{}").is_err());
    }

    #[test]
    fn deep_nesting_is_read_without_recursion() {
        let depth = 200_000;
        let text = format!(
            r#"{{"id":1,"method":"m","params":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        );
        assert!(matches!(Message::parse(&text), Message::Request { .. }));
        assert!(matches!(
            Message::parse(&"[".repeat(depth)),
            Message::Malformed
        ));
    }

    #[test]
    fn a_method_without_escapes_is_borrowed() {
        let Message::Notification { method, .. } = Message::parse(r#"{"method":"a/b"}"#) else {
            panic!()
        };
        assert!(matches!(method, Cow::Borrowed("a/b")));
    }

    #[test]
    fn batches_are_split_and_bounded() {
        assert!(is_batch(" [1]") && !is_batch("{}"));
        let split = |text| {
            parse_batch(text, 3)
                .map(|e| e.map(|e| e.into_iter().map(RawValue::get).collect::<Vec<_>>()))
        };
        assert_eq!(
            split(r#"[ 1 , {"a":[]} ,"x"]"#).unwrap().unwrap(),
            ["1", r#"{"a":[]}"#, "\"x\""]
        );
        assert!(split("[]").unwrap().unwrap().is_empty());
        assert!(split("[1,2,3,4,5]").unwrap().is_none());
        for text in ["[1", "[1,2,3,4,", "[1] 2", "[1,]", "{}"] {
            assert!(split(text).is_err(), "{text}");
        }
    }
}
