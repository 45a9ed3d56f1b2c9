//! What the model reads of a command's output.
//!
//! As long as the output fits, it is kept as text line by line. When it no longer does, its beginning is settled, and the
//! end is made from the ring of the latest raw bytes when the command has ended. So a flood costs counting, nothing
//! more.

use std::collections::VecDeque;

use super::sample::Sample;
use super::view::{Line, View};
use crate::background::Ring;
use crate::kernel::limits::{COMMAND_HEAD_CHARS, COMMAND_TAIL_CHARS};
use crate::os::process::{Chunk, Stream};

/// See the module.
pub(super) struct Capture {
    n_newlines: u64,
    sample: Sample,
    phase: Phase,
}

enum Phase {
    /// Everything so far fits.
    Whole(Box<Whole>),
    /// The beginning of what does not.
    Long(Head),
    /// Not text.
    Binary,
}

/// An output that has ended.
#[derive(Debug, Default)]
pub(super) struct Captured {
    /// What the model reads.
    pub(super) shown: Shown,
    /// Whether the text is everything.
    pub(super) is_whole: bool,
}

/// See [`Captured::shown`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Text, perhaps with omissions that it names.
    Text(String),
    /// Nothing: it is not text.
    Binary,
}

impl Default for Shown {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Capture {
    /// Captures a whole output.
    pub(super) fn new() -> Self {
        Self {
            n_newlines: 0,
            sample: Sample::default(),
            phase: Phase::Whole(Box::new(Whole::new())),
        }
    }

    /// Whether the output is known to be no text.
    pub(super) fn is_binary(&self) -> bool {
        matches!(self.phase, Phase::Binary)
    }

    /// Whether the text will not be everything.
    pub(super) fn wants_log(&self) -> bool {
        !matches!(self.phase, Phase::Whole(_))
    }

    /// Takes output, which then goes into the ring.
    pub(super) fn push(&mut self, chunk: &Chunk) {
        self.n_newlines += count_newlines(&chunk.bytes);
        if let Phase::Whole(whole) = &mut self.phase {
            if self.sample.push(&chunk.bytes) {
                self.phase = Phase::Binary;
            } else {
                whole.feed(chunk.stream, &chunk.bytes);
                if whole.n_chars() > COMMAND_HEAD_CHARS + COMMAND_TAIL_CHARS {
                    self.phase = Phase::Long(whole.take_head());
                }
            }
        }
    }

    /// Ends the output and settles what the model reads. The ring holds the latest part of the same output.
    pub(super) fn finish(mut self, ring: &mut Ring) -> Captured {
        if matches!(self.phase, Phase::Whole(_)) && self.sample.finish() {
            self.phase = Phase::Binary;
        }
        let (shown, is_whole) = match &mut self.phase {
            Phase::Whole(whole) => {
                let is_whole = whole.finish();
                (Shown::Text(std::mem::take(&mut whole.text)), is_whole)
            }
            Phase::Long(head) => {
                let tail = Tail::of(ring, head.end);
                let n_omitted = tail.start - head.end;
                let n_lines = self.n_newlines - head.n_newlines - tail.n_newlines;
                let mut text = std::mem::take(&mut head.text);
                if n_omitted > 0 {
                    text.push_str(&omission(n_omitted, n_lines));
                }
                text.extend(tail.lines.iter().map(|line| line.text.as_str()));
                let is_whole =
                    n_omitted == 0 && !head.any_cut && !tail.lines.iter().any(|line| line.is_cut);
                (Shown::Text(text), is_whole)
            }
            Phase::Binary => (Shown::Binary, false),
        };
        Captured { shown, is_whole }
    }
}

/// An output that fits, as text.
struct Whole {
    view: View,
    text: String,
    n_chars: usize,
    n_lines: u64,
    any_cut: bool,
    mark: Mark,
}

/// The end of the last line that belongs to the beginning, should the output become long.
#[derive(Default, Clone, Copy)]
struct Mark {
    text_bytes: usize,
    end: u64,
    n_lines: u64,
    any_cut: bool,
}

struct Head {
    text: String,
    /// Where it ends in the raw output.
    end: u64,
    n_newlines: u64,
    any_cut: bool,
}

impl Whole {
    fn new() -> Self {
        Self {
            view: View::at(0),
            text: String::new(),
            n_chars: 0,
            n_lines: 0,
            any_cut: false,
            mark: Mark::default(),
        }
    }

    fn n_chars(&self) -> usize {
        self.n_chars + self.view.n_pending_chars()
    }

    fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        let Self {
            view,
            text,
            n_chars,
            n_lines,
            any_cut,
            mark,
        } = self;
        view.feed(stream, bytes, |line| {
            text.push_str(line.text);
            *n_chars += line.n_chars;
            *n_lines += 1;
            *any_cut |= line.is_cut;
            if *n_chars <= COMMAND_HEAD_CHARS {
                *mark = Mark {
                    text_bytes: text.len(),
                    end: line.end,
                    n_lines: *n_lines,
                    any_cut: *any_cut,
                };
            }
        });
    }

    fn take_head(&mut self) -> Head {
        let mut text = std::mem::take(&mut self.text);
        text.truncate(self.mark.text_bytes);
        text.shrink_to_fit();
        Head {
            text,
            end: self.mark.end,
            n_newlines: self.mark.n_lines,
            any_cut: self.mark.any_cut,
        }
    }

    /// Adds the last line; tells whether the text is everything.
    fn finish(&mut self) -> bool {
        if let Some(line) = self.view.finish() {
            self.text.push_str(line.text);
            self.any_cut |= line.is_cut;
        }
        !self.any_cut
    }
}

/// The end of a long output, in whole lines.
struct Tail {
    lines: VecDeque<TailLine>,
    n_chars: usize,
    /// Where it begins in the raw output.
    start: u64,
    n_newlines: u64,
}

struct TailLine {
    text: String,
    n_chars: usize,
    end: u64,
    is_cut: bool,
}

impl Tail {
    /// Reads the end from the ring, from `from` on at the earliest, where a line begins.
    fn of(ring: &mut Ring, from: u64) -> Self {
        let ring_start = ring.start();
        let mut tail = Self {
            lines: VecDeque::new(),
            n_chars: 0,
            start: ring_start.max(from),
            n_newlines: 0,
        };
        // What the ring begins with is the rest of some line, unless all of it belongs to one line.
        let bytes = ring.bytes();
        let mut is_mid_line = ring_start > from
            && memchr::memchr(b'\n', bytes).is_some_and(|at| at + 1 < bytes.len());
        let mut view = View::at(tail.start);
        let mut offset = ring_start;
        for (stream, piece) in ring.pieces() {
            let piece_start = offset;
            offset += piece.len() as u64;
            let n_before = tail
                .start
                .saturating_sub(piece_start)
                .min(piece.len() as u64);
            let mut piece = &piece[n_before as usize..];
            if is_mid_line {
                let n_rest = memchr::memchr(b'\n', piece).map_or(piece.len(), |at| at + 1);
                is_mid_line = n_rest == piece.len() && !piece.ends_with(b"\n");
                tail.start += n_rest as u64;
                piece = &piece[n_rest..];
                view = View::at(tail.start);
            }
            view.feed(stream, piece, |line| tail.add(line));
        }
        if let Some(line) = view.finish() {
            tail.add(line);
        }
        tail
    }

    fn add(&mut self, line: Line<'_>) {
        self.n_chars += line.n_chars;
        self.n_newlines += u64::from(line.text.ends_with('\n'));
        let Line {
            text,
            n_chars,
            end,
            is_cut,
        } = line;
        self.lines.push_back(TailLine {
            text: text.to_owned(),
            n_chars,
            end,
            is_cut,
        });
        while self.n_chars > COMMAND_TAIL_CHARS
            && let Some(first) = self.lines.pop_front()
        {
            self.n_chars -= first.n_chars;
            self.n_newlines -= u64::from(first.text.ends_with('\n'));
            self.start = first.end;
        }
    }
}

fn omission(n_bytes: u64, n_lines: u64) -> String {
    let lines = if n_lines == 1 {
        "1 line".to_owned()
    } else {
        format!("{n_lines} lines")
    };
    format!("\n[… {n_bytes} bytes, {lines} omitted …]\n\n")
}

fn count_newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
