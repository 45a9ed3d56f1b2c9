#![expect(
    clippy::disallowed_methods,
    reason = "the tests set up and look at files directly"
)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::os::fs::TEMP_PREFIX;

struct Place {
    _temp: TempDir,
    base: PathBuf,
}

impl Place {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        Self { _temp: temp, base }
    }

    /// The account as this process keeps it.
    fn own(&self) -> Cleanup {
        Cleanup::new(&self.base.join("run"))
    }

    /// The account as a process keeps it that is no more.
    fn dead(&self) -> Cleanup {
        self.of(1)
    }

    /// The account as one of several such processes keeps it, counted from 1.
    fn of(&self, who: u64) -> Cleanup {
        Cleanup {
            own: Identity {
                pid: std::process::id(),
                start: Identity::own().start + who,
            },
            ..self.own()
        }
    }

    fn temp(&self, name: &str) -> PathBuf {
        self.base.join(format!("{TEMP_PREFIX}{name}"))
    }

    fn lines(&self) -> usize {
        self.own().read().unwrap().len()
    }
}

/// Puts a file on account and makes it.
fn leave(cleanup: &Cleanup, path: &Path, what_for: TempUse<'_>, content: &str) {
    cleanup.making(path, what_for);
    std::fs::write(path, content).unwrap();
}

#[test]
fn what_the_dead_left_is_removed_and_nothing_else() {
    let place = Place::new();
    let odd = place.base.join(OsStr::from_bytes(b"odd\xFF"));
    std::fs::create_dir(&odd).unwrap();
    let odd = odd.join(format!("{TEMP_PREFIX}z"));
    let (dead, own) = (place.dead(), place.own());
    for path in [&place.temp("a"), &odd] {
        leave(&dead, path, TempUse::Incoming, "half");
    }
    leave(&own, &place.temp("mine"), TempUse::Incoming, "half");
    // Never made; a file of another name; a directory; through a link.
    dead.making(&place.temp("never"), TempUse::Incoming);
    leave(&dead, &place.base.join("precious"), TempUse::Incoming, "x");
    dead.making(&place.temp("dir"), TempUse::Incoming);
    std::fs::create_dir(place.temp("dir")).unwrap();
    std::fs::create_dir(place.base.join("real")).unwrap();
    symlink("real", place.base.join("link")).unwrap();
    let behind = format!("{TEMP_PREFIX}l");
    let linked = place.base.join("link").join(&behind);
    leave(&dead, &linked, TempUse::Incoming, "x");
    // A line that a full disk cut.
    let file = place.base.join("run/cleanup.jsonl");
    let mut text = std::fs::read(&file).unwrap();
    text.extend(b"\n{\"pid\":");
    std::fs::write(&file, text).unwrap();
    leave(&dead, &place.temp("after"), TempUse::Incoming, "half");

    let swept = own.sweep().unwrap();
    assert_eq!((swept.n_removed, swept.kept), (3, Vec::new()));
    for gone in [place.temp("a"), odd, place.temp("after")] {
        assert!(!gone.exists(), "{}", gone.display());
    }
    for there in [
        place.temp("mine"),
        place.base.join("precious"),
        place.temp("dir"),
        place.base.join("real").join(&behind),
    ] {
        assert!(there.exists(), "{}", there.display());
    }
    assert_eq!(place.lines(), 1, "what still runs stays on account");
    assert_eq!(place.dead().sweep().unwrap(), Swept::default());
    assert!(place.temp("mine").exists());
}

#[test]
fn a_saved_content_is_removed_only_where_nothing_is_lost() {
    let place = Place::new();
    let dead = place.dead();
    let mut expected = Vec::new();
    for (name, now, is_kept) in [
        ("same", Some("old"), false),
        ("half", Some("nld"), true),
        ("gone", None, true),
    ] {
        let (file, saved) = (place.base.join(name), place.temp(name));
        if let Some(now) = now {
            std::fs::write(&file, now).unwrap();
        }
        leave(&dead, &saved, TempUse::SavedOf(&file), "old");
        if is_kept {
            expected.push((saved, file.display().to_string()));
        }
    }
    let swept = place.own().sweep().unwrap();
    assert_eq!((swept.n_removed, swept.kept), (1, expected));
    assert!(place.temp("half").exists() && !place.temp("same").exists());
    assert_eq!(place.own().sweep().unwrap(), Swept::default(), "told once");
    assert!(place.temp("half").exists());
}

#[test]
fn what_is_to_stay_comes_off_the_account_at_once() {
    let place = Place::new();
    let dead = place.dead();
    leave(
        &dead,
        &place.temp("kept"),
        TempUse::SavedOf(Path::new("/f")),
        "old",
    );
    dead.kept(&place.temp("kept"));
    assert_eq!(place.lines(), 0);
    assert_eq!(place.own().sweep().unwrap(), Swept::default());
    assert!(place.temp("kept").exists());
}

#[test]
fn the_account_does_not_grow_with_what_is_settled() {
    let place = Place::new();
    let (own, other) = (place.own(), place.dead());
    other.making(&place.temp("other"), TempUse::Incoming);
    own.making(&place.temp("long"), TempUse::Incoming);
    for n in 0..COMPACT_AT * 2 {
        let path = place.temp(&n.to_string());
        own.making(&path, TempUse::Incoming);
        own.settled(&path);
    }
    assert!(place.lines() <= COMPACT_AT, "{}", place.lines());
    let paths: Vec<_> = own
        .read()
        .unwrap()
        .into_iter()
        .map(|line| line.path)
        .collect();
    assert!(paths.contains(&place.temp("other")) && paths.contains(&place.temp("long")));
}

#[test]
fn processes_do_not_lose_each_others_lines() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for who in 1..=4 {
            let place = &place;
            scope.spawn(move || {
                let own = place.of(who);
                for n in 0..COMPACT_AT {
                    let path = place.temp(&format!("{who}-{n}"));
                    own.making(&path, TempUse::Incoming);
                    if n % 2 == 0 {
                        own.settled(&path);
                    }
                }
                own.kept(&place.temp(&format!("{who}-{}", COMPACT_AT - 1)));
            });
        }
    });
    let lines = place.own().read().unwrap();
    for who in 1..=4 {
        for n in (1..COMPACT_AT - 1).step_by(2) {
            let path = place.temp(&format!("{who}-{n}"));
            assert!(
                lines.iter().any(|line| line.path == path),
                "{}",
                path.display()
            );
        }
    }
}
