//! `longshore daemon start`, `stop` and `status`.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use longshore_protocol::method::host::{HostCapabilities, StatusParams, StatusResult};
use longshore_protocol::method::spec;
use tokio::time::timeout;

use super::launch::{Launch, Reached, find, reach};
use super::options::{BegunBy, DaemonOptions, StopWhen};
use super::place::Place;
use crate::cli::args::Common;
use crate::cli::driver::Driver;
use crate::cli::record::Record;
use crate::cli::terminal::{complain, say};
use crate::kernel::limits::SHUTDOWN;
use crate::os::env::Env;
use crate::os::lock::{FileLock, LockError};
use crate::os::process::ExitWatch;

/// What `status` says by its exit code where no daemon runs; the same as that of service managers.
const NOT_RUNNING: u8 = 3;
/// How long a daemon that was told to stop may take: its own time, and some for the machine.
const STOP_WITHIN: Duration = SHUTDOWN.saturating_add(Duration::from_secs(5));

/// Starts a daemon, or has a newer one take over.
pub(super) fn start(env: &Env, common: &Common, mut options: DaemonOptions) -> ExitCode {
    told(env, common, async |place| {
        if let Some(running) = find(&place).await? {
            let record = running.record(&place);
            if !is_older(record.as_ref()) {
                return already(&place, &running, options);
            }
            drop(running);
            let record = record.ok_or("the daemon has just changed; try again")?;
            complain(&format!(
                "longshore: the daemon of version {} ends once no turn runs; then this one takes over.",
                record.version
            ));
            options = options.or_where(record.listen.as_deref());
            end(&place, StopWhen::Quiet).await?;
        }
        let launch = Launch::new(env, common, BegunBy::Start, options);
        let reached = reach(&place, &launch).await?;
        if !reached.is_new {
            // Somebody was quicker.
            return already(&place, &reached, options);
        }
        say(&describe("The daemon runs", &place, &reached));
        Ok(ExitCode::SUCCESS)
    })
}

/// Ends the daemon.
pub(super) fn stop(env: &Env, common: &Common, when: StopWhen) -> ExitCode {
    told(env, common, async |place| {
        match end(&place, when).await? {
            Some(pid) => say(&format!("The daemon (process {pid}) has stopped.")),
            None => say("No daemon runs."),
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Says how the daemon is.
pub(super) fn status(env: &Env, common: &Common) -> ExitCode {
    told(env, common, async |place| {
        let Some(reached) = find(&place).await? else {
            say("No daemon runs.");
            return Ok(ExitCode::from(NOT_RUNNING));
        };
        let mut text = describe("The daemon runs", &place, &reached);
        let (reader, writer) = reached.stream.into_split();
        let driver = Driver::connect(reader, writer);
        let hello = driver
            .initialize(HostCapabilities::default())
            .await
            .map_err(|error| error.to_string())?;
        let status = driver
            .call::<spec::ServerStatus>(&StatusParams::default())
            .await
            .map_err(|error| error.to_string())?;
        driver.close().await;
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{}", figures(&status));
        for warning in &hello.warnings {
            let _ = write!(text, "\nwarning: {}", warning.message);
        }
        say(&text);
        Ok(ExitCode::SUCCESS)
    })
}

/// Does something with the daemon of a home, and tells what went wrong.
fn told<F, Fut>(env: &Env, common: &Common, work: F) -> ExitCode
where
    F: FnOnce(Place) -> Fut,
    Fut: Future<Output = Result<ExitCode, String>>,
{
    let place = match Place::of(env, common) {
        Ok(place) => place,
        Err(error) => {
            complain(&format!("longshore: {error}"));
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = runtime
        .map_err(|error| format!("the runtime could not start: {error}"))
        .and_then(|runtime| runtime.block_on(work(place)));
    done.unwrap_or_else(|message| {
        complain(&format!("longshore: {message}"));
        ExitCode::FAILURE
    })
}

/// A daemon runs: is it the one that is wanted?
fn already(place: &Place, running: &Reached, options: DaemonOptions) -> Result<ExitCode, String> {
    let listens = running
        .record(place)
        .is_some_and(|record| record.listen.is_some());
    if options.listen.is_some() && !listens {
        return Err(
            "a daemon runs already, and lets nobody in by WebSocket; stop it first: longshore daemon stop".to_owned(),
        );
    }
    say(&describe("The daemon runs already", place, running));
    let by_attach = BegunBy::Attach.as_str();
    if running
        .record(place)
        .and_then(|record| record.begun_by)
        .as_deref()
        == Some(by_attach)
    {
        say(
            "`longshore attach` started it, so it ends by itself once nobody has needed it for daemon.idle_exit_s; for one \
             that stays, stop it and start it again.",
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the daemon, if there is one, and gives its process.
async fn end(place: &Place, when: StopWhen) -> Result<Option<u32>, String> {
    let holder = || FileLock::holder(&place.lock()).map_err(|error| error.to_string());
    let pid = match holder()? {
        None => return Ok(None),
        Some(LockError::Locked { pid: Some(pid), .. }) => pid,
        Some(error) => {
            return Err(format!(
                "it is not known which process is the daemon: {error}"
            ));
        }
    };
    let cannot = |error: std::io::Error| format!("process {pid} can't be asked to end: {error}");
    let watch = ExitWatch::of(pid).map_err(cannot)?;
    // Looked at again once the process is held: the id may have changed hands before.
    if !matches!(holder()?, Some(LockError::Locked { pid: Some(now), .. }) if now == pid) {
        return Err("the daemon has just changed; try again".to_owned());
    }
    match when {
        StopWhen::Now => {
            watch.ask_to_end().map_err(cannot)?;
            timeout(STOP_WITHIN, watch.exited()).await.map_err(|_| {
                format!("process {pid} has not ended in {} s", STOP_WITHIN.as_secs())
            })?;
        }
        StopWhen::Quiet => {
            watch.ask_to_end_when_quiet().map_err(cannot)?;
            watch.exited().await;
        }
    }
    Ok(Some(pid))
}

/// Whether a daemon is of an earlier version than this program. Versions that can't be read are not.
fn is_older(record: Option<&Record>) -> bool {
    let version = |text: &str| semver::Version::parse(text).ok();
    let theirs = record.and_then(|record| version(&record.version));
    theirs
        .zip(version(env!("CARGO_PKG_VERSION")))
        .is_some_and(|(theirs, ours)| theirs < ours)
}

fn describe(what: &str, place: &Place, reached: &Reached) -> String {
    let process = match reached.daemon.pid {
        Some(pid) => format!("process {pid}"),
        None => "process unknown".to_owned(),
    };
    let record = reached.record(place);
    let version = record
        .as_ref()
        .map(|record| format!(", version {}", record.version));
    let mut text = format!("{what} ({process}{}).", version.unwrap_or_default());
    // Writing to a string cannot fail.
    let _ = write!(text, "\nsocket: {}", place.socket().display());
    if let Some(address) = record.and_then(|record| record.listen) {
        let token = place.token();
        let _ = write!(
            text,
            "\nWebSocket: {address}, with the token in {}",
            token.display()
        );
    }
    text
}

fn figures(status: &StatusResult) -> String {
    let seconds = status.uptime_ms / 1000;
    // The one that asks is none.
    let hosts: Vec<&str> = status
        .hosts
        .iter()
        .map(|host| host.name.as_str())
        .filter(|name| *name != "longshore")
        .collect();
    let mut text = format!(
        "up: {} h {} min {} s\nhosts: {}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        hosts.len()
    );
    if !hosts.is_empty() {
        let _ = write!(text, " ({})", hosts.join(", "));
    }
    let _ = write!(
        text,
        "\nsessions loaded: {}\nturns running: {}",
        status.loaded_sessions, status.running_turns
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::time::Timestamp;

    #[test]
    fn versions() {
        let of = |version: &str| Record {
            version: version.to_owned(),
            ..Record::own("daemon", Timestamp(0))
        };
        for (version, expected) in [
            ("0.0.9", true),
            (env!("CARGO_PKG_VERSION"), false),
            ("99.0.0", false),
            ("99.0.0-rc.1", false),
            ("of old", false),
        ] {
            assert_eq!(is_older(Some(&of(version))), expected, "{version}");
        }
        assert!(!is_older(None));
    }
}
