//! How bytes of a text file are seen by the model: byte-order mark hidden, line endings by one of three styles, UTF-8
//! strict. Nothing here changes a byte; what is not text is refused with a reason.

/// The UTF-8 byte-order mark.
pub(super) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `\n` only, or no ending at all.
    Lf,
    /// `\r\n` only.
    Crlf,
    /// Both, or a `\r` by itself.
    Mixed,
}

/// What of line endings was seen so far, fed piece by piece.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Endings {
    lf: bool,
    crlf: bool,
    lone_cr: bool,
    /// The piece before ended in `\r`.
    pending_cr: bool,
}

impl Endings {
    /// Looks at the next piece.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        for at in memchr::memchr2_iter(b'\n', b'\r', piece) {
            let before_is_cr = match at.checked_sub(1) {
                Some(before) => piece[before] == b'\r',
                None => self.pending_cr,
            };
            match piece[at] {
                b'\n' if before_is_cr => self.crlf = true,
                b'\n' => self.lf = true,
                _ if before_is_cr => self.lone_cr = true,
                _ => {}
            }
            if piece[at] == b'\r' && piece.get(at + 1).is_some_and(|next| *next != b'\n') {
                self.lone_cr = true;
            }
        }
        if self.pending_cr && piece[0] != b'\n' {
            self.lone_cr = true;
        }
        self.pending_cr = piece.last() == Some(&b'\r');
    }

    /// Ends a stretch: a `\r` at its end stands by itself only where the file ends there too.
    pub(super) fn end(&mut self, at_end_of_file: bool) {
        self.lone_cr |= self.pending_cr && at_end_of_file;
        self.pending_cr = false;
    }

    /// The style of all that was fed.
    pub(super) fn style(self) -> Style {
        match (self.lf, self.crlf, self.lone_cr) {
            (_, _, true) | (true, true, _) => Style::Mixed,
            (false, true, false) => Style::Crlf,
            (_, false, false) => Style::Lf,
        }
    }
}

/// The style of a whole text.
pub(super) fn style_of(bytes: &[u8]) -> Style {
    let mut endings = Endings::default();
    endings.feed(bytes);
    endings.end(true);
    endings.style()
}

/// Checks UTF-8 and the absence of NUL piece by piece; a character may be split between pieces.
#[derive(Debug, Default)]
pub(super) struct TextCheck {
    carry: Vec<u8>,
    /// Offset in the file of what comes next.
    next: u64,
}

/// Why bytes are no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotText {
    /// A NUL byte at this offset.
    Nul(u64),
    /// A byte at this offset that is no part of a UTF-8 character.
    Invalid(u64),
}

impl NotText {
    /// The reason, as the end of a sentence about the file.
    pub(super) fn reason(self) -> String {
        match self {
            Self::Nul(at) => format!("it holds a NUL byte at offset {at}, so it is binary"),
            Self::Invalid(at) => format!("it is not valid UTF-8 (first bad byte at offset {at})"),
        }
    }
}

impl TextCheck {
    /// Looks at the piece that stands at `offset` in the file. After a gap the piece must begin a character.
    pub(super) fn feed(&mut self, offset: u64, piece: &[u8]) -> Result<(), NotText> {
        if offset != self.next {
            self.carry.clear();
        }
        self.next = offset + piece.len() as u64;
        if let Some(at) = memchr::memchr(0, piece) {
            return Err(NotText::Nul(offset + at as u64));
        }
        let (offset, rest) = if self.carry.is_empty() {
            (offset, piece)
        } else {
            self.close_carry(offset, piece)?
        };
        // A piece this short lay wholly in the carried character.
        match simdutf8::compat::from_utf8(rest) {
            Ok(_) => Ok(()),
            Err(error) => {
                let valid = error.valid_up_to();
                if error.error_len().is_some() {
                    return Err(NotText::Invalid(offset + valid as u64));
                }
                self.carry.extend_from_slice(&rest[valid..]);
                Ok(())
            }
        }
    }

    /// Completes the character whose beginning ended the piece before.
    fn close_carry<'p>(
        &mut self,
        offset: u64,
        piece: &'p [u8],
    ) -> Result<(u64, &'p [u8]), NotText> {
        let start = offset - self.carry.len() as u64;
        for (n_taken, byte) in piece.iter().enumerate() {
            self.carry.push(*byte);
            match std::str::from_utf8(&self.carry) {
                Ok(_) => {
                    self.carry.clear();
                    return Ok((offset + n_taken as u64 + 1, &piece[n_taken + 1..]));
                }
                Err(error) if error.error_len().is_some() => return Err(NotText::Invalid(start)),
                Err(_) => {}
            }
        }
        Ok((offset + piece.len() as u64, &[]))
    }

    /// The file ends here: a character may not be left open.
    pub(super) fn end(&self) -> Result<(), NotText> {
        if self.carry.is_empty() {
            Ok(())
        } else {
            Err(NotText::Invalid(self.next - self.carry.len() as u64))
        }
    }
}

/// Checks a whole text.
pub(super) fn check_text(bytes: &[u8]) -> Result<&str, NotText> {
    if let Some(at) = memchr::memchr(0, bytes) {
        return Err(NotText::Nul(at as u64));
    }
    simdutf8::compat::from_utf8(bytes).map_err(|error| NotText::Invalid(error.valid_up_to() as u64))
}

/// A two-byte encoding, told by its byte-order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Utf16 {
    /// Low byte first.
    Le,
    /// High byte first.
    Be,
}

impl Utf16 {
    /// Tells it by the mark.
    pub(super) fn sniff(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xFF, 0xFE, ..] => Some(Self::Le),
            [0xFE, 0xFF, ..] => Some(Self::Be),
            _ => None,
        }
    }

    /// Its usual name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Le => "UTF-16 (little endian)",
            Self::Be => "UTF-16 (big endian)",
        }
    }

    /// Decodes a whole file, mark included, without loss; none where that is impossible.
    pub(super) fn decode(self, bytes: &[u8]) -> Option<String> {
        let units = bytes.get(2..)?.chunks_exact(2);
        if !units.remainder().is_empty() {
            return None;
        }
        let units = units.map(|pair| match self {
            Self::Le => u16::from_le_bytes([pair[0], pair[1]]),
            Self::Be => u16::from_be_bytes([pair[0], pair[1]]),
        });
        let text: String = char::decode_utf16(units).collect::<Result<_, _>>().ok()?;
        (!text.contains('\0')).then_some(text)
    }
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
            ("a\rb", Style::Mixed),
            ("a\r\r\n", Style::Mixed),
            ("a\r", Style::Mixed),
            ("\r\n", Style::Crlf),
        ] {
            for cut in 0..=text.len() {
                let mut endings = Endings::default();
                endings.feed(&text.as_bytes()[..cut]);
                endings.feed(&text.as_bytes()[cut..]);
                endings.end(true);
                assert_eq!(endings.style(), expected, "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn checks_do_not_depend_on_how_the_text_is_cut() {
        let cases: [(&[u8], Result<(), NotText>); 6] = [
            ("aé中🌍".as_bytes(), Ok(())),
            (b"ab\0c", Err(NotText::Nul(2))),
            (b"ab\xFFc", Err(NotText::Invalid(2))),
            (b"a\xE4\xB8x", Err(NotText::Invalid(1))),
            (b"a\xE4\xB8", Err(NotText::Invalid(1))),
            (b"\xF0\x9F\x8C\x8D\xF0", Err(NotText::Invalid(4))),
        ];
        for (bytes, expected) in cases {
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let mut check = TextCheck::default();
                    let got = check
                        .feed(0, &bytes[..first])
                        .and_then(|()| check.feed(first as u64, &bytes[first..second]))
                        .and_then(|()| check.feed(second as u64, &bytes[second..]))
                        .and_then(|()| check.end());
                    assert_eq!(got, expected, "{bytes:?} cut at {first} and {second}");
                }
            }
        }
    }

    #[test]
    fn two_byte_encodings() {
        let le = b"\xFF\xFE-N\x87e\n\0";
        assert_eq!(Utf16::sniff(le), Some(Utf16::Le));
        assert_eq!(Utf16::Le.decode(le).as_deref(), Some("中文\n"));
        let be = b"\xFE\xFFN-e\x87\0\n";
        assert_eq!(
            Utf16::sniff(be).and_then(|kind| kind.decode(be)).as_deref(),
            Some("中文\n")
        );
        assert_eq!(Utf16::Le.decode(b"\xFF\xFEa"), None, "half a unit");
        assert_eq!(Utf16::Le.decode(b"\xFF\xFE\x00\xD8"), None, "half a pair");
        assert_eq!(Utf16::sniff(b"ab"), None);
    }
}
