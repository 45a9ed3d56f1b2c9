//! Paths whose change reaches beyond the files themselves: control directories of git (hooks run programs) and
//! longshore's own configuration (rules, hooks, servers).

use std::path::{Component, Path, PathBuf};

use super::{Workspace, fold, lexical, real};
use crate::os::fs;

/// A `.git` file is one short line.
const GIT_FILE_BYTES: u64 = 8192;

/// Where longshore looks for a project's settings.
const PROJECT_DIR: &str = ".longshore";
const PROJECT_SERVERS: &str = ".mcp.json";

/// The real control directories of the repositories around the roots (blocking).
///
/// A `.git` file of a work tree or submodule points to one; git also follows a `commondir` file in there.
pub(super) fn control_dirs(workspace: &Workspace) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    for root in &workspace.real_roots {
        let Some(marker) = root
            .ancestors()
            .map(|dir| dir.join(".git"))
            .find(|marker| fs::symlink_metadata(marker).is_ok())
        else {
            continue;
        };
        let control = match pointed_to(&marker, "gitdir:") {
            Some(dir) => dir,
            None => marker,
        };
        let control = real::best_effort(&control);
        if let Some(common) = pointed_to(&control.join("commondir"), "") {
            dirs.push(real::best_effort(&common));
        }
        dirs.push(control);
    }
    dirs
}

/// The directory a one-line pointer file names, relative to where the file stands.
fn pointed_to(file: &Path, prefix: &str) -> Option<PathBuf> {
    let bytes = fs::read_prefix(file, GIT_FILE_BYTES).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let target = text.lines().next()?.strip_prefix(prefix)?.trim();
    (!target.is_empty()).then(|| lexical::fold(&file.parent().unwrap_or(file).join(target)))
}

/// Whether touching this path touches a control directory or, for a write, longshore's own configuration.
///
/// `paths` are the written and the real form.
pub(super) fn is_guarded(
    workspace: &Workspace,
    paths: [&Path; 2],
    writes: bool,
    control_dirs: &[PathBuf],
) -> bool {
    paths.iter().any(|path| {
        has_component(path, ".git")
            || control_dirs.iter().any(|dir| path.starts_with(dir))
            || (writes && is_own_configuration(workspace, path))
    })
}

fn is_own_configuration(workspace: &Workspace, path: &Path) -> bool {
    let homes = [&workspace.longshore_home, &workspace.real_longshore_home];
    has_component(path, PROJECT_DIR)
        || path
            .file_name()
            .is_some_and(|name| same_name(&name.to_string_lossy(), PROJECT_SERVERS))
        || homes
            .into_iter()
            .flatten()
            .any(|home| path.starts_with(home))
}

fn has_component(path: &Path, name: &str) -> bool {
    path.components().any(|component| match component {
        Component::Normal(part) => same_name(&part.to_string_lossy(), name),
        _ => false,
    })
}

/// In any spelling that some file system takes for the same. `name` is in the common form.
fn same_name(written: &str, name: &str) -> bool {
    let written = fold::name(written);
    written == name || fold::is_short_form(&written, name)
}
