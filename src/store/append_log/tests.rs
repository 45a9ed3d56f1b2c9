#![expect(
    clippy::disallowed_methods,
    reason = "the tests look at the files behind the log"
)]

use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;
use crate::os::fs::{Fault, FaultyDisk, Op};

fn dir() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    (dir, path)
}

fn lines(path: &Path) -> Vec<String> {
    LineReader::open_all(path)
        .unwrap()
        .lines()
        .map(|line| String::from_utf8(line.unwrap().1).unwrap())
        .collect()
}

#[test]
fn appends_and_reads_back() {
    let (_dir, path) = dir();
    let OpenedLog { mut log, torn } = AppendLog::open(&path).unwrap();
    assert_eq!((torn, log.len(), log.is_empty()), (None, 0, true));
    assert_eq!(log.append(b"one").unwrap(), 0..4);
    assert_eq!(log.append_all(["two", "", "three"]).unwrap(), 4..15);
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(lines(&path), ["one", "two", "", "three"]);
    let offsets: Vec<_> = log
        .read_from(4)
        .unwrap()
        .lines()
        .map(|line| line.unwrap().0)
        .collect();
    assert_eq!(offsets, [4, 8, 9]);
    drop(log);
    let OpenedLog { mut log, torn } = AppendLog::open(&path).unwrap();
    assert_eq!((torn, log.len()), (None, 15));
    log.append(b"four").unwrap();
    assert_eq!(lines(&path).len(), 5);
}

#[test]
fn a_reader_stops_at_what_was_appended_when_it_opened() {
    let (_dir, path) = dir();
    let mut log = AppendLog::open(&path).unwrap().log;
    log.append(b"one").unwrap();
    let reader = log.read_from(0).unwrap();
    log.append(b"two").unwrap();
    assert_eq!(reader.lines().count(), 1);
}

#[test]
fn a_torn_tail_is_cut_and_reported() {
    let long = "x".repeat(200_000);
    for (content, kept, torn) in [
        ("", 0, None),
        ("whole\n", 6, None),
        ("whole\nhal", 6, Some((6, 3))),
        ("hal", 0, Some((0, 3))),
        ("whole\n\0\0\0\0", 6, Some((6, 4))),
        (&format!("whole\n{long}"), 6, Some((6, 200_000))),
        (&format!("{long}\n"), 200_001, None),
    ] {
        let (_dir, path) = dir();
        std::fs::write(&path, content).unwrap();
        let n_visible = LineReader::open_all(&path).unwrap().lines().count();
        let opened = AppendLog::open(&path).unwrap();
        let torn = torn.map(|(offset, n_bytes)| TornTail {
            offset,
            n_bytes,
            tail: Tail::Cut,
        });
        assert_eq!((opened.log.len(), opened.torn), (kept, torn));
        assert_eq!(
            std::fs::read(&path).unwrap(),
            &content.as_bytes()[..kept as usize]
        );
        assert_eq!(
            lines(&path).len(),
            n_visible,
            "a partial line is never shown"
        );
    }
}

#[test]
fn a_newline_inside_a_line_is_refused() {
    let (_dir, path) = dir();
    let mut log = AppendLog::open(&path).unwrap().log;
    let error = log.append(b"a\nb").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(std::fs::read(&path).unwrap(), b"");
}

/// Whatever happens at whichever write, the file holds exactly the lines whose append succeeded.
#[test]
fn no_failed_write_leaves_half_a_line() {
    let faults = [
        Fault::Errno(libc::ENOSPC),
        Fault::Errno(libc::EIO),
        Fault::Errno(libc::EINTR),
        Fault::Short(0),
        Fault::Short(1),
        Fault::Short(5),
    ];
    for fault in faults {
        for then in [
            None,
            Some(Fault::Errno(libc::ENOSPC)),
            Some(Fault::Short(2)),
        ] {
            for nth in 0..6 {
                let mut disk = FaultyDisk::new().fail_at(Op::Write, nth, fault);
                if let Some(then) = then {
                    disk = disk.fail_at(Op::Write, nth + 1, then);
                }
                let (_dir, path) = dir();
                let mut log = AppendLog::open_on(&path, Arc::new(disk)).unwrap().log;
                let mut expected = Vec::new();
                for n in 0..6 {
                    let line = format!("line number {n}");
                    match log.append(line.as_bytes()) {
                        Ok(range) => {
                            expected.push(line);
                            assert_eq!(range.end, log.len());
                        }
                        Err(_) => assert_eq!(lines(&path), expected),
                    }
                    let content = std::fs::read(&path).unwrap();
                    assert_eq!(content.len() as u64, log.len());
                    assert!(content.is_empty() || content.ends_with(b"\n"));
                }
                assert_eq!(lines(&path), expected, "{fault:?} {then:?} at {nth}");
            }
        }
    }
}

#[test]
fn the_error_of_a_full_disk_is_returned() {
    let (_dir, path) = dir();
    let disk = Arc::new(FaultyDisk::new().fail_from(Op::Write, 1, Fault::Errno(libc::ENOSPC)));
    let mut log = AppendLog::open_on(&path, disk.clone()).unwrap().log;
    log.append(b"fits").unwrap();
    let error = log.append(b"does not").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(error.to_string().contains("journal.jsonl"), "{error}");
    disk.heal();
    log.append(b"fits again").unwrap();
    assert_eq!(lines(&path), ["fits", "fits again"]);
}

#[test]
fn a_cut_that_failed_is_made_before_the_next_append() {
    let (_dir, path) = dir();
    let disk = FaultyDisk::new()
        .fail_at(Op::Write, 0, Fault::Short(3))
        .fail_at(Op::Write, 1, Fault::Errno(libc::ENOSPC))
        .fail_at(Op::Truncate, 0, Fault::Errno(libc::EIO))
        .fail_at(Op::Truncate, 1, Fault::Errno(libc::EIO));
    let mut log = AppendLog::open_on(&path, Arc::new(disk)).unwrap().log;
    log.append(b"first").unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), b"fir");
    let error = log.append(b"second").unwrap_err();
    assert_eq!(error.action, "truncate");
    log.append(b"third").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"third\n");
}

#[tokio::test]
async fn a_failed_sync_is_not_forgotten() {
    let (_dir, path) = dir();
    let disk = FaultyDisk::new().fail_at(Op::SyncData, 1, Fault::Errno(libc::EIO));
    let mut log = AppendLog::open_on(&path, Arc::new(disk)).unwrap().log;
    log.append(b"one").unwrap();
    log.sync().await.unwrap();
    log.append(b"two").unwrap();
    assert_eq!(
        log.sync().await.unwrap_err().source.raw_os_error(),
        Some(libc::EIO)
    );
    log.syncer().sync().await.unwrap_err();
    drop(log);
    AppendLog::open(&path).unwrap().log.sync().await.unwrap();
}

#[test]
fn long_lines_are_skipped_and_told() {
    let (_dir, path) = dir();
    let mut log = AppendLog::open(&path).unwrap().log;
    let long = vec![b'x'; 300_000];
    log.append_all([b"a".as_slice(), &long, b"bb"]).unwrap();
    let mut reader = log.read_from(0).unwrap().with_max_line(1000);
    assert_eq!(
        reader.next_line().unwrap(),
        Some(Line::Whole {
            offset: 0,
            bytes: b"a"
        })
    );
    assert_eq!(
        reader.next_line().unwrap(),
        Some(Line::TooLong {
            offset: 2,
            n_bytes: 300_000
        })
    );
    assert_eq!(
        reader.next_line().unwrap(),
        Some(Line::Whole {
            offset: 300_003,
            bytes: b"bb"
        })
    );
    assert_eq!(reader.next_line().unwrap(), None);
    assert_eq!(reader.offset(), log.len());
}

#[test]
fn what_is_not_a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    AppendLog::open(dir.path()).unwrap_err();
    AppendLog::open(Path::new("/dev/null")).unwrap_err();
}
