//! How lines end, and how a line is shown.

use std::borrow::Cow;

/// How the lines of a text end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tool::file) enum Style {
    /// `\n` only, or no ending at all.
    Lf,
    /// `\r\n` only. The model sees and gives `\n`.
    Crlf,
    /// Both, or a `\r` by itself. The model sees each `\r`, and its text is taken as it is.
    Mixed,
}

impl Style {
    /// A line without its `\n`, as it is shown.
    pub(in crate::tool::file) fn show(self, line: &str) -> Cow<'_, str> {
        match self {
            Self::Mixed if line.contains('\r') => line.replace('\r', "\\r").into(),
            Self::Crlf => line.strip_suffix('\r').unwrap_or(line).into(),
            Self::Lf | Self::Mixed => line.into(),
        }
    }

    /// Text of the model as it stands in the file: the way back from [`Style::show`].
    pub(in crate::tool::file) fn in_file(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Crlf if text.contains('\n') => {
                text.replace("\r\n", "\n").replace('\n', "\r\n").into()
            }
            Self::Lf | Self::Crlf | Self::Mixed => text.into(),
        }
    }
}

/// What of line endings was seen so far, fed piece by piece.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::tool::file) struct Endings {
    lf: bool,
    crlf: bool,
    lone_cr: bool,
    /// The piece before ended in `\r`.
    pending_cr: bool,
}

impl Endings {
    /// Looks at the next piece.
    pub(in crate::tool::file) fn feed(&mut self, piece: &[u8]) {
        let Some(first) = piece.first() else { return };
        let mut begun = 0;
        if self.pending_cr {
            self.pending_cr = false;
            if *first == b'\n' {
                self.crlf = true;
                begun = 1;
            } else {
                self.lone_cr = true;
            }
        }
        // From one `\r` to the next: most texts have none, and are gone through at the speed of the memory.
        let mut rest = &piece[begun..];
        while let Some(at) = memchr::memchr(b'\r', rest) {
            self.see_lf(&rest[..at]);
            rest = &rest[at + 1..];
            match rest.first() {
                Some(b'\n') => {
                    self.crlf = true;
                    rest = &rest[1..];
                }
                Some(_) => self.lone_cr = true,
                None => self.pending_cr = true,
            }
        }
        self.see_lf(rest);
    }

    fn see_lf(&mut self, piece: &[u8]) {
        self.lf = self.lf || memchr::memchr(b'\n', piece).is_some();
    }

    /// Ends a stretch: a `\r` at its end stands by itself only where the file ends there too.
    pub(in crate::tool::file) fn end(&mut self, at_end_of_file: bool) {
        self.lone_cr |= self.pending_cr && at_end_of_file;
        self.pending_cr = false;
    }

    /// The style of all that was fed.
    pub(in crate::tool::file) fn style(self) -> Style {
        match (self.lf, self.crlf, self.lone_cr) {
            (_, _, true) | (true, true, _) => Style::Mixed,
            (false, true, false) => Style::Crlf,
            (_, false, false) => Style::Lf,
        }
    }
}

/// The style of a whole text.
pub(in crate::tool::file) fn style_of(bytes: &[u8]) -> Style {
    let mut endings = Endings::default();
    endings.feed(bytes);
    endings.end(true);
    endings.style()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_do_not_depend_on_how_the_text_is_cut() {
        for (text, expected) in [
            ("", Style::Lf),
            ("a\nb", Style::Lf),
            ("a\r\nb\r\n", Style::Crlf),
            ("a\r\nb\n", Style::Mixed),
            ("a\nb\r\n", Style::Mixed),
            ("a\rb", Style::Mixed),
            ("a\r\r\n", Style::Mixed),
            ("\n\r", Style::Mixed),
            ("a\r", Style::Mixed),
            ("\r\n", Style::Crlf),
        ] {
            for first in 0..=text.len() {
                for second in first..=text.len() {
                    let mut endings = Endings::default();
                    endings.feed(&text.as_bytes()[..first]);
                    endings.feed(&text.as_bytes()[first..second]);
                    endings.feed(&text.as_bytes()[second..]);
                    endings.end(true);
                    assert_eq!(
                        endings.style(),
                        expected,
                        "{text:?} cut at {first} and {second}"
                    );
                }
            }
        }
    }

    #[test]
    fn lines_are_shown_and_taken_back() {
        for (style, line, shown) in [
            (Style::Lf, "a", "a"),
            (Style::Crlf, "a\r", "a"),
            (Style::Crlf, "a", "a"),
            (Style::Mixed, "a\r", "a\\r"),
            (Style::Mixed, "\ra\r\r", "\\ra\\r\\r"),
        ] {
            assert_eq!(style.show(line), shown, "{style:?} {line:?}");
        }
        for (style, text, in_file) in [
            (Style::Lf, "a\r\nb\n", "a\r\nb\n"),
            (Style::Crlf, "a\nb\r\nc", "a\r\nb\r\nc"),
            (Style::Crlf, "\n\n", "\r\n\r\n"),
            (Style::Mixed, "a\nb\r\n", "a\nb\r\n"),
        ] {
            assert_eq!(style.in_file(text), in_file, "{style:?} {text:?}");
        }
    }
}
