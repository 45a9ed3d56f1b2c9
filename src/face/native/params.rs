//! Reads params, and says exactly what is wrong with them.

use std::fmt::Write;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::invalid_params;
use crate::kernel::fault::Fault;

/// What happens to fields the protocol does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// Nothing.
    Ignore,
    /// They are refused, since the host asked for it.
    Refuse,
}

/// Reads params. Absent ones count as an empty object.
///
/// # Errors
/// `invalid_params` with `path` (a JSON pointer) and `expected`.
pub(super) fn parse<P: DeserializeOwned>(text: Option<&str>, unknown: Unknown) -> Result<P, Fault> {
    let text = text.unwrap_or("{}");
    if !text.trim_ascii_start().starts_with('{') {
        let expected = "an object";
        return Err(invalid_params(
            "",
            expected,
            "The params must be an object.",
        ));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let mut track = serde_path_to_error::Track::new();
    let reader = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let mut strange = None;
    let read = if unknown == Unknown::Refuse {
        serde_ignored::deserialize(reader, |path| {
            strange.get_or_insert_with(|| ignored_pointer(&path));
        })
    } else {
        P::deserialize(reader)
    };
    match (read, strange) {
        (Err(error), _) => Err(unreadable(&pointer(&track.path()), &error.to_string())),
        (Ok(_), Some(path)) => {
            let expected = "no field of this name";
            Err(invalid_params(
                &path,
                expected,
                format!("The field {path} is not known."),
            ))
        }
        (Ok(params), None) => Ok(params),
    }
}

/// Whether the params of an `initialize` ask for strictness.
pub(super) fn asks_strict(text: Option<&str>) -> Unknown {
    #[derive(Deserialize)]
    struct Strict {
        #[serde(default)]
        strict: bool,
    }
    match text.map(serde_json::from_str::<Strict>) {
        Some(Ok(Strict { strict: true })) => Unknown::Refuse,
        _ => Unknown::Ignore,
    }
}

/// What is wrong with an answer of a host, as one clause.
pub(super) fn complaint(error: &serde_json::Error) -> String {
    without_place(&error.to_string()).to_owned()
}

fn unreadable(path: &str, error: &str) -> Fault {
    let error = without_place(error);
    if let Some(field) = error
        .strip_prefix("missing field `")
        .and_then(|rest| rest.strip_suffix('`'))
    {
        let path = format!("{path}/{}", escape(field));
        return invalid_params(&path, "a value", format!("The field {path} is missing."));
    }
    let expected = error
        .split_once("expected ")
        .map_or(error, |(_, expected)| expected);
    let place = if path.is_empty() {
        "The params".to_owned()
    } else {
        format!("The field {path}")
    };
    invalid_params(path, expected, format!("{place} can't be read: {error}."))
}

/// Cuts off the line and column: a message is one line.
fn without_place(error: &str) -> &str {
    error.rfind(" at line ").map_or(error, |at| &error[..at])
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;

    let mut pointer = String::new();
    for segment in path {
        // Writing to a string cannot fail.
        let _ = match segment {
            Segment::Seq { index } => write!(pointer, "/{index}"),
            Segment::Map { key } => write!(pointer, "/{}", escape(key)),
            Segment::Enum { .. } | Segment::Unknown => Ok(()),
        };
    }
    pointer
}

fn ignored_pointer(path: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path;

    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}/{index}", ignored_pointer(parent)),
        Path::Map { parent, key } => format!("{}/{}", ignored_pointer(parent), escape(key)),
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => ignored_pointer(parent),
    }
}

/// As RFC 6901 has it.
fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use longshore_protocol::method::host::{InitializeParams, PingParams};
    use longshore_protocol::method::session::{CreateParams, SetParams};
    use longshore_protocol::method::turn::StartParams;
    use serde_json::Value;

    use super::*;

    /// Path and expectation of the refusal.
    fn refused<P: DeserializeOwned>(
        text: Option<&str>,
        unknown: Unknown,
    ) -> Option<(String, String)> {
        let fault = parse::<P>(text, unknown).err()?;
        let member = |name: &str| fault.data[name].as_str().unwrap().to_owned();
        Some((member("path"), member("expected")))
    }

    fn check<P: DeserializeOwned>(text: &str, path: &str, expected: &str) {
        let found =
            refused::<P>(Some(text), Unknown::Ignore).unwrap_or_else(|| panic!("{text} is taken"));
        assert_eq!(found, (path.to_owned(), expected.to_owned()), "{text}");
    }

    #[test]
    fn a_refusal_names_the_place_and_what_was_expected() {
        check::<CreateParams>("[1]", "", "an object");
        check::<PingParams>("[]", "", "an object");
        check::<PingParams>("7", "", "an object");
        check::<CreateParams>("{}", "/cwd", "a value");
        check::<CreateParams>(r#"{"cwd":5}"#, "/cwd", "a string");
        check::<CreateParams>(
            r#"{"cwd":"/","additionalDirs":["/a",true]}"#,
            "/additionalDirs/1",
            "a string",
        );
        check::<CreateParams>(
            r#"{"cwd":"/","mode":"loud"}"#,
            "/mode",
            "one of `manual`, `auto`, `yolo`",
        );
        check::<StartParams>(
            r#"{"sessionId":"s","input":7}"#,
            "/input",
            "a string or an array of content parts",
        );
        check::<InitializeParams>(r#"{"protocolVersion":1}"#, "/host", "a value");
        check::<InitializeParams>(
            r#"{"protocolVersion":1,"host":{"name":"n","version":"1"},"capabilities":{"approvals":"yes"}}"#,
            "/capabilities/approvals",
            "a boolean",
        );
    }

    #[test]
    fn absent_params_are_an_empty_object() {
        assert!(parse::<PingParams>(None, Unknown::Refuse).is_ok());
        let (path, _) = refused::<CreateParams>(None, Unknown::Ignore).unwrap();
        assert_eq!(path, "/cwd");
    }

    #[test]
    fn unknown_fields_are_refused_only_on_demand() {
        for (text, path) in [
            (r#"{"sessionId":"s","titel":"x"}"#, "/titel"),
            (r#"{"sessionId":"s","a/b~":{"c":1}}"#, "/a~1b~0"),
        ] {
            assert!(parse::<SetParams>(Some(text), Unknown::Ignore).is_ok());
            let refusal = refused::<SetParams>(Some(text), Unknown::Refuse);
            assert_eq!(
                refusal,
                Some((path.to_owned(), "no field of this name".to_owned()))
            );
        }
        let text = r#"{"sessionId":"s","metadata":{"anything":{"goes":1}}}"#;
        assert!(parse::<SetParams>(Some(text), Unknown::Refuse).is_ok());
        assert_eq!(
            asks_strict(Some(r#"{"strict":true,"x":1}"#)),
            Unknown::Refuse
        );
        assert_eq!(asks_strict(Some(r#"{"strict":1}"#)), Unknown::Ignore);
        assert_eq!(asks_strict(None), Unknown::Ignore);
    }

    #[test]
    fn complaints_do_not_speak_of_lines() {
        let error = serde_json::from_str::<Vec<Value>>("7").unwrap_err();
        assert_eq!(
            complaint(&error),
            "invalid type: integer `7`, expected a sequence"
        );
    }
}
