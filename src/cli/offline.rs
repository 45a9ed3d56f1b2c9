//! Commands that look at what is stored, or change it, without a host.

use std::process::ExitCode;
use std::sync::Arc;

use super::args::Common;
use super::server;
use super::terminal::{complain, say};
use crate::app::{self, App};
use crate::kernel::fault::Fault;
use crate::os::env::Env;
use crate::os::process::Processes;

/// Puts everything together, does the work, and prints what it gives or why it gives nothing.
pub(super) fn run(
    env: Env,
    common: &Common,
    work: impl AsyncFnOnce(&App) -> Result<String, Fault>,
) -> ExitCode {
    let settings = match app::settings(env, &server::options(common)) {
        Ok(settings) => settings,
        Err(error) => {
            complain(&format!("longshore: {error}"));
            return ExitCode::from(2);
        }
    };
    for warning in &settings.config.warnings {
        complain(&format!("longshore: warning: {}", warning.message));
    }
    let runtime = match server::runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("longshore: the runtime could not start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        let app = Arc::new(App::new(settings, Processes::new(None)));
        work(&app).await
    });
    match done {
        Ok(text) => {
            say(text.trim_end());
            ExitCode::SUCCESS
        }
        Err(fault) => {
            complain(&format!("longshore: {}", fault.message));
            ExitCode::FAILURE
        }
    }
}
