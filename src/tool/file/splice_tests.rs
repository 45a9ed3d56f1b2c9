use proptest::prelude::*;

use super::*;

fn edit(file: &str, old: &str, new: &str) -> Result<String, SpliceError> {
    let replacement = Replacement {
        old,
        new,
        all: false,
    };
    splice(file.as_bytes(), replacement).map(|spliced| String::from_utf8(spliced.bytes).unwrap())
}

#[test]
fn replaces_exactly() {
    for (file, old, new, expected) in [
        ("a\nb\nc\n", "b", "B", "a\nB\nc\n"),
        ("a\r\nb\r\nc\r\n", "b", "B", "a\r\nB\r\nc\r\n"),
        (
            "x = 1\r\ny = 2\r\n",
            "x = 1\ny = 2",
            "x = 1\ny = 3\nz = 4",
            "x = 1\r\ny = 3\r\nz = 4\r\n",
        ),
        (
            "alpha\r\nbeta\r\n",
            "alpha\nbeta",
            "one\r\ntwo",
            "one\r\ntwo\r\n",
        ),
        (
            "alpha\r\nbeta\r\n",
            "alpha\r\nbeta",
            "one\ntwo",
            "one\r\ntwo\r\n",
        ),
        ("a\r\nb\nc\rd", "b\nc\rd", "B\r\n", "a\r\nB\r\n"),
        (
            "\u{FEFF}hello\n中文\n",
            "hello",
            "hello2",
            "\u{FEFF}hello2\n中文\n",
        ),
        (
            "\u{FEFF}hello\n",
            "\u{FEFF}hello",
            "\u{FEFF}bye",
            "\u{FEFF}bye\n",
        ),
        ("cost\n", "cost", "$& $1 \\n", "$& $1 \\n\n"),
        ("a b c", " b", "", "a c"),
    ] {
        assert_eq!(
            edit(file, old, new).as_deref(),
            Ok(expected),
            "{file:?} {old:?}"
        );
    }
}

#[test]
fn counts_and_places() {
    let file = b"x\na\nx\nx x\n";
    let one = Replacement {
        old: "x",
        new: "y",
        all: false,
    };
    assert_eq!(
        splice(file, one),
        Err(SpliceError::NotUnique(4, vec![1, 3, 4, 4]))
    );
    let all = splice(file, Replacement { all: true, ..one }).unwrap();
    assert_eq!(
        (all.bytes.as_slice(), all.n_replaced),
        (&b"y\na\ny\ny y\n"[..], 4)
    );
    let overlapping = splice(
        b"aaaa",
        Replacement {
            old: "aa",
            new: "b",
            all: true,
        },
    )
    .unwrap();
    assert_eq!(overlapping.bytes, b"bb");
    let message = SpliceError::NotUnique(7, vec![1, 2, 3, 4, 5]).message("f");
    assert!(
        message.contains("7 places") && message.contains("1, 2, 3, 4, 5, …"),
        "{message}"
    );
}

#[test]
fn what_is_not_text_is_left_alone() {
    assert_eq!(
        splice(
            b"a\nb\n\xFF",
            Replacement {
                old: "a",
                new: "b",
                all: false
            }
        ),
        Err(SpliceError::NotText(NotText::Invalid(4)))
    );
    assert_eq!(
        splice(
            b"\xEF\xBB\xBFa\0",
            Replacement {
                old: "a",
                new: "b",
                all: false
            }
        ),
        Err(SpliceError::NotText(NotText::Nul(4)))
    );
    assert!(matches!(
        splice(
            b"\xFF\xFEa\0",
            Replacement {
                old: "a",
                new: "b",
                all: false
            }
        ),
        Err(SpliceError::Encoding(_))
    ));
}

#[test]
fn diagnoses() {
    let long = format!("start {}\n", "x".repeat(2500));
    for (file, old, expected) in [
        ("one\n  two\nthree\n", "2\t  two\n3\tthree", "numbers"),
        (
            "a\r\nb\nc\rd",
            "a\nb",
            "Line 1 differs from it in line endings",
        ),
        (
            "a\nfn x() {\n\tbody\n}\n",
            "fn x() {\n    body\n}",
            "Line 2 differs from it in whitespace",
        ),
        (
            "a\n\u{201C}hi\u{201D}\n",
            "\"hi\"",
            "Line 2 differs from it in quotation marks",
        ),
        (
            &long,
            &format!("start {}...", "x".repeat(1991)),
            "Line 1 goes on where Read cut it",
        ),
        ("abc\n", "xyz", "may have changed"),
    ] {
        let error = edit(file, old, "new").unwrap_err();
        let message = error.message("f");
        assert!(message.contains(expected), "{old:?}: {message}");
    }
}

#[test]
fn excerpts_carry_the_new_numbers() {
    let file: String = (1..=20)
        .map(|n| "line ".to_owned() + &n.to_string() + "\n")
        .collect();
    let replacement = Replacement {
        old: "line 10\n",
        new: "ten\nmore\n",
        all: false,
    };
    let spliced = splice(file.as_bytes(), replacement).unwrap();
    assert_eq!(spliced.first_lines, 10..12);
    assert_eq!(
        excerpt(&spliced),
        "7\tline 7\n8\tline 8\n9\tline 9\n10\tten\n11\tmore\n12\tline 11\n13\tline 12\n14\tline 13"
    );
    let deleted = splice(
        b"a\nb",
        Replacement {
            old: "a\n",
            new: "",
            all: false,
        },
    )
    .unwrap();
    assert_eq!(
        (deleted.first_lines.clone(), excerpt(&deleted).as_str()),
        (1..2, "1\tb")
    );
}

/// Lines of a few letters under one of the ending styles, perhaps marked.
fn files() -> impl Strategy<Value = (Vec<u8>, Style)> {
    let lines = proptest::collection::vec(("[a-cé中🌍 ]{0,6}", any::<bool>()), 0..8);
    (lines, 0..3_u8, any::<bool>()).prop_map(|(lines, style, marked)| {
        let mut bytes = if marked { BOM.to_vec() } else { Vec::new() };
        for (line, flip) in lines {
            bytes.extend_from_slice(line.as_bytes());
            bytes.extend_from_slice(match (style, flip) {
                (0, _) | (2, true) => b"\n",
                _ => b"\r\n",
            });
        }
        let style = text::style_of(&bytes);
        (bytes, style)
    })
}

proptest! {
    #[test]
    fn only_matched_bytes_change((file, style) in files(), at in any::<prop::sample::Index>(), len in 1..6_usize, new in "[x-z\\n]{0,6}", all in any::<bool>()) {
        let body_start = if file.starts_with(BOM) { 3 } else { 0 };
        let body = std::str::from_utf8(&file[body_start..]).unwrap();
        // What the model saw: CRLF files with plain newlines.
        let seen = if style == Style::Crlf { body.replace("\r\n", "\n") } else { body.to_owned() };
        let chars: Vec<char> = seen.chars().collect();
        prop_assume!(!chars.is_empty());
        let from = at.index(chars.len());
        let old: String = chars[from..(from + len).min(chars.len())].iter().collect();

        let in_file = |text: &str| if style == Style::Crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
        let (old_raw, new_raw) = (in_file(&old), in_file(&new));
        let n_matches = body.matches(&old_raw).count();
        match splice(&file, Replacement { old: &old, new: &new, all }) {
            Ok(spliced) => {
                prop_assert!(n_matches == 1 || all);
                prop_assert_eq!(spliced.n_replaced, n_matches);
                // Rebuilt from the parts between the matches: each is there byte by byte.
                let parts: Vec<&str> = body.split(&old_raw).collect();
                let mut expected = file[..body_start].to_vec();
                expected.extend_from_slice(parts.join(&new_raw).as_bytes());
                prop_assert_eq!(spliced.bytes, expected);
            }
            Err(SpliceError::NotUnique(count, _)) => {
                prop_assert!(!all);
                prop_assert_eq!(count, n_matches);
                prop_assert!(count > 1);
            }
            Err(other) => prop_assert!(false, "{:?}", other),
        }
    }
}
