//! Words for the person at the terminal. Commands that speak a protocol on standard output never come here.

use std::borrow::Cow;
use std::io::{self, Write};

/// Prints a line on standard output. A reader that went away is not a failure of ours.
pub(super) fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _gone = writeln!(out, "{}", harmless(text));
}

/// Prints a line on standard error.
pub(super) fn complain(text: &str) {
    let mut out = io::stderr().lock();
    let _gone = writeln!(out, "{}", harmless(text));
}

/// Without what a terminal would obey: titles and answers are words of others.
fn harmless(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(obeyed) {
        Cow::Owned(text.replace(obeyed, "\u{FFFD}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_reaches_it() {
        assert_eq!(harmless("a\tb\nc ä"), "a\tb\nc ä");
        let shown = harmless("\u{1b}]0;pwn\u{7}\r\u{9b}31m");
        assert_eq!(shown, "\u{FFFD}]0;pwn\u{FFFD}\u{FFFD}\u{FFFD}31m");
    }
}
