//! The model's hands: what a tool is, and the built-in ones.
//!
//! A tool says what a call would touch ([`Tool::resolve`], which only looks at the arguments), and later does it
//! ([`Call::execute`]). Everything between, such as real paths, permission and scheduling, belongs to `agent::call`, which
//! knows no tool by name. Tools never reach upwards: what one changes in its agent it returns as [`Effect`]s. Families
//! (`file`, `shell`, …) do not import one another. Start with [`catalog`], the one table of tools.

pub mod args;
pub mod ask;
pub mod catalog;
pub mod cron;
pub mod display;
pub mod file;
pub mod host_files;
pub mod lines;
pub mod output;
pub mod registry;
pub mod shell;
mod spill;
pub mod task;
pub mod todo;

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, SessionId, ToolCallId};
use longshore_protocol::value::display::Display;
use longshore_protocol::value::question::Question;
use longshore_protocol::value::todo::Todo;
use longshore_protocol::value::tool::ProgressStream;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::host_files::HostFiles;
use crate::kernel::access::{Access, RealAccess};
use crate::kernel::ask::AskOutcome;
use crate::kernel::fault::Fault;
use crate::kernel::message::Part;
use crate::kernel::rule::Subject;
use crate::kernel::wake::WakeKey;
use crate::path::Workspace;

/// What every tool is.
pub trait Tool: Send + Sync {
    /// What the model is told; the same bytes for the whole session.
    fn spec(&self) -> &ToolSpec;

    /// Turns arguments into a call, without any I/O. The arguments have passed the schema already.
    ///
    /// # Errors
    /// A refusal for the model: the call can't be made, and why.
    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal>;
}

/// What the model is told about a tool, and how the engine treats its calls.
#[derive(Debug)]
pub struct ToolSpec {
    /// The name, unique among an agent's tools.
    pub name: &'static str,
    /// The description; limits and platform notes filled in.
    pub description: Arc<str>,
    /// JSON Schema of the arguments (draft-07, closed objects).
    pub parameters: Arc<Value>,
    /// True where the same call twice in one step may run once: tools that only look.
    pub dedupe: bool,
    /// True where the tool cuts its own output, so that the general budget leaves it alone.
    pub own_budget: bool,
}

/// What a tool may know while it resolves a call.
#[derive(Debug)]
pub struct CallCx {
    /// The session.
    pub session: SessionId,
    /// The agent.
    pub agent: AgentId,
    /// Where paths are anchored, and what lies inside.
    pub workspace: Arc<Workspace>,
    /// The checklist as it is now.
    pub todos: Arc<[Todo]>,
    /// Text files as the host of the turn holds them; absent where only the disk counts.
    pub host_files: Option<HostFiles>,
}

/// A call that can be asked about, ordered, drawn and run.
pub struct Call {
    /// What it touches. Empty: nothing. [`Access::All`]: it runs alone.
    pub accesses: Vec<Access>,
    /// One line for people.
    pub title: String,
    /// How to draw it.
    pub display: Display,
    /// What rules are matched against, and what a grant would name.
    pub subject: Subject,
    /// Draws the call again from the disk, such as a real diff; run once, before anyone is asked.
    pub preview: Option<Preview>,
    /// Does it. Runs at most once.
    pub execute: Execute,
}

/// See [`Call::preview`]. An error is what the call would meet; it is shown, not decided upon.
pub type Preview = Box<dyn FnOnce(Vec<RealAccess>) -> BoxFuture<'static, Option<Display>> + Send>;

/// See [`Call::execute`].
pub type Execute = Box<dyn FnOnce(ExecCx) -> BoxFuture<'static, Outcome> + Send>;

/// What a running call is given.
pub struct ExecCx {
    /// The call.
    pub call: ToolCallId,
    /// Fires when the turn is cancelled. A tool that has not begun its effect must not begin it any more.
    pub cancel: CancellationToken,
    /// The accesses as they were judged, in the order the call declared them.
    pub accesses: Vec<RealAccess>,
    /// Says what is going on.
    pub progress: Arc<dyn Progress>,
    /// Asks the user; absent where nobody can be asked.
    pub ask_user: Option<Arc<dyn AskUser>>,
    /// Where output too long for the model may be kept (created when first needed).
    pub results_dir: PathBuf,
}

/// Says what a running call is doing. After a cancel nothing is shown any more.
pub trait Progress: Send + Sync {
    /// More output. The sink counts offsets.
    fn output(&self, stream: ProgressStream, text: &str);

    /// One line about the state, replacing the one before.
    fn status(&self, text: &str);
}

/// Puts questions to the user on behalf of a call.
pub trait AskUser: Send + Sync {
    /// Waits for the answer.
    fn ask(
        &self,
        call: ToolCallId,
        questions: Vec<Question>,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, AskOutcome>;
}

/// What came of a call.
#[derive(Debug)]
pub struct Outcome {
    /// What the model reads: text, or text and images. Empty becomes a fixed sentence.
    pub output: Vec<Part>,
    /// Whether it failed. A failure says what happened and what to try.
    pub is_error: bool,
    /// Side text for the model only, apart from the output so that a file can't imitate it.
    pub note: Option<String>,
    /// How to draw the outcome; where absent, hosts draw the call's own display and the output.
    pub display: Option<Display>,
    /// True where the output is known to be incomplete.
    pub truncated: bool,
    /// What changes in the agent.
    pub effects: Vec<Effect>,
    /// Set where nothing can go on: the turn fails with it.
    pub fault: Option<Fault>,
}

/// A change of the agent that a call asks for; the agent applies and records it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The checklist is replaced.
    SetTodos(Vec<Todo>),
    /// The output tells the model of these, so that nothing needs to tell it again.
    Told(Vec<WakeKey>),
}

/// Why a call could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A kind of the error table where one fits (`path_sensitive`, `path_outside_workspace`, `path_invalid`, …).
    pub kind: Option<ErrorKind>,
    /// For the model: what is wrong and what to do instead.
    pub message: String,
}

impl Refusal {
    /// A refusal without a kind.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            kind: None,
            message: message.into(),
        }
    }
}

impl Outcome {
    /// Success with text.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::parts(vec![Part::text(text)])
    }

    /// Success with parts.
    pub fn parts(output: Vec<Part>) -> Self {
        Self {
            output,
            is_error: false,
            note: None,
            display: None,
            truncated: false,
            effects: Vec::new(),
            fault: None,
        }
    }

    /// A failure the model is told about.
    pub fn failed(message: impl Into<Arc<str>>) -> Self {
        Self {
            is_error: true,
            ..Self::text(message)
        }
    }

    /// Adds a note for the model.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Adds a sentence to the note, or makes it one.
    pub fn add_note(&mut self, more: &str) {
        match &mut self.note {
            Some(note) => {
                note.push('\n');
                note.push_str(more);
            }
            None => self.note = Some(more.to_owned()),
        }
    }

    /// Adds a drawing of the outcome.
    #[must_use]
    pub fn with_display(mut self, display: Display) -> Self {
        self.display = Some(display);
        self
    }
}
