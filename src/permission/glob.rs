//! Globs as rules use them: over text, where `*` crosses everything, and over paths, where it stays in a segment.
//!
//! Both know `*`, `?`, `[…]`, `{a,b}` and `\` before a literal character; `**` as a path segment crosses segments. The
//! leading dot of a name has to be written where a rule approves: `src/*` says nothing of `src/.env`. Where one forbids
//! it is a character like any other: a rule that meant to protect a directory covers its dotfiles too. `?` and classes
//! match whole characters, whatever their bytes, which is why these globs become regular expressions here and are not
//! those of file searches.

use std::path::Path;

use regex::{Regex, RegexBuilder};
use unicode_normalization::UnicodeNormalization;

use super::rule::Anchors;

/// Characters a literal needs a backslash before.
const SPECIAL: &str = r"\*?[]{}()!+@|";

/// How far a pattern reaches beyond what its letters say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Letter for letter; relative patterns are anchored. For what approves.
    Exact,
    /// Whatever the case or composition of letters; a pattern is also held against the whole path as it is written. For
    /// what forbids, so that no other spelling gets around it.
    Wide,
}

/// A compiled glob over text.
#[derive(Clone, Debug)]
pub(super) struct TextGlob(Regex);

/// A compiled glob over absolute paths.
#[derive(Clone, Debug)]
pub(super) struct PathGlob {
    forms: Vec<Regex>,
    fold: bool,
}

impl TextGlob {
    /// # Errors
    /// What is wrong with the pattern, lower case, no full stop.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        compile(pattern, Separator::Ordinary).map(Self)
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl PathGlob {
    /// Compiles the forms of a pattern: `~` expanded, relative ones below the session's directory (as given and with
    /// links resolved), `.` and `..` folded.
    ///
    /// # Errors
    /// What is wrong with the pattern, lower case, no full stop.
    pub(super) fn new(pattern: &str, anchors: &Anchors, reach: Reach) -> Result<Self, String> {
        let pattern = if cfg!(windows) {
            pattern.replace("\\\\", "/")
        } else {
            pattern.to_owned()
        };
        let stripped = pattern.strip_prefix("./").unwrap_or(&pattern);
        let mut forms = match stripped.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => match &anchors.home {
                Some(home) => vec![format!("{}{rest}", escape_path(home))],
                None => return Err("there is no home directory that `~` could mean".to_owned()),
            },
            _ if is_absolute(stripped) => vec![stripped.to_owned()],
            _ => [&anchors.cwd, &anchors.real_cwd]
                .into_iter()
                .map(|cwd| format!("{}/{stripped}", escape_path(cwd).trim_end_matches('/')))
                .collect(),
        };
        for form in &mut forms {
            *form = fold_segments(form);
        }
        if reach == Reach::Wide {
            forms.push(stripped.to_owned());
        }
        forms.dedup();
        let fold = reach == Reach::Wide || anchors.ignore_case;
        let forms = forms
            .iter()
            .map(|form| {
                let separator = match reach {
                    Reach::Exact => Separator::SlashNoDots,
                    Reach::Wide => Separator::Slash,
                };
                compile(
                    &if fold { fold_case(form) } else { form.clone() },
                    separator,
                )
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { forms, fold })
    }

    pub(super) fn is_match(&self, path: &Path) -> bool {
        let text = slashes(path);
        let text = if self.fold { fold_case(&text) } else { text };
        self.forms.iter().any(|form| form.is_match(&text))
    }
}

/// Writes text so that it stands for itself in a pattern.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if SPECIAL.contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The text a pattern stands for, where it stands for one text only.
pub(super) fn literal(pattern: &str) -> Option<String> {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next()?),
            '*' | '?' | '[' | ']' | '{' | '}' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

/// What wildcards stop at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// Nothing: a `/` is a character like any other.
    Ordinary,
    /// A `/`.
    Slash,
    /// The same, and at its beginning a name's leading dot, which has to be written.
    SlashNoDots,
}

/// # Errors
/// What is wrong with the pattern, lower case, no full stop.
fn compile(pattern: &str, separator: Separator) -> Result<Regex, String> {
    let translated = translate(pattern, separator)?;
    RegexBuilder::new(&format!(r"\A(?:{translated})\z"))
        .dot_matches_new_line(true)
        .build()
        .map_err(|_| "it is too large".to_owned())
}

fn translate(pattern: &str, separator: Separator) -> Result<String, String> {
    let (any, many) = match separator {
        Separator::Ordinary => (".", ".*"),
        Separator::Slash | Separator::SlashNoDots => ("[^/]", "[^/]*"),
    };
    let no_dots = separator == Separator::SlashNoDots;
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::new();
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let starts_segment = at == 0 || matches!(chars[at - 1], '/' | '{' | ',');
        at += 1;
        match c {
            '\\' => {
                let literal = chars.get(at).ok_or("a `\\` stands at its end")?;
                push_literal(&mut out, *literal);
                at += 1;
            }
            '*' => {
                let more = chars[at..].iter().take_while(|c| **c == '*').count();
                at += more;
                let next = chars.get(at);
                let is_segment =
                    more > 0 && starts_segment && matches!(next, None | Some('/' | '}' | ','));
                let is_dirs = is_segment && next == Some(&'/');
                match separator {
                    Separator::Slash if is_dirs => out.push_str("(?:.*/)?"),
                    Separator::Slash if is_segment => out.push_str(".*"),
                    Separator::SlashNoDots if is_dirs => out.push_str(r"(?:[^/.][^/]*/)*"),
                    Separator::SlashNoDots if is_segment => {
                        out.push_str(r"[^/.][^/]*(?:/[^/.][^/]*)*");
                    }
                    Separator::SlashNoDots if starts_segment => {
                        // With nothing in its place the name would begin with what comes next.
                        let may_be_empty = next.is_some_and(|next| !"./{}[?,\\".contains(*next));
                        out.push_str(r"(?:[^/.][^/]*)");
                        out.push_str(if may_be_empty { "?" } else { "" });
                    }
                    _ => out.push_str(many),
                }
                at += usize::from(is_dirs && separator != Separator::Ordinary);
            }
            '?' if no_dots && starts_segment => out.push_str("[^/.]"),
            '?' => out.push_str(any),
            '[' => at = push_class(&mut out, &chars, at, separator)?,
            '{' => {
                depth += 1;
                out.push_str("(?:");
            }
            '}' => {
                depth = depth.checked_sub(1).ok_or("a `}` has no `{`")?;
                out.push(')');
            }
            ',' if depth > 0 => out.push('|'),
            c => push_literal(&mut out, c),
        }
    }
    if depth > 0 {
        return Err("a `{` has no `}`".to_owned());
    }
    Ok(out)
}

/// Translates a class from behind its `[`, and says where it ends.
fn push_class(
    out: &mut String,
    chars: &[char],
    mut at: usize,
    separator: Separator,
) -> Result<usize, String> {
    let unclosed = || "a `[` has no `]`".to_owned();
    let is_negated = matches!(chars.get(at), Some('!' | '^'));
    at += usize::from(is_negated);
    let first = at;
    let mut members = String::new();
    loop {
        let mut low = *chars.get(at).ok_or_else(unclosed)?;
        if low == ']' && at > first {
            break;
        }
        if low == '\\' {
            at += 1;
            low = *chars.get(at).ok_or_else(unclosed)?;
        }
        push_literal(&mut members, low);
        at += 1;
        if chars.get(at) == Some(&'-') && chars.get(at + 1).is_some_and(|high| *high != ']') {
            let high = chars[at + 1];
            if high < low {
                return Err(format!("the range `{low}-{high}` is empty"));
            }
            members.push('-');
            push_literal(&mut members, high);
            at += 2;
        }
    }
    let negation = if is_negated { "^" } else { "" };
    match separator {
        Separator::Ordinary => out.extend(["[", negation, &members, "]"]),
        Separator::Slash | Separator::SlashNoDots => {
            out.extend(["[[", negation, &members, "]&&[^/]]"]);
        }
    }
    Ok(at + 1)
}

/// A character by its number stands for itself, in a class too.
fn push_literal(out: &mut String, c: char) {
    out.extend([r"\x{", &format!("{:x}", c as u32), "}"]);
}

/// Letters of any case, composed or not, become the same.
fn fold_case(text: &str) -> String {
    text.nfc().flat_map(char::to_lowercase).collect()
}

fn escape_path(path: &Path) -> String {
    escape(&slashes(path))
}

fn slashes(path: &Path) -> String {
    let text = path.to_string_lossy();
    if cfg!(windows) {
        text.replace('\\', "/")
    } else {
        text.into_owned()
    }
}

fn is_absolute(pattern: &str) -> bool {
    pattern.starts_with('/') || (cfg!(windows) && pattern.as_bytes().get(1) == Some(&b':'))
}

/// Takes `.`, `..` and empty segments out of an absolute pattern, as they are taken out of paths.
fn fold_segments(pattern: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    for segment in pattern.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                out.pop();
            }
            segment => out.push(segment),
        }
    }
    let joined = out.join("/");
    if pattern.starts_with('/') {
        format!("/{joined}")
    } else {
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchors() -> Anchors {
        Anchors {
            cwd: "/w".into(),
            real_cwd: "/real/w".into(),
            home: Some("/home/u".into()),
            ignore_case: false,
        }
    }

    #[test]
    fn text_globs_cross_slashes_and_lines() {
        let cases = [
            ("rm -rf*", "rm -rf /tmp/x", true),
            ("git *", "git log\nrm x", true),
            ("git *", "gitk", false),
            (r"a\*b", "a*b", true),
            (r"a\*b", "axb", false),
            ("a?c", "a/c", true),
            ("{a,b}x", "bx", true),
            ("[ab]x", "cx", false),
            ("[!ab]x", "\u{e9}x", true),
            ("[a-c-]", "-", true),
            ("[]a]", "]", true),
            ("a{b,{c,d}}", "ad", true),
            ("a{,b}", "a", true),
            ("a.c", "abc", false),
            ("a$", "a\n", false),
            ("a", "a\n", false),
            ("caf?", "caf\u{e9}", true),
            ("caf[\u{e9}\u{e8}]", "caf\u{e9}", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                TextGlob::new(pattern).expect(pattern).is_match(text),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn path_globs_by_form_and_reach() {
        use Reach::{Exact, Wide};
        let cases = [
            ("src/*", Exact, "/w/src/a.rs", true),
            ("./src/*", Exact, "/w/src/a.rs", true),
            ("src/*", Exact, "/real/w/src/a.rs", true),
            ("src/*", Exact, "/w/src/b/a.rs", false),
            ("src/**", Exact, "/w/src/b/a.rs", true),
            ("src/*", Exact, "/w/src/.hidden", false),
            ("src/*", Wide, "/w/src/.hidden", true),
            ("src/.*", Exact, "/w/src/.hidden", true),
            ("src/*.rs", Exact, "/w/src/.rs", false),
            ("src/*rs", Exact, "/w/src/rs", true),
            ("src/*{.rs,x}", Exact, "/w/src/.rs", false),
            ("src/?x", Exact, "/w/src/.x", false),
            ("src/?x", Wide, "/w/src/.x", true),
            ("src/{*,y}", Exact, "/w/src/.x", false),
            ("src/x*", Exact, "/w/src/x.y", true),
            ("**", Exact, "/w/a/b", true),
            ("**", Exact, "/w/.git/config", false),
            ("**", Wide, "/w/.git/config", true),
            ("**/c", Exact, "/w/.a/c", false),
            ("**/c", Wide, "/w/.a/c", true),
            (".git/**", Exact, "/w/.git/config", true),
            ("/home/.u/*", Exact, "/home/.u/a", true),
            ("src/*", Exact, "/w/SRC/a.rs", false),
            ("src/*", Wide, "/w/SRC/a.rs", true),
            ("../x/*", Exact, "/x/a", true),
            ("/r/x/../s.env", Exact, "/r/s.env", true),
            ("~/notes", Exact, "/home/u/notes", true),
            ("~user/notes", Exact, "/w/~user/notes", true),
            ("**/secret", Exact, "/other/secret", false),
            ("**/secret", Wide, "/other/secret", true),
            ("caf\u{e9}", Wide, "/w/cafe\u{301}", true),
            ("caf\u{e9}", Exact, "/w/cafe\u{301}", false),
            (r"a\[1\]", Exact, "/w/a[1]", true),
            ("{a,b}/c", Exact, "/w/b/c", true),
            ("**/c", Exact, "/w/c", true),
            ("**/c", Exact, "/w/a/b/c", true),
            ("**/c", Exact, "/w/xc", false),
            ("a/**/c", Exact, "/w/a/c", true),
            ("a/**/c", Exact, "/w/a/b/b/c", true),
            ("a/**/c", Exact, "/w/a/bc", false),
            ("a**c", Exact, "/w/a/c", false),
            ("a/**", Exact, "/w/a", false),
            ("a[!b]c", Exact, "/w/a/c", false),
            ("a?c", Exact, "/w/a/c", false),
            ("{a,b/**}", Exact, "/w/b/x/y", true),
        ];
        for (pattern, reach, path, expected) in cases {
            let glob = PathGlob::new(pattern, &anchors(), reach).expect(pattern);
            assert_eq!(
                glob.is_match(Path::new(path)),
                expected,
                "{pattern} {reach:?} {path}"
            );
        }
    }

    #[test]
    fn a_disk_that_ignores_case_widens_exact_patterns() {
        let anchors = Anchors {
            ignore_case: true,
            ..anchors()
        };
        assert!(
            PathGlob::new("src/*", &anchors, Reach::Exact)
                .expect("valid")
                .is_match(Path::new("/w/SRC/a"))
        );
    }

    #[test]
    fn the_session_directory_is_no_pattern() {
        let anchors = Anchors {
            cwd: "/w[1]".into(),
            real_cwd: "/w[1]".into(),
            ..anchors()
        };
        let glob = PathGlob::new("*", &anchors, Reach::Exact).expect("valid");
        assert!(glob.is_match(Path::new("/w[1]/a")));
        assert!(!glob.is_match(Path::new("/w1/a")));
    }

    #[test]
    fn invalid_patterns_are_errors() {
        for pattern in ["[a", "{a", "a}", r"a\", "[z-a]"] {
            assert!(TextGlob::new(pattern).is_err(), "{pattern}");
            assert!(
                PathGlob::new(pattern, &anchors(), Reach::Wide).is_err(),
                "{pattern}"
            );
        }
        let homeless = Anchors {
            home: None,
            ..anchors()
        };
        assert!(PathGlob::new("~/x", &homeless, Reach::Exact).is_err());
    }

    #[test]
    fn escaped_text_stands_for_itself() {
        for text in [
            r"a\b*c?[d]{e}(f)!+@|",
            "git commit -m \"x\"\nls",
            "ünïcode",
            "",
        ] {
            assert_eq!(literal(&escape(text)).as_deref(), Some(text));
            assert!(
                TextGlob::new(&escape(text))
                    .expect("escaped")
                    .is_match(text)
            );
        }
        for pattern in ["a*", "a?", "[a]", "{a}", r"a\"] {
            assert_eq!(literal(pattern), None, "{pattern}");
        }
    }

    proptest::proptest! {
        #[test]
        fn escaped_text_matches_itself_alone(text in ".*", other in ".*") {
            let glob = TextGlob::new(&escape(&text)).expect("escaped");
            proptest::prop_assert!(glob.is_match(&text));
            proptest::prop_assert_eq!(glob.is_match(&other), text == other);
            proptest::prop_assert_eq!(literal(&escape(&text)), Some(text));
        }

        #[test]
        fn no_pattern_panics(pattern in r"[a/*?\[\]{},!^\\.-]{0,12}", text in "[a/.]{0,8}") {
            for reach in [Reach::Exact, Reach::Wide] {
                let _ = PathGlob::new(&pattern, &anchors(), reach).map(|glob| glob.is_match(Path::new(&text)));
            }
            let _ = TextGlob::new(&pattern).map(|glob| glob.is_match(&text));
        }
    }
}
