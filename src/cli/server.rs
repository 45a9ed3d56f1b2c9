//! What `serve` and `acp` have in common: a process that speaks a protocol on its standard streams until its host is
//! gone.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use super::args::Common;
use super::logging;
use super::terminal::complain;
use crate::app::{self, App, Options};
use crate::os::env::Env;
use crate::os::parent::Parent;
use crate::os::process::Processes;
use crate::os::signal::{self, StopSignals};
use crate::os::{nofile, stdio, tty};

/// Threads that run tasks. Chosen: enough to write to hosts while a model streams; every further one costs memory.
const WORKERS: usize = 2;

/// The streams that a face speaks on.
pub(super) struct Streams {
    pub(super) input: stdio::Input,
    pub(super) output: stdio::Output,
}

/// The runtime of every command.
pub(super) fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
}

/// Options for putting the parts together.
pub(super) fn options(common: &Common) -> Options {
    Options {
        home: common.home.clone(),
        config: common.config.clone(),
        assignments: common.assignments.clone(),
        model: common.model.clone(),
        is_headless: false,
    }
}

/// Runs a face on the standard streams. `face` returns when its host is gone or asked for the end; `stop` fires when
/// the process is to end for another reason.
pub(super) fn run<F, Fut>(env: Env, common: &Common, within: Duration, face: F) -> ExitCode
where
    F: FnOnce(Arc<App>, Streams, CancellationToken) -> Fut,
    Fut: Future<Output = ()>,
{
    let parent = Parent::read();
    stdio::seal_inherited();
    let prepared = signal::reset_inherited().and_then(|()| tty::detach());
    let child_limit = nofile::raise();
    let settings = match app::settings(env, &options(common)) {
        Ok(settings) => settings,
        Err(error) => {
            complain(&format!("longshore: {error}"));
            return ExitCode::from(2);
        }
    };
    logging::start(common, &settings.home, settings.config.log_level.as_deref());
    if let Err(error) = prepared {
        tracing::warn!(%error, "the process could not be set up wholly");
    }
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("longshore: the runtime could not start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(async {
        let (input, output) = match stdio::take() {
            Ok(streams) => streams,
            Err(error) => {
                complain(&format!(
                    "longshore: the standard streams can't be used: {error}"
                ));
                return ExitCode::FAILURE;
            }
        };
        let processes = Processes::new(child_limit);
        if let Err(error) = processes.adopt_orphans() {
            tracing::warn!(%error, "processes that leave their group can't be followed");
        }
        let app = Arc::new(App::new(settings, processes));
        app.tidy();
        let sessions = app.sessions.clone();
        app.tasks.spawn(async move { sessions.wake_closed().await });
        serve(app, Streams { input, output }, parent, within, face).await
    });
    // Threads that are stuck in the kernel are left to it.
    runtime.shutdown_background();
    code
}

async fn serve<F, Fut>(
    app: Arc<App>,
    streams: Streams,
    parent: Parent,
    within: Duration,
    face: F,
) -> ExitCode
where
    F: FnOnce(Arc<App>, Streams, CancellationToken) -> Fut,
    Fut: Future<Output = ()>,
{
    let mut signals = match StopSignals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            complain(&format!("longshore: signals can't be listened to: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let stop = CancellationToken::new();
    let mut speaking = std::pin::pin!(face(app.clone(), streams, stop.clone()));
    tokio::select! {
        biased;
        () = &mut speaking => return ExitCode::SUCCESS,
        signal = signals.recv() => tracing::info!(?signal, "stopping"),
        () = parent.gone() => tracing::info!("the parent process is gone; stopping"),
    }
    stop.cancel();
    // The second signal, or a face that does not come to its end, ends the process at once.
    tokio::select! {
        biased;
        () = &mut speaking => {}
        signal = signals.recv() => tracing::warn!(?signal, "stopped for the second time"),
        () = tokio::time::sleep(within + Duration::from_millis(500)) => tracing::error!("not stopped in time"),
    }
    app.processes.kill_now();
    ExitCode::SUCCESS
}
