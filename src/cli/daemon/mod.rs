//! `longshore daemon`: one server per home on a Unix socket, which outlives its hosts.
//!
//! `options` is its part of the command line, `place` where it is met, `launch` finds or starts it, `control` has the
//! commands that speak with one, `server` is the daemon itself, `entrance` lets hosts in.
//!
//! Invariants:
//! - one daemon per home: it holds `run/daemon.lock` from before it listens to its end, and the lock dies with it;
//! - the name of the socket always leads to somebody who listens, or to nobody; whoever replaces it holds that lock;
//! - the record `run/<pid>.json` stands before the socket does;
//! - nothing that longshore started may be a host here, as far as that can be told.
//!
//! Start reading at `server`.

mod control;
mod entrance;
mod launch;
mod options;
mod place;
mod server;
mod websocket;

pub(super) use self::entrance::STARTED_BY_LONGSHORE;
pub(super) use self::launch::{Launch, Reached, find, reach};
pub(super) use self::options::{BegunBy, Daemon, DaemonOptions, StopWhen};
pub(super) use self::place::Place;

use std::process::ExitCode;

use super::args::Common;
use super::record::is_begun_by_longshore;
use super::terminal::complain;
use crate::os::env::Env;
use crate::os::process::is_in_a_task;

/// Does what the command line says.
pub(super) fn run(env: Env, common: &Common, what: Daemon) -> ExitCode {
    // A daemon takes its rules from the variables and options it is started with, and other hosts live by them.
    let may_not = match Place::of(&env, common) {
        Ok(place) => is_begun_by_longshore(&place.run),
        Err(_) => is_in_a_task(),
    };
    if what != Daemon::Status && may_not {
        complain(
            "longshore: a command that longshore runs can't start or stop the daemon; run this in a terminal of your own.",
        );
        return ExitCode::FAILURE;
    }
    match what {
        Daemon::Run(options) => server::run(env, common, options),
        Daemon::Start(options) => control::start(&env, common, options),
        Daemon::Stop(when) => control::stop(&env, common, when),
        Daemon::Status => control::status(&env, common),
    }
}
