//! THE table of methods: what a host asks of a server.

pub mod ask;
pub mod cron;
pub mod file;
pub mod host;
pub mod session;
pub mod shell;
pub mod task;
pub mod turn;

/// One row of the table.
pub trait MethodSpec {
    /// The wire name.
    const NAME: &'static str;
    /// What the host sends.
    type Params;
    /// What it gets.
    type Result;
}

/// What a call is ordered with: calls of one host on the same session are begun in the order they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The connection.
    Connection,
    /// The server.
    Server,
    /// The session named in the params.
    Session,
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $name:ident => $wire:literal { params: $params:path, result: $result:path, scope: $scope:ident, since: $since:literal },)+) => {
        /// The methods, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Method {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The wire name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }

            /// What its calls are ordered with.
            pub fn scope(self) -> Scope {
                match self { $(Self::$name => Scope::$scope,)+ }
            }

            /// The protocol version that brought it.
            pub fn since(self) -> u32 {
                match self { $(Self::$name => $since,)+ }
            }

            /// What it does.
            pub fn doc(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// The schemas of params and result.
            pub fn schemas(self, generator: &mut schemars::SchemaGenerator) -> (schemars::Schema, schemars::Schema) {
                match self { $(Self::$name => (generator.subschema_for::<$params>(), generator.subschema_for::<$result>()),)+ }
            }
        }

        /// A marker type per row.
        pub mod spec {
            use super::{ask, cron, file, host, session, shell, task, turn};

            $($(#[doc = $doc])+
            #[derive(Clone, Copy, Debug)]
            pub enum $name {}
            impl super::MethodSpec for $name {
                const NAME: &'static str = $wire;
                type Params = $params;
                type Result = $result;
            })+
        }
    };
}

methods! {
    /// Opens the connection: first of all, exactly once.
    Initialize => "initialize" { params: host::InitializeParams, result: host::InitializeResult, scope: Connection, since: 1 },
    /// Ends the server politely: answered once journals are on disk, then the process exits.
    Shutdown => "shutdown" { params: host::ShutdownParams, result: host::ShutdownResult, scope: Server, since: 1 },
    /// Answers at once.
    Ping => "ping" { params: host::PingParams, result: host::PingResult, scope: Connection, since: 1 },
    /// Says how the server is doing.
    ServerStatus => "server/status" { params: host::StatusParams, result: host::StatusResult, scope: Server, since: 1 },
    /// Lists the models.
    ModelList => "model/list" { params: host::ModelListParams, result: host::ModelListResult, scope: Server, since: 1 },
    /// Makes a session and attaches the caller to it.
    SessionCreate => "session/create" { params: session::CreateParams, result: session::CreateResult, scope: Server, since: 1 },
    /// Loads a session from disk and attaches the caller, with what it wants replayed.
    SessionResume => "session/resume" { params: session::ResumeParams, result: session::ResumeResult, scope: Session, since: 1 },
    /// Subscribes the caller to a session, from a cursor on, without gap or repeat; loads it where needed.
    SessionAttach => "session/attach" { params: session::AttachParams, result: session::AttachResult, scope: Session, since: 1 },
    /// Ends the caller's subscription.
    SessionDetach => "session/detach" { params: session::DetachParams, result: session::DetachResult, scope: Session, since: 1 },
    /// Lists stored sessions, newest first.
    SessionList => "session/list" { params: session::ListParams, result: session::ListResult, scope: Server, since: 1 },
    /// Gets one session.
    SessionGet => "session/get" { params: session::GetParams, result: session::GetResult, scope: Session, since: 1 },
    /// Changes settings, all of them or none.
    SessionSet => "session/set" { params: session::SetParams, result: session::SetResult, scope: Session, since: 1 },
    /// Pages through the turns as display items, newest first to fetch, oldest first in a page.
    SessionTranscript => "session/transcript" { params: session::TranscriptParams, result: session::TranscriptResult, scope: Session, since: 1 },
    /// Pages through durable events.
    SessionEvents => "session/events" { params: session::EventsParams, result: session::EventsResult, scope: Session, since: 1 },
    /// Takes the last turns of the conversation back, all that are asked for or none. Files are not touched.
    SessionUndo => "session/undo" { params: session::UndoParams, result: session::UndoResult, scope: Session, since: 1 },
    /// Begins the conversation anew; the session's settings, tasks and jobs stay.
    SessionClear => "session/clear" { params: session::ClearParams, result: session::ClearResult, scope: Session, since: 1 },
    /// Ends what runs in a session and unloads it; it stays on disk.
    SessionClose => "session/close" { params: session::CloseParams, result: session::CloseResult, scope: Session, since: 1 },
    /// Closes a session and removes everything there is of it.
    SessionDelete => "session/delete" { params: session::DeleteParams, result: session::DeleteResult, scope: Session, since: 1 },
    /// Starts a turn; answers at once.
    TurnStart => "turn/start" { params: turn::StartParams, result: turn::StartResult, scope: Session, since: 1 },
    /// Waits for a turn to end and gives its text.
    TurnWait => "turn/wait" { params: turn::WaitParams, result: turn::WaitResult, scope: Session, since: 1 },
    /// Adds input to the running turn, before its next model request; starts a turn where none runs.
    TurnSteer => "turn/steer" { params: turn::SteerParams, result: turn::SteerResult, scope: Session, since: 1 },
    /// Cancels the running turn, or takes a queued one back.
    TurnCancel => "turn/cancel" { params: turn::CancelParams, result: turn::CancelResult, scope: Session, since: 1 },
    /// Lists the tools of a session's main agent.
    ToolList => "tool/list" { params: turn::ToolListParams, result: turn::ToolListResult, scope: Session, since: 1 },
    /// Gets the checklist.
    TodoGet => "todo/get" { params: turn::TodoGetParams, result: turn::TodoGetResult, scope: Session, since: 1 },
    /// Runs a command of the user's own; answers when it has ended. No rule and no approval stands before it.
    ShellRun => "shell/run" { params: shell::RunParams, result: shell::RunResult, scope: Session, since: 1 },
    /// Ends a command of the user's own.
    ShellCancel => "shell/cancel" { params: shell::CancelParams, result: shell::CancelResult, scope: Session, since: 1 },
    /// Lists tasks, newest first.
    TaskList => "task/list" { params: task::ListParams, result: task::ListResult, scope: Session, since: 1 },
    /// Gets one task.
    TaskGet => "task/get" { params: task::GetParams, result: task::GetResult, scope: Session, since: 1 },
    /// Reads a part of a task's output, and can wait for more of it.
    TaskOutput => "task/output" { params: task::OutputParams, result: task::OutputResult, scope: Session, since: 1 },
    /// Ends a task; answers when it has ended.
    TaskStop => "task/stop" { params: task::StopParams, result: task::StopResult, scope: Session, since: 1 },
    /// Lets a command that a call waits for go on in the background.
    TaskDetach => "task/detach" { params: task::DetachParams, result: task::DetachResult, scope: Session, since: 1 },
    /// Lists the cron jobs of a session, loaded or not.
    CronList => "cron/list" { params: cron::ListParams, result: cron::ListResult, scope: Session, since: 1 },
    /// Makes a cron job.
    CronCreate => "cron/create" { params: cron::CreateParams, result: cron::CreateResult, scope: Session, since: 1 },
    /// Deletes a cron job for good.
    CronDelete => "cron/delete" { params: cron::JobParams, result: cron::JobResult, scope: Session, since: 1 },
    /// Has a cron job not fire until it is resumed. Nothing changes where it is paused already.
    CronPause => "cron/pause" { params: cron::JobParams, result: cron::JobResult, scope: Session, since: 1 },
    /// Has a paused cron job fire again, from now on; renews one that is getting old.
    CronResume => "cron/resume" { params: cron::ResumeParams, result: cron::JobResult, scope: Session, since: 1 },
    /// Fires a cron job now, paused or not; its schedule stays as it is.
    CronFire => "cron/fire" { params: cron::JobParams, result: cron::FireResult, scope: Session, since: 1 },
    /// Finds files and directories by what was typed of their names.
    FileSearch => "file/search" { params: file::SearchParams, result: file::SearchResult, scope: Server, since: 1 },
    /// Lists open approvals.
    ApprovalList => "approval/list" { params: ask::ListParams, result: ask::ApprovalListResult, scope: Session, since: 1 },
    /// Answers an approval out of band.
    ApprovalResolve => "approval/resolve" { params: ask::ApprovalResolveParams, result: ask::ResolveResult, scope: Session, since: 1 },
    /// Lists open questions.
    QuestionList => "question/list" { params: ask::ListParams, result: ask::QuestionListResult, scope: Session, since: 1 },
    /// Answers questions out of band.
    QuestionResolve => "question/resolve" { params: ask::QuestionResolveParams, result: ask::ResolveResult, scope: Session, since: 1 },
}
