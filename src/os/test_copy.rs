//! Running one test in a copy of this test binary, for what changes the whole process.

use super::env::{Env, current_exe};
use super::process::Command;

/// Set in the copy.
const IN_COPY: &str = "LONGSHORE_TEST_IN_COPY";

/// Whether this is the copy.
pub(super) fn is_copy() -> bool {
    Env::of_process().get(IN_COPY).is_some()
}

/// A command that runs one test, named by its whole path, in a copy.
pub(super) fn command(test: &str) -> Command {
    let [program, args @ ..] = argv(test);
    Command::new(program, "/").args(args).env(env())
}

/// The same as program and arguments, to be run with [`env`] in its environment.
pub(super) fn argv(test: &str) -> [String; 5] {
    let program = current_exe()
        .unwrap()
        .into_os_string()
        .into_string()
        .unwrap();
    let [a, b, c] = ["--exact", "--nocapture", "--test-threads=1"].map(str::to_owned);
    [program, test.to_owned(), a, b, c]
}

/// What makes the copy one.
pub(super) fn env() -> [(&'static str, &'static str); 2] {
    [(IN_COPY, "1"), ("PATH", "/usr/bin:/bin")]
}
