//! Exact replacement in one file: find, and put new bytes in the place of the old ones.
//!
//! The text of the model is looked for in the text of the file; what is then replaced are bytes. Every byte outside the
//! matches is copied from the file as it stands, whatever its encoding: untouched by construction. Nothing is kept per
//! match, so that a million of them cost no memory. What a text that does not match may have meant is told by
//! [`diagnose`](super::diagnose).

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

use memchr::memmem::{self, Finder};

use super::diagnose::diagnose;
use super::text::encoding::{Encoding, Text, Unencodable, Unreadable};
use super::text::endings::{Style, style_of};
use crate::tool::output::first_chars;

/// Places named when a match is not unique.
const MAX_PLACES: usize = 5;

/// Lines shown around the first change.
const CONTEXT_LINES: usize = 3;

/// Lines that are shown of the first change and around it.
const MAX_SHOWN_LINES: usize = 40;

/// Characters of a shown line.
const MAX_SHOWN_CHARS: usize = 500;

/// What to replace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replacement<'a> {
    pub old: &'a str,
    pub new: &'a str,
    pub all: bool,
    /// The new content may not be larger.
    pub max_bytes: u64,
}

/// A replacement that was worked out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spliced<'a> {
    /// The file as it was.
    pub before: Text<'a>,
    /// How its lines end.
    pub style: Style,
    /// The whole new content.
    pub bytes: Vec<u8>,
    /// How often the text was replaced.
    pub n_replaced: usize,
    /// The lines of the first replacement in the new content, from 1.
    pub first_lines: Range<usize>,
    /// The new content decoded, where its bytes are not UTF-8.
    decoded: Option<String>,
    /// What was replaced, as it stands in the file, decoded; and the length of what took its place.
    old: String,
    new_len: usize,
    /// Where the first of them stands, in both texts.
    first_place: usize,
}

/// A stretch of the old text and the one that took its place, in bytes of the decoded texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub old: Range<usize>,
    pub new: Range<usize>,
}

/// Why nothing was replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SpliceError {
    /// The file is no text that can be decoded without loss.
    Unreadable(Unreadable),
    /// The new text holds a character that the file's encoding lacks.
    Unencodable(Unencodable),
    /// With the endings of the file, both texts are the same.
    Same,
    /// Nothing matches; with what may have been meant.
    NotFound(Option<String>),
    /// Several places match: how many, and the lines of the first.
    NotUnique(usize, Vec<usize>),
    /// The new content would be so large.
    TooLarge(u64),
}

impl SpliceError {
    /// For the model, about the file at `path`.
    pub(super) fn message(&self, path: &str) -> String {
        match self {
            Self::Unreadable(reason) => format!(
                "{path} can't be edited: {}. Nothing was changed. Use a shell command that keeps its encoding.",
                reason.reason()
            ),
            Self::Unencodable(error) => error.message(path),
            Self::Same => format!(
                "The lines of {path} end in CRLF, so old_string and new_string are the same there; nothing was changed. \
                 Convert line endings with a shell command."
            ),
            Self::NotFound(hint) => {
                let hint = hint.as_deref().unwrap_or(
                    "The file may have changed: read it again and copy the text exactly.",
                );
                format!("old_string was not found in {path}; nothing was changed. {hint}")
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
            Self::TooLarge(bytes) => format!(
                "{path} would grow to {} MiB, more than can be edited; nothing was changed.",
                bytes >> 20
            ),
        }
    }
}

/// Works out the replacement in the content of a file.
pub(super) fn splice<'a>(
    file: &'a [u8],
    replacement: Replacement<'_>,
) -> Result<Spliced<'a>, SpliceError> {
    let before = Text::of(file).map_err(SpliceError::Unreadable)?;
    let style = style_of(before.body.as_bytes());
    let old = in_file(replacement.old, style, &before);
    let new = in_file(replacement.new, style, &before);
    if old == new {
        return Err(SpliceError::Same);
    }
    let body = before.body.as_bytes();
    let finder = Finder::new(old.as_bytes());
    let (mut first_place, mut n_replaced) = (0, 0);
    for place in finder.find_iter(body) {
        if n_replaced == 0 {
            first_place = place;
        }
        n_replaced += 1;
    }
    match n_replaced {
        0 => {
            let hint = diagnose(&before.body, style, replacement.old);
            return Err(SpliceError::NotFound(hint));
        }
        1 => {}
        count if !replacement.all => {
            let places = finder.find_iter(body).take(MAX_PLACES);
            let lines = places.map(|place| line_at(body, place)).collect();
            return Err(SpliceError::NotUnique(count, lines));
        }
        _ => {}
    }

    let new_bytes = before
        .encoding
        .encode(&new)
        .map_err(SpliceError::Unencodable)?;
    let old_len = before
        .encoding
        .len_in_file(&old)
        .map_err(SpliceError::Unencodable)?;
    let size = grown(file.len(), old_len, new_bytes.len(), n_replaced);
    if size > replacement.max_bytes.max(file.len() as u64) {
        return Err(SpliceError::TooLarge(size));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    // Where the text and the file have got to: the same number only in UTF-8 without a mark.
    let (mut in_text, mut in_file) = (0, 0);
    let mut to = before.mark_bytes;
    for place in places(&finder, body, first_place, n_replaced) {
        to += before
            .encoding
            .len_in_file(&before.body[in_text..place])
            .map_err(SpliceError::Unencodable)?;
        bytes.extend_from_slice(&file[in_file..to]);
        bytes.extend_from_slice(&new_bytes);
        to += old_len;
        in_file = to;
        in_text = place + old.len();
    }
    bytes.extend_from_slice(&file[in_file..]);

    let decoded = (before.encoding != Encoding::Utf8).then(|| {
        let limit = if replacement.all { usize::MAX } else { 1 };
        before.body.replacen(old.as_ref(), &new, limit)
    });
    let first_line = line_at(body, first_place);
    let n_newlines = memchr::memchr_iter(b'\n', new.as_bytes()).count();
    // A replacement that ends a line does not touch the next one.
    let n_lines = n_newlines + usize::from(!new.ends_with('\n'));
    let (old, new_len) = (old.into_owned(), new.len());
    Ok(Spliced {
        style,
        bytes,
        n_replaced,
        first_lines: first_line..first_line + n_lines,
        decoded,
        old,
        new_len,
        first_place,
        before,
    })
}

/// A text of the model as it stands in the file, decoded: with its line endings, and without the mark, which is never
/// looked for or put in a second time.
fn in_file<'t>(text: &'t str, style: Style, file: &Text<'_>) -> Cow<'t, str> {
    match text.strip_prefix('\u{FEFF}') {
        Some(rest) if file.mark_bytes > 0 => style.in_file(rest),
        _ => style.in_file(text),
    }
}

/// So many places from the first on. Nothing behind the last of them is looked at.
fn places<'f>(
    finder: &'f Finder<'_>,
    body: &'f [u8],
    first: usize,
    count: usize,
) -> impl Iterator<Item = usize> + 'f {
    finder
        .find_iter(&body[first..])
        .take(count)
        .map(move |place| first + place)
}

/// The size of a file after so many replacements.
fn grown(size: usize, old_len: usize, new_len: usize, count: usize) -> u64 {
    let (size, count) = (size as u64, count as u64);
    (size - old_len as u64 * count).saturating_add((new_len as u64).saturating_mul(count))
}

/// The number of the line in which an offset lies, from 1.
pub(super) fn line_at(body: &[u8], offset: usize) -> usize {
    memchr::memchr_iter(b'\n', &body[..offset]).count() + 1
}

impl Spliced<'_> {
    /// The new text, behind its mark.
    pub(super) fn after(&self) -> &[u8] {
        match &self.decoded {
            Some(text) => text.as_bytes(),
            None => &self.bytes[self.before.mark_bytes..],
        }
    }

    /// The places that changed, from first to last.
    pub(super) fn changes(&self) -> impl Iterator<Item = Change> {
        let (old_len, new_len, first) = (self.old.len(), self.new_len, self.first_place);
        memmem::find_iter(&self.before.body.as_bytes()[first..], self.old.as_bytes())
            .take(self.n_replaced)
            .map(move |place| first + place)
            .enumerate()
            .map(move |(nth, place)| {
                let start = place + nth * new_len - nth * old_len;
                Change {
                    old: place..place + old_len,
                    new: start..start + new_len,
                }
            })
    }

    /// The lines around the first change, numbered as Read does, so that a next edit needs no new read.
    pub(super) fn excerpt(&self) -> String {
        let after = self.after();
        let changed = &self.first_lines;
        let first = changed.start.saturating_sub(CONTEXT_LINES).max(1);
        let mut start = line_start(after, self.first_place);
        for _ in first..changed.start {
            start = line_start(after, start - 1);
        }
        let n_lines = changed.end + CONTEXT_LINES - first;
        let mut lines = after[start..].split_inclusive(|byte| *byte == b'\n');
        let mut shown = String::new();
        for (number, line) in (first..).zip(lines.by_ref().take(n_lines.min(MAX_SHOWN_LINES))) {
            let line = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
            let line = self.style.show(&line);
            let cut = first_chars(&line, MAX_SHOWN_CHARS);
            let dots = if cut.len() < line.len() { "..." } else { "" };
            // Writing to a string cannot fail.
            let _ = writeln!(shown, "{number}\t{cut}{dots}");
        }
        if n_lines > MAX_SHOWN_LINES && lines.next().is_some() {
            shown.push_str("...");
        }
        shown.truncate(shown.trim_end_matches('\n').len());
        shown
    }
}

/// Where the line begins in which an offset lies.
fn line_start(text: &[u8], offset: usize) -> usize {
    memchr::memrchr(b'\n', &text[..offset]).map_or(0, |at| at + 1)
}

#[cfg(test)]
#[path = "splice_tests.rs"]
mod tests;
