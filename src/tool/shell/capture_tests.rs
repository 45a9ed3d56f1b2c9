//! Outputs of every size, as the model gets them.

use bytes::Bytes;

use super::capture::{Capture, Captured, Shown};
use crate::background::Ring;
use crate::kernel::limits::{COMMAND_HEAD_CHARS, COMMAND_RING_BYTES, COMMAND_TAIL_CHARS};
use crate::os::process::{Chunk, Stream};

struct Taken {
    text: Option<String>,
    is_whole: bool,
}

/// Captures these chunks as a call does.
fn capture(chunks: impl IntoIterator<Item = (Stream, Vec<u8>)>) -> Taken {
    let mut capture = Capture::new();
    let mut ring = Ring::new(COMMAND_RING_BYTES);
    let mut total_bytes = 0;
    for (stream, bytes) in chunks {
        total_bytes += bytes.len();
        let chunk = Chunk {
            stream,
            bytes: Bytes::from(bytes),
        };
        capture.push(&chunk);
        ring.push(stream, &chunk.bytes);
    }
    let wanted_log = capture.wants_log();
    let Captured { shown, is_whole } = capture.finish(&mut ring);
    assert!(is_whole || wanted_log || total_bytes <= COMMAND_RING_BYTES);
    let text = match shown {
        Shown::Text(text) => Some(text),
        Shown::Binary => None,
    };
    Taken { text, is_whole }
}

fn out(bytes: impl Into<Vec<u8>>) -> (Stream, Vec<u8>) {
    (Stream::Stdout, bytes.into())
}

/// An output in one-stream chunks of this size.
fn cut(raw: &[u8], step: usize) -> Vec<(Stream, Vec<u8>)> {
    raw.chunks(step).map(out).collect()
}

#[test]
fn what_fits_is_shown_whole_and_leaves_no_log() {
    for raw in ["", "hi\n", "no newline", "a\nb\n\n"] {
        let taken = capture(cut(raw.as_bytes(), 2));
        assert_eq!((taken.text.as_deref(), taken.is_whole), (Some(raw), true));
    }
    let line = format!("{}\n", "é".repeat(499));
    let fits = line.repeat((COMMAND_HEAD_CHARS + COMMAND_TAIL_CHARS) / 500);
    let taken = capture(cut(fits.as_bytes(), 4096));
    assert_eq!(
        (taken.text.as_deref(), taken.is_whole),
        (Some(fits.as_str()), true)
    );
}

#[test]
fn of_long_output_beginning_and_end_are_shown() {
    let raw: String = (1..=100_000).map(|n| n.to_string() + "\n").collect();
    for step in [100, 65_536] {
        let taken = capture(cut(raw.as_bytes(), step));
        let text = taken.text.unwrap();
        let (head, rest) = text.split_once("\n[… ").unwrap();
        let (omission, tail) = rest.split_once(" omitted …]\n\n").unwrap();
        assert!(raw.starts_with(head) && raw.ends_with(tail));
        let (head_chars, tail_chars) = (head.chars().count(), tail.chars().count());
        assert!(
            (COMMAND_HEAD_CHARS - 10..=COMMAND_HEAD_CHARS).contains(&head_chars),
            "{head_chars}"
        );
        assert!(
            (COMMAND_TAIL_CHARS - 10..=COMMAND_TAIL_CHARS).contains(&tail_chars),
            "{tail_chars}"
        );
        let n_bytes = raw.len() - head.len() - tail.len();
        let n_lines = raw.lines().count() - head.lines().count() - tail.lines().count();
        assert_eq!(omission, format!("{n_bytes} bytes, {n_lines} lines"));
        assert!(!taken.is_whole);
    }
}

#[test]
fn beyond_the_ring_the_counts_stay_exact() {
    let line = format!("{}\n", "x".repeat(99));
    let n_lines = 4 * COMMAND_RING_BYTES / line.len();
    let raw = line.repeat(n_lines);
    let taken = capture(cut(raw.as_bytes(), 65_536));
    let n_omitted = n_lines - COMMAND_HEAD_CHARS / 100 - COMMAND_TAIL_CHARS / 100;
    let expected = format!(
        "\n[… {} bytes, {n_omitted} lines omitted …]\n\n",
        n_omitted * 100
    );
    assert!(taken.text.unwrap().contains(&expected));
}

#[test]
fn a_line_too_long_is_cut() {
    let raw = format!("{}\nend\n", "x".repeat(10_000));
    let taken = capture(cut(raw.as_bytes(), 1000));
    let expected = format!(
        "{}… [line cut: 8000 more characters]\nend\n",
        "x".repeat(2000)
    );
    assert_eq!((taken.text, taken.is_whole), (Some(expected), false));
}

#[test]
fn one_endless_line_after_a_long_beginning() {
    let mut raw = "y\n".repeat(30_000);
    raw.push_str(&"z".repeat(2 * COMMAND_RING_BYTES));
    let taken = capture(cut(raw.as_bytes(), 65_536));
    let text = taken.text.unwrap();
    assert!(
        text.starts_with("y\ny\n")
            && text.contains(" omitted …]\n\nzzz")
            && text.contains("[line cut: ")
    );
    assert!(text.len() < 30_000, "{}", text.len());
}

#[test]
fn progress_is_folded_and_needs_no_log() {
    let mut raw = String::new();
    for n in 0..200_000 {
        raw += "\r\x1b[K";
        raw += &n.to_string();
        raw += " of 200000";
    }
    raw.push_str("\ndone\n");
    assert!(raw.len() > COMMAND_RING_BYTES);
    let taken = capture(cut(raw.as_bytes(), 65_536));
    assert_eq!(
        (taken.text.as_deref(), taken.is_whole),
        (Some("199999 of 200000\ndone\n"), true)
    );
}

#[test]
fn characters_split_between_reads_are_whole() {
    let chunks = [
        out(b"a\xf0\x9f"),
        (Stream::Stderr, b"E".to_vec()),
        out(b"\x98\x80b\n"),
        out(b"\xff\xfeabc"),
    ];
    let taken = capture(chunks);
    assert_eq!(taken.text.unwrap(), "aE😀b\n\u{fffd}\u{fffd}abc");
}

#[test]
fn binary_output_is_only_saved() {
    let noise: Vec<u8> = (0..1 << 20)
        .map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for raw in [b"a\0b".to_vec(), noise] {
        let taken = capture(cut(&raw, 50_000));
        assert_eq!((taken.text, taken.is_whole), (None, false));
    }
}
