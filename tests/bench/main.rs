//! Benchmarks of the built program, and the table that they write.
//!
//! `cargo bench` measures the release build and writes `tests/bench/RESULTS.md`. Run by `cargo test` the same code goes
//! through every row once with small counts, prints and writes nothing, and fails only where a row can't be measured:
//! machines are shared and noisy, so no test depends on a time.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark talks to a person, drives the program from outside and stops at the first surprise"
)]

mod cron;
mod figures;
mod files;
mod hosts;
mod journal;
mod mock;
mod rows;
mod search;
mod server;
mod sessions;
mod shell;
mod table;

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    /// Enough for a figure.
    Full,
    /// Once through everything.
    Smoke,
}

impl Size {
    fn of(self, full: usize, smoke: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Smoke => smoke,
        }
    }
}

fn main() {
    let size = if std::env::args().any(|argument| argument == "--bench") {
        Size::Full
    } else {
        Size::Smoke
    };
    let mut table = table::Table::default();
    rows::measure(size, &mut table);
    journal::measure(size, &mut table);
    sessions::measure(size, &mut table);
    cron::measure(size, &mut table);
    search::measure(size, &mut table);
    files::measure(size, &mut table);
    shell::measure(size, &mut table);
    hosts::measure(size, &mut table);
    match size {
        Size::Full => table.write(),
        Size::Smoke => println!(
            "bench smoke: {} rows measured once\n1 passed, 0 failed",
            table.len()
        ),
    }
}
