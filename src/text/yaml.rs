//! YAML, behind one door: the only user of the YAML crate, so that it can be replaced in one place.

use std::fmt;

use serde::de::DeserializeOwned;

/// A document that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError {
    /// From 1; 0 where the place is not known.
    pub line: usize,
    /// From 1; 0 where the place is not known.
    pub column: usize,
    /// The reason, lower case, without the place.
    pub message: String,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return f.write_str(&self.message);
        }
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.message
        )
    }
}

impl std::error::Error for YamlError {}

/// Reads one document.
///
/// # Errors
/// Where the text is not YAML, or not a `T`: with the line of the offending key or value.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    serde_yaml::from_str(text).map_err(|error| {
        let (line, column) = error
            .location()
            .map_or((0, 0), |at| (at.line(), at.column()));
        let full = error.to_string();
        let place = format!(" at line {line} column {column}");
        YamlError {
            line,
            column,
            message: full.strip_suffix(&place).unwrap_or(&full).to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{YamlError, from_str};

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Point {
        x: i32,
    }

    #[test]
    fn reads_a_document() {
        assert_eq!(
            from_str::<Vec<Point>>("- x: 1\n- {x: 2}\n"),
            Ok(vec![Point { x: 1 }, Point { x: 2 }])
        );
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line, word) in [
            ("- x: 1\n- x: 1\n  y: 2\n", 3, "unknown field `y`"),
            ("- x: one\n", 1, "expected i32"),
            ("- x: 1\n\t- x: 2\n", 2, "character"),
        ] {
            let YamlError {
                line: got, message, ..
            } = from_str::<Vec<Point>>(text).unwrap_err();
            assert_eq!(got, line, "{text:?}: {message}");
            assert!(message.contains(word), "{text:?}: {message}");
        }
    }
}
