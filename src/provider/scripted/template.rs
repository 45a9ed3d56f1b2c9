//! Placeholders in scripts: `{{last_user}}` and its kin. Nothing is ever executed.

use std::fmt::Write as _;

use serde_json::Value;

/// A text with placeholders, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Slot(Slot),
}

/// What a placeholder stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Text of the user's last message.
    LastUser,
    /// Text of the last tool result.
    LastToolResult,
    /// Text of the result of a call, by its id in the script.
    ToolResult(String),
    /// The number of the turn in its lane, from 1.
    Turn,
    /// The number of the attempt, from 1.
    Attempt,
    /// The session's id.
    SessionId,
    /// The session's directory.
    Cwd,
}

impl Template {
    /// Reads a text. `{{{{` stands for two braces.
    ///
    /// # Errors
    /// Names the placeholder that is not known, or not closed.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            literal.push_str(&rest[..at]);
            rest = &rest[at + 2..];
            if let Some(after) = rest.strip_prefix("{{") {
                literal.push_str("{{");
                rest = after;
                continue;
            }
            let end = rest
                .find("}}")
                .ok_or_else(|| "a placeholder has no end: `}}` is missing".to_owned())?;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Slot(slot(rest[..end].trim())?));
            rest = &rest[end + 2..];
        }
        literal.push_str(rest);
        if !literal.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Self { pieces })
    }

    /// A text in which nothing is a placeholder.
    pub(super) fn verbatim(text: String) -> Self {
        Self {
            pieces: vec![Piece::Literal(text)],
        }
    }

    /// The text where there is nothing to fill in.
    pub(super) fn literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The text, filled in.
    ///
    /// # Errors
    /// Those of `value`.
    pub(super) fn fill<E>(
        &self,
        value: &mut (impl FnMut(&Slot) -> Result<String, E> + ?Sized),
    ) -> Result<String, E> {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.push_str(text),
                Piece::Slot(slot) => out.push_str(&value(slot)?),
            }
        }
        Ok(out)
    }
}

fn slot(name: &str) -> Result<Slot, String> {
    Ok(match name {
        "last_user" => Slot::LastUser,
        "last_tool_result" => Slot::LastToolResult,
        "turn" => Slot::Turn,
        "attempt" => Slot::Attempt,
        "session_id" => Slot::SessionId,
        "cwd" => Slot::Cwd,
        other => match other.strip_prefix("tool_result.") {
            Some(id) if !id.is_empty() => Slot::ToolResult(id.to_owned()),
            _ => {
                return Err(format!(
                    "unknown placeholder `{other}`: last_user, last_tool_result, tool_result.ID, turn, attempt, \
                     session_id or cwd"
                ));
            }
        },
    })
}

/// Arguments of a call, read once: their compact JSON where nothing has to be filled in.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ArgsTemplate {
    /// Sent as it is.
    Ready(String),
    /// Texts in it hold placeholders.
    Open(Value),
}

impl ArgsTemplate {
    /// Reads arguments.
    ///
    /// # Errors
    /// Those of [`Template::parse`].
    pub(super) fn parse(value: Value) -> Result<Self, String> {
        Ok(if check(&value)? {
            Self::Open(value)
        } else {
            Self::Ready(value.to_string())
        })
    }

    /// The argument text.
    ///
    /// # Errors
    /// Those of `value`.
    pub(super) fn fill<E>(
        &self,
        value: &mut (impl FnMut(&Slot) -> Result<String, E> + ?Sized),
    ) -> Result<String, E> {
        match self {
            Self::Ready(text) => Ok(text.clone()),
            Self::Open(open) => {
                let mut out = String::new();
                let _ = write!(out, "{}", filled(open, value)?);
                Ok(out)
            }
        }
    }
}

/// Checks every text in a value, and says whether any has to be filled in or unescaped.
fn check(value: &Value) -> Result<bool, String> {
    match value {
        Value::String(text) => Ok(Template::parse(text)?.literal() != Some(text)),
        Value::Array(items) => items
            .iter()
            .try_fold(false, |open, item| Ok(check(item)? || open)),
        Value::Object(members) => members
            .values()
            .try_fold(false, |open, item| Ok(check(item)? || open)),
        _ => Ok(false),
    }
}

fn filled<E>(
    value: &Value,
    fill: &mut (impl FnMut(&Slot) -> Result<String, E> + ?Sized),
) -> Result<Value, E> {
    Ok(match value {
        Value::String(text) => match Template::parse(text) {
            Ok(template) => Value::String(template.fill(fill)?),
            // Checked when the script was read.
            Err(_) => value.clone(),
        },
        Value::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| filled(item, fill))
                .collect::<Result<_, E>>()?,
        ),
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, item)| Ok((name.clone(), filled(item, fill)?)))
                .collect::<Result<_, E>>()?,
        ),
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::{ArgsTemplate, Slot, Template};

    #[test]
    fn placeholders_are_filled_in() {
        for (text, filled) in [
            ("", ""),
            ("plain", "plain"),
            ("a {{last_user}} b {{ turn }}", "a <LastUser> b <Turn>"),
            ("{{tool_result.c1}}", "<ToolResult(\"c1\")>"),
            ("{{{{not one}}", "{{not one}}"),
        ] {
            assert_eq!(
                Template::parse(text)
                    .unwrap()
                    .fill(&mut |slot: &Slot| Ok::<_, Infallible>(format!("<{slot:?}>")))
                    .unwrap(),
                filled,
                "{text}"
            );
        }
        for (text, word) in [
            ("{{nope}}", "`nope`"),
            ("{{turn", "no end"),
            ("{{tool_result.}}", "`tool_result.`"),
        ] {
            let message = Template::parse(text).unwrap_err();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn arguments_keep_their_shape_and_stay_json() {
        let open = json!({"path": "{{cwd}}/a", "n": [1, "{{turn}}", null]});
        let text = ArgsTemplate::parse(open)
            .unwrap()
            .fill(&mut |_: &Slot| Ok::<_, Infallible>("\"q\"".into()))
            .unwrap();
        assert_eq!(text, r#"{"path":"\"q\"/a","n":[1,"\"q\"",null]}"#);
        assert_eq!(
            ArgsTemplate::parse(json!({"a": 1})).unwrap(),
            ArgsTemplate::Ready("{\"a\":1}".into())
        );
        assert!(ArgsTemplate::parse(json!({"a": "{{x}}"})).is_err());
    }
}
