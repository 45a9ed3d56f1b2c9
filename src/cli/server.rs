//! What servers have in common: a process that is made fit to be one, puts the parts together, and speaks until it is
//! told to end. `serve` and `acp` do so on their standard streams, until their host is gone.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use super::args::Common;
use super::daemon::Place;
use super::logging;
use super::record::{self, Record};
use super::terminal::complain;
use crate::app::{self, App, Mode, Options, Settings};
use crate::os::env::Env;
use crate::os::nofile::OriginalLimit;
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
        mode: Mode::default(),
    }
}

/// A process that is about to be a server. No thread but the first exists yet.
pub(super) struct Prepared {
    pub(super) settings: Settings,
    pub(super) child_limit: Option<OriginalLimit>,
    parent: Parent,
}

/// Makes this process fit to be a server, reads the configuration and starts logging. The error has been told.
pub(super) fn prepare(env: Env, common: &Common, mode: Mode) -> Result<Prepared, ExitCode> {
    let parent = Parent::read();
    stdio::seal_inherited();
    let prepared = signal::reset_inherited().and_then(|()| tty::detach());
    let child_limit = nofile::raise();
    let options = Options {
        mode,
        ..options(common)
    };
    let settings = app::settings(env, &options).map_err(|error| {
        complain(&format!("longshore: {error}"));
        ExitCode::from(2)
    })?;
    logging::start(common, &settings.home, settings.config.log_level.as_deref());
    if let Err(error) = prepared {
        tracing::warn!(%error, "the process could not be set up wholly");
    }
    Ok(Prepared {
        settings,
        child_limit,
        parent,
    })
}

/// Puts a server together and sets going what it does beside everything else.
pub(super) fn assemble(settings: Settings, child_limit: Option<OriginalLimit>) -> Arc<App> {
    let processes = Processes::new(child_limit);
    if let Err(error) = processes.adopt_orphans() {
        tracing::warn!(%error, "processes that leave their group can't be followed");
    }
    let app = Arc::new(App::new(settings, processes));
    app.tidy();
    let sessions = app.sessions.clone();
    app.tasks.spawn(async move { sessions.wake_closed().await });
    let run_dir = Place::in_home(&app.settings.home).run;
    app.tasks.spawn_blocking(move || record::sweep(&run_dir));
    app
}

/// Runs a face on the standard streams, as the command of this name. `face` returns when its host is gone or asked for
/// the end; `stop` fires when the process is to end for another reason.
pub(super) fn run<F, Fut>(
    env: Env,
    common: &Common,
    command: &'static str,
    within: Duration,
    face: F,
) -> ExitCode
where
    F: FnOnce(Arc<App>, Streams, CancellationToken) -> Fut,
    Fut: Future<Output = ()>,
{
    let Prepared {
        settings,
        child_limit,
        parent,
    } = match prepare(env, common, Mode::Hosted) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
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
        let app = assemble(settings, child_limit);
        let record = Record::own(command, app.clock.now());
        let run_dir = Place::in_home(&app.settings.home).run;
        let (written, dir) = (record.clone(), run_dir.clone());
        app.tasks.spawn_blocking(move || {
            if let Err(error) = written.write(&dir) {
                tracing::warn!(%error, "the record of this server could not be written");
            }
        });
        let signals = match StopSignals::listen() {
            Ok(signals) => signals,
            Err(error) => {
                complain(&format!("longshore: signals can't be listened to: {error}"));
                return ExitCode::FAILURE;
            }
        };
        let stop = CancellationToken::new();
        let speaking = face(app.clone(), Streams { input, output }, stop.clone());
        let code = until_ended(app, signals, parent.gone(), stop, within, speaking).await;
        record.remove(&run_dir);
        code
    });
    // Threads that are stuck in the kernel are left to it.
    runtime.shutdown_background();
    code
}

/// Lets a server speak until it has had its say; asks it to end when a signal says so or its owner is gone.
pub(super) async fn until_ended(
    app: Arc<App>,
    mut signals: StopSignals,
    owner_gone: impl Future<Output = ()>,
    stop: CancellationToken,
    within: Duration,
    speaking: impl Future<Output = ()>,
) -> ExitCode {
    let mut speaking = std::pin::pin!(speaking);
    tokio::select! {
        biased;
        () = &mut speaking => return ExitCode::SUCCESS,
        signal = signals.recv() => tracing::info!(?signal, "stopping"),
        () = owner_gone => tracing::info!("the parent process is gone; stopping"),
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
