//! Finding the daemon of a home, and starting it where there is none.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use super::options::{BegunBy, DaemonOptions};
use super::place::Place;
use crate::cli::args::Common;
use crate::cli::record::Record;
use crate::os::env::{Env, current_exe};
use crate::os::fs;
use crate::os::lock::FileLock;
use crate::os::process::{Command, Processes, Spared};
use crate::os::socket::{self, Peer};

/// How long a daemon may take to listen. Chosen: a loaded machine; one that ends has to let go of the lock first.
const START_WITHIN: Duration = Duration::from_secs(30);
/// Between two looks. A start takes some tens of milliseconds.
const LOOK: Duration = Duration::from_millis(10);
/// A connection to the daemon.
pub(in crate::cli) struct Reached {
    /// The connection.
    pub(in crate::cli) stream: UnixStream,
    /// Who listens.
    pub(in crate::cli) daemon: Peer,
    /// Whether it was started for this.
    pub(in crate::cli) is_new: bool,
}

impl Reached {
    /// What the daemon says of itself, where that can be read.
    pub(in crate::cli) fn record(&self, place: &Place) -> Option<Record> {
        Record::read(&place.run, self.daemon.pid?)
    }
}

/// How a daemon is started.
pub(in crate::cli) struct Launch<'a> {
    env: &'a Env,
    common: &'a Common,
    options: DaemonOptions,
    processes: Processes,
}

impl<'a> Launch<'a> {
    /// By whom, and with what.
    pub(in crate::cli) fn new(
        env: &'a Env,
        common: &'a Common,
        begun_by: BegunBy,
        options: DaemonOptions,
    ) -> Self {
        Self {
            env,
            common,
            options: DaemonOptions {
                begun_by,
                ..options
            },
            processes: Processes::new(None),
        }
    }

    async fn spawn(&self, place: &Place) -> Result<Spared, String> {
        let program =
            current_exe().map_err(|error| format!("its own file is not known: {error}"))?;
        let variables = self.env.iter();
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let command = Command::new(program, "/")
            .args(self.arguments(place))
            .env(variables);
        self.processes
            .spawn_spared(command)
            .await
            .map_err(|error| error.to_string())
    }

    /// The command line of the daemon. It starts in no directory of note, so every path is absolute.
    fn arguments(&self, place: &Place) -> Vec<OsString> {
        let Common {
            home: _,
            config,
            assignments,
            model,
            log_level,
            log_file,
            log_json,
        } = self.common;
        let absolute = |path: &std::path::Path| match self.env.start_dir() {
            Some(start) => start.join(path).into_os_string(),
            None => path.as_os_str().to_owned(),
        };
        let mut arguments: Vec<OsString> = vec!["daemon".into()];
        let mut add = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        add("--begun-by", self.options.begun_by.as_str().into());
        add("--home", place.home.clone().into());
        if let Some(address) = self.options.listen {
            add("--listen", format!("ws://{address}").into());
        }
        if let Some(config) = config {
            add("--config", absolute(config));
        }
        for assignment in assignments {
            add("-c", assignment.into());
        }
        if let Some(model) = model {
            add("--model", model.into());
        }
        if let Some(level) = log_level {
            add("--log-level", level.into());
        }
        if let Some(file) = log_file {
            add("--log-file", absolute(file));
        }
        if *log_json {
            add("--log-format", "json".into());
        }
        if self.options.anywhere {
            arguments.push("--listen-anywhere".into());
        }
        arguments
    }
}

/// Connects to the daemon of a home; `None` where there is none.
///
/// # Errors
/// Sentences for people.
pub(in crate::cli) async fn find(place: &Place) -> Result<Option<Reached>, String> {
    match socket::connect(&place.socket()).await {
        Ok((_, daemon)) if !daemon.is_own_user() => Err(format!(
            "{} belongs to another user",
            place.socket().display()
        )),
        Ok((stream, daemon)) => Ok(Some(Reached {
            stream,
            daemon,
            is_new: false,
        })),
        Err(error) if is_nobody(&error) => Ok(None),
        Err(error) => Err(format!(
            "{} can't be reached: {error}",
            place.socket().display()
        )),
    }
}

/// Connects to the daemon of a home, and starts one where there is none. Of many who come at once one starts it, and the
/// others wait for that one.
///
/// # Errors
/// Sentences for people.
pub(in crate::cli) async fn reach(place: &Place, launch: &Launch<'_>) -> Result<Reached, String> {
    let end = Instant::now() + START_WITHIN;
    let mut turn: Option<FileLock> = None;
    let mut started: Option<Spared> = None;
    loop {
        if let Some(reached) = find(place).await? {
            let is_new = started.is_some_and(|started| Some(started.pid()) == reached.daemon.pid);
            return Ok(Reached { is_new, ..reached });
        }
        match (&turn, &started) {
            (None, _) => {
                fs::create_private_dirs(&place.run).map_err(|error| error.to_string())?;
                // Whoever had the turn before may have started one: it is looked for again before anything is started.
                turn = FileLock::acquire(&place.start_lock(), "").ok();
                if turn.is_some() {
                    continue;
                }
            }
            (Some(_), None) => started = Some(launch.spawn(place).await?),
            (Some(_), Some(daemon)) if daemon.has_exited() => {
                // Another one may have come first.
                return match find(place).await? {
                    Some(reached) => Ok(reached),
                    None => Err(ended_at_once(place, launch)),
                };
            }
            (Some(_), Some(_)) => {}
        }
        if Instant::now() > end {
            let seconds = START_WITHIN.as_secs();
            return Err(format!(
                "no daemon listens at {} after {seconds} s",
                place.socket().display()
            ));
        }
        sleep(LOOK).await;
    }
}

fn ended_at_once(place: &Place, launch: &Launch<'_>) -> String {
    let usual = place.home.join("logs").join("longshore.log");
    let log = launch.common.log_file.as_ref().unwrap_or(&usual);
    format!("the daemon ended at once; {} says why", log.display())
}

/// Whether an error says that nobody listens.
fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args;

    #[test]
    fn a_daemon_is_told_all_its_starter_was() {
        let env = Env::of([("A", "b")]).with_start_dir("/here");
        let common = Common {
            home: Some("elsewhere".into()),
            config: Some("c.toml".into()),
            assignments: vec!["a=1".into(), "b=2".into()],
            model: Some("m".into()),
            log_level: Some("debug".into()),
            log_file: Some("/var/l.log".into()),
            log_json: true,
        };
        let mut options = DaemonOptions::default();
        options.listen_at("ws://0.0.0.0:0").unwrap();
        options.anywhere = true;
        let launch = Launch::new(&env, &common, BegunBy::Attach, options);
        let place = Place::in_home("/here/elsewhere".as_ref());
        let parsed = args::parse(launch.arguments(&place)).unwrap();
        let absolute = Common {
            home: Some("/here/elsewhere".into()),
            config: Some("/here/c.toml".into()),
            ..common.clone()
        };
        assert_eq!(parsed.common, absolute);
        let told = DaemonOptions {
            begun_by: BegunBy::Attach,
            ..options
        };
        let run = super::super::Daemon::Run(told);
        assert_eq!(parsed.command, args::Command::Daemon(run));
    }
}
