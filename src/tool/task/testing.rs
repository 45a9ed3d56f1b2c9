//! Tasks for tests: a manager over pieces of work that end when a test says so.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use longshore_protocol::id::TaskId;
use longshore_protocol::value::tool::ProgressStream;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::background::{Tasks, WorkerEnd, WorkerSpec};
use crate::kernel::message::Part;
use crate::kernel::task::{ProcessDetail, TaskDetail, TaskInfo, TaskOutput, TaskStatus};
use crate::kernel::time::Timestamp;
use crate::path::Workspace;
use crate::schema::Validator;
use crate::tool::{CallCx, ExecCx, Outcome, Progress, Tool};

/// A command of this id in this state.
pub(crate) fn info(id: &str, status: TaskStatus) -> TaskInfo {
    TaskInfo {
        id: id.into(),
        detail: TaskDetail::Process(ProcessDetail {
            command: "make".into(),
            cwd: "/ws".into(),
            ..ProcessDetail::default()
        }),
        description: "build".into(),
        owner: "main".into(),
        status,
        detached: true,
        started_at: Timestamp(0),
        ended_at: status.is_terminal().then_some(Timestamp(1500)),
        stop_reason: None,
        timeout_ms: None,
        parent: None,
        suppressed: false,
        output: TaskOutput::default(),
    }
}

/// A session's tasks.
pub(crate) struct Bench {
    _dir: TempDir,
    pub(crate) tasks: Tasks,
    pub(crate) progress: Arc<Said>,
    pub(crate) cancel: CancellationToken,
}

/// Status lines that were shown.
#[derive(Default)]
pub(crate) struct Said(pub(crate) Mutex<Vec<String>>);

impl Progress for Said {
    fn output(&self, _: ProgressStream, _: &str) {}

    fn status(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            tasks: Tasks::for_tests(&dir.path().join("tasks")),
            _dir: dir,
            progress: Arc::default(),
            cancel: CancellationToken::new(),
        }
    }

    /// Starts a piece of work for an agent; it ends as it is told to, or as cancelled.
    pub(crate) async fn work(
        &self,
        owner: &str,
        description: &str,
    ) -> (TaskId, oneshot::Sender<WorkerEnd>) {
        let (end, ended) = oneshot::channel();
        let spec = WorkerSpec {
            detail: TaskDetail::Question {
                question_count: 1,
                tool_call_id: None,
            },
            description: description.to_owned(),
            owner: owner.into(),
            time_limit: None,
        };
        let started = self.tasks.start_worker(spec, move |cx| {
            async move {
                tokio::select! {
                    end = ended => end.unwrap(),
                    () = cx.cancel.cancelled() => WorkerEnd::Cancelled { output: String::new() },
                }
            }
            .boxed()
        });
        (started.await.unwrap().id, end)
    }

    /// A piece of work that has ended with this output.
    pub(crate) async fn done(&self, output: &str) -> TaskId {
        let (id, end) = self.work("main", "done").await;
        end.send(WorkerEnd::Completed(output.to_owned())).unwrap();
        self.ended(&id).await;
        id
    }

    /// Waits for the end of a task.
    pub(crate) async fn ended(&self, id: &TaskId) -> TaskInfo {
        let waiting = self.tasks.wait(
            crate::background::Whose::Anyones,
            id,
            std::time::Duration::from_secs(60),
            &self.cancel,
        );
        waiting.await.unwrap()
    }

    /// Runs a call of the main agent.
    pub(crate) async fn call(&self, tool: &dyn Tool, args: Value) -> Result<Outcome, String> {
        Validator::compile(&tool.spec().parameters)
            .unwrap()
            .check(&args)?;
        let cx = CallCx {
            session: "s".into(),
            agent: "main".into(),
            workspace: Arc::new(Workspace::of_dir("/ws")),
            todos: Arc::from([]),
            host_files: None,
        };
        let call = tool.resolve(args, &cx).map_err(|refusal| refusal.message)?;
        assert!(call.accesses.is_empty());
        Ok((call.execute)(ExecCx {
            call: "call_1".into(),
            cancel: self.cancel.clone(),
            accesses: Vec::new(),
            progress: self.progress.clone(),
            ask_user: None,
            results_dir: PathBuf::new(),
        })
        .await)
    }

    /// The same, as text; failures begin with `failed: `.
    pub(crate) async fn said(&self, tool: &dyn Tool, args: Value) -> String {
        match self.call(tool, args).await {
            Ok(outcome) => text_of(&outcome),
            Err(message) => format!("refused: {message}"),
        }
    }
}

/// What an outcome says.
pub(crate) fn text_of(outcome: &Outcome) -> String {
    let texts = outcome.output.iter().map(|part| match part {
        Part::Text(text) => text.to_string(),
        other => panic!("{other:?}"),
    });
    let prefix = if outcome.is_error { "failed: " } else { "" };
    format!("{prefix}{}", texts.collect::<String>())
}
