//! Output for the model that a tool writes piece by piece, within the limits of an output.
//!
//! Characters are counted as Unicode scalar values and never split. What goes over a limit is cut where a marker says
//! so; a tool then ends with [`Lines::ok`] or [`Lines::error`], which say in words what the marker can't.

use super::Outcome;
use super::output::first_chars;
use crate::kernel::limits::{OUTPUT_CHARS, OUTPUT_LINE_CHARS};

/// Stands where text was cut.
const MARKER: &str = "[... cut]";

/// See the module.
#[derive(Debug)]
pub struct Lines {
    text: String,
    n_chars: usize,
    max_chars: usize,
    max_line_chars: usize,
    /// Something was cut.
    is_cut: bool,
    /// The whole is as long as it may be, and its marker stands at its end.
    is_full: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(OUTPUT_CHARS, OUTPUT_LINE_CHARS)
    }
}

impl Lines {
    /// An empty output of at most so many characters, and so many in one line with its line break. A limit that could
    /// not hold the marker counts as one that just can.
    pub fn new(max_chars: usize, max_line_chars: usize) -> Self {
        // The marker and a line break.
        let least = MARKER.len() + 2;
        Self {
            text: String::new(),
            n_chars: 0,
            max_chars: max_chars.max(least),
            max_line_chars: max_line_chars.max(least),
            is_cut: false,
            is_full: false,
        }
    }

    /// An empty output whose lines may be as long as the whole.
    pub fn of_any_length(max_chars: usize) -> Self {
        Self::new(max_chars, usize::MAX)
    }

    /// Adds text, of any number of lines, and gives how many characters longer the output is now: 0 once it is full.
    pub fn write(&mut self, text: &str) -> usize {
        let before = self.n_chars;
        for line in text.split_inclusive('\n') {
            if self.is_full {
                break;
            }
            self.line(line);
        }
        self.n_chars.saturating_sub(before)
    }

    /// Adds text, its lines cut where they are too long, or leaves it out and says false where it would go over the limit
    /// of the whole: for lists, of whose entries a part is of no use.
    pub fn write_whole(&mut self, text: &str) -> bool {
        let lines = text.split_inclusive('\n');
        let n_chars: usize = lines
            .map(|line| line.chars().count().min(self.max_line_chars))
            .sum();
        let fits = !self.is_full && self.n_chars + n_chars <= self.max_chars;
        if fits {
            self.write(text);
        }
        fits
    }

    /// True where nothing was written.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// True where something was cut.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What was written.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Success. The message, a sentence about what was done, is shown where the output is not the whole or there is
    /// none.
    pub fn ok(mut self, message: &str) -> Outcome {
        let mut message = sentence(message);
        if self.is_cut {
            message.push_str(" The output is not shown whole; it was cut where it says so.");
        }
        if self.is_cut || self.is_empty() {
            self.own_line(&message);
        }
        Outcome {
            truncated: self.is_cut,
            ..Outcome::text(self.text)
        }
    }

    /// Failure. The message is always shown, after the output and on a line of its own.
    pub fn error(mut self, message: &str) -> Outcome {
        self.own_line(message);
        Outcome {
            truncated: self.is_cut,
            ..Outcome::failed(self.text)
        }
    }

    /// Adds one line, cut where it has to be.
    fn line(&mut self, line: &str) {
        let n_chars = line.chars().count();
        let left = self.max_chars - self.n_chars;
        if n_chars <= left && n_chars <= self.max_line_chars {
            self.text.push_str(line);
            self.n_chars += n_chars;
            return;
        }
        self.is_cut = true;
        let line_end = line_end(line);
        let room = (self.max_line_chars - MARKER.len()).saturating_sub(line_end.len());
        let kept = first_chars(line, room);
        let n_cut = kept.chars().count() + MARKER.len() + line_end.len();
        if n_chars > self.max_line_chars && n_cut <= left {
            self.text.extend([kept, MARKER, line_end]);
            self.n_chars += n_cut;
            return;
        }
        self.fill(line);
    }

    /// Takes of a line what still goes in, and puts the marker at the very end.
    fn fill(&mut self, line: &str) {
        let end = self.max_chars - MARKER.len();
        if self.n_chars < end {
            let kept = first_chars(line, (end - self.n_chars).min(self.max_line_chars));
            self.text.push_str(kept);
        } else {
            self.text.truncate(first_chars(&self.text, end).len());
        }
        self.text.push_str(MARKER);
        self.n_chars = self.text.chars().count();
        self.is_full = true;
    }

    fn own_line(&mut self, message: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(message);
    }
}

fn sentence(message: &str) -> String {
    let message = message.trim_end();
    let stop = if message.ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    format!("{message}{stop}")
}

fn line_end(line: &str) -> &str {
    ["\r\n", "\n"]
        .into_iter()
        .find(|end| line.ends_with(end))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::message::Part;

    /// Writes pieces into an output of 40 characters with lines of 20, and tells what it became and what each added.
    fn written(pieces: &[&str]) -> (String, Vec<usize>) {
        let mut lines = Lines::new(40, 20);
        let added = pieces.iter().map(|piece| lines.write(piece)).collect();
        (lines.into_text(), added)
    }

    #[test]
    fn lines_and_the_whole_are_cut_within_their_limits() {
        let twenty = "12345678901234567890";
        for (pieces, text, added) in [
            (&["ab\n", "", "cd"][..], "ab\ncd", &[3, 0, 2][..]),
            // Just as long as a line may be, and one character longer, with each line break.
            (&[twenty], twenty, &[20]),
            (&["1234567890123456789\n"], "1234567890123456789\n", &[20]),
            (&["12345678901234567890\n"], "1234567890[... cut]\n", &[20]),
            (
                &["12345678901234567890\r\n"],
                "123456789[... cut]\r\n",
                &[20],
            ),
            (&["123456789012345678901"], "12345678901[... cut]", &[20]),
            (
                &["éééééééééééééééééééé\nb\n"],
                "éééééééééé[... cut]\nb\n",
                &[22],
            ),
            // The whole: what comes after it is full is not taken.
            (
                &["1234567890123456789\n", "1234567890123456789\n", "x", "y"],
                "1234567890123456789\n12345678901[... cut]",
                &[20, 20, 0, 0],
            ),
            (
                &[
                    "1234567890123456789\n",
                    "123456\n",
                    "1234567890123456789\n",
                    "x",
                ],
                "1234567890123456789\n123456\n1234[... cut]",
                &[20, 7, 13, 0],
            ),
            (
                &["a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\no\np\nq\nr\ns\nt\nu\n"],
                "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\no\np[... cut]",
                &[40],
            ),
        ] {
            assert_eq!(
                written(pieces),
                (text.to_owned(), added.to_vec()),
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn lines_of_any_length() {
        let mut lines = Lines::of_any_length(40);
        assert_eq!(lines.write(&"x".repeat(40)), 40);
        assert!(!lines.is_cut());
        assert_eq!(lines.write("y"), 0);
        assert!(lines.is_cut() && lines.into_text().ends_with("x[... cut]"));
        let mut tiny = Lines::new(0, 0);
        assert_eq!((tiny.write("1234567\n"), tiny.write("12345\n")), (8, 3));
        assert_eq!(tiny.into_text(), "12[... cut]");
    }

    #[test]
    fn a_line_that_would_not_go_in_is_left_out_whole() {
        let mut lines = Lines::new(40, 20);
        assert!(lines.write_whole("1234567890123456789\n") && lines.write_whole("1\n"));
        assert!(!lines.write_whole("123456789012345678901\n"));
        assert!(lines.write_whole("2\n"), "a shorter one still goes in");
        assert!(!lines.is_cut());
        assert_eq!(lines.into_text(), "1234567890123456789\n1\n2\n");
    }

    fn ended(pieces: &[&str], end: impl FnOnce(Lines) -> Outcome) -> (String, bool, bool) {
        let mut lines = Lines::new(40, 20);
        for piece in pieces {
            lines.write(piece);
        }
        let outcome = end(lines);
        let [Part::Text(text)] = outcome.output.as_slice() else {
            panic!("{outcome:?}");
        };
        (text.to_string(), outcome.is_error, outcome.truncated)
    }

    #[test]
    fn the_message_of_a_success_is_shown_where_it_is_needed() {
        let ok = |pieces: &[&str]| ended(pieces, |lines| lines.ok("Done"));
        assert_eq!(ok(&["out\n"]), ("out\n".to_owned(), false, false));
        assert_eq!(ok(&[]), ("Done.".to_owned(), false, false));
        let (text, is_error, truncated) = ok(&["123456789012345678901"]);
        assert!(
            text.starts_with("12345678901[... cut]\nDone. The output"),
            "{text}"
        );
        assert!(text.ends_with('.') && !is_error && truncated);
    }

    #[test]
    fn the_message_of_a_failure_is_always_shown() {
        let error = |pieces: &[&str]| ended(pieces, |lines| lines.error("It broke."));
        assert_eq!(error(&[]), ("It broke.".to_owned(), true, false));
        assert_eq!(error(&["out"]), ("out\nIt broke.".to_owned(), true, false));
        assert_eq!(
            error(&["out\n"]),
            ("out\nIt broke.".to_owned(), true, false)
        );
    }
}
