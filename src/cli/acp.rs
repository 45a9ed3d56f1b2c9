//! `longshore acp`: the Agent Client Protocol on standard input and output.

use std::process::ExitCode;

use super::args::Common;
use crate::os::env::Env;

pub(super) fn run(_: Env, _: &Common) -> ExitCode { ExitCode::FAILURE }
