//! What a text that was not found in a file may have meant.
//!
//! An edit never guesses: it is refused, and this says in one sentence where the text nearly stands and what keeps it
//! from matching, so that a model can mend its call without reading the file again.

use unicode_normalization::char::decompose_compatible;

use super::splice::line_at;
use super::text::endings::Style;
use super::window::LINE_CHARS;

/// Files up to this size are searched; beyond, it would take too long.
const MAX_BYTES: usize = 4 << 20;

/// Characters of a line of the file that is quoted.
const MAX_QUOTED_CHARS: usize = 160;

/// Beginnings of a text that are tried, line by line.
const MAX_PREFIXES: usize = 64;

/// Characters that the found beginning of a text must have to say anything.
const MIN_PREFIX_CHARS: usize = 8;

/// How a text is looked at: what stands for a character.
type View = fn(char, &mut String);

/// The sentence, if there is one to say.
pub(super) fn diagnose(body: &str, style: Style, old: &str) -> Option<String> {
    if body.len() > MAX_BYTES {
        return None;
    }
    numbered(body, old)
        .or_else(|| shown_returns(body, style, old))
        .or_else(|| cut_line(body, style, old))
        .or_else(|| {
            let line = find_like(body, old, unended)?;
            Some(format!(
                "Line {line} differs from it in line endings only: {}.",
                match style {
                    Style::Mixed =>
                        "the file mixes them. Name text within one line, or give its \\r characters too",
                    Style::Lf | Style::Crlf => "leave its \\r characters out",
                }
            ))
        })
        .or_else(|| {
            let line = find_like(body, old, unspaced)?;
            Some(format!(
                "Line {line} differs from it in whitespace or indentation only; copy it exactly.{}",
                quote(body, style, line, old)
            ))
        })
        .or_else(|| {
            let line = find_like(body, old, plain)?;
            Some(format!(
                "Line {line} differs from it in quotation marks, dashes or other look-alike characters; copy it \
                 exactly.{}",
                quote(body, style, line, old)
            ))
        })
        .or_else(|| begun(body, style, old))
}

/// The numbers that Read puts in front of lines were copied too.
fn numbered(body: &str, old: &str) -> Option<String> {
    let line = find_like(body, &without_numbers(old)?, unended)?;
    Some(format!(
        "It begins its lines with numbers as Read shows them; leave the numbers and tabs out (see line {line})."
    ))
}

/// The text without `12<tab>` in front of each line, if each has it.
fn without_numbers(text: &str) -> Option<String> {
    text.split_inclusive('\n')
        .map(|line| {
            let (number, rest) = line.split_once('\t')?;
            let digits = number.trim().trim_start_matches('-');
            (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
        })
        .collect()
}

/// A carriage return was copied as the two characters by which Read shows it.
fn shown_returns(body: &str, style: Style, old: &str) -> Option<String> {
    if style != Style::Mixed || !old.contains("\\r") {
        return None;
    }
    let place = body.find(&old.replace("\\r", "\r"))?;
    Some(format!(
        "Line {} has it with carriage returns where it has a backslash and an r: that is how Read shows them. Give the \
         character itself, or name text without it.",
        line_at(body.as_bytes(), place)
    ))
}

/// It ends a line with the dots by which Read cuts.
fn cut_line(body: &str, style: Style, old: &str) -> Option<String> {
    let old = style.in_file(old);
    let mut end = 0;
    for line in old.split_inclusive('\n') {
        let text = line.trim_end_matches(['\n', '\r']);
        if let Some(shown) = text.strip_suffix("...").filter(|shown| !shown.is_empty()) {
            let place = body.find(&old[..end + shown.len()])?;
            let in_line = place + end;
            let line_start = body[..in_line].rfind('\n').map_or(0, |at| at + 1);
            let whole = body[line_start..].lines().next().unwrap_or_default();
            if whole.chars().nth(LINE_CHARS).is_some() {
                return Some(format!(
                    "Line {} goes on where Read cut it; the dots are not in the file. Name a shorter part of it.",
                    line_at(body.as_bytes(), in_line)
                ));
            }
        }
        end += line.len();
    }
    None
}

/// Its first lines are there, and then something else.
fn begun(body: &str, style: Style, old: &str) -> Option<String> {
    let old = style.in_file(old);
    let ends: Vec<usize> = old
        .match_indices('\n')
        .map(|(at, _)| at + 1)
        .filter(|end| *end < old.len())
        .take(MAX_PREFIXES)
        .collect();
    for (n_lines, end) in ends.iter().enumerate().rev() {
        let prefix = &old[..*end];
        let mut places = body.match_indices(prefix);
        let Some((place, _)) = places.next() else {
            continue;
        };
        if places.next().is_some() || prefix.trim().chars().count() < MIN_PREFIX_CHARS {
            return None;
        }
        let first = line_at(body.as_bytes(), place);
        let n_lines = n_lines + 1;
        let next = body[place + end..].lines().next();
        return Some(format!(
            "Its first {} at line {first}, but then the file goes on differently{}.",
            if n_lines == 1 {
                "line stands".to_owned()
            } else {
                format!("{n_lines} lines stand")
            },
            match next {
                Some(next) => format!(": line {} is {}", first + n_lines, quoted(next)),
                None => ": it ends there".to_owned(),
            }
        ));
    }
    None
}

/// The first line of the file from `line` on that the text does not have as it is.
fn quote(body: &str, style: Style, line: usize, old: &str) -> String {
    let lines = body.lines().skip(line - 1).zip(old.lines());
    for (number, (there, here)) in (line..).zip(lines) {
        let there = style.show(there);
        // A text may begin and end within a line.
        if !there.contains(here) {
            return format!(" Line {number} is {}.", quoted(&there));
        }
    }
    String::new()
}

fn quoted(line: &str) -> String {
    let mut shown: String = line.chars().take(MAX_QUOTED_CHARS).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    // White space and marks are told apart by their escapes.
    format!("`{}`", shown.replace('\t', "\\t").replace('\r', "\\r"))
}

/// Finds `old` in `body` when both are looked at through `view`; the line of the match.
fn find_like(body: &str, old: &str, view: View) -> Option<usize> {
    let wanted = seen(old, view);
    if wanted.trim().is_empty() {
        return None;
    }
    let place = seen(body, view).find(&wanted)?;
    let mut so_far = String::new();
    let mut n_seen = 0;
    for (offset, c) in body.char_indices() {
        so_far.clear();
        view(c, &mut so_far);
        n_seen += so_far.len();
        if n_seen > place {
            return Some(line_at(body.as_bytes(), offset));
        }
    }
    None
}

fn seen(text: &str, view: View) -> String {
    let mut seen = String::with_capacity(text.len());
    text.chars().for_each(|c| view(c, &mut seen));
    seen
}

/// Without carriage returns.
fn unended(c: char, seen: &mut String) {
    if c != '\r' {
        seen.push(c);
    }
}

/// Without white space.
fn unspaced(c: char, seen: &mut String) {
    if !c.is_whitespace() {
        seen.push(c);
    }
}

/// Without white space and what is not seen at all, and with one character for all that look like it.
fn plain(c: char, seen: &mut String) {
    match c {
        '\u{2018}' | '\u{2019}' | '\u{201A}' | '\u{201B}' | '\u{2032}' => seen.push('\''),
        '\u{201C}' | '\u{201D}' | '\u{201E}' | '\u{201F}' | '\u{2033}' => seen.push('"'),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => seen.push('-'),
        '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{FEFF}' => {}
        c if c.is_ascii() => unspaced(c, seen),
        c => decompose_compatible(c, |c| unspaced(c, seen)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::endings::style_of;
    use super::*;

    #[test]
    fn says_what_was_meant() {
        let long = format!("first\nstart {}\nlast\n", "x".repeat(2500));
        let cut = format!("start {}...", "x".repeat(1991));
        for (body, old, expected) in [
            (
                "one\n  two\nthree\n",
                "2\t  two\n3\tthree",
                "It begins its lines with numbers as Read shows them; leave the numbers and tabs out (see line 2).",
            ),
            ("one\r\ntwo\r\n", "-1\ttwo", "(see line 2)"),
            (
                "a\r\nb\nc\rd",
                "a\nb",
                "Line 1 differs from it in line endings only: the file mixes them. Name text within one line, or give \
                 its \\r characters too.",
            ),
            (
                "x\na\nb\n",
                "a\r\nb",
                "Line 2 differs from it in line endings only: leave its \\r characters out.",
            ),
            (
                "x\na\r\nb\rc\n",
                "a\\r\nb\\rc",
                "Line 2 has it with carriage returns",
            ),
            (
                "a\nfn x() {\n\tbody\n}\n",
                "fn x() {\n    body\n}",
                "Line 2 differs from it in whitespace or indentation only; copy it exactly. Line 3 is `\\tbody`.",
            ),
            ("a\u{A0}b\n", "a b", "Line 1 differs from it in whitespace"),
            (
                "a\n\u{201C}hi\u{201D} \u{2014} caf\u{E9}\u{2026}\n",
                "\"hi\" - cafe\u{301}...",
                "Line 2 differs from it in quotation marks, dashes or other look-alike characters; copy it exactly. Line \
                 2 is `\u{201C}hi\u{201D} \u{2014} caf\u{E9}\u{2026}`.",
            ),
            (
                &long,
                &cut,
                "Line 2 goes on where Read cut it; the dots are not in the file. Name a shorter part of it.",
            ),
            (&long, &format!("first\n{cut}\nlast\n"), "Line 2 goes on"),
            (
                "a\nlet first = 1;\nlet second = 2;\nlet third = 3;\n",
                "let first = 1;\nlet second = 2;\nlet fourth = 3;",
                "Its first 2 lines stand at line 2, but then the file goes on differently: line 4 is `let third = 3;`.",
            ),
            (
                "let only = 1;\r\n",
                "let only = 1;\nmore\n",
                "Its first line stands at line 1, but then the file goes on differently: it ends there.",
            ),
        ] {
            let said = diagnose(body, style_of(body.as_bytes()), old).unwrap_or_default();
            assert!(said.contains(expected), "{old:?}: {said}");
        }
    }

    #[test]
    fn says_nothing_where_nothing_is_near() {
        for (body, old) in [
            ("abc\n", "xyz"),
            ("abc\n", " \n"),
            ("}\nx\n", "}\ny\n"),
            ("same line\nx\nsame line\ny\n", "same line\nz\n"),
            ("call(a, b...)\n", "call(a..."),
        ] {
            assert_eq!(
                diagnose(body, style_of(body.as_bytes()), old),
                None,
                "{old:?}"
            );
        }
    }
}
