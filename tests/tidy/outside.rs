//! What clippy's list of methods cannot say by module: the outside world belongs to `os`, standard output to the wire.

use crate::sources;

/// Types of files, which may be passed about.
const FREE: &[&str] = &[
    "std::fs::File;",
    "std::fs::File>",
    "std::fs::{File, OpenOptions}",
    "std::fs::{File, Metadata}",
];

/// Code and the modules that may hold it.
const RESERVED: &[(&[&str], &[&str])] = &[
    // Files, processes, environment and clocks have one door, so that tests can put fakes behind it. Types that are
    // only passed on are free.
    (
        &[
            "std::fs::",
            "use std::fs;",
            "tokio::fs",
            "File::open",
            "File::create",
            "OpenOptions::new",
        ],
        &["os", "store"],
    ),
    (&["std::process::Command", "tokio::process"], &["os"]),
    (
        &[
            "std::env::var",
            "std::env::set_",
            "std::env::current_dir",
            "std::env::home_dir",
        ],
        &["os"],
    ),
    (&["SystemTime::now", "std::time::Instant"], &["os"]),
    // What is printed to standard output is read as protocol.
    (
        &[
            "println!",
            "print!",
            "eprintln!",
            "eprint!",
            "io::stdout",
            "io::stderr",
        ],
        &["os", "cli"],
    ),
    // One door each.
    (&["serde_yaml"], &["text"]),
    (&["jsonschema::"], &["schema"]),
    (&["notify::"], &["os"]),
    (&["reqwest::Client", "ClientBuilder"], &["http"]),
    (&["agent_client_protocol_schema"], &["face::acp"]),
];

#[test]
fn the_outside_world_has_one_door() {
    let mut found = Vec::new();
    for source in sources::server() {
        let module = source.module.join("::");
        for (number, line) in source.code.lines().enumerate() {
            let line = FREE
                .iter()
                .fold(line.to_owned(), |line, free| line.replace(free, ""));
            for (words, doors) in RESERVED {
                let is_door = doors
                    .iter()
                    .any(|door| module == *door || module.starts_with(&format!("{door}::")));
                for word in words.iter().filter(|word| !is_door && names(&line, word)) {
                    found.push(format!(
                        "{}:{}: {word} belongs to {}",
                        source.path,
                        number + 1,
                        doors.join(", ")
                    ));
                }
            }
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Whether a line has these words as words of their own.
fn names(line: &str, words: &str) -> bool {
    line.match_indices(words).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|each| each.is_alphanumeric() || each == '_')
    })
}

#[test]
fn stray_output_would_be_found() {
    assert!(names("        println!();", "println!") && !names("        eprintln!();", "println!"));
    assert!(names("use std::fs;", "use std::fs") && !names("my_std::fs::x", "std::fs::"));
}
