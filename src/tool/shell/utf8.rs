//! Decoding a byte stream that is cut anywhere.

use std::borrow::Cow;

/// A decoder of one stream: a character split between two reads comes out whole, bytes that are no character come out
/// as U+FFFD.
#[derive(Debug, Default)]
pub(super) struct Utf8 {
    /// The beginning of a character whose rest has not come yet.
    pending: Vec<u8>,
}

impl Utf8 {
    /// The text that is complete with these bytes.
    pub(super) fn push<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, str> {
        if self.pending.is_empty()
            && let Ok(text) = str::from_utf8(bytes)
        {
            return Cow::Borrowed(text);
        }
        let mut joined = std::mem::take(&mut self.pending);
        joined.extend_from_slice(bytes);
        let mut text = String::with_capacity(joined.len());
        let mut chunks = joined.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                continue;
            }
            let may_continue =
                str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if may_continue && chunks.peek().is_none() {
                self.pending = invalid.to_vec();
            } else {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        Cow::Owned(text)
    }

    /// What is left at the end of the stream.
    pub(super) fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.pending).is_empty() {
            ""
        } else {
            "\u{fffd}"
        }
    }
}

/// The last place at or before `at` where the text can be cut.
pub(super) fn cut_before(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|place| text.is_char_boundary(*place))
        .unwrap_or(0)
}

/// The first place at or after `at` where the text can be cut.
pub(super) fn cut_after(text: &str, at: usize) -> usize {
    (at..text.len())
        .find(|place| text.is_char_boundary(*place))
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes with a cut after every `step` bytes.
    fn decode(bytes: &[u8], step: usize) -> String {
        let mut decoder = Utf8::default();
        let mut text: String = bytes
            .chunks(step)
            .map(|piece| decoder.push(piece).into_owned())
            .collect();
        text.push_str(decoder.finish());
        text
    }

    #[test]
    fn cuts_are_between_characters() {
        for (at, before, after) in [(0, 0, 0), (1, 1, 1), (2, 1, 4), (4, 4, 4), (9, 4, 4)] {
            assert_eq!(
                (cut_before("a€", at), cut_after("a€", at)),
                (before, after),
                "{at}"
            );
        }
    }

    #[test]
    fn cuts_do_not_matter() {
        for bytes in [
            "a€b, 😀 and 你".as_bytes(),
            b"\xff\xfeabc",
            b"\xe2\x82A\xe2\x82\xac",
            b"end \xf0\x9f\x98",
            b"\xf0\x9f\x98\xe2\x82\xac",
            b"",
        ] {
            let expected = String::from_utf8_lossy(bytes);
            for step in 1..=6 {
                assert_eq!(decode(bytes, step), expected, "{bytes:?} by {step}");
            }
        }
    }
}
