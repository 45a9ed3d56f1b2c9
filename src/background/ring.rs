//! The latest raw output, with the stream each part came from.

use std::collections::VecDeque;

use crate::os::process::Stream;

/// Changes between streams that are remembered; a command that alternates more often than this keeps less output.
const MAX_RUNS: usize = 32 << 10;

/// A bounded queue of bytes: what is too much falls off the front.
#[derive(Debug, Clone)]
pub struct Ring {
    bytes: VecDeque<u8>,
    /// Neighbouring bytes of one stream, as counts; they add up to `bytes`.
    runs: VecDeque<(Stream, usize)>,
    max_bytes: usize,
    start: u64,
}

impl Ring {
    /// An empty ring; memory is taken as it fills.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            runs: VecDeque::new(),
            max_bytes,
            start: 0,
        }
    }

    /// An empty ring of an output of which so much is not in it.
    pub(super) fn starting_at(start: u64, max_bytes: usize) -> Self {
        Self {
            start,
            ..Self::new(max_bytes)
        }
    }

    /// Where the oldest byte stands in the whole output.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Where the next byte will stand in the whole output.
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// A copy of at most `max_bytes` from this place on, which must not be before [`Self::start`].
    pub fn copy_from(&self, offset: u64, max_bytes: usize) -> Vec<u8> {
        let from = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let from = from.min(self.bytes.len());
        let n = max_bytes.min(self.bytes.len() - from);
        self.bytes.range(from..from + n).copied().collect()
    }

    /// Whether so much more fits without anything falling off.
    pub fn has_room(&self, n_bytes: usize) -> bool {
        self.bytes.len() + n_bytes <= self.max_bytes && self.runs.len() < MAX_RUNS
    }

    /// Adds output at the end.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let n_skipped = bytes.len().saturating_sub(self.max_bytes);
        let kept = &bytes[n_skipped..];
        self.drop_front((self.bytes.len() + kept.len()).saturating_sub(self.max_bytes));
        self.start += n_skipped as u64;
        self.bytes.extend(kept);
        match self.runs.back_mut() {
            Some((last, n)) if *last == stream => *n += kept.len(),
            _ => self.runs.push_back((stream, kept.len())),
        }
        while self.runs.len() > MAX_RUNS
            && let Some((_, n)) = self.runs.front()
        {
            self.drop_front(*n);
        }
    }

    /// All of it.
    pub fn bytes(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }

    /// All of it by stream, oldest first.
    pub fn pieces(&mut self) -> impl Iterator<Item = (Stream, &[u8])> {
        let mut rest: &[u8] = self.bytes.make_contiguous();
        self.runs.iter().map(move |(stream, n)| {
            let (piece, after) = rest.split_at(*n);
            rest = after;
            (*stream, piece)
        })
    }

    fn drop_front(&mut self, n_bytes: usize) {
        self.bytes.drain(..n_bytes);
        self.start += n_bytes as u64;
        let mut n_left = n_bytes;
        while n_left > 0
            && let Some((_, n)) = self.runs.front_mut()
        {
            if *n > n_left {
                *n -= n_left;
                return;
            }
            n_left -= *n;
            self.runs.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(ring: &mut Ring) -> (u64, Vec<(Stream, String)>) {
        let pieces = ring
            .pieces()
            .map(|(stream, piece)| (stream, String::from_utf8(piece.to_vec()).unwrap()))
            .collect();
        (ring.start(), pieces)
    }

    #[test]
    fn the_latest_stays() {
        let mut ring = Ring::new(6);
        ring.push(Stream::Stdout, b"abc");
        ring.push(Stream::Stdout, b"d");
        ring.push(Stream::Stderr, b"EF");
        assert_eq!(
            content(&mut ring),
            (
                0,
                vec![
                    (Stream::Stdout, "abcd".into()),
                    (Stream::Stderr, "EF".into())
                ]
            )
        );
        ring.push(Stream::Stdout, b"gh");
        assert_eq!(
            content(&mut ring),
            (
                2,
                vec![
                    (Stream::Stdout, "cd".into()),
                    (Stream::Stderr, "EF".into()),
                    (Stream::Stdout, "gh".into())
                ]
            )
        );
        ring.push(Stream::Stderr, b"0123456789");
        assert_eq!(
            content(&mut ring),
            (12, vec![(Stream::Stderr, "456789".into())])
        );
    }

    #[test]
    fn alternation_is_bounded_too() {
        let mut ring = Ring::new(1 << 20);
        for n in 0..2 * MAX_RUNS {
            ring.push(
                if n % 2 == 0 {
                    Stream::Stdout
                } else {
                    Stream::Stderr
                },
                b"x",
            );
        }
        assert_eq!((ring.runs.len(), ring.bytes.len()), (MAX_RUNS, MAX_RUNS));
        assert_eq!(ring.start(), MAX_RUNS as u64);
    }
}
