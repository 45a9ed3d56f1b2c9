use super::*;
use crate::tool::file::text::BOM;
use crate::tool::file::text::check::NotText;

fn one<'a>(old: &'a str, new: &'a str) -> Replacement<'a> {
    Replacement {
        old,
        new,
        all: false,
        max_bytes: 1 << 20,
    }
}

fn edit(file: &[u8], old: &str, new: &str) -> Result<Vec<u8>, SpliceError> {
    splice(file, one(old, new)).map(|spliced| spliced.bytes)
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
        ("a\nb\n", "a", "x\r\ny", "x\r\ny\nb\n"),
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
            edit(file.as_bytes(), old, new).as_deref(),
            Ok(expected.as_bytes()),
            "{file:?} {old:?}"
        );
    }
}

#[test]
fn other_encodings_stay() {
    for (file, old, new, expected) in [
        // Both orders, with a mark and without.
        (
            &b"\xFF\xFEa\0\r\0\n\0b\0\r\0\n\0"[..],
            "a\nb",
            "x",
            &b"\xFF\xFEx\0\r\0\n\0"[..],
        ),
        (
            b"\xFE\xFF\0a\0\n-N\xD8\x3C\xDF\x0D",
            "a",
            "é",
            b"\xFE\xFF\0\xE9\0\n-N\xD8\x3C\xDF\x0D",
        ),
        (b"a\0b\0\n\0", "b", "🌍", b"a\0\x3C\xD8\x0D\xDF\n\0"),
        (
            b"# \xB2\xE2\xCA\xD4\nadd = 1\n",
            "add = 1",
            "add = 2",
            b"# \xB2\xE2\xCA\xD4\nadd = 2\n",
        ),
        (
            b"# \xB2\xE2\xCA\xD4\nadd = 1\n",
            "测试\n",
            "试",
            b"# \xCA\xD4add = 1\n",
        ),
    ] {
        assert_eq!(edit(file, old, new).as_deref(), Ok(expected), "{old:?}");
    }
    let gbk = b"# \xB2\xE2\xCA\xD4\nadd = 1\n";
    let error = edit(gbk, "add", "🌍").unwrap_err();
    assert!(
        error
            .message("f")
            .contains("which has no '🌍' (\\u{1f30d})")
    );
}

#[test]
fn counts_and_places() {
    let file = b"x\na\nx\nx x\n";
    assert_eq!(
        splice(file, one("x", "y")),
        Err(SpliceError::NotUnique(4, vec![1, 3, 4, 4]))
    );
    let all = |old, new| Replacement {
        all: true,
        ..one(old, new)
    };
    let spliced = splice(file, all("x", "long")).unwrap();
    assert_eq!(
        (spliced.bytes.as_slice(), spliced.n_replaced),
        (&b"long\na\nlong\nlong long\n"[..], 4)
    );
    let changes: Vec<_> = spliced
        .changes()
        .map(|change| (change.old, change.new))
        .collect();
    assert_eq!(
        changes,
        [(0..1, 0..4), (4..5, 7..11), (6..7, 12..16), (8..9, 17..21)]
    );
    assert_eq!(splice(b"aaaa", all("aa", "b")).unwrap().bytes, b"bb");
    let message = SpliceError::NotUnique(7, vec![1, 2, 3, 4, 5]).message("f");
    assert!(
        message.contains("7 places") && message.contains("1, 2, 3, 4, 5, …"),
        "{message}"
    );
}

#[test]
fn nothing_is_done_where_nothing_would_change_or_too_much() {
    assert_eq!(edit(b"a\r\nb\r\n", "a\r\n", "a\n"), Err(SpliceError::Same));
    assert_eq!(
        edit(b"a\nb\n", "a\n", "a\r\n").as_deref(),
        Ok(&b"a\r\nb\n"[..])
    );
    let bomb = Replacement {
        old: "a",
        new: &"b".repeat(1 << 20),
        all: true,
        max_bytes: 1 << 20,
    };
    let many = "a".repeat(1 << 20);
    assert_eq!(
        splice(many.as_bytes(), bomb),
        Err(SpliceError::TooLarge(1 << 40))
    );
    // A file that is too large already may shrink.
    let shrunk = Replacement {
        new: "",
        max_bytes: 1,
        ..bomb
    };
    assert_eq!(splice(many.as_bytes(), shrunk).unwrap().bytes, b"");
}

#[test]
fn what_is_not_text_is_left_alone() {
    for (file, reason) in [
        (
            &b"a\nb\n\xFF"[..],
            Unreadable::Unknown(4, Some("windows-1252")),
        ),
        (b"\xEF\xBB\xBFa\0", Unreadable::NotText(NotText::Nul(4))),
        (
            b"\xFF\xFEa\0b",
            Unreadable::Broken("UTF-16 (little endian)"),
        ),
    ] {
        let error = edit(file, "a", "b").unwrap_err();
        assert_eq!(error, SpliceError::Unreadable(reason));
        assert!(error.message("f").contains("Nothing was changed"));
    }
}

#[test]
fn excerpts_carry_the_new_numbers() {
    let file: String = (1..=20)
        .map(|n| "line ".to_owned() + &n.to_string() + "\n")
        .collect();
    let spliced = splice(file.as_bytes(), one("line 10\n", "ten\nmore\n")).unwrap();
    assert_eq!(spliced.first_lines, 10..12);
    assert_eq!(
        spliced.excerpt(),
        "7\tline 7\n8\tline 8\n9\tline 9\n10\tten\n11\tmore\n12\tline 11\n13\tline 12\n14\tline 13"
    );
    let long = "x\n".repeat(50);
    let spliced = splice(file.as_bytes(), one("line 2\n", &long)).unwrap();
    let excerpt = spliced.excerpt();
    assert!(
        excerpt.starts_with("1\tline 1\n2\tx\n") && excerpt.ends_with("\n40\tx\n..."),
        "{excerpt}"
    );
    for (file, old, new, lines, shown) in [
        (&b"a\nb"[..], "a\n", "", 1..2, "1\tb"),
        (b"a\nb", "b", "", 2..3, "1\ta"),
        (b"a", "a", "", 1..2, ""),
        (
            b"\xEF\xBB\xBFa\r\nb\r\n",
            "b",
            "c\nd",
            2..4,
            "1\ta\n2\tc\n3\td",
        ),
        (b"a\r\nb\n", "b", "c", 2..3, "1\ta\\r\n2\tc"),
        (b"\xFF\xFEa\0\n\0b\0", "b", "é", 2..3, "1\ta\n2\té"),
    ] {
        let spliced = splice(file, one(old, new)).unwrap();
        assert_eq!(
            (spliced.first_lines.clone(), spliced.excerpt().as_str()),
            (lines, shown)
        );
    }
}

/// Ten thousand random files in all encodings and endings, and random edits of what a model sees of them.
mod random {
    use encoding_rs::{GBK, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252};
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use proptest::test_runner::{Config, TestRunner};

    use super::*;

    /// How a random file is encoded.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Form {
        Utf8,
        Utf16 { big: bool },
        Legacy(&'static encoding_rs::Encoding),
    }

    impl Form {
        fn words(self) -> &'static [&'static str] {
            match self {
                Self::Utf8 | Self::Utf16 { .. } => &["a", "b", "ab", " ", "é", "中", "🌍", "\t"],
                Self::Legacy(encoding) if encoding == GBK => {
                    &["函数", "返回", "文件的", "a", " = 1", "数据", "。"]
                }
                Self::Legacy(encoding) if encoding == SHIFT_JIS => &[
                    "これは",
                    "コメント",
                    "です",
                    "関数",
                    "a",
                    " = 1",
                    "を返す。",
                ],
                Self::Legacy(encoding) if encoding == WINDOWS_1251 => {
                    &["привет ", "это ", "файл", "строка ", "a", " = 1", "данные"]
                }
                Self::Legacy(_) => &["für ", "schön ", "Größe ", "über ", "a", " = 1"],
            }
        }

        /// By the plainest means there are.
        fn encode(self, text: &str) -> Vec<u8> {
            match self {
                Self::Utf8 => text.as_bytes().to_vec(),
                Self::Utf16 { big } => text
                    .encode_utf16()
                    .flat_map(|unit| {
                        if big {
                            unit.to_be_bytes()
                        } else {
                            unit.to_le_bytes()
                        }
                    })
                    .collect(),
                Self::Legacy(encoding) => encoding.encode(text).0.into_owned(),
            }
        }
    }

    fn forms() -> impl Strategy<Value = Form> {
        prop_oneof![
            4 => Just(Form::Utf8),
            2 => any::<bool>().prop_map(|big| Form::Utf16 { big }),
            2 => select(vec![GBK, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252]).prop_map(Form::Legacy),
        ]
    }

    #[derive(Debug)]
    struct Case {
        form: Form,
        marked: bool,
        body: String,
        at: Index,
        n_chars: usize,
        new: String,
        all: bool,
    }

    fn cases() -> impl Strategy<Value = Case> {
        let picks = || proptest::collection::vec(any::<Index>(), 0..4);
        let lines = proptest::collection::vec((picks(), 0..4_u8), 0..8);
        let file = (forms(), any::<bool>(), lines, 0..4_u8);
        let edit = (
            any::<Index>(),
            1..6_usize,
            picks(),
            any::<bool>(),
            any::<bool>(),
        );
        (file, edit).prop_map(
            |((form, marked, lines, style), (at, n_chars, new, ends, all))| {
                let words = form.words();
                let text = |picks: &[Index]| -> String {
                    picks.iter().map(|pick| *pick.get(words)).collect()
                };
                let mut body = String::new();
                for (picks, ending) in lines {
                    body.push_str(&text(&picks));
                    body.push_str(match (style, ending) {
                        (0, _) | (2, 0) => "\n",
                        (1, _) | (2, 1 | 2) => "\r\n",
                        (2, _) => "\r",
                        _ => "",
                    });
                }
                let new = text(&new) + if ends { "\n" } else { "" };
                // Nothing but UTF-8 and UTF-16 has a mark.
                let marked = marked && !matches!(form, Form::Legacy(_));
                Case {
                    form,
                    marked,
                    body,
                    at,
                    n_chars,
                    new,
                    all,
                }
            },
        )
    }

    /// How many files were in an older encoding, and how many of them were recognised.
    #[derive(Default)]
    struct Tally {
        legacy: usize,
        recognised: usize,
    }

    fn check(case: &Case, tally: &mut Tally) -> Result<(), TestCaseError> {
        let mark = if case.marked { "\u{FEFF}" } else { "" };
        let file = case.form.encode(&format!("{mark}{}", case.body));
        // What a model sees is what is decoded; an older encoding may be refused, or taken for another of its kind.
        let Ok(seen) = Text::of(&file) else {
            tally.legacy += 1;
            let unmarked_utf16 = matches!(case.form, Form::Utf16 { .. }) && !case.marked;
            prop_assert!(matches!(case.form, Form::Legacy(_)) || unmarked_utf16);
            return Ok(());
        };
        if let (Form::Legacy(form), Encoding::Legacy(encoding)) = (case.form, seen.encoding) {
            tally.legacy += 1;
            tally.recognised += usize::from(form == encoding);
        }
        let form = match seen.encoding {
            Encoding::Legacy(encoding) => Form::Legacy(encoding),
            Encoding::Utf8 => Form::Utf8,
            Encoding::Utf16(_) => case.form,
        };
        let body = seen.body.into_owned();
        let is_crlf = style_of(body.as_bytes()) == Style::Crlf;
        let shown = if is_crlf {
            body.replace("\r\n", "\n")
        } else {
            body.clone()
        };
        let chars: Vec<char> = shown.chars().collect();
        if chars.is_empty() {
            return Ok(());
        }
        let from = case.at.index(chars.len());
        let old: String = chars[from..(from + case.n_chars).min(chars.len())]
            .iter()
            .collect();

        let in_file = |text: &str| {
            if is_crlf {
                text.replace('\n', "\r\n")
            } else {
                text.to_owned()
            }
        };
        let (old_there, new_there) = (in_file(&old), in_file(&case.new));
        let n_matches = body.matches(&old_there).count();
        let replacement = Replacement {
            all: case.all,
            ..one(&old, &case.new)
        };
        match splice(&file, replacement) {
            Ok(spliced) => {
                prop_assert!(n_matches == 1 || case.all);
                prop_assert_eq!(spliced.n_replaced, n_matches);
                // Put together from the bytes between the matches: each of them is there as it was.
                let mark_bytes = if case.marked {
                    form.encode("\u{FEFF}").len()
                } else {
                    0
                };
                let (mut expected, mut copied, mut in_body) = (Vec::new(), 0, 0);
                let mut at = mark_bytes;
                for (place, _) in body.match_indices(&old_there) {
                    at += form.encode(&body[in_body..place]).len();
                    expected.extend_from_slice(&file[copied..at]);
                    expected.extend(form.encode(&new_there));
                    at += form.encode(&old_there).len();
                    copied = at;
                    in_body = place + old_there.len();
                }
                expected.extend_from_slice(&file[copied..]);
                prop_assert_eq!(&spliced.bytes, &expected);
                let after = body.replace(&old_there, &new_there);
                prop_assert_eq!(spliced.after(), after.as_bytes());
                for change in spliced.changes() {
                    prop_assert_eq!(&body[change.old], &old_there);
                    prop_assert_eq!(&after[change.new], &new_there);
                }
            }
            Err(SpliceError::NotUnique(count, lines)) => {
                prop_assert!(!case.all && count > 1 && lines.len() == count.min(MAX_PLACES));
                prop_assert_eq!(count, n_matches);
            }
            Err(SpliceError::Same) => prop_assert_eq!(old_there, new_there),
            // Only where one old encoding was taken for another.
            Err(SpliceError::Unencodable(_)) => prop_assert!(form != case.form),
            Err(other) => prop_assert!(false, "{:?}", other),
        }
        Ok(())
    }

    #[test]
    fn only_matched_bytes_change() {
        let mut tally = std::cell::RefCell::new(Tally::default());
        TestRunner::new(Config::with_cases(10_000))
            .run(&cases(), |case| check(&case, &mut tally.borrow_mut()))
            .unwrap();
        let tally = tally.get_mut();
        assert!(
            tally.recognised * 2 > tally.legacy,
            "{} of {} files in older encodings were recognised",
            tally.recognised,
            tally.legacy
        );
    }
}

#[test]
fn marks_of_other_encodings_are_no_marks() {
    // Told by its bytes, not by what it would be elsewhere.
    let file = [BOM, b"a\xFF"].concat();
    assert!(matches!(
        edit(&file, "a", "b"),
        Err(SpliceError::Unreadable(Unreadable::Unknown(4, _)))
    ));
}
