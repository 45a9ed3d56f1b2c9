//! Which shell runs commands.

use std::path::{Path, PathBuf};

use crate::os::env::Env;
use crate::os::fs;

/// Where bash usually is.
const BASH: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];

/// What every Unix has.
const SH: &str = "/bin/sh";

/// The user's choice as it is (a bare name is looked up in `PATH`), else bash, else sh.
///
/// A choice that cannot be run is kept, so that calls fail with its name instead of running in another shell.
pub(super) fn shell(env: &Env, choice: Option<&Path>) -> PathBuf {
    match choice {
        Some(path) if path.is_absolute() => path.to_owned(),
        Some(path) => path
            .to_str()
            .filter(|name| !name.contains('/'))
            .and_then(|name| env.find_program(name))
            .unwrap_or_else(|| path.to_owned()),
        None => first_executable(&BASH)
            .or_else(|| env.find_program("bash"))
            .unwrap_or_else(|| PathBuf::from(SH)),
    }
}

fn first_executable(paths: &[&str]) -> Option<PathBuf> {
    paths
        .iter()
        .map(PathBuf::from)
        .find(|path| fs::is_executable(path))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests look at real files")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_users_choice_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("mysh");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let env = Env::of([("PATH", dir.path())]);
        let find = |choice: &str| shell(&env, Some(Path::new(choice)));
        assert_eq!(find("/opt/none/zsh"), Path::new("/opt/none/zsh"));
        assert_eq!(find("mysh"), program);
        assert_eq!(find("nosh"), Path::new("nosh"));
        assert_eq!(find("bin/mysh"), Path::new("bin/mysh"));
    }

    #[test]
    fn without_a_choice_something_runs() {
        let found = shell(&Env::default(), None);
        assert!(
            found.is_absolute() && fs::is_executable(&found),
            "{found:?}"
        );
        assert_eq!(
            first_executable(&["/nowhere/bash", "/bin", "/bin/sh"]),
            Some("/bin/sh".into())
        );
    }
}
