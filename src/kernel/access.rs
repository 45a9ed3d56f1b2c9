//! What a call touches, and when two calls must not run at the same time.

use std::path::{Path, PathBuf};

use longshore_protocol::value::tool::{AccessInfo, Operation};

/// One thing a call touches. A call with no access conflicts with nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anything: the call runs alone.
    All,
    /// A file, or everything below a directory.
    File(FileAccess),
}

/// A file or tree that a call touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileAccess {
    /// What is done to it; never [`Operation::All`].
    pub operation: Operation,
    /// Absolute, `.` and `..` folded, links not resolved.
    pub path: PathBuf,
    /// True where everything below is meant.
    pub recursive: bool,
}

/// An access after the look at the disk, before anyone is asked: what the decision and the schedule are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealAccess {
    /// As the call declared it.
    pub access: Access,
    /// The path with links resolved (its longest existing part); the declared path for [`Access::All`] is empty.
    pub real: PathBuf,
    /// The declared path lies in the workspace.
    pub inside: bool,
    /// The real path lies in the workspace.
    pub real_inside: bool,
    /// A link was followed on the way.
    pub crosses_link: bool,
    /// The declared or the real path is a sensitive file.
    pub sensitive: bool,
    /// The path is a repository's control directory, longshore's own configuration, or below one.
    pub guarded: bool,
}

impl Access {
    /// Reads one file.
    pub fn read(path: impl Into<PathBuf>) -> Self {
        Self::file(Operation::Read, path)
    }

    /// Writes one file.
    pub fn write(path: impl Into<PathBuf>) -> Self {
        Self::file(Operation::Write, path)
    }

    /// Reads and writes one file.
    pub fn read_write(path: impl Into<PathBuf>) -> Self {
        Self::file(Operation::Readwrite, path)
    }

    /// Searches everything below a directory.
    pub fn search(path: impl Into<PathBuf>) -> Self {
        Self::File(FileAccess {
            operation: Operation::Search,
            path: path.into(),
            recursive: true,
        })
    }

    fn file(operation: Operation, path: impl Into<PathBuf>) -> Self {
        Self::File(FileAccess {
            operation,
            path: path.into(),
            recursive: false,
        })
    }

    /// True where something may change.
    pub fn writes(&self) -> bool {
        match self {
            Self::All => true,
            Self::File(file) => matches!(file.operation, Operation::Write | Operation::Readwrite),
        }
    }
}

impl RealAccess {
    /// An access that names no path.
    pub fn all() -> Self {
        Self {
            access: Access::All,
            real: PathBuf::new(),
            inside: false,
            real_inside: false,
            crosses_link: false,
            sensitive: false,
            guarded: false,
        }
    }

    /// For hosts.
    pub fn info(&self) -> AccessInfo {
        match &self.access {
            Access::All => AccessInfo {
                operation: Operation::All,
                path: None,
                real_path: None,
                recursive: false,
            },
            Access::File(file) => AccessInfo {
                operation: file.operation,
                path: Some(file.path.display().to_string()),
                real_path: (self.real != file.path).then(|| self.real.display().to_string()),
                recursive: file.recursive,
            },
        }
    }
}

/// True where the two sets of accesses must not be in use at the same time.
pub fn conflict(a: &[RealAccess], b: &[RealAccess]) -> bool {
    a.iter().any(|a| b.iter().any(|b| pair_conflicts(a, b)))
}

fn pair_conflicts(a: &RealAccess, b: &RealAccess) -> bool {
    let (Access::File(file_a), Access::File(file_b)) = (&a.access, &b.access) else {
        return true;
    };
    if !a.access.writes() && !b.access.writes() {
        return false;
    }
    overlap(
        &file_a.path,
        file_a.recursive,
        &file_b.path,
        file_b.recursive,
    ) || overlap(&a.real, file_a.recursive, &b.real, file_b.recursive)
}

fn overlap(a: &Path, a_recursive: bool, b: &Path, b_recursive: bool) -> bool {
    let (a, b) = (key(a), key(b));
    a == b || (a_recursive && b.starts_with(&a)) || (b_recursive && a.starts_with(&b))
}

/// Paths are compared lower-cased and with one separator on every system: ordering too much is safe, the reverse is not.
fn key(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().to_lowercase().replace('\\', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(access: Access) -> RealAccess {
        let real = match &access {
            Access::All => PathBuf::new(),
            Access::File(file) => file.path.clone(),
        };
        RealAccess {
            access,
            real,
            ..RealAccess::all()
        }
    }

    #[test]
    fn conflicts_by_operation_and_overlap() {
        let cases = [
            (Access::read("/a/x"), Access::read("/a/x"), false),
            (Access::read("/A/x"), Access::write("/a/X"), true),
            (Access::search("/a"), Access::write("/ab/x"), false),
            (Access::search("/a"), Access::write("/a/b/x"), true),
            (
                Access::read_write("/a/x"),
                Access::read_write("/a/y"),
                false,
            ),
            (Access::read("/a//x/"), Access::write("/a/./x"), true),
            (Access::search("/a/"), Access::write("/a"), true),
            (Access::search("/"), Access::write("/a/x"), true),
            (Access::read("/a/x"), Access::write("/a/x/y"), false),
            (Access::read("/a\\x"), Access::write("/A/x"), true),
            (Access::All, Access::read("/a/x"), true),
            (Access::All, Access::All, true),
        ];
        for (a, b, expected) in cases {
            assert_eq!(
                conflict(&[real(a.clone())], &[real(b.clone())]),
                expected,
                "{a:?} {b:?}"
            );
            assert_eq!(conflict(&[real(b)], &[real(a)]), expected);
        }
        assert!(!conflict(&[], &[RealAccess::all()]));
    }

    #[test]
    fn two_spellings_of_one_file_conflict() {
        let mut link = real(Access::write("/w/link"));
        link.real = PathBuf::from("/w/file");
        assert!(conflict(&[link], &[real(Access::read("/w/file"))]));
    }
}
