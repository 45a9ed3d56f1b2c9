//! Which modules a source names: paths from `crate`, `super`, `self` and the protocol crate.

use crate::sources::Source;

/// One path named in a source.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The line it stands on, from 1.
    pub(crate) line: usize,
    /// The crate and path: `["crate", "os", "fs"]` or `["longshore_protocol", "id", "SessionId"]`.
    pub(crate) path: Vec<String>,
}

/// Everything a source names by a path, groups taken apart.
pub(crate) fn imports(source: &Source) -> Vec<Import> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "longshore_protocol::", "longshore::"] {
        for (at, _) in source.code.match_indices(start) {
            let before = source.code[..at].chars().next_back();
            // Part of a longer word, or a later part of a path that was found by its beginning.
            if before.is_some_and(|each| each.is_alphanumeric() || each == '_' || each == ':') {
                continue;
            }
            let line = source.code[..at].matches('\n').count() + 1;
            let mut paths = Vec::new();
            tree(&source.code[at..], &[], &mut paths);
            for path in paths {
                found.extend(absolute(source, path).map(|path| Import { line, path }));
            }
        }
    }
    found
}

/// Reads `a::b::{c, d::e}` and gives each path; returns what is behind it.
fn tree<'a>(text: &'a str, before: &[String], paths: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if let Some(rest) = rest.strip_prefix('}') {
                return rest;
            }
            let next = tree(rest, before, paths).trim_start();
            let next = next.strip_prefix("as").map_or(next, |name| {
                name.trim_start()
                    .trim_start_matches(|each: char| each.is_alphanumeric() || each == '_')
            });
            let next = next.trim_start();
            let next = next.strip_prefix(',').unwrap_or(next);
            if next.len() == rest.len() {
                return next;
            }
            rest = next;
        }
    }
    let length = text
        .find(|each: char| !each.is_alphanumeric() && each != '_' && each != '*')
        .unwrap_or(text.len());
    let mut path = before.to_vec();
    path.push(text[..length].to_owned());
    let rest = &text[length..];
    if let Some(rest) = rest.strip_prefix("::") {
        return tree(rest, &path, paths);
    }
    paths.push(path);
    rest
}

/// The path from a crate's root; `None` where it stays in the source's own module.
fn absolute(source: &Source, path: Vec<String>) -> Option<Vec<String>> {
    let up = path.iter().take_while(|part| *part == "super").count();
    if up == 0 {
        return Some(path);
    }
    let kept = source.module.len().checked_sub(up)?;
    let mut whole = vec!["crate".to_owned()];
    whole.extend(source.module[..kept].iter().cloned());
    whole.extend(path.into_iter().skip(up));
    Some(whole)
}

#[test]
fn paths_are_found_and_taken_apart() {
    let source = Source {
        path: String::new(),
        module: ["face", "native", "serve"].map(str::to_owned).to_vec(),
        text: String::new(),
        code: "use crate::os::{fs, clock::{self, Clock as C}, *};\nlet a = crate::rpc::x(super::super::acp::y); my_crate::z;\n\
               use longshore_protocol::id::SessionId;"
            .to_owned(),
    };
    let mut found: Vec<String> = imports(&source)
        .iter()
        .map(|each| format!("{} {}", each.line, each.path.join("::")))
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            "1 crate::os::*",
            "1 crate::os::clock::Clock",
            "1 crate::os::clock::self",
            "1 crate::os::fs",
            "2 crate::face::acp::y",
            "2 crate::rpc::x",
            "3 longshore_protocol::id::SessionId",
        ]
    );
}
