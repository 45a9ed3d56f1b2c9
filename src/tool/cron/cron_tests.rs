use std::path::PathBuf;
use std::sync::Arc;

use longshore_protocol::value::cron::PauseReason;
use longshore_protocol::value::tool::ProgressStream;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::testing::{Jobs, NOW, deps_of};
use super::{CronCreate, CronDelete, CronDeps, CronList};
use crate::config::values::CronConfig;
use crate::kernel::cron::CronOp;
use crate::kernel::message::Part;
use crate::kernel::rule::Subject;
use crate::path::Workspace;
use crate::schema::Validator;
use crate::tool::{Call, CallCx, ExecCx, Outcome, Progress, Tool};

struct Silent;

impl Progress for Silent {
    fn output(&self, _: ProgressStream, _: &str) {}

    fn status(&self, _: &str) {}
}

struct Bench {
    jobs: Arc<Jobs>,
    deps: CronDeps,
}

impl Bench {
    fn new() -> Self {
        let rules = CronConfig {
            jitter: false,
            ..CronConfig::default()
        };
        Self::with(rules)
    }

    fn with(rules: CronConfig) -> Self {
        let jobs = Jobs::new(rules.clone());
        Self {
            deps: deps_of(jobs.clone(), rules),
            jobs,
        }
    }

    async fn create(&self, args: Value) -> String {
        done(CronCreate::new(self.deps.clone()), args).await
    }

    async fn list(&self) -> String {
        done(CronList::new(self.deps.clone()), json!({})).await
    }

    async fn delete(&self, id: &str) -> String {
        done(CronDelete::new(self.deps.clone()), json!({"id": id})).await
    }

    fn subject(&self, args: Value) -> Subject {
        let tool = CronCreate::new(self.deps.clone());
        resolve(&tool, args).unwrap().subject
    }
}

fn resolve(tool: &dyn Tool, args: Value) -> Result<Call, String> {
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
    tool.resolve(args, &cx).map_err(|refusal| refusal.message)
}

async fn execute(call: Call, cancel: CancellationToken) -> Outcome {
    (call.execute)(ExecCx {
        call: "call_1".into(),
        cancel,
        accesses: Vec::new(),
        progress: Arc::new(Silent),
        ask_user: None,
        results_dir: PathBuf::new(),
    })
    .await
}

/// What the model reads; failures with a mark.
async fn done(tool: impl Tool, args: Value) -> String {
    let call = match resolve(&tool, args) {
        Ok(call) => call,
        Err(refusal) => return format!("refused: {refusal}"),
    };
    assert!(call.accesses.is_empty() && !call.title.is_empty());
    let outcome = execute(call, CancellationToken::new()).await;
    let [Part::Text(text)] = outcome.output.as_slice() else {
        panic!("one text: {outcome:?}");
    };
    if outcome.is_error {
        format!("failed: {text}")
    } else {
        text.to_string()
    }
}

#[tokio::test]
async fn a_job_is_made_listed_and_deleted() {
    let bench = Bench::new();
    assert_eq!(bench.list().await, "cron_jobs: 0");
    let made = bench
        .create(json!({"cron": "0 9 * * mon-fri", "prompt": "Look.", "timezone": "Europe/Berlin"}))
        .await;
    assert_eq!(
        made,
        "id: 00000001\ncron: 0 9 * * mon-fri\nschedule: 09:00 on weekdays\ntimezone: Europe/Berlin\n\
         recurring: true\nnext_fire: 2026-03-02T09:00:00.000+01:00"
    );
    let once = bench
        .create(json!({"cron": "30 8 1 3 *", "prompt": "Once.", "recurring": false}))
        .await;
    assert!(
        once.contains("recurring: false\nnext_fire: 2026-03-01T08:30:00.000+00:00"),
        "{once}"
    );
    assert_eq!(
        bench.list().await,
        "cron_jobs: 2\n---\nid: 00000001\ncron: 0 9 * * mon-fri\nschedule: 09:00 on weekdays\n\
         timezone: Europe/Berlin\nrecurring: true\nnext_fire: 2026-03-02T09:00:00.000+01:00\nprompt: \"Look.\"\n\
         age_days: 0.00\nstale: false\nfires: 0\n\
         ---\nid: 00000002\ncron: 30 8 1 3 *\nschedule: 30 8 1 3 *\ntimezone: UTC\nrecurring: false\n\
         next_fire: 2026-03-01T08:30:00.000+00:00\nprompt: \"Once.\"\nage_days: 0.00\nstale: false\nfires: 0"
    );
    assert_eq!(
        bench.delete("00000001").await,
        "Deleted the cron job 00000001 (09:00 on weekdays)."
    );
    assert_eq!(
        bench.delete("00000001").await,
        "failed: there is no cron job 00000001 in this session."
    );
    for id in ["ABCDEF12", "abc"] {
        let refused = bench.delete(id).await;
        assert!(
            refused.starts_with("refused: ") && refused.contains("8 lower-case hex digits"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn what_can_be_told_beforehand_is_not_asked_about() {
    let bench = Bench::new();
    for (args, expected) in [
        (
            json!({"cron": "0 25 * * *", "prompt": "x"}),
            "the hour field",
        ),
        (
            json!({"cron": "@daily", "prompt": "x", "timezone": "Mars"}),
            "no time zone named `Mars`",
        ),
        (
            json!({"cron": "@daily", "prompt": "  "}),
            "the prompt is empty",
        ),
        (
            json!({"cron": "@daily", "prompt": "€".repeat(2731)}),
            "8193 bytes",
        ),
        (
            json!({"cron": "@daily", "prompt": "x", "every": 5}),
            "`every`",
        ),
    ] {
        let refused = bench.create(args).await;
        assert!(
            refused.starts_with("refused: ") && refused.contains(expected),
            "{refused}"
        );
    }
    let off = CronConfig {
        enabled: false,
        ..CronConfig::default()
    };
    let off = Bench::with(off);
    let refused = off.create(json!({"cron": "x", "prompt": "x"})).await;
    assert!(refused.contains("switched off"), "{refused}");
    assert!(off.list().await.contains("switched off"));
    // The clock is looked at when it is made, not when it is asked about.
    let failed = bench
        .create(json!({"cron": "0 0 31 2 *", "prompt": "x"}))
        .await;
    assert!(
        failed.starts_with("failed: ") && failed.contains("5 years"),
        "{failed}"
    );
}

#[tokio::test]
async fn the_last_place_is_given_once() {
    let bench = Bench::new();
    let tool = CronCreate::new(bench.deps.clone());
    let args = |n: usize| json!({"cron": "@daily", "prompt": format!("job {n}")});
    for n in 0..49 {
        assert!(bench.create(args(n)).await.starts_with("id: "));
    }
    let both = [
        resolve(&tool, args(49)).unwrap(),
        resolve(&tool, args(50)).unwrap(),
    ];
    let mut failed = 0;
    for call in both {
        failed += usize::from(execute(call, CancellationToken::new()).await.is_error);
    }
    assert_eq!((failed, bench.jobs.set().ledger().jobs().len()), (1, 50));
}

#[test]
fn an_answer_covers_one_job_alone() {
    let bench = Bench::new();
    let base = json!({"cron": "0 9 * * *", "prompt": "Look."});
    let same = json!({"cron": " 0  9 * * * ", "prompt": "Look.", "recurring": true});
    assert_eq!(bench.subject(base.clone()), bench.subject(same));
    let long = "x".repeat(500);
    for other in [
        json!({"cron": "1 9 * * *", "prompt": "Look."}),
        json!({"cron": "0 9 * * *", "prompt": "Look!"}),
        json!({"cron": "0 9 * * *", "prompt": "Look.", "recurring": false}),
        json!({"cron": "0 9 * * *", "prompt": "Look.", "timezone": "UTC"}),
        json!({"cron": "0 9 * * *", "prompt": long}),
    ] {
        assert_ne!(bench.subject(base.clone()), bench.subject(other));
    }
    let ends =
        |end: &str| bench.subject(json!({"cron": "@daily", "prompt": format!("{long}{end}")}));
    assert_ne!(ends("a"), ends("b"), "also where only the end differs");
    let Subject::Text(text) = ends("a") else {
        panic!("a text");
    };
    assert!(text.len() < 400, "{text}");
}

#[tokio::test]
async fn long_prompts_and_odd_jobs_in_lists() {
    let bench = Bench::new();
    let prompt = format!("{}é\n\"end\"", "x".repeat(199));
    bench
        .create(json!({"cron": "@daily", "prompt": prompt}))
        .await;
    let listed = bench.list().await;
    let cut = format!("prompt: \"{}\" (first 199 of 207 bytes)", "x".repeat(199));
    assert!(listed.contains(&cut), "{listed}");
    let mut broken = bench.jobs.set().ledger().jobs()[0].clone();
    broken.cron = "61 * * * *".into();
    broken.paused = Some(PauseReason::Unattended);
    bench.jobs.set().apply(CronOp::Added(Box::new(broken)), NOW);
    let listed = bench.list().await;
    for line in [
        "cron: 61 * * * *",
        "next_fire: null",
        "paused: it fired often",
        "error: the minute field",
    ] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
}

#[tokio::test]
async fn what_the_model_is_told_fits_the_session() {
    let mut bench = Bench::new();
    let text = |bench: &Bench| {
        let spec_of = CronCreate::new(bench.deps.clone());
        spec_of.spec().description.to_string()
    };
    assert!(
        text(&bench).contains("fires for 7 days") && text(&bench).contains("outlive a restart")
    );
    bench.deps.is_ephemeral = true;
    bench.deps.rules.max_age_days = 0;
    assert!(text(&bench).contains("jobs end with it") && !text(&bench).contains("one last time"));
    assert!(!text(&bench).contains('{'), "all places are filled");
    let made = bench.create(json!({"cron": "@daily", "prompt": "x"})).await;
    assert!(made.contains("the job ends with it"), "{made}");
}

#[tokio::test]
async fn a_cancelled_call_makes_nothing() {
    let bench = Bench::new();
    let tool = CronCreate::new(bench.deps.clone());
    let call = resolve(&tool, json!({"cron": "@daily", "prompt": "x"})).unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert!(execute(call, cancel).await.is_error);
    assert!(bench.jobs.set().ledger().jobs().is_empty());
}
