//! The sources as tidy rules see them: each file with what is code in it and which module it is.

use std::fs;
use std::path::{Path, PathBuf};

/// One source file.
pub(crate) struct Source {
    /// Its path from the root of the repository, with `/`.
    pub(crate) path: String,
    /// Its module path: `["face", "native", "serve"]`; empty for the root of the crate.
    pub(crate) module: Vec<String>,
    /// Its text as it is.
    pub(crate) text: String,
    /// Its lines with comments, string contents and test modules blanked out; line numbers are those of `text`.
    pub(crate) code: String,
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a folder of the repository whose name ends so, sorted by path.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A file's path from the root of the repository, with `/`.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap()
        .to_string_lossy()
        .replace('\\', "/")
}

/// The sources of the server that are not tests.
pub(crate) fn server() -> Vec<Source> {
    files("src", ".rs")
        .iter()
        .filter_map(|path| source(path))
        .collect()
}

fn source(path: &Path) -> Option<Source> {
    let relative = relative(path);
    let mut module: Vec<String> = relative
        .strip_prefix("src/")?
        .strip_suffix(".rs")?
        .split('/')
        .map(str::to_owned)
        .collect();
    if module
        .last()
        .is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str()))
    {
        module.pop();
    }
    let is_test = module.iter().any(|name| {
        ["tests", "testing", "fakes", "test_copy"].contains(&name.as_str())
            || name.ends_with("_tests")
    });
    if is_test {
        return None;
    }
    let text = fs::read_to_string(path).unwrap();
    let code = without_tests(&without_words(&text));
    Some(Source {
        path: relative,
        module,
        text,
        code,
    })
}

/// Blanks out comments and what is between quotes, so that only code is left.
fn without_words(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == '"' {
            string_length(rest)
        } else if let Some(length) = raw_string_length(rest).filter(|_| !ends_in_word(&code)) {
            length
        } else if let Some(length) = char_length(rest) {
            length
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.extend(
            rest[..length]
                .chars()
                .map(|each| if each == '\n' { '\n' } else { ' ' }),
        );
        rest = &rest[length..];
    }
    code
}

fn ends_in_word(code: &str) -> bool {
    code.chars()
        .next_back()
        .is_some_and(|last| last.is_alphanumeric() || last == '_')
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, each) in text.char_indices().skip(1) {
        match each {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string_length(text: &str) -> Option<usize> {
    let body = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = body.bytes().take_while(|each| *each == b'#').count();
    body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - body.len() + hashes + 1;
    Some(
        text[start..]
            .find(&end)
            .map_or(text.len(), |at| start + at + end.len()),
    )
}

/// The length of a character literal; a lifetime is none.
fn char_length(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let mut chars = body.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        // The escaped character may be a quote itself.
        let (after, escaped) = chars.next()?;
        let after = after + escaped.len_utf8();
        return body[after..].find('\'').map(|end| 1 + after + end + 1);
    }
    let (after, quote) = chars.next()?;
    (quote == '\'').then_some(1 + after + 1)
}

/// Blanks out inline modules that exist in tests only.
fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find("#[cfg(test)]") {
        let end = start + item_length(&rest[start..]);
        kept.push_str(&rest[..start]);
        kept.extend(rest[start..end].chars().filter(|each| *each == '\n'));
        rest = &rest[end..];
    }
    kept.push_str(rest);
    kept
}

/// The length of an item with its attributes: up to its `;`, or to the end of its outermost braces.
fn item_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, each) in code.char_indices() {
        match each {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

#[test]
fn only_code_is_looked_at() {
    let text = r##"//! crate::a
use crate::b; // crate::c
/* crate::d */ let x = "crate::e \" crate::f"; let y = r#"crate::g"#; let q = '"'; let n = '\''; let l: &'static str;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod more { use crate::h; fn f() { g(); } }
use crate::i;"##;
    let code = without_tests(&without_words(text));
    let found: Vec<&str> = code
        .split("crate::")
        .skip(1)
        .map(|each| &each[..1])
        .collect();
    assert_eq!(found, ["b", "i"]);
    assert_eq!(code.matches('\n').count(), text.matches('\n').count());
    assert!(code.contains("&'static str"));
}
