//! Unified hunks, written change by change.

use std::fmt::Write;

use super::super::splice::Change;
use crate::kernel::limits::DISPLAY_BYTES;
use crate::tool::output::cut_display;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// What was drawn.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Drawn {
    /// The hunks, at most [`DISPLAY_BYTES`] of them.
    pub text: String,
    /// Lines that came.
    pub added: u32,
    /// Lines that went.
    pub removed: u32,
    /// The first changed line of the new text, from 1. Where lines only went, the one that took their place.
    pub line: Option<u32>,
    /// Hunks were cut.
    pub truncated: bool,
}

/// Writes hunks; changes come in order and consist of whole lines.
pub(super) struct Hunks<'a> {
    old: &'a str,
    new: &'a str,
    drawn: Drawn,
    /// Behind the last change in the old text, and the lines before that in both.
    at: usize,
    old_line: usize,
    new_line: usize,
    group: Option<Group>,
}

/// A hunk being written.
struct Group {
    old_start: usize,
    new_start: usize,
    n_old: usize,
    n_new: usize,
    text: String,
}

impl<'a> Hunks<'a> {
    pub(super) fn new(old: &'a str, new: &'a str) -> Self {
        let drawn = Drawn {
            text: String::new(),
            added: 0,
            removed: 0,
            line: None,
            truncated: false,
        };
        Self {
            old,
            new,
            drawn,
            at: 0,
            old_line: 0,
            new_line: 0,
            group: None,
        }
    }

    pub(super) fn push(&mut self, change: &Change) {
        let (removed, added) = (&self.old[change.old.clone()], &self.new[change.new.clone()]);
        let (n_removed, n_added) = (n_lines(removed), n_lines(added));
        self.drawn.removed += n_removed as u32;
        self.drawn.added += n_added as u32;
        // Once the text is full, only the counts go on.
        if self.drawn.truncated {
            return;
        }
        let gap = &self.old[self.at..change.old.start];
        let n_gap = n_lines(gap);
        if n_gap > 2 * CONTEXT_LINES {
            self.close(gap);
        }
        self.old_line += n_gap;
        self.new_line += n_gap;
        let lead = if self.group.is_some() {
            gap
        } else {
            last_lines(gap, CONTEXT_LINES)
        };
        let n_lead = n_lines(lead);
        let group = self.group.get_or_insert_with(|| Group {
            old_start: self.old_line - n_lead,
            new_start: self.new_line - n_lead,
            n_old: 0,
            n_new: 0,
            text: String::new(),
        });
        group.write(' ', lead);
        group.write('-', removed);
        group.write('+', added);
        self.drawn
            .line
            .get_or_insert(u32::try_from(self.new_line + 1).unwrap_or(u32::MAX));
        self.at = change.old.end;
        self.old_line += n_removed;
        self.new_line += n_added;
        // A hunk that is cut anyway needs no end.
        if group.text.len() > DISPLAY_BYTES {
            self.close("");
        }
    }

    pub(super) fn finish(mut self) -> Drawn {
        let rest = &self.old[self.at..];
        self.close(rest);
        self.drawn
    }

    /// Ends the hunk with the first of the lines that follow.
    fn close(&mut self, after: &str) {
        let Some(mut group) = self.group.take() else {
            return;
        };
        group.write(' ', first_lines(after, CONTEXT_LINES));
        // Writing to a string cannot fail.
        let mut text = String::new();
        let _ = writeln!(
            text,
            "@@ -{} +{} @@",
            range(group.old_start, group.n_old),
            range(group.new_start, group.n_new)
        );
        text.push_str(&group.text);
        append_capped(&mut self.drawn, &text);
    }
}

impl Group {
    /// Writes lines, as long as they can still be shown, and counts them.
    fn write(&mut self, sign: char, lines: &str) {
        let n = n_lines(lines);
        self.n_old += if sign == '+' { 0 } else { n };
        self.n_new += if sign == '-' { 0 } else { n };
        for line in lines.split_inclusive('\n') {
            if self.text.len() > DISPLAY_BYTES {
                return;
            }
            self.text.push(sign);
            self.text.push_str(cut_display(line).0);
            if !line.ends_with('\n') {
                self.text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
}

/// Whole lines up to the cap of a display text.
fn append_capped(drawn: &mut Drawn, text: &str) {
    let left = DISPLAY_BYTES - drawn.text.len();
    if text.len() <= left {
        drawn.text.push_str(text);
        return;
    }
    let end = memchr::memrchr(b'\n', &text.as_bytes()[..left]).map_or(0, |at| at + 1);
    drawn.text.push_str(&text[..end]);
    drawn.truncated = true;
}

fn range(start: usize, len: usize) -> String {
    match len {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        len => format!("{},{len}", start + 1),
    }
}

fn n_lines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
        + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

fn first_lines(text: &str, n: usize) -> &str {
    let end = memchr::memchr_iter(b'\n', text.as_bytes()).nth(n - 1);
    end.map_or(text, |at| &text[..=at])
}

fn last_lines(text: &str, n: usize) -> &str {
    let inner = text.strip_suffix('\n').unwrap_or(text);
    let start = memchr::memrchr_iter(b'\n', inner.as_bytes()).nth(n - 1);
    start.map_or(text, |at| &text[at + 1..])
}
