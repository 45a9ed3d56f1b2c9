//! Files that hold secrets, told by their path.
//!
//! The list is fixed except for two lists of the user's own; neither a model nor a project can change it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::fold;

/// Names that look secret and are not.
const HARMLESS: [&str; 9] = [
    ".env.example",
    ".env.sample",
    ".env.template",
    "id_rsa.pub",
    "id_ed25519.pub",
    "id_ecdsa.pub",
    "id_dsa.pub",
    "id_ed25519_sk.pub",
    "id_ecdsa_sk.pub",
];

/// Names that hold keys or credentials, also when followed by `-`, `_` or an extension of [`KEY_COPIES`].
const KEYS: [&str; 4] = ["id_rsa", "id_ed25519", "id_ecdsa", "credentials"];

/// Extensions of copies of a key.
const KEY_COPIES: [&str; 10] = [
    ".bak",
    ".backup",
    ".copy",
    ".disabled",
    ".key",
    ".old",
    ".orig",
    ".pem",
    ".save",
    ".tmp",
];

/// Further names that hold nothing but secrets.
const SECRETS: [&str; 7] = [
    ".env",
    "id_dsa",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".git-credentials",
    ".pypirc",
];

/// Directories whose `credentials` entry, file or directory, is secret wherever it stands.
const CLOUD_DIRS: [&str; 2] = [".aws", ".gcp"];

/// Paths below the home that are secret, with everything below them.
const HOME_SECRETS: [&str; 5] = [
    ".gnupg",
    ".kube/config",
    ".docker/config.json",
    ".config/gh/hosts.yml",
    ".config/gcloud",
];

/// Entries of longshore's own directory that are secret, with everything below them.
const OWN_SECRETS: [&str; 2] = ["credentials", "run/ws-token"];

/// The files that file tools refuse and searches leave out.
#[derive(Debug, Clone, Default)]
pub struct SensitiveFiles {
    extra: UserGlobs,
    allow: UserGlobs,
    /// The home, as it is written and with links resolved, in the common form; likewise the next.
    homes: Vec<PathBuf>,
    longshore_homes: Vec<PathBuf>,
}

/// A glob of the user's that cannot be read; the others stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadGlob {
    /// As it was written.
    pub glob: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Globs without `/` are matched against the name, others against the whole path; case does not count.
#[derive(Debug, Clone, Default)]
struct UserGlobs {
    names: GlobSet,
    paths: GlobSet,
}

impl SensitiveFiles {
    /// The fixed list with the user's own additions (`extra`) and exceptions (`allow`, which win over everything).
    ///
    /// A glob without `/` is matched against the name, another against the absolute path; `~/` in front means `home`.
    /// Globs that cannot be read are left out and handed back.
    pub fn new(extra: &[String], allow: &[String], home: Option<&Path>) -> (Self, Vec<BadGlob>) {
        let mut bad = Vec::new();
        let files = Self {
            extra: UserGlobs::new(extra, home, &mut bad),
            allow: UserGlobs::new(allow, home, &mut bad),
            homes: Vec::new(),
            longshore_homes: Vec::new(),
        };
        (files, bad)
    }

    /// Says where the home and longshore's own files are, as written and with links resolved; both hold secrets at fixed
    /// places.
    pub(super) fn set_places(&mut self, homes: &[PathBuf], longshore_homes: &[PathBuf]) {
        let folded = |paths: &[PathBuf]| {
            let paths = paths.iter().map(|path| fold::path(path).into_owned());
            paths.collect()
        };
        self.homes = folded(homes);
        self.longshore_homes = folded(longshore_homes);
    }

    /// Whether this path, absolute and folded, is protected.
    ///
    /// Searches ask this for every file of a tree, so what is no secret has to be told quickly.
    pub fn covers(&self, path: &Path) -> bool {
        let path = &*fold::path(path);
        if self.allow.matches(path) {
            return false;
        }
        // What is normal is text.
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if HARMLESS.contains(&name) {
            return false;
        }
        let is_below = |dirs: &[PathBuf], entries: &[&str]| {
            let mut rests = dirs.iter().filter_map(|dir| below(path, dir));
            rests.any(|rest| entries.iter().any(|entry| rest.starts_with(entry)))
        };
        self.extra.matches(path)
            || secret_name(name)
            || in_cloud_dir(path)
            || in_process_dir(path)
            || is_below(&self.longshore_homes, &OWN_SECRETS)
            || self.homes.iter().any(|home| home_secret(path, home, name))
    }
}

impl UserGlobs {
    fn new(globs: &[String], home: Option<&Path>, bad: &mut Vec<BadGlob>) -> Self {
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for glob in globs {
            let expanded = match (glob.strip_prefix("~/"), home) {
                (Some(rest), Some(home)) => {
                    format!("{}/{rest}", globset::escape(&home.to_string_lossy()))
                }
                _ => glob.clone(),
            };
            let lower = fold::text(&expanded);
            match GlobBuilder::new(&lower).literal_separator(true).build() {
                Ok(glob) if lower.contains('/') => paths.add(glob),
                Ok(glob) => names.add(glob),
                Err(error) => {
                    bad.push(BadGlob {
                        glob: glob.clone(),
                        reason: error.kind().to_string(),
                    });
                    continue;
                }
            };
        }
        let mut set = |builder: GlobSetBuilder| match builder.build() {
            Ok(set) => set,
            Err(error) => {
                bad.push(BadGlob {
                    glob: globs.join(", "),
                    reason: error.to_string(),
                });
                GlobSet::empty()
            }
        };
        Self {
            names: set(names),
            paths: set(paths),
        }
    }

    fn matches(&self, path: &Path) -> bool {
        self.paths.is_match(path)
            || path
                .file_name()
                .is_some_and(|name| self.names.is_match(name))
    }
}

/// As `strip_prefix`, for two paths without `.`, `..` and double slashes; it compares them whole.
fn below<'p>(path: &'p Path, dir: &Path) -> Option<&'p Path> {
    let dir = dir.as_os_str().as_bytes();
    // The root itself ends in a slash.
    let dir = dir.strip_suffix(b"/").unwrap_or(dir);
    let rest = path.as_os_str().as_bytes().strip_prefix(dir)?;
    match rest {
        [] => Some(Path::new("")),
        [b'/', rest @ ..] => Some(Path::new(OsStr::from_bytes(rest))),
        _ => None,
    }
}

fn secret_name(name: &str) -> bool {
    if SECRETS.contains(&name) || name.starts_with(".env.") {
        return true;
    }
    let is_key = KEYS.iter().any(|key| {
        name.strip_prefix(key).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(['-', '_']) || KEY_COPIES.contains(&rest)
        })
    });
    let mut secrets = SECRETS.iter().chain(&KEYS);
    is_key || secrets.any(|secret| fold::is_short_form(name, secret))
}

fn in_cloud_dir(path: &Path) -> bool {
    if memchr::memmem::find(path.as_os_str().as_bytes(), b"/credentials").is_none() {
        return false;
    }
    let names: Vec<_> = path.iter().collect();
    names.windows(2).any(|pair| {
        matches!(pair, [dir, entry] if CLOUD_DIRS.iter().any(|cloud| dir == cloud) && *entry == "credentials")
    })
}

/// The environment and memory of processes. Everything of our own, since it changes with whoever looks.
fn in_process_dir(path: &Path) -> bool {
    let Some(rest) = below(path, Path::new("/proc")) else {
        return false;
    };
    let own = std::process::id().to_string();
    let mut of_ours = ["self", "thread-self", "kcore", &own].into_iter();
    of_ours.any(|entry| rest.starts_with(entry))
        || rest
            .file_name()
            .is_some_and(|name| name == "environ" || name == "mem")
}

fn home_secret(path: &Path, home: &Path, name: &str) -> bool {
    let Some(rest) = below(path, home) else {
        return false;
    };
    if !rest.as_os_str().as_bytes().starts_with(b".") {
        return false;
    }
    if let Ok(in_ssh) = rest.strip_prefix(".ssh") {
        let is_public = name == "config"
            || name == "known_hosts"
            || Path::new(name)
                .extension()
                .is_some_and(|extension| extension == "pub");
        return !in_ssh.as_os_str().is_empty() && !is_public;
    }
    HOME_SECRETS.iter().any(|secret| rest.starts_with(secret))
}
