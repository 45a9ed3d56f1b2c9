//! Reads a script from text in any of its formats.

use serde::de::DeserializeOwned;

use super::ScriptError;
use super::dsl;
use super::format::{Script, Turn};
use super::program::Program;
use crate::text::yaml;

/// How a script is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// One turn in JSON on each line.
    JsonLines,
    /// The line language.
    Echo,
}

impl Format {
    /// By a file's name: `.json`, `.yaml`, `.yml`, `.jsonl`, `.echo`.
    pub fn of_path(path: &std::path::Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            "jsonl" => Some(Self::JsonLines),
            "echo" => Some(Self::Echo),
            _ => None,
        }
    }

    /// By how the text begins.
    fn sniff(text: &str) -> Self {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines
            .clone()
            .find(|line| !dsl::is_noise(line))
            .unwrap_or_default();
        if first.starts_with('{') {
            let own = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(first);
            let is_turn = own.is_ok_and(|members| {
                !members.contains_key("turns") && !members.contains_key("lanes")
            });
            return if is_turn { Self::JsonLines } else { Self::Json };
        }
        if lines.any(|line| dsl::key(line).is_some()) && dsl::key(first).is_some() {
            Self::Echo
        } else {
            Self::Yaml
        }
    }
}

/// Reads and checks a script.
pub(super) fn read(text: &str, format: Option<Format>) -> Result<Program, ScriptError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let script = match format.unwrap_or_else(|| Format::sniff(text)) {
        Format::Json => json(text, 0)?,
        Format::Yaml => {
            yaml::from_str::<Script>(text).map_err(|error| ScriptError::new(error.to_string()))?
        }
        Format::JsonLines => Script {
            turns: text
                .lines()
                .enumerate()
                .filter(|(_, line)| !line.trim().is_empty())
                .map(|(at, line)| json::<Turn>(line, at))
                .collect::<Result<_, _>>()?,
            ..Script::default()
        },
        Format::Echo => Script {
            turns: dsl::turns(text)?,
            ..Script::default()
        },
    };
    Program::new(script)
}

fn json<T: DeserializeOwned>(text: &str, lines_before: usize) -> Result<T, ScriptError> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line() + lines_before, error.column());
        let full = error.to_string();
        let place = format!(" at line {} column {column}", error.line());
        let reason = full.strip_suffix(&place).unwrap_or(&full);
        ScriptError::new(format!("line {line}, column {column}: {reason}"))
    })
}
