//! Cuts a byte stream into lines, with a bound on what one line may cost.
//!
//! Only LF ends a line; a CR before it is dropped, lines of nothing but white space are skipped, a last line without
//! LF counts, and a byte order mark is tolerated at the very start.
//! A line over the limit yields [`Frame::Oversized`] as soon as the limit is passed; what follows of it is thrown
//! away as it arrives, and the next line is read normally.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::Decoder;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What is asked of the operating system at a time. Chosen: half a Linux pipe, small enough for many idle hosts.
pub(super) const READ_BYTES: usize = 32 * 1024;

/// Buffers that grew beyond this for one long line are given back after it. Chosen: well above common messages, well
/// below what an idle connection may hold.
const KEEP_BYTES: usize = 256 * 1024;

/// One line, or the news that one was too long.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// The bytes of a line that is not blank, without its ending. They are not checked for UTF-8.
    Line(Bytes),
    /// A line was longer than allowed and is being thrown away.
    Oversized,
}

/// The decoder of one connection's input.
#[derive(Debug)]
pub struct LineCodec {
    max_line_bytes: usize,
    /// Bytes at the start of the buffer that hold no LF.
    searched: usize,
    /// Inside an oversized line that has been reported.
    discarding: bool,
    at_start: bool,
}

impl LineCodec {
    /// A codec that accepts lines up to this many bytes, their ending not counted.
    pub fn new(max_line_bytes: usize) -> Self {
        Self {
            max_line_bytes,
            searched: 0,
            discarding: false,
            at_start: true,
        }
    }

    /// Judges the first `length` bytes as one line (without LF), and takes them and `ending` further bytes off.
    /// `None` when nothing is to be reported: the line is blank, or the rest of one reported before.
    fn take_line(&mut self, buffer: &mut BytesMut, length: usize, ending: usize) -> Option<Frame> {
        let mut line = buffer.split_to(length);
        buffer.advance(ending);
        self.searched = 0;
        if std::mem::take(&mut self.discarding) {
            return None;
        }
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if std::mem::take(&mut self.at_start) && line.starts_with(BYTE_ORDER_MARK) {
            line.advance(BYTE_ORDER_MARK.len());
        }
        if line.len() > self.max_line_bytes {
            return Some(Frame::Oversized);
        }
        if line.trim_ascii().is_empty() {
            return None;
        }
        if line.len() > KEEP_BYTES {
            // What is left sits behind the line in one allocation and would keep all of it.
            let rest = std::mem::replace(buffer, fresh_buffer());
            buffer.extend_from_slice(&rest);
        }
        Some(Frame::Line(line.freeze()))
    }

    /// Whether an unfinished line of this many bytes is too long whatever follows. A CR and a byte order mark may
    /// still turn out not to count.
    fn is_hopeless(&self, length: usize) -> bool {
        length
            > self
                .max_line_bytes
                .saturating_add(1 + BYTE_ORDER_MARK.len())
    }
}

/// A buffer that is worth a read: whoever fills it asks for as many bytes as it has room for.
fn fresh_buffer() -> BytesMut {
    BytesMut::with_capacity(READ_BYTES)
}

impl Decoder for LineCodec {
    type Item = Frame;
    type Error = io::Error;

    fn decode(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Frame>> {
        loop {
            if let Some(found) = memchr::memchr(b'\n', &buffer[self.searched..]) {
                let length = self.searched + found;
                match self.take_line(buffer, length, 1) {
                    Some(frame) => return Ok(Some(frame)),
                    None => continue,
                }
            }
            self.searched = buffer.len();
            if self.discarding {
                buffer.clear();
                self.searched = 0;
            } else if self.is_hopeless(buffer.len()) {
                *buffer = fresh_buffer();
                self.searched = 0;
                self.discarding = true;
                self.at_start = false;
                return Ok(Some(Frame::Oversized));
            }
            return Ok(None);
        }
    }

    fn decode_eof(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Frame>> {
        if let Some(frame) = self.decode(buffer)? {
            return Ok(Some(frame));
        }
        if buffer.is_empty() {
            return Ok(None);
        }
        let length = buffer.len();
        Ok(self.take_line(buffer, length, 0))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use tokio::io::AsyncReadExt;
    use tokio_util::codec::FramedRead;

    use super::*;

    const MAX: usize = 10;

    /// Feeds the chunks one after the other and then the end, as a connection would.
    fn frames(chunks: &[&[u8]]) -> Vec<String> {
        let mut codec = LineCodec::new(MAX);
        let mut buffer = BytesMut::new();
        let mut frames = Vec::new();
        for chunk in chunks {
            buffer.extend_from_slice(chunk);
            while let Some(frame) = codec.decode(&mut buffer).unwrap() {
                frames.push(frame);
            }
        }
        while let Some(frame) = codec.decode_eof(&mut buffer).unwrap() {
            frames.push(frame);
        }
        let show = |frame| match frame {
            Frame::Line(line) => String::from_utf8_lossy(&line).into_owned(),
            Frame::Oversized => "OVERSIZED".to_owned(),
        };
        frames.into_iter().map(show).collect()
    }

    #[test]
    fn lines_are_cut_at_line_feeds_only() {
        for (input, expected) in [
            ("", &[] as &[&str]),
            ("a\nb\n", &["a", "b"]),
            ("a\r\nb", &["a", "b"]),
            ("\n\r\n \t\n  \r\na\n\n", &["a"]),
            ("a\rb\n", &["a\rb"]),
            ("a\u{2028}b\u{85}\n", &["a\u{2028}b\u{85}"]),
            ("\u{feff}a\n\u{feff}b\n", &["a", "\u{feff}b"]),
            ("\u{feff}\na", &["a"]),
            ("last \r", &["last "]),
            ("0123456789\n", &["0123456789"]),
            ("0123456789\r\n", &["0123456789"]),
            ("\u{feff}0123456789\r\n", &["0123456789"]),
            ("0123456789a\nb\n", &["OVERSIZED", "b"]),
            ("0123456789a", &["OVERSIZED"]),
            ("0123456789012345678901234567890\nb", &["OVERSIZED", "b"]),
            ("0123456789012345678901234567890", &["OVERSIZED"]),
        ] {
            let bytes = input.as_bytes();
            assert_eq!(frames(&[bytes]), expected, "{input:?}");
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(frames(&single), expected, "{input:?} byte by byte");
        }
    }

    /// Reads from a real stream, so that growth by the reading side counts, too.
    #[tokio::test]
    async fn an_endless_line_costs_no_memory() {
        let max = 1024 * 1024;
        let endless = tokio::io::repeat(b'a').take(200 * 1024 * 1024);
        let source = endless.chain(&b"aaa\nnext\n"[..]);
        let mut frames = FramedRead::with_capacity(source, LineCodec::new(max), READ_BYTES);
        assert_eq!(frames.next().await.unwrap().unwrap(), Frame::Oversized);
        let mut largest = 0;
        loop {
            let frame = futures::poll!(frames.next());
            largest = largest.max(frames.read_buffer().capacity());
            if let std::task::Poll::Ready(frame) = frame {
                assert_eq!(
                    frame.unwrap().unwrap(),
                    Frame::Line(Bytes::from_static(b"next"))
                );
                break;
            }
            // The stream is always ready; what it waits for is that this task lets others have a turn.
            tokio::task::yield_now().await;
        }
        assert!(
            (READ_BYTES..=2 * READ_BYTES).contains(&largest),
            "{largest} bytes kept while discarding"
        );
    }

    #[test]
    fn an_unfinished_line_takes_little_more_than_the_limit() {
        let max = 1024 * 1024;
        let mut codec = LineCodec::new(max);
        let mut buffer = BytesMut::new();
        let chunk = [b'a'; 8 * 1024];
        let mut largest = 0;
        while codec.decode(&mut buffer).unwrap().is_none() {
            largest = largest.max(buffer.len());
            buffer.extend_from_slice(&chunk);
        }
        assert!(largest <= max + chunk.len(), "{largest} bytes held");
        assert_eq!(buffer.capacity(), READ_BYTES, "given back");
    }

    #[test]
    fn a_long_line_does_not_stay_in_the_buffer() {
        let mut codec = LineCodec::new(64 * 1024 * 1024);
        let mut buffer = BytesMut::from(&vec![b'a'; 8 * 1024 * 1024][..]);
        buffer.extend_from_slice(b"\nnext");
        assert!(
            matches!(codec.decode(&mut buffer).unwrap(), Some(Frame::Line(line)) if line.len() == 8 * 1024 * 1024)
        );
        let kept = READ_BYTES..KEEP_BYTES;
        assert!(
            kept.contains(&buffer.capacity()),
            "{} bytes kept",
            buffer.capacity()
        );
        assert_eq!(
            codec.decode_eof(&mut buffer).unwrap(),
            Some(Frame::Line(Bytes::from_static(b"next")))
        );
    }
}
