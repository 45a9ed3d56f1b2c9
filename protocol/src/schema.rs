//! The protocol as one JSON Schema document and one table for people, both made from the tables of this crate.
//!
//! The bin `longshore-schema` writes them to `schema/`; a test compares. Client types are generated from the document,
//! so definitions have names that do not depend on the order of the tables.

use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::PROTOCOL_VERSION;
use crate::envelope::RequestId;
use crate::error::{ErrorKind, RpcError};
use crate::event::{Common, Event};
use crate::method::{Method, Scope};
use crate::reverse::Reverse;

/// Everything that is said on the wire.
///
/// The document is a schema of one line, whichever side writes it; types are under `$defs`. Beside that it has the
/// tables: `methods`, `events` and `reverseRequests` by name, and `errors`.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let methods = table(Method::ALL.iter().map(|method| {
        let (params, result) = method.schemas(&mut generator);
        let row = json!({
            "description": method.doc(), "scope": scope(method.scope()), "since": method.since(),
            "params": params, "result": result,
        });
        (method.name(), row)
    }));
    let events = table(Event::ALL.iter().map(|event| {
        let common = generator.subschema_for::<Common>();
        let payload = event.payload_schema(&mut generator);
        let row = json!({
            "description": event.doc(), "durable": event.durable(),
            "params": {"allOf": [common, payload]},
        });
        (event.name(), row)
    }));
    let reverse = table(Reverse::ALL.iter().map(|reverse| {
        let (params, result) = reverse.schemas(&mut generator);
        let row = json!({
            "description": reverse.doc(), "capability": reverse.capability(),
            "params": params, "result": result,
        });
        (reverse.name(), row)
    }));
    let errors: Vec<_> = ErrorKind::ALL
        .iter()
        .map(|kind| json!({"kind": kind, "code": kind.code(), "retryable": kind.retryable()}))
        .collect();
    let envelope = envelope(&mut generator);
    let mut defs = generator.take_definitions(true);
    for (name, schema) in envelope_defs(&methods, &events, &reverse) {
        let earlier = defs.insert(name, schema);
        debug_assert!(
            earlier.is_none(),
            "a type has the name of a kind of message"
        );
    }
    defs.sort_keys();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The native protocol of longshore",
        "protocolVersion": PROTOCOL_VERSION,
        "anyOf": envelope,
        "methods": methods,
        "events": events,
        "reverseRequests": reverse,
        "errors": errors,
        "$defs": defs,
    })
}

/// [`document`] as it stands in `schema/longshore.schema.json`.
pub fn document_text() -> String {
    format!("{:#}\n", document())
}

/// The tables for people, as they stand in `schema/methods.md`.
pub fn tables_text() -> String {
    let mut text = format!(
        "# The tables of protocol version {PROTOCOL_VERSION}\n\nGenerated; types are in `longshore.schema.json`.\n"
    );
    let mut generator = SchemaGenerator::default();
    text.push_str("\n## Methods, host to server\n\n| Method | Params | Result | What it does |\n|---|---|---|---|\n");
    for method in Method::ALL {
        let (params, result) = method.schemas(&mut generator);
        row(
            &mut text,
            &[
                &code(method.name()),
                &type_name(&params),
                &type_name(&result),
                method.doc(),
            ],
        );
    }
    text.push_str("\n## Events, server to host\n\n| Event | Kept | Fields of its own | What it means |\n|---|---|---|---|\n");
    for event in Event::ALL {
        let payload = event.payload_schema(&mut generator);
        let kept = if event.durable() { "durable" } else { "live" };
        row(
            &mut text,
            &[&code(event.name()), kept, &type_name(&payload), event.doc()],
        );
    }
    text.push_str("\n## Reverse requests, server to host\n\n| Method | Capability | Params | Answer | What it asks |\n|---|---|---|---|---|\n");
    for reverse in Reverse::ALL {
        let (params, answer) = reverse.schemas(&mut generator);
        let capability = code(reverse.capability());
        let names = [type_name(&params), type_name(&answer)];
        row(
            &mut text,
            &[
                &code(reverse.name()),
                &capability,
                &names[0],
                &names[1],
                reverse.doc(),
            ],
        );
    }
    text.push_str("\n## Error kinds\n\n| Kind | Code | Trying again can help |\n|---|---|---|\n");
    for kind in ErrorKind::ALL {
        let retryable = if kind.retryable() { "yes" } else { "no" };
        row(
            &mut text,
            &[&code(kind.as_str()), &kind.code().to_string(), retryable],
        );
    }
    text
}

fn table<'a>(rows: impl Iterator<Item = (&'a str, Value)>) -> Map<String, Value> {
    rows.map(|(name, row)| (name.to_owned(), row)).collect()
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Connection => "connection",
        Scope::Server => "server",
        Scope::Session => "session",
    }
}

/// The kinds of lines.
fn envelope(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<RequestId>();
    generator.subschema_for::<RpcError>();
    let reference = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
    let kinds = [
        "RequestMessage",
        "ReverseRequestMessage",
        "EventMessage",
        "CancelMessage",
        "ResultMessage",
        "ErrorMessage",
        "BatchMessage",
    ];
    Value::Array(kinds.map(reference).to_vec())
}

fn envelope_defs(
    methods: &Map<String, Value>,
    events: &Map<String, Value>,
    reverse: &Map<String, Value>,
) -> Map<String, Value> {
    let version = json!({"const": "2.0"});
    let id = json!({"$ref": "#/$defs/RequestId"});
    let call = |name: &str, row: &Value, has_id: bool| {
        let mut properties =
            json!({"jsonrpc": version, "method": {"const": name}, "params": row["params"]});
        let mut required = vec!["method"];
        if has_id {
            properties["id"] = id.clone();
            required.push("id");
        }
        json!({"type": "object", "properties": properties, "required": required})
    };
    let calls = |rows: &Map<String, Value>, has_id| -> Vec<_> {
        rows.iter()
            .map(|(name, row)| call(name, row, has_id))
            .collect()
    };
    let message = |description: &str, properties: Value, required: &[&str]| json!({"description": description, "type": "object", "properties": properties, "required": required});
    let defs = json!({
        "RequestMessage": {"description": "A host asks.", "oneOf": calls(methods, true)},
        "ReverseRequestMessage": {"description": "The server asks a host.", "oneOf": calls(reverse, true)},
        "EventMessage": {"description": "The server tells a host of an event.", "oneOf": calls(events, false)},
        "CancelMessage": message(
            "Either side takes a request of its own back; the id is spelled as the request spelled it.",
            json!({
                "jsonrpc": version, "method": {"const": "$/cancelRequest"},
                "params": {"type": "object", "properties": {"id": id}, "required": ["id"]},
            }),
            &["method", "params"],
        ),
        "ResultMessage": message(
            "The answer to a request.",
            json!({"jsonrpc": version, "id": id, "result": true}),
            &["id", "result"],
        ),
        "ErrorMessage": message(
            "The refusal of a request, or its failure.",
            json!({"jsonrpc": version, "id": id, "error": {"$ref": "#/$defs/RpcError"}}),
            &["id", "error"],
        ),
        "BatchMessage": {
            "description": "Requests and notifications of a host in one line; the replies come in one line too.",
            "type": "array", "minItems": 1,
        },
    });
    match defs {
        Value::Object(defs) => defs,
        _ => Map::new(),
    }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// The last part of a reference to a definition.
fn type_name(schema: &Schema) -> String {
    let reference = schema
        .get("$ref")
        .and_then(Value::as_str)
        .unwrap_or_default();
    code(reference.rsplit('/').next().unwrap_or_default())
}

fn row(text: &mut String, cells: &[&str]) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_committed_files_are_fresh() {
        let hint = "run: cargo run -p longshore-protocol --bin longshore-schema";
        assert!(
            include_str!("../schema/longshore.schema.json") == document_text(),
            "{hint}"
        );
        assert!(
            include_str!("../schema/methods.md") == tables_text(),
            "{hint}"
        );
    }

    #[test]
    fn every_reference_leads_somewhere_and_no_name_is_numbered() {
        fn references(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Object(members) => {
                    if let Some(Value::String(reference)) = members.get("$ref") {
                        found.insert(reference.clone());
                    }
                    members.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 50, "{}", found.len());
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
            assert!(
                !reference.ends_with(|c: char| c.is_ascii_digit()),
                "{reference}: two types of one name"
            );
        }
    }

    #[test]
    fn every_row_has_a_description() {
        let document = document();
        for table in ["methods", "events", "reverseRequests"] {
            for (name, row) in document[table].as_object().unwrap() {
                assert!(
                    row["description"]
                        .as_str()
                        .is_some_and(|text| text.ends_with('.') || text.ends_with('?')),
                    "{name}"
                );
                assert!(
                    name.contains('/') || !name.contains(char::is_uppercase),
                    "{name}"
                );
            }
        }
    }
}
