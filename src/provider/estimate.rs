//! Tokens of a request and an answer where nobody counted them: a guess by characters.

use longshore_protocol::value::usage::Usage;

use super::ModelRequest;
use crate::kernel::message::{Message, Part};

/// An image counts as this many tokens whatever its size.
const IMAGE_TOKENS: u64 = 2000;

/// Tokens of a text: a quarter of its ASCII characters, rounded up, and one for each other character.
pub(crate) fn text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    // Continuation bytes are 0b10…; each other byte above ASCII begins a character.
    let other = text.bytes().filter(|byte| *byte >= 0xC0).count() as u64;
    ascii.div_ceil(4) + other
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
    use super::text;

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
