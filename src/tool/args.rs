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
const MAPS: [&str; 5] = [
    "properties",
    "patternProperties",
    "definitions",
    "$defs",
    "dependencies",
];

/// Keywords whose value is a schema, or a list of them.
const SCHEMAS: [&str; 12] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "anyOf",
    "oneOf",
    "allOf",
];

/// Whether an object node is closed where it does not say so itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closing {
    Close,
    /// The node describes a part of an object that others describe too: closed, it would refuse what they allow.
    Leave,
}

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
    tidy(&mut schema, Closing::Close);
    if let Value::Object(root) = &mut schema {
        // The doc comment of the struct is for readers of the code; the tool has a description of its own.
        root.remove("description");
        // Some providers refuse an object that does not say which members it has, even where it has none.
        root.entry("properties")
            .or_insert_with(|| Value::Object(Map::new()));
    }
    schema
}

/// Strips titles, number formats and `null` alternatives, and closes objects; in schema positions only, so that data
/// (`default`, `enum`, `const`, `examples`) stays as it is.
fn tidy(schema: &mut Value, closing: Closing) {
    let Value::Object(node) = schema else { return };
    node.remove("title");
    node.remove("format");
    if node.get("default") == Some(&Value::Null) {
        node.remove("default");
    }
    drop_null_type(node);
    unwrap_nullable(node);
    let is_composed = node.contains_key("properties") && has_branches_of_its_own(node);
    for (keyword, value) in node.iter_mut() {
        match (keyword.as_str(), value) {
            (name, Value::Object(named)) if MAPS.contains(&name) => {
                named
                    .values_mut()
                    .for_each(|schema| tidy(schema, Closing::Close));
            }
            // What these say holds together with the node they stand in.
            (name @ ("allOf" | "if" | "then" | "else" | "not"), value) => {
                tidy_all(name, value, Closing::Leave);
            }
            (name @ ("anyOf" | "oneOf"), value) if is_composed => {
                tidy_all(name, value, Closing::Leave);
            }
            (name @ ("anyOf" | "oneOf"), value) => tidy_all(name, value, closing),
            (name, value) => tidy_all(name, value, Closing::Close),
        }
    }
    let is_object =
        node.contains_key("properties") || node.get("type") == Some(&Value::from("object"));
    if closing == Closing::Close
        && is_object
        && !is_composed
        && !node.contains_key("additionalProperties")
    {
        node.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
}

/// Whether branches of a node name properties that the node itself does not.
fn has_branches_of_its_own(node: &Map<String, Value>) -> bool {
    ["allOf", "anyOf", "oneOf"]
        .iter()
        .filter_map(|keyword| node.get(*keyword)?.as_array())
        .flatten()
        .any(|branch| branch.get("properties").is_some())
}

fn tidy_all(keyword: &str, value: &mut Value, closing: Closing) {
    match value {
        Value::Array(schemas) if SCHEMAS.contains(&keyword) => {
            for schema in schemas {
                tidy(schema, closing);
            }
        }
        schema if SCHEMAS.contains(&keyword) => tidy(schema, closing),
        _ => {}
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
    let n_before = branches.len();
    branches.retain(|branch| branch.get("type") != Some(&Value::from("null")));
    if branches.len() == n_before {
        return;
    }
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
            offset(text, &error),
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

/// Where the text breaks, in bytes from its beginning. The parser counts lines and columns, both from 1, the latter in
/// bytes.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    if error.is_eof() {
        return text.len();
    }
    let before: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    (before + error.column().saturating_sub(1)).min(text.len())
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
    fn objects_are_closed_where_schemas_stand() {
        let object = || json!({"type": "object", "properties": {"p": {"type": "string"}}});
        let closed = || {
            let mut closed = object();
            closed["additionalProperties"] = json!(false);
            closed
        };
        for (mut schema, expected) in [
            (
                json!({"type": "object"}),
                json!({"type": "object", "additionalProperties": false}),
            ),
            (
                json!({"properties": {"properties": object(), "title": {"title": "x"}}}),
                json!({"properties": {"properties": closed(), "title": {}}, "additionalProperties": false}),
            ),
            (
                json!({"type": "object", "additionalProperties": object()}),
                json!({"type": "object", "additionalProperties": closed()}),
            ),
            (
                json!({"items": [object(), object()], "contains": object(), "propertyNames": object()}),
                json!({"items": [closed(), closed()], "contains": closed(), "propertyNames": closed()}),
            ),
            (
                json!({"oneOf": [object(), {"anyOf": [object(), {"type": "string"}]}]}),
                json!({"oneOf": [closed(), {"anyOf": [closed(), {"type": "string"}]}]}),
            ),
            // Data is no schema.
            (
                json!({"default": object(), "enum": [object()], "const": object(), "examples": [object()]}),
                json!({"default": object(), "enum": [object()], "const": object(), "examples": [object()]}),
            ),
            // What holds together is not closed in parts.
            (json!({"allOf": [object()]}), json!({"allOf": [object()]})),
            (
                json!({"properties": {"q": object()}, "allOf": [object()]}),
                json!({"properties": {"q": closed()}, "allOf": [object()]}),
            ),
            (
                json!({"properties": {"q": {}}, "oneOf": [object()]}),
                json!({"properties": {"q": {}}, "oneOf": [object()]}),
            ),
            (
                json!({"properties": {"q": {}}, "anyOf": [{"required": ["q"]}]}),
                json!({"properties": {"q": {}}, "anyOf": [{"required": ["q"]}], "additionalProperties": false}),
            ),
        ] {
            tidy(&mut schema, Closing::Close);
            assert_eq!(schema, expected);
        }
    }

    #[test]
    fn text() {
        for empty in ["", "  \n", "null", "{}"] {
            assert_eq!(parse(empty), Ok(json!({})));
        }
        for (text, expected) in [
            (
                r#"{"path":"a""#,
                "EOF while parsing an object at byte 11 of 11",
            ),
            ("{\n\"a\": }", "expected value at byte 7 of 8"),
            ("[1]", "one JSON object"),
            ("\"x\"", "one JSON object"),
            ("{\"é\": 1,}", "trailing comma at byte 9 of 10"),
            ("{} {}", "trailing characters at byte 3 of 5"),
            (r#"{"a": "\ud800"}"#, "of 15"),
            ("{\"a\": \"secret-42", "EOF while parsing a string at byte"),
        ] {
            let refusal = parse(text).unwrap_err();
            assert!(
                refusal.message.contains(expected),
                "{text}: {}",
                refusal.message
            );
            assert!(refusal.message.contains("not executed"));
            assert!(!refusal.message.contains("secret"), "no value is echoed");
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
