//! `longshore acp`: the Agent Client Protocol on standard input and output.

use std::process::ExitCode;
use std::time::Duration;

use super::args::Common;
use super::server::{self, Streams};
use crate::face::acp::Acp;
use crate::kernel::limits::ACP_SHUTDOWN;
use crate::os::env::Env;

/// What the client gets to read the last messages; a part of the time to the exit.
const LAST_WRITES: Duration = Duration::from_millis(300);

/// Serves one client until it is gone.
pub(super) fn run(env: Env, common: &Common) -> ExitCode {
    server::run(
        env,
        common,
        "acp",
        ACP_SHUTDOWN,
        async |app, streams, stop| {
            let Streams { input, output } = streams;
            let served = Acp::new(app.acp_deps(stop)).serve(input, output).await;
            // The client sees how its prompts end before the connection does.
            app.shutdown(ACP_SHUTDOWN.saturating_sub(LAST_WRITES)).await;
            served.close(LAST_WRITES).await;
        },
    )
}
