//! Everything that can happen to a session from outside: the closed list of what its task takes, and the handle that
//! sends it.

use std::collections::HashSet;
use std::sync::Arc;

use longshore_protocol::id::{CommandId, SessionId, TurnId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::failure::{Failure, Warning};
use longshore_protocol::value::session::{Session, SessionPatch};
use longshore_protocol::value::todo::Todo;
use longshore_protocol::value::tool::ToolInfo;
use longshore_protocol::value::turn::{
    CancelTasks, StartState, StopReason, TurnReason, WhenBusy, WhenIdle,
};
use longshore_protocol::value::usage::Usage;
use tokio::sync::{mpsc, oneshot};

use super::cron::CronCommand;
use super::shell_run::{ShellDone, ShellEnd, ShellRun};
use super::turns::TurnDone;
use super::undo::Undone;
use super::wake::WakeDoor;
use crate::background::Tasks;
use crate::kernel::fault::Fault;
use crate::kernel::port::Presence;

/// What a session's task takes, one at a time.
#[derive(Debug)]
pub(super) enum Command {
    /// Input for a turn.
    Start {
        input: Vec<ContentPart>,
        when_busy: WhenBusy,
        reply: Reply<Started>,
    },
    /// Input for the running turn.
    Steer {
        input: Vec<ContentPart>,
        when_idle: WhenIdle,
        reply: Reply<Started>,
    },
    /// End a turn, or take a queued one back.
    Cancel {
        turn: Option<TurnId>,
        tasks: CancelTasks,
        reply: Reply<bool>,
    },
    /// Tell when a turn has ended.
    Wait { turn: TurnId, reply: Reply<TurnEnd> },
    /// The session as it is.
    View { reply: Reply<View> },
    /// Change settings.
    Set {
        changes: SessionPatch,
        reply: Reply<Session>,
    },
    /// The tools of the main agent.
    Tools { reply: Reply<Vec<ToolInfo>> },
    /// Its cron jobs.
    Cron(CronCommand),
    /// The checklist.
    Todos { reply: Reply<Vec<Todo>> },
    /// Take the last turns back.
    Undo { turns: usize, reply: Reply<Undone> },
    /// Begin the conversation anew.
    Clear { reply: Reply<Session> },
    /// End what runs and unload.
    Close { parting: Parting, reply: Reply<()> },
    /// The last event, where nothing happens and nobody watches.
    Rests {
        presence: Arc<dyn Presence>,
        reply: Reply<Option<u64>>,
    },
    /// The same as a close, where that is so.
    CloseIfResting {
        presence: Arc<dyn Presence>,
        reply: Reply<()>,
    },
    /// Run a command of the user's own, and answer when it has ended.
    Shell {
        run: ShellRun,
        reply: Reply<ShellEnd>,
    },
    /// End such a command.
    CancelShell { id: CommandId, reply: Reply<bool> },
    /// Such a command has ended.
    ShellDone(Box<ShellDone>),
    /// A turn's task has ended.
    Done(Box<TurnDone>),
}

/// What becomes of the turns of a session that is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parting {
    /// They end.
    End,
    /// Those that wait, for their turn or for a person, go on when the session is loaded again.
    Keep,
}

/// Where an answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Fault>>;

/// A turn that was taken in.
#[derive(Debug)]
pub struct Started {
    /// The turn.
    pub turn: TurnId,
    /// Whether it runs.
    pub state: StartState,
    /// Its events begin once this is released: release it when the reply to the host has been queued. Dropping it
    /// releases it too.
    pub gate: Gate,
}

/// Holds back the events of a turn until its starter's reply is on its way. Releases on drop.
#[derive(Debug, Default)]
pub struct Gate(Option<oneshot::Sender<()>>);

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    /// The turn.
    pub turn: TurnId,
    /// How.
    pub reason: TurnReason,
    /// What stopped the model.
    pub stop: StopReason,
    /// The text of its last answer.
    pub text: String,
    /// Tokens it took.
    pub usage: Usage,
    /// Why it failed.
    pub error: Option<Failure>,
}

/// A session at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// The session.
    pub session: Session,
    /// The number of its last durable event.
    pub last_seq: u64,
    /// The turn that runs, if one does.
    pub running: Option<TurnId>,
    /// Turns that wait.
    pub queued: Vec<TurnId>,
    /// Tokens in the context, and what the model's context holds (0 where unknown).
    pub context: (u64, u64),
    /// Cron jobs that may fire some day.
    pub n_jobs: usize,
    /// Turns that were undone or cleared away: the journal still has their events.
    pub gone: Arc<HashSet<TurnId>>,
    /// Detached tasks that run, or whose end is just being told.
    pub n_tasks: usize,
    /// What begins a turn as soon as one may begin.
    pub n_notices: usize,
    /// What was wrong with its files when it was loaded.
    pub warnings: Arc<[Warning]>,
}

/// Sends to a session's task. Cheap to clone; the session lives on without handles.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    pub(super) id: SessionId,
    pub(super) inbox: mpsc::Sender<Command>,
    pub(super) door: WakeDoor,
    pub(super) tasks: Tasks,
}

impl Gate {
    /// A closed gate, and what waits for it.
    pub(super) fn new() -> (Self, oneshot::Receiver<()>) {
        let (release, released) = oneshot::channel();
        (Self(Some(release)), released)
    }

    /// Lets the events go.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            // The turn may have ended already; then nothing waits.
            let _ = release.send(());
        }
    }
}

impl SessionHandle {
    /// The session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Takes in input for a turn.
    ///
    /// # Errors
    /// `session_busy` while one runs and `when_busy` says reject, `limit_exceeded` where too many wait,
    /// `model_not_configured`, `config_invalid`, `invalid_params` for input that can't be used, storage kinds.
    pub async fn start(
        &self,
        input: Vec<ContentPart>,
        when_busy: WhenBusy,
    ) -> Result<Started, Fault> {
        self.call(|reply| Command::Start {
            input,
            when_busy,
            reply,
        })
        .await
    }

    /// Adds input to the running turn; without one, starts a turn or refuses (`no_active_turn`).
    pub async fn steer(
        &self,
        input: Vec<ContentPart>,
        when_idle: WhenIdle,
    ) -> Result<Started, Fault> {
        self.call(|reply| Command::Steer {
            input,
            when_idle,
            reply,
        })
        .await
    }

    /// Cancels the running turn or takes a queued one back; false where there was none.
    pub async fn cancel(&self, turn: Option<TurnId>) -> Result<bool, Fault> {
        self.cancel_with(turn, CancelTasks::Keep).await
    }

    /// The same, and says what becomes of the tasks in the background.
    pub async fn cancel_with(
        &self,
        turn: Option<TurnId>,
        tasks: CancelTasks,
    ) -> Result<bool, Fault> {
        self.call(|reply| Command::Cancel { turn, tasks, reply })
            .await
    }

    /// Runs a command of the user's own to its end, or until it goes on in the background.
    ///
    /// # Errors
    /// `invalid_params` for a blank one, `name_taken`, `session_busy` while the session is being closed.
    pub async fn run_shell(&self, run: ShellRun) -> Result<ShellEnd, Fault> {
        self.call(|reply| Command::Shell { run, reply }).await
    }

    /// Ends such a command; false where it does not run.
    pub async fn cancel_shell(&self, id: CommandId) -> Result<bool, Fault> {
        self.call(|reply| Command::CancelShell { id, reply }).await
    }

    /// Waits for a turn to end; at once for one that has.
    ///
    /// # Errors
    /// `turn_not_found`.
    pub async fn wait(&self, turn: TurnId) -> Result<TurnEnd, Fault> {
        self.call(|reply| Command::Wait { turn, reply }).await
    }

    /// The session as it is now.
    pub async fn view(&self) -> Result<View, Fault> {
        self.call(|reply| Command::View { reply }).await
    }

    /// Changes settings, all or none.
    ///
    /// # Errors
    /// `model_unknown`, `invalid_params`, storage kinds.
    pub async fn set(&self, changes: SessionPatch) -> Result<Session, Fault> {
        self.call(|reply| Command::Set { changes, reply }).await
    }

    /// The tools of the main agent.
    pub async fn tools(&self) -> Result<Vec<ToolInfo>, Fault> {
        self.call(|reply| Command::Tools { reply }).await
    }

    /// The checklist.
    pub async fn todos(&self) -> Result<Vec<Todo>, Fault> {
        self.call(|reply| Command::Todos { reply }).await
    }

    /// Takes back the last turns that hosts began, and all turns after the first of them.
    ///
    /// # Errors
    /// `session_busy` while a turn runs or waits, `undo_unavailable` with the number that could be taken back where it is
    /// smaller (nothing is taken back then), storage kinds.
    pub async fn undo(&self, turns: usize) -> Result<Undone, Fault> {
        self.call(|reply| Command::Undo { turns, reply }).await
    }

    /// Begins the conversation anew; settings, tasks and jobs stay.
    ///
    /// # Errors
    /// `session_busy` while a turn runs or waits, storage kinds.
    pub async fn clear(&self) -> Result<Session, Fault> {
        self.call(|reply| Command::Clear { reply }).await
    }

    /// Cancels what runs, writes everything to the disk and unloads the session.
    pub async fn close(&self) -> Result<(), Fault> {
        self.part(Parting::End).await
    }

    pub(super) async fn part(&self, parting: Parting) -> Result<(), Fault> {
        self.call(|reply| Command::Close { parting, reply }).await
    }

    /// The tasks of the session.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Where the engine's own parts wake the session.
    pub fn door(&self) -> &WakeDoor {
        &self.door
    }

    pub(super) async fn call<T>(
        &self,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<T, Fault> {
        let (reply, answer) = oneshot::channel();
        if self.inbox.send(command(reply)).await.is_err() {
            return Err(super::not_found(&self.id));
        }
        // A session that ends while it holds our question has been closed.
        answer
            .await
            .unwrap_or_else(|_| Err(super::not_found(&self.id)))
    }
}
