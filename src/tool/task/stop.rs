//! TaskStop: ends a task.

use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::id::TaskId;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::lines::Lines;
use crate::background::{StopOptions, Tasks, Whose};
use crate::kernel::rule::Subject;
use crate::kernel::task::TaskInfo;
use crate::kernel::wake::WakeKey;
use crate::tool::{Call, CallCx, Effect, Outcome, Refusal, Tool, ToolSpec, args};

/// The reason where the model gives none.
const STOPPED: &str = "stopped by TaskStop";

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskStopArgs {
    /// The task.
    #[schemars(length(min = 1))]
    task_id: String,
    /// Why it is ended, for the record.
    #[serde(default)]
    reason: Option<String>,
}

/// TaskStop: ends a task.
#[derive(Debug)]
pub struct TaskStop {
    spec: ToolSpec,
    tasks: Tasks,
}

impl TaskStop {
    /// The tool's name.
    pub const NAME: &'static str = "TaskStop";

    /// Makes the tool.
    pub fn new(tasks: Tasks) -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("stop.md").trim().into(),
            parameters: Arc::new(args::schema_of::<TaskStopArgs>()),
            dedupe: false,
            own_budget: true,
        };
        Self { spec, tasks }
    }
}

impl Tool for TaskStop {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        let args: TaskStopArgs = args::typed(args)?;
        let id = TaskId::from(args.task_id);
        // People are asked by what the task is, not by its id alone.
        let known = self.tasks.get(Whose::Of(&cx.agent), &id).ok();
        let (tasks, agent) = (self.tasks.clone(), cx.agent.clone());
        let reason = args.reason.filter(|reason| !reason.trim().is_empty());
        Ok(Call {
            accesses: Vec::new(),
            title: format!("Stop the task {id}"),
            display: Display::Task {
                task_id: id.clone(),
                summary: known.as_ref().map_or_else(String::new, summary),
            },
            subject: Subject::None,
            preview: None,
            execute: Box::new(move |_| {
                async move {
                    let options = StopOptions {
                        reason: Some(reason.unwrap_or_else(|| STOPPED.to_owned())),
                        suppress: true,
                    };
                    match tasks.stop(Whose::Of(&agent), &id, options).await {
                        Ok(info) => stopped(&info),
                        Err(error) => {
                            Outcome::failed(format!("{error}. TaskList shows the tasks there are."))
                        }
                    }
                }
                .boxed()
            }),
        })
    }
}

/// What a task is, in a line.
fn summary(info: &TaskInfo) -> String {
    let command = info.process().map(|process| process.command.as_str());
    match (info.description.as_str(), command) {
        ("", Some(command)) => command.to_owned(),
        (description, Some(command)) => format!("{description}: {command}"),
        (description, None) => description.to_owned(),
    }
}

fn stopped(info: &TaskInfo) -> Outcome {
    let mut lines = Lines::default();
    lines.put("task_id", &info.id);
    lines.put("status", info.status.as_str());
    let process = info.process();
    lines.put_some("exit_code", process.and_then(|process| process.exit_code));
    lines.put_some(
        "signal",
        process.and_then(|process| process.signal.as_deref()),
    );
    let reason = info.stop_reason.as_deref().unwrap_or("(none recorded)");
    lines.put_text("reason", reason);
    lines.put("output_size_bytes", info.output.size_bytes);
    let mut outcome = Outcome::text(lines.finish());
    outcome.effects.push(Effect::Told(vec![WakeKey::Task {
        task: info.id.clone(),
    }]));
    outcome
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Bench, text_of};
    use super::*;
    use crate::kernel::task::TaskStatus;

    #[tokio::test]
    async fn what_is_stopped_is_told_here_and_nowhere_else() {
        let bench = Bench::new();
        let tool = TaskStop::new(bench.tasks.clone());
        for (reason, expected) in [
            (json!("enough"), "enough"),
            (json!("  "), STOPPED),
            (json!(null), STOPPED),
        ] {
            let (id, _end) = bench.work("main", "wait").await;
            let mut args = json!({"task_id": id.as_str()});
            if reason.is_string() {
                args["reason"] = reason;
            }
            let outcome = bench.call(&tool, args).await.unwrap();
            let said = text_of(&outcome);
            assert_eq!(
                said,
                format!(
                    "task_id: {id}\nstatus: killed\nreason: {expected}\noutput_size_bytes: 0\n"
                )
            );
            let told = Effect::Told(vec![WakeKey::Task { task: id.clone() }]);
            assert_eq!(outcome.effects, [told]);
            let info = bench.ended(&id).await;
            assert!(info.suppressed && info.status == TaskStatus::Killed);
        }
    }

    #[tokio::test]
    async fn one_that_has_ended_stays_as_it_is() {
        let bench = Bench::new();
        let tool = TaskStop::new(bench.tasks.clone());
        let id = bench.done("out").await;
        let said = bench.said(&tool, json!({"task_id": id.as_str()})).await;
        assert!(
            said.contains("status: completed\nreason: (none recorded)\n"),
            "{said}"
        );
        let (foreign, _end) = bench.work("sub-1", "foreign").await;
        for id in [foreign.as_str(), "bash-00000000"] {
            let said = bench.said(&tool, json!({"task_id": id})).await;
            assert!(said.starts_with("failed: there is no task"), "{said}");
        }
    }
}
