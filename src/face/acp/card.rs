//! Tool calls as cards: kind, places, content, and the caps that keep them small.

use std::fmt::Write as _;

use agent_client_protocol_schema::v1::{
    ContentBlock, Diff, ImageContent, Meta, ToolCall, ToolCallContent, ToolCallLocation,
    ToolCallUpdateFields, ToolKind,
};
use longshore_protocol::value::display::Display;
use longshore_protocol::value::tool::{AccessInfo, Operation};
use serde_json::{Map, Value, json};

use crate::kernel::message::Part;

/// Text of one content entry, and each of `rawInput` and `rawOutput`.
pub(super) const CONTENT_BYTES: usize = 64 << 10;
/// Text of a call that is still running. It is sent again and again, so it is shorter.
pub(super) const PROGRESS_BYTES: usize = 16 << 10;
/// A title, in characters.
const TITLE_CHARS: usize = 200;
/// A string inside raw arguments, where they are too long as a whole.
const RAW_STRING_BYTES: usize = 2 << 10;

/// A call as it is drawn before it runs.
#[derive(Clone, Debug)]
pub(super) struct Card {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) display: Display,
    pub(super) accesses: Vec<AccessInfo>,
    pub(super) input: Value,
}

impl Card {
    /// All of it, as the first a client hears of the call.
    pub(super) fn call(&self, id: &str) -> ToolCall {
        ToolCall::new(id.to_owned(), one_line(&self.title))
            .name(self.name.clone())
            .kind(kind(&self.display, &self.accesses))
            .content(opening(&self.display))
            .locations(locations(&self.display, &self.accesses))
            .raw_input(raw(self.input.clone()))
    }

    /// All of it, for a call the client has heard of, or for a permission request.
    pub(super) fn fields(&self) -> ToolCallUpdateFields {
        ToolCallUpdateFields::new()
            .title(one_line(&self.title))
            .name(self.name.clone())
            .kind(kind(&self.display, &self.accesses))
            .content(opening(&self.display))
            .locations(locations(&self.display, &self.accesses))
            .raw_input(raw(self.input.clone()))
    }
}

fn kind(display: &Display, accesses: &[AccessInfo]) -> ToolKind {
    match display {
        Display::Command { .. } | Display::CommandOutput { .. } => ToolKind::Execute,
        Display::FileRead { .. } => ToolKind::Read,
        Display::FileWrite { .. } | Display::Diff { .. } => ToolKind::Edit,
        Display::Search { .. } | Display::SearchResults { .. } => ToolKind::Search,
        Display::Todo { .. } => ToolKind::Think,
        Display::Question { .. } | Display::Task { .. } => ToolKind::Other,
        Display::Text { .. } | Display::Error { .. } | Display::Generic { .. } => {
            kind_of_accesses(accesses)
        }
    }
}

/// The kind of a call whose drawing says nothing, such as one that will fail.
fn kind_of_accesses(accesses: &[AccessInfo]) -> ToolKind {
    let does = |operation: Operation| accesses.iter().any(|access| access.operation == operation);
    if does(Operation::All) {
        ToolKind::Execute
    } else if does(Operation::Write) || does(Operation::Readwrite) {
        ToolKind::Edit
    } else if does(Operation::Search) {
        ToolKind::Search
    } else if does(Operation::Read) {
        ToolKind::Read
    } else {
        ToolKind::Other
    }
}

fn locations(display: &Display, accesses: &[AccessInfo]) -> Vec<ToolCallLocation> {
    let at =
        |path: &str, line: Option<u32>| vec![ToolCallLocation::new(path.to_owned()).line(line)];
    match display {
        Display::FileRead { path, line } => at(
            path,
            Some(
                line.and_then(|line| u32::try_from(line).ok())
                    .filter(|line| *line > 0)
                    .unwrap_or(1),
            ),
        ),
        Display::Diff { path, line, .. } => at(path, *line),
        Display::FileWrite { path, .. } | Display::Search { path, .. } => at(path, None),
        _ => accesses
            .iter()
            .filter_map(|access| access.path.as_ref())
            .map(|path| ToolCallLocation::new(path.clone()))
            .collect(),
    }
}

/// What a call shows before it runs.
pub(super) fn opening(display: &Display) -> Vec<ToolCallContent> {
    match display {
        Display::Command {
            command,
            description,
            ..
        } => {
            let mut content = vec![text(fenced(command, CONTENT_BYTES))];
            content.extend(description.as_ref().map(|words| text(words.clone())));
            content
        }
        Display::Diff { .. } => vec![diff(display)].into_iter().flatten().collect(),
        Display::FileWrite { content, .. } => vec![text(fenced(content, CONTENT_BYTES))],
        Display::Question { questions } => {
            let lines: Vec<String> = questions
                .iter()
                .map(|question| question.question.clone())
                .collect();
            vec![text(lines.join("\n"))]
        }
        Display::Text { text: words, .. } => non_empty(words),
        Display::Error { message, .. } => non_empty(message),
        Display::Generic { detail, .. } => detail.as_deref().map(non_empty).unwrap_or_default(),
        Display::FileRead { .. }
        | Display::Search { .. }
        | Display::SearchResults { .. }
        | Display::CommandOutput { .. }
        | Display::Todo { .. } => Vec::new(),
        Display::Task { summary, .. } if summary.is_empty() => Vec::new(),
        Display::Task { summary, .. } => vec![text(fenced(summary, CONTENT_BYTES))],
    }
}

/// How a call ended.
pub(super) struct Ending<'a> {
    /// How the call was drawn, where that is known.
    pub(super) started: Option<&'a Display>,
    /// How its outcome is drawn, where that differs.
    pub(super) display: Option<&'a Display>,
    /// What the model reads.
    pub(super) output: &'a [Part],
    /// Whether it failed.
    pub(super) is_error: bool,
}

impl Ending<'_> {
    /// A command that ended with another code than 0 has failed, whatever its call says.
    pub(super) fn has_failed(&self) -> bool {
        let by_code = match self.display {
            Some(Display::CommandOutput {
                exit_code, signal, ..
            }) => exit_code.is_some_and(|code| code != 0) || signal.is_some(),
            _ => false,
        };
        self.is_error || by_code
    }

    /// What the card shows in the end.
    pub(super) fn content(&self) -> Vec<ToolCallContent> {
        match self.display.or(self.started.filter(|_| !self.is_error)) {
            Some(drawn @ Display::Diff { .. }) => {
                let mut content: Vec<ToolCallContent> = diff(drawn).into_iter().collect();
                if self.is_error {
                    content.extend(self.output_content());
                }
                content
            }
            Some(Display::CommandOutput {
                text: output,
                exit_code,
                signal,
                ..
            }) => {
                let mut content = Vec::new();
                if !output.is_empty() {
                    content.push(text(fenced(output, CONTENT_BYTES)));
                }
                match (exit_code, signal) {
                    (_, Some(signal)) => content.push(text(format!("Ended by signal {signal}"))),
                    (Some(0), None) => {}
                    (Some(code), None) => content.push(text(format!("Exit code {code}"))),
                    (None, None) => content.extend(
                        self.is_error
                            .then(|| self.output_content())
                            .into_iter()
                            .flatten(),
                    ),
                }
                content
            }
            Some(Display::SearchResults { text: found, .. }) => {
                vec![text(fenced(found, CONTENT_BYTES))]
            }
            Some(Display::Text { text: words, .. }) => non_empty(words),
            Some(Display::Error { message, .. }) => non_empty(message),
            Some(Display::Todo { .. }) => Vec::new(),
            Some(
                Display::Command { .. }
                | Display::FileRead { .. }
                | Display::FileWrite { .. }
                | Display::Search { .. }
                | Display::Question { .. }
                | Display::Task { .. }
                | Display::Generic { .. },
            )
            | None => self.output_content(),
        }
    }

    fn output_content(&self) -> Vec<ToolCallContent> {
        let words = text_of(self.output);
        let shown = match self.started {
            // Words for people stay as they are; everything else may hold anything.
            Some(Display::Question { .. } | Display::Todo { .. }) => non_empty(&words),
            _ if words.is_empty() => Vec::new(),
            _ if self.is_error => non_empty(&words),
            _ => vec![text(fenced(&words, CONTENT_BYTES))],
        };
        shown.into_iter().chain(images(self.output)).collect()
    }

    /// The outcome as data.
    pub(super) fn raw_output(&self) -> Value {
        let output = match self.display {
            Some(Display::CommandOutput { text, .. }) => text.clone(),
            _ => text_of(self.output),
        };
        let mut raw = json!({"output": middle_cut(&output, CONTENT_BYTES)});
        if let Some(Display::CommandOutput {
            exit_code, signal, ..
        }) = self.display
        {
            raw["exitCode"] = json!(exit_code);
            raw["signal"] = json!(signal);
        }
        raw
    }
}

/// The whole of a change where its texts are at hand, else the regions its hunks touch.
fn diff(display: &Display) -> Option<ToolCallContent> {
    let Display::Diff {
        path,
        hunks,
        old_text,
        new_text,
        ..
    } = display
    else {
        return None;
    };
    let diff = if let Some(new_text) = new_text {
        Diff::new(path.clone(), new_text.clone()).old_text(old_text.clone())
    } else {
        let (old, new) = regions(hunks);
        let mut meta = Meta::new();
        meta.insert("longshore".to_owned(), json!({"partial": true}));
        Diff::new(path.clone(), middle_cut(&new, CONTENT_BYTES))
            .old_text(middle_cut(&old, CONTENT_BYTES))
            .meta(meta)
    };
    Some(ToolCallContent::Diff(diff))
}

/// The lines before and after, of all hunks; a line of dots stands for what lies between two.
fn regions(hunks: &str) -> (String, String) {
    let (mut old, mut new) = (String::new(), String::new());
    for line in hunks.lines() {
        match line.split_at_checked(1) {
            Some(("@", _)) if line.starts_with("@@") => {
                for side in [&mut old, &mut new] {
                    if !side.is_empty() {
                        side.push_str("…\n");
                    }
                }
            }
            Some(("-", rest)) => push_line(&mut old, rest),
            Some(("+", rest)) => push_line(&mut new, rest),
            Some((" ", rest)) => {
                push_line(&mut old, rest);
                push_line(&mut new, rest);
            }
            _ => {}
        }
    }
    (old, new)
}

fn push_line(side: &mut String, line: &str) {
    side.push_str(line);
    side.push('\n');
}

/// A text entry.
pub(super) fn text(words: impl Into<String>) -> ToolCallContent {
    let words: String = words.into();
    ToolCallContent::from(words)
}

fn non_empty(words: &str) -> Vec<ToolCallContent> {
    if words.is_empty() {
        Vec::new()
    } else {
        vec![text(middle_cut(words, CONTENT_BYTES))]
    }
}

fn images(output: &[Part]) -> impl Iterator<Item = ToolCallContent> {
    output.iter().filter_map(|part| match part {
        Part::Image { mime, data } => {
            let image = ImageContent::new(data.as_ref(), mime.as_ref());
            Some(ToolCallContent::from(ContentBlock::Image(image)))
        }
        Part::Text(_) | Part::Thinking(_) => None,
    })
}

fn text_of(output: &[Part]) -> String {
    let texts = output.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_ref()),
        Part::Thinking(_) | Part::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A title: one line, and not too long a one.
pub(super) fn one_line(title: &str) -> String {
    let line = title.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TITLE_CHARS) {
        Some(_) => line.chars().take(TITLE_CHARS - 1).chain(['…']).collect(),
        None => line,
    }
}

/// Text in a fence that nothing in it can close.
pub(super) fn fenced(words: &str, max_bytes: usize) -> String {
    let words = middle_cut(words, max_bytes);
    let longest = words
        .split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    let newline = if words.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{words}{newline}{fence}")
}

/// Head and tail of a text that is too long.
pub(super) fn middle_cut(words: &str, max_bytes: usize) -> String {
    if words.len() <= max_bytes {
        return words.to_owned();
    }
    let head = before(words, max_bytes / 2);
    let tail = after(words, words.len() - max_bytes / 2);
    let mut cut = head.to_owned();
    let left_out = words.len() - head.len() - tail.len();
    // Writing to a string cannot fail.
    let _ = write!(cut, "\n[{left_out} bytes left out]\n");
    cut.push_str(tail);
    cut
}

/// The longest beginning of at most so many bytes that ends between characters.
pub(super) fn before(words: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(words.len()))
        .rev()
        .find(|&end| words.is_char_boundary(end))
        .unwrap_or(0);
    &words[..end]
}

/// What follows the first character boundary at or after so many bytes.
pub(super) fn after(words: &str, bytes: usize) -> &str {
    let start = (bytes..=words.len())
        .find(|&start| words.is_char_boundary(start))
        .unwrap_or(words.len());
    &words[start..]
}

/// Arguments as data; long strings in them are cut where the whole is too long.
fn raw(input: Value) -> Value {
    if input.to_string().len() <= CONTENT_BYTES {
        return input;
    }
    let cut = shorten(input);
    if cut.to_string().len() <= CONTENT_BYTES {
        cut
    } else {
        json!({"leftOut": "the arguments are too long"})
    }
}

fn shorten(value: Value) -> Value {
    match value {
        Value::String(words) => Value::String(middle_cut(&words, RAW_STRING_BYTES)),
        Value::Array(items) => Value::Array(items.into_iter().map(shorten).collect()),
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .map(|(name, value)| (name, shorten(value)))
                .collect::<Map<_, _>>(),
        ),
        other => other,
    }
}

#[cfg(test)]
#[path = "card_tests.rs"]
mod tests;
