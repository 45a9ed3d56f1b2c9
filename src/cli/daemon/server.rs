//! The daemon itself: from the lock to the last word to its hosts.

use std::process::ExitCode;
use std::time::Duration;

use longshore_protocol::value::failure::Warning;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::entrance::{self, Doors, Entrance};
use super::options::{BegunBy, DaemonOptions};
use super::place::Place;
use crate::app::{App, Mode};
use crate::cli::args::Common;
use crate::cli::record::Record;
use crate::cli::server::{self, Prepared};
use crate::cli::terminal::{complain, say};
use crate::face::native::Native;
use crate::kernel::limits::SHUTDOWN;
use crate::os::env::{Env, current_exe};
use crate::os::fs;
use crate::os::lock::{FileLock, LockError};
use crate::os::process::begin_session;
use crate::os::signal::{QuietSignal, StopSignals};
use crate::os::socket;

/// What hosts get to read the last messages.
const LAST_WRITES: Duration = Duration::from_millis(500);
/// How long the lock is waited for: a daemon that ends lets nobody in any more, and still has its time to end.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// Between two looks at the lock, and at turns that are to end.
const LOOK: Duration = Duration::from_millis(50);
/// Between two looks whether anybody is still there: so many within the time that a daemon stays for nobody …
const DESERTED_LOOKS: u32 = 8;
/// … and no fewer than one in this time.
const DESERTED_LOOK_MAX: Duration = Duration::from_secs(60);

/// Is the daemon of its home until told to stop.
pub(super) fn run(env: Env, common: &Common, options: DaemonOptions) -> ExitCode {
    let prepared = match server::prepare(env, common, Mode::Daemon) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    if options.begun_by != BegunBy::Person
        && let Err(error) = begin_session()
    {
        tracing::warn!(%error, "the daemon stays in the session of its starter");
    }
    let runtime = match server::runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("longshore: the runtime could not start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime
        .block_on(serve(prepared, options))
        .unwrap_or_else(|error| {
            // It goes to standard error, too.
            tracing::error!("the daemon can't start: {error}");
            ExitCode::FAILURE
        });
    // Threads that are stuck in the kernel are left to it.
    runtime.shutdown_background();
    code
}

async fn serve(prepared: Prepared, options: DaemonOptions) -> Result<ExitCode, String> {
    let Prepared {
        settings,
        child_limit,
        ..
    } = prepared;
    let place = Place::in_home(&settings.home);
    let lock = hold(&place).await?;
    let app = server::assemble(settings, child_limit);
    let hang_up = CancellationToken::new();
    let mut deps = app.native_deps(hang_up.clone());
    let (usual, replaced) = (deps.warnings, Replaced::watch());
    deps.warnings = Box::new(move || usual().into_iter().chain(replaced.warning()).collect());
    let native = Native::new(deps);
    let signals = StopSignals::listen_without_terminal();
    let quiet = QuietSignal::listen();
    let (signals, mut quiet) = signals
        .and_then(|signals| Ok((signals, quiet?)))
        .map_err(|error| format!("signals can't be listened to: {error}"))?;

    let max_message_bytes = app.settings.config.limits.max_message_bytes;
    let entrance = Entrance::new(native.clone(), max_message_bytes);
    let mut record = Record {
        begun_by: Some(options.begun_by.as_str().to_owned()),
        ..Record::own("daemon", app.clock.now())
    };
    let mut doors = Doors::open(&place, options.listen, &mut record).await?;
    if options.begun_by == BegunBy::Person {
        say(&format!("listening at {}", place.socket().display()));
        if let Some(address) = &record.listen {
            say(&format!("listening at {address}"));
        }
    }
    tracing::info!(
        pid = record.pid,
        listen = record.listen,
        "the daemon listens"
    );

    let stop = CancellationToken::new();
    let asked = stop.clone();
    let (serving, dir) = (app.clone(), place.run.clone());
    let speaking = async move {
        let why = tokio::select! {
            biased;
            () = asked.cancelled() => "it was asked to",
            () = silence(&serving, &mut quiet) => "no turn runs, and it was to stop then",
            () = desertion(&serving, &entrance, options.begun_by) => "nobody needs it",
            () = unload(&serving) => "",
            () = disowned(&serving, &lock) => "its lock was taken away, and another may be the daemon now",
            () = entrance.let_in(&mut doors, &place, &lock) => "",
        };
        tracing::info!(why, "the daemon stops");
        native.drain();
        doors.close(&place);
        // Hosts see how their sessions end before their connections do.
        serving.shutdown(SHUTDOWN).await;
        hang_up.cancel();
        if timeout(LAST_WRITES, entrance.emptied()).await.is_err() {
            tracing::info!("not every host has read its last messages");
        }
        record.remove(&dir);
    };
    let never = std::future::pending();
    Ok(server::until_ended(app, signals, never, stop, SHUTDOWN, speaking).await)
}

/// Takes the lock of the daemon of a home.
async fn hold(place: &Place) -> Result<FileLock, String> {
    fs::create_private_dirs(&place.run).map_err(|error| error.to_string())?;
    let end = Instant::now() + LOCK_WAIT;
    loop {
        let pid = match FileLock::acquire(&place.lock(), "") {
            Ok(lock) => return Ok(lock),
            Err(LockError::Locked { pid, .. }) => pid,
            Err(LockError::Fs(error)) => return Err(error.to_string()),
        };
        let who = pid.map_or_else(
            || "another process".to_owned(),
            |pid| format!("process {pid}"),
        );
        if socket::connect(&place.socket()).await.is_ok() {
            return Err(format!("{who} is the daemon already"));
        }
        if Instant::now() > end {
            return Err(format!(
                "{who} holds {} and lets nobody in",
                place.lock().display()
            ));
        }
        sleep(LOOK).await;
    }
}

/// Ends once no turn runs, after that was asked for.
async fn silence(app: &App, quiet: &mut QuietSignal) {
    quiet.recv().await;
    tracing::info!("the daemon is to stop once no turn runs");
    while app.sessions.running_count() > 0 {
        sleep(LOOK).await;
    }
}

/// Ends once no turn runs, after somebody has removed the file of the lock: whoever comes next finds another daemon.
async fn disowned(app: &App, lock: &FileLock) {
    while lock.is_in_place() || app.sessions.running_count() > 0 {
        sleep(entrance::LOOK).await;
    }
}

/// Ends where a daemon that `attach` started has had neither hosts nor sessions for long enough.
async fn desertion(app: &App, entrance: &Entrance, begun_by: BegunBy) {
    let (BegunBy::Attach, Some(after)) = (begun_by, app.settings.config.daemon.idle_exit) else {
        return std::future::pending().await;
    };
    let clock = &app.clock;
    let pause = (after / DESERTED_LOOKS).min(DESERTED_LOOK_MAX);
    let mut since = None;
    loop {
        clock.sleep_until(clock.elapsed() + pause).await;
        if !entrance.is_empty() || !app.sessions.is_deserted() {
            since = None;
            continue;
        }
        // By the wall, as sessions are unloaded; set back, it begins anew.
        let now = clock.now();
        let since = since.insert(since.filter(|since| *since <= now).unwrap_or(now));
        let waited_ms = now.0.saturating_sub(since.0);
        if u128::try_from(waited_ms).is_ok_and(|ms| ms >= after.as_millis()) {
            return;
        }
    }
}

async fn unload(app: &App) {
    match app.settings.config.session.unload_idle {
        Some(after) => app.sessions.unload_resting(after, app.hub.clone()).await,
        None => std::future::pending().await,
    }
}

/// Notices that the file of this program is another one than the one that runs: an upgrade.
struct Replaced {
    program: Option<(std::path::PathBuf, fs::FileStamp)>,
}

impl Replaced {
    fn watch() -> Self {
        let program = current_exe().ok();
        let program = program.and_then(|path| fs::stamp_of(&path).ok().map(|stamp| (path, stamp)));
        Self { program }
    }

    fn warning(&self) -> Option<Warning> {
        let (path, stamp) = self.program.as_ref()?;
        let is_the_same = fs::stamp_of(path).is_ok_and(|now| now == *stamp);
        let message = concat!(
            "This daemon runs version ",
            env!("CARGO_PKG_VERSION"),
            ", and its program file has changed since it started. `longshore daemon stop --when-quiet` ends it once no \
             turn runs; the next `longshore attach` starts the new one."
        );
        (!is_the_same).then(|| Warning::new("daemon", message))
    }
}
