//! Server-sent events, as servers really send them.
//!
//! Lines end by LF, CRLF or CR, and pieces may be cut anywhere, within CRLF and within a character too. One leading byte
//! order mark is skipped. An event that the stream ends within counts. The non-standard field `error` is an event of its
//! own, and a line that is JSON without a field is taken as an event, which is what some local servers send. Bad UTF-8
//! is replaced. Each byte is looked at a fixed number of times.

use std::mem;

use memchr::memchr2;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; empty where it is absent.
    pub name: String,
    /// The `data` fields, joined by newlines. Never empty.
    pub data: String,
}

/// An event was larger than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {max_bytes} bytes")]
pub struct EventTooLarge {
    /// The limit.
    pub max_bytes: usize,
}

/// Turns pieces of a stream into events.
#[derive(Debug)]
pub struct SseParser {
    max_bytes: usize,
    line: Vec<u8>,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was CR; an LF after it belongs to it.
    after_cr: bool,
    begun: bool,
}

impl SseParser {
    /// For a stream whose events are at most `max_bytes` long.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            name: String::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            begun: false,
        }
    }

    /// Takes a piece and appends the events it completes.
    ///
    /// # Errors
    /// An event is too large; the stream cannot be read on.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<SseEvent>) -> Result<(), EventTooLarge> {
        let mut rest = piece;
        if mem::take(&mut self.after_cr) {
            match rest.first() {
                Some(b'\n') => rest = &rest[1..],
                Some(_) => {}
                None => self.after_cr = true,
            }
        }
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            self.grow(&rest[..end])?;
            let crlf = rest[end] == b'\r' && rest.get(end + 1) == Some(&b'\n');
            self.after_cr = rest[end] == b'\r' && end + 1 == rest.len();
            rest = &rest[end + 1 + usize::from(crlf)..];
            self.end_line(out);
        }
        self.grow(rest)
    }

    /// The stream has ended: the event it ended within counts.
    pub fn finish(&mut self, out: &mut Vec<SseEvent>) {
        if !self.line.is_empty() {
            self.end_line(out);
        }
        self.end_event(out);
    }

    fn grow(&mut self, more: &[u8]) -> Result<(), EventTooLarge> {
        if self.line.len() + self.data.len() + more.len() > self.max_bytes {
            return Err(EventTooLarge {
                max_bytes: self.max_bytes,
            });
        }
        self.line.extend_from_slice(more);
        Ok(())
    }

    fn end_line(&mut self, out: &mut Vec<SseEvent>) {
        let mut line = mem::take(&mut self.line);
        let text = match line.strip_prefix(b"\xEF\xBB\xBF") {
            Some(text) if !self.begun => text,
            _ => line.as_slice(),
        };
        self.begun = true;
        match text.first() {
            None => self.end_event(out),
            Some(b':') => {}
            Some(b'{') => {
                self.end_event(out);
                self.add_data(text);
                self.end_event(out);
            }
            Some(_) => {
                let (field, value) = match text.iter().position(|byte| *byte == b':') {
                    Some(at) => (
                        &text[..at],
                        text[at + 1..].strip_prefix(b" ").unwrap_or(&text[at + 1..]),
                    ),
                    None => (text, &b""[..]),
                };
                match field {
                    b"data" => self.add_data(value),
                    b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
                    b"error" => {
                        self.end_event(out);
                        "error".clone_into(&mut self.name);
                        self.add_data(value);
                        self.end_event(out);
                    }
                    _ => {}
                }
            }
        }
        line.clear();
        self.line = line;
    }

    fn add_data(&mut self, value: &[u8]) {
        if mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
    }

    fn end_event(&mut self, out: &mut Vec<SseEvent>) {
        let name = mem::take(&mut self.name);
        self.has_data = false;
        let data = mem::take(&mut self.data);
        if !data.is_empty() {
            let data = String::from_utf8(data)
                .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
            out.push(SseEvent { name, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};

    use super::{EventTooLarge, SseEvent, SseParser};

    fn parse(bytes: &[u8], size: usize) -> Vec<String> {
        let mut parser = SseParser::new(1 << 20);
        let mut out = Vec::new();
        for piece in bytes.chunks(size) {
            parser.push(piece, &mut out).unwrap();
        }
        parser.finish(&mut out);
        out.into_iter()
            .map(|SseEvent { name, data }| {
                if name.is_empty() {
                    data
                } else {
                    format!("{name}={data}")
                }
            })
            .collect()
    }

    #[test]
    fn streams_cut_anywhere() {
        for (what, bytes, events) in [
            ("lf", &b"data: a\n\ndata: b\n\n"[..], vec!["a", "b"]),
            ("crlf", b"data: a\r\n\r\ndata: b\r\n\r\n", vec!["a", "b"]),
            ("cr", b"data: a\r\rdata: b\r\r", vec!["a", "b"]),
            (
                "mixed",
                b"data: a\r\n\ndata: b\r\r\ndata: c\n\r",
                vec!["a", "b", "c"],
            ),
            ("byte order mark", b"\xEF\xBB\xBFdata: a\n\n", vec!["a"]),
            ("no space", b"data:a\n\ndata:  b\n\n", vec!["a", " b"]),
            (
                "several lines",
                b"data: a\ndata: b\ndata:\ndata: c\n\n",
                vec!["a\nb\n\nc"],
            ),
            ("comments", b": ping\n\n:\ndata: a\n: x\n\n", vec!["a"]),
            (
                "names",
                b"event: delta\ndata: a\n\ndata: b\n\n",
                vec!["delta=a", "b"],
            ),
            (
                "other fields",
                b"id: 1\nretry: 5\nnonsense\ndata: a\n\n",
                vec!["a"],
            ),
            (
                "empty data",
                b"data:\n\ndata\n\nevent: x\n\ndata: a\n\n",
                vec!["a"],
            ),
            (
                "no blank line at the end",
                b"data: a\n\ndata: b\n",
                vec!["a", "b"],
            ),
            (
                "no newline at the end",
                b"data: a\n\ndata: [DONE]",
                vec!["a", "[DONE]"],
            ),
            (
                "error field",
                b"data: a\n\nerror: {\"code\":400}\n\n",
                vec!["a", "error={\"code\":400}"],
            ),
            (
                "json lines",
                b"{\"a\":1}\n{\"a\":2}",
                vec!["{\"a\":1}", "{\"a\":2}"],
            ),
            ("characters", "data: äö日😀\n\n".as_bytes(), vec!["äö日😀"]),
            (
                "bad utf-8",
                b"data: a\xFFb\n\ndata: c\n\n",
                vec!["a\u{FFFD}b", "c"],
            ),
        ] {
            for size in 1..=bytes.len() {
                assert_eq!(parse(bytes, size), events, "{what} by {size}");
            }
        }
    }

    #[test]
    fn the_cap_holds_for_lines_and_for_events() {
        for piece in [&b"data: aaaaaaaaaaaaaaaaaaaaaaaa"[..], b"data: aaaaaaaa\n"] {
            let mut parser = SseParser::new(20);
            let mut out = Vec::new();
            let got = (0..4).find_map(|_| parser.push(piece, &mut out).err());
            assert_eq!(got, Some(EventTooLarge { max_bytes: 20 }));
        }
        let mut parser = SseParser::new(20);
        let mut out = Vec::new();
        for _ in 0..100 {
            parser.push(b"data: aaaaaaaa\n\n", &mut out).unwrap();
        }
        assert_eq!(out.len(), 100);
    }

    proptest! {
        #[test]
        fn any_bytes_read_the_same_in_any_pieces(
            bytes in prop::collection::vec(prop::sample::select(&b"data: e\n\r\x00\xC3\xA4{[:"[..]), 0..80),
            size in 1_usize..10,
            _seed in any::<u8>(),
        ) {
            assert_eq!(parse(&bytes, size), parse(&bytes, bytes.len().max(1)));
        }
    }
}
