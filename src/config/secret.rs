//! References to secrets: `${env:NAME}`, `${env:NAME:-default}` and `${file:PATH}`, anywhere in a string.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file that a reference names.
#[derive(Clone, Debug)]
pub struct SecretText {
    /// What stands in it.
    pub text: String,
    /// True where nobody but its owner may read it, or where the system has no such notion.
    pub private: bool,
}

/// Reads a file that a reference names; the error is one sentence without the path.
pub type ReadSecret<'a> = dyn Fn(&Path) -> Result<SecretText, String> + 'a;

/// What references are resolved with, and what was found on the way.
pub(super) struct Resolver<'a> {
    pub(super) variables: &'a BTreeMap<String, String>,
    pub(super) read: &'a ReadSecret<'a>,
    /// Of the user, for `~`.
    pub(super) home: Option<&'a Path>,
    /// What relative paths start from.
    pub(super) base: Option<PathBuf>,
    /// Variables that were used.
    pub(super) used: Vec<String>,
    /// Sentences for people.
    pub(super) remarks: Vec<String>,
}

/// A string with its references resolved.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) text: String,
    /// True where a reference stood in it.
    pub(super) referred: bool,
}

impl Resolver<'_> {
    /// Resolves all references in a string.
    ///
    /// # Errors
    /// One sentence that names the reference which can't be resolved, never its value.
    pub(super) fn resolve(&mut self, written: &str) -> Result<Resolved, String> {
        let mut out = Resolved {
            text: String::new(),
            referred: false,
        };
        let mut rest = written;
        while let Some((before, from)) = rest.split_once("${") {
            out.text.push_str(before);
            let Some((reference, after)) = from.split_once('}') else {
                return Err("A reference that begins with `${` has no closing `}`.".to_owned());
            };
            out.text.push_str(&self.look_up(reference)?);
            out.referred = true;
            rest = after;
        }
        out.text.push_str(rest);
        Ok(out)
    }

    /// A path as written, with `~` expanded and relative ones placed.
    pub(super) fn path(&self, written: &str) -> PathBuf {
        let path = match (written.strip_prefix('~'), self.home) {
            (Some(""), Some(home)) => home.to_path_buf(),
            (Some(rest), Some(home)) if rest.starts_with(['/', std::path::MAIN_SEPARATOR]) => {
                home.join(&rest[1..])
            }
            _ => PathBuf::from(written),
        };
        match &self.base {
            Some(base) => base.join(path),
            None => path,
        }
    }

    /// A variable; blank is unset.
    pub(super) fn variable(&mut self, name: &str) -> Option<String> {
        let value = self
            .variables
            .get(name)
            .filter(|value| !value.trim().is_empty())?;
        self.used.push(name.to_owned());
        Some(value.clone())
    }

    fn look_up(&mut self, reference: &str) -> Result<String, String> {
        let (kind, argument) = reference.split_once(':').unwrap_or((reference, ""));
        match kind {
            "env" => {
                let (name, default) = match argument.split_once(":-") {
                    Some((name, default)) => (name, Some(default)),
                    None => (argument, None),
                };
                match (self.variable(name), default) {
                    (Some(value), _) => Ok(value),
                    (None, Some(default)) => Ok(default.to_owned()),
                    (None, None) => Err(format!("The variable {name} is not set.")),
                }
            }
            "file" => {
                let path = self.path(argument);
                let file = (self.read)(&path).map_err(|error| {
                    format!("The file `{}` can't be read: {error}", path.display())
                })?;
                if !file.private {
                    self.remarks.push(format!(
                        "`{}` holds a secret and can be read by others.",
                        path.display()
                    ));
                }
                Ok(file.text.trim_end_matches(['\n', '\r']).to_owned())
            }
            "cmd" | "keyring" => Err(format!(
                "References of the kind `${{{kind}:…}}` are not supported yet."
            )),
            _ => Err("A reference is none of `${env:NAME}` and `${file:PATH}`.".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(check: impl FnOnce(&mut Resolver<'_>) -> T) -> T {
        let variables = BTreeMap::from(
            [("KEY", "k1"), ("BLANK", " ")].map(|(k, v)| (k.to_owned(), v.to_owned())),
        );
        let read = |path: &Path| match path.to_str() {
            Some("/home/u/key") => Ok(SecretText {
                text: "f1\r\n".to_owned(),
                private: true,
            }),
            Some("/etc/l/key") => Ok(SecretText {
                text: "f2".to_owned(),
                private: false,
            }),
            _ => Err("it does not exist".to_owned()),
        };
        check(&mut Resolver {
            variables: &variables,
            read: &read,
            home: Some(Path::new("/home/u")),
            base: Some("/etc/l".into()),
            used: Vec::new(),
            remarks: Vec::new(),
        })
    }

    #[test]
    fn references_resolve_anywhere() {
        let cases = [
            ("plain", Ok("plain")),
            ("${env:KEY}", Ok("k1")),
            ("Bearer ${env:KEY}/${env:KEY}", Ok("Bearer k1/k1")),
            ("${env:NOPE:-d}", Ok("d")),
            ("${env:NOPE:-}", Ok("")),
            ("${env:BLANK:-d}", Ok("d")),
            ("${file:~/key}", Ok("f1")),
            ("${file:key}", Ok("f2")),
            ("$5 {a}", Ok("$5 {a}")),
            ("${env:NOPE}", Err("The variable NOPE is not set.")),
            (
                "${file:/x}",
                Err("The file `/x` can't be read: it does not exist"),
            ),
            (
                "${cmd:pass show x}",
                Err("References of the kind `${cmd:…}` are not supported yet."),
            ),
            (
                "${keyring:x}",
                Err("References of the kind `${keyring:…}` are not supported yet."),
            ),
            (
                "${HOME}",
                Err("A reference is none of `${env:NAME}` and `${file:PATH}`."),
            ),
            (
                "${env:KEY",
                Err("A reference that begins with `${` has no closing `}`."),
            ),
        ];
        for (written, expected) in cases {
            let resolved = with(|resolver| resolver.resolve(written)).map(|resolved| resolved.text);
            assert_eq!(
                resolved.as_deref().map_err(String::as_str),
                expected,
                "{written}"
            );
        }
    }

    #[test]
    fn what_was_used_and_what_lies_open_is_kept() {
        with(|resolver| {
            assert!(
                resolver
                    .resolve("${env:KEY}${env:NOPE:-x}${file:key}")
                    .is_ok_and(|resolved| resolved.referred)
            );
            assert_eq!(resolver.used, ["KEY"]);
            assert_eq!(
                resolver.remarks,
                ["`/etc/l/key` holds a secret and can be read by others."]
            );
        });
    }
}
