//! Parts of an output as text: offsets count raw bytes, edges lie between characters.

use longshore_protocol::id::TaskId;

use crate::background::{OutputSlice, TaskError, Tasks, Whose, Window};
use crate::kernel::task::TaskInfo;

/// A character has at most so many bytes; a window is never smaller, so that it can always move on.
pub const SMALLEST_BYTES: usize = 4;

/// A part of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextWindow {
    /// The task as it was before the read: where it had ended, nothing follows the end of the output.
    pub info: TaskInfo,
    /// Where the text begins, in bytes of the whole output.
    pub start: u64,
    /// The text; bytes that are no UTF-8 are U+FFFD.
    pub text: String,
    /// Where the next part begins.
    pub next_offset: u64,
    /// Raw bytes of the whole output so far.
    pub total_bytes: u64,
    /// True where the task has ended and nothing follows.
    pub is_eof: bool,
}

impl TextWindow {
    /// Whether the text is the whole output so far.
    pub fn is_whole(&self) -> bool {
        self.start == 0 && self.next_offset >= self.total_bytes
    }
}

/// Reads about `max_bytes` of a task's output: from an offset on, or its end.
pub async fn read(
    tasks: &Tasks,
    whose: Whose<'_>,
    id: &TaskId,
    window: Window,
    max_bytes: usize,
) -> Result<TextWindow, TaskError> {
    let info = tasks.get(whose, id)?;
    let max_bytes = max_bytes.max(SMALLEST_BYTES);
    // A little more before it shows whether the edge cuts a character.
    let before = SMALLEST_BYTES - 1;
    let (wider, wanted) = match window {
        Window::From(offset) => {
            let from = offset.saturating_sub(before as u64);
            (Window::From(from), Some(offset))
        }
        Window::Tail => (Window::Tail, None),
    };
    let slice = tasks.output(whose, id, wider, max_bytes + before).await?;
    let wanted = wanted.unwrap_or_else(|| {
        let end = slice.next_offset();
        slice.start.max(end.saturating_sub(max_bytes as u64))
    });
    Ok(cut(info, &slice, wanted, max_bytes))
}

fn cut(info: TaskInfo, slice: &OutputSlice, wanted: u64, max_bytes: usize) -> TextWindow {
    let bytes = &slice.bytes;
    let skipped = usize::try_from(wanted.saturating_sub(slice.start)).unwrap_or(usize::MAX);
    let begin = first_boundary(bytes, skipped.min(bytes.len()));
    let limit = begin.saturating_add(max_bytes).min(bytes.len());
    let is_last = slice.start + limit as u64 >= slice.total_bytes;
    let is_final = is_last && info.status.is_terminal();
    let end = if is_final {
        limit
    } else {
        last_boundary(bytes, begin, limit)
    };
    TextWindow {
        start: slice.start + begin as u64,
        text: String::from_utf8_lossy(&bytes[begin..end]).into_owned(),
        next_offset: slice.start + end as u64,
        total_bytes: slice.total_bytes,
        is_eof: is_final,
        info,
    }
}

/// Bytes of the character that begins with this byte; `None` where none does.
fn width(lead: u8) -> Option<usize> {
    match lead {
        0..=0x7f => Some(1),
        0xc2..=0xdf => Some(2),
        0xe0..=0xef => Some(3),
        0xf0..=0xf4 => Some(4),
        _ => None,
    }
}

/// The first place from `at` on that is not inside a character.
fn first_boundary(bytes: &[u8], at: usize) -> usize {
    for back in 1..SMALLEST_BYTES.min(at + 1) {
        let byte = bytes[at - back];
        if byte & 0xc0 == 0x80 {
            continue;
        }
        let inside = width(byte).unwrap_or(1).saturating_sub(back);
        let rest = bytes[at..].iter().take(inside);
        return at + rest.take_while(|byte| **byte & 0xc0 == 0x80).count();
    }
    at
}

/// The last place up to `limit` that does not cut a character, of which more may come.
fn last_boundary(bytes: &[u8], begin: usize, limit: usize) -> usize {
    for back in 1..SMALLEST_BYTES.min(limit - begin + 1) {
        let byte = bytes[limit - back];
        if byte & 0xc0 == 0x80 {
            continue;
        }
        let is_cut = width(byte).is_some_and(|width| width > back);
        return if is_cut { limit - back } else { limit };
    }
    limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::task::TaskStatus;
    use crate::tool::task::testing::info;

    /// Pages through bytes as a reader would, and gives the texts.
    fn pages(bytes: &[u8], page: usize, status: TaskStatus) -> Vec<String> {
        let (mut texts, mut offset) = (Vec::new(), 0);
        loop {
            let from = offset.min(bytes.len() as u64).saturating_sub(3);
            let start = usize::try_from(from).unwrap();
            let end = bytes.len().min(start + page + 3);
            let slice = OutputSlice {
                start: from,
                bytes: bytes[start..end].to_vec(),
                total_bytes: bytes.len() as u64,
            };
            let window = cut(info("bash-00000000", status), &slice, offset, page);
            assert_eq!(window.start, offset, "nothing is skipped");
            if window.text.is_empty() {
                assert_eq!(window.is_eof, status.is_terminal());
                return texts;
            }
            texts.push(window.text);
            offset = window.next_offset;
        }
    }

    #[test]
    fn pages_join_to_the_whole() {
        let text = "aä€😀b\nzwölf Boxkämpfer 😀😀";
        for page in 4..=text.len() + 1 {
            assert_eq!(
                pages(text.as_bytes(), page, TaskStatus::Completed).concat(),
                text,
                "{page}"
            );
        }
    }

    #[test]
    fn a_character_that_is_not_whole_yet_waits_and_at_the_end_is_shown() {
        let bytes = b"ab\xe2\x82";
        assert_eq!(pages(bytes, 10, TaskStatus::Running), ["ab"]);
        assert_eq!(pages(bytes, 10, TaskStatus::Completed), ["ab\u{fffd}"]);
    }

    #[test]
    fn what_is_no_text_gets_through() {
        let bytes: Vec<u8> = (0..=255).rev().cycle().take(3000).collect();
        for status in [TaskStatus::Running, TaskStatus::Completed] {
            let n: usize = pages(&bytes, 16, status)
                .iter()
                .map(|page| page.chars().count())
                .sum();
            assert!(n > 1000, "{n}");
        }
    }

    #[test]
    fn an_edge_inside_a_character_moves_on() {
        let bytes = "x😀y".as_bytes();
        for (offset, expected) in [(0, 0), (1, 1), (2, 5), (3, 5), (4, 5), (5, 5), (6, 6)] {
            assert_eq!(first_boundary(bytes, offset), expected, "{offset}");
        }
    }
}
