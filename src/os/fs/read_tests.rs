#![expect(
    clippy::disallowed_methods,
    reason = "the tests set up and look at files directly"
)]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::*;

#[cfg(not(target_vendor = "apple"))]
fn mkfifo(path: &Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
}

/// Were such an open to wait for the other end, this test would never end.
#[cfg(not(target_vendor = "apple"))]
#[test]
fn only_regular_files_are_opened() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let (fifo, socket) = (dir.join("fifo"), dir.join("socket"));
    mkfifo(&fifo);
    let _listener = UnixListener::bind(&socket).unwrap();
    let link = dir.join("link");
    std::os::unix::fs::symlink(&fifo, &link).unwrap();
    let options = ReplaceOptions::default();
    for (path, kind) in [
        (fifo.as_path(), FileKind::Fifo),
        (&link, FileKind::Fifo),
        (&socket, FileKind::Socket),
        (&dir, FileKind::Dir),
        (Path::new("/dev/null"), FileKind::Device),
    ] {
        let error = open_read(path).unwrap_err();
        assert_eq!(error.not_regular(), Some(kind), "{error}");
        assert!(error.to_string().contains(kind.describe()), "{error}");
        if path != link {
            for error in [
                atomic_replace(&Spot::real(path).unwrap(), &[b"x"], &options).unwrap_err(),
                append_once(&Spot::real(path).unwrap(), b"x", &options).unwrap_err(),
            ] {
                assert!(
                    matches!(error, ReplaceError::NotRegular { kind: k, .. } if k == kind),
                    "{error}"
                );
            }
        }
        create_private_file(path).unwrap_err();
    }
}

#[test]
fn reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    assert_eq!(read_if_present(&path).unwrap(), None);
    assert!(read(&path).unwrap_err().is_not_found());
    std::fs::write(&path, b"caf\xc3\xa9").unwrap();
    assert_eq!(read(&path).unwrap(), b"caf\xc3\xa9");
    assert_eq!(read_prefix(&path, 2).unwrap(), b"ca");
    assert_eq!(read_to_string(&path).unwrap(), "café");
    std::fs::write(&path, b"\xff").unwrap();
    let error = read_to_string(&path).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    assert!(
        error
            .to_string()
            .starts_with(&format!("cannot read {}", path.display())),
        "{error}"
    );
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    open_read(&link).unwrap();
    open_real(&link).unwrap_err();
    open_real(&path).unwrap();
}

#[test]
fn private_things_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let deep = dir.path().join("a/b");
    create_private_dirs(&deep).unwrap();
    create_private_dirs(&deep).unwrap();
    assert_eq!((mode(&dir.path().join("a")), mode(&deep)), (0o700, 0o700));
    let file = deep.join("file");
    write_private(&file, b"secret").unwrap();
    assert_eq!(
        (mode(&file), read(&file).unwrap().as_slice()),
        (0o600, b"secret".as_slice())
    );
    assert_eq!(
        write_private(&file, b"x").unwrap_err().kind(),
        std::io::ErrorKind::AlreadyExists
    );
    drop(create_private_file(&file).unwrap());
    assert_eq!(read(&file).unwrap(), b"secret");
    sync_dir(&deep).unwrap();
    assert!(remove_file_if_present(&file).unwrap());
    assert!(!remove_file_if_present(&file).unwrap());
    remove_tree(&dir.path().join("a")).unwrap();
    remove_tree(&dir.path().join("a")).unwrap();
}

#[test]
fn lists_sorted_without_following_links() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("b"), "").unwrap();
    std::fs::create_dir(dir.path().join("a")).unwrap();
    std::os::unix::fs::symlink("a", dir.path().join("c")).unwrap();
    let entries = list_dir(dir.path()).unwrap();
    let seen: Vec<_> = entries
        .iter()
        .map(|entry| (entry.name.to_str().unwrap(), entry.kind))
        .collect();
    assert_eq!(
        seen,
        [
            ("a", FileKind::Dir),
            ("b", FileKind::File),
            ("c", FileKind::Symlink)
        ]
    );
    assert_eq!(kind_of(&dir.path().join("c")), Some(FileKind::Dir));
    assert_eq!(kind_of(&dir.path().join("d")), None);
    assert!(list_dir(&dir.path().join("d")).unwrap_err().is_not_found());
}
