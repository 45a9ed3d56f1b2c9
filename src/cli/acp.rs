//! `longshore acp`: the Agent Client Protocol on standard input and output.

use std::process::ExitCode;

use super::args::Common;
use super::server::{self, Streams};
use crate::app::acp_deps;
use crate::face::acp;
use crate::kernel::limits::ACP_SHUTDOWN;
use crate::os::env::Env;

/// Serves one client until it is gone.
pub(super) fn run(env: Env, common: &Common) -> ExitCode {
    server::run(env, common, ACP_SHUTDOWN, async |app, streams, stop| {
        let Streams { input, output } = streams;
        acp::serve(input, output, acp_deps(&app), stop).await;
        app.shutdown(ACP_SHUTDOWN).await;
    })
}
