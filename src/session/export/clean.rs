//! Taking secrets out of a file on its way into an export.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read, Write};

use serde_json::Value;

use crate::config::redact::Redactor;

/// A line, or a document, that is taken apart as JSON is at most this long; a longer one counts as plain text.
const JSON_BYTES: u64 = 16 << 20;
/// Plain text is cleaned so much at a time.
const BLOCK_BYTES: usize = 1 << 20;
/// What is cut off a block and cleaned with the next one. No secret is longer.
const MARGIN_BYTES: usize = 64 << 10;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A JSON document.
    Json,
    /// JSON documents, one a line.
    JsonLines,
    /// Any text.
    Text,
    /// An image: no text.
    Bytes,
}

impl Kind {
    /// By its path in the session's directory.
    pub(super) fn of(path: &str) -> Self {
        match path.rsplit_once('.') {
            _ if path.starts_with("media/") => Self::Bytes,
            Some((_, "jsonl")) => Self::JsonLines,
            Some((_, "json")) => Self::Json,
            _ => Self::Text,
        }
    }
}

/// Copies a file without its secrets; true where it had any.
pub(super) fn clean(
    file: impl Read,
    kind: Kind,
    redactor: &Redactor,
    out: &mut impl Write,
) -> io::Result<bool> {
    let mut file = BufReader::new(file);
    match kind {
        Kind::Bytes => io::copy(&mut file, out).map(|_| false),
        Kind::Text => text(Vec::new(), &mut file, redactor, out),
        Kind::Json => {
            let mut document = Vec::new();
            (&mut file).take(JSON_BYTES).read_to_end(&mut document)?;
            match json(&document, redactor) {
                Some(cleaned) => out.write_all(&cleaned).map(|()| cleaned != document),
                None => text(document, &mut file, redactor, out),
            }
        }
        Kind::JsonLines => lines(&mut file, redactor, out),
    }
}

fn lines(file: &mut impl BufRead, redactor: &Redactor, out: &mut impl Write) -> io::Result<bool> {
    let (mut line, mut had_any) = (Vec::new(), false);
    loop {
        line.clear();
        file.take(JSON_BYTES).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(had_any);
        }
        let is_whole = line.ends_with(b"\n");
        if let Some(mut cleaned) = json(&line, redactor) {
            if is_whole {
                cleaned.push(b'\n');
            }
            had_any |= cleaned != line;
            out.write_all(&cleaned)?;
        } else if is_whole {
            had_any |= text(std::mem::take(&mut line), &mut io::empty(), redactor, out)?;
        } else {
            // No line of a journal is that long: the rest is taken as it comes.
            return Ok(text(std::mem::take(&mut line), file, redactor, out)? | had_any);
        }
    }
}

/// A document without its secrets; `None` for what is none.
fn json(document: &[u8], redactor: &Redactor) -> Option<Vec<u8>> {
    let original: Value = serde_json::from_slice(document).ok()?;
    let mut value = original.clone();
    redactor.value(&mut value);
    if value == original {
        return Some(document.strip_suffix(b"\n").unwrap_or(document).to_vec());
    }
    serde_json::to_vec(&value).ok()
}

/// Cleans what was read already and what is still to be read.
fn text(
    mut block: Vec<u8>,
    rest: &mut impl Read,
    redactor: &Redactor,
    out: &mut impl Write,
) -> io::Result<bool> {
    let mut had_any = false;
    loop {
        let missing = (BLOCK_BYTES + MARGIN_BYTES).saturating_sub(block.len());
        let n = rest.take(missing as u64).read_to_end(&mut block)?;
        let is_end = n < missing;
        let cut = if is_end {
            block.len()
        } else {
            place_to_cut(&block, redactor)
        };
        for chunk in block[..cut].utf8_chunks() {
            let cleaned = redactor.text(chunk.valid());
            had_any |= matches!(cleaned, Cow::Owned(_));
            out.write_all(cleaned.as_bytes())?;
            out.write_all(chunk.invalid())?;
        }
        block.drain(..cut);
        if is_end && block.is_empty() {
            return Ok(had_any);
        }
    }
}

/// Where a block can be cut without cutting a secret or a character in two; never at its beginning.
fn place_to_cut(block: &[u8], redactor: &Redactor) -> usize {
    let at = block.len() - MARGIN_BYTES.min(block.len() / 2);
    // Patterns such as `password: …` end with a line.
    let line = memchr::memrchr(b'\n', &block[..at]).map_or(at, |n| n + 1);
    let cut = if at - line < MARGIN_BYTES { line } else { at };
    match redactor.cut(block, cut) {
        0 => at,
        cut => cut,
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    const SECRET: &str = "sk-very-secret-0123456789";

    fn cleaned(text: &[u8], kind: Kind) -> (Vec<u8>, bool) {
        let redactor = Redactor::new([SecretString::from(SECRET)]);
        let mut out = Vec::new();
        let had_any = clean(text, kind, &redactor, &mut out).unwrap();
        (out, had_any)
    }

    #[test]
    fn kinds() {
        for (path, kind) in [
            ("journal.jsonl", Kind::JsonLines),
            ("meta.json", Kind::Json),
            ("tasks/bash-1/output.log", Kind::Text),
            ("blobs/0123", Kind::Text),
            ("media/0123", Kind::Bytes),
            ("media/x.json", Kind::Bytes),
        ] {
            assert_eq!(Kind::of(path), kind, "{path}");
        }
    }

    #[test]
    fn json_stays_json() {
        let line = |secret: &str| {
            format!("{{\"v\":1,\"text\":\"a {secret} b\",\"api_key\":\"x\"}}\n{{\"v\":2}}\n")
        };
        let (out, had_any) = cleaned(line(SECRET).as_bytes(), Kind::JsonLines);
        assert!(had_any);
        let out = String::from_utf8(out).unwrap();
        let values: Vec<Value> = out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(values[0]["text"], "a [redacted] b");
        assert_eq!(values[0]["api_key"], "[redacted]");
        assert!(out.ends_with("{\"v\":2}\n"));
        let whole = b"{\"a\": [1, 2]}\n{\"b\":0.10}\n";
        assert_eq!(cleaned(whole, Kind::JsonLines), (whole.to_vec(), false));
    }

    #[test]
    fn damaged_lines_are_cleaned_as_text() {
        let text = format!("{{\"torn\": \"{SECRET}\n\x00\x00\n");
        let (out, had_any) = cleaned(text.as_bytes(), Kind::JsonLines);
        assert!(had_any && !String::from_utf8_lossy(&out).contains(SECRET));
        let (out, _) = cleaned(text.as_bytes(), Kind::Json);
        assert!(!String::from_utf8_lossy(&out).contains(SECRET));
    }

    #[test]
    fn no_place_in_a_large_text_hides_a_secret() {
        let places = [
            0,
            BLOCK_BYTES - MARGIN_BYTES - 7,
            BLOCK_BYTES - 7,
            BLOCK_BYTES,
            BLOCK_BYTES + MARGIN_BYTES - 7,
            2 * BLOCK_BYTES - 3,
        ];
        for filler in ["x", "é", "word word\n"] {
            for place in places {
                let mut text = filler.repeat(3 * BLOCK_BYTES / filler.len());
                let at = (place..place + 4)
                    .find(|at| text.is_char_boundary(*at))
                    .unwrap();
                text.insert_str(at, SECRET);
                let (out, had_any) = cleaned(text.as_bytes(), Kind::Text);
                assert!(had_any, "{filler:?} {place}");
                assert_eq!(
                    String::from_utf8(out).unwrap(),
                    text.replace(SECRET, "[redacted]")
                );
            }
        }
    }

    #[test]
    fn what_is_no_text_stays_as_it_is() {
        let mut bytes = vec![0xff, 0xfe, 0x00];
        bytes.extend_from_slice(SECRET.as_bytes());
        bytes.extend_from_slice(&[0xc3, 0x28]);
        let (out, had_any) = cleaned(&bytes, Kind::Text);
        assert!(had_any);
        assert_eq!(out, b"\xff\xfe\x00[redacted]\xc3\x28");
        assert_eq!(cleaned(&bytes, Kind::Bytes), (bytes.clone(), false));
    }
}
