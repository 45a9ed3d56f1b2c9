//! `longshore supervise`: carries one command for a server that may end before it. Started by servers, not by people.

use std::ffi::OsString;
use std::process::ExitCode;

use super::terminal::complain;
use crate::background::{Supervision, supervise};
use crate::os::clock::SystemClock;
use crate::os::env::Env;
use crate::os::process::{Processes, begin_session};
use crate::os::signal::{self, StopSignals};
use crate::os::stdio;

/// Runs until nothing of the command is left.
pub(super) fn run(env: Env, args: &[OsString]) -> ExitCode {
    let Some(work) = Supervision::parse(args) else {
        complain("longshore supervise is started by longshore itself.");
        return ExitCode::from(2);
    };
    stdio::seal_inherited();
    let prepared = begin_session().and_then(|()| signal::reset_inherited());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let (Ok(()), Ok(runtime)) = (prepared, runtime) else {
        return ExitCode::FAILURE;
    };
    runtime.block_on(async {
        let processes = Processes::new(None);
        let (Ok(signals), Ok(())) = (StopSignals::listen(), processes.adopt_orphans()) else {
            return ExitCode::FAILURE;
        };
        let ended = processes.clone();
        supervise(work, &env, processes, SystemClock::shared(), signals).await;
        ended.kill_all(std::time::Duration::ZERO).await;
        ExitCode::SUCCESS
    })
}
