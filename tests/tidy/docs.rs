//! Folders say what they are for; files stay short; the README's commands exist.

use std::fs;

use crate::sources::{files, relative, root};

/// Above this a file is worth a look.
const LONG_LINES: usize = 600;

#[test]
fn every_folder_says_what_it_is_for() {
    let mut silent = Vec::new();
    for folder in ["src", "protocol/src", "tests"] {
        for path in files(folder, ".rs") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let opens_a_folder = ["mod.rs", "lib.rs", "main.rs"].contains(&name.as_str());
            if opens_a_folder && !fs::read_to_string(&path).unwrap().starts_with("//! ") {
                silent.push(relative(&path));
            }
        }
    }
    assert!(silent.is_empty(), "no opening `//!` in: {silent:#?}");
}

#[test]
fn long_files_are_told() {
    for folder in ["src", "protocol/src", "tests"] {
        for path in files(folder, ".rs") {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            if lines > LONG_LINES {
                println!("warning: {} has {lines} lines", relative(&path));
            }
        }
    }
}

#[test]
fn the_readme_names_the_commands_that_do_its_jobs() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for command in ["cargo run --release -- demo", "cargo test --workspace"] {
        assert!(
            readme.contains(command),
            "README.md does not say `{command}`"
        );
    }
}

#[test]
fn the_documents_are_there() {
    for file in [
        "README.md",
        "src/ARCHITECTURE.md",
        "protocol/README.md",
        "protocol/CHANGELOG.md",
    ] {
        assert!(root().join(file).is_file(), "{file} is missing");
    }
}
