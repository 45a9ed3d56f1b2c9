//! From the argument text of a model to a value a tool can trust, and from an argument struct to the schema the model
//! sees.
//!
//! Nothing is repaired that could change the meaning: text that is not JSON is refused with the place where it breaks.
//! Two harmless habits of models are taken in: `null` for an optional argument means that it is absent, and `3.0` is 3.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Refusal;

/// Keywords whose members are schemas under free names.
const MAPS: [&str; 4] = ["properties", "patternProperties", "definitions", "$defs"];

/// The schema of an argument struct: draft-07, nothing referred to, objects closed, without the parts that say nothing
/// to a model.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07()
        .for_deserialize()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
    let schema: Schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    tidy(&mut schema);
    if let Value::Object(root) = &mut schema {
        // The doc comment of the struct is for readers of the code; the tool has a description of its own.
        root.remove("description");
    }
    schema
}

/// Strips titles, number formats and `null` alternatives, and closes objects; in schema positions only.
fn tidy(schema: &mut Value) {
    let Value::Object(node) = schema else { return };
    node.remove("title");
    node.remove("format");
    if node.get("default") == Some(&Value::Null) {
        node.remove("default");
    }
    drop_null_type(node);
    unwrap_nullable(node);
    for (keyword, value) in node.iter_mut() {
        match (keyword.as_str(), value) {
            (name, Value::Object(named)) if MAPS.contains(&name) => {
                named.values_mut().for_each(tidy);
            }
            ("items" | "additionalProperties" | "not" | "contains", value) => tidy(value),
            ("anyOf" | "oneOf" | "allOf", Value::Array(branches)) => {
                branches.iter_mut().for_each(tidy);
            }
            _ => {}
        }
    }
    if node.contains_key("properties") && !node.contains_key("additionalProperties") {
        node.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
}

/// `{"type": ["string", "null"]}` is `{"type": "string"}`: an absent argument says the same.
fn drop_null_type(node: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = node.get_mut("type") else {
        return;
    };
    types.retain(|name| name != "null");
    if let [only] = types.as_slice() {
        let only = only.clone();
        node.insert("type".to_owned(), only);
    }
    if let Some(Value::Array(options)) = node.get_mut("enum") {
        options.retain(|option| !option.is_null());
    }
}

/// `{"anyOf": [X, {"type": "null"}]}` is X.
fn unwrap_nullable(node: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = node.get_mut("anyOf") else {
        return;
    };
    branches.retain(|branch| branch.get("type") != Some(&Value::from("null")));
    if let [Value::Object(only)] = branches.as_mut_slice() {
        let only = std::mem::take(only);
        node.remove("anyOf");
        for (keyword, value) in only {
            // What stands beside the alternatives, such as a description, is about this very argument.
            node.entry(keyword).or_insert(value);
        }
    }
}

/// Reads argument text. Nothing at all, and `null`, mean no arguments.
///
/// # Errors
/// The text is not JSON, or not an object.
pub fn parse(text: &str) -> Result<Value, Refusal> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_str(text) {
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Refusal::new(
            "The arguments must be one JSON object. The call was not executed.",
        )),
        Err(error) => Err(Refusal::new(format!(
            "The arguments are not valid JSON ({} at byte {} of {}). The call was not executed; send it again as one \
             complete JSON object.",
            describe(&error),
            offset(text, error.line(), error.column()),
            text.len(),
        ))),
    }
}

/// The parser's reason without its own place, which counts lines and columns.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Line and column, both from 1 and in bytes, as an offset from 0.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    (before + column.saturating_sub(1)).min(text.len())
}

/// Takes in what models do harmlessly wrong, guided by the schema: see the module.
pub fn normalize(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(members) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let required = |name: &str| {
                let required = schema.get("required").and_then(Value::as_array);
                required.is_some_and(|names| names.iter().any(|required| required == name))
            };
            members.retain(|name, member| {
                let property = properties.and_then(|properties| properties.get(name));
                !(member.is_null()
                    && !required(name)
                    && property.is_some_and(|property| !takes_null(property)))
            });
            for (name, member) in members.iter_mut() {
                if let Some(property) = properties.and_then(|properties| properties.get(name)) {
                    normalize(member, property);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items").filter(|schema| schema.is_object()) {
                for item in items {
                    normalize(item, schema);
                }
            }
        }
        Value::Number(number) => {
            let is_integer = schema.get("type").is_some_and(|kind| kind == "integer");
            // Beyond 2^53 a float no longer says which integer was meant.
            if let Some(float) = number
                .as_f64()
                .filter(|float| is_integer && number.is_f64() && float.abs() < 9e15)
                && float.fract() == 0.0
            {
                *value = Value::from(float as i64);
            }
        }
        _ => {}
    }
}

/// Whether a schema may accept `null`; unsure counts as yes, so that nothing meaningful is dropped.
fn takes_null(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == "null",
        Some(Value::Array(names)) => names.iter().any(|name| name == "null"),
        _ => match schema.get("enum").and_then(Value::as_array) {
            Some(options) => options.iter().any(Value::is_null),
            None => true,
        },
    }
}

/// Reads checked arguments into a tool's own struct.
///
/// # Errors
/// They don't fit, which the schema should have told; the message names the place, not the value.
pub fn typed<T: DeserializeOwned>(args: Value) -> Result<T, Refusal> {
    serde_path_to_error::deserialize(args).map_err(|error| {
        let place = error.path().to_string();
        Refusal::new(format!(
            "The argument `{place}` has a value that cannot be used. The call was not executed."
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// Not shown.
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Args {
        /// Which.
        path: String,
        /// How many.
        #[serde(default = "ten")]
        #[schemars(range(min = 1))]
        n: u32,
        /// Perhaps.
        #[serde(default, rename = "-A")]
        after: Option<u32>,
        #[serde(default)]
        mode: Option<Mode>,
        #[serde(default)]
        inner: Vec<Inner>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        One,
        Two,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        title: String,
    }

    fn ten() -> u32 {
        10
    }

    #[test]
    fn schemas_say_only_what_a_model_needs() {
        assert_eq!(
            schema_of::<Args>(),
            json!({
                "type": "object",
                "properties": {
                    "path": {"description": "Which.", "type": "string"},
                    "n": {"description": "How many.", "type": "integer", "minimum": 1, "default": 10},
                    "-A": {"description": "Perhaps.", "type": "integer", "minimum": 0},
                    "mode": {"type": "string", "enum": ["one", "two"]},
                    "inner": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"title": {"type": "string"}},
                            "additionalProperties": false,
                            "required": ["title"]
                        }
                    }
                },
                "additionalProperties": false,
                "required": ["path"]
            })
        );
    }

    #[test]
    fn text() {
        for empty in ["", "  \n", "null", "{}"] {
            assert_eq!(parse(empty), Ok(json!({})));
        }
        for (text, expected) in [
            (
                r#"{"path":"a""#,
                "EOF while parsing an object at byte 10 of 11",
            ),
            ("{\n\"a\": }", "expected value at byte 7 of 8"),
            ("[1]", "one JSON object"),
            ("\"x\"", "one JSON object"),
        ] {
            let refusal = parse(text).unwrap_err();
            assert!(
                refusal.message.contains(expected),
                "{text}: {}",
                refusal.message
            );
            assert!(refusal.message.contains("not executed"));
        }
    }

    #[test]
    fn harmless_habits() {
        let schema = schema_of::<Args>();
        let mut value =
            json!({"path": "x", "n": 3.0, "-A": null, "mode": null, "inner": [{"title": "t"}]});
        normalize(&mut value, &schema);
        assert_eq!(
            value,
            json!({"path": "x", "n": 3, "inner": [{"title": "t"}]})
        );
        let args: Args = typed(value).unwrap();
        assert_eq!((args.n, args.after), (3, None));

        let mut kept = json!({"path": null, "n": 3.5, "unknown": null});
        normalize(&mut kept, &schema);
        assert_eq!(kept, json!({"path": null, "n": 3.5, "unknown": null}));
    }

    #[test]
    fn misfits_name_the_place_only() {
        let refusal = typed::<Args>(json!({"path": "x", "inner": [{"title": 5}]})).unwrap_err();
        assert!(
            refusal.message.contains("`inner[0].title`"),
            "{}",
            refusal.message
        );
    }
}
