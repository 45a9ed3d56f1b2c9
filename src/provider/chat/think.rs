//! Splits `<think>…</think>` out of text, for servers that leave the tags in.

use crate::provider::Delta;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Follows text piece by piece; a tag may be cut anywhere.
#[derive(Debug, Default)]
pub(super) struct TagSplitter {
    inside: bool,
    /// The beginning of what may become a tag.
    held: String,
    /// A block has ended and the line breaks after it are not part of the text.
    trim: bool,
}

impl TagSplitter {
    /// Takes more text.
    pub(super) fn push(&mut self, text: &str, out: &mut Vec<Delta>) {
        self.held.push_str(text);
        loop {
            let tag = if self.inside { CLOSE } else { OPEN };
            if let Some(at) = self.held.find(tag) {
                let before: String = self.held.drain(..at + tag.len()).collect();
                self.emit(&before[..at], out);
                self.inside = !self.inside;
                self.trim = !self.inside;
                continue;
            }
            let keep = (1..tag.len())
                .rev()
                .find(|n| self.held.ends_with(&tag[..*n]))
                .unwrap_or(0);
            let ready: String = self.held.drain(..self.held.len() - keep).collect();
            self.emit(&ready, out);
            return;
        }
    }

    /// No more comes.
    pub(super) fn flush(&mut self, out: &mut Vec<Delta>) {
        let rest = std::mem::take(&mut self.held);
        self.emit(&rest, out);
    }

    fn emit(&mut self, text: &str, out: &mut Vec<Delta>) {
        let text = if self.trim {
            text.trim_start_matches(['\n', '\r'])
        } else {
            text
        };
        if text.is_empty() {
            return;
        }
        self.trim = false;
        out.push(if self.inside {
            Delta::Thinking {
                text: text.to_owned(),
                signature: None,
            }
        } else {
            Delta::Text(text.to_owned())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::TagSplitter;
    use crate::provider::Delta;

    #[test]
    fn tags_may_be_cut_anywhere() {
        for (text, thinking, said) in [
            ("plain", "", "plain"),
            ("<think>a\nb</think>\n\nc", "a\nb", "c"),
            ("x < y <thin <think>a</think>b", "a", "x < y <thin b"),
            ("<think>never closed </thin", "never closed </thin", ""),
            ("<think></think>b", "", "b"),
        ] {
            for size in 1..=text.len() {
                let mut splitter = TagSplitter::default();
                let mut out = Vec::new();
                for piece in text.as_bytes().chunks(size) {
                    splitter.push(std::str::from_utf8(piece).unwrap(), &mut out);
                }
                splitter.flush(&mut out);
                let (mut got_thinking, mut got_said) = (String::new(), String::new());
                for delta in out {
                    match delta {
                        Delta::Thinking { text, .. } => got_thinking.push_str(&text),
                        Delta::Text(text) => got_said.push_str(&text),
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(
                    (&*got_thinking, &*got_said),
                    (thinking, said),
                    "{text} by {size}"
                );
            }
        }
    }
}
