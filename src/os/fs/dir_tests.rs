#![expect(
    clippy::disallowed_methods,
    reason = "the tests set up and look at files directly"
)]

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tempfile::TempDir;

use super::*;

/// `in/d/f` and `out/f`; links resolved.
fn tree() -> (TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let base = temp.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("in/d")).unwrap();
    fs::create_dir(base.join("out")).unwrap();
    fs::write(base.join("in/d/f"), "inside").unwrap();
    fs::write(base.join("out/f"), "outside").unwrap();
    (temp, base)
}

#[test]
fn a_swapped_directory_is_met_at_every_door() {
    let (_temp, base) = tree();
    let path = base.join("in/d/f");
    let held = Spot::real(&path).unwrap();
    fs::rename(base.join("in/d"), base.join("in/away")).unwrap();
    symlink(base.join("out"), base.join("in/d")).unwrap();
    for error in [
        Spot::real(&path).unwrap_err(),
        Spot::real_making_dirs(&path).unwrap_err(),
        Spot::real_making_dirs(&base.join("in/d/new/f")).unwrap_err(),
        open_real(&path).unwrap_err(),
        kind_of_real(&path).unwrap_err(),
        kind_of_real(&base.join("in/d")).unwrap_err(),
        Dir::real(&base)
            .unwrap()
            .open_file(Path::new("in/d/f"))
            .unwrap_err(),
    ] {
        assert!(error.met_link(), "{error}");
    }
    // What was opened before is the directory that was judged; but its path does not name it any more.
    let mut text = String::new();
    held.open().unwrap().0.read_to_string(&mut text).unwrap();
    assert_eq!(text, "inside");
    let options = ReplaceOptions::default();
    for error in [
        atomic_replace(&held, &[b"new"], &options).unwrap_err(),
        append_once(&held, b"new", &options).unwrap_err(),
    ] {
        assert!(matches!(error, ReplaceError::Moved { .. }), "{error}");
    }
    assert_eq!(
        fs::read_to_string(base.join("in/away/f")).unwrap(),
        "inside"
    );
    assert_eq!(list_dir(&base.join("in/away")).unwrap().len(), 1);
    assert_eq!(list_dir(&base.join("out")).unwrap().len(), 1);
}

#[test]
fn missing_directories_are_made_and_taken_back() {
    let (_temp, base) = tree();
    let (spot, made) = Spot::real_making_dirs(&base.join("in/d/a/b/f")).unwrap();
    assert_eq!(made.paths(), [base.join("in/d/a"), base.join("in/d/a/b")]);
    atomic_replace(&spot, &[b"x"], &ReplaceOptions::default()).unwrap();
    made.undo();
    assert!(base.join("in/d/a/b/f").exists(), "what is in use stays");
    let (_, made) = Spot::real_making_dirs(&base.join("in/d/a/b/g")).unwrap();
    assert!(made.paths().is_empty());
    let (_, made) = Spot::real_making_dirs(&base.join("in/n/m/f")).unwrap();
    made.undo();
    assert!(!base.join("in/n").exists());

    let error = Spot::real_making_dirs(&base.join("in/d/f/below/x")).unwrap_err();
    assert_eq!(
        (error.not_directory(), error.path.as_path()),
        (Some(FileKind::File), base.join("in/d/f").as_path())
    );
    assert_eq!(
        Spot::real(&base.join("in/d/f/x")).unwrap_err().kind(),
        ErrorKind::NotADirectory
    );
    assert!(Spot::real(&base.join("no/x")).unwrap_err().is_not_found());
    assert!(Spot::real(Path::new("relative/x")).is_err());
}

/// Tells the other thread to stop, also by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A thread swaps a directory for a link to the outside and back, without end, while files are read, written, added to
/// and made below it. Now and then it lets the other side come to the end of what that does.
#[test]
fn nothing_is_read_or_written_through_a_link_however_the_race_goes() {
    let (_temp, base) = tree();
    let (stop, n_ended) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (dir, away) = (base.join("in/d"), base.join("in/away"));
    thread::scope(|scope| {
        scope.spawn(|| {
            let wait_for = |n_more: usize| {
                let n = n_ended.load(Ordering::Relaxed) + n_more;
                while n_ended.load(Ordering::Relaxed) < n && !stop.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            };
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                wait_for(n % 4);
                fs::rename(&dir, &away).unwrap();
                if symlink(base.join("out"), &dir).is_ok() {
                    wait_for(n % 2);
                    fs::remove_file(&dir).unwrap();
                }
                // Where nothing stood for a moment, the other side may have made a directory.
                while fs::rename(&away, &dir).is_err() {
                    drop(fs::remove_dir_all(&dir));
                }
            }
        });
        let _stop = Stop(&stop);
        let mut n_done = [0; 4];
        for n in 0..2000 {
            let path = dir.join("f");
            let options = ReplaceOptions {
                durability: Durability::Kernel,
                ..ReplaceOptions::default()
            };
            let done = match n % 4 {
                0 => open_real(&path).is_ok_and(|(mut file, _)| {
                    let mut text = String::new();
                    file.read_to_string(&mut text).unwrap();
                    assert!(text.starts_with("inside"), "{text}");
                    true
                }),
                1 => Spot::real(&path)
                    .is_ok_and(|spot| atomic_replace(&spot, &[b"inside", b"!"], &options).is_ok()),
                2 => Spot::real(&path).is_ok_and(|spot| append_once(&spot, b"+", &options).is_ok()),
                _ => Spot::real_making_dirs(&dir.join(format!("new-{n}/f"))).is_ok_and(
                    |(spot, made)| {
                        let done = atomic_replace(&spot, &[b"inside"], &options).is_ok();
                        if !done {
                            made.undo();
                        }
                        done
                    },
                ),
            };
            n_done[n % 4] += usize::from(done);
            n_ended.fetch_add(1, Ordering::Relaxed);
        }
        assert!(n_done.iter().all(|n| *n > 0), "{n_done:?}");
    });
    let outside = list_dir(&base.join("out")).unwrap();
    assert_eq!(outside.len(), 1, "{outside:?}");
    assert_eq!(fs::read_to_string(base.join("out/f")).unwrap(), "outside");
}
