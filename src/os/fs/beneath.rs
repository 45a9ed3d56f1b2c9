//! Looking a path up without following a link in any of its components.
//!
//! A path that was resolved and judged is opened like this, so that a directory or file that was swapped for a link
//! meanwhile is an error instead of a way out. Linux does it in one call; elsewhere, and where that call is not
//! there or not let through, the path is walked a component at a time. Both give the same answers.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Flags of a handle on a directory that serves only to look up what is in it.
#[cfg(target_os = "linux")]
pub(super) const DIR_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
pub(super) const DIR_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Opens what `relative` names beneath `dir`; the empty path is the directory itself.
///
/// # Errors
/// A link in any component is `ELOOP`. A path with `..` or a root in it is refused as invalid.
pub(super) fn open(
    dir: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let plain = |component| matches!(component, Component::Normal(_));
    if !relative.components().all(plain) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    #[cfg(target_os = "linux")]
    match by_kernel(dir, relative, flags, mode) {
        // Kernels before 5.6, and filters that refuse calls they do not know.
        Err(Errno::NOSYS | Errno::PERM) => {}
        answer => return Ok(answer?),
    }
    Ok(by_steps(dir, relative, flags, mode)?)
}

#[cfg(target_os = "linux")]
fn by_kernel(
    dir: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // A mode without a file to be created is an error in this call.
    let mode = if flags.contains(OFlags::CREATE) {
        mode
    } else {
        Mode::empty()
    };
    rustix::fs::openat2(dir, or_itself(relative), flags, mode, resolve)
}

fn by_steps(
    dir: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let mut components = or_itself(relative).components().peekable();
    let mut held: Option<OwnedFd> = None;
    while let Some(component) = components.next() {
        let within = held.as_ref().map_or(dir, AsFd::as_fd);
        let flags = if components.peek().is_some() {
            DIR_FLAGS
        } else {
            flags
        };
        let name = Path::new(component.as_os_str());
        match rustix::fs::openat(within, name, flags | OFlags::NOFOLLOW, mode) {
            Ok(opened) => held = Some(opened),
            // Systems have several ways to say that they were to follow a link.
            Err(error) if error != Errno::NOENT && is_link(within, name) => {
                return Err(Errno::LOOP);
            }
            Err(error) => return Err(error),
        }
    }
    held.ok_or(Errno::INVAL)
}

fn is_link(dir: BorrowedFd<'_>, name: &Path) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink())
}

fn or_itself(relative: &Path) -> &Path {
    if relative.as_os_str().is_empty() {
        Path::new(".")
    } else {
        relative
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        reason = "the tests set up and look at files directly"
    )]

    use std::os::unix::fs::symlink;

    use super::*;

    type Way = fn(BorrowedFd<'_>, &Path, OFlags, Mode) -> rustix::io::Result<OwnedFd>;

    /// Both ways, told apart by name; the kernel's only where this one has it.
    fn ways() -> Vec<(&'static str, Way)> {
        let mut ways: Vec<(_, Way)> = vec![("steps", by_steps)];
        #[cfg(target_os = "linux")]
        {
            let root = rustix::fs::open("/", DIR_FLAGS, Mode::empty()).unwrap();
            if by_kernel(root.as_fd(), Path::new(""), DIR_FLAGS, Mode::empty()).is_ok() {
                ways.push(("kernel", by_kernel));
            }
        }
        ways
    }

    #[test]
    fn no_link_is_followed_whichever_way() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("d/e")).unwrap();
        std::fs::write(base.join("d/e/f"), "x").unwrap();
        symlink("d", base.join("to_dir")).unwrap();
        symlink("f", base.join("d/e/to_file")).unwrap();
        symlink("/etc", base.join("d/out")).unwrap();
        symlink("nothing", base.join("dangling")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        let root = rustix::fs::open(&base, DIR_FLAGS, Mode::empty()).unwrap();
        let cases = [
            ("d/e/f", Ok(())),
            ("d/e/missing", Err(Errno::NOENT)),
            ("d/missing/f", Err(Errno::NOENT)),
            ("d/e/f/below", Err(Errno::NOTDIR)),
            ("to_dir", Err(Errno::LOOP)),
            ("to_dir/e/f", Err(Errno::LOOP)),
            ("d/e/to_file", Err(Errno::LOOP)),
            ("d/out/hosts", Err(Errno::LOOP)),
            ("dangling", Err(Errno::LOOP)),
            ("loop", Err(Errno::LOOP)),
            ("loop/x", Err(Errno::LOOP)),
        ];
        for (way, open) in ways() {
            for (path, expected) in cases {
                let got = open(root.as_fd(), Path::new(path), OFlags::RDONLY, Mode::empty());
                assert_eq!(got.map(drop), expected, "{path} by {way}");
            }
            for (path, expected) in [("d/e", Ok(())), ("", Ok(())), ("to_dir", Err(Errno::LOOP))] {
                let got = open(root.as_fd(), Path::new(path), DIR_FLAGS, Mode::empty());
                assert_eq!(got.map(drop), expected, "{path} as a directory by {way}");
            }
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let mode = Mode::from_raw_mode(0o600);
            let new = format!("d/e/new-{way}");
            open(root.as_fd(), Path::new(&new), flags, mode).unwrap();
            assert!(base.join(&new).exists());
            let outside = open(root.as_fd(), Path::new("d/out/new"), flags, mode);
            assert_eq!(outside.map(drop), Err(Errno::LOOP), "by {way}");
        }
    }

    #[test]
    fn nothing_leads_up_or_to_the_root() {
        let temp = tempfile::tempdir().unwrap();
        let root = rustix::fs::open(temp.path(), DIR_FLAGS, Mode::empty()).unwrap();
        for path in ["..", "a/../..", "/etc/hosts", "/"] {
            let error = open(root.as_fd(), Path::new(path), OFlags::RDONLY, Mode::empty());
            assert_eq!(
                error.map(drop).unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{path}"
            );
        }
    }
}
