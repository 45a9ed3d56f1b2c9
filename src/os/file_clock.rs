//! A clock whose wall time stands in a file, for tests of the real binary that would else wait for hours.
//!
//! The first line of the file is milliseconds since 1970; the time stands still until the file says another. What can't
//! be read so is no time: then the machine's own counts. Elapsed time is always the machine's.

use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;

use super::clock::{Clock, SystemClock};
use super::fs;
use crate::kernel::time::Timestamp;

/// More of the file is not read.
const MAX_BYTES: u64 = 64;
/// How often a sleeper looks whether the time was changed.
const LOOK: Duration = Duration::from_millis(10);

/// A clock whose wall time stands in a file.
#[derive(Debug)]
pub struct FileClock {
    path: PathBuf,
    machine: SystemClock,
}

impl FileClock {
    /// The clock of a file, which need not be there yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            machine: SystemClock::new(),
        }
    }

    fn read(&self) -> Option<Timestamp> {
        let bytes = fs::read_prefix(&self.path, MAX_BYTES).ok()?;
        let text = std::str::from_utf8(&bytes).ok()?;
        text.lines().next()?.trim().parse().ok().map(Timestamp)
    }
}

impl Clock for FileClock {
    fn now(&self) -> Timestamp {
        self.read().unwrap_or_else(|| self.machine.now())
    }

    fn elapsed(&self) -> Duration {
        self.machine.elapsed()
    }

    /// Ends as soon as the file says another time, too: nobody writes it to be waited for.
    fn sleep_until(&self, elapsed: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let before = self.read();
            while self.machine.elapsed() < elapsed && self.read() == before {
                let left = elapsed.saturating_sub(self.machine.elapsed());
                tokio::time::sleep(left.min(LOOK)).await;
            }
        })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests set up files directly")]
mod tests {
    use super::*;

    fn clock(content: &[u8]) -> (tempfile::TempDir, FileClock) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clock");
        std::fs::write(&path, content).unwrap();
        (dir, FileClock::new(path))
    }

    #[test]
    fn what_the_file_says() {
        for (content, ms) in [
            ("1772323200000", Some(1_772_323_200_000)),
            ("1772323200000\nand more", Some(1_772_323_200_000)),
            (" 5 \n", Some(5)),
            ("-1", Some(-1)),
            ("", None),
            ("tomorrow", None),
            ("99999999999999999999999", None),
        ] {
            let (_dir, clock) = clock(content.as_bytes());
            assert_eq!(clock.read().map(|at| at.0), ms, "{content}");
            let machine = Timestamp(1_735_689_600_000);
            assert!(ms.is_some() || clock.now() > machine, "the machine's");
        }
        let (_dir, clock) = clock(&[b' '; 100]);
        assert_eq!(clock.read(), None, "no more than 64 bytes are read");
        assert_eq!(FileClock::new("/nowhere/clock".into()).read(), None);
    }

    #[tokio::test]
    async fn a_sleeper_feels_the_time_being_changed() {
        let (_dir, clock) = clock(b"1000");
        let sleep = clock.sleep_until(Duration::from_secs(3600));
        tokio::pin!(sleep);
        assert!(futures::poll!(sleep.as_mut()).is_pending());
        std::fs::write(&clock.path, "2000").unwrap();
        sleep.await;
        assert_eq!(clock.now(), Timestamp(2000));
        clock.sleep_until(Duration::ZERO).await;
    }
}
