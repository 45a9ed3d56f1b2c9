//! Tokens of a request and an answer where nobody counted them: a guess by characters.

use longshore_protocol::value::usage::Usage;

use super::ModelRequest;
use crate::kernel::message::{Message, Part};

/// An image counts as this many tokens whatever its size.
const IMAGE_TOKENS: u64 = 2000;

/// Text counted piece by piece: rounding each piece up would count a stream of words far too high.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    n_ascii: u64,
    n_other: u64,
}

impl Tally {
    /// Counts a piece.
    pub(crate) fn add(&mut self, piece: &str) {
        self.n_ascii += piece.bytes().filter(u8::is_ascii).count() as u64;
        // Continuation bytes are 0b10…; each other byte above ASCII begins a character.
        self.n_other += piece.bytes().filter(|byte| *byte >= 0xC0).count() as u64;
    }

    /// A quarter of the ASCII characters, rounded up, and one token for each other character.
    pub(crate) fn tokens(self) -> u64 {
        self.n_ascii.div_ceil(4) + self.n_other
    }
}

/// Tokens of a text.
pub(crate) fn text(text: &str) -> u64 {
    let mut tally = Tally::default();
    tally.add(text);
    tally.tokens()
}

/// Tokens of a request.
pub(crate) fn request(request: &ModelRequest) -> u64 {
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| text(&tool.name) + text(&tool.description) + text(&tool.parameters.to_string()))
        .sum();
    text(&request.system)
        + tools
        + request
            .messages
            .iter()
            .map(|each| message(each))
            .sum::<u64>()
}

/// The usage of an answer that the provider did not count.
pub(crate) fn usage(input: u64, output: u64) -> Usage {
    Usage {
        input_other: input,
        output,
        estimated: true,
        ..Usage::default()
    }
}

fn message(message: &Message) -> u64 {
    /// A role costs about a token.
    const ROLE: u64 = 1;
    let (parts, more) = match message {
        Message::User { parts, .. } => (parts, 0),
        Message::Assistant { parts, calls, .. } => (
            parts,
            calls
                .iter()
                .map(|call| text(&call.name) + text(&call.arguments))
                .sum(),
        ),
        Message::ToolResult { parts, note, .. } => (parts, note.as_deref().map_or(0, text)),
    };
    let parts: u64 = parts
        .iter()
        .map(|part| match part {
            Part::Text(said) => text(said),
            Part::Thinking(thinking) => text(&thinking.text),
            Part::Image { .. } => IMAGE_TOKENS,
        })
        .sum();
    ROLE + parts + more
}

#[cfg(test)]
mod tests {
    use super::{Tally, text};

    #[test]
    fn pieces_count_like_the_whole() {
        let mut tally = Tally::default();
        for piece in ["a", "b ", "c", "日", "d"] {
            tally.add(piece);
        }
        assert_eq!(tally.tokens(), text("ab c日d"));
    }

    #[test]
    fn ascii_quarters_and_whole_others() {
        for (said, tokens) in [
            ("", 0),
            ("abc", 1),
            ("abcd", 1),
            ("abcde", 2),
            ("日本", 2),
            ("ab日", 2),
            ("é😀", 2),
        ] {
            assert_eq!(text(said), tokens, "{said}");
        }
    }
}
