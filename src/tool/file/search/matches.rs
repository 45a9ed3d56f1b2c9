//! Searching one file by content, and keeping what all files gave within a fixed size.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};

use super::Stop;

/// Raw results of one search; what would go over it is left out from the end.
const MAX_RESULT_BYTES: usize = 10 << 20;

/// Memory of one searching thread for a line or, across lines, a file.
const HEAP_BYTES: usize = 64 << 20;

/// Compiled size of a regex.
const REGEX_BYTES: usize = 32 << 20;

/// Cache of its automaton.
const DFA_BYTES: usize = 64 << 20;

/// Characters shown of a line.
const LINE_CHARS: usize = 500;

/// Of those, before the match.
const CHARS_BEFORE: usize = 100;

/// What is wanted of each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Mode {
    /// Whether it matches.
    Files,
    /// The matching lines.
    Content,
    /// How often it matches.
    Counts,
}

/// A compiled search.
#[derive(Debug, Clone)]
pub(in super::super) struct Engine {
    matcher: RegexMatcher,
    mode: Mode,
    multiline: bool,
    before: usize,
    after: usize,
}

/// How a search is compiled.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct EngineOptions {
    pub mode: Mode,
    pub ignore_case: bool,
    pub multiline: bool,
    pub before: usize,
    pub after: usize,
}

/// A line that is shown.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct FoundLine {
    /// From 1.
    pub number: u64,
    /// Without its ending, cut to a window.
    pub text: String,
    /// Not just context.
    pub is_match: bool,
}

/// What a file gave.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Found {
    /// Matches in it, at least 1.
    pub n_matches: u64,
    /// Lines, in content mode.
    pub lines: Vec<FoundLine>,
    /// When it was changed, where results are in that order.
    pub modified: Option<SystemTime>,
    /// It was named itself and holds NUL bytes: no line is shown.
    pub is_binary: bool,
    /// Not all its lines are kept.
    pub is_cut: bool,
}

/// Results by path from the root, in bounded memory.
///
/// Whatever order threads come in, the same results are kept: those of the first paths that fit together.
#[derive(Debug, Default)]
pub(in super::super) struct Kept {
    found: BTreeMap<PathBuf, Found>,
    n_bytes: usize,
    /// From this path on nothing is kept.
    limit: Option<PathBuf>,
}

impl Engine {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What is wrong with it, as a full sentence for the model.
    pub(in super::super) fn new(pattern: &str, options: EngineOptions) -> Result<Self, String> {
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(options.ignore_case)
            .multi_line(true)
            .size_limit(REGEX_BYTES)
            .dfa_size_limit(DFA_BYTES);
        if options.multiline {
            builder.dot_matches_new_line(true);
        } else {
            // Also sets the line terminator: `$` stands before `\r\n` too.
            builder.crlf(true);
        }
        let matcher = builder
            .build(pattern)
            .map_err(|error| explain(pattern, &error, options.multiline))?;
        let EngineOptions {
            mode,
            multiline,
            before,
            after,
            ..
        } = options;
        Ok(Self {
            matcher,
            mode,
            multiline,
            before,
            after,
        })
    }

    /// A searcher for one thread. A file that is named itself is searched even where it is binary.
    pub(in super::super) fn searcher(&self, is_named: bool) -> Searcher {
        let mut builder = SearcherBuilder::new();
        builder
            .line_number(self.mode == Mode::Content)
            .multi_line(self.multiline)
            .heap_limit(Some(HEAP_BYTES))
            .binary_detection(if is_named {
                BinaryDetection::convert(0)
            } else {
                BinaryDetection::quit(0)
            });
        if self.mode == Mode::Content {
            builder
                .before_context(self.before)
                .after_context(self.after);
        }
        if !self.multiline {
            builder.line_terminator(LineTerminator::crlf());
        }
        builder.build()
    }

    /// Searches a file. None where nothing matches.
    pub(in super::super) fn search(
        &self,
        searcher: &mut Searcher,
        file: File,
        stop: &Stop,
    ) -> Result<Option<Found>, io::Error> {
        let mut hits = Hits {
            engine: self,
            stop,
            n_bytes: 0,
            found: Found {
                n_matches: 0,
                lines: Vec::new(),
                modified: None,
                is_binary: false,
                is_cut: false,
            },
        };
        searcher.search_reader(&self.matcher, Stoppable { file, stop }, &mut hits)?;
        let mut found = hits.found;
        if found.is_binary {
            found.lines.clear();
        }
        Ok((found.n_matches > 0).then_some(found))
    }
}

/// The engine's reason, with what to do about the usual ones.
fn explain(pattern: &str, error: &grep_regex::Error, multiline: bool) -> String {
    let reason = error.to_string();
    if !multiline && matches!(error.kind(), grep_regex::ErrorKind::NotAllowed(_)) {
        return "The pattern names a line break, but lines are searched one by one. Set multiline to true to match \
                across lines."
            .to_owned();
    }
    let advice = if reason.contains("look-around") {
        " Search for the part around it and filter the results, or use character classes and alternatives instead."
    } else if reason.contains("backreference") {
        " Write the repeated text out, or use several searches."
    } else {
        " Escape characters that are meant literally with a backslash."
    };
    let shown = crate::tool::output::first_chars(pattern, 200);
    // The engine's text spans lines, with a pointer drawn under the pattern.
    let reason = reason.lines().last().unwrap_or_default().trim();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    format!("The pattern {shown} is not a valid regex: {reason}.{advice}")
}

/// A file whose reading ends when the search is to end.
struct Stoppable<'s> {
    file: File,
    stop: &'s Stop,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_set() {
            Ok(0)
        } else {
            self.file.read(buffer)
        }
    }
}

/// Takes the matches of one file.
struct Hits<'s> {
    engine: &'s Engine,
    stop: &'s Stop,
    n_bytes: usize,
    found: Found,
}

impl Hits<'_> {
    /// Keeps a line; false when there is no room for more.
    fn keep(&mut self, number: Option<u64>, line: &[u8], is_match: bool) -> bool {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let at = if is_match {
            self.engine
                .matcher
                .find(line)
                .ok()
                .flatten()
                .map_or(0, |found| found.start())
        } else {
            0
        };
        let text = window(line, at);
        self.n_bytes += text.len() + 32;
        if self.n_bytes > MAX_RESULT_BYTES {
            self.found.is_cut = true;
            return false;
        }
        self.found.lines.push(FoundLine {
            number: number.unwrap_or(0),
            text,
            is_match,
        });
        true
    }
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.stop.is_set() {
            return Ok(false);
        }
        if self.engine.mode == Mode::Files {
            self.found.n_matches = 1;
            return Ok(false);
        }
        let mut n_matches = 0;
        // The regex matcher never fails.
        let _ = self.engine.matcher.find_iter(found.bytes(), |_| {
            n_matches += 1;
            true
        });
        self.found.n_matches += n_matches.max(1);
        if self.engine.mode == Mode::Counts {
            return Ok(true);
        }
        for (line, number) in found.lines().zip(found.line_number().unwrap_or(0)..) {
            if !self.keep(Some(number), line, true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(!self.stop.is_set() && self.keep(context.line_number(), context.bytes(), false))
    }

    fn finish(&mut self, searcher: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        let is_named = searcher.binary_detection().convert_byte().is_some();
        self.found.is_binary = is_named && finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// At most [`LINE_CHARS`] characters of a line, around the match at byte `at`; with its column where the beginning is
/// left out.
fn window(line: &[u8], at: usize) -> String {
    // A character takes at most four bytes, so this holds the window; a line may be far longer.
    let from = at.saturating_sub(CHARS_BEFORE * 4);
    let to = line.len().min(at + LINE_CHARS * 4);
    if from == 0 && to == line.len() && line.len() <= LINE_CHARS {
        return String::from_utf8_lossy(line).into_owned();
    }
    let before = String::from_utf8_lossy(&line[from..at]);
    let n_before = before.chars().count();
    let n_dropped = n_before.saturating_sub(CHARS_BEFORE);
    let rest = String::from_utf8_lossy(&line[at..to]);
    let shown: String = before
        .chars()
        .skip(n_dropped)
        .chain(rest.chars())
        .take(LINE_CHARS)
        .collect();
    let n_shown = shown.chars().count();
    let is_begun = from > 0 || n_dropped > 0;
    let is_ended = to == line.len() && n_shown == n_before - n_dropped + rest.chars().count();
    let column = String::from_utf8_lossy(&line[..at]).chars().count() + 1;
    let front = if is_begun {
        format!("[column {column}] …")
    } else {
        String::new()
    };
    let end = if is_ended { "" } else { "…" };
    format!("{front}{shown}{end}")
}

impl Kept {
    /// Takes what a file gave.
    pub(in super::super) fn add(&mut self, path: &Path, found: Found) {
        if self.limit.as_deref().is_some_and(|limit| path >= limit) {
            return;
        }
        self.n_bytes += size(path, &found);
        self.found.insert(path.to_owned(), found);
        while self.n_bytes > MAX_RESULT_BYTES && self.found.len() > 1 {
            let Some((path, found)) = self.found.pop_last() else {
                break;
            };
            self.n_bytes -= size(&path, &found);
            self.limit = Some(path);
        }
    }

    /// Whether something was left out.
    pub(in super::super) fn is_cut(&self) -> bool {
        self.limit.is_some() || self.found.values().any(|found| found.is_cut)
    }

    /// All results, by path.
    pub(in super::super) fn into_found(self) -> BTreeMap<PathBuf, Found> {
        self.found
    }
}

fn size(path: &Path, found: &Found) -> usize {
    let lines: usize = found.lines.iter().map(|line| line.text.len() + 32).sum();
    path.as_os_str().len() + 96 + lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(n_bytes: usize) -> Found {
        let line = FoundLine {
            number: 1,
            text: "x".repeat(n_bytes),
            is_match: true,
        };
        Found {
            n_matches: 1,
            lines: vec![line],
            modified: None,
            is_binary: false,
            is_cut: false,
        }
    }

    #[test]
    fn the_same_is_kept_in_whatever_order_it_comes() {
        let third = MAX_RESULT_BYTES / 3;
        let files = [
            ("a", third),
            ("b", third),
            ("c", third * 2),
            ("d", 10),
            ("e", third),
        ];
        let orders = [
            [0, 1, 2, 3, 4],
            [4, 3, 2, 1, 0],
            [2, 4, 0, 3, 1],
            [3, 0, 2, 1, 4],
        ];
        for order in orders {
            let mut kept = Kept::default();
            for (name, n_bytes) in order.map(|index: usize| files[index]) {
                kept.add(Path::new(name), found(n_bytes));
            }
            assert!(kept.is_cut());
            let names: Vec<_> = kept.into_found().into_keys().collect();
            assert_eq!(names, [PathBuf::from("a"), PathBuf::from("b")], "{order:?}");
        }
    }

    #[test]
    fn windows_of_long_lines() {
        assert_eq!(window(b"short", 2), "short");
        let long = format!("{}MATCH{}", "é".repeat(1000), "y".repeat(1000));
        let at = long.find("MATCH").unwrap();
        let shown = window(long.as_bytes(), at);
        assert!(
            shown.starts_with("[column 1001] …ééé")
                && shown.contains("éMATCHy")
                && shown.ends_with("y…"),
            "{shown}"
        );
        assert!(shown.chars().count() <= LINE_CHARS + 20);
        let head = window(long.as_bytes(), 0);
        assert!(head.starts_with("ééé") && head.ends_with("é…"));
        let tail = format!("{}END", "x".repeat(600));
        assert!(window(tail.as_bytes(), 600).ends_with("xEND"));
    }

    #[test]
    fn a_file_is_left_in_the_middle_when_the_search_ends() {
        let options = EngineOptions {
            mode: Mode::Counts,
            ignore_case: false,
            multiline: false,
            before: 0,
            after: 0,
        };
        let engine = Engine::new("x", options).unwrap();
        let text = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut text.as_file(), b"x\n").unwrap();
        for is_set in [false, true] {
            let stop = Stop::default();
            if is_set {
                stop.set();
            }
            let file = text.reopen().unwrap();
            let found = engine
                .search(&mut engine.searcher(false), file, &stop)
                .unwrap();
            assert_eq!(found.is_none(), is_set);
        }
    }

    #[test]
    fn patterns_that_cannot_be_used() {
        let options = EngineOptions {
            mode: Mode::Files,
            ignore_case: false,
            multiline: false,
            before: 0,
            after: 0,
        };
        for (pattern, expected) in [
            ("a\\nb", "Set multiline"),
            ("(", "unclosed group"),
            ("a(?=b)", "look-around"),
            ("(a)\\1", "backreferences"),
        ] {
            let error = Engine::new(pattern, options).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(
            Engine::new(
                "a\\nb",
                EngineOptions {
                    multiline: true,
                    ..options
                }
            )
            .is_ok()
        );
    }
}
