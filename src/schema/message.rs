//! What is wrong with a value, in phrases made from the schema, never from the value.

use std::fmt::Write;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

use super::near::nearest;

/// Names listed in one message at most; a closed object may have hundreds.
const MAX_NAMES: usize = 40;

/// All errors, joined by `; `.
pub(super) fn describe(errors: &[ValidationError<'_>], schema: &Value) -> String {
    let mut phrases: Vec<String> = Vec::new();
    for error in errors {
        for phrase in phrases_of(error, schema) {
            if !phrases.contains(&phrase) {
                phrases.push(phrase);
            }
        }
    }
    phrases.join("; ")
}

fn phrases_of(error: &ValidationError<'_>, schema: &Value) -> Vec<String> {
    match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            if let Some(branch) = meant(context, error) {
                return branch
                    .iter()
                    .flat_map(|error| phrases_of(error, schema))
                    .collect();
            }
            let wanted: Vec<_> = context
                .iter()
                .flatten()
                .filter_map(|error| type_wanted(error, schema))
                .collect();
            if wanted.is_empty() {
                return vec![at(error, "fits none of the allowed forms")];
            }
            let phrase = format!(
                "must be {}, not {}",
                or_list(&wanted),
                type_name(error.instance())
            );
            vec![at(error, &phrase)]
        }
        Kind::PropertyNames { error: inner } => {
            vec![at(
                error,
                &format!(
                    "has a property name that is not allowed ({})",
                    reason(inner, schema)
                ),
            )]
        }
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let place = error.instance_path().as_str();
            vec![if place.is_empty() {
                format!("`{name}` is missing")
            } else {
                format!("{place}: `{name}` is missing")
            }]
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let allowed = allowed_names(error, schema);
            let place = error.instance_path().as_str();
            let place = if place.is_empty() {
                String::new()
            } else {
                format!("{place}: ")
            };
            unexpected
                .iter()
                .map(|name| {
                    format!(
                        "{place}unexpected `{}`{}",
                        short(name),
                        hint(name, &allowed)
                    )
                })
                .collect()
        }
        _ => vec![at(error, &reason(error, schema))],
    }
}

/// `place: phrase`, or a sentence about the whole value.
fn at(error: &ValidationError<'_>, phrase: &str) -> String {
    match error.instance_path().as_str() {
        "" => format!("the value {phrase}"),
        place => format!("{place}: {phrase}"),
    }
}

fn reason(error: &ValidationError<'_>, schema: &Value) -> String {
    match error.kind() {
        Kind::Type { .. } => {
            let wanted = type_wanted(error, schema).unwrap_or_else(|| "of another type".to_owned());
            format!("must be {wanted}, not {}", type_name(error.instance()))
        }
        Kind::Enum { options } => {
            let options: Vec<_> = options
                .as_array()
                .into_iter()
                .flatten()
                .take(MAX_NAMES)
                .map(Value::to_string)
                .collect();
            format!("must be one of {}", options.join(", "))
        }
        Kind::Constant { expected_value } => format!("must be {expected_value}"),
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("must have at least {}", counted(*limit, "character")),
        Kind::MaxLength { limit } => format!("must have at most {}", counted(*limit, "character")),
        Kind::MinItems { limit } => format!("must have at least {}", counted(*limit, "item")),
        Kind::MaxItems { limit } => format!("must have at most {}", counted(*limit, "item")),
        Kind::AdditionalItems { limit } => {
            format!("must have at most {}", counted(*limit as u64, "item"))
        }
        Kind::MinProperties { limit } => format!("must have at least {limit} properties"),
        Kind::MaxProperties { limit } => format!("must have at most {limit} properties"),
        Kind::Pattern { pattern } => format!("must match the pattern {pattern}"),
        Kind::Format { format } => format!("is not a valid {format}"),
        Kind::UniqueItems => "must not hold the same item twice".to_owned(),
        Kind::Contains => "holds no item of the needed form".to_owned(),
        Kind::FalseSchema => "is not allowed here".to_owned(),
        Kind::Not { schema } => match schema.get("const") {
            Some(value) => format!("must not be {value}"),
            None => "has a form that is not allowed".to_owned(),
        },
        Kind::OneOfMultipleValid { .. } => "fits more than one of the allowed forms".to_owned(),
        other => format!("does not satisfy `{}`", other.keyword()),
    }
}

/// The branch the writer most likely meant: the one that got deepest or, at the same depth, failed by something other
/// than its type. None where all branches fail by type alone.
fn meant<'c>(
    branches: &'c [Vec<ValidationError<'static>>],
    error: &ValidationError<'_>,
) -> Option<&'c Vec<ValidationError<'static>>> {
    let here = error.instance_path().as_str().len();
    branches
        .iter()
        .filter(|branch| {
            !branch.is_empty()
                && branch.iter().all(|inner| {
                    inner.instance_path().as_str().len() > here
                        || !matches!(inner.kind(), Kind::Type { .. })
                })
        })
        .max_by_key(|branch| {
            let depth = branch
                .iter()
                .map(|inner| inner.instance_path().as_str().len())
                .max();
            (depth, std::cmp::Reverse(branch.len()))
        })
}

fn type_wanted(error: &ValidationError<'_>, schema: &Value) -> Option<String> {
    if !matches!(error.kind(), Kind::Type { .. }) {
        return None;
    }
    let names: Vec<_> = match schema.pointer(error.schema_path().as_str())? {
        Value::String(name) => vec![with_article(name).to_owned()],
        Value::Array(names) => names
            .iter()
            .filter_map(Value::as_str)
            .map(|name| with_article(name).to_owned())
            .collect(),
        _ => return None,
    };
    Some(or_list(&names))
}

fn or_list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}

fn with_article(name: &str) -> &str {
    match name {
        "string" => "a string",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "true or false",
        "object" => "an object",
        "array" => "an array",
        other => other,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn counted(n: u64, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}

/// The properties of the object node whose closing keyword failed.
fn allowed_names(error: &ValidationError<'_>, schema: &Value) -> Vec<String> {
    let keyword = error.schema_path().as_str();
    let node = keyword
        .rfind('/')
        .and_then(|end| schema.pointer(&keyword[..end]));
    let properties = node
        .and_then(|node| node.get("properties"))
        .and_then(Value::as_object);
    properties
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default()
}

fn hint(name: &str, allowed: &[String]) -> String {
    if allowed.is_empty() {
        return String::new();
    }
    let mut hint = String::from(" (");
    // Writing to a string cannot fail.
    if let [near, ..] = nearest(name, allowed.iter().map(String::as_str), 1).as_slice() {
        let _ = write!(hint, "did you mean `{near}`? ");
    }
    let listed: Vec<_> = allowed.iter().take(MAX_NAMES).map(String::as_str).collect();
    let more = if allowed.len() > MAX_NAMES {
        ", …"
    } else {
        ""
    };
    let _ = write!(hint, "allowed: {}{more})", listed.join(", "));
    hint
}

/// A name comes from the model, so it is bounded too.
fn short(name: &str) -> String {
    if name.chars().count() <= 80 {
        name.to_owned()
    } else {
        name.chars().take(80).chain(['…']).collect()
    }
}
