#![expect(
    clippy::disallowed_methods,
    reason = "the tests set up and look at files directly"
)]

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::TempDir;

use super::*;

struct Place {
    dir: TempDir,
    path: PathBuf,
}

impl Place {
    fn with(content: &str) -> Self {
        let place = Self::empty();
        std::fs::write(&place.path, content).unwrap();
        place
    }

    fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("file.txt");
        Self { dir, path }
    }

    fn mode(&self) -> u32 {
        std::fs::metadata(&self.path).unwrap().mode() & 0o7777
    }

    fn set_mode(&self, mode: u32) {
        std::fs::set_permissions(&self.path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap()
    }

    /// Whatever happened, nothing temporary is left.
    fn assert_tidy(&self) {
        for entry in list_dir(self.dir.path()).unwrap() {
            assert!(
                !is_temp_name(&entry.name),
                "{} is left",
                entry.path.display()
            );
        }
    }
}

fn replace(
    path: &Path,
    parts: &[&[u8]],
    options: &ReplaceOptions<'_>,
) -> Result<Replaced, ReplaceError> {
    atomic_replace(&Spot::real(path)?, parts, options)
}

fn append(
    path: &Path,
    bytes: &[u8],
    options: &ReplaceOptions<'_>,
) -> Result<Appended, ReplaceError> {
    append_once(&Spot::real(path)?, bytes, options)
}

/// Does something when a temporary file is about to be made, and keeps account.
struct AtTemp<F> {
    act: F,
    /// Made and not settled yet.
    open: Mutex<Vec<PathBuf>>,
    made: Mutex<Vec<PathBuf>>,
}

impl<F: Fn()> AtTemp<F> {
    fn new(act: F) -> Self {
        Self {
            act,
            open: Mutex::default(),
            made: Mutex::default(),
        }
    }
}

impl<F> std::fmt::Debug for AtTemp<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AtTemp").field(&self.open).finish()
    }
}

impl<F: Fn() + Send + Sync> TempLog for AtTemp<F> {
    fn making(&self, path: &Path, _: TempUse<'_>) {
        assert!(!path.exists());
        (self.act)();
        self.open.lock().unwrap().push(path.to_owned());
        self.made.lock().unwrap().push(path.to_owned());
    }

    fn settled(&self, path: &Path) {
        self.open.lock().unwrap().retain(|open| open != path);
    }

    fn kept(&self, path: &Path) {
        self.settled(path);
    }
}

fn same(path: &Path) -> Expect {
    Expect::Same(stamp_of(path).unwrap())
}

#[test]
fn replaces_and_keeps_the_mode() {
    for mode in [0o644, 0o755, 0o600, 0o640, 0o2755] {
        let place = Place::with("old");
        place.set_mode(mode);
        let before = std::fs::metadata(&place.path).unwrap().ino();
        let options = ReplaceOptions {
            expect: same(&place.path),
            ..ReplaceOptions::default()
        };
        let done = replace(&place.path, &[b"ne", b"", b"w"], &options).unwrap();
        assert_eq!((done.how, done.durable), (How::Renamed, true));
        assert_eq!(done.stamp, stamp_of(&place.path).unwrap());
        assert_eq!((place.text().as_str(), place.mode()), ("new", mode));
        assert_ne!(std::fs::metadata(&place.path).unwrap().ino(), before);
        place.assert_tidy();
    }
}

#[test]
fn a_new_file_takes_the_umask_unless_private() {
    let probe = Place::with("");
    for (new_mode, expected) in [(NewMode::Umask, probe.mode()), (NewMode::Private, 0o600)] {
        let place = Place::empty();
        let options = ReplaceOptions {
            expect: Expect::Absent,
            new_mode,
            ..ReplaceOptions::default()
        };
        let done = replace(&place.path, &[b"new"], &options).unwrap();
        assert_eq!((done.how, place.mode()), (How::Created, expected));
        let error = replace(&place.path, &[b"again"], &options).unwrap_err();
        assert!(matches!(error, ReplaceError::Exists { .. }), "{error}");
        assert_eq!(place.text(), "new");
        place.assert_tidy();
    }
}

#[test]
fn a_file_that_appears_meanwhile_is_not_replaced() {
    for expect in [Expect::Absent, Expect::Any] {
        let place = Place::empty();
        let appear = AtTemp::new(|| std::fs::write(&place.path, "theirs").unwrap());
        let options = ReplaceOptions {
            expect,
            temps: Some(&appear),
            ..ReplaceOptions::default()
        };
        let error = replace(&place.path, &[b"ours"], &options).unwrap_err();
        assert!(
            matches!(
                error,
                ReplaceError::Exists { .. } | ReplaceError::Changed { .. }
            ),
            "{error}"
        );
        assert_eq!(place.text(), "theirs");
        place.assert_tidy();
    }
}

#[test]
fn a_change_underneath_is_noticed() {
    // Before the call, by the stamp.
    let place = Place::with("old");
    let options = ReplaceOptions {
        expect: same(&place.path),
        ..ReplaceOptions::default()
    };
    std::fs::write(&place.path, "theirs").unwrap();
    let error = replace(&place.path, &[b"ours"], &options).unwrap_err();
    assert!(matches!(error, ReplaceError::Changed { .. }), "{error}");
    assert_eq!(place.text(), "theirs");
    // While the temporary file is being written: rewritten, replaced, removed.
    let rewrite: &(dyn Fn(&Path) + Sync) = &|path| std::fs::write(path, "theirs!").unwrap();
    let put_other: &(dyn Fn(&Path) + Sync) = &|path| {
        let other = path.with_extension("other");
        std::fs::write(&other, "old").unwrap();
        std::fs::rename(other, path).unwrap();
    };
    let remove: &(dyn Fn(&Path) + Sync) = &|path| std::fs::remove_file(path).unwrap();
    let close: &(dyn Fn(&Path) + Sync) =
        &|path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o400)).unwrap();
    for change in [rewrite, put_other, remove, close] {
        let place = Place::with("old");
        let meddle = AtTemp::new(|| change(&place.path));
        let options = ReplaceOptions {
            temps: Some(&meddle),
            ..ReplaceOptions::default()
        };
        let error = replace(&place.path, &[b"ours"], &options).unwrap_err();
        assert!(matches!(error, ReplaceError::Changed { .. }), "{error}");
        assert_ne!(std::fs::read(&place.path).unwrap_or_default(), b"ours");
        place.assert_tidy();
    }
}

#[test]
fn a_vanished_file_counts_as_changed() {
    let place = Place::with("old");
    let options = ReplaceOptions {
        expect: same(&place.path),
        ..ReplaceOptions::default()
    };
    std::fs::remove_file(&place.path).unwrap();
    let error = replace(&place.path, &[b"ours"], &options).unwrap_err();
    assert!(matches!(error, ReplaceError::Changed { .. }), "{error}");
    assert!(!place.path.exists());
}

#[test]
fn a_symlink_is_refused_and_its_target_replaced() {
    let place = Place::with("old");
    let link = place.dir.path().join("link");
    std::os::unix::fs::symlink("file.txt", &link).unwrap();
    let options = ReplaceOptions::default();
    let error = replace(&link, &[b"new"], &options).unwrap_err();
    assert!(
        matches!(
            error,
            ReplaceError::NotRegular {
                kind: FileKind::Symlink,
                ..
            }
        ),
        "{error}"
    );
    replace(&real_path(&link).unwrap(), &[b"new"], &options).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(place.text(), "new");
}

#[test]
fn hard_links_are_written_in_place() {
    for backup in [false, true] {
        let place = Place::with("old content");
        let other = place.dir.path().join("other");
        hard_link(&place.path, &other).unwrap();
        let backups = tempfile::tempdir().unwrap();
        let options = ReplaceOptions {
            expect: same(&place.path),
            backup_dir: backup.then_some(backups.path()),
            ..ReplaceOptions::default()
        };
        let done = replace(&place.path, &[b"new"], &options).unwrap();
        assert_eq!(done.how, How::InPlace);
        assert_eq!(done.stamp, stamp_of(&place.path).unwrap());
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "new");
        assert_eq!(std::fs::metadata(&other).unwrap().nlink(), 2);
        assert!(list_dir(backups.path()).unwrap().is_empty());
        place.assert_tidy();
    }
}

#[test]
fn what_cannot_be_renamed_is_written_in_place() {
    for errno in [libc::EBUSY, libc::EXDEV, libc::EPERM, libc::EACCES] {
        let place = Place::with("old");
        let disk = FaultyDisk::new().fail_at(Op::Rename, 0, Fault::Errno(errno));
        let options = ReplaceOptions {
            disk: &disk,
            ..ReplaceOptions::default()
        };
        let before = std::fs::metadata(&place.path).unwrap().ino();
        let done = replace(&place.path, &[b"brand new"], &options).unwrap();
        assert_eq!(done.how, How::InPlace, "errno {errno}");
        assert_eq!(std::fs::metadata(&place.path).unwrap().ino(), before);
        assert_eq!(place.text(), "brand new");
        place.assert_tidy();
    }
}

#[test]
fn a_full_disk_keeps_the_original() {
    for errno in [libc::ENOSPC, libc::EDQUOT, libc::EIO] {
        for (op, nth) in [
            (Op::Write, 0),
            (Op::Write, 1),
            (Op::SyncData, 0),
            (Op::Rename, 0),
        ] {
            for exists in [true, false] {
                let place = if exists {
                    Place::with("old")
                } else {
                    Place::empty()
                };
                let disk = FaultyDisk::new().fail_at(op, nth, Fault::Errno(errno));
                let options = ReplaceOptions {
                    disk: &disk,
                    ..ReplaceOptions::default()
                };
                let error = replace(&place.path, &[b"new", b"er"], &options).unwrap_err();
                let ReplaceError::Fs(error) = error else {
                    panic!("{error}")
                };
                assert_eq!(error.source.raw_os_error(), Some(errno));
                if exists {
                    assert_eq!(place.text(), "old");
                } else {
                    assert!(!place.path.exists());
                }
                place.assert_tidy();
            }
        }
    }
}

#[test]
fn a_failed_write_in_place_is_undone() {
    for (op, nth) in [
        (Op::Write, 0),
        (Op::Write, 1),
        (Op::Truncate, 0),
        (Op::SyncData, 0),
    ] {
        for backup in [false, true] {
            let place = Place::with("the old content");
            hard_link(&place.path, &place.dir.path().join("other")).unwrap();
            let backups = tempfile::tempdir().unwrap();
            let disk = FaultyDisk::new().fail_at(op, nth, Fault::Errno(libc::ENOSPC));
            let options = ReplaceOptions {
                disk: &disk,
                backup_dir: backup.then_some(backups.path()),
                ..ReplaceOptions::default()
            };
            let error = replace(
                &place.path,
                &[b"new and ", b"much longer than before"],
                &options,
            );
            assert_eq!(
                error.unwrap_err().io_kind(),
                Some(io::ErrorKind::StorageFull)
            );
            assert_eq!(place.text(), "the old content", "{op:?} {nth}");
            assert!(list_dir(backups.path()).unwrap().is_empty());
        }
    }
}

#[test]
fn short_writes_are_finished() {
    let place = Place::with("old");
    let disk = FaultyDisk::new().fail_from(Op::Write, 0, Fault::Short(2));
    let options = ReplaceOptions {
        disk: &disk,
        ..ReplaceOptions::default()
    };
    replace(&place.path, &[b"longer than two"], &options).unwrap();
    assert_eq!(place.text(), "longer than two");
}

#[test]
fn a_read_only_file_is_never_bypassed() {
    let place = Place::with("old");
    place.set_mode(0o444);
    let options = ReplaceOptions::default();
    for error in [
        replace(&place.path, &[b"new"], &options).unwrap_err(),
        append(&place.path, b"new", &options).unwrap_err(),
    ] {
        assert!(matches!(error, ReplaceError::ReadOnly { .. }), "{error}");
    }
    assert_eq!((place.text().as_str(), place.mode()), ("old", 0o444));
    place.assert_tidy();
}

#[test]
fn extended_attributes_survive() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let place = Place::with("old");
    let name = c"user.longshore.test";
    if setxattr(&place.path, name, b"value", XattrFlags::empty()).is_err() {
        // This file system has none.
        return;
    }
    let done = replace(&place.path, &[b"new"], &ReplaceOptions::default()).unwrap();
    let mut value = [0; 16];
    let n = getxattr(&place.path, name, value.as_mut_slice()).unwrap();
    assert_eq!((&value[..n], done.how), (b"value".as_slice(), How::Renamed));
}

#[test]
fn the_owner_survives() {
    let place = Place::with("old");
    // Only the superuser can give a file away, and so set this case up.
    if std::os::unix::fs::chown(&place.path, Some(12345), Some(23456)).is_err() {
        return;
    }
    place.set_mode(0o6755);
    replace(&place.path, &[b"new"], &ReplaceOptions::default()).unwrap();
    let meta = std::fs::metadata(&place.path).unwrap();
    assert_eq!(
        (meta.uid(), meta.gid(), meta.mode() & 0o7777),
        (12345, 23456, 0o6755)
    );
}

#[test]
fn every_temporary_file_is_accounted_for() {
    for (fault, how) in [
        (None, Some(How::Renamed)),
        (Some(libc::EBUSY), Some(How::InPlace)),
        (Some(libc::EIO), None),
    ] {
        let place = Place::with("old");
        let backups = place.dir.path().join("backups");
        let log = AtTemp::new(|| ());
        let mut disk = FaultyDisk::new();
        if let Some(errno) = fault {
            disk = disk.fail_at(Op::Rename, 0, Fault::Errno(errno));
        }
        let options = ReplaceOptions {
            temps: Some(&log),
            backup_dir: Some(&backups),
            durability: Durability::Kernel,
            disk: &disk,
            ..ReplaceOptions::default()
        };
        let done = replace(&place.path, &[b"new"], &options);
        assert_eq!(done.as_ref().ok().map(|done| done.how), how);
        assert!(done.is_err() || !done.unwrap().durable);
        let made = log.made.into_inner().unwrap();
        for (path, dir) in made.iter().zip([place.path.parent(), Some(&*backups)]) {
            assert!(is_temp_name(path.file_name().unwrap()));
            assert_eq!(path.parent(), dir);
        }
        let n_made = if how == Some(How::InPlace) { 2 } else { 1 };
        assert_eq!(made.len(), n_made);
        assert_eq!(log.open.into_inner().unwrap(), [] as [PathBuf; 0]);
        place.assert_tidy();
    }
}

#[test]
fn a_write_that_is_called_off_changes_nothing() {
    for (links, exists) in [(false, true), (true, true), (false, false)] {
        let place = if exists {
            Place::with("old")
        } else {
            Place::empty()
        };
        if links {
            hard_link(&place.path, &place.dir.path().join("other")).unwrap();
        }
        let options = ReplaceOptions {
            stop: Some(&|| true),
            ..ReplaceOptions::default()
        };
        let error = replace(&place.path, &[b"new"], &options).unwrap_err();
        assert!(matches!(error, ReplaceError::Stopped { .. }), "{error}");
        assert_eq!(place.path.exists(), exists);
        if exists {
            append(&place.path, b"more", &options).unwrap_err();
            assert_eq!(place.text(), "old");
        }
        place.assert_tidy();
    }
}

#[test]
fn a_directory_that_cannot_be_synced_only_weakens_the_promise() {
    let place = Place::with("old");
    let disk = FaultyDisk::new().fail_at(Op::SyncDir, 0, Fault::Errno(libc::EIO));
    let options = ReplaceOptions {
        disk: &disk,
        ..ReplaceOptions::default()
    };
    let done = replace(&place.path, &[b"new"], &options).unwrap();
    assert_eq!((done.durable, place.text().as_str()), (false, "new"));
}

#[test]
fn appends_once() {
    let place = Place::with("one\n");
    let options = ReplaceOptions {
        expect: same(&place.path),
        ..ReplaceOptions::default()
    };
    let done = append(&place.path, b"two\n", &options).unwrap();
    assert_eq!(
        (done.offset, done.stamp),
        (4, stamp_of(&place.path).unwrap())
    );
    assert_eq!(place.text(), "one\ntwo\n");
    let error = append(&place.path, b"three\n", &options).unwrap_err();
    assert!(matches!(error, ReplaceError::Changed { .. }), "{error}");
    for fault in [Fault::Short(2), Fault::Errno(libc::ENOSPC)] {
        let disk = FaultyDisk::new().fail_at(Op::Write, 0, fault);
        let options = ReplaceOptions {
            disk: &disk,
            ..ReplaceOptions::default()
        };
        let error = append(&place.path, b"three\n", &options).unwrap_err();
        assert_eq!(error.io_kind(), Some(io::ErrorKind::StorageFull));
        assert_eq!(place.text(), "one\ntwo\n");
    }
}
