//! Words for the person at the terminal. Commands that speak a protocol on standard output never come here.

use std::io::{self, Write};

/// Prints a line on standard output. A reader that went away is not a failure of ours.
pub(super) fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _gone = writeln!(out, "{text}");
}

/// Prints a line on standard error.
pub(super) fn complain(text: &str) {
    let mut out = io::stderr().lock();
    let _gone = writeln!(out, "{text}");
}
