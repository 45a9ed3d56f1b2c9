//! Whether bytes are UTF-8 text, piece by piece, so that a file need not be held to be judged.

/// Checks UTF-8 and the absence of NUL piece by piece; a character may be split between pieces.
#[derive(Debug, Default)]
pub(in crate::tool::file) struct TextCheck {
    carry: Vec<u8>,
    /// Offset in the file of what comes next.
    next: u64,
}

/// Why bytes are no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tool::file) enum NotText {
    /// A NUL byte at this offset.
    Nul(u64),
    /// A byte at this offset that is no part of a UTF-8 character.
    Invalid(u64),
}

impl NotText {
    /// The same where `n_before` bytes stand before what was judged.
    pub(super) fn shifted(self, n_before: u64) -> Self {
        match self {
            Self::Nul(at) => Self::Nul(at + n_before),
            Self::Invalid(at) => Self::Invalid(at + n_before),
        }
    }

    /// The reason, as the end of a sentence about the file.
    pub(in crate::tool::file) fn reason(self) -> String {
        match self {
            Self::Nul(at) => format!("it holds a NUL byte at offset {at}, so it is binary"),
            Self::Invalid(at) => format!("it is not valid UTF-8 (first bad byte at offset {at})"),
        }
    }
}

impl TextCheck {
    /// Looks at the piece that stands at `offset` in the file. After a gap the piece must begin a character.
    pub(in crate::tool::file) fn feed(&mut self, offset: u64, piece: &[u8]) -> Result<(), NotText> {
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
    pub(in crate::tool::file) fn end(&self) -> Result<(), NotText> {
        if self.carry.is_empty() {
            Ok(())
        } else {
            Err(NotText::Invalid(self.next - self.carry.len() as u64))
        }
    }
}

/// Checks a whole text.
pub(in crate::tool::file) fn check_text(bytes: &[u8]) -> Result<&str, NotText> {
    if let Some(at) = memchr::memchr(0, bytes) {
        return Err(NotText::Nul(at as u64));
    }
    simdutf8::compat::from_utf8(bytes).map_err(|error| NotText::Invalid(error.valid_up_to() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
