//! The system prompt: fixed text first, then what the surroundings say.
//!
//! It is rendered once and then stays byte for byte the same, so that providers can cache it. What changes soonest (the
//! directory listing, the date) stands last.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kernel::limits::{AGENTS_FILE_BYTES, AGENTS_TOTAL_BYTES};
use crate::os::fs::{self, FileKind};

const TEXT: &str = include_str!("system.md");

/// Entries listed of the working directory, and of each directory in it.
const ROOT_ENTRIES: usize = 30;
const CHILD_ENTRIES: usize = 10;

/// What the prompt says about where the agent works.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The user's real home.
    pub home: Option<PathBuf>,
    /// longshore's own directory.
    pub longshore_home: PathBuf,
    /// The shell commands run in.
    pub shell: String,
    /// The date, as `2026-01-31`.
    pub date: String,
}

/// Renders the prompt. Reads the directory and its AGENTS.md files; what can't be read is left out.
pub fn render(surroundings: &Surroundings, cwd: &Path) -> Arc<str> {
    let mut prompt = TEXT
        .replace("{{os}}", std::env::consts::OS)
        .replace("{{shell}}", &surroundings.shell);
    prompt.push_str(&agents(surroundings, cwd));
    let _ = write!(
        prompt,
        "\n# Working directory\nYou work in {}. It held, when the session began:\n\n{}\nThe date then: {}. It may be out of date by now.\n",
        cwd.display(),
        tree(cwd),
        surroundings.date
    );
    prompt.into()
}

/// The project's and the user's AGENTS.md files, from the general to the particular, each once.
fn agents(surroundings: &Surroundings, cwd: &Path) -> String {
    let mut candidates = vec![vec![surroundings.longshore_home.join("AGENTS.md")]];
    if let Some(home) = &surroundings.home {
        candidates.push(named_in(&home.join(".agents")));
    }
    let root = cwd
        .ancestors()
        .find(|dir| fs::kind_of(&dir.join(".git")).is_some())
        .unwrap_or(cwd);
    let mut dirs: Vec<&Path> = cwd
        .ancestors()
        .take_while(|dir| dir.starts_with(root))
        .collect();
    dirs.reverse();
    for dir in dirs {
        candidates.push(vec![dir.join(".longshore").join("AGENTS.md")]);
        candidates.push(named_in(dir));
    }
    let (mut text, mut seen, mut left) = (String::new(), HashSet::new(), AGENTS_TOTAL_BYTES);
    for names in candidates {
        let Some((path, real)) = names
            .into_iter()
            .find_map(|path| Some((path.clone(), fs::real_path(&path).ok()?)))
        else {
            continue;
        };
        if !seen.insert(real) {
            continue;
        }
        let Ok(bytes) = fs::read_prefix(&path, AGENTS_FILE_BYTES.min(left) as u64 + 1) else {
            continue;
        };
        let cut = bytes.len() > AGENTS_FILE_BYTES.min(left);
        let shown = &bytes[..bytes.len().min(AGENTS_FILE_BYTES).min(left)];
        let content = String::from_utf8_lossy(shown);
        if content.trim().is_empty() {
            continue;
        }
        left -= shown.len();
        let marker = if cut { "\n[the rest was cut]" } else { "" };
        let _ = write!(
            text,
            "\n## From {}\n{}{marker}\n",
            path.display(),
            content.trim_end()
        );
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "\n# Notes of the project and the user\nThese files describe the project and how its people like to work. Later ones are more particular.\n{text}"
    )
}

fn named_in(dir: &Path) -> Vec<PathBuf> {
    vec![dir.join("AGENTS.md"), dir.join("agents.md")]
}

/// Two levels of a directory: directories first, then by name; hidden directories are not opened.
fn tree(root: &Path) -> String {
    let mut text = String::new();
    match listing(root) {
        Err(reason) => text.push_str(&reason),
        Ok(entries) if entries.is_empty() => text.push_str("(empty)\n"),
        Ok(entries) => {
            for (name, is_dir) in entries.iter().take(ROOT_ENTRIES) {
                let _ = writeln!(text, "{name}{}", if *is_dir { "/" } else { "" });
                if *is_dir && !name.starts_with('.') {
                    children(&root.join(name), &mut text);
                }
            }
            more(&mut text, "", entries.len().saturating_sub(ROOT_ENTRIES));
        }
    }
    text
}

fn children(dir: &Path, text: &mut String) {
    match listing(dir) {
        Err(reason) => {
            let _ = write!(text, "  {reason}");
        }
        Ok(entries) => {
            for (name, is_dir) in entries.iter().take(CHILD_ENTRIES) {
                let _ = writeln!(text, "  {name}{}", if *is_dir { "/" } else { "" });
            }
            more(text, "  ", entries.len().saturating_sub(CHILD_ENTRIES));
        }
    }
}

fn more(text: &mut String, indent: &str, n: usize) {
    if n > 0 {
        let _ = writeln!(text, "{indent}… and {n} more");
    }
}

fn listing(dir: &Path) -> Result<Vec<(String, bool)>, String> {
    let entries = fs::list_dir(dir).map_err(|_| "(can't be read)\n".to_owned())?;
    let mut names: Vec<(String, bool)> = entries
        .into_iter()
        .map(|entry| {
            (
                entry.name.to_string_lossy().replace(char::is_control, "?"),
                entry.kind == FileKind::Dir,
            )
        })
        .collect();
    names.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Ok(names)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out directories")]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::*;

    fn surroundings(home: &Path) -> Surroundings {
        Surroundings {
            home: Some(home.to_owned()),
            longshore_home: home.join(".longshore"),
            shell: "/bin/bash".into(),
            date: "2026-01-31".into(),
        }
    }

    #[test]
    fn notes_go_from_the_general_to_the_particular_and_stand_once() {
        let dir = tempfile::tempdir().unwrap();
        let (home, root) = (dir.path().join("home"), dir.path().join("repo"));
        let sub = root.join("a/b");
        for made in [
            home.join(".longshore"),
            home.join(".agents"),
            root.join(".git"),
            sub.clone(),
        ] {
            create_dir_all(made).unwrap();
        }
        write(dir.path().join("AGENTS.md"), "outside").unwrap();
        write(home.join(".longshore/AGENTS.md"), "one").unwrap();
        write(home.join(".agents/agents.md"), "two").unwrap();
        write(root.join("AGENTS.md"), "three").unwrap();
        std::os::unix::fs::symlink(root.join("AGENTS.md"), root.join("a/AGENTS.md")).unwrap();
        write(sub.join("AGENTS.md"), b"f\xffour\n").unwrap();
        let text = agents(&surroundings(&home), &sub);
        let order: Vec<_> = ["one", "two", "three", "f\u{fffd}our"]
            .map(|word| text.find(word).unwrap())
            .into();
        assert!(order.is_sorted(), "{text}");
        assert_eq!(text.matches("three").count(), 1);
        assert!(!text.contains("outside"));
    }

    #[test]
    fn large_notes_are_cut_and_said() {
        let dir = tempfile::tempdir().unwrap();
        write(
            dir.path().join("AGENTS.md"),
            "x".repeat(AGENTS_FILE_BYTES + 5),
        )
        .unwrap();
        let text = agents(&surroundings(&dir.path().join("none")), dir.path());
        assert!(text.contains("[the rest was cut]") && text.len() < AGENTS_FILE_BYTES + 500);
    }

    #[test]
    fn the_listing_is_short_and_says_what_it_leaves_out() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..40 {
            write(dir.path().join(format!("f{n:02}")), "").unwrap();
        }
        create_dir_all(dir.path().join("zdir/inner")).unwrap();
        create_dir_all(dir.path().join(".hidden/inner")).unwrap();
        let text = tree(dir.path());
        assert!(
            text.starts_with(".hidden/\nzdir/\n  inner/\nf00\n"),
            "{text}"
        );
        assert!(text.ends_with("… and 12 more\n"), "{text}");
    }
}
