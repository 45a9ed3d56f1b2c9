//! The layers above the file: variables and command line options, as trees.

use std::collections::BTreeMap;
use std::sync::Arc;

use longshore_protocol::value::failure::Warning;
use toml::de::{DeTable, DeValue};

use super::known::VARIABLES_WITHOUT_EFFECT;
use super::tree::{Node, Place, Tree, dotted, path};

/// Before the path of any key, its parts joined by `__`.
const ANY_KEY: &str = "LONGSHORE_CFG__";

/// Variables with a name of their own, and the key each one sets.
const VARIABLES: [(&str, [&str; 2]); 11] = [
    ("LONGSHORE_IMAGE_MAX_EDGE_PX", ["image", "max_edge_px"]),
    (
        "LONGSHORE_IMAGE_READ_BYTE_BUDGET",
        ["image", "read_byte_budget"],
    ),
    ("LONGSHORE_LOG", ["log", "level"]),
    ("LONGSHORE_MAX_ATTEMPTS", ["loop", "max_attempts_per_step"]),
    ("LONGSHORE_MAX_RUNNING_TASKS", ["task", "max_running"]),
    ("LONGSHORE_MAX_STEPS", ["loop", "max_steps_per_turn"]),
    ("LONGSHORE_MODEL", ["default_model", ""]),
    ("LONGSHORE_PERMISSION_MODE", ["default_permission_mode", ""]),
    ("LONGSHORE_SHELL_PATH", ["shell", "path"]),
    ("LONGSHORE_TASK_KEEP_ALIVE", ["task", "keep_alive_on_exit"]),
    ("LONGSHORE_THINKING_EFFORT", ["thinking", "effort"]),
];

/// Switches: variables that, where they are on, give a key a value.
const SWITCHES: [(&str, [&str; 2], &str); 3] = [
    ("LONGSHORE_CRON_NO_JITTER", ["cron", "jitter"], "off"),
    ("LONGSHORE_CRON_NO_STALE", ["cron", "max_age_days"], "0"),
    ("LONGSHORE_DISABLE_CRON", ["cron", "enabled"], "false"),
];

/// A setting from the command line: `-c key.path=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    path: Vec<String>,
    /// As typed; empty takes the value of lower layers away.
    value: String,
}

impl Assignment {
    /// Reads `key.path=value`. Parts of a path that hold dots are quoted, as in the file.
    ///
    /// # Errors
    /// One sentence about what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not of the form key=value.");
        // A quoted part may hold `=`, so the key is the shortest beginning that reads as one.
        let split = text.match_indices('=').find_map(|(at, _)| {
            let key = Some(&text[..at]).filter(|key| !key.contains('\n'))?;
            let line = format!("{key} = 0");
            let table = DeTable::parse(&line).ok()?;
            let path = single_path(table.get_ref())?;
            Some((path, text[at + 1..].to_owned()))
        });
        let (path, value) = split.ok_or_else(wrong)?;
        Ok(Self { path, value })
    }
}

/// The layer of the environment.
pub(super) fn environment(
    variables: &BTreeMap<String, String>,
    warnings: &mut Vec<Warning>,
) -> Node {
    let mut layer = Node::empty(named("the environment"));
    for (name, value) in variables
        .iter()
        .filter(|(_, value)| !value.trim().is_empty())
    {
        let place = named(name);
        let mut value = value.as_str();
        let key: Vec<String> = if let Some((_, key, on)) =
            SWITCHES.iter().find(|(known, ..)| known == name)
        {
            match value.trim().to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => {}
                "0" | "false" | "no" | "off" => continue,
                _ => {
                    let message = "It is a switch: 1 or 0; it is ignored.";
                    warnings.push(place.warning(Some(key.join(".")), message));
                    continue;
                }
            }
            value = on;
            path(*key)
        } else if let Some((_, [section, key])) = VARIABLES.iter().find(|(known, _)| known == name)
        {
            let parts = path([section, key]);
            parts.into_iter().filter(|part| !part.is_empty()).collect()
        } else if let Some(key) = name.strip_prefix(ANY_KEY) {
            key.split("__").map(str::to_owned).collect()
        } else {
            if VARIABLES_WITHOUT_EFFECT.contains(&name.as_str()) {
                warnings.push(place.warning(None, "This variable has no effect yet."));
            }
            continue;
        };
        if let Err(other) = layer.insert(&key, Node::untyped(value, &place)) {
            warnings.push(place.warning(
                Some(dotted(&key)),
                &format!("It contradicts {other} and is ignored."),
            ));
        }
    }
    layer
}

/// The layer of the command line.
pub(super) fn command_line(assignments: &[Assignment], warnings: &mut Vec<Warning>) -> Node {
    let mut layer = Node::empty(named("the command line"));
    for Assignment { path, value } in assignments {
        let place = named(&format!("-c {}", dotted(path)));
        let node = if value.trim().is_empty() {
            if path.first().is_some_and(|section| section == "permission")
                && path.len() < 3
                && !is_scalar(path)
            {
                let message = "Rules can't be taken away from here, only added to.";
                warnings.push(place.warning(Some(dotted(path)), message));
                continue;
            }
            Node {
                tree: Tree::Reset,
                ..Node::empty(place.clone())
            }
        } else {
            Node::untyped(value, &place)
        };
        if let Err(other) = layer.insert(path, node) {
            warnings.push(place.warning(
                Some(dotted(path)),
                &format!("It contradicts {other} and is ignored."),
            ));
        }
    }
    layer
}

fn is_scalar(path: &[String]) -> bool {
    path.get(1)
        .is_some_and(|key| !matches!(key.as_str(), "rules" | "allow" | "deny" | "ask"))
}

fn named(name: &str) -> Place {
    Place::Named(Arc::from(name))
}

/// The one path in a table of one value.
fn single_path(table: &DeTable<'_>) -> Option<Vec<String>> {
    let mut path = Vec::new();
    let mut table = table;
    loop {
        let mut entries = table.iter();
        let (key, value) = entries.next().filter(|_| table.len() == 1)?;
        path.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(below) => table = below,
            _ => return Some(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments() {
        type Parts<'a> = (&'a [&'a str], &'a str);
        let cases: [(&str, Option<Parts<'_>>); 8] = [
            (
                "loop.max_steps_per_turn=5",
                Some((&["loop", "max_steps_per_turn"], "5")),
            ),
            (
                "models.\"gpt-4.1\".model=x=y",
                Some((&["models", "gpt-4.1", "model"], "x=y")),
            ),
            (
                "models.\"a=b\".model=x",
                Some((&["models", "a=b", "model"], "x")),
            ),
            ("default_model=", Some((&["default_model"], ""))),
            ("default_model", None),
            ("=x", None),
            ("a b=x", None),
            ("[x]\na=1", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(path, value)| Assignment {
                path: path.iter().map(|part| (*part).to_owned()).collect(),
                value: value.to_owned(),
            });
            assert_eq!(Assignment::parse(text).ok(), expected, "{text}");
        }
    }
}
