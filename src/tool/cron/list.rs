//! CronList: the jobs there are.

use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::value::cron::PauseReason;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{CronDeps, failed, lines};
use crate::kernel::cron::ListedJob;
use crate::kernel::rule::Subject;
use crate::tool::{Call, CallCx, Outcome, Refusal, Tool, ToolSpec, args};

/// Bytes of a prompt that are listed.
const PROMPT_BYTES: usize = 200;
const DAY_MS: f64 = 86_400_000.0;

/// What the model gives: nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CronListArgs {}

/// The tool.
#[derive(Debug)]
pub struct CronList {
    spec: ToolSpec,
    deps: CronDeps,
}

impl CronList {
    /// The tool's name.
    pub const NAME: &'static str = "CronList";

    /// Makes the tool.
    pub fn new(deps: CronDeps) -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("list.md").trim().into(),
            parameters: Arc::new(args::schema_of::<CronListArgs>()),
            dedupe: true,
            own_budget: false,
        };
        Self { spec, deps }
    }
}

impl Tool for CronList {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, _: &CallCx) -> Result<Call, Refusal> {
        let CronListArgs {} = args::typed(args)?;
        let (jobs, enabled) = (self.deps.jobs.clone(), self.deps.rules.enabled);
        Ok(Call {
            accesses: Vec::new(),
            title: "List cron jobs".to_owned(),
            display: Display::Generic {
                summary: "List cron jobs".to_owned(),
                detail: None,
            },
            subject: Subject::None,
            preview: None,
            execute: Box::new(move |_| {
                async move {
                    match jobs.list().await {
                        Ok(jobs) => Outcome::text(listed(&jobs, enabled)),
                        Err(fault) => failed(fault),
                    }
                }
                .boxed()
            }),
        })
    }
}

fn listed(jobs: &[ListedJob], enabled: bool) -> String {
    let mut text = format!("cron_jobs: {}", jobs.len());
    if !enabled {
        text.push_str("\nnote: cron jobs are switched off here (cron.enabled); none fires");
    }
    for job in jobs {
        text.push_str("\n---\n");
        text.push_str(&entry(job));
    }
    text
}

fn entry(ListedJob { job, age_ms }: &ListedJob) -> String {
    let mut lines = lines(job);
    lines.push(format!("prompt: {}", shown(&job.prompt)));
    lines.push(format!("age_days: {:.2}", *age_ms as f64 / DAY_MS));
    lines.push(format!("stale: {}", job.stale));
    lines.push(format!("fires: {}", job.fires));
    if let Some(at) = &job.last_fire_at {
        lines.push(format!("last_fire: {at}"));
    }
    if let Some(reason) = job.paused {
        let reason = match reason {
            PauseReason::Host => "by the user",
            PauseReason::Unattended => "it fired often without anybody saying something",
            PauseReason::Forked => "it was copied with its session",
        };
        lines.push(format!("paused: {reason}"));
    }
    if let Some(error) = &job.error {
        lines.push(format!("error: {error}"));
    }
    lines.join("\n")
}

/// A prompt as a JSON string, cut where it is long.
fn shown(prompt: &str) -> String {
    let end = (0..=PROMPT_BYTES.min(prompt.len()))
        .rev()
        .find(|end| prompt.is_char_boundary(*end))
        .unwrap_or(0);
    let json = Value::from(&prompt[..end]).to_string();
    if end == prompt.len() {
        json
    } else {
        format!("{json} (first {end} of {} bytes)", prompt.len())
    }
}
