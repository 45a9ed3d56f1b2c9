//! A snapshot of the process environment, taken once and handed down.
//!
//! Nothing else reads variables, so a test gives a map and no test changes the environment of another.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the module those rules point to"
)]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::fs;

/// Variables, home and starting directory of a process. Cheap to clone when shared by `Arc`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Env {
    vars: BTreeMap<OsString, OsString>,
    account_home: Option<PathBuf>,
    account_shell: Option<PathBuf>,
    start_dir: Option<PathBuf>,
}

impl Env {
    /// Takes the snapshot of this process. Values that are not UTF-8 are kept as they are.
    pub fn of_process() -> Self {
        Self {
            vars: std::env::vars_os().collect(),
            account_home: std::env::home_dir(),
            account_shell: account_shell(),
            start_dir: std::env::current_dir().ok(),
        }
    }

    /// An environment of just these variables, without account home or starting directory.
    pub fn of<K: Into<OsString>, V: Into<OsString>>(
        vars: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        Self {
            vars: vars
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            ..Self::default()
        }
    }

    /// The same, started in this directory.
    #[must_use]
    pub fn with_start_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.start_dir = Some(dir.into());
        self
    }

    /// The raw value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// The value of a variable when it is set, not empty, and UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.to_str().filter(|value| !value.is_empty())
    }

    /// The value of a variable as an absolute path; anything else counts as unset.
    pub fn absolute_path(&self, name: &str) -> Option<PathBuf> {
        let path = Path::new(self.get(name)?);
        path.is_absolute().then(|| path.to_owned())
    }

    /// All variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.vars
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The user's home: `HOME`, else what the account database says.
    pub fn home_dir(&self) -> Option<PathBuf> {
        self.absolute_path("HOME")
            .or_else(|| self.account_home.clone().filter(|home| home.is_absolute()))
    }

    /// The user's login shell: `SHELL`, where that is blank what the account database says.
    pub fn login_shell(&self) -> Option<PathBuf> {
        let named = self.get("SHELL").filter(|shell| !shell.is_empty());
        named
            .map(PathBuf::from)
            .or_else(|| self.account_shell.clone())
    }

    /// Where longshore keeps its files: `LONGSHORE_HOME` (relative ones against the starting directory), else
    /// `.longshore` in the home.
    pub fn longshore_home(&self) -> Option<PathBuf> {
        match self.get("LONGSHORE_HOME").filter(|value| !value.is_empty()) {
            Some(value) => match &self.start_dir {
                Some(start) => Some(start.join(value)),
                None => self.absolute_path("LONGSHORE_HOME"),
            },
            None => Some(self.home_dir()?.join(".longshore")),
        }
    }

    /// The directory this process was started in. Only commands typed by a user may give it a meaning.
    pub fn start_dir(&self) -> Option<&Path> {
        self.start_dir.as_deref()
    }

    /// Finds a program by bare name in `PATH`; relative entries are passed over.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        find_in_path(self.get("PATH")?, OsStr::new(name))
    }
}

/// The login shell of this process's user in the account database.
fn account_shell() -> Option<PathBuf> {
    let accounts = fs::read_to_string(Path::new("/etc/passwd")).ok()?;
    shell_of(&accounts, rustix::process::getuid().as_raw())
}

fn shell_of(accounts: &str, user: u32) -> Option<PathBuf> {
    let account = accounts
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.get(2).and_then(|id| id.parse().ok()) == Some(user))?;
    let shell = account.get(6).filter(|shell| !shell.is_empty())?;
    Some(PathBuf::from(shell))
}

/// Finds an executable regular file in the absolute entries of a `PATH` value.
pub fn find_in_path(path: &OsStr, name: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|candidate| fs::is_executable(candidate))
}

/// The path of this very binary, for starting it again.
pub fn current_exe() -> std::io::Result<PathBuf> {
    std::env::current_exe()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn login_shells() {
        let accounts = "root:x:0:0:root:/root:/bin/bash\nme:x:1000:1000:,,:/home/me:/bin/zsh\nnone:x:5:5::/:\nbad\n";
        for (user, shell) in [
            (0, Some("/bin/bash")),
            (1000, Some("/bin/zsh")),
            (5, None),
            (7, None),
        ] {
            assert_eq!(shell_of(accounts, user), shell.map(PathBuf::from), "{user}");
        }
        let env = |shell: &str| Env {
            account_shell: Some("/bin/sh".into()),
            ..Env::of([("SHELL", shell)])
        };
        assert_eq!(env("").login_shell(), Some("/bin/sh".into()));
        assert_eq!(env("/bin/fish").login_shell(), Some("/bin/fish".into()));
        assert_eq!(Env::default().login_shell(), None);
    }

    #[test]
    fn values() {
        let raw = OsString::from_vec(vec![b'a', 0xff]);
        let env = Env::of([
            ("A", OsString::from("1")),
            ("EMPTY", OsString::new()),
            ("RAW", raw.clone()),
        ]);
        assert_eq!(env.text("A"), Some("1"));
        assert_eq!(env.text("EMPTY"), None);
        assert_eq!(env.get("EMPTY"), Some(OsStr::new("")));
        assert_eq!(env.text("RAW"), None);
        assert_eq!(env.get("RAW"), Some(raw.as_os_str()));
        assert_eq!(env.get("B"), None);
        let names: Vec<_> = env.iter().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["A", "EMPTY", "RAW"]);
    }

    #[test]
    fn homes() {
        let check = |vars: &[(&str, &str)], start: &str, expected: Option<&str>| {
            let env = Env::of(vars.iter().copied()).with_start_dir(start);
            assert_eq!(
                env.longshore_home(),
                expected.map(PathBuf::from),
                "{vars:?}"
            );
        };
        check(&[("HOME", "/h")], "/s", Some("/h/.longshore"));
        check(
            &[("HOME", "/h"), ("LONGSHORE_HOME", "/l")],
            "/s",
            Some("/l"),
        );
        check(
            &[("HOME", "/h"), ("LONGSHORE_HOME", "l")],
            "/s",
            Some("/s/l"),
        );
        check(
            &[("HOME", "/h"), ("LONGSHORE_HOME", "")],
            "/s",
            Some("/h/.longshore"),
        );
        check(&[("HOME", "relative")], "/s", None);
    }

    #[test]
    fn finds_programs_in_absolute_entries_only() {
        let env = Env::of([("PATH", "relative::/nowhere:/bin:/usr/bin")]);
        assert!(env.find_program("sh").unwrap().is_absolute());
        assert_eq!(env.find_program("no-such-program-here"), None);
        assert_eq!(Env::of([("PATH", "bin")]).find_program("sh"), None);
    }

    #[test]
    fn the_process_has_a_start_dir() {
        assert!(Env::of_process().start_dir().unwrap().is_absolute());
    }
}
