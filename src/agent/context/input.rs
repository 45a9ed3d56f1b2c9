//! From what a host sent to what the model sees.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::content::ContentPart;

use super::render::escape;
use crate::kernel::fault::Fault;
use crate::kernel::limits::{IMAGE_BYTES, RESOURCE_TEXT_BYTES};
use crate::kernel::message::Part;

/// Checks and converts the parts of an input.
///
/// # Errors
/// `invalid_params` naming the part: nothing in it, an image that is none or is too large.
pub fn convert(input: &[ContentPart]) -> Result<Vec<Part>, Fault> {
    if input.is_empty() {
        return Err(invalid(
            "/input",
            "the input has no part; send at least one",
        ));
    }
    let parts: Vec<Part> = input
        .iter()
        .enumerate()
        .map(|(n, part)| convert_part(n, part))
        .collect::<Result<_, _>>()?;
    if parts
        .iter()
        .all(|part| matches!(part, Part::Text(text) if text.trim().is_empty()))
    {
        return Err(invalid(
            "/input",
            "the input is blank; say what is to be done",
        ));
    }
    Ok(parts)
}

fn convert_part(n: usize, part: &ContentPart) -> Result<Part, Fault> {
    Ok(match part {
        ContentPart::Text { text } => Part::text(text.as_str()),
        ContentPart::Image { data, mime_type } => {
            let at = format!("/input/{n}");
            let bytes = STANDARD
                .decode(data.as_bytes())
                .map_err(|_| invalid(&at, format!("the image in part {n} is not base64")))?;
            let Some(mime) = sniff(&bytes) else {
                let message = format!(
                    "part {n} says {mime_type} but is no PNG, JPEG, GIF or WebP image; convert it first"
                );
                return Err(invalid(&at, message));
            };
            if bytes.len() > IMAGE_BYTES {
                let message = format!(
                    "the image in part {n} has {} bytes; the most is {IMAGE_BYTES}, so scale it down first",
                    bytes.len()
                );
                return Err(invalid(&at, message));
            }
            Part::Image {
                mime: mime.into(),
                data: data.as_str().into(),
            }
        }
        ContentPart::Resource { uri, text, .. } => {
            let (shown, cut) = cut(text, RESOURCE_TEXT_BYTES);
            let marker = if cut { "\n[the rest was cut]" } else { "" };
            Part::text(format!(
                "<resource uri=\"{}\">\n{}{marker}\n</resource>",
                attribute(uri),
                escape(shown)
            ))
        }
        ContentPart::ResourceLink { uri, name } => match file_path(uri) {
            Some(path) => Part::text(format!("@{path}")),
            None => Part::text(format!(
                "<resource-link uri=\"{}\" name=\"{}\"/>",
                attribute(uri),
                attribute(name.as_deref().unwrap_or_default())
            )),
        },
    })
}

/// The image formats every provider takes, by their first bytes.
pub fn sniff(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

fn invalid(path: &str, message: impl Into<String>) -> Fault {
    Fault::new(ErrorKind::InvalidParams, message).with("path", path)
}

/// The longest beginning of at most so many bytes that ends between characters.
fn cut(text: &str, bytes: usize) -> (&str, bool) {
    if text.len() <= bytes {
        return (text, false);
    }
    let end = (0..=bytes)
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    (&text[..end], true)
}

fn attribute(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The path of a `file://` link, percent-decoded, with a line fragment kept (`#L12` as `:12`).
fn file_path(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let (path, fragment) = path.split_once('#').unwrap_or((path, ""));
    let path = percent_decoded(path)?;
    let line = fragment.trim_start_matches('L');
    let line: String = line.chars().take_while(char::is_ascii_digit).collect();
    Some(if line.is_empty() {
        path
    } else {
        format!("{path}:{line}")
    })
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(part: ContentPart) -> String {
        match convert(&[part]).unwrap().remove(0) {
            Part::Text(text) => text.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn links_to_files_become_paths() {
        let link = |uri: &str| {
            text_of(ContentPart::ResourceLink {
                uri: uri.into(),
                name: Some("n".into()),
            })
        };
        assert_eq!(link("file:///w/a%20b.rs"), "@/w/a b.rs");
        assert_eq!(link("file:///w/a.rs#L12-L20"), "@/w/a.rs:12");
        assert_eq!(
            link("zed://\"x\""),
            "<resource-link uri=\"zed://&quot;x&quot;\" name=\"n\"/>"
        );
    }

    #[test]
    fn resources_are_tagged_and_cut_between_characters() {
        let text = "é".repeat(RESOURCE_TEXT_BYTES);
        let shown = text_of(ContentPart::Resource {
            uri: "u".into(),
            text,
            mime_type: None,
        });
        assert!(shown.ends_with("[the rest was cut]\n</resource>"));
        assert!(shown.len() < RESOURCE_TEXT_BYTES + 100);
    }

    #[test]
    fn bad_input_names_its_part() {
        let image = |data: &str| ContentPart::Image {
            data: data.into(),
            mime_type: "image/png".into(),
        };
        let text = ContentPart::Text { text: "x".into() };
        for (input, path) in [
            (vec![], "/input"),
            (vec![ContentPart::Text { text: " \n".into() }], "/input"),
            (vec![text.clone(), image("!!")], "/input/1"),
            (vec![text, image("aGVsbG8=")], "/input/1"),
            (
                vec![image(
                    &STANDARD.encode([&b"\x89PNG"[..], &vec![0; IMAGE_BYTES]].concat()),
                )],
                "/input/0",
            ),
        ] {
            let fault = convert(&input).unwrap_err();
            assert_eq!(fault.kind, ErrorKind::InvalidParams);
            assert_eq!(fault.data["path"], path);
        }
        let png = image(&STANDARD.encode(b"\x89PNG\r\n"));
        assert!(
            matches!(&convert(&[png]).unwrap()[0], Part::Image { mime, .. } if &**mime == "image/png")
        );
    }
}
