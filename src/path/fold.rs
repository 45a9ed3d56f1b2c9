//! One form for all spellings of a name that some file system takes for the same.
//!
//! Where a file is protected, a spelling too many costs nothing and one too few gives it away. So names are compared in
//! this form on every system: disks of other systems are mounted, and folders are shared between them.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

use unicode_normalization::UnicodeNormalization;

/// A path with each name in its common form: composed, without regard to case, and without what Apple's and Windows's
/// file systems leave out (invisible characters; dots and spaces at the end; the name of the main stream).
pub(super) fn path(path: &Path) -> Cow<'_, Path> {
    // Searches ask this of every file they meet, and nearly all of them are in that form.
    if is_common(path.as_os_str().as_encoded_bytes()) {
        return path.into();
    }
    let folded: PathBuf = path
        .components()
        .map(|component| match component {
            Component::Normal(part) => name(&part.to_string_lossy()),
            other => other.as_os_str().to_string_lossy().into_owned(),
        })
        .collect();
    folded.into()
}

/// Whether a path is sure to be in the common form, each byte looked at once.
fn is_common(path: &[u8]) -> bool {
    let mut before = 0;
    for byte in path {
        let is_end = *byte == b'/' && matches!(before, b'.' | b' ' | b'/');
        if !byte.is_ascii() || byte.is_ascii_uppercase() || *byte == b':' || is_end {
            return false;
        }
        before = *byte;
    }
    !matches!(before, b'.' | b' ' | b'/')
}

/// As [`path`], for one name.
pub(super) fn name(name: &str) -> String {
    let folded = text(name);
    let main = folded
        .strip_suffix("::$data")
        .unwrap_or(&folded)
        .trim_end_matches(['.', ' ']);
    // A name of nothing but dots is not a name in this sense.
    if main.is_empty() {
        folded
    } else {
        main.to_owned()
    }
}

/// Case and composition alone, for patterns, whose dots and spaces count.
///
/// To upper and then to lower case, so that letters with one capital between them, as `ſ` and `s`, become the same.
pub(super) fn text(text: &str) -> String {
    text.chars()
        .filter(|c| !is_invisible(*c))
        .nfc()
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .nfc()
        .collect()
}

/// Characters that HFS+ leaves out of comparisons.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200C}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{206A}'..='\u{206F}' | '\u{FEFF}'
    )
}

/// Whether a folded name is the short form (8.3) that Windows would give a file of this folded name: its first six
/// letters without dots, `~` and a digit.
pub(super) fn is_short_form(short: &str, of: &str) -> bool {
    let Some((head, tail)) = short.split_once('~') else {
        return false;
    };
    let (number, extension) = tail.split_once('.').unwrap_or((tail, ""));
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    // A leading dot begins no extension there.
    let (stem, of_extension) = match of.trim_start_matches('.').rsplit_once('.') {
        Some((stem, extension)) => (stem, extension),
        None => (of, ""),
    };
    let letters = |text: &str, n| {
        let letters = text.chars().filter(|c| !matches!(c, '.' | ' ')).take(n);
        letters.collect::<String>()
    };
    is_number && head == letters(stem, 6) && extension == letters(of_extension, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name() {
        for (written, expected) in [
            (".ENV", ".env"),
            (".env.", ".env"),
            (".env . .", ".env"),
            (".Env::$DATA", ".env"),
            (".e\u{200C}nv", ".env"),
            ("credential\u{17F}", "credentials"),
            ("\u{212A}ey", "key"),
            ("e\u{301}", "\u{E9}"),
            ("E\u{301}", "\u{E9}"),
            ("\u{FB01}le", "file"),
            ("..", ".."),
            (".a.b", ".a.b"),
            ("...", "..."),
            (".envrc", ".envrc"),
        ] {
            assert_eq!(name(written), expected, "{written:?}");
        }
        for (written, expected) in [
            ("/A/b. /C", "/a/b/c"),
            ("/A/.b/C.d", "/a/.b/c.d"),
            ("/A./b", "/a/b"),
            ("/\u{C4}/B ", "/\u{E4}/b"),
            ("/", "/"),
            ("a//b/", "a/b"),
        ] {
            assert_eq!(path(Path::new(written)), Path::new(expected), "{written}");
        }
    }

    #[test]
    fn short_forms() {
        for (short, of, expected) in [
            ("env~1", ".env", true),
            ("creden~1", "credentials", true),
            ("id_ed2~2", "id_ed25519", true),
            ("git-cr~1", ".git-credentials", true),
            ("env~1.loc", ".env.local", true),
            ("id_rsa~1", "id_rsa", true),
            ("id_rsa~1.old", "id_rsa.old", true),
            ("id_rsa~", "id_rsa", false),
            ("id_rsa~x", "id_rsa", false),
            ("creden", "credentials", false),
            ("env~1", ".envrc", false),
        ] {
            assert_eq!(is_short_form(short, of), expected, "{short} {of}");
        }
    }
}
