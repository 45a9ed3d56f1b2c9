//! Cuts content into pieces, and makes filler.

use super::format::Chunk;
use crate::provider::Delta;

/// Content on its way out.
pub(super) enum Chunks {
    /// Text.
    Text { text: String, at: usize },
    /// Thinking. Empty thinking is one empty piece; a signature comes after the text.
    Think {
        text: String,
        at: usize,
        signature: Option<String>,
        begun: bool,
    },
    /// Filler.
    Filler(Filler),
}

impl Chunks {
    /// The next piece.
    pub(super) fn next(&mut self, chunk: Chunk) -> Option<Delta> {
        match self {
            Self::Text { text, at: 0 } if chunk == Chunk::Whole => {
                let text = std::mem::take(text);
                Some(Delta::Text(text)).filter(|delta| *delta != Delta::Text(String::new()))
            }
            Self::Text { text, at } => {
                let piece = piece(text.get(*at..)?, chunk)?;
                *at += piece.len();
                Some(Delta::Text(piece.to_owned()))
            }
            Self::Think {
                text,
                at,
                signature,
                begun,
            } => {
                let rest = text.get(*at..).unwrap_or_default();
                match piece(rest, chunk) {
                    Some(piece) => {
                        *at += piece.len();
                        *begun = true;
                        Some(Delta::Thinking {
                            text: piece.to_owned(),
                            signature: None,
                        })
                    }
                    None if *begun && signature.is_none() => None,
                    None => {
                        *begun = true;
                        Some(Delta::Thinking {
                            text: String::new(),
                            signature: signature.take(),
                        })
                    }
                }
            }
            Self::Filler(filler) => filler.next(chunk).map(Delta::Text),
        }
    }
}

fn piece(rest: &str, chunk: Chunk) -> Option<&str> {
    let first = rest.chars().next()?;
    let end = match chunk {
        Chunk::Whole => rest.len(),
        Chunk::Char => first.len_utf8(),
        Chunk::Word => {
            let word = rest
                .find(|c: char| !c.is_whitespace())
                .unwrap_or(rest.len());
            let space = rest[word..]
                .find(char::is_whitespace)
                .map_or(rest.len(), |at| word + at);
            rest[space..]
                .find(|c: char| !c.is_whitespace())
                .map_or(rest.len(), |at| space + at)
        }
        Chunk::Bytes(size) => {
            (size.min(rest.len())..=rest.len()).find(|at| rest.is_char_boundary(*at))?
        }
    };
    Some(&rest[..end])
}

/// A text in about equal pieces.
pub(super) fn split(text: &str, n_pieces: usize) -> Vec<String> {
    let size = text.len().div_ceil(n_pieces.max(1)).max(1);
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(next) = piece(rest, Chunk::Bytes(size)) {
        pieces.push(next.to_owned());
        rest = &rest[next.len()..];
    }
    pieces
}

/// Words of no meaning, the same for the same seed.
pub(super) struct Filler {
    left: u64,
    random: u64,
    held: String,
}

const WORDS: [&str; 16] = [
    "lorem ",
    "ipsum ",
    "dolor ",
    "sit ",
    "amet ",
    "consectetur ",
    "adipiscing ",
    "elit ",
    "sed ",
    "do ",
    "eiusmod ",
    "tempor ",
    "incididunt ",
    "ut ",
    "labore ",
    "magna\n",
];

impl Filler {
    /// So many bytes.
    pub(super) fn new(bytes: u64, seed: u64) -> Self {
        Self {
            left: bytes,
            random: seed,
            held: String::new(),
        }
    }

    fn next(&mut self, chunk: Chunk) -> Option<String> {
        let wanted = match chunk {
            Chunk::Whole => usize::MAX,
            Chunk::Bytes(size) => size,
            Chunk::Char | Chunk::Word => 1,
        };
        while self.left > 0 && self.held.len() < wanted {
            let word = self.word();
            let taken = word
                .len()
                .min(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= taken as u64;
            self.held.push_str(&word[..taken]);
        }
        let next = piece(&self.held, chunk)?.to_owned();
        self.held.drain(..next.len());
        Some(next)
    }

    /// A linear congruential step (Knuth's constants); its upper bits choose the word.
    fn word(&mut self) -> &'static str {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        WORDS[(self.random >> 60) as usize & 15]
    }
}

#[cfg(test)]
mod tests {
    use super::{Chunks, Filler, split};
    use crate::provider::Delta;
    use crate::provider::scripted::format::Chunk;

    fn texts(mut chunks: Chunks, chunk: Chunk) -> Vec<String> {
        std::iter::from_fn(|| chunks.next(chunk))
            .map(|delta| match delta {
                Delta::Text(text)
                | Delta::Thinking {
                    text,
                    signature: None,
                } => text,
                Delta::Thinking {
                    text,
                    signature: Some(signature),
                } => format!("{text}#{signature}"),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn pieces() {
        for (text, chunk, wanted) in [
            ("", Chunk::Whole, vec![]),
            ("", Chunk::Word, vec![]),
            ("a bc  d\n", Chunk::Whole, vec!["a bc  d\n"]),
            (" a bc  d\n", Chunk::Word, vec![" a ", "bc  ", "d\n"]),
            ("äb", Chunk::Char, vec!["ä", "b"]),
            ("aäbc", Chunk::Bytes(2), vec!["aä", "bc"]),
        ] {
            assert_eq!(
                texts(
                    Chunks::Text {
                        text: text.into(),
                        at: 0
                    },
                    chunk
                ),
                wanted,
                "{text} {chunk:?}"
            );
        }
        let think = |text: &str, signature: Option<&str>| Chunks::Think {
            text: text.into(),
            at: 0,
            signature: signature.map(Into::into),
            begun: false,
        };
        assert_eq!(texts(think("a b", None), Chunk::Word), ["a ", "b"]);
        assert_eq!(texts(think("", None), Chunk::Word), [""]);
        assert_eq!(texts(think("a", Some("s")), Chunk::Whole), ["a", "#s"]);
    }

    #[test]
    fn splits() {
        assert_eq!(split("abcdefg", 3), ["abc", "def", "g"]);
        assert_eq!(split("ä", 5), ["ä"]);
        assert!(split("", 3).is_empty());
    }

    #[test]
    fn filler_has_its_length_and_its_seed() {
        for chunk in [Chunk::Whole, Chunk::Word, Chunk::Char, Chunk::Bytes(100)] {
            let whole = texts(Chunks::Filler(Filler::new(1000, 7)), chunk).concat();
            assert_eq!(whole.len(), 1000, "{chunk:?}");
            assert_eq!(
                whole,
                texts(Chunks::Filler(Filler::new(1000, 7)), Chunk::Whole).concat()
            );
        }
        assert_ne!(
            texts(Chunks::Filler(Filler::new(100, 1)), Chunk::Whole),
            texts(Chunks::Filler(Filler::new(100, 2)), Chunk::Whole)
        );
    }
}
