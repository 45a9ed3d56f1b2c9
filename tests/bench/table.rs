//! The table of results.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Whether less or more is better.
#[derive(Clone, Copy)]
pub(crate) enum Bar {
    /// The figure may not be above.
    AtMost(f64),
    /// The figure may not be below.
    AtLeast(f64),
}

/// Rows measured so far.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<String>,
}

impl Table {
    /// Adds a row and prints it.
    pub(crate) fn row(&mut self, what: &str, unit: &str, bar: Bar, figure: f64) {
        let (limit, sign, met) = match bar {
            Bar::AtMost(limit) => (limit, "≤", figure <= limit),
            Bar::AtLeast(limit) => (limit, "≥", figure >= limit),
        };
        let verdict = if met { "MET" } else { "MISSED" };
        let ratio = figure / limit;
        let row = format!(
            "| {what} | {sign} {limit} {unit} | {figure:.3} {unit} | {ratio:.2} | {verdict} |"
        );
        println!("{row}");
        self.rows.push(row);
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Writes the committed table.
    pub(crate) fn write(&self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut text = String::from("# Benchmarks\n\nWritten by `cargo bench`; do not edit.\n\n");
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let _ = writeln!(
            text,
            "- Commit: {}",
            said("git", &["describe", "--always", "--dirty"], root)
        );
        let _ = writeln!(
            text,
            "- Machine: {cores} cores, {} of memory, {}",
            memory(),
            std::env::consts::OS
        );
        text.push_str("\n| Row | Bar | Figure | Ratio | |\n|---|---|---|---|---|\n");
        text.push_str(&self.rows.join("\n"));
        text.push('\n');
        std::fs::write(root.join("tests/bench/RESULTS.md"), text).unwrap();
    }
}

fn said(program: &str, arguments: &[&str], dir: &Path) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn memory() -> String {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text
        .lines()
        .next()
        .and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    format!("{} GiB", kib.unwrap_or(0) / (1 << 20))
}
