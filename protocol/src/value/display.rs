//! What a person sees of a tool call, apart from what the model reads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::question::Question;
use super::todo::Todo;
use crate::id::TaskId;

/// A drawing hint, tagged by `kind`. A host that does not know a kind draws the call's `title` and output text.
///
/// Text fields are cut at 64 KiB; `truncated` says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Display {
    /// A shell command about to run.
    Command {
        /// The command line, whole.
        command: String,
        /// The directory it runs in, absolute.
        cwd: String,
        /// What the model says it is for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
    /// How a command ended.
    CommandOutput {
        /// Output for people: head and tail of a long one.
        text: String,
        /// Exit code, where the process exited by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Signal name, where one ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        /// True where the text is not the whole output.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
    },
    /// A file being read.
    FileRead {
        /// Absolute path.
        path: String,
        /// First line wanted, where not the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<i64>,
    },
    /// A file being written as a whole.
    FileWrite {
        /// Absolute path.
        path: String,
        /// The new content (for an append: what is added).
        content: String,
        /// True where content was cut.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
    },
    /// A change of one file.
    Diff {
        /// Absolute path.
        path: String,
        /// Unified hunks (`@@ -a,b +c,d @@` and lines), no file header.
        hunks: String,
        /// Lines added.
        added: u32,
        /// Lines removed.
        removed: u32,
        /// Whole text before, absent for a new file; only where both texts have at most 64 KiB. A byte-order mark is left
        /// out, and text that is not UTF-8 is decoded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        old_text: Option<String>,
        /// Whole text after; only where both texts have at most 64 KiB.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        new_text: Option<String>,
        /// First changed line in the new text, from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
        /// SHA-256 of the file's bytes before the change, in lower-case hexadecimal: a host that has kept them can offer
        /// to take the change back. Only in the result of a change that was made to a file that was there, of at most
        /// 64 MiB.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        old_sha256: Option<String>,
        /// True where hunks were cut.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
    },
    /// A search by content or by name.
    Search {
        /// The pattern.
        query: String,
        /// Where, absolute.
        path: String,
        /// A file filter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        glob: Option<String>,
    },
    /// What a search found.
    SearchResults {
        /// The pattern.
        query: String,
        /// The lines shown to the model.
        text: String,
        /// True where there is more.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
    },
    /// The checklist.
    Todo {
        /// All entries.
        todos: Vec<Todo>,
    },
    /// A task in the background.
    Task {
        /// The task.
        task_id: TaskId,
        /// What it is, in a line; may be empty.
        summary: String,
    },
    /// Questions put to the user.
    Question {
        /// The questions.
        questions: Vec<Question>,
    },
    /// Plain text.
    Text {
        /// The text.
        text: String,
        /// True where text was cut.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
    },
    /// A failure.
    Error {
        /// What happened.
        message: String,
        /// A kind of the error table, where one fits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// Anything else.
    Generic {
        /// One line.
        summary: String,
        /// More, as text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
}
