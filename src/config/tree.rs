//! A configuration as a tree whose every value knows where it was written.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longshore_protocol::value::failure::Warning;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::values::Broken;

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) tree: Tree,
    pub(super) place: Place,
    /// What the text could also mean, likeliest first: variables and command lines carry no types.
    pub(super) others: Vec<Value>,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Table(BTreeMap<String, Node>),
    Array(Vec<Node>),
    Scalar(Value),
    /// Takes the value of lower layers away.
    Reset,
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Line and column from 1.
    File {
        file: Arc<str>,
        line: u32,
        column: u32,
    },
    /// A variable or an option, by name.
    Named(Arc<str>),
}

impl Place {
    /// `file:line`, or a name: how rules say where they come from.
    pub(super) fn short(&self) -> String {
        match self {
            Self::File { file, line, .. } => format!("{file}:{line}"),
            Self::Named(name) => name.to_string(),
        }
    }

    /// A warning about a key at this place. `message` is a sentence.
    pub(super) fn warning(&self, key: Option<String>, message: &str) -> Warning {
        let (file, line) = match self {
            Self::File { file, line, .. } => (Some(file.to_string()), Some(*line)),
            Self::Named(_) => (None, None),
        };
        Warning {
            topic: "config".to_owned(),
            message: format!("{self}: {message}"),
            file,
            line,
            key,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl Node {
    /// An empty table.
    pub(super) fn empty(place: Place) -> Self {
        Self {
            tree: Tree::Table(BTreeMap::new()),
            place,
            others: Vec::new(),
        }
    }

    /// Reads a TOML file. A byte-order mark is no part of it.
    ///
    /// # Errors
    /// Where the syntax breaks, with an excerpt.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Broken> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned();
            broken(path, &valid, valid.len(), "it is not UTF-8 from here on")
        })?;
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(text.len(), |span| span.start);
            broken(path, text, at, error.message())
        })?;
        let lines = Lines::new(path, text);
        Ok(Self {
            place: lines.place(0),
            tree: table_tree(table.get_ref(), &lines),
            others: Vec::new(),
        })
    }

    /// A value written without types, as in variables.
    pub(super) fn untyped(text: &str, place: &Place) -> Self {
        let text = text.trim();
        let toml = DeTable::parse(&format!("v = {text}"))
            .ok()
            .filter(|table| table.get_ref().len() == 1)
            .and_then(|mut table| {
                table.get_mut().make_owned();
                table
                    .get_ref()
                    .get("v")
                    .map(|value| value_tree(value, &|_| place.clone()))
            });
        let mut others = Vec::new();
        if let Some(truth) = truth(text) {
            others.push(Value::Bool(truth));
        }
        others.push(Value::String(text.to_owned()));
        let tree = toml.unwrap_or_else(|| Tree::Scalar(Value::String(text.to_owned())));
        Self {
            tree,
            place: place.clone(),
            others,
        }
    }

    /// The node at a path.
    pub(super) fn get(&self, path: &[String]) -> Option<&Self> {
        let Some((first, rest)) = path.split_first() else {
            return Some(self);
        };
        match &self.tree {
            Tree::Table(table) => table.get(first)?.get(rest),
            Tree::Array(items) => items.get(first.parse::<usize>().ok()?)?.get(rest),
            Tree::Scalar(_) | Tree::Reset => None,
        }
    }

    /// As [`Node::get`].
    pub(super) fn get_mut(&mut self, path: &[String]) -> Option<&mut Self> {
        let Some((first, rest)) = path.split_first() else {
            return Some(self);
        };
        match &mut self.tree {
            Tree::Table(table) => table.get_mut(first)?.get_mut(rest),
            Tree::Array(items) => items.get_mut(first.parse::<usize>().ok()?)?.get_mut(rest),
            Tree::Scalar(_) | Tree::Reset => None,
        }
    }

    /// Takes a node out.
    pub(super) fn remove(&mut self, path: &[String]) -> Option<Self> {
        let (last, parents) = path.split_last()?;
        match &mut self.get_mut(parents)?.tree {
            Tree::Table(table) => table.remove(last),
            Tree::Array(items) => {
                let index = last
                    .parse::<usize>()
                    .ok()
                    .filter(|index| *index < items.len())?;
                Some(items.remove(index))
            }
            Tree::Scalar(_) | Tree::Reset => None,
        }
    }

    /// Puts a node at a path of tables.
    ///
    /// # Errors
    /// The key on the way that is no table.
    pub(super) fn insert(&mut self, path: &[String], node: Self) -> Result<(), String> {
        let Some((first, rest)) = path.split_first() else {
            *self = node;
            return Ok(());
        };
        let Tree::Table(table) = &mut self.tree else {
            return Err(self.place.to_string());
        };
        table
            .entry(first.clone())
            .or_insert_with(|| Self::empty(node.place.clone()))
            .insert(rest, node)
    }

    /// Lays a higher layer over this one: tables are merged, everything else is replaced.
    pub(super) fn merge(&mut self, higher: Self) {
        match (&mut self.tree, higher.tree) {
            (Tree::Table(lower), Tree::Table(table)) => {
                for (key, node) in table {
                    match lower.get_mut(&key) {
                        _ if matches!(node.tree, Tree::Reset) => {
                            lower.remove(&key);
                        }
                        Some(existing) => existing.merge(node),
                        None => {
                            lower.insert(key, node);
                        }
                    }
                }
            }
            (_, tree) => {
                *self = Self {
                    tree,
                    place: higher.place,
                    others: higher.others,
                }
            }
        }
    }

    /// The values alone.
    pub(super) fn to_json(&self) -> Value {
        match &self.tree {
            Tree::Table(table) => Value::Object(
                table
                    .iter()
                    .filter(|(_, node)| !matches!(node.tree, Tree::Reset))
                    .map(|(key, node)| (key.clone(), node.to_json()))
                    .collect(),
            ),
            Tree::Array(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Tree::Scalar(value) => value.clone(),
            Tree::Reset => Value::Null,
        }
    }

    /// The kind of value, with its article.
    pub(super) fn kind(&self) -> &'static str {
        match &self.tree {
            Tree::Table(_) => "a table",
            Tree::Array(_) => "a list",
            Tree::Scalar(Value::String(_)) => "a string",
            Tree::Scalar(Value::Bool(_)) => "a boolean",
            Tree::Scalar(Value::Number(number)) if number.is_f64() => "a decimal number",
            Tree::Scalar(Value::Number(number))
                if number.as_i64().is_some_and(|number| number < 0) =>
            {
                "a negative number"
            }
            Tree::Scalar(Value::Number(number)) if number.as_u64() == Some(0) => "0",
            Tree::Scalar(_) => "a number",
            Tree::Reset => "nothing",
        }
    }

    /// The tables's entries; none where it is no table.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&String, &Self)> {
        match &self.tree {
            Tree::Table(table) => Some(table.iter()),
            _ => None,
        }
        .into_iter()
        .flatten()
    }
}

/// Writes a path as it would stand in the file.
pub(super) fn dotted(path: &[String]) -> String {
    let part = |part: &String| {
        let bare = !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if bare {
            part.clone()
        } else {
            format!("{part:?}")
        }
    };
    path.iter().map(part).collect::<Vec<_>>().join(".")
}

/// A path from its parts.
pub(super) fn path<const N: usize>(parts: [&str; N]) -> Vec<String> {
    parts.into_iter().map(str::to_owned).collect()
}

/// What counts as true and false where values have no types.
fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn table_tree(table: &DeTable<'_>, lines: &Lines<'_>) -> Tree {
    let entries = table.iter().map(|(key, value)| {
        let node = Node {
            tree: value_tree(value, &|at| lines.place(at)),
            place: lines.place(key.span().start),
            others: Vec::new(),
        };
        (key.get_ref().to_string(), node)
    });
    Tree::Table(entries.collect())
}

fn value_tree(value: &Spanned<DeValue<'_>>, place: &dyn Fn(usize) -> Place) -> Tree {
    match value.get_ref() {
        DeValue::String(text) => Tree::Scalar(Value::String(text.to_string())),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix()).map(Value::from);
            Tree::Scalar(parsed.unwrap_or_else(|_| Value::String(number.to_string())))
        }
        DeValue::Float(number) => {
            let parsed = number
                .as_str()
                .parse::<f64>()
                .ok()
                .and_then(serde_json::Number::from_f64);
            Tree::Scalar(parsed.map_or_else(|| Value::String(number.to_string()), Value::Number))
        }
        DeValue::Boolean(truth) => Tree::Scalar(Value::Bool(*truth)),
        DeValue::Datetime(time) => Tree::Scalar(Value::String(time.to_string())),
        DeValue::Array(items) => Tree::Array(
            items
                .iter()
                .map(|item| Node {
                    tree: value_tree(item, place),
                    place: place(item.span().start),
                    others: Vec::new(),
                })
                .collect(),
        ),
        DeValue::Table(table) => Tree::Table(
            table
                .iter()
                .map(|(key, value)| {
                    let node = Node {
                        tree: value_tree(value, place),
                        place: place(key.span().start),
                        others: Vec::new(),
                    };
                    (key.get_ref().to_string(), node)
                })
                .collect(),
        ),
    }
}

/// Turns offsets into places.
struct Lines<'a> {
    file: Arc<str>,
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(path: &Path, text: &'a str) -> Self {
        let starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Self {
            file: path.display().to_string().into(),
            text,
            starts,
        }
    }

    fn place(&self, at: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= at).max(1);
        let start = self.starts[line - 1];
        let column = self
            .text
            .get(start..at)
            .map_or(1, |before| before.chars().count() + 1);
        Place::File {
            file: self.file.clone(),
            line: line as u32,
            column: column as u32,
        }
    }
}

/// A file that can't be read, with the line at fault and a caret below it.
fn broken(path: &Path, text: &str, at: usize, why: &str) -> Broken {
    let lines = Lines::new(path, text);
    let at = (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    let Place::File { line, column, .. } = lines.place(at) else {
        return Broken {
            file: PathBuf::from(path),
            line: 0,
            column: 0,
            message: why.to_owned(),
        };
    };
    let excerpt: String = text
        .lines()
        .nth(line as usize - 1)
        .unwrap_or_default()
        .chars()
        .take(EXCERPT_CHARS)
        .collect();
    let why = why.trim().replace('\n', ", ");
    let indent = " ".repeat((column as usize - 1).min(EXCERPT_CHARS));
    Broken {
        file: PathBuf::from(path),
        line,
        column,
        message: format!(
            "{why}\n{line} | {excerpt}\n{} | {indent}^",
            " ".repeat(line.to_string().len())
        ),
    }
}

/// The part of a line that is shown: enough for a terminal.
const EXCERPT_CHARS: usize = 120;
