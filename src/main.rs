//! The `longshore` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    longshore::cli::main(
        longshore::os::env::Env::of_process(),
        std::env::args_os().skip(1).collect(),
    )
}
