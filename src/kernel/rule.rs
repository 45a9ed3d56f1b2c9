//! Permission rules as text, and what a call offers them to match. The grammar and the matching are in `permission`.

use std::path::PathBuf;

/// What a rule can be matched against, one per call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// No argument form: only rules that name the tool match.
    None,
    /// A path, absolute and folded, as declared.
    Path(PathBuf),
    /// A shell command and the directory it runs in.
    Command {
        /// The command line.
        command: String,
        /// Absolute.
        cwd: PathBuf,
    },
    /// Text, such as a search pattern.
    Text(String),
}

/// What a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleDecision {
    /// Runs without asking.
    Allow,
    /// Never runs.
    Deny,
    /// A person is asked.
    Ask,
    /// What it decides can't be read. It may have been a deny, so a person is asked in every mode.
    Unreadable,
}

/// A rule as written, with the place it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleText {
    /// What it decides.
    pub decision: RuleDecision,
    /// `Tool` or `Tool(argument)`.
    pub pattern: String,
    /// Why, for the person who reads a refusal.
    pub reason: Option<String>,
    /// `file:line`, or `session`.
    pub place: String,
}

/// A rule born from an answer, kept in the session's journal: it covers exactly what was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The rule as it was shown.
    pub rule: String,
    /// The directory it is bound to: for shell commands the one they run in, for searches the root.
    pub cwd: Option<PathBuf>,
}
