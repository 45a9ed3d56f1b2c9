//! Exact replacement in bytes: find, diagnose, splice. Every byte outside the matches is untouched by construction.

use std::fmt::Write;
use std::ops::Range;

use memchr::memmem;

use super::text::{self, BOM, NotText, Style, Utf16};

/// Files up to this size are searched for what `old_string` may have meant; beyond, it would take too long.
const DIAGNOSE_BYTES: usize = 8 << 20;

/// Places named when a match is not unique.
const MAX_PLACES: usize = 5;

/// Lines shown around the first change.
const CONTEXT_LINES: usize = 3;

/// Lines of the first change that are shown.
const MAX_SHOWN_LINES: usize = 40;

/// Characters of a shown line.
const MAX_SHOWN_CHARS: usize = 500;

/// A replacement that was worked out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spliced {
    /// The whole new content.
    pub bytes: Vec<u8>,
    /// How often `old_string` was replaced.
    pub n_replaced: usize,
    /// The lines of the first replacement in the new content, from 1.
    pub first_lines: Range<usize>,
}

/// What to replace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replacement<'a> {
    pub old: &'a str,
    pub new: &'a str,
    pub all: bool,
}

/// Why nothing was replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SpliceError {
    /// The file is no UTF-8 text.
    NotText(NotText),
    /// The file is text in an encoding that cannot be written back here.
    Encoding(&'static str),
    /// Nothing matches; with what may have been meant.
    NotFound(Option<String>),
    /// Several places match: how many, and the lines of the first.
    NotUnique(usize, Vec<usize>),
}

impl SpliceError {
    /// For the model, about the file at `path`.
    pub(super) fn message(&self, path: &str) -> String {
        match self {
            Self::NotText(reason) => format!(
                "{path} can't be edited: {}. Nothing was changed. Use a shell command that keeps its encoding.",
                reason.reason()
            ),
            Self::Encoding(name) => format!(
                "{path} can't be edited: it is {name} text. Nothing was changed. Use a shell command that keeps its \
                 encoding."
            ),
            Self::NotFound(hint) => {
                let mut message =
                    format!("old_string was not found in {path}; nothing was changed.");
                // Writing to a string cannot fail.
                let _ = match hint {
                    Some(hint) => write!(message, " {hint}"),
                    None => write!(
                        message,
                        " The file may have changed: read it again and copy the text exactly."
                    ),
                };
                message
            }
            Self::NotUnique(count, lines) => {
                let lines: Vec<_> = lines.iter().map(usize::to_string).collect();
                let more = if *count > lines.len() { ", …" } else { "" };
                format!(
                    "old_string matches {count} places in {path} (lines {}{more}); nothing was changed. Add surrounding \
                     lines to name one of them, or set replace_all to change them all.",
                    lines.join(", ")
                )
            }
        }
    }
}

/// Works out the replacement in the content of a file.
pub(super) fn splice(file: &[u8], replacement: Replacement<'_>) -> Result<Spliced, SpliceError> {
    if let Some(encoding) = Utf16::sniff(file) {
        return Err(SpliceError::Encoding(encoding.name()));
    }
    let body_start = if file.starts_with(BOM) { BOM.len() } else { 0 };
    let body = &file[body_start..];
    text::check_text(body).map_err(|reason| SpliceError::NotText(shifted(reason, body_start)))?;
    let (old, new) = as_in_file(replacement, text::style_of(body), body_start > 0);

    let places: Vec<usize> = memmem::find_iter(body, old.as_bytes()).collect();
    match places.len() {
        0 => return Err(SpliceError::NotFound(diagnose(body, replacement.old))),
        1 => {}
        count if !replacement.all => {
            let lines = places
                .iter()
                .take(MAX_PLACES)
                .map(|place| line_at(body, *place))
                .collect();
            return Err(SpliceError::NotUnique(count, lines));
        }
        _ => {}
    }

    let growth = new.len().saturating_sub(old.len()) * places.len();
    let mut bytes = Vec::with_capacity(file.len() + growth);
    bytes.extend_from_slice(&file[..body_start]);
    let mut copied = 0;
    for place in &places {
        bytes.extend_from_slice(&body[copied..*place]);
        bytes.extend_from_slice(new.as_bytes());
        copied = place + old.len();
    }
    bytes.extend_from_slice(&body[copied..]);

    let first = places.first().copied().unwrap_or(0);
    let first_line = line_at(body, first);
    let n_newlines = memchr::memchr_iter(b'\n', new.as_bytes()).count();
    // A replacement that ends a line does not touch the next one.
    let n_lines = if new.ends_with('\n') {
        n_newlines
    } else {
        n_newlines + 1
    };
    Ok(Spliced {
        bytes,
        n_replaced: places.len(),
        first_lines: first_line..first_line + n_lines.max(1),
    })
}

fn shifted(reason: NotText, by: usize) -> NotText {
    match reason {
        NotText::Nul(at) => NotText::Nul(at + by as u64),
        NotText::Invalid(at) => NotText::Invalid(at + by as u64),
    }
}

/// Both texts as they stand in the file: a CRLF file is shown to the model with `\n`, and a mark not at all.
fn as_in_file(replacement: Replacement<'_>, style: Style, has_bom: bool) -> (String, String) {
    let unmarked = |text: &str| match text.strip_prefix('\u{FEFF}') {
        Some(rest) if has_bom => rest.to_owned(),
        _ => text.to_owned(),
    };
    let ended = |text: String| match style {
        Style::Crlf => text.replace("\r\n", "\n").replace('\n', "\r\n"),
        Style::Lf | Style::Mixed => text,
    };
    (
        ended(unmarked(replacement.old)),
        ended(unmarked(replacement.new)),
    )
}

fn line_at(body: &[u8], offset: usize) -> usize {
    memchr::memchr_iter(b'\n', &body[..offset]).count() + 1
}

/// The lines around the first change, numbered as Read does, so that a next edit needs no new read.
pub(super) fn excerpt(spliced: &Spliced) -> String {
    let first = spliced
        .first_lines
        .start
        .saturating_sub(CONTEXT_LINES)
        .max(1);
    let last_changed = spliced
        .first_lines
        .end
        .min(spliced.first_lines.start + MAX_SHOWN_LINES);
    let mut shown = String::new();
    let bytes = spliced.bytes.strip_prefix(BOM).unwrap_or(&spliced.bytes);
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
    for (index, line) in lines
        .skip(first - 1)
        .take(last_changed + CONTEXT_LINES - first)
    {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']);
        let cut: String = line.chars().take(MAX_SHOWN_CHARS).collect();
        let dots = if cut.len() < line.len() { "..." } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(shown, "{}\t{cut}{dots}", index + 1);
    }
    shown.truncate(shown.trim_end_matches('\n').len());
    shown
}

/// What `old_string` may have meant, in one sentence.
fn diagnose(body: &[u8], old: &str) -> Option<String> {
    if body.len() > DIAGNOSE_BYTES {
        return None;
    }
    let body = std::str::from_utf8(body).ok()?;
    if let Some(bare) = without_line_numbers(old)
        && let Some(line) = find_like(body, &bare, unended)
    {
        return Some(format!(
            "It begins its lines with numbers as Read shows them; leave the numbers and tabs out (see line {line})."
        ));
    }
    if let Some(line) = find_like(body, old, unended) {
        return Some(format!(
            "Line {line} differs from it in line endings only: the file mixes them. Name text within one line, or copy \
             the \\r characters too."
        ));
    }
    if let Some(line) = find_like(body, old, unspaced) {
        return Some(format!(
            "Line {line} differs from it in whitespace or indentation only; copy it exactly as Read shows it."
        ));
    }
    if let Some(line) = find_like(body, old, plain) {
        return Some(format!(
            "Line {line} differs from it in quotation marks, dashes or other look-alike characters; copy it exactly."
        ));
    }
    let cut = old.trim_end().strip_suffix("...")?;
    let place = body.find(cut).filter(|_| !cut.is_empty())?;
    let line = line_at(body.as_bytes(), place);
    Some(format!(
        "Line {line} goes on where Read cut it; the dots are not in the file. Name a shorter part of it."
    ))
}

/// The text without `12<tab>` in front of each line, if each has it.
fn without_line_numbers(text: &str) -> Option<String> {
    text.split_inclusive('\n')
        .map(|line| {
            let (number, rest) = line.split_once('\t')?;
            let number = number.trim();
            (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
        })
        .collect()
}

/// Finds `old` in `body` when both are looked at through `map`, which drops or replaces characters; the line of the match.
fn find_like(body: &str, old: &str, map: fn(char) -> Option<char>) -> Option<usize> {
    let wanted: String = old.chars().filter_map(map).collect();
    if wanted.is_empty() {
        return None;
    }
    let seen: String = body.chars().filter_map(map).collect();
    let place = seen.find(&wanted)?;
    let n_before = seen[..place].chars().count();
    let (offset, _) = body
        .char_indices()
        .filter(|(_, c)| map(*c).is_some())
        .nth(n_before)?;
    Some(line_at(body.as_bytes(), offset))
}

fn unended(c: char) -> Option<char> {
    (c != '\r').then_some(c)
}

fn unspaced(c: char) -> Option<char> {
    (!c.is_whitespace()).then_some(c)
}

fn plain(c: char) -> Option<char> {
    match c {
        '\u{2018}' | '\u{2019}' | '\u{201A}' | '\u{2032}' => Some('\''),
        '\u{201C}' | '\u{201D}' | '\u{201E}' | '\u{2033}' => Some('"'),
        '\u{2010}'..='\u{2015}' | '\u{2212}' => Some('-'),
        '\u{200B}'..='\u{200D}' | '\u{FEFF}' => None,
        c => unspaced(c),
    }
}

#[cfg(test)]
#[path = "splice_tests.rs"]
mod tests;
