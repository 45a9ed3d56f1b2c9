use std::hash::DefaultHasher;
use std::io::Cursor;

use super::*;

const SMALL: Limits = Limits {
    whole_bytes: 1000,
    check_bytes: 100,
    text_bytes: 200,
    ..Limits::READ
};

fn try_read(
    bytes: &[u8],
    offset: i64,
    n_lines: usize,
    limits: Limits,
) -> Result<Window, WindowError> {
    let cancel = CancellationToken::new();
    let mut source = Source {
        file: Cursor::new(bytes),
        start: 0,
        end: bytes.len() as u64,
        cancel: &cancel,
    };
    read(
        &mut source,
        Wanted { offset, n_lines },
        limits,
        &mut DefaultHasher::new(),
    )
}

fn window(bytes: &[u8], offset: i64, n_lines: usize) -> Window {
    try_read(bytes, offset, n_lines, Limits::READ).unwrap()
}

fn numbered(n: usize) -> Vec<u8> {
    (1..=n)
        .map(|n| "line ".to_owned() + &n.to_string() + "\n")
        .collect::<String>()
        .into_bytes()
}

#[test]
fn windows() {
    for (bytes, offset, n_lines, expected) in [
        (&b"alpha\nbeta\n"[..], 1, 1000, "1\talpha\n2\tbeta"),
        (b"alpha\r\nbeta\r\n", 1, 1000, "1\talpha\n2\tbeta"),
        (
            b"alpha\r\nbeta\ngamma\rdone",
            1,
            1000,
            "1\talpha\\r\n2\tbeta\n3\tgamma\\rdone",
        ),
        (b"1\n2\n3\n4\n5\n", 2, 2, "2\t2\n3\t3"),
        (b"1\n2\n3\n4\n5\n", -3, 1000, "3\t3\n4\t4\n5\t5"),
        (b"1\n2\n3\n4\n5", -1, 1000, "5\t5"),
        (b"1\n2\n3\n4\n5\n", -100, 2, "1\t1\n2\t2"),
        (b"1\n2\n", 20, 1000, ""),
        (b"1\n2\n", 3, 1000, ""),
        (b"\n\n", 1, 1000, "1\t\n2\t"),
        (b"", 1, 1000, ""),
        (b"", -10, 1000, ""),
    ] {
        let window = window(bytes, offset, n_lines);
        assert_eq!(window.text, expected, "{bytes:?} from {offset}");
        assert_eq!(window.n_lines, expected.lines().count());
    }
}

#[test]
fn totals_are_exact_for_small_files() {
    for (bytes, expected) in [
        (&b""[..], 0),
        (b"a", 1),
        (b"a\n", 1),
        (b"a\n\n", 2),
        (b"a\nb", 2),
    ] {
        for offset in [1, 5, -1, -5] {
            let window = window(bytes, offset, 1);
            assert_eq!(
                (window.total, window.total_is_exact),
                (expected, true),
                "{bytes:?} from {offset}"
            );
        }
    }
}

#[test]
fn long_lines_are_cut_by_characters() {
    let text = format!(
        "{}\nshort\n{}\n{}\n",
        "é".repeat(2010),
        "x".repeat(9000),
        "y".repeat(2000)
    );
    let window = window(text.as_bytes(), 1, 1000);
    let lines: Vec<&str> = window.text.lines().collect();
    assert_eq!(lines[0], format!("1\t{}...", "é".repeat(1997)));
    assert_eq!(lines[2], format!("3\t{}...", "x".repeat(1997)));
    assert_eq!(lines[3], format!("4\t{}", "y".repeat(2000)));
    assert_eq!(window.cut, [1, 3]);
}

#[test]
fn the_byte_limit_keeps_the_first_or_the_newest() {
    let text: String = (1..=80).map(|_| "z".repeat(2000) + "\n").collect();
    let first = window(text.as_bytes(), 1, 1000);
    assert!(first.hit_bytes && first.text.len() <= 102_400 && first.first == 1);
    assert_eq!(first.n_lines, 51);
    let newest = window(text.as_bytes(), -80, 1000);
    assert!(newest.hit_bytes && newest.text.len() <= 102_400);
    assert_eq!((newest.n_lines, newest.first), (51, 30));
    let one = window(&[text.as_bytes(); 6].concat(), -200, 1);
    assert_eq!((one.n_lines, one.first, one.hit_bytes), (1, 281, false));
    let huge = "w".repeat(300_000);
    assert_eq!(window(huge.as_bytes(), 1, 1000).n_lines, 1);
}

#[test]
fn mixed_endings_and_what_looks_like_them() {
    let shown = window(b"a\\rb\r\nplain\nc\r\n", 1, 1000);
    assert_eq!((shown.mixed, shown.lookalikes), (true, vec![1]));
    assert_eq!(shown.text, "1\ta\\rb\\r\n2\tplain\n3\tc\\r");
}

#[test]
fn text_is_judged_at_the_beginning_and_in_the_window() {
    let mut nul_early = numbered(20);
    nul_early[50] = 0;
    assert!(matches!(
        try_read(&nul_early, 15, 2, SMALL),
        Err(WindowError::NotText(NotText::Nul(50)))
    ));

    let mut nul_late = numbered(20);
    nul_late[120] = 0;
    assert!(try_read(&nul_late, 1, 2, SMALL).is_ok(), "outside both");
    assert!(matches!(
        try_read(&nul_late, 14, 7, SMALL),
        Err(WindowError::NotText(NotText::Nul(120)))
    ));
    assert!(matches!(
        try_read(&nul_late, -7, 7, SMALL),
        Err(WindowError::NotText(_))
    ));

    // A character that begins in the judged part and ends behind it.
    let mut split = vec![b'a'; 99];
    split.extend_from_slice("é\nb\n".as_bytes());
    assert_eq!(try_read(&split, 2, 1, SMALL).unwrap().text, "2\tb");
    assert!(try_read(&split, 1, 1, SMALL).is_ok());
    let mut open = vec![b'a'; 120];
    open.push(0xC3);
    assert!(matches!(
        try_read(&open, 1, 1, SMALL),
        Err(WindowError::NotText(NotText::Invalid(120)))
    ));
}

#[test]
fn large_files_are_counted_only_as_far_as_needed() {
    let bytes = numbered(500);
    let head = try_read(&bytes, 1, 3, SMALL).unwrap();
    assert_eq!(head.text, "1\tline 1\n2\tline 2\n3\tline 3");
    assert!(!head.total_is_exact);
    let middle = try_read(&bytes, 300, 2, SMALL).unwrap();
    assert_eq!(middle.text, "300\tline 300\n301\tline 301");
    assert!(middle.total >= 301 && !middle.total_is_exact);
    let tail = try_read(&bytes, -3, 2, SMALL).unwrap();
    assert_eq!(tail.text, "-3\tline 498\n-2\tline 499");
    assert_eq!((tail.total, tail.total_is_exact), (3, false));
    let beyond = try_read(&bytes, 900, 2, SMALL).unwrap();
    assert_eq!((beyond.n_lines, beyond.total), (0, 500));
    let all = try_read(&bytes, -1000, 2, SMALL).unwrap();
    assert_eq!(all.text, "-500\tline 1\n-499\tline 2");
}

#[test]
fn a_cancel_stops_the_read() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let mut source = Source {
        file: Cursor::new(b"a\n"),
        start: 0,
        end: 2,
        cancel: &cancel,
    };
    let got = read(
        &mut source,
        Wanted {
            offset: 1,
            n_lines: 1,
        },
        Limits::READ,
        &mut DefaultHasher::new(),
    );
    assert!(matches!(got, Err(WindowError::Cancelled)));
}

/// A file of one line that is never written anywhere.
struct Endless {
    at: u64,
    size: u64,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_read = at_most(self.size - self.at, buffer.len());
        buffer[..n_read].fill(b'x');
        self.at += n_read as u64;
        Ok(n_read)
    }
}

impl Seek for Endless {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(at) = to else {
            unreachable!("only places are asked for")
        };
        self.at = at;
        Ok(at)
    }
}

#[test]
fn one_line_of_gigabytes_is_cut_not_held() {
    for offset in [1, -1] {
        let size = 1 << 30;
        let mut source = Source {
            file: Endless { at: 0, size },
            start: 0,
            end: size,
            cancel: &CancellationToken::new(),
        };
        let wanted = Wanted {
            offset,
            n_lines: 1000,
        };
        let window = read(&mut source, wanted, Limits::READ, &mut DefaultHasher::new()).unwrap();
        assert_eq!(
            window.text,
            format!("{offset}\t{}...", "x".repeat(LINE_CHARS - 3))
        );
        assert_eq!((window.n_lines, window.cut), (1, vec![offset]));
    }
}

/// Windows of random texts against the plainest reader there is.
mod oracle {
    use proptest::prelude::*;

    use super::super::super::text::endings::{Style, style_of};
    use super::*;

    /// Splits, counts and cuts with the whole text at hand.
    fn expected(text: &str, wanted: Wanted, limits: Limits) -> Window {
        let style = style_of(text.as_bytes());
        let lines: Vec<&str> = text
            .split_inclusive('\n')
            .map(|line| line.strip_suffix('\n').unwrap_or(line))
            .collect();
        let is_whole = text.len() as u64 <= limits.whole_bytes;
        let from_end = wanted.offset < 0;
        let start = if from_end {
            lines
                .len()
                .saturating_sub(wanted.offset.unsigned_abs() as usize)
        } else {
            (wanted.offset as usize - 1).min(lines.len())
        };
        let end = (start + wanted.n_lines).min(lines.len());
        let number = |index: usize| {
            if from_end && !is_whole {
                index as i64 - lines.len() as i64
            } else {
                index as i64 + 1
            }
        };
        let mut cut = Vec::new();
        let mut rendered: Vec<(i64, String)> = Vec::new();
        for (index, line) in lines.iter().enumerate().take(end).skip(start) {
            let shown: Vec<char> = match style {
                Style::Lf => (*line).to_owned(),
                Style::Crlf => line.strip_suffix('\r').unwrap_or(line).to_owned(),
                Style::Mixed => line.replace('\r', "\\r"),
            }
            .chars()
            .collect();
            let mut content: String = shown.iter().collect();
            if shown.len() > limits.line_chars {
                cut.push(number(index));
                content = shown[..limits.line_chars - 3].iter().collect::<String>() + "...";
            }
            rendered.push((number(index), format!("{}\t{content}", number(index))));
        }
        let fits = |lines: &[(i64, String)]| {
            lines.len() <= 1
                || lines.iter().map(|(_, line)| line.len() + 1).sum::<usize>() - 1
                    <= limits.text_bytes
        };
        let n_all = rendered.len();
        while !fits(&rendered) {
            rendered.remove(if from_end { 0 } else { rendered.len() - 1 });
        }
        let shown: Vec<i64> = rendered.iter().map(|(number, _)| *number).collect();
        cut.retain(|number| shown.contains(number));
        let lookalikes = shown
            .iter()
            .filter(|shown| {
                let index = (start..end)
                    .find(|index| number(*index) == **shown)
                    .unwrap();
                style == Style::Mixed && lines[index].contains("\\r")
            })
            .copied()
            .collect();
        Window {
            text: rendered
                .iter()
                .map(|(_, line)| line.as_str())
                .collect::<Vec<_>>()
                .join("\n"),
            n_lines: rendered.len(),
            first: shown.first().copied().unwrap_or_default(),
            total: lines.len() as u64,
            total_is_exact: is_whole,
            hit_bytes: rendered.len() < n_all,
            cut,
            mixed: style == Style::Mixed,
            lookalikes,
        }
    }

    fn texts() -> impl Strategy<Value = String> {
        let word = prop_oneof![
            Just("a"),
            Just("é"),
            Just("中"),
            Just("🌍"),
            Just("\\r"),
            Just("twenty characters...")
        ];
        let line = proptest::collection::vec(word, 0..4).prop_map(|words| words.concat());
        let lines = proptest::collection::vec(line, 0..20);
        (lines, 0..3_u8, any::<bool>()).prop_map(|(lines, style, ends)| {
            // Only the beginning and the window are judged: a mixed text shows it at its beginning.
            let mut text = if style == 2 {
                "\rx".to_owned()
            } else {
                String::new()
            };
            let ending = if style == 1 { "\r\n" } else { "\n" };
            text.push_str(&lines.join(ending));
            if ends {
                text.push_str(ending);
            }
            text
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn windows(
            text in texts(),
            offset in prop_oneof![1..25_i64, -25..0_i64],
            n_lines in 1..25_usize,
            whole_bytes in prop_oneof![Just(0_u64), Just(1000)],
            check_bytes in 2..200_u64,
            text_bytes in 20..200_usize,
            chunk_bytes in 1..40_usize,
        ) {
            let limits = Limits { whole_bytes, check_bytes, text_bytes, line_chars: 20, chunk_bytes };
            let wanted = Wanted { offset, n_lines };
            let mut expected = expected(&text, wanted, limits);
            let mut found = try_read(text.as_bytes(), offset, n_lines, limits).unwrap();
            if found.n_lines == 0 {
                found.first = expected.first;
                // How a text ends that is nowhere shown is not looked for.
                (found.mixed, expected.mixed) = (false, false);
            }
            if !found.total_is_exact {
                // What was passed over is told, and all that was shown was.
                let last = found.first + found.n_lines as i64 - 1;
                let seen = if offset < 0 { found.first.unsigned_abs() } else { last.max(0) as u64 };
                prop_assert!(found.total <= expected.total && found.total >= seen);
                found.total = expected.total;
            }
            prop_assert_eq!(found, expected);
        }
    }
}
