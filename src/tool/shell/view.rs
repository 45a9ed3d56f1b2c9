//! Raw output as lines a model can read: as a terminal would show them in the end.
//!
//! Escape sequences are taken out, a carriage return or backspace goes back in the line and what comes next overwrites
//! it, so that of a progress display its last state is left. Both streams write to one line, as on a terminal. Lines
//! end where the raw output has a newline, so each has its place in it.

use std::fmt::Write as _;

use vte::{Params, Parser, Perform};

use super::utf8::Utf8;
use crate::kernel::limits::COMMAND_LINE_CHARS;
use crate::os::process::Stream;

/// See the module.
pub(super) struct View {
    stdout: Channel,
    stderr: Channel,
    screen: Screen,
    rendered: String,
    offset: u64,
}

/// What is known of one stream between two reads.
#[derive(Default)]
struct Channel {
    decoder: Utf8,
    parser: Parser,
}

/// A line that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// With its newline, except perhaps for the last one.
    pub(super) text: &'a str,
    /// Of the text.
    pub(super) n_chars: usize,
    /// Where it ends in the raw output.
    pub(super) end: u64,
    /// Whether it was too long to be shown whole.
    pub(super) is_cut: bool,
}

impl View {
    /// A view of output that begins at this place of the whole output.
    pub(super) fn at(offset: u64) -> Self {
        Self {
            stdout: Channel::default(),
            stderr: Channel::default(),
            screen: Screen::default(),
            rendered: String::new(),
            offset,
        }
    }

    /// Takes raw output and gives each line that ends in it.
    pub(super) fn feed(
        &mut self,
        stream: Stream,
        bytes: &[u8],
        mut each_line: impl FnMut(Line<'_>),
    ) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let newline = memchr::memchr(b'\n', rest);
            let (segment, after) = rest.split_at(newline.map_or(rest.len(), |at| at + 1));
            rest = after;
            self.offset += segment.len() as u64;
            let channel = match stream {
                Stream::Stdout => &mut self.stdout,
                Stream::Stderr => &mut self.stderr,
            };
            let text = channel.decoder.push(segment);
            channel.parser.advance(&mut self.screen, text.as_bytes());
            if newline.is_some() {
                if !std::mem::take(&mut self.screen.saw_newline) {
                    // Some sequence without an end has swallowed it; it must not swallow the rest too.
                    channel.parser = Parser::new();
                }
                each_line(self.screen.end_line(&mut self.rendered, "\n", self.offset));
            }
        }
    }

    /// Characters of the line that has not ended yet.
    pub(super) fn n_pending_chars(&self) -> usize {
        self.screen.line.len()
    }

    /// Ends the output; gives the last line where it has no newline.
    pub(super) fn finish(&mut self) -> Option<Line<'_>> {
        for channel in [&mut self.stdout, &mut self.stderr] {
            let rest = channel.decoder.finish();
            channel.parser.advance(&mut self.screen, rest.as_bytes());
        }
        if self.screen.line.is_empty() {
            return None;
        }
        Some(self.screen.end_line(&mut self.rendered, "", self.offset))
    }
}

/// The line being written.
#[derive(Default)]
struct Screen {
    line: Vec<char>,
    /// Where the next character goes; may lie beyond what is kept.
    cursor: usize,
    /// How long the line would be if it were kept whole.
    n_chars: usize,
    saw_newline: bool,
}

impl Screen {
    fn end_line<'a>(&mut self, rendered: &'a mut String, terminator: &str, end: u64) -> Line<'a> {
        rendered.clear();
        rendered.extend(&self.line);
        let mut n_chars = self.line.len();
        let n_cut = self.n_chars.saturating_sub(self.line.len());
        if n_cut > 0 {
            let before = rendered.len();
            // Writing to a string cannot fail.
            let _ = write!(rendered, "… [line cut: {n_cut} more characters]");
            n_chars += rendered[before..].chars().count();
        }
        rendered.push_str(terminator);
        n_chars += terminator.len();
        self.line.clear();
        self.cursor = 0;
        self.n_chars = 0;
        Line {
            text: rendered,
            n_chars,
            end,
            is_cut: n_cut > 0,
        }
    }

    fn erase_from(&mut self, place: usize) {
        self.line.truncate(place);
        self.n_chars = self.n_chars.min(place);
    }
}

impl Perform for Screen {
    fn print(&mut self, c: char) {
        if self.cursor < COMMAND_LINE_CHARS {
            if let Some(old) = self.line.get_mut(self.cursor) {
                *old = c;
            } else {
                self.line.resize(self.cursor, ' ');
                self.line.push(c);
            }
        }
        self.cursor += 1;
        self.n_chars = self.n_chars.max(self.cursor);
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => self.saw_newline = true,
            b'\r' => self.cursor = 0,
            b'\t' => self.print('\t'),
            0x08 => self.cursor = self.cursor.saturating_sub(1),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _ignore: bool, action: char) {
        if !intermediates.is_empty() {
            return;
        }
        let param = params
            .iter()
            .next()
            .and_then(|param| param.first())
            .copied()
            .unwrap_or(0);
        let count = usize::from(param.max(1));
        match (action, param) {
            ('K' | 'J', 0) => self.erase_from(self.cursor),
            ('K', 1) => {
                let end = self.cursor.min(self.line.len());
                self.line[..end].fill(' ');
            }
            ('K', 2) => self.erase_from(0),
            ('G', _) => self.cursor = count - 1,
            ('C', _) => self.cursor += count,
            ('D', _) => self.cursor = self.cursor.saturating_sub(count),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of an output fed in pieces of `step` bytes.
    fn lines(raw: &[u8], step: usize) -> Vec<String> {
        let mut view = View::at(0);
        let mut lines = Vec::new();
        for piece in raw.chunks(step) {
            view.feed(Stream::Stdout, piece, |line| {
                assert_eq!(line.n_chars, line.text.chars().count());
                lines.push(line.text.to_owned());
            });
        }
        lines.extend(view.finish().map(|line| line.text.to_owned()));
        lines
    }

    #[test]
    fn what_a_terminal_would_show_in_the_end() {
        let cases: [(&str, &[&str]); 15] = [
            ("a\nb", &["a\n", "b"]),
            ("a\r\nb\r\n", &["a\n", "b\n"]),
            ("10%\r50%\r100%\n", &["100%\n"]),
            ("10%\r\x1b[K50%\r\x1b[Kok\n", &["ok\n"]),
            ("longer text\r\x1b[2Kok\n", &["ok\n"]),
            ("abc\rx\n", &["xbc\n"]),
            ("ab\x08c\n", &["ac\n"]),
            (
                "\x1b[1;31mred\x1b[0m \x1b]0;title\x07t\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n",
                &["red tlink\n"],
            ),
            ("\x1b]unfinished\nnext\n", &["\n", "next\n"]),
            ("\x1bPdata\x1b\\shown\x07\x0e\n", &["shown\n"]),
            ("\x1b[?25lhidden cursor\x1b[?25h\n", &["hidden cursor\n"]),
            ("ab\x1b[10Gc\n", &["ab       c\n"]),
            ("tab\there\n", &["tab\there\n"]),
            ("a€😀\n", &["a€😀\n"]),
            ("x\r", &["x"]),
        ];
        for (raw, expected) in cases {
            for step in [1, 2, 3, 1000] {
                assert_eq!(lines(raw.as_bytes(), step), expected, "{raw:?} by {step}");
            }
        }
        assert_eq!(
            lines(b"\xff\xfeabc\xe2", 1),
            ["\u{fffd}\u{fffd}abc\u{fffd}"]
        );
    }

    #[test]
    fn long_lines_are_cut_and_keep_their_newline() {
        let mut raw = "é".repeat(COMMAND_LINE_CHARS + 8000);
        raw.push('\n');
        let shown = lines(raw.as_bytes(), 4096);
        let expected = format!(
            "{}… [line cut: 8000 more characters]\n",
            "é".repeat(COMMAND_LINE_CHARS)
        );
        assert_eq!(shown, [expected]);
        let exact = "x".repeat(COMMAND_LINE_CHARS);
        assert_eq!(lines(exact.as_bytes(), 4096), [exact]);
        // A long line that is wiped again is not cut.
        let wiped = format!("{}\r\x1b[Kok", "y".repeat(5000));
        assert_eq!(lines(wiped.as_bytes(), 4096), ["ok"]);
    }

    #[test]
    fn both_streams_write_to_one_line_without_mixing_characters() {
        let mut view = View::at(7);
        let mut seen = Vec::new();
        let pieces: [(Stream, &[u8]); 4] = [
            (Stream::Stdout, b"a\xe2\x82"),
            (Stream::Stderr, b"E\x1b["),
            (Stream::Stdout, b"\xac"),
            (Stream::Stderr, b"31m!\n"),
        ];
        for (stream, piece) in pieces {
            view.feed(stream, piece, |line| {
                seen.push((line.text.to_owned(), line.end));
            });
        }
        assert_eq!(seen, [("aE€!\n".to_owned(), 7 + 12)]);
        assert!(view.finish().is_none());
    }
}
