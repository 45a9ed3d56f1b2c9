//! WaitFor: waits for a task to end, without a model request meanwhile.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use longshore_protocol::id::{AgentId, TaskId};
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::lines::{Lines, SEPARATOR};
use super::window;
use crate::background::{TaskError, Tasks, Which, Whose, Window};
use crate::kernel::limits::{TASK_NOTICE_TAIL_BYTES, TASK_OUTPUT_BYTES};
use crate::kernel::rule::Subject;
use crate::kernel::task::TaskInfo;
use crate::kernel::wake::WakeKey;
use crate::tool::{Call, CallCx, Effect, ExecCx, Outcome, Progress, Refusal, Tool, ToolSpec, args};

/// How often hosts are told how long the call waits.
const TICK: Duration = Duration::from_secs(1);

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WaitForArgs {
    /// The longest time to wait, in seconds.
    #[schemars(range(min = 1, max = 600))]
    timeout: u64,
    /// The task to wait for. Leave it out to wait for the first that ends of those that run now.
    #[serde(default)]
    task_id: Option<String>,
}

/// WaitFor: waits for a task to end.
#[derive(Debug)]
pub struct WaitFor {
    spec: ToolSpec,
    tasks: Tasks,
}

impl WaitFor {
    /// The tool's name.
    pub const NAME: &'static str = "WaitFor";

    /// Makes the tool.
    pub fn new(tasks: Tasks) -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("wait.md").trim().into(),
            parameters: Arc::new(args::schema_of::<WaitForArgs>()),
            dedupe: false,
            own_budget: true,
        };
        Self { spec, tasks }
    }
}

impl Tool for WaitFor {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        let args: WaitForArgs = args::typed(args)?;
        let title = match &args.task_id {
            Some(id) => format!("Wait for {id} (at most {} s)", args.timeout),
            None => format!("Wait for a task (at most {} s)", args.timeout),
        };
        let wait = Wait {
            tasks: self.tasks.clone(),
            agent: cx.agent.clone(),
            id: args.task_id.map(TaskId::from),
            limit: Duration::from_secs(args.timeout),
        };
        Ok(Call {
            accesses: Vec::new(),
            display: Display::Generic {
                summary: title.clone(),
                detail: None,
            },
            title,
            subject: Subject::None,
            preview: None,
            execute: Box::new(move |cx| wait.run(cx).boxed()),
        })
    }
}

/// One call.
struct Wait {
    tasks: Tasks,
    agent: AgentId,
    id: Option<TaskId>,
    limit: Duration,
}

impl Wait {
    async fn run(self, cx: ExecCx) -> Outcome {
        let whose = Whose::Of(&self.agent);
        if let Some(id) = &self.id
            && let Err(error) = self.tasks.get(whose, id)
        {
            return Outcome::failed(format!("{error}. TaskList shows the tasks there are."));
        }
        let mut watched: Vec<TaskId> = self
            .tasks
            .list(whose, Which::Active)
            .into_iter()
            .filter(|info| info.detached)
            .map(|info| info.id)
            .collect();
        // The one that is waited for comes first, whether or not it still runs.
        if let Some(id) = &self.id {
            watched.retain(|other| other != id);
            watched.insert(0, id.clone());
        }
        if watched.is_empty() {
            return Outcome::text("No task is running; there is nothing to wait for.");
        }
        let begun = Instant::now();
        let ended = beside(self.waited(&cx.cancel), || {
            let seconds = begun.elapsed().as_secs();
            self.say(cx.progress.as_ref(), watched.len(), seconds);
        });
        let ended = match ended.await {
            Ok(ended) => ended,
            Err(error) => return Outcome::failed(format!("{error}.")),
        };
        if ended.is_none() && cx.cancel.is_cancelled() {
            return Outcome::failed("The wait was interrupted. The tasks go on.");
        }
        self.told(&watched, ended, begun.elapsed()).await
    }

    /// The task that ended; none where the time was over or the call was cancelled.
    async fn waited(&self, cancel: &CancellationToken) -> Result<Option<TaskInfo>, TaskError> {
        let whose = Whose::Of(&self.agent);
        let Some(id) = &self.id else {
            return Ok(self.tasks.wait_any(whose, self.limit, cancel).await);
        };
        let info = self.tasks.wait(whose, id, self.limit, cancel).await?;
        Ok(Some(info).filter(|info| info.status.is_terminal()))
    }

    fn say(&self, progress: &dyn Progress, n_watched: usize, seconds: u64) {
        let what = match (&self.id, n_watched) {
            (Some(id), _) => id.to_string(),
            (None, 1) => "1 task".to_owned(),
            (None, n) => format!("{n} tasks"),
        };
        let limit = self.limit.as_secs();
        progress.status(&format!("waiting for {what} ({seconds} s of {limit} s)"));
    }

    /// What ended, what it wrote, and what still runs.
    async fn told(&self, watched: &[TaskId], first: Option<TaskInfo>, waited: Duration) -> Outcome {
        let whose = Whose::Of(&self.agent);
        let (mut ended, mut running) = (Vec::new(), Vec::new());
        let first_id = first.as_ref().map(|info| info.id.clone());
        ended.extend(first);
        for id in watched {
            if Some(id) == first_id.as_ref() {
                continue;
            }
            // One that is handed to another agent meanwhile is none of this one's.
            let Ok(info) = self.tasks.get(whose, id) else {
                continue;
            };
            if info.status.is_terminal() {
                ended.push(info);
            } else {
                running.push(info);
            }
        }
        let mut lines = Lines::default();
        if ended.is_empty() {
            lines.put("wait_status", "timeout");
            lines.put("waited_s", waited.as_secs());
        } else {
            lines.put("wait_status", "ended");
            lines.put("ended_tasks", ended.len());
        }
        let mut text = lines.finish();
        for (n, info) in ended.iter().enumerate() {
            let limit = if n == 0 {
                TASK_OUTPUT_BYTES
            } else {
                TASK_NOTICE_TAIL_BYTES
            };
            text.push_str(SEPARATOR);
            text.push('\n');
            text.push_str(&self.ended(info, limit).await);
        }
        if !running.is_empty() {
            let mut lines = Lines::default();
            lines.separate();
            lines.put("still_running", running.len());
            for info in &running {
                lines.put("task_id", &info.id);
                lines.put_text("description", &info.description);
            }
            text.push_str(&lines.finish());
        }
        let mut outcome = Outcome::text(text);
        if !ended.is_empty() {
            let keys = ended
                .into_iter()
                .map(|info| WakeKey::Task { task: info.id });
            outcome.effects.push(Effect::Told(keys.collect()));
        }
        outcome
    }

    /// A task that has ended, with the end of its output.
    async fn ended(&self, info: &TaskInfo, limit: usize) -> String {
        let whose = Whose::Of(&self.agent);
        let mut lines = Lines::default();
        lines.put_task(info);
        lines.put_terminal_reason(info);
        let path = info.output.log_path.as_ref();
        let path = path.map(|path| path.display().to_string());
        lines.put_text("output_path", path.as_deref().unwrap_or_default());
        let read = window::read(&self.tasks, whose, &info.id, Window::Tail, limit).await;
        let mut text = lines.finish();
        match read {
            Ok(window) if window.total_bytes == 0 => text.push_str("\n(no output)\n"),
            Ok(window) => {
                if !window.is_whole() {
                    let shown = window.next_offset - window.start;
                    let total = window.total_bytes;
                    // Writing to a string cannot fail.
                    let _ = write!(text, "\n[the last {shown} of {total} bytes]");
                }
                text.push('\n');
                text.push_str(&window.text);
                if !text.ends_with('\n') {
                    text.push('\n');
                }
            }
            // That it ended counts; what it wrote may be lost.
            Err(error) => {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "\n({error})");
            }
        }
        text
    }
}

/// Awaits something and does something else now and each tick until then.
async fn beside<T>(work: impl Future<Output = T>, mut tick: impl FnMut()) -> T {
    let mut work = std::pin::pin!(work);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = ticks.tick() => tick(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Bench, text_of};
    use super::*;
    use crate::background::WorkerEnd;

    fn told(ids: &[&TaskId]) -> Effect {
        let keys = ids.iter().map(|id| WakeKey::Task {
            task: TaskId::clone(id),
        });
        Effect::Told(keys.collect())
    }

    #[tokio::test]
    async fn the_task_that_ends_is_told_with_its_output() {
        let bench = Bench::new();
        let tool = WaitFor::new(bench.tasks.clone());
        for by_id in [true, false] {
            let (id, end) = bench.work("main", "build").await;
            let args = if by_id {
                json!({"timeout": 600, "task_id": id.as_str()})
            } else {
                json!({"timeout": 600})
            };
            let (outcome, ()) = tokio::join!(bench.call(&tool, args), async {
                while bench.progress.0.lock().unwrap().is_empty() {
                    tokio::task::yield_now().await;
                }
                end.send(WorkerEnd::Completed("made it".into())).unwrap();
            });
            let outcome = outcome.unwrap();
            let said = text_of(&outcome);
            assert!(
                said.starts_with(&format!(
                    "wait_status: ended\nended_tasks: 1\n---\ntask_id: {id}\n"
                )) && said.ends_with("\nmade it\n"),
                "{said}"
            );
            assert_eq!(outcome.effects, [told(&[&id])]);
            let statuses = std::mem::take(&mut *bench.progress.0.lock().unwrap());
            assert!(statuses[0].contains("(0 s of 600 s)"), "{statuses:?}");
        }
    }

    #[tokio::test]
    async fn one_that_has_ended_is_told_at_once_with_others_of_the_meantime() {
        let bench = Bench::new();
        let tool = WaitFor::new(bench.tasks.clone());
        let id = bench.done("first").await;
        let (other, _end) = bench.work("main", "other").await;
        let args = json!({"timeout": 1, "task_id": id.as_str()});
        let outcome = bench.call(&tool, args).await.unwrap();
        let said = text_of(&outcome);
        assert!(
            said.contains("\nfirst\n---\nstill_running: 1\n")
                && said.contains(&format!("task_id: {other}\ndescription: other\n")),
            "{said}"
        );
        assert_eq!(outcome.effects, [told(&[&id])]);
    }

    #[tokio::test]
    async fn nothing_to_wait_for() {
        let bench = Bench::new();
        let tool = WaitFor::new(bench.tasks.clone());
        bench.done("over").await;
        let (foreign, _end) = bench.work("sub-1", "foreign").await;
        let outcome = bench.call(&tool, json!({"timeout": 600})).await.unwrap();
        assert!(text_of(&outcome).starts_with("No task is running"));
        assert!(outcome.effects.is_empty());
        let args = json!({"timeout": 1, "task_id": foreign.as_str()});
        let said = bench.said(&tool, args).await;
        assert!(said.starts_with("failed: there is no task"), "{said}");
        for args in [json!({}), json!({"timeout": 0}), json!({"timeout": 601})] {
            assert!(bench.call(&tool, args).await.is_err());
        }
    }

    #[tokio::test]
    async fn a_timeout_and_an_interrupt_leave_tasks_alone() {
        let bench = Bench::new();
        let tool = WaitFor::new(bench.tasks.clone());
        let (id, end) = bench.work("main", "build").await;
        let outcome = bench.call(&tool, json!({"timeout": 1})).await.unwrap();
        let said = text_of(&outcome);
        assert!(
            said.starts_with("wait_status: timeout\nwaited_s: 1\n---\nstill_running: 1\n"),
            "{said}"
        );
        assert!(outcome.effects.is_empty());
        bench.cancel.cancel();
        let outcome = bench.call(&tool, json!({"timeout": 600})).await.unwrap();
        assert!(text_of(&outcome).contains("interrupted"));
        assert!(!end.is_closed(), "{id} runs");
    }
}
