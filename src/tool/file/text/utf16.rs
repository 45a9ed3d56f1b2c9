//! Text of two-byte units.

use super::SNIFF_BYTES;

/// Control characters among a hundred characters above which bytes are no text.
const MAX_CONTROL_PERCENT: usize = 30;

/// The order of the bytes of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tool::file) enum Utf16 {
    /// Low byte first.
    Le,
    /// High byte first.
    Be,
}

impl Utf16 {
    /// Bytes of its mark.
    pub(super) const MARK_BYTES: usize = 2;

    /// Tells it by the mark.
    pub(super) fn by_mark(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xFF, 0xFE, ..] => Some(Self::Le),
            [0xFE, 0xFF, ..] => Some(Self::Be),
            _ => None,
        }
    }

    /// Tells it without a mark, by where zero bytes stand among the first [`SNIFF_BYTES`]: two or more, all of them the
    /// high halves of units.
    pub(super) fn by_zeros(bytes: &[u8]) -> Option<Self> {
        let sample = &bytes[..bytes.len().min(SNIFF_BYTES) & !1];
        let mut zeros = [0_usize; 2];
        for pair in sample.chunks_exact(2) {
            zeros[0] += usize::from(pair[0] == 0);
            zeros[1] += usize::from(pair[1] == 0);
        }
        let found = match zeros {
            [0, n] if n >= 2 => Self::Le,
            [n, 0] if n >= 2 => Self::Be,
            _ => return None,
        };
        if is_one_byte_text(sample) {
            return None;
        }
        let text: Vec<char> = char::decode_utf16(found.units(sample))
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        let n_control = text.iter().filter(|c| is_control(**c)).count();
        (n_control * 100 <= text.len() * MAX_CONTROL_PERCENT).then_some(found)
    }

    /// Its usual name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Le => "UTF-16 (little endian)",
            Self::Be => "UTF-16 (big endian)",
        }
    }

    /// Decodes what stands behind the mark, without loss; none where that is impossible, or where a NUL shows that it
    /// is no text.
    pub(super) fn decode(self, bytes: &[u8]) -> Option<String> {
        if !bytes.len().is_multiple_of(2) {
            return None;
        }
        let mut text = String::with_capacity(bytes.len());
        for c in char::decode_utf16(self.units(bytes)) {
            text.push(c.ok().filter(|c| *c != '\0')?);
        }
        Some(text)
    }

    /// Encodes, without a mark.
    pub(super) fn encode(self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(text.len() * 2);
        for unit in text.encode_utf16() {
            bytes.extend_from_slice(&match self {
                Self::Le => unit.to_le_bytes(),
                Self::Be => unit.to_be_bytes(),
            });
        }
        bytes
    }

    fn units(self, bytes: &[u8]) -> impl Iterator<Item = u16> {
        bytes.chunks_exact(2).map(move |pair| match self {
            Self::Le => u16::from_le_bytes([pair[0], pair[1]]),
            Self::Be => u16::from_be_bytes([pair[0], pair[1]]),
        })
    }
}

/// Plain ASCII that holds a few zero bytes, which by chance stand at offsets of one sort.
fn is_one_byte_text(sample: &[u8]) -> bool {
    let is_text = |byte: u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let (mut n_letters, mut n_zeros) = (0, 0);
    for pair in sample.chunks_exact(2) {
        match pair {
            [0, other] | [other, 0] if is_text(*other) => n_zeros += 1,
            [first, second] if is_text(*first) && is_text(*second) => n_letters += 1,
            _ => return false,
        }
    }
    n_letters > n_zeros
}

/// A character no text has, white space aside.
pub(super) fn is_control(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\x0C')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn told_by_mark_or_zeros() {
        assert_eq!(Utf16::by_mark(b"\xFF\xFEa\0"), Some(Utf16::Le));
        assert_eq!(Utf16::by_mark(b"\xFE\xFF\0a"), Some(Utf16::Be));
        assert_eq!(Utf16::by_mark(b"ab"), None);
        for (bytes, expected) in [
            (Utf16::Le.encode("one\ntwo"), Some(Utf16::Le)),
            (Utf16::Be.encode("one\ntwo"), Some(Utf16::Be)),
            (Utf16::Le.encode("中文\n字\n"), Some(Utf16::Le)),
            // No newline, no zero: nothing to tell it by.
            (Utf16::Le.encode("中文"), None),
            (b"plain text".to_vec(), None),
            (b"a\0".to_vec(), None),
            // Zeros of both sorts, control characters, and text with stray zeros.
            (b"a\0\0b\0c".to_vec(), None),
            (b"\x01\0\x02\0\x03\0a\0".to_vec(), None),
            (b"key\0value\0 and a longer text".to_vec(), None),
        ] {
            assert_eq!(Utf16::by_zeros(&bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn decodes_without_loss_or_not_at_all() {
        for order in [Utf16::Le, Utf16::Be] {
            let text = "a é 中 🌍\r\n";
            assert_eq!(order.decode(&order.encode(text)).as_deref(), Some(text));
            assert_eq!(order.decode(b"a"), None, "half a unit");
            assert_eq!(order.decode(&[0xD8; 2]), None, "half a pair");
            assert_eq!(order.decode(&order.encode("a\0b")), None, "no text");
        }
    }
}
