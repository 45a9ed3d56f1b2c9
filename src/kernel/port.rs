//! Narrow traits between layers that may not import each other. They are wired in `app`.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use longshore_protocol::id::{AgentId, HostId, SessionId, TurnId};
use longshore_protocol::value::cron::CronJob;
use tokio_util::sync::CancellationToken;

use super::ask::{Ask, AskAnswer, AskOutcome, HostRefusal};
use super::cron::{ListedJob, NewJob};
use super::event::{DomainEvent, Stamped, StateRecord};
use super::fault::Fault;
use super::host_fs::{FsAbilities, FsHost, HostFsError};

/// Session to hub: hands an event to every host attached to its session. Never blocks.
pub trait Publish: Send + Sync {
    /// Events of one session come in the order things happened; durable ones are in the journal already.
    fn publish(&self, event: Arc<Stamped>);
}

/// Session to hub: whether anybody watches a session.
pub trait Presence: Send + Sync + Debug {
    /// True where a host is attached to it, or about to be.
    fn is_watched(&self, session: &SessionId) -> bool;
}

/// Hub to session: reads durable events back from a journal, loaded or not.
pub trait EventLog: Send + Sync {
    /// Durable events with a `seq` above `after`, in order, up to about `max_bytes` (at least one where there is any).
    fn read_events(
        &self,
        session: &SessionId,
        after: u64,
        max_bytes: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Stamped>>, Fault>>;
}

/// Agent to journal: where an agent says what happened.
pub trait EventSink: Send + Sync {
    /// Emits a live event.
    fn live(&self, agent: &AgentId, event: DomainEvent);

    /// Writes a durable event to the journal (it has reached the kernel on return) and emits it.
    ///
    /// # Errors
    /// Storage kinds: the event was neither kept nor shown.
    fn durable(&self, agent: &AgentId, event: DomainEvent) -> Result<u64, Fault>;

    /// Writes a state line; hosts do not see it.
    fn state(&self, agent: &AgentId, record: StateRecord) -> Result<(), Fault>;

    /// Returns once everything written so far is on the disk.
    fn sync(&self) -> BoxFuture<'_, Result<(), Fault>>;
}

/// Whether somebody can be asked in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// A host that can answer is attached.
    Able,
    /// Hosts are attached and none can answer.
    Unable,
    /// No host is attached.
    Nobody,
}

/// The kinds of asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskKind {
    /// Approvals.
    Approval,
    /// Questions.
    Question,
}

/// Agent to hub: asks the hosts of a session.
pub trait AskHost: Send + Sync {
    /// Whether somebody could answer now.
    fn ability(&self, session: &SessionId, kind: AskKind) -> Ability;

    /// Puts an ask to every able host of its session, also to those that attach later; the first valid answer wins and
    /// the others are told. Ends by an answer, by the waiting limits, or by `cancel` (withdrawn).
    fn ask(&self, ask: Arc<Ask>, cancel: CancellationToken) -> BoxFuture<'static, AskOutcome>;

    /// Puts an ask again that was open when the server ended, having waited for so long: that counts. It is open when
    /// this returns, and waits for hosts to come, whatever those that are there can do.
    fn ask_again(
        &self,
        ask: Arc<Ask>,
        waited: Duration,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, AskOutcome>;
}

/// Tool to session: the cron jobs of one session.
pub trait CronJobs: Send + Sync {
    /// All of them, in the order they were made.
    fn list(&self) -> BoxFuture<'static, Result<Vec<ListedJob>, Fault>>;

    /// Makes one; it is on the disk when this is answered.
    ///
    /// # Errors
    /// `invalid_params`, `limit_exceeded`, `not_supported`, storage kinds.
    fn create(&self, new: NewJob) -> BoxFuture<'static, Result<CronJob, Fault>>;

    /// Deletes one and gives it as it was.
    ///
    /// # Errors
    /// `job_not_found`, `invalid_params` for what is no id, storage kinds.
    fn delete(&self, id: String) -> BoxFuture<'static, Result<CronJob, Fault>>;
}

/// Agent to hub: text files as the hosts of a session hold them, unsaved changes included.
///
/// Paths are absolute and were judged before: inside the session's directories, and no protected file. Nothing here
/// looks at the disk, and nothing is tried twice.
pub trait HostFs: Send + Sync {
    /// The host whose view of files counts for a turn: the one that started it where it offers any, else the first
    /// attached one that does. `None` where the disk is all there is.
    fn host_for(&self, session: &SessionId, turn: &TurnId) -> Option<FsHost>;

    /// The text of a file as that host holds it.
    fn read_text(
        &self,
        host: &HostId,
        session: &SessionId,
        path: &str,
    ) -> BoxFuture<'static, Result<String, HostFsError>>;

    /// Gives that host a new text for a file. After an error other than [`HostFsError::NotFound`] or
    /// [`HostFsError::Unsupported`] it is not known whether it took it.
    fn write_text(
        &self,
        host: &HostId,
        session: &SessionId,
        path: &str,
        text: String,
    ) -> BoxFuture<'static, Result<(), HostFsError>>;
}

/// What a host said it can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostAbilities {
    /// It answers approvals.
    pub approvals: bool,
    /// It answers questions.
    pub questions: bool,
    /// What it does with text files.
    pub fs: FsAbilities,
}

/// Face to hub: one connected host.
pub trait HostConn: Send + Sync {
    /// Its name in messages and status.
    fn id(&self) -> &HostId;

    /// What it can do.
    fn abilities(&self) -> HostAbilities;

    /// Whether it is shown live events at all. Does not change.
    fn wants_live(&self) -> bool {
        true
    }

    /// Puts an ask to it. Dropping the future tells the host that the ask is void.
    fn ask(&self, ask: Arc<Ask>) -> BoxFuture<'static, Result<AskAnswer, HostRefusal>>;

    /// Asks it for the text of a file. Dropping the future tells the host that the request is void.
    fn read_text(
        &self,
        session: &SessionId,
        path: &str,
    ) -> BoxFuture<'static, Result<String, HostFsError>>;

    /// Gives it a new text for a file. Dropping the future tells the host that the request is void, which may come too
    /// late.
    fn write_text(
        &self,
        session: &SessionId,
        path: &str,
        text: String,
    ) -> BoxFuture<'static, Result<(), HostFsError>>;

    /// Appends the event as complete lines for this host, each ended by a newline; nothing where it is not shown.
    fn project(&self, event: &Stamped, out: &mut Vec<u8>);

    /// Appends the marker that live events of a session were dropped after `from_seq`.
    fn project_resync(&self, session: &SessionId, from_seq: u64, out: &mut Vec<u8>);
}
