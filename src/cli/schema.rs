//! `longshore schema`: the JSON Schemas of what people and programs write for longshore.

use std::process::ExitCode;

use super::args::SchemaOf;
use super::terminal::{complain, say};

/// Prints one.
pub(super) fn run(of: SchemaOf) -> ExitCode {
    let schema = match of {
        SchemaOf::Protocol => longshore_protocol::schema::document(),
        SchemaOf::Config => crate::config::schema(),
        SchemaOf::Script => crate::provider::scripted::schema().to_value(),
    };
    match serde_json::to_string_pretty(&schema) {
        Ok(text) => {
            say(&text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&format!(
                "longshore: the schema could not be written: {error}"
            ));
            ExitCode::FAILURE
        }
    }
}
