//! Spellings of paths on Windows. Pure, so that they are tested on every system; used where paths have drives.

use super::PathError;

/// Translates what shells there make of a path (`/c/x`, `/cygdrive/c/x`, `//server/share`) to the system's own form.
/// Other paths come back as they are.
///
/// # Errors
/// A path on a drive but relative to that drive's own directory (`C:x`): which that is nobody knows here.
pub(super) fn native(written: &str) -> Result<String, PathError> {
    let slashed = written.replace('\\', "/");
    if let Some(rest) = slashed.strip_prefix("//") {
        return Ok(format!(r"\\{}", rest.replace('/', r"\")));
    }
    let mounted = slashed
        .strip_prefix("/cygdrive/")
        .or_else(|| slashed.strip_prefix('/'));
    if let Some((drive, rest)) = mounted.and_then(split_drive)
        && (rest.is_empty() || rest.starts_with('/'))
    {
        let rest = if rest.is_empty() { "/" } else { rest };
        return Ok(format!("{drive}:{}", rest.replace('/', r"\")));
    }
    if let Some((drive, rest)) = split_drive(&slashed)
        && let Some(rest) = rest.strip_prefix(':')
        && !rest.starts_with('/')
    {
        return Err(PathError::Invalid {
            reason: format!(
                "{written} is relative to a directory of drive {drive} that is not known here; write the path from the \
                 root of the drive ({drive}:\\…)."
            ),
        });
    }
    Ok(written.to_owned())
}

/// What stands behind `~` where it means the home.
pub(super) fn below_home(written: &str) -> Option<&str> {
    let rest = written.strip_prefix('~')?;
    (rest.is_empty() || rest.starts_with(['/', '\\'])).then(|| rest.trim_start_matches(['/', '\\']))
}

/// A drive's letter in capitals, and the rest.
fn split_drive(path: &str) -> Option<(char, &str)> {
    let letter = path.chars().next().filter(char::is_ascii_alphabetic)?;
    Some((letter.to_ascii_uppercase(), &path[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_paths() {
        for (written, expected) in [
            ("/c/x/y", Some(r"C:\x\y")),
            ("/c", Some(r"C:\")),
            ("/cygdrive/d/x", Some(r"D:\x")),
            (r"\\srv\share\x", Some(r"\\srv\share\x")),
            ("//srv/share", Some(r"\\srv\share")),
            (r"C:\x", Some(r"C:\x")),
            ("C:/x", Some("C:/x")),
            ("src/x", Some("src/x")),
            ("/cc/x", Some("/cc/x")),
            ("c", Some("c")),
            ("C:foo", None),
            ("c:", None),
        ] {
            assert_eq!(native(written).ok().as_deref(), expected, "{written}");
        }
    }

    #[test]
    fn the_home() {
        for (written, expected) in [
            ("~", Some("")),
            ("~/n", Some("n")),
            (r"~\n", Some("n")),
            ("~bob/n", None),
            ("n~", None),
        ] {
            assert_eq!(below_home(written), expected, "{written}");
        }
    }
}
