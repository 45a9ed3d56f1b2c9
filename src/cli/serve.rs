//! `longshore serve`: the native protocol on standard input and output.

use std::process::ExitCode;

use super::args::Common;
use super::server::{self, Streams};
use crate::app::native_deps;
use crate::face::native;
use crate::kernel::limits::SHUTDOWN;
use crate::os::env::Env;

/// Serves one host until it is gone.
pub(super) fn run(env: Env, common: &Common) -> ExitCode {
    server::run(env, common, SHUTDOWN, async |app, streams, stop| {
        let Streams { input, output } = streams;
        native::serve(input, output, native_deps(&app), stop).await;
        app.shutdown(SHUTDOWN).await;
    })
}
