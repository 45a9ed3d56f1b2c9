//! What changed between two texts, by whole lines.
//!
//! A region is a stretch of whole lines in both texts ([`Change`] in bytes); what lies between two regions is the same
//! in both.

use std::time::Duration;

use similar::{DiffTag, TextDiff};

use super::super::splice::Change;

/// Compared at a time where two texts are the same.
const BLOCK: usize = 4096;

/// Regions that touch are one region up to this size, so that small neighbours are drawn together.
const JOINED_BYTES: usize = 4096;

/// What may be spent on making regions smaller. Spent up, they are drawn as they are: longer, but right.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// Text of both sides that is compared line by line.
    pub bytes: usize,
    /// For one region.
    pub time: Duration,
}

/// The one region in which two texts differ.
pub(super) fn between(old: &str, new: &str) -> Change {
    let n_before = common_prefix(old.as_bytes(), new.as_bytes());
    let n_after = common_suffix(&old.as_bytes()[n_before..], &new.as_bytes()[n_before..]);
    let start = line_start(old, n_before);
    let mut region = Change {
        old: start..old.len() - n_after,
        new: start..new.len() - n_after,
    };
    if n_before == old.len() && n_before == new.len() {
        region = Change {
            old: n_before..n_before,
            new: n_before..n_before,
        };
    }
    to_line_end(old, new, region)
}

/// Joins known changes, which come in order, to regions.
pub(super) fn whole_lines(
    old: &str,
    new: &str,
    changes: impl Iterator<Item = Change>,
) -> impl Iterator<Item = Change> {
    let mut changes = changes.peekable();
    std::iter::from_fn(move || {
        let first = changes.next()?;
        let start = line_start(old, first.old.start);
        let n_before = first.old.start - start;
        let mut region = to_line_end(
            old,
            new,
            Change {
                old: start..first.old.end,
                new: first.new.start - n_before..first.new.end,
            },
        );
        while let Some(next) = changes.next_if(|next| {
            let start = line_start(old, next.old.start);
            let is_small = region.old.len() < JOINED_BYTES;
            start < region.old.end || (start == region.old.end && is_small)
        }) {
            region.old.end = next.old.end;
            region.new.end = next.new.end;
            region = to_line_end(old, new, region);
        }
        Some(region)
    })
}

/// Extends a region to where a line ends in both texts. What it takes in is the same in both, up to the next change.
fn to_line_end(old: &str, new: &str, mut region: Change) -> Change {
    let ends_line = |text: &str, at: usize| at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n');
    if !ends_line(old, region.old.end) || !ends_line(new, region.new.end) {
        let rest = &old.as_bytes()[region.old.end..];
        let n_taken = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        region.old.end += n_taken;
        region.new.end += n_taken;
    }
    region
}

fn line_start(text: &str, offset: usize) -> usize {
    memchr::memrchr(b'\n', &text.as_bytes()[..offset]).map_or(0, |at| at + 1)
}

/// The smaller changes that a region consists of, as far as the budget goes.
pub(super) fn refined(old: &str, new: &str, region: Change, budget: &mut Budget) -> Vec<Change> {
    let Some(region) = trimmed(old, new, region) else {
        return Vec::new();
    };
    let (old_part, new_part) = (&old[region.old.clone()], &new[region.new.clone()]);
    let is_line =
        |part: &str| memchr::memchr(b'\n', part.as_bytes()).is_none_or(|at| at + 1 == part.len());
    let n_bytes = old_part.len() + new_part.len();
    if is_line(old_part) && is_line(new_part)
        || old_part.is_empty()
        || new_part.is_empty()
        || n_bytes > budget.bytes
    {
        return vec![region];
    }
    budget.bytes -= n_bytes;
    // Lines end at `\n` alone; left to itself the differ would also end them at `\r`.
    let (old_ends, new_ends) = (line_ends(old_part), line_ends(new_part));
    let old_lines: Vec<&str> = old_part.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new_part.split_inclusive('\n').collect();
    let diff = TextDiff::configure()
        .timeout(budget.time)
        .diff_slices(&old_lines, &new_lines);
    let (old_base, new_base) = (region.old.start, region.new.start);
    diff.ops()
        .iter()
        .filter(|op| op.tag() != DiffTag::Equal)
        .map(|op| {
            let (in_old, in_new) = (op.old_range(), op.new_range());
            Change {
                old: old_base + old_ends[in_old.start]..old_base + old_ends[in_old.end],
                new: new_base + new_ends[in_new.start]..new_base + new_ends[in_new.end],
            }
        })
        .collect()
}

/// Where the lines end, after a 0: line `n` lies between entry `n` and the next.
fn line_ends(text: &str) -> Vec<usize> {
    let mut ends = vec![0];
    ends.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
    if !text.is_empty() && !text.ends_with('\n') {
        ends.push(text.len());
    }
    ends
}

/// The region without the lines at its ends that are the same in both texts; none where all are.
fn trimmed(old: &str, new: &str, region: Change) -> Option<Change> {
    let (old_part, new_part) = (&old[region.old.clone()], &new[region.new.clone()]);
    if old_part == new_part {
        return None;
    }
    let inner = {
        let (a, b) = (old_part.as_bytes(), new_part.as_bytes());
        let start = line_start(old_part, common_prefix(a, b));
        let n_after = common_suffix(&a[start..], &b[start..]);
        to_line_end(
            old_part,
            new_part,
            Change {
                old: start..a.len() - n_after,
                new: start..b.len() - n_after,
            },
        )
    };
    Some(Change {
        old: region.old.start + inner.old.start..region.old.start + inner.old.end,
        new: region.new.start + inner.new.start..region.new.start + inner.new.end,
    })
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let n_blocks = a
        .chunks_exact(BLOCK)
        .zip(b.chunks_exact(BLOCK))
        .take_while(|(a, b)| a == b)
        .count();
    let same = n_blocks * BLOCK;
    let rest = a[same..].iter().zip(&b[same..]);
    same + rest.take_while(|(a, b)| a == b).count()
}

fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let n_blocks = a
        .rchunks_exact(BLOCK)
        .zip(b.rchunks_exact(BLOCK))
        .take_while(|(a, b)| a == b)
        .count();
    let same = n_blocks * BLOCK;
    let rest = a[..a.len() - same]
        .iter()
        .rev()
        .zip(b[..b.len() - same].iter().rev());
    same + rest.take_while(|(a, b)| a == b).count()
}
