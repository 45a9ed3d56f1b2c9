//! Outputs of every size, as the model and the log get them.

#![expect(clippy::disallowed_methods, reason = "these tests look at real files")]

use std::path::PathBuf;

use bytes::Bytes;
use tempfile::TempDir;

use super::capture::{Capture, Captured, Shown};
use crate::kernel::limits::{COMMAND_HEAD_CHARS, COMMAND_RING_BYTES, COMMAND_TAIL_CHARS};
use crate::os::process::{Chunk, Stream};

struct Taken {
    text: Option<String>,
    is_whole: bool,
    /// The log's content.
    log: Option<Vec<u8>>,
    _dir: TempDir,
}

/// Captures these chunks, writing the log as a call does.
async fn capture(chunks: impl IntoIterator<Item = (Stream, Vec<u8>)>) -> Taken {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("r/x.log");
    let mut capture = Capture::new(path.clone());
    let mut total = 0;
    for (stream, bytes) in chunks {
        total += bytes.len() as u64;
        capture.push(&Chunk {
            stream,
            bytes: Bytes::from(bytes),
        });
        if let Some(spill) = capture.spill() {
            spill.advance().await;
        }
    }
    let Captured {
        shown,
        total_bytes,
        is_whole,
        spill,
    } = capture.finish();
    assert_eq!(total_bytes, total);
    if let Some(mut spill) = spill {
        assert_eq!(spill.finish().await.problem, None);
    }
    let text = match shown {
        Shown::Text(text) => Some(text),
        Shown::Binary => None,
    };
    Taken {
        text,
        is_whole,
        log: std::fs::read(&path).ok(),
        _dir: dir,
    }
}

fn out(bytes: impl Into<Vec<u8>>) -> (Stream, Vec<u8>) {
    (Stream::Stdout, bytes.into())
}

/// An output in one-stream chunks of this size.
fn cut(raw: &[u8], step: usize) -> Vec<(Stream, Vec<u8>)> {
    raw.chunks(step).map(out).collect()
}

#[tokio::test]
async fn what_fits_is_shown_whole_and_leaves_no_log() {
    for raw in ["", "hi\n", "no newline", "a\nb\n\n"] {
        let taken = capture(cut(raw.as_bytes(), 2)).await;
        assert_eq!(
            (taken.text.as_deref(), taken.is_whole, taken.log),
            (Some(raw), true, None)
        );
    }
    let line = format!("{}\n", "é".repeat(499));
    let fits = line.repeat((COMMAND_HEAD_CHARS + COMMAND_TAIL_CHARS) / 500);
    let taken = capture(cut(fits.as_bytes(), 4096)).await;
    assert_eq!(
        (taken.text.as_deref(), taken.is_whole, taken.log),
        (Some(fits.as_str()), true, None)
    );
}

#[tokio::test]
async fn of_long_output_beginning_and_end_are_shown() {
    let raw: String = (1..=100_000).map(|n| n.to_string() + "\n").collect();
    for step in [100, 65_536] {
        let taken = capture(cut(raw.as_bytes(), step)).await;
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
        assert_eq!(taken.log.unwrap(), raw.as_bytes());
    }
}

#[tokio::test]
async fn beyond_the_ring_the_counts_stay_exact() {
    let line = format!("{}\n", "x".repeat(99));
    let n_lines = 4 * COMMAND_RING_BYTES / line.len();
    let raw = line.repeat(n_lines);
    let taken = capture(cut(raw.as_bytes(), 65_536)).await;
    let n_omitted = n_lines - COMMAND_HEAD_CHARS / 100 - COMMAND_TAIL_CHARS / 100;
    let expected = format!(
        "\n[… {} bytes, {n_omitted} lines omitted …]\n\n",
        n_omitted * 100
    );
    assert!(taken.text.unwrap().contains(&expected));
    assert_eq!(taken.log.unwrap().len(), raw.len());
}

#[tokio::test]
async fn a_line_too_long_is_cut_and_the_log_has_it() {
    let raw = format!("{}\nend\n", "x".repeat(10_000));
    let taken = capture(cut(raw.as_bytes(), 1000)).await;
    let expected = format!(
        "{}… [line cut: 8000 more characters]\nend\n",
        "x".repeat(2000)
    );
    assert_eq!((taken.text, taken.is_whole), (Some(expected), false));
    assert_eq!(taken.log.unwrap(), raw.as_bytes());
}

#[tokio::test]
async fn one_endless_line_after_a_long_beginning() {
    let mut raw = "y\n".repeat(30_000);
    raw.push_str(&"z".repeat(2 * COMMAND_RING_BYTES));
    let taken = capture(cut(raw.as_bytes(), 65_536)).await;
    let text = taken.text.unwrap();
    assert!(
        text.starts_with("y\ny\n")
            && text.contains(" omitted …]\n\nzzz")
            && text.contains("[line cut: ")
    );
    assert!(text.len() < 30_000, "{}", text.len());
    assert_eq!(taken.log.unwrap().len(), raw.len());
}

#[tokio::test]
async fn progress_is_folded_and_needs_no_log() {
    let mut raw = String::new();
    for n in 0..200_000 {
        raw += "\r\x1b[K";
        raw += &n.to_string();
        raw += " of 200000";
    }
    raw.push_str("\ndone\n");
    assert!(raw.len() > COMMAND_RING_BYTES);
    let taken = capture(cut(raw.as_bytes(), 65_536)).await;
    assert_eq!(
        (taken.text.as_deref(), taken.is_whole),
        (Some("199999 of 200000\ndone\n"), true)
    );
}

#[tokio::test]
async fn characters_split_between_reads_are_whole() {
    let chunks = [
        out(b"a\xf0\x9f"),
        (Stream::Stderr, b"E".to_vec()),
        out(b"\x98\x80b\n"),
        out(b"\xff\xfeabc"),
    ];
    let taken = capture(chunks).await;
    assert_eq!(taken.text.unwrap(), "aE😀b\n\u{fffd}\u{fffd}abc");
}

#[tokio::test]
async fn binary_output_is_only_saved() {
    let noise: Vec<u8> = (0..1 << 20)
        .map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for raw in [b"a\0b".to_vec(), noise] {
        let taken = capture(cut(&raw, 50_000)).await;
        assert_eq!((taken.text, taken.is_whole), (None, false));
        assert_eq!(taken.log.unwrap(), raw);
    }
}

#[tokio::test]
async fn a_log_closed_early_holds_what_came_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let mut capture = Capture::new(path.clone());
    let chunk = |byte: u8| Chunk {
        stream: Stream::Stdout,
        bytes: Bytes::from(vec![byte; 60_000]),
    };
    let mut lines = chunk(b'a').bytes.to_vec();
    lines.iter_mut().step_by(50).for_each(|byte| *byte = b'\n');
    capture.push(&Chunk {
        stream: Stream::Stdout,
        bytes: lines.clone().into(),
    });
    capture.close_log();
    capture.push(&chunk(b'b'));
    let mut spill = capture.finish().spill.unwrap();
    spill.finish().await;
    assert_eq!(std::fs::read(&path).unwrap(), lines);
}
