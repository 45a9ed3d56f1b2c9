//! The environment of commands: this process's own, without secrets, and set up so that nothing waits for a person.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::os::env::Env;

/// Marks a child of longshore.
const MARK: (&str, &str) = ("LONGSHORE", "1");

/// The session a command belongs to.
pub(super) const SESSION_ID: &str = "LONGSHORE_SESSION_ID";

/// longshore's own settings that may hold credentials. The names of all resolved secrets are among the configured
/// patterns already; these cover the ones that were set and not used.
const OWN_SECRETS: [&str; 3] = [
    "LONGSHORE_*API_KEY",
    "LONGSHORE_HEADERS",
    "LONGSHORE_CFG__*",
];

/// No colours, no pager, no editor. `false` as an editor ends a program that wants one with an error at once.
const FORCED: [(&str, &str); 7] = [
    ("NO_COLOR", "1"),
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("GIT_EDITOR", "false"),
];

/// Set where the user has not: git asks for no password.
const GIT_PROMPT: (&str, &str) = ("GIT_TERMINAL_PROMPT", "0");

/// What all commands get; what differs from call to call is added at each. Variables that are not UTF-8 pass through.
pub(super) fn for_commands(
    env: &Env,
    exclude: &[String],
    shell: &Path,
) -> Vec<(OsString, OsString)> {
    let excluded = compile(exclude);
    let is_excluded = |name: &OsStr| {
        let text = name.to_string_lossy();
        excluded.is_match(&*text) || exclude.iter().any(|pattern| *pattern == text)
    };
    let ambient = env.iter().filter(|(name, _)| !is_excluded(name));
    let mut vars: Vec<(OsString, OsString)> = ambient
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let git_prompt = env.get(GIT_PROMPT.0).is_none().then_some(GIT_PROMPT);
    let forced = FORCED.into_iter().chain(git_prompt).chain([MARK]);
    vars.extend(forced.map(|(name, value)| (name.into(), value.into())));
    vars.push(("SHELL".into(), shell.into()));
    vars
}

/// One set of all patterns. Case is ignored: what keeps secrets in may reach too far. A pattern that cannot be read
/// still counts as a plain name.
fn compile(exclude: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in OWN_SECRETS
        .into_iter()
        .chain(exclude.iter().map(String::as_str))
    {
        match GlobBuilder::new(pattern).case_insensitive(true).build() {
            Ok(glob) => drop(set.add(glob)),
            Err(error) => {
                tracing::warn!(pattern, %error, "shell.env_exclude: not a pattern, taken as a name");
            }
        }
    }
    set.build().unwrap_or_else(|error| {
        tracing::warn!(%error, "shell.env_exclude: patterns cannot be used together, taken as names");
        GlobSet::empty()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    /// The value a child sees: the last one set.
    fn value(vars: &[(OsString, OsString)], name: &str) -> Option<String> {
        let found = vars.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.to_str().unwrap().to_owned())
    }

    fn made(ambient: &[(&str, &str)], exclude: &[&str]) -> Vec<(OsString, OsString)> {
        let exclude: Vec<_> = exclude
            .iter()
            .map(|pattern| (*pattern).to_owned())
            .collect();
        for_commands(
            &Env::of(ambient.iter().copied()),
            &exclude,
            Path::new("/bin/bash"),
        )
    }

    #[test]
    fn nothing_waits_for_a_person() {
        let vars = made(
            &[
                ("TERM", "xterm"),
                ("PAGER", "less"),
                ("EDITOR", "code --wait"),
                ("LANG", "C"),
            ],
            &[],
        );
        for (name, expected) in [
            ("TERM", "dumb"),
            ("NO_COLOR", "1"),
            ("PAGER", "cat"),
            ("GIT_PAGER", "cat"),
            ("EDITOR", "false"),
            ("GIT_EDITOR", "false"),
            ("SHELL", "/bin/bash"),
            ("LONGSHORE", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("LANG", "C"),
        ] {
            assert_eq!(value(&vars, name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(value(&vars, "GIT_SSH_COMMAND"), None);
        let kept = made(&[("GIT_TERMINAL_PROMPT", "1")], &[]);
        assert_eq!(value(&kept, "GIT_TERMINAL_PROMPT").as_deref(), Some("1"));
    }

    #[test]
    fn secrets_stay_out() {
        let ambient = [
            ("AWS_SECRET", "s"),
            ("MY_KEY", "s"),
            ("odd[", "s"),
            ("LONGSHORE_API_KEY", "s"),
            ("LONGSHORE_SEARCH_API_KEY", "s"),
            ("LONGSHORE_CFG__providers__x__api_key", "s"),
            ("LONGSHORE_HOME", "/l"),
            ("KEEP", "k"),
        ];
        let vars = made(&ambient, &["aws_*", "MY_KEY", "odd["]);
        for (name, secret) in &ambient[..6] {
            assert_eq!(value(&vars, name), None, "{name}={secret}");
        }
        assert_eq!(value(&vars, "KEEP").as_deref(), Some("k"));
        assert_eq!(value(&vars, "LONGSHORE_HOME").as_deref(), Some("/l"));
    }

    #[test]
    fn bytes_pass_through() {
        let raw = OsString::from_vec(vec![0xff, b'x']);
        let env = Env::of([("RAW", raw.clone())]);
        let vars = for_commands(&env, &[], Path::new("/bin/sh"));
        assert!(vars.contains(&("RAW".into(), raw)));
    }
}
