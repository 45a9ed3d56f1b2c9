//! TaskList: which tasks there are.

use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::lines::Lines;
use crate::background::{Tasks, Which, Whose};
use crate::kernel::rule::Subject;
use crate::tool::{Call, CallCx, Outcome, Refusal, Tool, ToolSpec, args};

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskListArgs {
    /// True, where absent, for tasks that run; false for those that have ended too.
    #[serde(default = "yes")]
    active_only: bool,
    /// How many tasks to show, the newest first; 20 where absent.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
}

/// TaskList: which tasks there are.
#[derive(Debug)]
pub struct TaskList {
    spec: ToolSpec,
    tasks: Tasks,
}

impl TaskList {
    /// The tool's name.
    pub const NAME: &'static str = "TaskList";

    /// Makes the tool.
    pub fn new(tasks: Tasks) -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("list.md").trim().into(),
            parameters: Arc::new(args::schema_of::<TaskListArgs>()),
            dedupe: true,
            own_budget: true,
        };
        Self { spec, tasks }
    }
}

impl Tool for TaskList {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        let args: TaskListArgs = args::typed(args)?;
        let title = if args.active_only {
            "List running tasks"
        } else {
            "List all tasks"
        };
        let (tasks, agent) = (self.tasks.clone(), cx.agent.clone());
        Ok(Call {
            accesses: Vec::new(),
            title: title.to_owned(),
            display: Display::Generic {
                summary: title.to_owned(),
                detail: None,
            },
            subject: Subject::None,
            preview: None,
            execute: Box::new(move |_| {
                async move {
                    let which = if args.active_only {
                        Which::Active
                    } else {
                        Which::All
                    };
                    Outcome::text(listed(&tasks, Whose::Of(&agent), which, args.limit))
                }
                .boxed()
            }),
        })
    }
}

fn listed(tasks: &Tasks, whose: Whose<'_>, which: Which, limit: usize) -> String {
    let found = tasks.list(whose, which);
    let label = match which {
        Which::Active => "active_tasks",
        Which::All => "tasks",
    };
    let mut lines = Lines::default();
    if found.is_empty() {
        lines.put(label, "none");
        return lines.finish();
    }
    lines.put(label, found.len());
    if found.len() > limit {
        lines.put("shown", format_args!("{limit} (the newest)"));
    }
    for info in found.iter().take(limit) {
        lines.separate();
        lines.put_task(info);
    }
    lines.finish()
}

fn yes() -> bool {
    true
}

fn twenty() -> usize {
    20
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;
    use crate::background::WorkerEnd;

    fn ids(said: &str) -> Vec<&str> {
        said.lines()
            .filter_map(|line| line.strip_prefix("task_id: "))
            .collect()
    }

    #[tokio::test]
    async fn own_tasks_newest_first() {
        let bench = Bench::new();
        let tool = TaskList::new(bench.tasks.clone());
        assert_eq!(bench.said(&tool, json!({})).await, "active_tasks: none\n");
        assert_eq!(
            bench.said(&tool, json!({"active_only": false})).await,
            "tasks: none\n"
        );
        let (first, _first_end) = bench.work("main", "first").await;
        let (second, second_end) = bench.work("main", "two\nlines").await;
        let (_, _foreign_end) = bench.work("sub-1", "foreign").await;
        let both = bench.said(&tool, json!({})).await;
        assert_eq!(ids(&both), [second.as_str(), first.as_str()]);
        assert!(both.starts_with("active_tasks: 2\n---\n"), "{both}");
        assert!(
            both.contains("description: \"two\\nlines\"\n") && !both.contains("foreign"),
            "{both}"
        );
        second_end
            .send(WorkerEnd::Completed(String::new()))
            .unwrap();
        bench.ended(&second).await;
        assert_eq!(ids(&bench.said(&tool, json!({})).await), [first.as_str()]);
        let one = bench
            .said(&tool, json!({"active_only": false, "limit": 1}))
            .await;
        assert_eq!(ids(&one), [second.as_str()]);
        assert!(
            one.starts_with("tasks: 2\nshown: 1 (the newest)\n---\n")
                && one.contains("status: completed"),
            "{one}"
        );
    }

    #[tokio::test]
    async fn arguments_are_checked() {
        let bench = Bench::new();
        let tool = TaskList::new(bench.tasks.clone());
        for args in [json!({"limit": 0}), json!({"limit": 101}), json!({"x": 1})] {
            assert!(bench.call(&tool, args).await.is_err());
        }
    }
}
