//! One conversation's engine: turns, steps and tool calls.
//!
//! An [`Agent`] is plain state, moved into the task of the turn that runs and back to its session afterwards; nothing
//! here is locked. Everything it says leaves through the port `EventSink`, everything it asks a person through `AskHost`.
//! It knows no tool by name and no wire of a model. Its history is valid for a provider at every moment: a step's calls
//! and results enter it together, so there is never a call without its result. Start with [`turn`].

mod attachment;
pub mod call;
pub mod context;
mod media;
pub mod open;
pub mod question;
pub mod reopen;
pub mod repeat;
pub mod state;
pub mod step;
pub mod turn;

#[cfg(test)]
mod approval_tests;
#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod cancel_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod turn_tests;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_protocol::id::{
    AgentId, ApprovalId, ItemId, QuestionId, SessionId, ToolCallId, TurnId,
};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::session::{Mode, Status, WaitingFor};
use longshore_protocol::value::todo::Todo;
use longshore_protocol::value::usage::Usage;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::attachment::Attachments;
use self::context::Context;
use self::media::LeftOut;
use crate::kernel::event::{DomainEvent, StateRecord};
use crate::kernel::fault::Fault;
use crate::kernel::message::{Message, MessageOrigin};
use crate::kernel::port::{AskHost, EventSink, HostFs};
use crate::kernel::rule::Grant;
use crate::kernel::wake::{Wake, WakeKey};
use crate::os::clock::Clock;
use crate::path::Workspace;
use crate::permission::RuleSet;
use crate::provider::ModelClient;
use crate::tool::registry::Registry;

/// The state of one conversation. Made new, or from a journal by [`state::restore`].
pub struct Agent {
    /// `main`.
    pub id: AgentId,
    /// The session it belongs to.
    pub session: SessionId,
    /// What the model has seen.
    pub context: Context,
    /// The checklist.
    pub todos: Arc<[Todo]>,
    /// Rules born from answers.
    pub grants: Vec<Grant>,
    /// Tokens spent so far.
    pub usage: Usage,
    /// Numbers for new ids.
    pub ids: Ids,
    /// True where the last turn was cancelled by a person and the model has not been told yet.
    pub interrupted: bool,
    /// What the engine has told the model: it is told nothing twice.
    pub told: HashSet<WakeKey>,
    /// True once a command of the shell was started: its processes may outlive their calls.
    pub ran_commands: bool,
    /// Images that no request holds.
    left_out: LeftOut,
    /// The system prompt, rendered at the first turn of this process and byte-stable from then on.
    pub system: Option<Arc<str>>,
}

/// Counters behind the ids of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// Items so far.
    pub items: u64,
    /// Calls so far.
    pub calls: u64,
    /// Approvals so far.
    pub approvals: u64,
    /// Questions so far.
    pub questions: u64,
}

/// What a turn works with: fixed while it runs, except for the mode and the steers.
pub struct TurnCx {
    /// The turn.
    pub turn: TurnId,
    /// Fires when the turn is cancelled.
    pub cancel: CancellationToken,
    /// Input that came while it runs.
    pub steers: Arc<Steers>,
    /// The model.
    pub model: Arc<dyn ModelClient>,
    /// Thinking effort.
    pub effort: Option<Arc<str>>,
    /// A script for scripted models.
    pub script: Option<Arc<str>>,
    /// The permission mode, as it is now.
    pub mode: watch::Receiver<Mode>,
    /// True where no person is there.
    pub unattended: bool,
    /// Limits of steps and attempts.
    pub limits: crate::config::values::LoopConfig,
    /// Paths.
    pub workspace: Arc<Workspace>,
    /// The tools.
    pub tools: Arc<Registry>,
    /// The rules.
    pub rules: Arc<RuleSet>,
    /// What an ask rule means in auto.
    pub auto_ask_denies: bool,
    /// How long an approval waits, for the host's information.
    pub approval_timeout: Option<std::time::Duration>,
    /// Where long outputs go.
    pub results_dir: PathBuf,
    /// How attached images are made fit.
    pub attachments: Attachments,
    /// What the system prompt says about the surroundings.
    pub surroundings: context::prompt::Surroundings,
    /// Where events go.
    pub sink: Arc<dyn EventSink>,
    /// Who is asked.
    pub asks: Arc<dyn AskHost>,
    /// Text files as hosts hold them.
    pub host_fs: Arc<dyn HostFs>,
    /// What is waited for.
    pub board: Arc<Board>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// Input that joins a running turn. Filled by the session, emptied by the turn before each model request.
#[derive(Debug, Default)]
pub struct Steers(Mutex<Vec<Steer>>);

/// One input that joins a running turn.
#[derive(Debug)]
pub enum Steer {
    /// Words of a host.
    Words(Vec<ContentPart>),
    /// Something the engine tells.
    Wake(Wake),
    /// The user's own command and what came of it, as the model reads them. It asks for no answer.
    Shell {
        /// The command.
        input: Arc<str>,
        /// What came of it.
        output: Arc<str>,
    },
}

impl Steers {
    /// Adds input.
    pub fn push(&self, steer: Steer) {
        self.lock().push(steer);
    }

    /// Takes the first.
    pub fn pop(&self) -> Option<Steer> {
        let mut steers = self.lock();
        (!steers.is_empty()).then(|| steers.remove(0))
    }

    /// Puts back what was taken last.
    pub fn put_back(&self, steer: Steer) {
        self.lock().insert(0, steer);
    }

    /// Takes all of it, in order.
    pub fn take(&self) -> Vec<Steer> {
        std::mem::take(&mut *self.lock())
    }

    /// True where there is something that the model was not told.
    pub fn has_news(&self, told: &HashSet<WakeKey>) -> bool {
        self.lock().iter().any(|steer| match steer {
            Steer::Words(_) => true,
            Steer::Shell { .. } => false,
            Steer::Wake(wake) => !told.contains(&wake.key),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Steer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a session is doing now: written by the turn that runs, read by everybody.
#[derive(Debug, Default)]
pub struct Board(Mutex<Posted>);

/// What stands on a [`Board`].
#[derive(Clone, Debug, Default)]
pub struct Posted {
    /// What the session does.
    pub status: Status,
    /// What it waits for.
    pub waiting: WaitingFor,
    /// The checklist.
    pub todos: Arc<[Todo]>,
    /// Tokens in the context.
    pub context_tokens: u64,
}

impl Board {
    /// What stands there.
    pub fn get(&self) -> Posted {
        self.lock().clone()
    }

    /// Sets the status; nothing is waited for.
    pub fn set_status(&self, status: Status) {
        let mut posted = self.lock();
        (posted.status, posted.waiting) = (status, WaitingFor::default());
    }

    /// Sets the checklist.
    pub fn set_todos(&self, todos: Arc<[Todo]>) {
        self.lock().todos = todos;
    }

    /// Sets the tokens in the context.
    pub fn set_context(&self, tokens: u64) {
        self.lock().context_tokens = tokens;
    }

    /// Changes what is waited for and says how hosts are told.
    pub fn wait(&self, change: impl FnOnce(&mut WaitingFor)) -> DomainEvent {
        let mut posted = self.lock();
        change(&mut posted.waiting);
        let waits = !posted.waiting.approvals.is_empty() || !posted.waiting.questions.is_empty();
        posted.status = if waits {
            Status::Waiting
        } else {
            Status::Running
        };
        DomainEvent::SessionStatus {
            status: posted.status,
            waiting: posted.waiting.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ids {
    /// A new item.
    pub fn item(&mut self) -> ItemId {
        self.items += 1;
        ItemId::from(format!("i{}", self.items))
    }

    /// A new call.
    pub fn call(&mut self) -> ToolCallId {
        self.calls += 1;
        ToolCallId::from(format!("call_{}", self.calls))
    }

    /// A new approval.
    pub fn approval(&mut self) -> ApprovalId {
        self.approvals += 1;
        ApprovalId::from(format!("a{}", self.approvals))
    }

    /// A new question.
    pub fn question(&mut self) -> QuestionId {
        self.questions += 1;
        QuestionId::from(format!("q{}", self.questions))
    }

    /// Counts up to an id seen in a journal.
    pub fn seen(&mut self, id: &str) {
        let digits = id.trim_start_matches(|c: char| !c.is_ascii_digit());
        let Ok(number) = digits.parse::<u64>() else {
            return;
        };
        let counter = match &id[..id.len() - digits.len()] {
            "i" => &mut self.items,
            "call_" => &mut self.calls,
            "a" => &mut self.approvals,
            "q" => &mut self.questions,
            _ => return,
        };
        *counter = (*counter).max(number);
    }
}

impl Agent {
    /// Takes the user's own command, and what came of it, into the history; not between a call and its result.
    ///
    /// # Errors
    /// Storage kinds: the history does not have it then.
    pub fn hear_shell(
        &mut self,
        sink: &dyn EventSink,
        input: Arc<str>,
        output: Arc<str>,
    ) -> Result<(), Fault> {
        sink.state(
            &self.id,
            StateRecord::Shell {
                input: input.clone(),
                output: output.clone(),
            },
        )?;
        self.heard_shell(input, output);
        Ok(())
    }

    fn heard_shell(&mut self, input: Arc<str>, output: Arc<str>) {
        for text in [input, output] {
            self.context.push(Message::user(text, MessageOrigin::Shell));
        }
    }

    /// The main agent of a new session.
    pub fn new(session: SessionId) -> Self {
        Self {
            id: AgentId::main(),
            session,
            context: Context::default(),
            todos: Arc::from([]),
            grants: Vec::new(),
            usage: Usage::default(),
            ids: Ids::default(),
            interrupted: false,
            told: HashSet::new(),
            ran_commands: false,
            left_out: LeftOut::default(),
            system: None,
        }
    }
}
