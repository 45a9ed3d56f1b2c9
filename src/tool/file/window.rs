//! Reading some lines of a file of any size in bounded memory.
//!
//! A file is gone over once in chunks to count its lines, judge its text and find where the window begins; then the
//! window alone is read. Of a file above [`Limits::whole_bytes`] only the beginning is judged and only the lines passed
//! over are counted; its end is found from the end.

use std::collections::VecDeque;
use std::hash::Hasher;
use std::io::{self, Read, Seek, SeekFrom};

use tokio_util::sync::CancellationToken;

use super::text::check::{NotText, TextCheck};
use super::text::endings::{Endings, Style};

const CHUNK: usize = 64 << 10;

/// Characters of a line that are shown.
pub(super) const LINE_CHARS: usize = 2000;

/// How a cut line ends.
const DOTS: &str = "...";

/// Bytes of a line that are kept until its ending style is known: more than [`LINE_CHARS`] characters can take.
const KEPT_BYTES: usize = (LINE_CHARS + 1) * 4;

/// How much a rendered line may be shorter than what is kept of it: a cut takes four characters.
const RENDER_SLACK: usize = 16;

/// Sizes at which reading changes.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "sizes carry their unit")]
pub(super) struct Limits {
    /// Files up to this size are counted whole.
    pub whole_bytes: u64,
    /// So much from the beginning is judged to be text, besides the window.
    pub check_bytes: u64,
    /// Rendered text of a window.
    pub text_bytes: usize,
}

impl Limits {
    /// The limits of the tool.
    pub(super) const READ: Self = Self {
        whole_bytes: 64 << 20,
        check_bytes: 8 << 20,
        text_bytes: 102_400,
    };
}

/// Which lines are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// From 1, or negative: so many from the end.
    pub offset: i64,
    /// At most so many.
    pub n_lines: usize,
}

/// The lines that were read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// Number, tab and content of each line, joined by newlines.
    pub text: String,
    /// How many lines.
    pub n_lines: usize,
    /// Number of the first; negative ones count from the end.
    pub first: i64,
    /// Lines counted.
    pub total: u64,
    /// Whether that is all of them.
    pub total_is_exact: bool,
    /// Lines were left out because the text grew too long.
    pub hit_bytes: bool,
    /// Numbers of lines that were cut.
    pub cut: Vec<i64>,
    /// Carriage returns are shown as `\r`.
    pub mixed: bool,
    /// Numbers of lines that hold the two characters `\r` themselves, where they could be taken for one.
    pub lookalikes: Vec<i64>,
}

/// Why there is no window.
#[derive(Debug)]
pub(super) enum WindowError {
    /// The file is no text where it was judged.
    NotText(NotText),
    /// The system refused.
    Io(io::Error),
    /// The call was cancelled.
    Cancelled,
}

impl From<NotText> for WindowError {
    fn from(reason: NotText) -> Self {
        Self::NotText(reason)
    }
}

impl From<io::Error> for WindowError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// An open file, as large as it was when it was opened.
pub(super) struct Source<'a, F> {
    /// The file.
    pub file: F,
    /// Where its text begins, behind a byte-order mark.
    pub start: u64,
    /// Its size.
    pub end: u64,
    /// Stops a long read.
    pub cancel: &'a CancellationToken,
}

impl<F: Read + Seek> Source<'_, F> {
    /// Hands out the chunks from `from` to `to` with their offsets, until `each` says to stop.
    fn chunks(
        &mut self,
        from: u64,
        to: u64,
        mut each: impl FnMut(u64, &[u8]) -> Result<Go, WindowError>,
    ) -> Result<(), WindowError> {
        let mut buffer = vec![0; CHUNK];
        let mut at = from;
        self.file.seek(SeekFrom::Start(from))?;
        while at < to {
            if self.cancel.is_cancelled() {
                return Err(WindowError::Cancelled);
            }
            let wanted = buffer.len().min(usize::try_from(to - at).unwrap_or(CHUNK));
            let n_read = match self.file.read(&mut buffer[..wanted]) {
                Ok(0) => break,
                Ok(n_read) => n_read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if each(at, &buffer[..n_read])? == Go::Stop {
                break;
            }
            at += n_read as u64;
        }
        Ok(())
    }
}

#[derive(PartialEq, Eq)]
enum Go {
    On,
    Stop,
}

/// What the first look gave.
#[derive(Default)]
struct Survey {
    check: TextCheck,
    endings: Endings,
    /// Newlines passed over.
    n_newlines: u64,
    /// Offset and number of the first wanted line.
    window: Option<(u64, i64)>,
    /// Offsets where the last lines begin, as many as are wanted from the end.
    starts: VecDeque<u64>,
    ends_in_newline: bool,
    /// How far it got.
    at: u64,
}

/// Reads a window. `hash` is fed the whole file where it is read whole (from [`Source::start`] on).
pub(super) fn read<F: Read + Seek>(
    source: &mut Source<'_, F>,
    wanted: Wanted,
    limits: Limits,
    hash: &mut dyn Hasher,
) -> Result<Window, WindowError> {
    let is_whole = source.end <= limits.whole_bytes;
    let mut survey = survey(source, wanted, limits, hash)?;
    let mut total = None;
    if is_whole {
        let n_lines =
            survey.n_newlines + u64::from(!survey.ends_in_newline && source.end > source.start);
        total = Some(n_lines);
        if wanted.offset < 0 {
            let n_last = survey.starts.len() as u64;
            survey.window = survey
                .starts
                .front()
                .map(|start| (*start, (n_lines - n_last + 1) as i64));
        }
    } else if wanted.offset < 0 {
        survey.window = Some(find_from_end(source, wanted.offset.unsigned_abs())?);
    }
    let from_end = wanted.offset < 0;
    let mut lines = match survey.window {
        Some((offset, number)) if offset < source.end => gather(
            source,
            &mut survey,
            limits,
            &Gather {
                offset,
                number,
                n_lines: wanted.n_lines,
                from_end,
            },
        )?,
        _ => Lines::default(),
    };
    survey.endings.end(survey.at >= source.end);
    let style = survey.endings.style();
    let counted = total.unwrap_or_else(|| {
        let last = lines.first + lines.kept.len() as i64 - 1;
        if from_end {
            lines.first.unsigned_abs()
        } else {
            survey.n_newlines.max(last.max(0) as u64)
        }
    });
    let mut window = render(&mut lines, style, limits, from_end);
    window.total = counted;
    window.total_is_exact = total.is_some();
    Ok(window)
}

/// Goes over the file from its beginning, as far as is needed.
fn survey<F: Read + Seek>(
    source: &mut Source<'_, F>,
    wanted: Wanted,
    limits: Limits,
    hash: &mut dyn Hasher,
) -> Result<Survey, WindowError> {
    let (start, end) = (source.start, source.end);
    let is_whole = end <= limits.whole_bytes;
    let check_end = start + limits.check_bytes;
    let n_from_end = usize::try_from(-wanted.offset).unwrap_or(0);
    let mut survey = Survey {
        at: start,
        ..Survey::default()
    };
    if wanted.offset == 1 {
        survey.window = Some((start, 1));
    } else if n_from_end > 0 {
        survey.starts.push_back(start);
    }
    source.chunks(start, end, |at, chunk| {
        let n_checked = chunk
            .len()
            .min(usize::try_from(check_end.saturating_sub(at)).unwrap_or(CHUNK));
        if n_checked > 0 {
            survey.check.feed(at, &chunk[..n_checked])?;
            survey.endings.feed(&chunk[..n_checked]);
        }
        if is_whole {
            hash.write(chunk);
        }
        if n_from_end > 0 && is_whole {
            for newline in memchr::memchr_iter(b'\n', chunk) {
                survey.n_newlines += 1;
                survey.starts.push_back(at + newline as u64 + 1);
                if survey.starts.len() > n_from_end + 1 {
                    survey.starts.pop_front();
                }
            }
        } else {
            let n_newlines = memchr::memchr_iter(b'\n', chunk).count() as u64;
            let n_before = (wanted.offset - 1).max(0) as u64;
            if survey.window.is_none() && n_before > 0 && survey.n_newlines + n_newlines >= n_before
            {
                let nth = (n_before - survey.n_newlines - 1) as usize;
                let newline = memchr::memchr_iter(b'\n', chunk).nth(nth);
                survey.window = newline.map(|newline| (at + newline as u64 + 1, wanted.offset));
            }
            survey.n_newlines += n_newlines;
        }
        survey.ends_in_newline = chunk.last() == Some(&b'\n');
        survey.at = at + chunk.len() as u64;
        let is_found = survey.window.is_some() || n_from_end > 0;
        Ok(if !is_whole && is_found && survey.at >= check_end {
            Go::Stop
        } else {
            Go::On
        })
    })?;
    if survey.at >= end && end <= check_end {
        survey.check.end()?;
    }
    // A line that would begin where the file ends is none.
    if survey.starts.back() == Some(&end) {
        survey.starts.pop_back();
    }
    while survey.starts.len() > n_from_end {
        survey.starts.pop_front();
    }
    Ok(survey)
}

/// Where the last `n_lines` begin, and the negative number of the first of them.
fn find_from_end<F: Read + Seek>(
    source: &mut Source<'_, F>,
    n_lines: u64,
) -> Result<(u64, i64), WindowError> {
    let mut buffer = vec![0; CHUNK];
    let mut n_found = 0;
    let mut at = source.end;
    while at > source.start {
        if source.cancel.is_cancelled() {
            return Err(WindowError::Cancelled);
        }
        let from = at.saturating_sub(CHUNK as u64).max(source.start);
        let chunk = &mut buffer[..usize::try_from(at - from).unwrap_or(CHUNK)];
        source.file.seek(SeekFrom::Start(from))?;
        source.file.read_exact(chunk)?;
        for newline in memchr::memrchr_iter(b'\n', chunk) {
            let after = from + newline as u64 + 1;
            if after == source.end {
                continue;
            }
            n_found += 1;
            if n_found == n_lines {
                return Ok((after, -(n_lines as i64)));
            }
        }
        at = from;
    }
    Ok((source.start, -(n_found as i64 + 1)))
}

/// Which lines to collect, and what to leave out where they are too long.
struct Gather {
    offset: u64,
    number: i64,
    n_lines: usize,
    /// The newest are kept, else the first.
    from_end: bool,
}

/// Collected lines.
#[derive(Default)]
struct Lines {
    first: i64,
    kept: VecDeque<Raw>,
    hit_bytes: bool,
}

/// One line without its newline.
#[derive(Default)]
struct Raw {
    bytes: Vec<u8>,
    /// More than is kept.
    is_longer: bool,
}

impl Raw {
    fn push(&mut self, piece: &[u8]) {
        let room = KEPT_BYTES - self.bytes.len();
        self.is_longer |= piece.len() > room;
        self.bytes
            .extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// The least this line takes when it is rendered, its number left aside.
    fn least_bytes(&self) -> usize {
        let shown = self.bytes.len().min(LINE_CHARS);
        shown.saturating_sub(RENDER_SLACK)
    }
}

fn gather<F: Read + Seek>(
    source: &mut Source<'_, F>,
    survey: &mut Survey,
    limits: Limits,
    gather: &Gather,
) -> Result<Lines, WindowError> {
    let check_end = source.start + limits.check_bytes;
    if gather.offset > check_end {
        // What is judged begins anew at the window.
        survey.endings.end(false);
    }
    let end = source.end;
    let mut lines = Lines {
        first: gather.number,
        ..Lines::default()
    };
    let mut n_bytes = 0;
    let mut n_complete = 0;
    let mut current = Raw::default();
    let mut is_open = false;
    source.chunks(gather.offset, end, |at, chunk| {
        let mut rest = chunk;
        let mut at = at;
        while !rest.is_empty() {
            let newline = memchr::memchr(b'\n', rest);
            let (piece, after) = rest.split_at(newline.map_or(rest.len(), |newline| newline + 1));
            // The beginning of the file was judged by the survey.
            let n_judged = piece
                .len()
                .min(usize::try_from(check_end.saturating_sub(at)).unwrap_or(CHUNK));
            if n_judged < piece.len() {
                survey
                    .check
                    .feed(at + n_judged as u64, &piece[n_judged..])?;
                survey.endings.feed(&piece[n_judged..]);
            }
            at += piece.len() as u64;
            survey.at = survey.at.max(at);
            current.push(piece.strip_suffix(b"\n").unwrap_or(piece));
            is_open = newline.is_none();
            rest = after;
            if is_open {
                continue;
            }
            let line = std::mem::take(&mut current);
            n_bytes += line.least_bytes();
            lines.kept.push_back(line);
            n_complete += 1;
            if n_complete == gather.n_lines {
                return Ok(Go::Stop);
            }
            if n_bytes > limits.text_bytes {
                lines.hit_bytes = true;
                if !gather.from_end {
                    return Ok(Go::Stop);
                }
                while n_bytes > limits.text_bytes && lines.kept.len() > 1 {
                    n_bytes -= lines.kept.pop_front().map_or(0, |line| line.least_bytes());
                    lines.first += 1;
                }
            }
        }
        Ok(Go::On)
    })?;
    if is_open {
        lines.kept.push_back(current);
        survey.check.end()?;
    }
    Ok(lines)
}

/// Renders what was collected, within the exact limit.
fn render(lines: &mut Lines, style: Style, limits: Limits, from_end: bool) -> Window {
    let mixed = style == Style::Mixed;
    let mut window = Window {
        text: String::new(),
        n_lines: 0,
        first: lines.first,
        total: 0,
        total_is_exact: true,
        hit_bytes: lines.hit_bytes,
        cut: Vec::new(),
        mixed,
        lookalikes: Vec::new(),
    };
    let mut rendered: VecDeque<(i64, String, bool, bool)> = VecDeque::new();
    let mut n_bytes = 0;
    let numbered: Vec<(i64, &Raw)> = (lines.first..).zip(&lines.kept).collect();
    let ordered: Box<dyn Iterator<Item = &(i64, &Raw)>> = if from_end {
        Box::new(numbered.iter().rev())
    } else {
        Box::new(numbered.iter())
    };
    for (number, raw) in ordered {
        let (content, is_cut) = render_line(raw, style);
        let line = format!("{number}\t{content}");
        let joined = line.len() + usize::from(!rendered.is_empty());
        if n_bytes + joined > limits.text_bytes && !rendered.is_empty() {
            window.hit_bytes = true;
            break;
        }
        n_bytes += joined;
        let is_lookalike = mixed && memchr::memmem::find(&raw.bytes, b"\\r").is_some();
        let entry = (*number, line, is_cut, is_lookalike);
        if from_end {
            rendered.push_front(entry);
        } else {
            rendered.push_back(entry);
        }
    }
    window.n_lines = rendered.len();
    window.first = rendered.front().map_or(lines.first, |(number, ..)| *number);
    for (number, line, is_cut, is_lookalike) in &rendered {
        if !window.text.is_empty() {
            window.text.push('\n');
        }
        window.text.push_str(line);
        window.cut.extend(is_cut.then_some(*number));
        window.lookalikes.extend(is_lookalike.then_some(*number));
    }
    window
}

/// The line as the model sees it, and whether it was cut.
fn render_line(raw: &Raw, style: Style) -> (String, bool) {
    // Only where the kept part ends can a character be broken: the whole was judged to be text.
    let valid = match std::str::from_utf8(&raw.bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&raw.bytes[..error.valid_up_to()]).unwrap_or_default(),
    };
    // Where a line goes on, the `\r` at the end of what is kept is not its last.
    let content = match style {
        Style::Crlf if raw.is_longer => valid.into(),
        style => style.show(valid),
    };
    if !raw.is_longer && content.chars().count() <= LINE_CHARS {
        return (content.into_owned(), false);
    }
    let mut cut: String = content.chars().take(LINE_CHARS - DOTS.len()).collect();
    cut.push_str(DOTS);
    (cut, true)
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
