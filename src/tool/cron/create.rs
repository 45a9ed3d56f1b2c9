//! CronCreate: a prompt that comes again by the clock.

use std::fmt::Write as _;
use std::sync::Arc;

use futures::FutureExt;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{CronDeps, failed, lines};
use crate::cron::check::{CronError, check_prompt, check_written};
use crate::kernel::cron::NewJob;
use crate::kernel::limits::CRON_PROMPT_BYTES;
use crate::kernel::rule::Subject;
use crate::tool::output::first_chars;
use crate::tool::{Call, CallCx, Outcome, Refusal, Tool, ToolSpec, args};

/// A prompt up to so many characters stands in a rule as it is.
const RULE_CHARS: usize = 200;

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CronCreateArgs {
    /// When: minute, hour, day of month, month, day of week, such as `0 9 * * 1-5`; or one of @hourly, @daily, @weekly,
    /// @monthly, @yearly.
    #[schemars(length(min = 1))]
    cron: String,
    /// What you are to be told when it fires. Write it so that it can be understood without this conversation.
    #[schemars(length(min = 1))]
    prompt: String,
    /// True, where absent: it fires each time. False: it fires once, at the next time that fits, and is gone.
    #[serde(default)]
    recurring: Option<bool>,
    /// An IANA time zone such as Europe/Berlin. Leave it out for the user's own.
    #[serde(default)]
    timezone: Option<String>,
}

/// The tool.
#[derive(Debug)]
pub struct CronCreate {
    spec: ToolSpec,
    deps: CronDeps,
}

impl CronCreate {
    /// The tool's name.
    pub const NAME: &'static str = "CronCreate";

    /// Makes the tool.
    pub fn new(deps: CronDeps) -> Self {
        let age = match deps.rules.max_age_days {
            0 => String::new(),
            days => format!(
                "A recurring job fires for {days} days; then it fires one last time, tells you so and is gone. "
            ),
        };
        let ends = if deps.is_ephemeral {
            "Nothing of this session is kept: its jobs end with it."
        } else {
            "Jobs outlive a restart of the server; what came due meanwhile is told once, with its count."
        };
        let description = include_str!("create.md")
            .trim()
            .replace("{age}", &age)
            .replace("{ends}", ends)
            .replace("{max_jobs}", &deps.rules.max_jobs.to_string())
            .replace("{prompt_bytes}", &CRON_PROMPT_BYTES.to_string());
        let spec = ToolSpec {
            name: Self::NAME,
            description: description.into(),
            parameters: Arc::new(args::schema_of::<CronCreateArgs>()),
            dedupe: false,
            own_budget: false,
        };
        Self { spec, deps }
    }
}

impl Tool for CronCreate {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, _: &CallCx) -> Result<Call, Refusal> {
        let args: CronCreateArgs = args::typed(args)?;
        let new = NewJob {
            cron: args.cron,
            prompt: args.prompt,
            recurring: args.recurring.unwrap_or(true),
            timezone: args.timezone,
        };
        let refused = |error: CronError| Refusal::new(format!("No job was created: {error}."));
        let (expression, zone) = check_written(&self.deps.rules, &new).map_err(refused)?;
        check_prompt(&new.prompt).map_err(refused)?;
        let words = expression.in_words();
        let place = zone.map(|zone| format!(" ({})", zone.name()));
        let when = format!("{words}{}", place.unwrap_or_default());
        let how_often = if new.recurring { "" } else { "once, " };
        let subject = subject(&new, expression.as_str());
        let display = Display::Generic {
            summary: format!("{how_often}{when}"),
            detail: Some(format!("{expression}\n\n{}", new.prompt)),
        };
        let jobs = self.deps.jobs.clone();
        let is_ephemeral = self.deps.is_ephemeral;
        Ok(Call {
            accesses: Vec::new(),
            title: format!("Create a cron job: {how_often}{when}"),
            display,
            subject: Subject::Text(subject),
            preview: None,
            execute: Box::new(move |cx| {
                async move {
                    if cx.cancel.is_cancelled() {
                        return Outcome::failed("The turn was cancelled; no job was created.");
                    }
                    match jobs.create(new).await {
                        Ok(job) => {
                            let mut text = lines(&job).join("\n");
                            if is_ephemeral {
                                text.push_str(
                                    "\nnote: nothing of this session is kept; the job ends with it",
                                );
                            }
                            Outcome::text(text)
                        }
                        Err(fault) => failed(fault),
                    }
                }
                .boxed()
            }),
        })
    }
}

/// What a rule can say about a job: all of it, so that an answer for one covers no other. A long prompt is told apart by
/// its hash.
fn subject(new: &NewJob, cron: &str) -> String {
    let often = if new.recurring { "recurring" } else { "once" };
    let zone = new.timezone.as_deref().unwrap_or("local");
    let prompt = &new.prompt;
    let start = first_chars(prompt, RULE_CHARS);
    if start.len() == prompt.len() {
        return format!("{cron} {often} {zone}: {prompt}");
    }
    let hash = Sha256::digest(prompt.as_bytes());
    let hex = hash.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("{cron} {often} {zone}: {start}… (sha256 {hex})")
}
