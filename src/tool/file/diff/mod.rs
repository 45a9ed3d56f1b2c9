//! How a change of a file is drawn: unified hunks with the numbers of its lines, counts, and both texts where they are
//! small.
//!
//! Drawing takes bounded time and shows bounded text, whatever the size of the file. An edit knows its places, so
//! nothing is searched ([`of_edit`]); of two whole contents only the middle is compared, where they differ
//! ([`of_file`]). [`regions`] finds what changed, by whole lines; [`hunks`] writes it down.

mod hunks;
mod regions;

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use longshore_protocol::value::display::Display;

use self::hunks::{Drawn, Hunks};
use self::regions::{Budget, between, refined, whole_lines};
use super::splice::Spliced;
use super::text::BOM;
use super::text::encoding::Text;
use crate::kernel::limits::DISPLAY_BYTES;
use crate::tool::output::cut_display;

/// What is spent on looking for the smallest change between two contents.
const FILE_BUDGET: Budget = Budget {
    bytes: 4 << 20,
    time: Duration::from_millis(200),
};

/// The same for the changed lines of an edit, which are few or alike.
const EDIT_BUDGET: Budget = Budget {
    bytes: 256 << 10,
    time: Duration::from_millis(50),
};

/// The same for a drawing made while a call is resolved, where nothing may take long.
const FRAGMENT_BUDGET: Budget = Budget {
    bytes: 2 * DISPLAY_BYTES,
    time: Duration::from_millis(5),
};

/// Draws an edit whose places are known.
pub(super) fn of_edit(path: &Path, spliced: &Spliced<'_>) -> Display {
    let old = spliced.before.body.as_ref();
    let new = text_of(spliced.after());
    let mut budget = EDIT_BUDGET;
    let mut hunks = Hunks::new(old, &new);
    for region in whole_lines(old, &new, spliced.changes()) {
        for change in refined(old, &new, region, &mut budget) {
            hunks.push(&change);
        }
    }
    display(path, Some(old), &new, hunks.finish())
}

/// Draws the change of a file from `old` (absent: it is new) to `new`.
pub(super) fn of_file(path: &Path, old: Option<&[u8]>, new: &[u8]) -> Display {
    let old = old.map(text);
    let new = text(new);
    let drawn = drawn(old.as_deref().unwrap_or_default(), &new, FILE_BUDGET);
    display(path, old.as_deref(), &new, drawn)
}

/// Draws a replacement whose place in the file is not known yet.
pub(super) fn of_fragment(path: &Path, old: &str, new: &str) -> Display {
    let ((old, old_is_cut), (new, new_is_cut)) = (cut_display(old), cut_display(new));
    let drawn = drawn(old, new, FRAGMENT_BUDGET);
    Display::Diff {
        path: path.display().to_string(),
        hunks: drawn.text,
        added: drawn.added,
        removed: drawn.removed,
        old_text: None,
        new_text: None,
        line: None,
        old_sha256: None,
        truncated: drawn.truncated || old_is_cut || new_is_cut,
    }
}

fn drawn(old: &str, new: &str, mut budget: Budget) -> Drawn {
    let mut hunks = Hunks::new(old, new);
    for change in refined(old, new, between(old, new), &mut budget) {
        hunks.push(&change);
    }
    hunks.finish()
}

/// A content as it is shown: decoded, without its mark, and never failing.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    match Text::of(bytes) {
        Ok(text) => text.body,
        Err(_) => String::from_utf8_lossy(bytes.strip_prefix(BOM).unwrap_or(bytes)),
    }
}

/// Bytes that are text, as a rule: the check for that is much faster than taking them for what they may be.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

fn display(path: &Path, old: Option<&str>, new: &str, drawn: Drawn) -> Display {
    // Both or neither: a new text alone would say that there was no file.
    let is_small = old.unwrap_or_default().len().max(new.len()) <= DISPLAY_BYTES;
    let whole = |text: &str| is_small.then(|| text.to_owned());
    Display::Diff {
        path: path.display().to_string(),
        hunks: drawn.text,
        added: drawn.added,
        removed: drawn.removed,
        old_text: old.and_then(whole),
        new_text: whole(new),
        line: drawn.line,
        old_sha256: None,
        truncated: drawn.truncated,
    }
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
