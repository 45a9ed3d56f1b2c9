//! New content in the form of the file that it replaces or is added to.

use std::borrow::Cow;

use super::BOM;
use super::encoding::{Encoding, Text, Unencodable};
use super::endings::{Style, style_of};

/// Content as it is to be written.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::tool::file) struct Conformed<'a> {
    /// The bytes.
    pub bytes: Cow<'a, [u8]>,
    /// What the model is told where they are not those of its text: full sentences.
    pub notes: Vec<String>,
}

impl<'a> Conformed<'a> {
    /// Content written as it is.
    pub(in crate::tool::file) fn as_is(content: &'a str) -> Self {
        Self {
            bytes: content.as_bytes().into(),
            notes: Vec::new(),
        }
    }
}

/// The whole new content of a file that was `old`.
///
/// The byte-order mark of a UTF-8 file stays unless the content has its own. Where all lines ended in CRLF and the
/// content leaves the ending open (it has no `\r`), its lines end so too. Anything else is written as it is: in UTF-8.
pub(in crate::tool::file) fn replacing<'a>(old: &[u8], content: &'a str) -> Conformed<'a> {
    let mut notes = Vec::new();
    let mut text = Cow::Borrowed(content);
    let mut has_mark = old.starts_with(BOM);
    // What is no text has no form to keep but its mark.
    if let Ok(old) = Text::of(old) {
        if old.encoding != Encoding::Utf8 {
            has_mark = false;
            notes.push(format!(
                "The file was {} text; it is UTF-8 now.",
                old.encoding.name()
            ));
        }
        let leaves_open = content.contains('\n') && !content.contains('\r');
        if leaves_open && style_of(old.body.as_bytes()) == Style::Crlf {
            notes.push(
                "The file's lines end in CRLF; the new content was written with CRLF too."
                    .to_owned(),
            );
            text = content.replace('\n', "\r\n").into();
        }
    }
    let bytes = match text {
        text if has_mark && !text.as_bytes().starts_with(BOM) => {
            [BOM, text.as_bytes()].concat().into()
        }
        Cow::Borrowed(text) => text.as_bytes().into(),
        Cow::Owned(text) => text.into_bytes().into(),
    };
    Conformed { bytes, notes }
}

/// What is added to the end of a file that is `old` so far: the content in the encoding of the file, and nothing else
/// changed about it.
///
/// # Errors
/// The first character that the encoding lacks.
pub(in crate::tool::file) fn appending<'a>(
    old: &[u8],
    content: &'a str,
) -> Result<Conformed<'a>, Unencodable> {
    let encoding = Text::of(old).map_or(Encoding::Utf8, |text| text.encoding);
    let bytes = encoding.encode(content)?;
    let mut notes = Vec::new();
    if encoding != Encoding::Utf8 {
        notes.push(format!(
            "The file is {} text; the new text was encoded so too.",
            encoding.name()
        ));
    }
    Ok(Conformed { bytes, notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_content_keeps_the_form() {
        for (old, content, expected, said) in [
            (&b"a\n"[..], "x\ny\n", &b"x\ny\n"[..], None),
            (
                b"a\r\nb\r\n",
                "x\ny\n",
                b"x\r\ny\r\n",
                Some("written with CRLF too"),
            ),
            (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\n", None),
            (b"a\r\nb\r\n", "x", b"x", None),
            (b"a\r\nb\n", "x\ny\n", b"x\ny\n", None),
            (b"\xEF\xBB\xBFa\n", "x\n", b"\xEF\xBB\xBFx\n", None),
            (b"\xEF\xBB\xBFa\n", "\u{FEFF}x\n", b"\xEF\xBB\xBFx\n", None),
            (
                b"\xEF\xBB\xBFa\r\n",
                "x\n",
                b"\xEF\xBB\xBFx\r\n",
                Some("CRLF"),
            ),
            (
                b"\xFF\xFEa\0\n\0",
                "x\n",
                b"x\n",
                Some("was UTF-16 (little endian) text; it is UTF-8 now"),
            ),
            (
                b"# \xB2\xE2\xCA\xD4\n",
                "x\n",
                b"x\n",
                Some("was GBK text; it is UTF-8 now"),
            ),
            (b"a\0b\xFF", "x\n", b"x\n", None),
            (b"", "x\n", b"x\n", None),
        ] {
            let conformed = replacing(old, content);
            assert_eq!(conformed.bytes.as_ref(), expected, "{old:?} by {content:?}");
            let notes = conformed.notes.concat();
            assert!(
                said.map_or(notes.is_empty(), |said| notes.contains(said)),
                "{old:?} by {content:?}: {notes}"
            );
        }
    }

    #[test]
    fn added_content_is_in_the_encoding_of_the_file() {
        for (old, content, expected) in [
            (&b"a\r\n"[..], "x\n", &b"x\n"[..]),
            (b"\xEF\xBB\xBFa\n", "x\n", b"x\n"),
            (b"\xFF\xFEa\0\n\0", "x\n", b"x\0\n\0"),
            (b"\0a\0\n", "x\n", b"\0x\0\n"),
            (b"# \xB2\xE2\xCA\xD4\n", "测\n", b"\xB2\xE2\n"),
            (b"a\0b\xFF", "é", "é".as_bytes()),
        ] {
            let conformed = appending(old, content).unwrap();
            assert_eq!(conformed.bytes.as_ref(), expected, "{content:?} to {old:?}");
        }
        assert_eq!(
            appending(b"# \xB2\xE2\xCA\xD4\n", "🌍"),
            Err(Unencodable {
                c: '🌍',
                encoding: "GBK"
            })
        );
    }
}
