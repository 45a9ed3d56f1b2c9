//! Takes keys and payloads out of text that people or logs will see.

use secrecy::{ExposeSecret, SecretString};

/// Runs of base64 at least this long are payloads, not words.
const PAYLOAD_CHARS: usize = 200;
/// Shorter secrets would match by chance.
const SECRET_CHARS: usize = 8;

/// The text without the secrets, bearer tokens and inline data, cut to `max` bytes at a character.
pub(crate) fn excerpt(text: &str, secrets: &[SecretString], max: usize) -> String {
    let mut text = payloads(text);
    for secret in secrets {
        let secret = secret.expose_secret();
        if secret.len() >= SECRET_CHARS {
            text = text.replace(secret, "[redacted]");
        }
    }
    text = bearers(&text);
    if text.len() > max {
        let mut end = max.saturating_sub('…'.len_utf8());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

fn payloads(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(4096));
    let mut rest = text;
    while !rest.is_empty() {
        let run = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=_-".contains(byte))
            .count();
        if run >= PAYLOAD_CHARS || (run > 0 && out.ends_with(";base64,")) {
            out.push_str("[data]");
        } else {
            out.push_str(&rest[..run]);
        }
        rest = &rest[run..];
        if let Some(next) = rest.chars().next() {
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    out
}

fn bearers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("Bearer ") {
        let end = at + "Bearer ".len();
        out.push_str(&rest[..end]);
        rest = &rest[end..];
        let token = rest
            .find(|c: char| c.is_whitespace() || "\"',}".contains(c))
            .unwrap_or(rest.len());
        if token > 0 {
            out.push_str("[redacted]");
        }
        rest = &rest[token..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn keys_and_payloads_do_not_come_through() {
        let long = "A".repeat(300);
        for (text, shown) in [
            ("plain words stay".to_owned(), "plain words stay"),
            (
                "key sk-secret-123 was refused".to_owned(),
                "key [redacted] was refused",
            ),
            (
                "Authorization: Bearer abc.def, x".to_owned(),
                "Authorization: Bearer [redacted], x",
            ),
            (
                "url data:image/png;base64,iVBORw0KGgo= bad".to_owned(),
                "url data:image/png;base64,[data] bad",
            ),
            (format!("raw {long} end"), "raw [data] end"),
            ("ключ sk-secret-123".to_owned(), "ключ [redacted]"),
        ] {
            assert_eq!(
                excerpt(
                    &text,
                    &["sk-secret-123".to_owned().into(), "key".to_owned().into()],
                    100
                ),
                shown
            );
        }
    }

    #[test]
    fn the_cut_is_at_a_character() {
        assert_eq!(excerpt("ääää", &[], 6), "ä…");
    }
}
