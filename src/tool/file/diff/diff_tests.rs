use proptest::prelude::*;

use super::super::splice::{Replacement, splice};
use super::*;

fn check(old: &str, new: &str, text: &str, counts: (u32, u32), line: Option<u32>) {
    let hunks = drawn(old, new, FILE_BUDGET);
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

/// The hunks, counts and number of a drawing of whole files, and whether it is cut.
fn hunks(display: Display) -> (String, u32, u32, Option<u32>, bool) {
    match display {
        Display::Diff {
            hunks,
            added,
            removed,
            line,
            truncated,
            ..
        } => (hunks, added, removed, line, truncated),
        other => panic!("{other:?}"),
    }
}

fn replaced(old: &str, new: &str) -> Replacement<'static> {
    // Tests may leak a few bytes.
    Replacement {
        old: old.to_owned().leak(),
        new: new.to_owned().leak(),
        all: true,
        max_bytes: 1 << 30,
    }
}

#[test]
fn edits_are_drawn_at_their_places() {
    let path = Path::new("/f");
    for (file, old, new, text, counts) in [
        (
            &b"a\nb\nc\n"[..],
            "b\nc",
            "b\nd",
            "@@ -1,3 +1,3 @@\n a\n b\n-c\n+d\n",
            (1, 1),
        ),
        (
            b"a\nb\nc\n",
            "a\n",
            "",
            "@@ -1,3 +1,2 @@\n-a\n b\n c\n",
            (0, 1),
        ),
        (
            b"a\nb\n",
            "a\nb",
            "ab",
            "@@ -1,2 +1 @@\n-a\n-b\n+ab\n",
            (1, 2),
        ),
        (
            b"x\n1\n2\n3\n4\n5\n6\n7\nx x\n",
            "x",
            "y",
            "@@ -1,4 +1,4 @@\n-x\n+y\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-x x\n+y y\n",
            (2, 2),
        ),
        (
            b"x\n1\n2\n3\n4\n5\n6\nx",
            "x",
            "y\nz",
            "@@ -1,8 +1,10 @@\n-x\n+y\n+z\n 1\n 2\n 3\n 4\n 5\n 6\n-x\n\\ No newline at end of file\n+y\n+z\n\\ No \
             newline at end of file\n",
            (4, 2),
        ),
        (
            b"\xFF\xFEa\0\n\0b\0",
            "b",
            "\u{E9}",
            "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+\u{E9}\n\\ No newline at end of file\n",
            (1, 1),
        ),
        (
            b"\xEF\xBB\xBFa\r\nb\r\n",
            "a",
            "c",
            "@@ -1,2 +1,2 @@\n-a\r\n+c\r\n b\r\n",
            (1, 1),
        ),
        // A lone return ends no line.
        (
            b"a\rb\nc\rd\n",
            "c\r",
            "",
            "@@ -1,2 +1,2 @@\n a\rb\n-c\rd\n+d\n",
            (1, 1),
        ),
    ] {
        let spliced = splice(file, replaced(old, new)).unwrap();
        let (shown, added, removed, ..) = hunks(of_edit(path, &spliced));
        assert_eq!(
            (shown.as_str(), (added, removed)),
            (text, counts),
            "{old:?}"
        );
        if file.first() != Some(&0xFF) {
            let (same, ..) = hunks(of_file(path, Some(file), &spliced.bytes));
            assert_eq!(shown, same, "{old:?}");
        }
    }
}

#[test]
fn whole_texts_go_with_small_diffs_only() {
    let path = Path::new("/f");
    let texts = |display| match display {
        Display::Diff {
            old_text, new_text, ..
        } => (old_text, new_text),
        other => panic!("{other:?}"),
    };
    let some = |text: &str| Some(text.to_owned());
    let large = "x\n".repeat(DISPLAY_BYTES / 2 + 1);
    for (old, new, expected) in [
        (Some("a\n"), "b\n", (some("a\n"), some("b\n"))),
        (None, "b\n", (None, some("b\n"))),
        (
            Some("\u{FEFF}a\n"),
            "\u{FEFF}b\n",
            (some("a\n"), some("b\n")),
        ),
        // The new one alone would say that there was no file before.
        (Some(large.as_str()), "b\n", (None, None)),
        (Some("a\n"), &large, (None, None)),
        (None, &large, (None, None)),
    ] {
        let shown = of_file(path, old.map(str::as_bytes), new.as_bytes());
        assert_eq!(texts(shown), expected);
    }
}

#[test]
fn displays_are_bounded() {
    let path = Path::new("/f");
    let n_lines = 200_000;
    let old: String = (0..n_lines)
        .map(|n| "old ".to_owned() + &n.to_string() + "\n")
        .collect();
    let new = old.replace("old", "new");
    let spliced = splice(old.as_bytes(), replaced("old", "new")).unwrap();
    let line = "x".repeat(3 * DISPLAY_BYTES);
    for (display, counts) in [
        (
            of_file(path, Some(old.as_bytes()), new.as_bytes()),
            (n_lines, n_lines),
        ),
        (of_file(path, None, new.as_bytes()), (n_lines, 0)),
        (of_edit(path, &spliced), (n_lines, n_lines)),
        (of_file(path, Some(b"short\n"), line.as_bytes()), (1, 1)),
    ] {
        let (shown, added, removed, line, truncated) = hunks(display);
        assert!(truncated && shown.len() <= DISPLAY_BYTES && shown.ends_with('\n'));
        assert_eq!(((added, removed), line), (counts, Some(1)));
    }
    let (old, new) = ("a\n".repeat(1 << 20), "b\n".repeat(1 << 20));
    let (shown, _, _, line, truncated) = hunks(of_fragment(path, &old, &new));
    assert!(truncated && shown.len() <= DISPLAY_BYTES && line.is_none());
}

/// Applies hunks as `patch` does, and checks their numbers on both sides.
fn apply(old: &str, hunks: &str) -> String {
    let range = |text: &str| -> (usize, usize) {
        let (start, len) = text.split_once(',').unwrap_or((text, "1"));
        let (start, len): (usize, usize) = (start.parse().unwrap(), len.parse().unwrap());
        (if len == 0 { start } else { start - 1 }, len)
    };
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let mut new_lines: Vec<String> = Vec::new();
    let (mut at, mut old_end, mut new_end) = (0, 0, 0);
    let mut lines = hunks.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        if let Some(header) = line.strip_prefix("@@ -") {
            assert_eq!((at, new_lines.len()), (old_end, new_end));
            let (in_old, in_new) = header.trim_end_matches(" @@\n").split_once(" +").unwrap();
            let ((old_start, n_old), (new_start, n_new)) = (range(in_old), range(in_new));
            let same = old_lines[at..old_start].iter().map(ToString::to_string);
            new_lines.extend(same);
            at = old_start;
            assert_eq!(new_lines.len(), new_start);
            (old_end, new_end) = (old_start + n_old, new_start + n_new);
            continue;
        }
        if line.starts_with('\\') {
            continue;
        }
        let is_last = lines.peek().is_some_and(|next| next.starts_with('\\'));
        let text = if is_last {
            line[1..].strip_suffix('\n').unwrap()
        } else {
            &line[1..]
        };
        let sign = line.as_bytes()[0];
        if sign != b'+' {
            assert_eq!(old_lines[at], text);
            at += 1;
        }
        if sign != b'-' {
            new_lines.push(text.to_owned());
        }
    }
    assert_eq!((at, new_lines.len()), (old_end, new_end));
    new_lines.concat() + &old_lines[at..].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// The hunks, applied to the old text, give the new one.
    #[test]
    fn hunks_apply(old in "([abc]|\n|\r|\r\n){0,60}", new in "([abc]|\n|\r|\r\n){0,60}") {
        prop_assert_eq!(apply(&old, &drawn(&old, &new, FILE_BUDGET).text), new.clone());
        let none = Budget { bytes: 0, ..FILE_BUDGET };
        prop_assert_eq!(apply(&old, &drawn(&old, &new, none).text), new);
    }

    /// So do those of an edit, of one place or many.
    #[test]
    fn hunks_of_edits_apply(file in "([ab]|\n){1,80}", old in "[ab\n]{1,3}", new in "[ab\n]{0,3}") {
        if let Ok(spliced) = splice(file.as_bytes(), Replacement { old: &old, new: &new, all: true, max_bytes: 1 << 20 }) {
            let (text, ..) = hunks(of_edit(Path::new("/f"), &spliced));
            prop_assert_eq!(apply(&file, &text).into_bytes(), spliced.bytes);
        }
    }
}
