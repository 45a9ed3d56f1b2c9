//! The tools of one agent, by name, each with its compiled schema.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Refusal, Tool, args};
use crate::kernel::message::ToolDef;
use crate::schema::{SchemaError, Validator, nearest};

/// Names offered for one that is unknown.
const MAX_SUGGESTIONS: usize = 3;

/// Tools in the order they were given; names are unique.
pub struct Registry {
    entries: Vec<Entry>,
    by_name: HashMap<Arc<str>, usize>,
    /// Made once, since every model request declares them.
    defs: Arc<[ToolDef]>,
}

/// One tool, ready to be called.
pub struct Entry {
    tool: Arc<dyn Tool>,
    name: Arc<str>,
    /// A tool whose schema cannot be compiled stays known, and each call of it is refused with the reason.
    validator: Result<Validator, SchemaError>,
}

impl Registry {
    /// Makes a registry. Of two tools of one name the first is kept.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut registry = Self {
            entries: Vec::new(),
            by_name: HashMap::new(),
            defs: Arc::from([]),
        };
        for tool in tools {
            let name: Arc<str> = tool.spec().name.into();
            if registry.by_name.contains_key(&name) {
                continue;
            }
            let validator = Validator::compile(&tool.spec().parameters);
            registry
                .by_name
                .insert(Arc::clone(&name), registry.entries.len());
            registry.entries.push(Entry {
                tool,
                name,
                validator,
            });
        }
        registry.defs = registry.entries.iter().map(Entry::def).collect();
        registry
    }

    /// Finds a tool.
    ///
    /// # Errors
    /// There is none of that name; for the model, with names that look alike.
    pub fn get(&self, name: &str) -> Result<&Entry, Refusal> {
        if let Some(index) = self.by_name.get(name) {
            return Ok(&self.entries[*index]);
        }
        let near = nearest(name, self.names(), MAX_SUGGESTIONS);
        let shown = super::output::first_chars(name, 80);
        let hint = if near.is_empty() {
            String::new()
        } else {
            format!(" Did you mean {}?", near.join(" or "))
        };
        Err(Refusal::new(format!(
            "There is no tool named {shown}.{hint} The call was not executed."
        )))
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_ref())
    }

    /// What a model request declares, in order.
    pub fn defs(&self) -> Arc<[ToolDef]> {
        Arc::clone(&self.defs)
    }
}

impl Entry {
    fn def(&self) -> ToolDef {
        ToolDef {
            name: Arc::clone(&self.name),
            description: Arc::clone(&self.tool.spec().description),
            parameters: Arc::clone(&self.tool.spec().parameters),
        }
    }

    /// The tool.
    pub fn tool(&self) -> &Arc<dyn Tool> {
        &self.tool
    }

    /// Brings arguments into their one form and checks them.
    ///
    /// # Errors
    /// They do not fit the schema; for the model, naming every error and no value.
    pub fn check(&self, value: &mut Value) -> Result<(), Refusal> {
        args::normalize(value, &self.tool.spec().parameters);
        match &self.validator {
            Ok(validator) => validator.check(value).map_err(|errors| {
                Refusal::new(format!("Invalid arguments for {}: {errors}.", self.name))
            }),
            Err(error) => Err(Refusal::new(format!(
                "{} can't be called: its schema is broken ({error}).",
                self.name
            ))),
        }
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::{Call, CallCx, ToolSpec};

    struct Fake(ToolSpec);

    impl Tool for Fake {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }

        fn resolve(&self, _: Value, _: &CallCx) -> Result<Call, Refusal> {
            Err(Refusal::new("fake"))
        }
    }

    fn fake(name: &'static str, parameters: Value) -> Arc<dyn Tool> {
        Arc::new(Fake(ToolSpec {
            name,
            description: name.into(),
            parameters: Arc::new(parameters),
            dedupe: false,
            own_budget: false,
        }))
    }

    fn registry() -> Registry {
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}},
            "required": ["path"], "additionalProperties": false});
        Registry::new([
            fake("Read", schema),
            fake("Broken", json!({"type": 5})),
            fake("Grep", json!({})),
            fake("Read", json!({})),
        ])
    }

    fn message<T>(result: Result<T, Refusal>) -> String {
        result.err().unwrap().message
    }

    #[test]
    fn look_up() {
        let registry = registry();
        assert_eq!(
            registry.names().collect::<Vec<_>>(),
            ["Read", "Broken", "Grep"]
        );
        assert_eq!(
            registry
                .defs()
                .iter()
                .map(|def| def.name.as_ref())
                .collect::<Vec<_>>(),
            ["Read", "Broken", "Grep"]
        );
        assert_eq!(
            message(registry.get("read_file")),
            "There is no tool named read_file. Did you mean Read? The call was not executed."
        );
        assert_eq!(
            message(registry.get("xyz")),
            "There is no tool named xyz. The call was not executed."
        );
    }

    fn checked(tool: &Entry, text: &str) -> Result<Value, Refusal> {
        let mut value = args::parse(text)?;
        tool.check(&mut value)?;
        Ok(value)
    }

    #[test]
    fn arguments() {
        let registry = registry();
        let read = registry.get("Read").unwrap();
        assert_eq!(
            checked(read, r#"{"path":"a","n":2.0}"#),
            Ok(json!({"path": "a", "n": 2}))
        );
        assert_eq!(
            checked(read, r#"{"path":"a","n":null}"#),
            Ok(json!({"path": "a"}))
        );
        assert_eq!(
            message(checked(read, r#"{"path":1,"bogus":2}"#)),
            "Invalid arguments for Read: /path: must be a string, not an integer; unexpected `bogus` (allowed: path, n)."
        );
        assert!(message(checked(read, "")).contains("`path` is missing"));
        assert!(message(checked(read, r#"{"path":"a""#)).contains("not valid JSON"));
        let broken = registry.get("Broken").unwrap();
        assert!(message(checked(broken, "{}")).contains("its schema is broken"));
        assert_eq!(checked(registry.get("Grep").unwrap(), ""), Ok(json!({})));
    }
}
