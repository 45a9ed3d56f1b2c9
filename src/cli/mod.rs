//! The commands of the binary, one file each. They hold no domain logic: they put the parts together by `app` and
//! speak to a person on the terminal.

mod acp;
mod args;
mod attach;
mod cron;
mod daemon;
mod demo;
mod doctor;
mod driver;
mod headless;
mod logging;
mod person;
mod record;
mod run;
mod schema;
mod serve;
mod server;
mod supervise;
mod terminal;

use std::process::ExitCode;

use self::args::{Command, Parsed};
use self::terminal::{complain, say};
use crate::background::SUPERVISE;
use crate::os::env::Env;

/// Runs the command that the arguments name.
pub fn main(env: Env, arguments: Vec<std::ffi::OsString>) -> ExitCode {
    if let Some((word, rest)) = arguments.split_first()
        && word == SUPERVISE
    {
        return supervise::run(env, rest);
    }
    let parsed = match args::parse(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            complain(&format!("longshore: {error}\nTry `longshore --help`."));
            return ExitCode::from(2);
        }
    };
    let Parsed { command, common } = parsed;
    match command {
        Command::Help => {
            say(args::HELP);
            ExitCode::SUCCESS
        }
        Command::Version => {
            say(&format!("longshore {}", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        Command::Schema { of } => schema::run(of),
        Command::Serve => serve::run(env, &common),
        Command::Acp => acp::run(env, &common),
        Command::Daemon(what) => daemon::run(env, &common, what),
        Command::Attach => attach::run(&env, &common),
        Command::Run(options) => run::run(env, &common, options),
        Command::Demo => demo::run(env, &common),
        Command::Doctor => doctor::run(env, &common),
        Command::Cron(what) => cron::run(env, &common, &what),
    }
}
