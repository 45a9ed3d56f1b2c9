//! How much memory this process uses.

/// Resident memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Pages in RAM, shared ones included.
    pub rss_bytes: u64,
    /// Pages in RAM that only this process uses, where the system tells.
    pub private_bytes: Option<u64>,
}

/// Measures this process. `None` where the system does not say. Takes well under a millisecond; blocking, but on a
/// file that is not on a disk.
#[cfg(target_os = "linux")]
pub fn measure() -> Option<Memory> {
    let statm = super::fs::read_to_string(std::path::Path::new("/proc/self/statm")).ok()?;
    let rss_pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    let rollup = super::fs::read_to_string(std::path::Path::new("/proc/self/smaps_rollup")).ok();
    Some(Memory {
        rss_bytes: rss_pages * rustix::param::page_size() as u64,
        private_bytes: rollup.as_deref().and_then(private_bytes),
    })
}

/// Measures this process. This system is not asked.
#[cfg(not(target_os = "linux"))]
pub fn measure() -> Option<Memory> {
    None
}

/// Sums the `Private_*` lines, which are in KiB.
#[cfg(target_os = "linux")]
fn private_bytes(rollup: &str) -> Option<u64> {
    rollup
        .lines()
        .filter(|line| line.starts_with("Private_Clean:") || line.starts_with("Private_Dirty:"))
        .map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum::<Option<u64>>()
        .map(|kib| kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn grows_with_use() {
        let before = super::measure().unwrap();
        assert!(before.rss_bytes > 500_000, "{before:?}");
        let block = vec![1_u8; 64 << 20];
        let after = super::measure().unwrap();
        assert!(
            after.rss_bytes > before.rss_bytes + (32 << 20),
            "{before:?} {after:?} {}",
            block.len()
        );
    }

    #[test]
    fn sums_private_pages() {
        let rollup = "Rss: 9 kB\nPrivate_Clean:         4 kB\nPrivate_Dirty:       100 kB\nShared_Dirty: 7 kB\n";
        assert_eq!(super::private_bytes(rollup), Some(104 * 1024));
    }
}
