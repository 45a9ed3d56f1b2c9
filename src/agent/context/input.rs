//! From what a host sent to what the model sees.

use longshore_protocol::error::ErrorKind;
use longshore_protocol::value::content::ContentPart;

use super::super::attachment::caption;
use super::render::escape;
use crate::kernel::fault::Fault;
use crate::kernel::limits::RESOURCE_TEXT_BYTES;
use crate::kernel::message::Part;
use crate::text::markup::attribute;

/// Looks whether an input says anything, without looking into its images.
///
/// # Errors
/// `invalid_params`: nothing in it.
pub fn check(input: &[ContentPart]) -> Result<(), Fault> {
    if input.is_empty() {
        return Err(invalid(
            "/input",
            "the input has no part; send at least one",
        ));
    }
    if input
        .iter()
        .all(|part| matches!(part, ContentPart::Text { text } if text.trim().is_empty()))
    {
        return Err(invalid(
            "/input",
            "the input is blank; say what is to be done",
        ));
    }
    Ok(())
}

/// Converts the parts of an input whose images have been made fit.
pub fn convert(input: &[ContentPart]) -> Vec<Part> {
    input.iter().flat_map(convert_part).collect()
}

fn convert_part(part: &ContentPart) -> Vec<Part> {
    vec![match part {
        ContentPart::Text { text } => Part::text(text.as_str()),
        ContentPart::Image {
            data,
            mime_type,
            original,
        } => {
            let image = Part::Image {
                mime: mime_type.as_str().into(),
                data: data.as_str().into(),
            };
            return match original {
                None => vec![image],
                Some(original) => vec![Part::text(caption(original, mime_type, data)), image],
            };
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
    }]
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
    use longshore_protocol::value::content::ImageOriginal;

    use super::*;

    fn text_of(part: ContentPart) -> String {
        match convert(&[part]).remove(0) {
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
    fn an_input_says_something() {
        let text = |text: &str| ContentPart::Text { text: text.into() };
        let image = ContentPart::Image {
            data: String::new(),
            mime_type: "image/png".into(),
            original: None,
        };
        for input in [vec![], vec![text(" \n")], vec![text(""), text(" ")]] {
            let fault = check(&input).unwrap_err();
            assert_eq!(fault.kind, ErrorKind::InvalidParams);
            assert_eq!(fault.data["path"], "/input");
        }
        for input in [vec![text("x")], vec![text(" "), image]] {
            check(&input).unwrap();
        }
    }

    #[test]
    fn a_scaled_image_has_its_caption_before_it() {
        let mut image = ContentPart::Image {
            data: "AAAA".into(),
            mime_type: "image/png".into(),
            original: None,
        };
        assert!(matches!(
            &convert(std::slice::from_ref(&image))[..],
            [Part::Image { .. }]
        ));
        let ContentPart::Image { original, .. } = &mut image else {
            unreachable!()
        };
        *original = Some(Box::new(ImageOriginal {
            mime_type: "image/jpeg".into(),
            width: 40,
            height: 30,
            bytes: 999,
            shown_width: 4,
            shown_height: 3,
            path: None,
        }));
        match &convert(&[image])[..] {
            [Part::Text(caption), Part::Image { mime, data }] => {
                assert!(
                    caption.contains("4 × 3 pixels (image/png, 3 bytes)"),
                    "{caption}"
                );
                assert!(
                    caption.contains("40 × 30 pixels (image/jpeg, 999 bytes)"),
                    "{caption}"
                );
                assert_eq!((&**mime, &**data), ("image/png", "AAAA"));
            }
            other => panic!("{other:?}"),
        }
    }
}
