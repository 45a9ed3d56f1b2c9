//! `longshore serve`: the native protocol on standard input and output.

use std::process::ExitCode;
use std::time::Duration;

use super::args::Common;
use super::server::{self, Streams};
use crate::face::native::Native;
use crate::kernel::limits::SHUTDOWN;
use crate::os::env::Env;

/// What a host gets to read the last messages.
const LAST_WRITES: Duration = Duration::from_millis(500);

/// Serves one host until it is gone.
pub(super) fn run(env: Env, common: &Common) -> ExitCode {
    server::run(
        env,
        common,
        "serve",
        SHUTDOWN,
        async |app, streams, stop| {
            let Streams { input, output } = streams;
            let served = Native::new(app.native_deps(stop))
                .serve(input, output)
                .await;
            // The host sees how its sessions end before the connection does.
            app.shutdown(SHUTDOWN).await;
            served.close(LAST_WRITES).await;
        },
    )
}
