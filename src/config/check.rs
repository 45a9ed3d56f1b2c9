//! Checks one layer against the types of [`super::file`]: what does not fit is taken out and said, the rest stays.

use longshore_protocol::value::failure::Warning;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::file::FileConfig;
use super::known;
use super::tree::{Node, Place, Tree, dotted};

/// Sections whose entries are dropped whole: half a provider is worse than none.
const ENTRIES: [&str; 2] = ["providers", "models"];

/// Says which keys are unknown, or known and without effect. They stay in the tree, where nothing reads them.
pub(super) fn unknown_keys(layer: &Node, schema: &Value, warnings: &mut Vec<Warning>) {
    walk(layer, &[schema], schema, &mut Vec::new(), warnings);
}

/// Takes values of the wrong type out of a layer, one after the other, until the rest fits.
pub(super) fn types(layer: &mut Node, warnings: &mut Vec<Warning>) -> FileConfig {
    loop {
        let values = layer.to_json();
        let error = match serde_path_to_error::deserialize::<_, FileConfig>(&values) {
            Ok(config) => return config,
            Err(error) => error,
        };
        let mut at: Vec<String> = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                Segment::Map { key } => Some(key.clone()),
                Segment::Seq { index } => Some(index.to_string()),
                Segment::Enum { .. } | Segment::Unknown => None,
            })
            .collect();
        while !at.is_empty() && layer.get(&at).is_none() {
            at.pop();
        }
        let is_entry = at
            .first()
            .is_some_and(|first| ENTRIES.contains(&first.as_str()));
        if !retry(layer, &at) {
            let message = complaint(layer, &at, &error.inner().to_string());
            let dropped = if is_entry && at.len() > 2 {
                at[..2].to_vec()
            } else {
                at.clone()
            };
            let effect = if dropped == at {
                "it is ignored".to_owned()
            } else {
                format!("`{}` is ignored", dotted(&dropped))
            };
            let place = layer
                .get(&at)
                .map_or_else(|| layer.place.clone(), |node| node.place.clone());
            warnings.push(place.warning(Some(dotted(&at)), &format!("{message}; {effect}.")));
            if layer.remove(&dropped).is_none() {
                // The whole layer is at fault, which is then as good as empty.
                *layer = Node::empty(layer.place.clone());
            }
        }
    }
}

/// Takes the next meaning of a value that was written without a type. True where there was one.
fn retry(layer: &mut Node, at: &[String]) -> bool {
    let Some(node) = layer.get_mut(at).filter(|node| !node.others.is_empty()) else {
        return false;
    };
    node.tree = Tree::Scalar(node.others.remove(0));
    true
}

/// What is wrong, never quoting the value: it may be a secret.
fn complaint(layer: &Node, at: &[String], error: &str) -> String {
    let expected = match error
        .rsplit_once("expected ")
        .map(|(_, expected)| expected.trim_end_matches('.'))
    {
        Some("u32" | "u64" | "usize") => "a whole number, 0 or more".to_owned(),
        Some("a nonzero u32" | "a nonzero u64" | "a nonzero usize") => {
            "a whole number, 1 or more".to_owned()
        }
        Some("f64") => "a number".to_owned(),
        Some("a map") => "a table".to_owned(),
        Some("a sequence") => "a list".to_owned(),
        Some(expected) if expected.starts_with("struct ") => "a table".to_owned(),
        Some(expected) => expected.to_owned(),
        None => "something else".to_owned(),
    };
    let key = dotted(at);
    match layer.get(at) {
        Some(node) if matches!(node.place, Place::File { .. }) => {
            format!("`{key}` is {}, but should be {expected}", node.kind())
        }
        _ => format!("`{key}` should be {expected}"),
    }
}

/// Walks a tree beside the schema. `shapes` are the alternatives for this node.
fn walk(
    node: &Node,
    shapes: &[&Value],
    schema: &Value,
    at: &mut Vec<String>,
    warnings: &mut Vec<Warning>,
) {
    let shapes: Vec<&Value> = shapes
        .iter()
        .flat_map(|shape| resolve(shape, schema))
        .collect();
    match &node.tree {
        Tree::Table(table) => {
            let names: Vec<&str> = shapes
                .iter()
                .filter_map(|shape| shape.get("properties")?.as_object())
                .flat_map(|properties| properties.keys().map(String::as_str))
                .collect();
            let others: Vec<&Value> = shapes
                .iter()
                .filter_map(|shape| shape.get("additionalProperties"))
                .filter(|others| **others != Value::Bool(false))
                .collect();
            let is_free = names.is_empty();
            for (key, child) in table {
                let below: Vec<&Value> = shapes
                    .iter()
                    .filter_map(|shape| shape.get("properties")?.get(key.as_str()))
                    .collect();
                at.push(key.clone());
                if known::is_without_effect(at) {
                    let message = without_effect(at);
                    warnings.push(child.place.warning(Some(dotted(at)), &message));
                } else if !below.is_empty() {
                    walk(child, &below, schema, at, warnings);
                } else if is_free {
                    walk(child, &others, schema, at, warnings);
                } else {
                    let message = unknown(at, child, &names);
                    warnings.push(child.place.warning(Some(dotted(at)), &message));
                }
                at.pop();
            }
        }
        Tree::Array(items) => {
            let below: Vec<&Value> = shapes
                .iter()
                .filter_map(|shape| shape.get("items"))
                .collect();
            for (index, item) in items.iter().enumerate() {
                at.push(index.to_string());
                walk(item, &below, schema, at, warnings);
                at.pop();
            }
        }
        Tree::Scalar(_) | Tree::Reset => {}
    }
}

fn without_effect(at: &[String]) -> String {
    match at.first().map(String::as_str) {
        Some("mcp") if at.get(1).is_some_and(|key| key == "servers") => {
            "MCP servers stand in `mcp.json`, not here.".to_owned()
        }
        _ => format!("`{}` has no effect yet.", dotted(at)),
    }
}

fn unknown(at: &[String], node: &Node, names: &[&str]) -> String {
    let (key, parents) = (at[at.len() - 1].as_str(), &at[..at.len() - 1]);
    if let [section, alias] = parents
        && ENTRIES.contains(&section.as_str())
        && matches!(node.tree, Tree::Table(_))
    {
        return format!(
            "`{}` is unknown. A name with a dot needs quotes: `[{section}.\"{alias}.{key}\"]`.",
            dotted(at)
        );
    }
    let below: Vec<&str> = known::names_below(parents).collect();
    format!(
        "`{}` is unknown{}",
        dotted(at),
        known::hint(key, names.iter().copied().chain(below))
    )
}

/// Follows references and alternatives to the shapes that are really meant.
fn resolve<'a>(shape: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    if let Some(reference) = shape.get("$ref").and_then(Value::as_str) {
        return match reference
            .strip_prefix('#')
            .and_then(|pointer| schema.pointer(pointer))
        {
            Some(target) => resolve(target, schema),
            None => Vec::new(),
        };
    }
    let alternatives = ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .filter_map(|word| shape.get(word)?.as_array())
        .flatten();
    std::iter::once(shape)
        .chain(alternatives.flat_map(|shape| resolve(shape, schema)))
        .collect()
}
