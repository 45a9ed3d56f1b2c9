//! What the system says about a process.

use std::fs;

/// Memory of a process, in MiB.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Its share of everything that is resident.
    pub(crate) pss: f64,
    /// The part that no file stands behind.
    pub(crate) anonymous: f64,
}

/// Reads the memory of a process.
pub(crate) fn memory(pid: u32) -> Memory {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let mib = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default();
        line.split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse::<f64>().ok())
            .unwrap_or(0.0)
            / 1024.0
    };
    Memory {
        pss: mib("Pss:"),
        anonymous: mib("Anonymous:"),
    }
}

/// Processor time of a process so far, in seconds; threads that have ended are not in it.
pub(crate) fn cpu(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let ns: f64 = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<f64>().ok())
        .sum();
    ns / 1e9
}

/// The middle one.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
