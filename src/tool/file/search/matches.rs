//! Searching one file by content.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};

use super::found::{Found, Lines};
use super::window::{is_long, window};
use super::{MAX_RESULT_BYTES, Stop};
use crate::os::fs::OpenedFile;

/// Memory of one searching thread for a file that is searched across its lines.
const MULTILINE_BYTES: usize = 64 << 20;

/// Memory of all threads of a search together for lines; one of them may take all of it for one long line.
const LINE_BYTES: usize = 32 << 20;

/// Memory of one searching thread for a line, at first.
const USUAL_LINE_BYTES: usize = 2 << 20;

/// Files up to here are read whole, with one call, before they are searched.
const SMALL_BYTES: usize = 64 << 10;

/// Compiled size of a regex.
const REGEX_BYTES: usize = 32 << 20;

/// Cache of its automaton.
const DFA_BYTES: usize = 64 << 20;

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
    options: EngineOptions,
    /// Held by the one thread that searches long lines.
    long_lines: Arc<Mutex<()>>,
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

/// Which file is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Chosen {
    /// One that was met on a walk: left when it turns out to be binary.
    Met,
    /// The one that was named: searched even where it is binary.
    Named,
}

/// What one thread searches with.
#[derive(Debug)]
pub(in super::super) struct Worker<'e> {
    engine: &'e Engine,
    searcher: Searcher,
    chosen: Chosen,
    buffer: Vec<u8>,
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
            // Also sets the line terminator: `$` stands before `\r\n` too.
            .crlf(true)
            // Lines never hold one: it ends the search of a file or counts as a line break.
            .ban_byte(Some(0))
            .size_limit(REGEX_BYTES)
            .dfa_size_limit(DFA_BYTES);
        if options.multiline {
            builder.dot_matches_new_line(true).line_terminator(None);
        }
        let matcher = builder
            .build(pattern)
            .map_err(|error| explain(pattern, &error, options.multiline))?;
        Ok(Self {
            matcher,
            options,
            long_lines: Arc::default(),
        })
    }

    /// What one thread searches with.
    pub(in super::super) fn worker(&self, chosen: Chosen) -> Worker<'_> {
        let heap = if self.options.multiline {
            MULTILINE_BYTES
        } else {
            USUAL_LINE_BYTES
        };
        Worker {
            engine: self,
            searcher: self.searcher(chosen, heap),
            chosen,
            buffer: Vec::new(),
        }
    }

    fn searcher(&self, chosen: Chosen, heap_bytes: usize) -> Searcher {
        let options = self.options;
        let is_content = options.mode == Mode::Content;
        let mut builder = SearcherBuilder::new();
        builder
            .line_terminator(LineTerminator::crlf())
            .line_number(is_content)
            .multi_line(options.multiline)
            .heap_limit(Some(heap_bytes))
            .binary_detection(match chosen {
                Chosen::Met => BinaryDetection::quit(0),
                Chosen::Named => BinaryDetection::convert(0),
            });
        if is_content {
            builder
                .before_context(options.before)
                .after_context(options.after);
        }
        builder.build()
    }
}

impl Worker<'_> {
    /// Searches a file. None where nothing matches.
    ///
    /// # Errors
    /// It can't be read, or a line of it (or it itself, across lines) is too long to be held.
    pub(in super::super) fn search(
        &mut self,
        opened: OpenedFile,
        stop: &Stop,
    ) -> io::Result<Option<Found>> {
        let OpenedFile {
            file,
            size,
            modified,
        } = opened;
        let n_bytes = usize::try_from(size).unwrap_or(usize::MAX);
        let hits = if (1..=SMALL_BYTES).contains(&n_bytes) {
            self.search_small(&file, n_bytes, stop)
        } else if self.engine.options.multiline {
            self.search_across_lines(&file, n_bytes, stop)
        } else {
            self.search_by_lines(&file, stop)
        }?;
        let mut found = hits.found;
        found.modified = Some(modified);
        Ok((found.n_matches > 0).then_some(found))
    }

    /// With one read. What is added to the file meanwhile isn't seen.
    fn search_small<'s>(
        &mut self,
        mut file: &File,
        n_bytes: usize,
        stop: &'s Stop,
    ) -> io::Result<Hits<'s>>
    where
        Self: 's,
    {
        self.buffer.resize(SMALL_BYTES, 0);
        let mut n_read = 0;
        while let Some(room) = self
            .buffer
            .get_mut(n_read..n_bytes)
            .filter(|room| !room.is_empty())
        {
            match file.read(room) {
                Ok(0) => break,
                Ok(n) => n_read += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let text = self.buffer.get(..n_read).unwrap_or_default();
        let mut hits = Hits::new(self.engine, self.chosen, stop);
        self.searcher
            .search_slice(&self.engine.matcher, text, &mut hits)?;
        Ok(hits)
    }

    fn search_across_lines<'s>(
        &mut self,
        file: &File,
        n_bytes: usize,
        stop: &'s Stop,
    ) -> io::Result<Hits<'s>>
    where
        Self: 's,
    {
        let mut hits = Hits::new(self.engine, self.chosen, stop);
        if n_bytes > MULTILINE_BYTES {
            let mut begin = vec![0; SMALL_BYTES];
            let n_read = (&*file).read(&mut begin)?;
            begin.truncate(n_read);
            if self.chosen == Chosen::Met && memchr::memchr(0, &begin).is_some() {
                return Ok(hits);
            }
            return Err(too_large());
        }
        let searched =
            self.searcher
                .search_reader(&self.engine.matcher, Stoppable { file, stop }, &mut hits);
        // It has grown since.
        searched.map_err(|error| if is_limit(&error) { too_large() } else { error })?;
        Ok(hits)
    }

    fn search_by_lines<'s>(&mut self, file: &File, stop: &'s Stop) -> io::Result<Hits<'s>>
    where
        Self: 's,
    {
        let mut hits = Hits::new(self.engine, self.chosen, stop);
        let reader = Stoppable { file, stop };
        match self
            .searcher
            .search_reader(&self.engine.matcher, reader, &mut hits)
        {
            Err(error) if is_limit(&error) => self.search_long_lines(file, stop),
            searched => searched.map(|()| hits),
        }
    }

    /// Once more, with more memory for a line: one thread at a time.
    fn search_long_lines<'s>(&self, mut file: &File, stop: &'s Stop) -> io::Result<Hits<'s>>
    where
        Self: 's,
    {
        let engine = self.engine;
        let _alone = engine
            .long_lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(0))?;
        let mut hits = Hits::new(engine, self.chosen, stop);
        let mut searcher = engine.searcher(self.chosen, LINE_BYTES);
        let searched = searcher.search_reader(&engine.matcher, Stoppable { file, stop }, &mut hits);
        searched.map_err(|error| {
            if is_limit(&error) {
                let limit = LINE_BYTES >> 20;
                io::Error::other(format!("a line of it is longer than {limit} MiB"))
            } else {
                error
            }
        })?;
        Ok(hits)
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
    if matches!(error.kind(), grep_regex::ErrorKind::Banned(0)) {
        return "The pattern names the NUL byte, but only text is searched. Use a shell command for binary files."
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

/// The engine ran into its limit of memory; it has no kind of its own for that.
fn is_limit(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Other && error.to_string().contains("allocation limit")
}

fn too_large() -> io::Error {
    let limit = MULTILINE_BYTES >> 20;
    io::Error::other(format!(
        "larger than {limit} MiB, too large to be searched across lines"
    ))
}

/// A file whose reading ends when the search is to end.
struct Stoppable<'s> {
    file: &'s File,
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
    chosen: Chosen,
    stop: &'s Stop,
    found: Found,
}

impl<'s> Hits<'s> {
    fn new(engine: &'s Engine, chosen: Chosen, stop: &'s Stop) -> Self {
        Self {
            engine,
            chosen,
            stop,
            found: Found::default(),
        }
    }

    /// Keeps a line, of which a part that holds byte `at` is shown; false when there is no room for more.
    fn keep(&mut self, number: u64, line: &[u8], at: usize, is_match: bool) -> bool {
        let has_room = self.found.lines.n_bytes() < MAX_RESULT_BYTES;
        if has_room {
            let text = window(line, at);
            self.found.lines.push(number, &text, is_match);
        } else {
            self.found.is_cut = true;
        }
        has_room
    }

    /// How often the pattern stands in what was matched.
    fn count(&self, found: &SinkMatch<'_>) -> u64 {
        let matcher = &self.engine.matcher;
        let mut n_matches = 0;
        if self.engine.options.multiline {
            let range = found.bytes_range_in_buffer();
            // What stands before and after may decide, as for `\b`.
            let _ = matcher.find_iter_at(found.buffer(), range.start, |found| {
                let is_within = found.start() < range.end;
                n_matches += u64::from(is_within);
                is_within
            });
        } else {
            let _ = matcher.find_iter(without_ending(found.bytes()), |_| {
                n_matches += 1;
                true
            });
        }
        n_matches.max(1)
    }

    /// Where in a line, given as a range of what was matched, the pattern begins.
    fn begin_in(&self, found: &SinkMatch<'_>, line: std::ops::Range<usize>) -> usize {
        let matcher = &self.engine.matcher;
        let whole = found.bytes();
        if !self.engine.options.multiline {
            let line = whole.get(line).unwrap_or_default();
            let first = matcher.find(without_ending(line)).ok().flatten();
            return first.map_or(0, |found| found.start());
        }
        let offset = found.bytes_range_in_buffer().start;
        let mut begin = 0;
        let _ = matcher.find_iter_at(found.buffer(), offset, |found| {
            if found.end() <= offset + line.start {
                return true;
            }
            let at = found.start().saturating_sub(offset);
            if at < line.end {
                begin = at.saturating_sub(line.start);
            }
            false
        });
        begin
    }
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.stop.is_set() {
            return Ok(false);
        }
        match self.engine.options.mode {
            Mode::Files => {
                self.found.n_matches = 1;
                return Ok(false);
            }
            Mode::Counts => {
                self.found.n_matches += self.count(found);
                return Ok(true);
            }
            Mode::Content if self.chosen == Chosen::Named => {
                self.found.n_matches += self.count(found);
            }
            Mode::Content => self.found.n_matches += 1,
        }
        if self.found.is_binary {
            return Ok(true);
        }
        let mut start = 0;
        for (line, number) in found.lines().zip(found.line_number().unwrap_or(0)..) {
            let text = without_ending(line);
            let at = if is_long(text) {
                self.begin_in(found, start..start + line.len())
            } else {
                0
            };
            if !self.keep(number, text, at, true) {
                return Ok(false);
            }
            start += line.len();
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.found.is_binary {
            return Ok(true);
        }
        let line = without_ending(context.bytes());
        let number = context.line_number().unwrap_or(0);
        Ok(!self.stop.is_set() && self.keep(number, line, 0, false))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        match self.chosen {
            Chosen::Named => {
                self.found.is_binary = true;
                self.found.lines = Lines::default();
            }
            Chosen::Met => self.found.is_left = true,
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> Result<(), io::Error> {
        // A number of matches up to where the file was left would be no number of its matches.
        if self.found.is_left && self.engine.options.mode == Mode::Counts {
            self.found.n_matches = 0;
        }
        Ok(())
    }
}

fn without_ending(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

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
            let opened = OpenedFile {
                file: text.reopen().unwrap(),
                // Unknown, as for files that the kernel makes up.
                size: 0,
                modified: SystemTime::UNIX_EPOCH,
            };
            let found = engine.worker(Chosen::Met).search(opened, &stop).unwrap();
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
            ("a\\x00", "NUL"),
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
