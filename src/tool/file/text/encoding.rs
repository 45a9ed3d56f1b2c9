//! A whole file as text, in whatever encoding it is, and text in that encoding.

use std::borrow::Cow;

use super::check::{NotText, check_text};
use super::utf16::Utf16;
use super::{BOM, MAX_DECODED_BYTES, legacy};

/// How bytes stand for characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tool::file) enum Encoding {
    /// One to four bytes for a character; what everything is that is not something else.
    Utf8,
    /// Two or four bytes.
    Utf16(Utf16),
    /// One of a language or a region, in which a character stands for the same bytes wherever it stands.
    Legacy(&'static encoding_rs::Encoding),
}

/// A file as text.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::tool::file) struct Text<'a> {
    /// How it is written.
    pub encoding: Encoding,
    /// Bytes of its byte-order mark; 0 without one.
    pub mark_bytes: usize,
    /// All of it behind the mark.
    pub body: Cow<'a, str>,
}

/// Why a whole file is no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tool::file) enum Unreadable {
    /// Binary, or UTF-8 no more.
    NotText(NotText),
    /// Not UTF-8 from this offset on, and not certainly anything else; with what it looks like.
    Unknown(u64, Option<&'static str>),
    /// In this encoding, but with parts that stand for nothing.
    Broken(&'static str),
    /// In this encoding, which has to be decoded whole, and larger than [`MAX_DECODED_BYTES`].
    TooLarge(&'static str),
}

/// A character that an encoding lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tool::file) struct Unencodable {
    /// The character.
    pub c: char,
    /// The name of the encoding.
    pub encoding: &'static str,
}

impl Unencodable {
    /// For the model, about the file at `path`.
    pub(in crate::tool::file) fn message(self, path: &str) -> String {
        format!(
            "{path} is {} text, which has no {:?} ({}); nothing was changed. Leave that character out, or convert the file \
             with a shell command first.",
            self.encoding,
            self.c,
            self.c.escape_unicode()
        )
    }
}

impl Encoding {
    /// By the beginning of a file: UTF-16, or nothing that can be told so early.
    pub(in crate::tool::file) fn sniff(head: &[u8]) -> Option<Self> {
        Utf16::by_mark(head)
            .or_else(|| Utf16::by_zeros(head))
            .map(Self::Utf16)
    }

    /// Its usual name.
    pub(in crate::tool::file) fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16(order) => order.name(),
            Self::Legacy(encoding) => encoding.name(),
        }
    }

    /// Text as bytes, without a mark.
    ///
    /// # Errors
    /// The first character that can't be said in this encoding.
    pub(in crate::tool::file) fn encode(self, text: &str) -> Result<Cow<'_, [u8]>, Unencodable> {
        match self {
            Self::Utf8 => Ok(text.as_bytes().into()),
            Self::Utf16(order) => Ok(order.encode(text).into()),
            Self::Legacy(encoding) => {
                legacy::encode(encoding, text)
                    .map(Cow::Owned)
                    .map_err(|c| Unencodable {
                        c,
                        encoding: encoding.name(),
                    })
            }
        }
    }

    /// How many bytes a part of a text that was decoded takes in its file.
    ///
    /// # Errors
    /// Never for such a part: decoding checked that it can be encoded.
    pub(in crate::tool::file) fn len_in_file(self, part: &str) -> Result<usize, Unencodable> {
        match self {
            Self::Utf8 => Ok(part.len()),
            Self::Utf16(_) => Ok(part.encode_utf16().count() * 2),
            Self::Legacy(_) => self.encode(part).map(|bytes| bytes.len()),
        }
    }
}

impl<'a> Text<'a> {
    /// Decodes a whole file without loss.
    ///
    /// # Errors
    /// Why it is no text.
    pub(in crate::tool::file) fn of(bytes: &'a [u8]) -> Result<Self, Unreadable> {
        if let Some(order) = Utf16::by_mark(bytes) {
            return Self::of_utf16(bytes, order, Utf16::MARK_BYTES);
        }
        let mark_bytes = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
        let reason = match check_text(&bytes[mark_bytes..]) {
            Ok(body) => {
                return Ok(Self {
                    encoding: Encoding::Utf8,
                    mark_bytes,
                    body: body.into(),
                });
            }
            Err(reason) => reason.shifted(mark_bytes as u64),
        };
        match reason {
            NotText::Nul(_) => match Utf16::by_zeros(bytes) {
                // Without a mark, what can't be decoded is not taken for text at all.
                Some(order) => Self::of_utf16(bytes, order, 0).map_err(|error| match error {
                    Unreadable::Broken(_) => Unreadable::NotText(reason),
                    error => error,
                }),
                None => Err(Unreadable::NotText(reason)),
            },
            NotText::Invalid(at) => Self::of_legacy(bytes, at),
        }
    }

    fn of_utf16(bytes: &'a [u8], order: Utf16, mark_bytes: usize) -> Result<Self, Unreadable> {
        if bytes.len() as u64 > MAX_DECODED_BYTES {
            return Err(Unreadable::TooLarge(order.name()));
        }
        let body = order.decode(&bytes[mark_bytes..]);
        // What was decoded without loss gives the same bytes again; a file is not touched on trust.
        match body.filter(|body| order.encode(body) == bytes[mark_bytes..]) {
            Some(body) => Ok(Self {
                encoding: Encoding::Utf16(order),
                mark_bytes,
                body: body.into(),
            }),
            None => Err(Unreadable::Broken(order.name())),
        }
    }

    fn of_legacy(bytes: &'a [u8], at: u64) -> Result<Self, Unreadable> {
        let unknown = Unreadable::Unknown(at, guess_at(bytes, at as usize));
        if bytes.len() as u64 > MAX_DECODED_BYTES || bytes.starts_with(BOM) {
            return Err(unknown);
        }
        match legacy::recognise(bytes) {
            Some((encoding, body)) => Ok(Self {
                encoding: Encoding::Legacy(encoding),
                mark_bytes: 0,
                body: body.into(),
            }),
            None => Err(unknown),
        }
    }
}

/// The name of what bytes from a bad one on look like.
pub(in crate::tool::file) fn guess_at(bytes: &[u8], at: usize) -> Option<&'static str> {
    legacy::guess(bytes.get(at..)?).map(encoding_rs::Encoding::name)
}

impl Unreadable {
    /// The reason, as the end of a sentence about the file.
    pub(in crate::tool::file) fn reason(self) -> String {
        match self {
            Self::NotText(reason) => reason.reason(),
            Self::Unknown(at, guess) => {
                let mut reason = NotText::Invalid(at).reason();
                if let Some(guess) = guess {
                    reason.push_str(", though it may be ");
                    reason.push_str(guess);
                }
                reason
            }
            Self::Broken(name) => format!("it begins as {name} text but is not valid"),
            Self::TooLarge(name) => format!(
                "it is {name} text of more than {} MiB",
                MAX_DECODED_BYTES >> 20
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::GBK;

    use super::*;

    fn of(bytes: &[u8]) -> Result<(Encoding, usize, String), Unreadable> {
        Text::of(bytes).map(|text| (text.encoding, text.mark_bytes, text.body.into_owned()))
    }

    #[test]
    fn files_of_every_encoding() {
        let utf8 = |mark, text: &str| Ok((Encoding::Utf8, mark, text.to_owned()));
        let utf16 = |order, mark, text: &str| Ok((Encoding::Utf16(order), mark, text.to_owned()));
        assert_eq!(of(b""), utf8(0, ""));
        assert_eq!(of("é\n".as_bytes()), utf8(0, "é\n"));
        assert_eq!(of(b"\xEF\xBB\xBFa"), utf8(3, "a"));
        assert_eq!(of(b"\xFF\xFE-N\x87e\n\0"), utf16(Utf16::Le, 2, "中文\n"));
        assert_eq!(of(b"\xFE\xFFN-e\x87\0\n"), utf16(Utf16::Be, 2, "中文\n"));
        assert_eq!(of(b"a\0b\0"), utf16(Utf16::Le, 0, "ab"));
        assert_eq!(of(b"\0a\0b"), utf16(Utf16::Be, 0, "ab"));
        assert_eq!(
            of(b"# \xB2\xE2\xCA\xD4\nadd = 1\n"),
            Ok((Encoding::Legacy(GBK), 0, "# 测试\nadd = 1\n".to_owned()))
        );
    }

    #[test]
    fn what_is_no_text_says_why() {
        for (bytes, said) in [
            (&b"ab\0c"[..], "NUL byte at offset 2"),
            (b"ab\n\xFF", "not valid UTF-8 (first bad byte at offset 3)"),
            (
                b"\xEF\xBB\xBFab\xFF",
                "not valid UTF-8 (first bad byte at offset 5)",
            ),
            (b"caf\xE9 ", "though it may be windows-1252"),
            (b"\xFF\xFEa", "begins as UTF-16 (little endian) text"),
            (b"\xFF\xFE\0\xD8", "begins as UTF-16 (little endian) text"),
            // Four bytes for a character: the mark begins like that of UTF-16.
            (b"\xFF\xFE\0\0a\0\0\0", "begins as UTF-16"),
        ] {
            let reason = of(bytes).unwrap_err().reason();
            assert!(reason.contains(said), "{bytes:?}: {reason}");
        }
        let large: Vec<u8> = [0xFF, 0xFE]
            .into_iter()
            .chain(
                [b'a', 0]
                    .into_iter()
                    .cycle()
                    .take(MAX_DECODED_BYTES as usize),
            )
            .collect();
        assert_eq!(
            of(&large).unwrap_err(),
            Unreadable::TooLarge("UTF-16 (little endian)")
        );
    }
}
