//! The documents: their script runs as it stands there, their examples are read without a complaint, their links lead
//! somewhere.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "reads the documents and drives the binary as a newcomer would"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use longshore::config::{self, LoadInput, UserFile};
use longshore::provider::scripted::Script;

const DOCUMENTS: [&str; 4] = [
    "README.md",
    "protocol/README.md",
    "clients/README.md",
    "src/ARCHITECTURE.md",
];

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The fenced blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let mut parts = text.split(fence.as_str());
    parts.next();
    parts
        .map(|part| part.split("```").next().unwrap().to_owned())
        .collect()
}

fn run(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A child that has ended already takes no input; its output says why.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        assert!(
            std::env::var_os("LONGSHORE_REQUIRE_PEERS").is_none(),
            "{program} is not installed"
        );
        println!("SKIPPED {program}");
    }
    found
}

/// A repository like the one of `longshore demo`, with a home of its own beside it.
fn repository(scratch: &Path) -> PathBuf {
    let repository = scratch.join("repository");
    fs::create_dir(&repository).unwrap();
    fs::write(repository.join("greeting.txt"), "Hello, wrold!\n").unwrap();
    for arguments in [
        &["init", "-q"][..],
        &["add", "."],
        &[
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@localhost",
            "commit",
            "-qm",
            "A greeting",
        ],
    ] {
        let git = Command::new("git")
            .args(arguments)
            .current_dir(&repository)
            .env("HOME", scratch)
            .status();
        assert!(git.unwrap().success(), "git {arguments:?}");
    }
    repository
}

#[test]
fn the_script_drives_a_server_as_it_stands_there() {
    if !is_there("python3") || !is_there("git") {
        return;
    }
    let scripts = blocks(&document("README.md"), "python");
    let [script] = scripts.as_slice() else {
        panic!("{} scripts", scripts.len())
    };
    let scratch = tempfile::tempdir().unwrap();
    let repository = repository(scratch.path());

    let mut python = Command::new("python3");
    python
        .args(["-c", script, "Play the demo, please."])
        .current_dir(&repository)
        .env("HOME", scratch.path())
        .env("LONGSHORE_HOME", scratch.path().join("home"))
        .env("LONGSHORE", env!("CARGO_BIN_EXE_longshore"));
    let output = run(&mut python, "y\nn\n");
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{said}\n{errors}");
    assert_eq!(errors, "", "{said}");

    // Text as it streams, calls, both approvals, and the end.
    for expected in [
        "I am the scripted demo model.",
        "\n[",
        "Run Bash: git diff --stat? [y/N]",
        "Run Bash: git push --force origin main? [y/N]",
        "You refused the push",
        "\ncompleted after ",
    ] {
        assert!(said.contains(expected), "no {expected:?} in:\n{said}");
    }
    assert_eq!(
        fs::read_to_string(repository.join("greeting.txt")).unwrap(),
        "Hello, world!\n"
    );
}

#[test]
fn the_script_says_what_went_wrong() {
    if !is_there("python3") {
        return;
    }
    let script = blocks(&document("README.md"), "python")
        .remove(0)
        .replace("\"demo\"", "\"demoo\"");
    let scratch = tempfile::tempdir().unwrap();
    let mut python = Command::new("python3");
    python
        .args(["-c", script.as_str()])
        .current_dir(scratch.path())
        .env("LONGSHORE_HOME", scratch.path().join("home"))
        .env("LONGSHORE", env!("CARGO_BIN_EXE_longshore"));
    let output = run(&mut python, "");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("did you mean demo?"),
        "{output:?}"
    );
}

#[test]
fn configuration_examples_are_read_without_a_complaint() {
    let mut n = 0;
    for name in DOCUMENTS {
        for block in blocks(&document(name), "toml") {
            n += 1;
            let path = PathBuf::from("/home/x/.longshore/config.toml");
            let config = config::load(LoadInput {
                user: Some(UserFile {
                    path,
                    content: Ok(block.clone().into_bytes()),
                }),
                variables: BTreeMap::from([("OPENAI_API_KEY".to_owned(), "k".to_owned())]),
                ..LoadInput::default()
            });
            assert!(
                config.broken.is_none(),
                "{name}: {block}\n{:?}",
                config.broken
            );
            assert!(
                config.warnings.is_empty(),
                "{name}: {block}\n{:?}",
                config.warnings
            );
        }
    }
    assert!(n >= 4, "{n} examples");
}

#[test]
fn script_examples_can_be_played() {
    let manual = document("protocol/README.md");
    let examples = blocks(&manual, "yaml");
    assert!(!examples.is_empty());
    for example in examples {
        Script::parse(&example, None).unwrap();
    }
    let lines = blocks(&manual, "text")
        .into_iter()
        .find(|block| block.starts_with("text: "))
        .unwrap();
    Script::parse(&lines, None).unwrap();
}

#[test]
fn links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in DOCUMENTS {
        let text = document(name);
        for target in text
            .split("](")
            .skip(1)
            .map(|rest| rest.split(')').next().unwrap())
        {
            if target.starts_with("https://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => root.join(name),
                file => root.join(name).parent().unwrap().join(file),
            };
            assert!(path.exists(), "{name}: {target} is not there");
            if !anchor.is_empty() {
                let headings = fs::read_to_string(&path).unwrap();
                let mut anchors = headings
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .map(anchor_of);
                assert!(
                    anchors.any(|found| found == anchor),
                    "{name}: no heading for {target}"
                );
            }
        }
    }
}

/// The anchor of a heading: lower case, words joined by hyphens, other marks left out.
fn anchor_of(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}
