//! The line language: one thing on each line, turns apart by a line `---`.

use longshore_protocol::value::turn::FinishReason;
use serde_json::{Map, Value, json};

use super::ScriptError;
use super::format::{Counted, Failure, FailureKind, SignedThink, Step, Think, Turn, UsageSpec};

const KEYS: [&str; 10] = [
    "text",
    "think",
    "think_encrypted",
    "tool_call",
    "tool_call_part",
    "id",
    "usage",
    "finish_reason",
    "error",
    "delay",
];

/// Lines that say nothing: comments, code fences, a bare `echo`.
pub(super) fn is_noise(line: &str) -> bool {
    line.is_empty()
        || line.starts_with('#')
        || line.starts_with("```")
        || line == "echo"
        || line == "---"
}

/// The key of a line, where it has one.
pub(super) fn key(line: &str) -> Option<&str> {
    line.split_once(':')
        .map(|(key, _)| key.trim())
        .filter(|key| KEYS.contains(key))
}

/// Reads all turns.
pub(super) fn turns(text: &str) -> Result<Vec<Turn>, ScriptError> {
    let mut turns = vec![Turn::default()];
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line == "---" {
            turns.push(Turn::default());
        }
        if is_noise(line) {
            continue;
        }
        if let Some(turn) = turns.last_mut() {
            read_line(line, turn)
                .map_err(|why| ScriptError::new(format!("line {}: {why}", at + 1)))?;
        }
    }
    turns.retain(|turn| !turn.steps.is_empty() || turn.usage.is_some() || turn.finish.is_some());
    Ok(turns)
}

fn read_line(line: &str, turn: &mut Turn) -> Result<(), String> {
    let Some((key, value)) = line.split_once(':') else {
        return Err(format!(
            "`{line}` has no key: {} are known",
            KEYS.join(", ")
        ));
    };
    let value = unquoted(value.strip_prefix(' ').unwrap_or(value));
    let step = match key.trim() {
        "text" => Step {
            text: Some(value),
            ..Step::default()
        },
        "think" => Step {
            think: Some(Think::Text(value)),
            ..Step::default()
        },
        "think_encrypted" => {
            let signed = SignedThink {
                text: String::new(),
                signature: Some(value),
            };
            Step {
                think: Some(Think::Signed(signed)),
                ..Step::default()
            }
        }
        "tool_call" => Step {
            raw_delta: Some(call(&value)?),
            ..Step::default()
        },
        "tool_call_part" => Step {
            raw_delta: Some(call_part(&value)),
            ..Step::default()
        },
        "delay" => {
            let ms = value.trim().trim_end_matches("ms").trim().parse();
            Step {
                delay_ms: Some(
                    ms.map_err(|_| format!("`{value}` is not a number of milliseconds"))?,
                ),
                ..Step::default()
            }
        }
        "error" => Step {
            error: Some(failure(&value)),
            ..Step::default()
        },
        "usage" => {
            turn.usage = Some(UsageSpec::Counted(usage(&value)?));
            return Ok(());
        }
        "finish_reason" => {
            turn.finish = Some(finish(value.trim())?);
            return Ok(());
        }
        "id" => return Ok(()),
        "image_url" | "audio_url" | "video_url" => {
            return Err(format!("a model's answer cannot hold `{key}`"));
        }
        other => {
            return Err(format!(
                "unknown key `{other}`: {} are known",
                KEYS.join(", ")
            ));
        }
    };
    turn.steps.push(step);
    Ok(())
}

/// A double-quoted value is a JSON string where it can be read as one; other quotes are only taken off.
fn unquoted(value: &str) -> String {
    if value.starts_with('"')
        && let Ok(text) = serde_json::from_str(value.trim_end())
    {
        return text;
    }
    let inner = ['"', '\''].iter().find_map(|quote| {
        value
            .trim_end()
            .strip_prefix(*quote)
            .and_then(|rest| rest.strip_suffix(*quote))
    });
    inner.unwrap_or(value).to_owned()
}

fn members(value: &str) -> Map<String, Value> {
    if let Ok(members) = serde_json::from_str(value) {
        return members;
    }
    value
        .split([' ', ','])
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| {
            let value =
                serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
            (name.trim().to_owned(), value)
        })
        .collect()
}

fn call(value: &str) -> Result<Map<String, Value>, String> {
    let mut members = members(value);
    let name = members
        .remove("name")
        .filter(Value::is_string)
        .ok_or("a tool_call needs a name")?;
    let arguments = members.remove("arguments").unwrap_or(Value::Null);
    let mut call =
        json!({"id": members.remove("id"), "function": {"name": name, "arguments": arguments}});
    if let Some(index) = members.remove("index") {
        call["index"] = index;
    }
    Ok(Map::from_iter([("tool_calls".to_owned(), json!([call]))]))
}

fn call_part(value: &str) -> Map<String, Value> {
    let mut members: Map<String, Value> = serde_json::from_str(value).unwrap_or_default();
    let text = members
        .remove("arguments_part")
        .unwrap_or_else(|| Value::String(value.to_owned()));
    let mut call = json!({"function": {"arguments": text}});
    if let Some(index) = members.remove("index") {
        call["index"] = index;
    }
    Map::from_iter([("tool_calls".to_owned(), json!([call]))])
}

fn usage(value: &str) -> Result<Counted, String> {
    serde_json::from_value(Value::Object(members(value))).map_err(|error| format!("usage: {error}"))
}

fn finish(value: &str) -> Result<FinishReason, String> {
    Ok(match value {
        "completed" | "stop" => FinishReason::Completed,
        "tool_calls" => FinishReason::ToolCalls,
        "truncated" | "length" => FinishReason::Truncated,
        "filtered" | "content_filter" => FinishReason::Filtered,
        "paused" => FinishReason::Paused,
        "other" => FinishReason::Other,
        other => return Err(format!("unknown finish_reason `{other}`")),
    })
}

/// `429 slow down`, `connection gone`, or words alone, which are an error of the server.
fn failure(value: &str) -> Failure {
    let (first, rest) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
    let message = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    if let Ok(status) = first.parse() {
        return Failure {
            status: Some(status),
            message: message(rest),
            ..Failure::default()
        };
    }
    match serde_json::from_value::<FailureKind>(Value::String(first.to_owned())) {
        Ok(FailureKind::Status) | Err(_) => Failure {
            status: Some(500),
            message: message(value.trim()),
            ..Failure::default()
        },
        Ok(kind) => Failure {
            kind: Some(kind),
            message: message(rest),
            ..Failure::default()
        },
    }
}
