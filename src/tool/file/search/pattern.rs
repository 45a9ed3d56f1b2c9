//! Globs of the model: matched against paths below the root of a search.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

/// A glob. Without `/` it means a name at any depth, with one a path from the root.
#[derive(Debug, Clone)]
pub(in super::super) struct Pattern {
    matcher: GlobMatcher,
    is_anchored: bool,
    /// Directories that everything which matches lies in.
    literal_prefix: PathBuf,
}

/// A glob that keeps or, with `!` in front, drops files.
#[derive(Debug, Clone)]
pub(in super::super) struct Filter {
    pattern: Pattern,
    excludes: bool,
}

impl Pattern {
    /// Reads a glob for a search below `root`, which is given as it was written and as it really is.
    ///
    /// # Errors
    /// What is wrong with it, as a full sentence for the model.
    pub(in super::super) fn new(glob: &str, roots: [&Path; 2]) -> Result<Self, String> {
        let relative = below_root(glob, roots)?;
        let is_from_root = glob.starts_with('/') || glob.starts_with("./");
        let relative = relative.strip_prefix("./").unwrap_or(relative);
        if relative.is_empty() {
            return Err("The glob is empty.".to_owned());
        }
        if relative.split('/').any(|part| part == "..") {
            return Err(format!(
                "The glob {glob} leads out of where it is searched; use `path` to search elsewhere."
            ));
        }
        // A directory means everything in it.
        let relative = if relative.ends_with('/') {
            format!("{relative}**")
        } else {
            relative.to_owned()
        };
        let matcher = GlobBuilder::new(&relative)
            .literal_separator(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| format!("The glob {glob} is not valid: {}.", error.kind()))?
            .compile_matcher();
        Ok(Self {
            matcher,
            is_anchored: is_from_root || relative.contains('/'),
            literal_prefix: literal_prefix(&relative),
        })
    }

    /// Whether a file, by its path from the root, matches.
    pub(in super::super) fn matches(&self, relative: &Path) -> bool {
        if self.is_anchored {
            return self.matcher.is_match(relative);
        }
        relative
            .file_name()
            .is_some_and(|name| self.matcher.is_match(name))
    }
}

impl Filter {
    /// As [`Pattern::new`], with an optional `!`.
    pub(in super::super) fn new(glob: &str, roots: [&Path; 2]) -> Result<Self, String> {
        let (glob, excludes) = match glob.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (glob, false),
        };
        Ok(Self {
            pattern: Pattern::new(glob, roots)?,
            excludes,
        })
    }

    /// The directory, from the root, that everything which is kept lies in.
    pub(super) fn begins_in(&self) -> &Path {
        if self.excludes {
            Path::new("")
        } else {
            &self.pattern.literal_prefix
        }
    }

    /// Whether anything below this directory may be kept, as far as its path tells.
    pub(super) fn may_keep_below(&self, dir: &Path) -> bool {
        if self.excludes {
            return !self.pattern.matches(dir);
        }
        let prefix = &self.pattern.literal_prefix;
        prefix.starts_with(dir) || dir.starts_with(prefix)
    }

    /// Whether a file is kept. A directory that is excluded excludes what is in it.
    pub(in super::super) fn keeps(&self, relative: &Path) -> bool {
        if !self.excludes {
            return self.pattern.matches(relative);
        }
        let within = relative
            .ancestors()
            .filter(|part| !part.as_os_str().is_empty());
        !within.into_iter().any(|part| self.pattern.matches(part))
    }
}

impl From<Pattern> for Filter {
    /// Keeps what matches.
    fn from(pattern: Pattern) -> Self {
        Self {
            pattern,
            excludes: false,
        }
    }
}

/// An absolute glob becomes one from the root.
fn below_root<'g>(glob: &'g str, roots: [&Path; 2]) -> Result<&'g str, String> {
    if !glob.starts_with('/') {
        return Ok(glob);
    }
    let below = roots.iter().find_map(|root| {
        let root = root.to_string_lossy();
        glob.strip_prefix(root.trim_end_matches('/'))?
            .strip_prefix('/')
    });
    below.ok_or_else(|| {
        format!("The glob {glob} is not below the directory that is searched; use `path` to search elsewhere.")
    })
}

/// The directories a glob names without any wildcard.
fn literal_prefix(glob: &str) -> PathBuf {
    let mut parts = glob.split('/').collect::<Vec<_>>();
    parts.pop();
    parts
        .into_iter()
        .take_while(|part| !part.contains(['*', '?', '[', ']', '{', '}', '\\']))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots() -> [&'static Path; 2] {
        [Path::new("/alias"), Path::new("/ws")]
    }

    #[test]
    fn patterns() {
        for (glob, path, expected) in [
            ("*.rs", "a/b/x.rs", true),
            ("*.rs", "x.rs", true),
            ("a.ts", "src/a.ts", true),
            ("src/*.rs", "src/x.rs", true),
            ("src/*.rs", "deep/src/x.rs", false),
            ("src/*.rs", "src/deep/x.rs", false),
            ("src/**/*.ts", "src/x.ts", true),
            ("src/**/*.ts", "src/a/b/x.ts", true),
            ("**/*", "x", true),
            ("**", "a/x", true),
            ("**/*.{ts,tsx}", "a/x.tsx", true),
            ("{a,{b,c}d}.x", "cd.x", true),
            ("\\{a\\}", "{a}", true),
            ("src/", "src/a/b", true),
            ("./x", "x", true),
            ("./x", "a/x", false),
            ("/ws/src/*.rs", "src/x.rs", true),
            ("/alias/x", "x", true),
            ("/alias/x", "a/x", false),
            ("X.rs", "x.rs", false),
            ("*", ".hidden", true),
        ] {
            let pattern = Pattern::new(glob, roots()).unwrap();
            assert_eq!(pattern.matches(Path::new(path)), expected, "{glob} {path}");
        }
        for (glob, expected) in [
            ("", "empty"),
            ("./", "empty"),
            ("../x", "leads out"),
            ("/other/x", "not below"),
            ("/ws-evil/x", "not below"),
            ("[", "not valid"),
            ("{a", "not valid"),
        ] {
            let error = Pattern::new(glob, roots()).unwrap_err();
            assert!(error.contains(expected), "{glob}: {error}");
        }
    }

    #[test]
    fn filters() {
        for (glob, path, expected) in [
            ("*.log", "a/x.log", true),
            ("*.log", "a/x.rs", false),
            ("!*.log", "a/x.log", false),
            ("!*.log", "a/x.rs", true),
            ("!target", "target/debug/x", false),
            ("!a/b/**", "a/b/x", false),
            ("!a/b", "a/b/c/x", false),
            ("!a/b", "c/a/b/x", true),
        ] {
            assert_eq!(
                Filter::new(glob, roots()).unwrap().keeps(Path::new(path)),
                expected,
                "{glob} {path}"
            );
        }
    }

    #[test]
    fn literal_beginnings_narrow_the_walk() {
        for (glob, dir, expected) in [
            ("a/b/**", "a", true),
            ("a/b/**", "a/b/c", true),
            ("a/b/**", "c", false),
            ("a/*/c", "a/x", true),
            ("*.rs", "any/where", true),
            ("**/x", "any", true),
            ("!target", "target", false),
            ("!target", "src", true),
            ("!a/b/*", "a/b", true),
        ] {
            let filter = Filter::new(glob, roots()).unwrap();
            assert_eq!(
                filter.may_keep_below(Path::new(dir)),
                expected,
                "{glob} {dir}"
            );
        }
    }
}
