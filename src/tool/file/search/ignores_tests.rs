#![expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]

use std::fs as disk;

use tempfile::TempDir;

use super::*;

/// A tree of directories (names that end in `/`) and files with their text.
fn tree(entries: &[(&str, &str)]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap();
    for (name, text) in entries {
        let path = real.join(name);
        if name.ends_with('/') {
            disk::create_dir_all(path).unwrap();
        } else {
            disk::create_dir_all(path.parent().unwrap()).unwrap();
            disk::write(path, text).unwrap();
        }
    }
    (dir, real)
}

/// Whether a search that began in `root` leaves an entry out, going down to it as a walk does.
fn is_hidden(root: &Path, entry: &str) -> bool {
    let mut rules = Rules::above(root);
    let mut path = root.to_owned();
    let names: Vec<_> = Path::new(entry).iter().collect();
    for (index, name) in names.iter().enumerate() {
        rules = rules.below(&path, Present::look(&path));
        path.push(name);
        let is_dir = index + 1 < names.len() || entry.ends_with('/');
        if rules.hide(&path, is_dir) {
            return true;
        }
    }
    false
}

#[test]
fn the_nearest_file_of_the_strongest_kind_decides() {
    let (_dir, root) = tree(&[
        (".git/info/exclude", "excluded\nkept\n"),
        (
            ".gitignore",
            "\u{feff}*.log\r\nbuild/\n!important.log\n/top\n# a comment\n[broken\nkept\n",
        ),
        (".ignore", "!kept\n*.tmp\n"),
        (".rgignore", "!b.tmp\n"),
        ("a/.gitignore", "!x.log\nonly\n"),
        ("a/b/", ""),
        ("build/x", ""),
    ]);
    for (entry, expected) in [
        ("x.log", true),
        ("important.log", false),
        ("a/x.log", false),
        ("a/y.log", true),
        ("a/b/x.log", false),
        ("build/x", true),
        ("a/build", false),
        ("a/build/", true),
        ("top", true),
        ("a/top", false),
        ("excluded", true),
        ("kept", false),
        ("a.tmp", true),
        ("b.tmp", false),
        ("a/only", true),
        ("only", false),
        ("# a comment", false),
    ] {
        assert_eq!(is_hidden(&root, entry), expected, "{entry}");
    }
    assert!(
        is_hidden(&root.join("a"), "y.log"),
        "from a directory in it too"
    );
}

#[test]
fn a_repository_in_a_repository_has_rules_of_its_own() {
    let (_dir, root) = tree(&[
        (".git/", ""),
        (".gitignore", "*.log\n"),
        (".ignore", "*.tmp\n"),
        ("inner/.git/", ""),
        ("inner/.gitignore", "*.bak\n"),
        ("jj/.jj/", ""),
    ]);
    for (entry, expected) in [
        ("inner/x.log", false),
        ("inner/x.tmp", true),
        ("inner/x.bak", true),
        ("jj/x.log", false),
        ("x.log", true),
    ] {
        assert_eq!(is_hidden(&root, entry), expected, "{entry}");
    }
}

#[test]
fn a_worktree_has_the_excludes_of_its_repository() {
    let (_dir, root) = tree(&[
        ("repo/.git/info/exclude", "excluded\n"),
        ("repo/.git/worktrees/w/commondir", "../..\n"),
        ("w/.git", "gitdir: ../repo/.git/worktrees/w\n"),
    ]);
    assert!(is_hidden(&root.join("w"), "excluded"));
}

#[test]
fn outside_a_repository_nothing_from_above_counts() {
    let (_dir, root) = tree(&[
        (".gitignore", "*\n"),
        (".ignore", "*\n"),
        ("ws/.gitignore", "b\n"),
        ("ws/sub/.gitignore", "c\n"),
    ]);
    let ws = root.join("ws");
    for (entry, expected) in [("a", false), ("b", true), ("sub/c", true), ("sub/b", true)] {
        assert_eq!(is_hidden(&ws, entry), expected, "{entry}");
    }
}

#[test]
fn what_would_hide_the_root_itself_does_not_count() {
    for above in [".ignore", ".gitignore"] {
        let (_dir, home) = tree(&[
            (".git/", ""),
            (above, "*\n"),
            ("code/.gitignore", "*.log\n"),
            ("code/project/", ""),
        ]);
        let project = home.join("code/project");
        assert!(!is_hidden(&project, "a"), "{above}");
        assert!(is_hidden(&project, "a.log"), "{above}");
        assert!(is_hidden(&home, "a"), "{above}");
    }
}

#[test]
fn an_ignore_file_that_is_no_file_is_passed_over() {
    let (_dir, root) = tree(&[(".ignore", "x\n")]);
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join(".gitignore"), 0o600.into()).unwrap();
    assert!(is_hidden(&root, "x") && !is_hidden(&root, "y"));
}
