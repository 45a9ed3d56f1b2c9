//! The user's own commands.
//!
//! They need no approval and no turn, also while one runs. What the model is to know of one enters its history as two
//! messages once the command has ended: at once where no turn runs, else before the turn's next request, never between a
//! call and its result. It asks for no answer. A *private* one is in neither history nor journal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use longshore_protocol::error::ErrorKind;
use longshore_protocol::id::{AgentId, CommandId, TaskId};
use longshore_protocol::value::tool::ProgressStream;
use tokio_util::sync::CancellationToken;

use super::actor::{Actor, answer};
use super::command::{Command, Reply};
use super::journal::write::Journal;
use super::notices::escape;
use crate::kernel::event::DomainEvent;
use crate::kernel::fault::Fault;
use crate::kernel::port::EventSink;
use crate::tool::Progress;
use crate::tool::shell::user::{UserCommand, UserEnd, UserOutcome};

/// A command of the user's own.
#[derive(Clone, Debug)]
pub struct ShellRun {
    /// The command line.
    pub command: String,
    /// Its name; made up where absent.
    pub id: Option<CommandId>,
    /// Whether it is kept from model and journal.
    pub private: bool,
}

/// What came of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellEnd {
    /// Its name.
    pub id: CommandId,
    /// Its exit code, where it exited.
    pub exit_code: Option<i32>,
    /// The name of the signal that ended it.
    pub signal: Option<String>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error; where it failed without a word, why.
    pub stderr: String,
    /// Whether these are not everything.
    pub truncated: bool,
    /// The task it goes on as.
    pub task: Option<TaskId>,
}

/// A command whose task has ended.
#[derive(Debug)]
pub(super) struct ShellDone {
    id: CommandId,
    end: UserEnd,
}

/// Commands that run.
#[derive(Default)]
pub(super) struct Shells(HashMap<CommandId, Running>);

struct Running {
    command: Arc<str>,
    private: bool,
    cancel: CancellationToken,
    reply: Reply<ShellEnd>,
}

impl Shells {
    /// True where none runs.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Asks for the end of all.
    pub(super) fn end_all(&self) {
        for running in self.0.values() {
            running.cancel.cancel();
        }
    }
}

impl Actor {
    /// Begins a command; the answer comes when it has ended.
    pub(super) async fn run_shell(&mut self, run: ShellRun, reply: Reply<ShellEnd>) {
        let id = match self.check_shell(&run) {
            Ok(id) => id,
            Err(fault) => return answer(reply, Err(fault)),
        };
        let workplace = match self.workplace().await {
            Ok(workplace) => workplace,
            Err(fault) => return answer(reply, Err(fault)),
        };
        let command: Arc<str> = run.command.into();
        let cancel = CancellationToken::new();
        let speaker = Speaker {
            journal: self.journal.clone(),
            id: id.clone(),
            private: run.private,
            offsets: Mutex::default(),
        };
        let speaker = Arc::new(speaker);
        let user_command = UserCommand {
            session: self.session.session_id.clone(),
            agent: AgentId::main(),
            command: command.to_string(),
            cwd: workplace.workspace.cwd.clone(),
        };
        self.shells.0.insert(
            id.clone(),
            Running {
                command: command.clone(),
                private: run.private,
                cancel: cancel.clone(),
                reply,
            },
        );
        let (shell, tasks) = (self.deps.shell.clone(), self.tasks.clone());
        let back = self.own_inbox.clone();
        self.deps.tasks.spawn(async move {
            let begun = {
                let speaker = speaker.clone();
                move || speaker.begun(command)
            };
            let end = shell
                .run_for_user(&tasks, user_command, speaker, cancel, begun)
                .await;
            if let Some(inbox) = back.upgrade() {
                // The session waits for its commands before it closes.
                let _ = inbox
                    .send(Command::ShellDone(Box::new(ShellDone { id, end })))
                    .await;
            }
        });
    }

    fn check_shell(&self, run: &ShellRun) -> Result<CommandId, Fault> {
        self.check_open()?;
        if run.command.trim().is_empty() {
            let fault = Fault::new(ErrorKind::InvalidParams, "the command is blank");
            return Err(fault.with("path", "/command"));
        }
        match &run.id {
            Some(id) if self.shells.0.contains_key(id) => {
                let message = format!("a command {id} runs already; give this one another name");
                Err(Fault::new(ErrorKind::NameTaken, message).with("commandId", id.as_str()))
            }
            Some(id) => Ok(id.clone()),
            None => Ok(CommandId::from(format!("cmd-{}", self.deps.ids.short(8)))),
        }
    }

    /// Asks for the end of a command; false where it does not run.
    pub(super) fn cancel_shell(&self, id: &CommandId) -> bool {
        let running = self.shells.0.get(id);
        if let Some(running) = running {
            running.cancel.cancel();
        }
        running.is_some()
    }

    /// A command has ended, or goes on without us.
    pub(super) fn shell_done(&mut self, done: ShellDone) {
        let ShellDone { id, end } = done;
        let Some(running) = self.shells.0.remove(&id) else {
            return;
        };
        let (exit_code, signal, task) = match &end.outcome {
            UserOutcome::Ended { code, signal } => (*code, signal.clone(), None),
            UserOutcome::Detached(info) => (None, None, Some(info.id.clone())),
            UserOutcome::Failed => (None, None, None),
        };
        let event = DomainEvent::ShellEnded {
            command_id: id.clone(),
            is_error: end.outcome.is_error(),
            exit_code,
            signal: signal.clone(),
            task_id: task.clone(),
        };
        say(&self.journal, running.private, event);
        if !running.private {
            self.hear_shell(&running.command, &end, task.as_ref());
        }
        let UserEnd {
            stdout,
            stderr,
            truncated,
            outcome: _,
        } = end;
        let end = ShellEnd {
            id,
            exit_code,
            signal,
            stdout,
            stderr,
            truncated,
            task,
        };
        answer(running.reply, Ok(end));
    }

    fn hear_shell(&mut self, command: &str, end: &UserEnd, task: Option<&TaskId>) {
        let input: Arc<str> = format!("<shell-input>\n{}\n</shell-input>", escape(command)).into();
        let output: Arc<str> = output_text(end, task).into();
        if !self.turns.hear_shell(&input, &output) {
            self.enter_shell(input, output);
        }
    }

    /// Takes a command into the history while no turn runs.
    pub(super) fn enter_shell(&mut self, input: Arc<str>, output: Arc<str>) {
        let Some(agent) = &mut self.agent else { return };
        if let Err(fault) = agent.hear_shell(self.journal.as_ref(), input, output) {
            tracing::error!(%fault, "a command of the user could not be recorded");
        }
        self.board.set_context(agent.context.tokens());
    }
}

/// What came of a command, as the model reads it: nothing in it can pose as anything else.
fn output_text(end: &UserEnd, task: Option<&TaskId>) -> String {
    let mut attributes = String::new();
    match &end.outcome {
        UserOutcome::Ended {
            signal: Some(signal),
            ..
        } => attributes = format!(" signal=\"{}\"", escape(signal)),
        UserOutcome::Ended {
            code: Some(code), ..
        } => attributes = format!(" exit_code=\"{code}\""),
        UserOutcome::Ended { .. } | UserOutcome::Detached(_) | UserOutcome::Failed => {}
    }
    if end.outcome.is_error() {
        attributes.push_str(" is_error=\"true\"");
    }
    if end.truncated {
        attributes.push_str(" truncated=\"true\"");
    }
    let mut text = format!("<shell-output{attributes}>\n");
    for (name, content) in [("stdout", &end.stdout), ("stderr", &end.stderr)] {
        if !content.is_empty() {
            let content = escape(content.trim_end_matches('\n'));
            text.push_str(&["<", name, ">\n", &content, "\n</", name, ">\n"].concat());
        }
    }
    if let Some(task) = task {
        let line = format!(
            "The command goes on in the background as the task {task}; you are told when it ends.\n"
        );
        text.push_str(&line);
    }
    text.push_str("</shell-output>");
    text
}

/// Shows what a command writes.
struct Speaker {
    journal: Arc<Journal>,
    id: CommandId,
    private: bool,
    /// Bytes shown of standard output and standard error.
    offsets: Mutex<(u64, u64)>,
}

impl Speaker {
    fn begun(&self, command: Arc<str>) {
        let event = DomainEvent::ShellStarted {
            command_id: self.id.clone(),
            command,
        };
        say(&self.journal, self.private, event);
    }

    fn show(&self, stream: ProgressStream, offset: u64, text: &str) {
        let event = DomainEvent::ShellOutput {
            command_id: self.id.clone(),
            stream,
            offset,
            text: text.to_owned(),
        };
        self.journal.live(&AgentId::main(), event);
    }
}

impl Progress for Speaker {
    fn output(&self, stream: ProgressStream, text: &str) {
        let mut offsets = self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = match stream {
            ProgressStream::Stderr => &mut offsets.1,
            ProgressStream::Stdout | ProgressStream::Status => &mut offsets.0,
        };
        let at = *offset;
        *offset += text.len() as u64;
        self.show(stream, at, text);
    }

    fn status(&self, text: &str) {
        self.show(ProgressStream::Status, 0, text);
    }
}

/// Says what became of a command; hosts are told even where the journal can't take it, or must not.
fn say(journal: &Journal, private: bool, event: DomainEvent) {
    if private {
        return journal.show_unkept(&AgentId::main(), event);
    }
    if let Err(fault) = journal.durable(&AgentId::main(), event.clone()) {
        tracing::error!(%fault, "a command of the user could not be recorded");
        journal.show_unkept(&AgentId::main(), event);
    }
}
