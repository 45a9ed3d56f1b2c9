//! Which draft a schema is written for.

use jsonschema::Draft;
use serde_json::Value;

/// Keywords that first came with 2020-12.
const SINCE_2020: [&str; 3] = ["prefixItems", "$dynamicAnchor", "$dynamicRef"];

/// Keywords that first came with 2019-09.
const SINCE_2019: [&str; 8] = [
    "dependentRequired",
    "dependentSchemas",
    "maxContains",
    "minContains",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$recursiveAnchor",
    "$recursiveRef",
];

/// Keywords whose members are schemas under free names, so that a name there is no keyword.
const MAPS: [&str; 6] = [
    "properties",
    "patternProperties",
    "definitions",
    "$defs",
    "dependentSchemas",
    "dependencies",
];

/// Keywords whose values are data.
const DATA: [&str; 5] = ["default", "enum", "const", "examples", "required"];

/// The draft a schema names, else the newest whose keywords it uses, else draft-07.
pub(super) fn of(schema: &Value) -> Draft {
    match schema.get("$schema").and_then(Value::as_str) {
        Some(named) if named.contains("2020-12") => Draft::Draft202012,
        Some(named) if named.contains("2019-09") => Draft::Draft201909,
        Some(_) => Draft::Draft7,
        None if uses(schema, &SINCE_2020) => Draft::Draft202012,
        None if uses(schema, &SINCE_2019) => Draft::Draft201909,
        None => Draft::Draft7,
    }
}

fn uses(schema: &Value, keywords: &[&str]) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| {
            if keywords.contains(&name.as_str()) {
                return true;
            }
            match value {
                _ if DATA.contains(&name.as_str()) => false,
                Value::Object(named) if MAPS.contains(&name.as_str()) => {
                    named.values().any(|schema| uses(schema, keywords))
                }
                other => uses(other, keywords),
            }
        }),
        Value::Array(items) => items.iter().any(|item| uses(item, keywords)),
        _ => false,
    }
}
