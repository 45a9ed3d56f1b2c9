//! TaskOutput: how far a task is and what it wrote. Never waits.

use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::id::TaskId;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::lines::Lines;
use super::window::{self, TextWindow};
use crate::background::{Tasks, Whose, Window};
use crate::kernel::limits::TASK_OUTPUT_BYTES;
use crate::kernel::rule::Subject;
use crate::tool::{Call, CallCx, Outcome, Refusal, Tool, ToolSpec, args};

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TaskOutputArgs {
    /// The task.
    #[schemars(length(min = 1))]
    task_id: String,
    /// Where to begin, in bytes of the whole output. Leave it out to get the end of the output.
    #[serde(default)]
    offset: Option<u64>,
    /// How many bytes to show; 32768 where absent.
    #[serde(default = "all")]
    #[schemars(range(min = 1, max = 32768))]
    max_bytes: usize,
}

/// TaskOutput: how far a task is and what it wrote.
#[derive(Debug)]
pub struct TaskOutput {
    spec: ToolSpec,
    tasks: Tasks,
}

impl TaskOutput {
    /// The tool's name.
    pub const NAME: &'static str = "TaskOutput";

    /// Makes the tool.
    pub fn new(tasks: Tasks) -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("output.md").trim().into(),
            parameters: Arc::new(args::schema_of::<TaskOutputArgs>()),
            dedupe: true,
            own_budget: true,
        };
        Self { spec, tasks }
    }
}

impl Tool for TaskOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        let args: TaskOutputArgs = args::typed(args)?;
        let id = TaskId::from(args.task_id);
        let title = format!("Read the output of {id}");
        let (tasks, agent) = (self.tasks.clone(), cx.agent.clone());
        Ok(Call {
            accesses: Vec::new(),
            display: Display::Generic {
                summary: title.clone(),
                detail: None,
            },
            title,
            subject: Subject::None,
            preview: None,
            execute: Box::new(move |_| {
                async move {
                    let whose = Whose::Of(&agent);
                    let part = args.offset.map_or(Window::Tail, Window::From);
                    match window::read(&tasks, whose, &id, part, args.max_bytes).await {
                        Ok(window) => Outcome {
                            truncated: !window.is_whole(),
                            ..Outcome::text(told(&window, args.offset))
                        },
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

fn told(window: &TextWindow, offset: Option<u64>) -> String {
    let info = &window.info;
    let mut lines = Lines::default();
    let retrieved = if info.status.is_terminal() {
        "success"
    } else {
        "not_ready"
    };
    lines.put("retrieval_status", retrieved);
    lines.put_task(info);
    lines.put_terminal_reason(info);
    let path = info.output.log_path.as_ref();
    let path = path.map(|path| path.display().to_string());
    lines.put_text("output_path", path.as_deref().unwrap_or_default());
    if window.total_bytes == 0 {
        let mut text = lines.finish();
        text.push_str("\n(no output)\n");
        return text;
    }
    lines.put("output_preview_bytes", window.next_offset - window.start);
    lines.put("output_truncated", !window.is_whole());
    let is_available = info.output.full_output_available();
    lines.put("full_output_available", is_available);
    if info.output.log_gap_bytes > 0 {
        lines.put("log_gap_bytes", info.output.log_gap_bytes);
    }
    let banner = match offset {
        Some(_) => {
            lines.put("offset", window.start);
            lines.put("next_offset", window.next_offset);
            lines.put("eof", window.is_eof);
            None
        }
        None if !window.is_whole() => {
            let hint = "call TaskOutput with `offset`: 0 and then with each `next_offset` to read all of it";
            lines.put("next_step", hint);
            let shown = window.next_offset - window.start;
            let total = window.total_bytes;
            Some(format!("[the last {shown} of {total} bytes]\n"))
        }
        None => None,
    };
    let mut text = lines.finish();
    text.push('\n');
    text.push_str(&banner.unwrap_or_default());
    text.push_str(&window.text);
    text
}

fn all() -> usize {
    TASK_OUTPUT_BYTES
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;

    /// The value of a key.
    fn value<'a>(said: &'a str, key: &str) -> Option<&'a str> {
        let head = said.split("\n\n").next().unwrap();
        head.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
    }

    fn body(said: &str) -> &str {
        said.split_once("\n\n").unwrap().1
    }

    #[tokio::test]
    async fn the_end_of_a_long_output_and_then_all_of_it_by_pages() {
        let bench = Bench::new();
        let tool = TaskOutput::new(bench.tasks.clone());
        let long = "zwölf Boxkämpfer für 3 €\n".repeat(6000);
        assert!(long.len() > 2 * TASK_OUTPUT_BYTES);
        let id = bench.done(&long).await;
        let tail = bench.said(&tool, json!({"task_id": id.as_str()})).await;
        assert_eq!(value(&tail, "retrieval_status"), Some("success"));
        assert_eq!(value(&tail, "output_truncated"), Some("true"));
        assert_eq!(
            value(&tail, "output_size_bytes"),
            Some(long.len().to_string().as_str())
        );
        assert!(value(&tail, "output_path").is_some());
        let (banner, shown) = body(&tail).split_once('\n').unwrap();
        assert!(banner.starts_with("[the last "), "{banner}");
        assert!(long.ends_with(shown) && shown.len() > TASK_OUTPUT_BYTES - 4);

        let (mut offset, mut all) = (0, String::new());
        loop {
            let args = json!({"task_id": id.as_str(), "offset": offset});
            let page = bench.said(&tool, args).await;
            all.push_str(body(&page));
            offset = value(&page, "next_offset").unwrap().parse().unwrap();
            if value(&page, "eof") == Some("true") {
                break;
            }
        }
        assert!(all == long);
        let args = json!({"task_id": id.as_str(), "offset": long.len() * 2});
        let past = bench.said(&tool, args).await;
        assert_eq!((value(&past, "eof"), body(&past)), (Some("true"), ""));
    }

    #[tokio::test]
    async fn a_silent_task_that_runs() {
        let bench = Bench::new();
        let tool = TaskOutput::new(bench.tasks.clone());
        let (id, _end) = bench.work("main", "wait").await;
        let said = bench.said(&tool, json!({"task_id": id.as_str()})).await;
        assert_eq!(value(&said, "retrieval_status"), Some("not_ready"));
        assert_eq!(value(&said, "output_path"), None);
        assert_eq!(body(&said), "(no output)\n");
    }

    #[tokio::test]
    async fn what_does_not_exist_for_the_agent() {
        let bench = Bench::new();
        let tool = TaskOutput::new(bench.tasks.clone());
        let (foreign, _end) = bench.work("sub-1", "foreign").await;
        for id in [foreign.as_str(), "bash-00000000", "../../etc"] {
            let said = bench.said(&tool, json!({"task_id": id})).await;
            assert!(
                said.starts_with(&format!("failed: there is no task {id}")),
                "{said}"
            );
        }
        for args in [
            json!({}),
            json!({"task_id": ""}),
            json!({"task_id": "a", "offset": -1}),
            json!({"task_id": "a", "max_bytes": 0}),
            json!({"task_id": "a", "max_bytes": 32769}),
        ] {
            assert!(bench.call(&tool, args).await.is_err());
        }
    }
}
