//! Telling text from binary output by its beginning.

/// How much is looked at.
const SAMPLE_BYTES: usize = 8 << 10;

/// A handful of odd bytes says little: shares are judged from this size on.
const MIN_BYTES: usize = 256;

/// The largest share of bytes, in percent, that a text may have wrong.
const MAX_WRONG_PERCENT: usize = 30;

/// The beginning of an output, until it is judged.
#[derive(Debug, Default)]
pub(super) struct Sample {
    bytes: Vec<u8>,
    is_over: bool,
}

impl Sample {
    /// Takes more output; true where it is binary by what is known now.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        if self.is_over {
            return false;
        }
        let n = bytes.len().min(SAMPLE_BYTES - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..n]);
        let has_nul = memchr::memchr(0, &bytes[..n]).is_some();
        has_nul || (self.bytes.len() == SAMPLE_BYTES && self.finish())
    }

    /// Judges what there is, once.
    pub(super) fn finish(&mut self) -> bool {
        self.is_over = true;
        let bytes = std::mem::take(&mut self.bytes);
        bytes.len() >= MIN_BYTES && n_wrong(&bytes) * 100 > bytes.len() * MAX_WRONG_PERCENT
    }
}

/// Bytes that are no character, and control characters other than those of text and terminals.
fn n_wrong(bytes: &[u8]) -> usize {
    let is_wrong = |byte: &u8| matches!(byte, 0..=7 | 14..=26 | 28..=31 | 127);
    let chunk_wrong = |chunk: std::str::Utf8Chunk<'_>| {
        chunk.invalid().len() + chunk.valid().bytes().filter(is_wrong).count()
    };
    bytes.utf8_chunks().map(chunk_wrong).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_binary(pieces: &[&[u8]]) -> bool {
        let mut sample = Sample::default();
        let is_binary = pieces.iter().any(|piece| sample.push(piece));
        is_binary || sample.finish()
    }

    #[test]
    fn text_and_binary() {
        let (latin, chinese) = (b"caf\xe9 ".repeat(100), "你好".repeat(5000));
        let cases: [(&[u8], bool); 7] = [
            (b"plain\r\n\ttext\x1b[31m red\x1b[0m", false),
            (b"a\0b", true),
            (b"\xff\xfeabc", false),
            (&[0xfe; 300], true),
            (&latin, false),
            (chinese.as_bytes(), false),
            (b"", false),
        ];
        for (bytes, expected) in cases {
            assert_eq!(
                is_binary(&[bytes]),
                expected,
                "{:?}",
                &bytes[..bytes.len().min(20)]
            );
            let (a, b) = bytes.split_at(bytes.len() / 2);
            assert_eq!(is_binary(&[a, b]), expected);
        }
        let late = [b"x".repeat(SAMPLE_BYTES), vec![0; 100]].concat();
        assert!(!is_binary(&[&late]));
    }
}
