//! How a change of a file is drawn: unified hunks, counts, and both texts where they are small.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use longshore_protocol::value::display::Display;
use similar::{ChangeTag, TextDiff};

use crate::kernel::limits::{DIFF_TEXT_BYTES, DISPLAY_BYTES};
use crate::tool::output::cut_display;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// After this long the differ stops looking for the smallest change. It stays a correct one.
const SEARCH_TIME: Duration = Duration::from_millis(200);

/// The same for a drawing made while a call is resolved, where nothing may take long.
const FRAGMENT_SEARCH_TIME: Duration = Duration::from_millis(5);

/// Draws the change of a file from `old` (absent: it is new) to `new`.
pub(super) fn of_file(path: &Path, old: Option<&[u8]>, new: &[u8]) -> Display {
    let old_text = String::from_utf8_lossy(old.unwrap_or_default());
    let new_text = String::from_utf8_lossy(new);
    let hunks = hunks(&old_text, &new_text, SEARCH_TIME);
    Display::Diff {
        path: path.display().to_string(),
        hunks: hunks.text,
        added: hunks.added,
        removed: hunks.removed,
        old_text: old.and_then(whole),
        new_text: whole(new),
        line: hunks.line,
        old_sha256: None,
        truncated: hunks.truncated,
    }
}

/// Draws a replacement whose place in the file is not known yet.
pub(super) fn of_fragment(path: &Path, old: &str, new: &str) -> Display {
    let ((old, old_is_cut), (new, new_is_cut)) = (cut_display(old), cut_display(new));
    let hunks = hunks(old, new, FRAGMENT_SEARCH_TIME);
    Display::Diff {
        path: path.display().to_string(),
        hunks: hunks.text,
        added: hunks.added,
        removed: hunks.removed,
        old_text: None,
        new_text: None,
        line: None,
        old_sha256: None,
        truncated: hunks.truncated || old_is_cut || new_is_cut,
    }
}

fn whole(bytes: &[u8]) -> Option<String> {
    (bytes.len() <= DIFF_TEXT_BYTES)
        .then(|| String::from_utf8(bytes.to_vec()).ok())
        .flatten()
}

struct Hunks {
    text: String,
    added: u32,
    removed: u32,
    line: Option<u32>,
    truncated: bool,
}

fn hunks(old: &str, new: &str, search_time: Duration) -> Hunks {
    let (start, old_end, new_end) = changed_part(old, new);
    let n_before = memchr::memchr_iter(b'\n', &old.as_bytes()[..start]).count();
    let diff = TextDiff::configure()
        .timeout(search_time)
        .diff_lines(&old[start..old_end], &new[start..new_end]);

    let mut hunks = Hunks {
        text: String::new(),
        added: 0,
        removed: 0,
        line: None,
        truncated: false,
    };
    for group in diff.grouped_ops(CONTEXT_LINES) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        // Writing to a string cannot fail.
        let mut text = String::new();
        let _ = writeln!(
            text,
            "@@ -{} +{} @@",
            range(old_range.start + n_before, old_range.len()),
            range(new_range.start + n_before, new_range.len())
        );
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => {
                    hunks.removed += 1;
                    '-'
                }
                ChangeTag::Insert => {
                    hunks.added += 1;
                    '+'
                }
            };
            if sign != ' ' && hunks.line.is_none() {
                // Where lines only went away, the one that took their place.
                let index = change
                    .new_index()
                    .unwrap_or_else(|| new_position(&group, change.old_index()));
                hunks.line = Some((index + n_before + 1) as u32);
            }
            text.push(sign);
            text.push_str(change.value());
            if !change.value().ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
        append_capped(&mut hunks, &text);
    }
    hunks
}

/// Where in the new text a line of the old one stood.
fn new_position(group: &[similar::DiffOp], old_index: Option<usize>) -> usize {
    let at = old_index.unwrap_or(0);
    let op = group.iter().find(|op| op.old_range().contains(&at));
    op.map_or(0, |op| op.new_range().start)
}

/// Whole lines up to the cap of a display text.
fn append_capped(hunks: &mut Hunks, text: &str) {
    if hunks.truncated {
        return;
    }
    let left = DISPLAY_BYTES - hunks.text.len();
    if text.len() <= left {
        hunks.text.push_str(text);
        return;
    }
    let end = text.as_bytes()[..left]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    hunks.text.push_str(&text[..end]);
    hunks.truncated = true;
}

fn range(start: usize, len: usize) -> String {
    match len {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        len => format!("{},{len}", start + 1),
    }
}

/// The part of both texts that differs, by whole lines and with some lines around it: its start, which is the same in
/// both, and its ends. Looking at less than the whole keeps large files cheap.
fn changed_part(old: &str, new: &str) -> (usize, usize, usize) {
    let (a, b) = (old.as_bytes(), new.as_bytes());
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let mut start = same;
    for _ in 0..=CONTEXT_LINES {
        start = memchr::memrchr(b'\n', &a[..start]).unwrap_or(0);
    }
    if start > 0 {
        start += 1;
    }

    let limit = a.len().min(b.len()) - same;
    let same_end = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take(limit)
        .take_while(|(a, b)| a == b)
        .count();
    let mut end = a.len() - same_end;
    for _ in 0..=CONTEXT_LINES {
        end = memchr::memchr(b'\n', &a[end..]).map_or(a.len(), |at| end + at + 1);
    }
    (start, end, end + b.len() - a.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(old: &str, new: &str, text: &str, counts: (u32, u32), line: Option<u32>) {
        let hunks = hunks(old, new, SEARCH_TIME);
        assert_eq!(hunks.text, text, "{old:?} {new:?}");
        assert_eq!(
            ((hunks.added, hunks.removed), hunks.line),
            (counts, line),
            "{old:?} {new:?}"
        );
    }

    #[test]
    fn unified_hunks() {
        let numbers: String = (1..=20).map(|n| n.to_string() + "\n").collect();
        check(
            &numbers,
            &numbers.replace("\n10\n", "\nten\n"),
            "@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n",
            (1, 1),
            Some(10),
        );
        check("a\n", "a\n", "", (0, 0), None);
        check("", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n", (2, 0), Some(1));
        check("a\nb\n", "b\n", "@@ -1,2 +1 @@\n-a\n b\n", (0, 1), Some(1));
        check(
            "a\nb",
            "a\nc",
            "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n",
            (1, 1),
            Some(2),
        );
        let twice = numbers.replace("\n2\n", "\ntwo\n").replace("\n19\n", "\n");
        check(
            &numbers,
            &twice,
            "@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n@@ -16,5 +16,4 @@\n 16\n 17\n 18\n-19\n 20\n",
            (1, 2),
            Some(2),
        );
    }

    #[test]
    fn displays_are_bounded() {
        let old: String = (0..10_000)
            .map(|n| "old ".to_owned() + &n.to_string() + "\n")
            .collect();
        let new = old.replace("old", "new");
        match of_file(Path::new("/f"), Some(old.as_bytes()), new.as_bytes()) {
            Display::Diff {
                hunks,
                old_text,
                new_text,
                truncated,
                ..
            } => {
                assert!(truncated && hunks.len() <= DISPLAY_BYTES && hunks.ends_with('\n'));
                assert_eq!((old_text, new_text), (Some(old), Some(new)));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn fragments_are_bounded_too() {
        let (old, new) = ("a\n".repeat(1 << 20), "b\n".repeat(1 << 20));
        match of_fragment(Path::new("/f"), &old, &new) {
            Display::Diff {
                hunks, truncated, ..
            } => assert!(truncated && hunks.len() <= DISPLAY_BYTES),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        /// The hunks, applied to the old text, give the new one.
        #[test]
        fn hunks_apply(old in "([ab\n]|\r\n){0,40}", new in "([ab\n]|\r\n){0,40}") {
            let hunks = hunks(&old, &new, SEARCH_TIME);
            let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
            let (mut rebuilt, mut at) = (String::new(), 0);
            let mut lines = hunks.text.split_inclusive('\n').peekable();
            while let Some(line) = lines.next() {
                if let Some(header) = line.strip_prefix("@@ -") {
                    let (start, len) = match header.split(' ').next().unwrap().split_once(',') {
                        Some((start, len)) => (start.parse::<usize>().unwrap(), len.parse::<usize>().unwrap()),
                        None => (header.split(' ').next().unwrap().parse().unwrap(), 1),
                    };
                    let first = if len == 0 { start } else { start - 1 };
                    old_lines[at..first].iter().for_each(|line| rebuilt.push_str(line));
                    at = first;
                    continue;
                }
                if line.starts_with('\\') {
                    continue;
                }
                let cut = lines.peek().is_some_and(|next| next.starts_with('\\'));
                let text = if cut { line[1..].strip_suffix('\n').unwrap() } else { &line[1..] };
                match line.as_bytes()[0] {
                    b'+' => rebuilt.push_str(text),
                    sign => {
                        prop_assert_eq!(old_lines[at], text);
                        at += 1;
                        if sign == b' ' {
                            rebuilt.push_str(text);
                        }
                    }
                }
            }
            old_lines[at..].iter().for_each(|line| rebuilt.push_str(line));
            prop_assert_eq!(rebuilt, new);
        }
    }
}
