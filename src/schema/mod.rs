//! JSON Schema behind one door: which draft a schema means, compiling it once, and errors a model can act on.
//!
//! Messages name every error at once, and never repeat the value that was wrong: it may be a megabyte, or a secret.
//! No schema makes the server fetch anything. Start with [`Validator`].

mod draft;
mod message;
mod near;

pub use near::nearest;

use serde_json::Value;

/// A compiled schema.
#[derive(Debug)]
pub struct Validator {
    compiled: jsonschema::Validator,
    schema: Value,
}

/// A schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SchemaError {
    /// What is wrong with it.
    pub reason: String,
}

impl Validator {
    /// Compiles a schema, under the draft it names or gives away by its keywords.
    ///
    /// # Errors
    /// The schema is malformed, or refers to something that is not in it.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let compiled = jsonschema::options()
            .with_draft(draft::of(schema))
            .should_validate_formats(true)
            .should_ignore_unknown_formats(true)
            .offline()
            .build(schema)
            .map_err(|error| SchemaError {
                reason: error.masked().to_string(),
            })?;
        Ok(Self {
            compiled,
            schema: schema.clone(),
        })
    }

    /// Checks a value.
    ///
    /// # Errors
    /// All that is wrong, as phrases joined by `; `, without the value itself.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let errors: Vec<_> = self.compiled.iter_errors(value).collect();
        if errors.is_empty() {
            return Ok(());
        }
        Err(message::describe(&errors, &self.schema))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(schema: Value, value: Value) -> String {
        Validator::compile(&schema)
            .unwrap()
            .check(&value)
            .unwrap_err()
    }

    #[test]
    fn names_every_error_and_no_value() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1},
                "n_lines": {"type": "integer", "minimum": 1},
                "mode": {"enum": ["overwrite", "append"]}
            },
            "required": ["path"],
            "additionalProperties": false
        });
        for (value, expected) in [
            (json!({}), "`path` is missing"),
            (
                json!({"path": 1, "bogus": 2}),
                "/path: must be a string, not an integer; unexpected `bogus` (allowed: path, n_lines, mode)",
            ),
            (
                json!({"path": "x", "nlines": 3}),
                "unexpected `nlines` (did you mean `n_lines`? allowed: path, n_lines, mode)",
            ),
            (
                json!({"path": "", "n_lines": 0, "mode": "sECRET"}),
                "/path: must have at least 1 character; /n_lines: must be at least 1; \
                 /mode: must be one of \"overwrite\", \"append\"",
            ),
            (json!([]), "the value must be an object, not an array"),
        ] {
            assert_eq!(errors(schema.clone(), value), expected);
        }
    }

    #[test]
    fn descends_into_the_branch_that_was_meant() {
        let schema = json!({"anyOf": [
            {"type": "null"},
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
        ]});
        assert_eq!(
            errors(schema, json!({"a": 1})),
            "`b` is missing; /a: must be a string, not an integer"
        );
        let nested =
            json!({"properties": {"x": {"oneOf": [{"type": "string"}, {"type": "array"}]}}});
        assert_eq!(
            errors(nested, json!({"x": 1})),
            "/x: must be a string or an array, not an integer"
        );
    }

    #[test]
    fn drafts() {
        // An array of `items` is a tuple up to 2019-09, and malformed in 2020-12.
        let tuple = json!({"type": "array", "items": [{"type": "string"}, {"type": "integer"}]});
        assert_eq!(
            errors(tuple.clone(), json!(["a", "b"])),
            "/1: must be an integer, not a string"
        );
        let mut newer = tuple;
        newer["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        assert!(Validator::compile(&newer).is_err());
        let prefix = json!({"properties": {"p": {"prefixItems": [{"type": "string"}]}}});
        assert_eq!(
            errors(prefix, json!({"p": [1]})),
            "/p/0: must be a string, not an integer"
        );
        let dependent = json!({"dependentRequired": {"a": ["b"]}});
        assert_eq!(errors(dependent, json!({"a": 1})), "`b` is missing");
        // The same words as names of properties say nothing.
        let named = json!({"properties": {"prefixItems": {"type": "array", "items": [{"type": "string"}]}}});
        assert!(Validator::compile(&named).is_ok());
    }

    #[test]
    fn negations() {
        assert_eq!(
            errors(json!({"not": {"const": 0}}), json!(0)),
            "the value must not be 0"
        );
    }

    #[test]
    fn formats_are_checked() {
        assert_eq!(
            errors(json!({"format": "ipv4"}), json!("secret")),
            "the value is not a valid ipv4"
        );
        assert!(
            Validator::compile(&json!({"format": "uint32"}))
                .unwrap()
                .check(&json!(1))
                .is_ok()
        );
    }

    #[test]
    fn nothing_is_fetched() {
        let error = Validator::compile(&json!({"$ref": "https://example.invalid/schema.json"}))
            .unwrap_err();
        assert!(error.reason.contains("example.invalid"), "{error}");
    }
}
