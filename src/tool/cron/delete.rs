//! CronDelete: one job less.

use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{CronDeps, failed};
use crate::cron::check::check_id;
use crate::kernel::rule::Subject;
use crate::tool::{Call, CallCx, Outcome, Refusal, Tool, ToolSpec, args};

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CronDeleteArgs {
    /// The job's id: 8 lower-case hex digits, as CronCreate and CronList say it.
    id: String,
}

/// The tool.
#[derive(Debug)]
pub struct CronDelete {
    spec: ToolSpec,
    deps: CronDeps,
}

impl CronDelete {
    /// The tool's name.
    pub const NAME: &'static str = "CronDelete";

    /// Makes the tool.
    pub fn new(deps: CronDeps) -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: include_str!("delete.md").trim().into(),
            parameters: Arc::new(args::schema_of::<CronDeleteArgs>()),
            dedupe: false,
            own_budget: false,
        };
        Self { spec, deps }
    }
}

impl Tool for CronDelete {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, _: &CallCx) -> Result<Call, Refusal> {
        let CronDeleteArgs { id } = args::typed(args)?;
        check_id(&id).map_err(|error| Refusal::new(format!("Nothing was deleted: {error}.")))?;
        let jobs = self.deps.jobs.clone();
        let title = format!("Delete the cron job {id}");
        Ok(Call {
            accesses: Vec::new(),
            display: Display::Generic {
                summary: title.clone(),
                detail: None,
            },
            title,
            subject: Subject::Text(id.clone()),
            preview: None,
            execute: Box::new(move |cx| {
                async move {
                    if cx.cancel.is_cancelled() {
                        return Outcome::failed("The turn was cancelled; nothing was deleted.");
                    }
                    match jobs.delete(id.clone()).await {
                        Ok(job) => {
                            Outcome::text(format!("Deleted the cron job {id} ({}).", job.schedule))
                        }
                        Err(fault) => failed(fault),
                    }
                }
                .boxed()
            }),
        })
    }
}
