//! A home, a git repository and an environment that belong to one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::processes::Mark;

/// Where one test lives. Removed when dropped.
pub(crate) struct Scratch {
    folder: TempDir,
    /// Every process started from here inherits it.
    pub(crate) mark: Mark,
}

impl Scratch {
    /// An empty home, and a git repository with one commit that holds `greeting.txt`.
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("longshore-e2e-")
            .tempdir()
            .unwrap();
        let scratch = Self {
            folder,
            mark: Mark::new(),
        };
        fs::create_dir_all(scratch.home()).unwrap();
        fs::create_dir_all(scratch.repository()).unwrap();
        fs::write(
            scratch.repository().join("greeting.txt"),
            "Hello, wrold!\nGoodbye.\n",
        )
        .unwrap();
        for arguments in [
            &["init", "--quiet", "-b", "main"][..],
            &["add", "."],
            &["commit", "--quiet", "-m", "First"],
        ] {
            scratch.git(arguments);
        }
        scratch
    }

    /// The whole folder, links resolved.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// `HOME`.
    pub(crate) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// `LONGSHORE_HOME`.
    pub(crate) fn longshore_home(&self) -> PathBuf {
        self.home().join("longshore")
    }

    /// The repository that sessions work in.
    pub(crate) fn repository(&self) -> PathBuf {
        self.root().join("repository")
    }

    /// A file of the repository.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.repository().join(name)
    }

    /// Writes a file of the repository.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.file(name), content).unwrap();
    }

    /// The text of a file of the repository.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// Writes `config.toml`.
    pub(crate) fn configure(&self, toml: &str) {
        fs::create_dir_all(self.longshore_home()).unwrap();
        fs::write(self.longshore_home().join("config.toml"), toml).unwrap();
    }

    /// Adds to `config.toml`.
    pub(crate) fn configure_more(&self, toml: &str) {
        let path = self.longshore_home().join("config.toml");
        let before = fs::read_to_string(&path).unwrap();
        fs::write(path, before + toml).unwrap();
    }

    /// Makes a scripted model the default one.
    pub(crate) fn script(&self, yaml: &str) {
        let path = self.root().join("script.yaml");
        fs::write(&path, yaml).unwrap();
        self.configure(&format!(
            "default_model = \"scripted\"\n\
             [providers.scripted]\ntype = \"scripted\"\nscript = \"{}\"\n\
             [models.scripted]\nprovider = \"scripted\"\nmodel = \"scripted\"\n",
            path.display()
        ));
    }

    /// Where requests to scripted models are recorded.
    pub(crate) fn trace(&self) -> PathBuf {
        self.root().join("trace.jsonl")
    }

    /// The texts that a scripted model was sent in its last request, one for each message.
    pub(crate) fn sent(&self) -> Vec<String> {
        let requests = fs::read_to_string(self.trace()).unwrap();
        let last: Value = serde_json::from_str(requests.lines().last().unwrap()).unwrap();
        let messages = last["messages"].as_array().unwrap();
        let text = |message: &Value| {
            let parts = message["content"].as_array().unwrap();
            parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect()
        };
        messages.iter().map(text).collect()
    }

    /// Runs git in the repository and gives what it printed.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=Test",
                "-c",
                "user.email=test@localhost",
                "-c",
                "commit.gpgsign=false",
            ])
            .args(arguments)
            .current_dir(self.repository())
            .env("HOME", self.home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// A command with nothing in its environment but what every test gives.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .current_dir(self.repository())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home())
            .env("LONGSHORE_HOME", self.longshore_home())
            .env("LONGSHORE_SCRIPT_TRACE", self.trace())
            .env("LANG", "C.UTF-8")
            .env("TMPDIR", self.root())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env(Mark::NAME, self.mark.value());
        command
    }

    /// The binary under test.
    pub(crate) fn longshore(&self) -> Command {
        self.command(env!("CARGO_BIN_EXE_longshore"))
    }
}
