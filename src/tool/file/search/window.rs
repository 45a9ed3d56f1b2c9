//! What is shown of a long line.

use std::borrow::Cow;

/// Characters shown of a line.
const LINE_CHARS: usize = 500;

/// Of those, before the match.
const CHARS_BEFORE: usize = 100;

/// Whether a line may be too long to be shown whole.
pub(super) fn is_long(line: &[u8]) -> bool {
    line.len() > LINE_CHARS
}

/// At most [`LINE_CHARS`] characters of a line, around the match at byte `at`; with its column where the beginning is
/// left out.
pub(super) fn window(line: &[u8], at: usize) -> Cow<'_, str> {
    // A character takes at most four bytes, so this holds the window; a line may be far longer.
    let from = at.saturating_sub(CHARS_BEFORE * 4);
    let to = line.len().min(at + LINE_CHARS * 4);
    if !is_long(line) {
        return String::from_utf8_lossy(line);
    }
    let before = String::from_utf8_lossy(&line[from..at]);
    let n_before = before.chars().count();
    let n_dropped = n_before.saturating_sub(CHARS_BEFORE);
    let rest = String::from_utf8_lossy(&line[at..to]);
    let shown: String = before
        .chars()
        .skip(n_dropped)
        .chain(rest.chars())
        .take(LINE_CHARS)
        .collect();
    let n_shown = shown.chars().count();
    let is_begun = from > 0 || n_dropped > 0;
    let is_ended = to == line.len() && n_shown == n_before - n_dropped + rest.chars().count();
    let column = String::from_utf8_lossy(&line[..at]).chars().count() + 1;
    let front = if is_begun {
        format!("[column {column}] …")
    } else {
        String::new()
    };
    let end = if is_ended { "" } else { "…" };
    format!("{front}{shown}{end}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_long_lines() {
        assert_eq!(window(b"short", 2), "short");
        let long = format!("{}MATCH{}", "é".repeat(1000), "y".repeat(1000));
        let at = long.find("MATCH").unwrap();
        let shown = window(long.as_bytes(), at);
        assert!(
            shown.starts_with("[column 1001] …ééé")
                && shown.contains("éMATCHy")
                && shown.ends_with("y…"),
            "{shown}"
        );
        assert!(shown.chars().count() <= LINE_CHARS + 20);
        let head = window(long.as_bytes(), 0);
        assert!(head.starts_with("ééé") && head.ends_with("é…"));
        let tail = format!("{}END", "x".repeat(600));
        assert!(window(tail.as_bytes(), 600).ends_with("xEND"));
    }
}
