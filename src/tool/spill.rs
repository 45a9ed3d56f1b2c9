//! Outputs too long for the model, kept in files of the session so that they can be read page by page.
//!
//! The files are 0600 in a directory 0700, named by tool and call, and go with their session. Together they take at
//! most [`SPILL_BYTES`](crate::kernel::limits::SPILL_BYTES): the oldest make room for a new one. Other files in the
//! directory are none of this module's business.

use std::path::{Path, PathBuf};

use longshore_protocol::id::ToolCallId;
use ulid::Ulid;

use crate::os::{blocking, fs};

/// Characters of tool and call in the name of a file.
const NAME_CHARS: usize = 80;

/// What its name ends with, after a `-` and a ULID, which tells the order in which files were made.
const SUFFIX: &str = ".txt";

/// Keeps an output and gives its file.
///
/// # Errors
/// Why it could not be kept, lower case, no full stop.
pub(super) async fn keep(
    dir: PathBuf,
    tool: &str,
    call: &ToolCallId,
    text: impl AsRef<str> + Send + 'static,
    max_bytes: u64,
) -> Result<PathBuf, String> {
    let name = file_name(tool, call);
    blocking::run(move || keep_blocking(&dir, &name, text.as_ref(), max_bytes)).await
}

fn keep_blocking(dir: &Path, name: &str, text: &str, max_bytes: u64) -> Result<PathBuf, String> {
    let size = text.len() as u64;
    if size > max_bytes {
        return Err(format!(
            "it has {} MiB, and at most {} MiB are kept",
            size >> 20,
            max_bytes >> 20
        ));
    }
    let path = dir.join(name);
    let kept = (|| {
        fs::create_private_dirs(dir)?;
        make_room(dir, max_bytes - size)?;
        fs::write_private(&path, text.as_bytes())
    })();
    match kept {
        Ok(()) => Ok(path),
        Err(error) => Err(error.to_string()),
    }
}

/// Removes the oldest kept outputs until the others take no more than this.
fn make_room(dir: &Path, max_bytes: u64) -> Result<(), fs::FsError> {
    let mut kept: Vec<(Ulid, PathBuf, u64)> = fs::list_dir(dir)?
        .into_iter()
        .filter_map(|entry| {
            let made = made_at(entry.name.to_str()?)?;
            let size = fs::symlink_metadata(&entry.path).ok()?.len();
            Some((made, entry.path, size))
        })
        .collect();
    kept.sort();
    let mut total: u64 = kept.iter().map(|(_, _, size)| size).sum();
    for (_, path, size) in kept {
        if total <= max_bytes {
            break;
        }
        if fs::remove_file_if_present(&path)? {
            tracing::debug!(path = %path.display(), "a kept output made room for a newer one");
        }
        total -= size;
    }
    Ok(())
}

fn file_name(tool: &str, call: &ToolCallId) -> String {
    let name = format!("{tool}-{call}");
    let safe: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') {
                c
            } else {
                '_'
            }
        })
        .take(NAME_CHARS)
        .collect();
    let id = Ulid::generate().to_string().to_ascii_lowercase();
    format!("{safe}-{id}{SUFFIX}")
}

/// When a file of this module was made; `None` for other names.
fn made_at(name: &str) -> Option<Ulid> {
    let (_, id) = name.strip_suffix(SUFFIX)?.rsplit_once('-')?;
    Ulid::from_string(id).ok()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests look at real files")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn call() -> ToolCallId {
        ToolCallId::from("call_7".to_owned())
    }

    #[tokio::test]
    async fn kept_privately_under_a_safe_name() {
        let dir = tempfile::tempdir().unwrap();
        let results = dir.path().join("a/tool-results");
        let tool = format!("mcp__../b{}", "x".repeat(100));
        let path = keep(results.clone(), &tool, &call(), "text", 100)
            .await
            .unwrap();
        assert_eq!(path.parent(), Some(results.as_path()));
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("mcp_____bx"), "{name}");
        assert_eq!(name.len(), NAME_CHARS + 1 + 26 + SUFFIX.len());
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&results), mode(&path)), (0o700, 0o600));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    }

    #[tokio::test]
    async fn the_oldest_make_room_and_other_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let results = dir.path().join("r");
        std::fs::create_dir(&results).unwrap();
        let old = ["1234", "123456", "12"].map(|text| {
            let made = Ulid::from_parts(text.len() as u64 % 5, 0);
            let path = results.join(format!("T-call_1-{made}.txt"));
            std::fs::write(&path, text).unwrap();
            path
        });
        for other in ["b1.log", "notes.txt", "a-b.txt"] {
            std::fs::write(results.join(other), "x".repeat(100)).unwrap();
        }
        let newest = keep(results.clone(), "T", &call(), "123", 12)
            .await
            .unwrap();
        // Made at 4, 1 and 2: of the 12 bytes, 3 are wanted anew.
        assert_eq!(old.map(|path| path.exists()), [true, false, true]);
        assert!(newest.exists());
        for other in ["b1.log", "notes.txt", "a-b.txt"] {
            assert!(results.join(other).exists(), "{other}");
        }
        let error = keep(results, "T", &call(), "x".repeat(13), 12)
            .await
            .unwrap_err();
        assert!(error.contains("at most"), "{error}");
        assert!(
            newest.exists(),
            "nothing is given up for what can't be kept"
        );
    }
}
