//! Writes messages out, and reads the errors the other side answers with.

use std::fmt;

use bytes::Bytes;
use longshore_protocol::envelope::RequestId;
use longshore_protocol::error::{ErrorKind, RpcError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::service::Body;

/// An error the other side answered with, read as leniently as possible.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteError {
    /// The code; 0 when there was none that is a number.
    pub code: i64,
    /// The message; empty when there was none.
    pub message: String,
    /// The `data` member, `null` when absent. An error that is no object at all stands here whole.
    pub data: Value,
}

impl RemoteError {
    /// The kind, if `data` names one this version knows.
    pub fn kind(&self) -> Option<ErrorKind> {
        self.data.get("kind")?.as_str()?.parse().ok()
    }

    /// Whether the other side said that trying again may help.
    pub fn is_retryable(&self) -> bool {
        self.data
            .get("retryable")
            .and_then(Value::as_bool)
            .unwrap_or(false)
    }

    pub(super) fn read(raw: &RawValue) -> Self {
        // Numbers beyond the range of a double are the only valid JSON that does not become a value.
        let mut members = match serde_json::from_str(raw.get()).unwrap_or_default() {
            Value::Object(members) => members,
            Value::String(text) => {
                return Self {
                    code: 0,
                    message: text.clone(),
                    data: Value::String(text),
                };
            }
            other => {
                return Self {
                    code: 0,
                    message: String::new(),
                    data: other,
                };
            }
        };
        let code = members
            .get("code")
            .and_then(|code| code.as_i64().or(code.as_f64().map(|code| code as i64)));
        let message = match members.get_mut("message").map(Value::take) {
            Some(Value::String(message)) => message,
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        let data = members.get_mut("data").map(Value::take).unwrap_or_default();
        Self {
            code: code.unwrap_or(0),
            message,
            data,
        }
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            write!(f, "the other side answered error {}", self.code)
        } else {
            write!(f, "{} (error {})", self.message, self.code)
        }
    }
}

/// A reply to one id.
pub(super) fn reply(id: &RequestId, body: &Body) -> Bytes {
    const START: &str = r#"{"jsonrpc":"2.0","id":"#;
    const RESULT: &str = r#","result":"#;
    let tail_bytes = match body {
        Body::Result(result) => result.get().len() + RESULT.len() + 1,
        Body::Spliced(_) => body.spliced_tail().len() + 1,
        Body::Error(_) => 256,
    };
    let mut text = Vec::with_capacity(START.len() + id.as_str().len() + tail_bytes);
    text.extend_from_slice(START.as_bytes());
    text.extend_from_slice(id.as_str().as_bytes());
    match body {
        Body::Result(result) => {
            text.extend_from_slice(RESULT.as_bytes());
            text.extend_from_slice(result.get().as_bytes());
            text.push(b'}');
        }
        Body::Spliced(_) => {
            text.push(b',');
            text.extend_from_slice(body.spliced_tail().as_bytes());
        }
        Body::Error(error) => {
            text.extend_from_slice(br#","error":"#);
            write_error(&mut text, error);
            text.push(b'}');
        }
    }
    single_line(text)
}

fn write_error(text: &mut Vec<u8>, error: &RpcError) {
    let start = text.len();
    if let Err(fault) = serde_json::to_writer(&mut *text, error) {
        // Cannot happen with the maps an error is made of; still, a reply must be valid JSON.
        tracing::error!(%fault, kind = error.kind().as_str(), "an error could not be written");
        text.truncate(start);
        text.extend_from_slice(
            br#"{"code":-32603,"message":"Internal error.","data":{"kind":"internal_error","retryable":false}}"#,
        );
    }
}

/// A request (with an id) or a notification (without). Params that serialise to `null` are left out.
pub(super) fn call<P: Serialize + ?Sized>(
    id: Option<u64>,
    method: &str,
    params: &P,
) -> serde_json::Result<Bytes> {
    use std::io::Write;

    let mut text = Vec::with_capacity(128);
    text.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        // Writing to a vector cannot fail.
        let _ = write!(text, "\"id\":{id},");
    }
    text.extend_from_slice(br#""method":"#);
    serde_json::to_writer(&mut text, method)?;
    let before_params = text.len();
    text.extend_from_slice(br#","params":"#);
    let params_start = text.len();
    serde_json::to_writer(&mut text, params)?;
    if &text[params_start..] == b"null" {
        text.truncate(before_params);
    }
    text.push(b'}');
    Ok(single_line(text))
}

/// The id of one of our own requests in an answer. Hosts that write numbers as `7.0` or `"7"` are understood.
pub(super) fn own_id(raw: &RawValue) -> Option<u64> {
    let text = raw.get();
    if let Ok(id) = text.parse() {
        return Some(id);
    }
    if let Some(inner) = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
    {
        return inner.parse().ok();
    }
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number))
        .then_some(number as u64)
}

/// The id that the params of a cancel notification name, in the member `field`.
pub(super) fn cancelled_id(params: Option<&RawValue>, field: &str) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Members<'a>(
        #[serde(borrow)] std::collections::HashMap<std::borrow::Cow<'a, str>, &'a RawValue>,
    );
    let Members(members) = serde_json::from_str(params?.get()).ok()?;
    RequestId::from_raw(members.get(field)?)
}

/// Makes sure that a message is one line. Inside valid JSON a raw newline is white space between tokens, so a space
/// can stand in for it; pretty-printed raw values are where it comes from.
pub(super) fn single_line(mut text: Vec<u8>) -> Bytes {
    let mut from = 0;
    while let Some(found) = memchr::memchr(b'\n', &text[from..]) {
        text[from + found] = b' ';
        from += found + 1;
    }
    Bytes::from(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn replies_repeat_the_id_and_stay_on_one_line() {
        let id = RequestId::from_raw(&raw(r#""\u0061""#)).unwrap();
        let text = reply(&id, &Body::Result(raw("{\n  \"a\": \"b\\n\"\r\n}")));
        assert_eq!(
            text,
            "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\",\"result\":{   \"a\": \"b\\n\"\r }}"
        );
        let text = reply(
            &id,
            &Body::Error(Box::new(RpcError::new(ErrorKind::InternalError, "No."))),
        );
        let expected = r#"{"jsonrpc":"2.0","id":"\u0061","error":{"code":-32603,"message":"No.","data":{"kind":"internal_error","retryable":false}}}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn calls_leave_null_params_out() {
        for (id, params, expected) in [
            (
                Some(7),
                json!({"a": 1}),
                r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1}}"#,
            ),
            (
                None,
                json!({}),
                r#"{"jsonrpc":"2.0","method":"m","params":{}}"#,
            ),
            (None, json!(null), r#"{"jsonrpc":"2.0","method":"m"}"#),
        ] {
            assert_eq!(call(id, "m", &params).unwrap(), expected);
        }
        assert_eq!(
            call(None, "m", &raw("{\n}")).unwrap(),
            r#"{"jsonrpc":"2.0","method":"m","params":{ }}"#
        );
    }

    #[test]
    fn own_ids_are_read_in_every_spelling() {
        for (text, expected) in [
            ("7", Some(7)),
            ("\"7\"", Some(7)),
            ("7.0", Some(7)),
            ("7e0", Some(7)),
            ("7.5", None),
            ("-1", None),
            ("1e300", None),
            ("null", None),
            ("\"x\"", None),
            ("{}", None),
        ] {
            assert_eq!(own_id(&raw(text)), expected, "{text}");
        }
    }

    #[test]
    fn errors_of_the_other_side_are_read_leniently() {
        let read = |text: &str| RemoteError::read(&raw(text));
        let error = read(
            r#"{"code":-32001,"message":"m","data":{"kind":"server_busy","retryable":true},"x":1}"#,
        );
        assert_eq!((error.code, error.message.as_str()), (-32001, "m"));
        assert_eq!(
            (error.kind(), error.is_retryable()),
            (Some(ErrorKind::ServerBusy), true)
        );
        for (text, code, message, data) in [
            (r#"{"code":-32000.0}"#, -32000, "", json!(null)),
            (
                r#"{"code":9999999999,"message":null}"#,
                9_999_999_999,
                "",
                json!(null),
            ),
            (r#"{"code":"x","message":5,"data":[]}"#, 0, "5", json!([])),
            (r#""gone""#, 0, "gone", json!("gone")),
            ("[1]", 0, "", json!([1])),
            ("true", 0, "", json!(true)),
            (r#"{"data":1e999}"#, 0, "", json!(null)),
        ] {
            let error = read(text);
            assert_eq!(
                (error.code, error.message.as_str(), &error.data),
                (code, message, &data),
                "{text}"
            );
            assert_eq!(error.kind(), None);
        }
    }

    #[test]
    fn cancels_name_an_id_in_the_member_of_the_face() {
        let id = |text: &str, field| {
            cancelled_id(Some(&raw(text)), field).map(|id| id.as_str().to_owned())
        };
        assert_eq!(id(r#"{"id":1.0,"more":{}}"#, "id").as_deref(), Some("1.0"));
        assert_eq!(
            id(r#"{"requestId":"a"}"#, "requestId").as_deref(),
            Some("\"a\"")
        );
        for text in ["{}", r#"{"id":{}}"#, "[1]", "1"] {
            assert_eq!(id(text, "id"), None, "{text}");
        }
        assert_eq!(cancelled_id(None, "id"), None);
    }
}
