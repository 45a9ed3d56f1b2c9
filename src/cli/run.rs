//! `longshore run`: one turn, here and now, as a host over an in-process connection; and what the turn sets going
//! ([`headless`](super::headless)).

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use longshore_protocol::method::host::HostCapabilities;
use longshore_protocol::method::{session, spec, turn};
use longshore_protocol::value::content::Input;
use longshore_protocol::value::turn::WhenBusy;
use tokio_util::sync::CancellationToken;

use super::args::{Common, Output, Run};
use super::driver::Driver;
use super::headless::Conversation;
use super::terminal::complain;
use super::{logging, person, server};
use crate::app::{self, App, Options};
use crate::config::values::HeadlessConfig;
use crate::face::native::Native;
use crate::kernel::limits::SHUTDOWN;
use crate::os::env::Env;
use crate::os::process::Processes;
use crate::os::{nofile, stdio};

/// Bytes that may be under way between the two ends of the in-process connection.
const PIPE_BYTES: usize = 64 << 10;

pub(super) const FAILED: u8 = 1;
const USAGE: u8 = 2;
pub(super) const DENIED: u8 = 3;
pub(super) const CANCELLED: u8 = 130;

/// Runs one turn and prints what came of it.
pub(super) fn run(env: Env, common: &Common, options: Run) -> ExitCode {
    stdio::seal_inherited();
    let child_limit = nofile::raise();
    let cwd = match (&options.cwd, env.start_dir()) {
        (Some(cwd), Some(start)) => start.join(cwd),
        (Some(cwd), None) => cwd.clone(),
        (None, Some(start)) => start.to_owned(),
        (None, None) => return usage("the directory to work in is not known; use --cwd"),
    };
    let settings = Options {
        mode: app::Mode::Headless,
        ..server::options(common)
    };
    let settings = match app::settings(env, &settings) {
        Ok(settings) => settings,
        Err(error) => return usage(&error.to_string()),
    };
    for warning in &settings.config.warnings {
        complain(&format!("longshore: warning: {}", warning.message));
    }
    if settings.config.broken.is_some() {
        return ExitCode::from(USAGE);
    }
    let prompt = match prompt(options.prompt.as_deref()) {
        Ok(prompt) => prompt,
        Err(message) => return usage(&message),
    };
    logging::start(common, &settings.home, settings.config.log_level.as_deref());
    let runtime = match server::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return usage(&format!("the runtime could not start: {error}")),
    };
    let model = common.model.clone();
    let code = runtime.block_on(async {
        let processes = Processes::new(child_limit);
        if let Err(error) = processes.adopt_orphans() {
            tracing::warn!(%error, "processes that leave their group can't be followed");
        }
        let app = Arc::new(App::new(settings, processes));
        app.tidy();
        let job = Job {
            prompt,
            cwd,
            model,
            output: options.output,
            mode: options.mode,
        };
        let code = drive(&app, job).await;
        app.shutdown(SHUTDOWN).await;
        code
    });
    runtime.shutdown_background();
    ExitCode::from(code)
}

struct Job {
    prompt: String,
    cwd: PathBuf,
    model: Option<String>,
    output: Output,
    mode: Option<longshore_protocol::value::session::Mode>,
}

async fn drive(app: &Arc<App>, job: Job) -> u8 {
    let (ours, theirs) = crate::rpc::pipe(PIPE_BYTES);
    let native = Native::new(app.native_deps(CancellationToken::new()));
    let serving = app.tasks.spawn(async move {
        let served = native.serve(theirs.reader, theirs.writer).await;
        served.close(std::time::Duration::ZERO).await
    });
    let mut driver = Driver::connect(ours.reader, ours.writer);
    let headless = app.settings.config.task.headless.clone();
    let code = match converse(&mut driver, job, headless).await {
        Ok(code) => code,
        Err(message) => {
            complain(&format!("longshore: {message}"));
            FAILED
        }
    };
    driver.close().await;
    if let Err(error) = serving.await {
        tracing::error!(%error, "the in-process server failed");
    }
    code
}

async fn converse(driver: &mut Driver, job: Job, headless: HeadlessConfig) -> Result<u8, String> {
    let attended = person::is_there();
    let capabilities = HostCapabilities {
        approvals: attended,
        questions: false,
        ..HostCapabilities::default()
    };
    driver
        .initialize(capabilities)
        .await
        .map_err(|error| error.to_string())?;
    let create = session::CreateParams {
        cwd: job.cwd.display().to_string(),
        model: job.model,
        mode: job.mode,
        unattended: !attended,
        ..session::CreateParams::default()
    };
    let created = driver
        .call::<spec::SessionCreate>(&create)
        .await
        .map_err(|error| error.to_string())?;
    let session_id = created.session.session_id;
    let input = Input::Text(job.prompt);
    let start = turn::StartParams {
        session_id: session_id.clone(),
        input,
        when_busy: WhenBusy::default(),
    };
    let started = match driver.call::<spec::TurnStart>(&start).await {
        Ok(started) => started,
        Err(error) => {
            complain(&format!("longshore: {error}"));
            return Ok(USAGE);
        }
    };
    Conversation::new(driver, session_id, job.output, headless)
        .run(started.turn_id)
        .await
}

/// The prompt of the command line, with what stands on standard input behind it.
fn prompt(said: Option<&str>) -> Result<String, String> {
    let piped = if std::io::stdin().is_terminal() {
        String::new()
    } else {
        std::io::read_to_string(std::io::stdin())
            .map_err(|error| format!("standard input can't be read: {error}"))?
    };
    let parts: Vec<&str> = [said.unwrap_or_default(), piped.trim_end()]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    if parts.is_empty() {
        return Err("there is no prompt; give one as an argument or on standard input".into());
    }
    Ok(parts.join("\n\n"))
}

fn usage(message: &str) -> ExitCode {
    complain(&format!("longshore: {message}"));
    ExitCode::from(USAGE)
}
