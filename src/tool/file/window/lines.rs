//! The lines of a window: collected raw, as much of each as can be shown, and rendered within the limits.

use std::collections::VecDeque;
use std::io::{Read, Seek};

use super::super::text::endings::Style;
use super::survey::Survey;
use super::{Go, Limits, Source, Window, WindowError, at_most};

/// How a cut line ends.
const DOTS: &str = "...";

/// How much a rendered line may be shorter than what is kept of it: a cut takes four characters.
const RENDER_SLACK: usize = 16;

/// Which lines to collect, and what to leave out where they are too long.
pub(super) struct Gather {
    pub offset: u64,
    pub number: i64,
    pub n_lines: usize,
    /// The newest are kept, else the first.
    pub from_end: bool,
}

/// Collected lines.
#[derive(Default)]
pub(super) struct Lines {
    pub first: i64,
    pub kept: VecDeque<Raw>,
    hit_bytes: bool,
}

/// One line without its newline.
#[derive(Default)]
pub(super) struct Raw {
    bytes: Vec<u8>,
    /// More than is kept.
    is_longer: bool,
}

impl Raw {
    fn push(&mut self, piece: &[u8], limits: Limits) {
        // More than the shown characters can take.
        let kept_bytes = (limits.line_chars + 1) * 4;
        let room = kept_bytes - self.bytes.len();
        self.is_longer |= piece.len() > room;
        self.bytes
            .extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// The least this line takes when it is rendered, its number left aside.
    fn least_bytes(&self, limits: Limits) -> usize {
        let shown = self.bytes.len().min(limits.line_chars);
        shown.saturating_sub(RENDER_SLACK)
    }
}

/// Collects the lines and judges them, as far as the survey has not.
pub(super) fn gather<F: Read + Seek>(
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
    let mut lines = Lines {
        first: gather.number,
        ..Lines::default()
    };
    let mut n_bytes = 0;
    let mut n_complete = 0;
    let mut current = Raw::default();
    let mut is_open = false;
    source.chunks(gather.offset, limits.chunk_bytes, |at, chunk| {
        let mut rest = chunk;
        let mut at = at;
        while !rest.is_empty() {
            let newline = memchr::memchr(b'\n', rest);
            let (piece, after) = rest.split_at(newline.map_or(rest.len(), |newline| newline + 1));
            // The beginning of the file was judged by the survey.
            let n_judged = at_most(check_end.saturating_sub(at), piece.len());
            if n_judged < piece.len() {
                survey
                    .check
                    .feed(at + n_judged as u64, &piece[n_judged..])?;
                survey.endings.feed(&piece[n_judged..]);
            }
            at += piece.len() as u64;
            current.push(piece.strip_suffix(b"\n").unwrap_or(piece), limits);
            is_open = newline.is_none();
            rest = after;
            if is_open {
                continue;
            }
            let line = std::mem::take(&mut current);
            n_bytes += line.least_bytes(limits);
            lines.kept.push_back(line);
            n_complete += 1;
            if n_complete == gather.n_lines {
                return Ok(Go::Stop);
            }
            if n_bytes > limits.text_bytes && lines.kept.len() > 1 {
                lines.hit_bytes = true;
                if !gather.from_end {
                    return Ok(Go::Stop);
                }
                while n_bytes > limits.text_bytes && lines.kept.len() > 1 {
                    n_bytes -= lines
                        .kept
                        .pop_front()
                        .map_or(0, |line| line.least_bytes(limits));
                    lines.first += 1;
                }
            }
        }
        Ok(Go::On)
    })?;
    if is_open {
        lines.kept.push_back(current);
        survey.check.end()?;
        survey.endings.end(true);
    }
    Ok(lines)
}

/// Renders what was collected, within the exact limit.
pub(super) fn render(lines: &mut Lines, style: Style, limits: Limits, from_end: bool) -> Window {
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
        let (content, is_cut) = render_line(raw, style, limits);
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
fn render_line(raw: &Raw, style: Style, limits: Limits) -> (String, bool) {
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
    if !raw.is_longer && content.chars().count() <= limits.line_chars {
        return (content.into_owned(), false);
    }
    let mut cut: String = content
        .chars()
        .take(limits.line_chars - DOTS.len())
        .collect();
    cut.push_str(DOTS);
    (cut, true)
}
