//! The table of processes: who is left, and how much memory a process takes.

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Whether an interrupt has an effect on programs started from here. A shell that starts the tests with `&` has it
/// ignored, and a program that begins so leaves it without effect by intent.
pub(crate) fn heeds_interrupts() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_none_or(|mask| mask & (1 << (libc::SIGINT - 1)) == 0)
}

/// A value in the environment by which the processes of one test are known, whoever started them.
pub(crate) struct Mark(String);

impl Mark {
    /// The variable.
    pub(crate) const NAME: &str = "LONGSHORE_E2E_MARK";

    /// One that no other test has.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(format!(
            "{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ))
    }

    pub(crate) fn value(&self) -> &str {
        &self.0
    }

    /// The processes that bear it now; the dead that nobody has waited for do not count.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let wanted = format!("{}={}", Self::NAME, self.0);
        all()
            .filter(|process| {
                let environment =
                    fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
                environment
                    .split(|byte| *byte == 0)
                    .any(|entry| entry == wanted.as_bytes())
            })
            .collect()
    }

    /// Waits until none but these is left.
    pub(crate) fn assert_gone(&self, except: &[u32], within: Duration) {
        let end = Instant::now() + within;
        loop {
            let left: Vec<Process> = self
                .processes()
                .into_iter()
                .filter(|process| !except.contains(&process.pid))
                .collect();
            if left.is_empty() {
                return;
            }
            assert!(
                Instant::now() < end,
                "still there after {within:?}: {left:#?}"
            );
            sleep(Duration::from_millis(20));
        }
    }
}

/// A process.
pub(crate) struct Process {
    pub(crate) pid: u32,
    command: String,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.command)
    }
}

fn all() -> impl Iterator<Item = Process> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let state = state(pid)?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        (state != 'Z').then_some(Process { pid, command })
    })
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until a process is gone.
pub(crate) fn assert_ended(pid: u32, within: Duration) {
    let end = Instant::now() + within;
    while state(pid).is_some_and(|state| state != 'Z') {
        assert!(
            Instant::now() < end,
            "process {pid} is still there after {within:?}"
        );
        sleep(Duration::from_millis(10));
    }
}

/// The most resident memory a process has had, in bytes.
pub(crate) fn peak_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
    kibibytes * 1024
}
