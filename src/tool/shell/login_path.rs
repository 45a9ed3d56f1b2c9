//! The `PATH` that the user's login shell would have: a server that a window manager or an editor started often has a
//! shorter one.
//!
//! The login shell is run once per process, beside everything else. What it adds comes after what is there; a shell that
//! fails or takes too long adds nothing.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::os::env::Env;
use crate::os::fs;
use crate::os::process::{Command, Processes};

/// How long the login shell may take. Its whole group is killed then.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// What is read of its output.
const OUTPUT_BYTES: usize = 1 << 20;

/// Programs that print the environment.
const ENV: [&str; 2] = ["/usr/bin/env", "/bin/env"];

/// How to ask the login shell.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    command: Option<Command>,
    path: Option<OsString>,
}

impl Probe {
    /// Asks the shell of this environment's user.
    pub(super) fn of(env: &Env) -> Self {
        let vars = env
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let program = ENV.iter().find(|path| fs::is_executable(Path::new(path)));
        let shell = env.login_shell().filter(|shell| shell.is_absolute());
        let dir = env.home_dir().unwrap_or_else(|| PathBuf::from("/"));
        let command = shell.zip(program).map(|(shell, program)| {
            Command::new(shell, dir)
                .args(["-l", "-c", program])
                .env(vars)
                .drop_grace(Duration::ZERO)
        });
        Self {
            command,
            path: env.get("PATH").map(OsStr::to_owned),
        }
    }

    /// Runs it. Gives the `PATH` for commands, where it is another than the environment's.
    pub(super) async fn run(self, processes: Processes) -> Option<OsString> {
        let running = match processes.spawn(self.command?).await {
            Ok(running) => running,
            Err(error) => {
                tracing::info!(%error, "the login shell's PATH is not known");
                return None;
            }
        };
        // Dropped with the future, it is killed.
        let collected = tokio::time::timeout(TIME_LIMIT, running.collect(OUTPUT_BYTES)).await;
        let Ok(collected) = collected else {
            tracing::warn!("the login shell took too long to say its PATH");
            return None;
        };
        let found = path_in(&collected.stdout)?;
        let joined = joined(self.path.as_deref(), found);
        joined.filter(|joined| self.path.as_ref() != Some(joined))
    }
}

/// The last line of an environment that sets `PATH`; what a profile prints comes before.
fn path_in(output: &[u8]) -> Option<&OsStr> {
    let lines = output.split(|byte| *byte == b'\n');
    let mut values = lines.filter_map(|line| line.strip_prefix(b"PATH="));
    values.next_back().map(OsStr::from_bytes)
}

/// The first path as it is, and the absolute entries of the second that it has not. `None` where neither has any.
fn joined(own: Option<&OsStr>, found: &OsStr) -> Option<OsString> {
    let mut entries: Vec<&[u8]> = match own {
        Some(own) => own.as_bytes().split(|byte| *byte == b':').collect(),
        None => Vec::new(),
    };
    for entry in found.as_bytes().split(|byte| *byte == b':') {
        if entry.starts_with(b"/") && !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    if own.is_none() && entries.is_empty() {
        return None;
    }
    Some(OsString::from_vec(entries.join(&b':')))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests write a shell")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn paths_are_joined() {
        for (own, found, expected) in [
            (Some("/a:/b"), "/b:/c:rel:/c::/d", Some("/a:/b:/c:/d")),
            (Some(":/a:"), "/a", Some(":/a:")),
            (Some(""), "/a", Some(":/a")),
            (None, "/a:b", Some("/a")),
            (None, "b:", None),
        ] {
            let joined = joined(own.map(OsStr::new), OsStr::new(found));
            assert_eq!(
                joined.as_deref(),
                expected.map(OsStr::new),
                "{own:?} {found}"
            );
        }
    }

    #[test]
    fn the_last_path_counts() {
        let output = b"PATH=/noise\nwelcome\nXPATH=/x\nPATH=/real:/b\nPATHS=/y\n";
        assert_eq!(path_in(output), Some(OsStr::new("/real:/b")));
        assert_eq!(path_in(b"nothing"), None);
    }

    /// Asks a shell that does this.
    async fn asked(body: &str) -> Option<OsString> {
        let dir = tempfile::tempdir().unwrap();
        let shell = dir.path().join("mysh");
        std::fs::write(&shell, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
        let vars = [
            ("SHELL", shell.as_os_str()),
            ("PATH", OsStr::new("/bin:/usr/bin")),
        ];
        let probe = Probe::of(&Env::of(vars));
        probe.run(Processes::new(None)).await
    }

    #[tokio::test]
    async fn a_login_shell_is_asked() {
        let added = asked("echo hello; [ \"$1\" = -l ] && PATH=/opt/x:$PATH exec \"$3\"").await;
        assert_eq!(added.as_deref(), Some(OsStr::new("/bin:/usr/bin:/opt/x")));
        assert_eq!(asked("exec \"$3\"").await, None);
        assert_eq!(asked("exit 3").await, None);
        let none = Probe::of(&Env::of([("PATH", "/bin")]));
        assert_eq!(none.run(Processes::new(None)).await, None);
    }
}
