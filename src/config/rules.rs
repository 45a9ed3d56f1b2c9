//! Permission rules of one layer, read one by one: a rule that can't be read must never vanish.

use longshore_protocol::value::failure::Warning;
use serde_json::Value;

use super::file::{DecisionFile, RuleFile, ScopeFile};
use super::tree::{Node, Place, Tree, path};
use crate::kernel::rule::{RuleDecision, RuleText};

/// Takes the rules out of a layer, in the order in which they are written.
pub(super) fn take(layer: &mut Node, warnings: &mut Vec<Warning>) -> Vec<RuleText> {
    let mut rules: Vec<(Place, RuleText)> = Vec::new();
    let section = path(["permission"]);
    if layer
        .get(&section)
        .is_some_and(|section| !matches!(section.tree, Tree::Table(_)))
    {
        let place = layer
            .get(&section)
            .map_or_else(|| layer.place.clone(), |section| section.place.clone());
        warnings.push(place.warning(
            Some("permission".to_owned()),
            "`permission` should be a table; all calls are asked about.",
        ));
        layer.remove(&section);
        return vec![unreadable(&place, None)];
    }
    for (key, decision) in [
        ("allow", RuleDecision::Allow),
        ("deny", RuleDecision::Deny),
        ("ask", RuleDecision::Ask),
    ] {
        let Some(list) = layer.remove(&path(["permission", key])) else {
            continue;
        };
        let Tree::Array(items) = list.tree else {
            rules.extend(bad(
                &list.place,
                &format!("`permission.{key}` should be a list of patterns"),
                decision,
                warnings,
            ));
            continue;
        };
        for item in items {
            match item.to_json().as_str() {
                Some(pattern) => rules.push((
                    item.place.clone(),
                    rule(&item.place, decision, pattern, None),
                )),
                None => rules.extend(bad(
                    &item.place,
                    "a rule should be a pattern in quotes",
                    decision,
                    warnings,
                )),
            }
        }
    }
    if let Some(list) = layer.remove(&path(["permission", "rules"])) {
        match list.tree {
            Tree::Array(items) => {
                for item in items {
                    rules.extend(entry(&item, warnings));
                }
            }
            _ => rules.extend(bad(
                &list.place,
                "rules should be written as `[[permission.rules]]`",
                RuleDecision::Unreadable,
                warnings,
            )),
        }
    }
    rules.sort_by_key(|(place, _)| match place {
        Place::File { line, column, .. } => (*line, *column),
        Place::Named(_) => (0, 0),
    });
    rules.into_iter().map(|(_, rule)| rule).collect()
}

fn entry(item: &Node, warnings: &mut Vec<Warning>) -> Option<(Place, RuleText)> {
    let place = &item.place;
    let values = item.to_json();
    let Ok(written) = serde_json::from_value::<RuleFile>(values.clone()) else {
        return unreadable_entry(place, &values, warnings);
    };
    let decision = match written.decision {
        DecisionFile::Allow => RuleDecision::Allow,
        DecisionFile::Deny => RuleDecision::Deny,
        DecisionFile::Ask => RuleDecision::Ask,
    };
    if written.scope == ScopeFile::Project {
        if decision == RuleDecision::Allow {
            warn(
                place,
                "rules for one project are not read yet; this one allows nothing",
                warnings,
            );
            return None;
        }
        warn(
            place,
            "rules for one project are not read yet; this one holds everywhere",
            warnings,
        );
    }
    Some((
        place.clone(),
        rule(place, decision, &written.pattern, written.reason),
    ))
}

/// An entry that is no rule: one that was to allow has no effect, any other asks.
fn unreadable_entry(
    place: &Place,
    values: &Value,
    warnings: &mut Vec<Warning>,
) -> Option<(Place, RuleText)> {
    let text = |key: &str| values.get(key).and_then(Value::as_str);
    let pattern = text("pattern");
    let what = match (text("decision"), pattern) {
        (Some("allow"), _) => {
            warn(
                place,
                "this rule can't be read; it allows nothing",
                warnings,
            );
            return None;
        }
        (Some("deny" | "ask"), None) => "this rule has no `pattern` in quotes",
        (Some("deny" | "ask"), Some(_)) => "this rule has a `scope` or `reason` that can't be read",
        _ => "this rule has no `decision` of \"allow\", \"deny\" or \"ask\"",
    };
    warn(
        place,
        &format!("{what}; its calls are asked about, in every mode"),
        warnings,
    );
    Some((place.clone(), unreadable(place, pattern)))
}

/// A rule of the right place in the wrong shape.
fn bad(
    place: &Place,
    what: &str,
    decision: RuleDecision,
    warnings: &mut Vec<Warning>,
) -> Option<(Place, RuleText)> {
    if decision == RuleDecision::Allow {
        warn(place, &format!("{what}; it allows nothing"), warnings);
        return None;
    }
    warn(
        place,
        &format!("{what}; all calls are asked about, in every mode"),
        warnings,
    );
    Some((place.clone(), unreadable(place, None)))
}

fn unreadable(place: &Place, pattern: Option<&str>) -> RuleText {
    rule(
        place,
        RuleDecision::Unreadable,
        pattern.unwrap_or("*"),
        None,
    )
}

fn rule(place: &Place, decision: RuleDecision, pattern: &str, reason: Option<String>) -> RuleText {
    RuleText {
        decision,
        pattern: pattern.to_owned(),
        reason,
        place: place.short(),
    }
}

fn warn(place: &Place, what: &str, warnings: &mut Vec<Warning>) {
    let mut letters = what.chars();
    let first: String = letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    warnings.push(place.warning(
        Some("permission".to_owned()),
        &format!("{first}{}.", letters.as_str()),
    ));
}
