//! Takes secrets out of text that leaves the process: logs, errors, traces, exports.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use regex::{Captures, Regex};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// Secrets shorter than this would take ordinary words with them.
const SHORTEST: usize = 8;
/// Values nested deeper are left out whole.
const DEPTH: usize = 10;
/// Members whose value is a secret, compared without case, `-` and `_`.
const NAMES: &[&str] = &[
    "accesstoken",
    "apikey",
    "authorization",
    "clientsecret",
    "cookie",
    "idtoken",
    "passwd",
    "password",
    "proxyauthorization",
    "refreshtoken",
    "secret",
    "setcookie",
    "xapikey",
    "xgoogapikey",
];

/// Knows the secrets of this process and the shapes that secrets have. Cheap to clone.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that one that contains another goes whole.
    secrets: Arc<[SecretString]>,
}

impl Redactor {
    /// A redactor for these secrets, besides the shapes it knows by itself.
    pub fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let mut all: Vec<SecretString> = Vec::new();
        for secret in secrets {
            let text = secret.expose_secret();
            // A secret in JSON text is spelt with escapes.
            let json = Value::from(text).to_string();
            let escaped = json[1..json.len() - 1].to_owned();
            all.extend([text.to_owned(), escaped].map(SecretString::from));
        }
        all.retain(|secret| secret.expose_secret().len() >= SHORTEST);
        all.sort_by(|a, b| {
            let (a, b) = (a.expose_secret(), b.expose_secret());
            b.len().cmp(&a.len()).then_with(|| a.cmp(b))
        });
        all.dedup_by(|a, b| a.expose_secret() == b.expose_secret());
        Self {
            secrets: all.into(),
        }
    }

    /// The text without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut out = Cow::Borrowed(text);
        for secret in &*self.secrets {
            if out.contains(secret.expose_secret()) {
                out = Cow::Owned(out.replace(secret.expose_secret(), REDACTED));
            }
        }
        let replaced = replace(&BEARER, out, |found| format!("{} {REDACTED}", &found[1]));
        replace(&MEMBER, replaced, |found| {
            format!("{}{REDACTED}", &found[1])
        })
    }

    /// The last place up to `at` where a text can be cut without cutting a secret or a character in two.
    pub fn cut(&self, text: &[u8], at: usize) -> usize {
        let mut cut = at.min(text.len());
        let is_inside = |cut: usize| text.get(cut).is_some_and(|byte| byte & 0xc0 == 0x80);
        // A character has four bytes at most; anything longer is none.
        for _ in 0..3 {
            if cut > 0 && is_inside(cut) {
                cut -= 1;
            }
        }
        let is_cut = |cut: usize, secret: &SecretString| {
            let secret = secret.expose_secret().as_bytes();
            let from = (cut + 1).saturating_sub(secret.len());
            let to = (cut + secret.len() - 1).min(text.len());
            memchr::memmem::find(&text[from..to], secret).map(|found| from + found)
        };
        while let Some(earlier) = self.secrets.iter().find_map(|secret| is_cut(cut, secret)) {
            cut = earlier;
        }
        cut
    }

    /// Redacts a value in place: strings, and whole members that are secret by their name.
    pub fn value(&self, value: &mut Value) {
        self.nested(value, DEPTH);
    }

    fn nested(&self, value: &mut Value, depth: usize) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(redacted) = self.text(text) {
                    *text = redacted;
                }
            }
            Value::Array(_) | Value::Object(_) if depth == 0 => *value = Value::from(REDACTED),
            Value::Array(items) => items
                .iter_mut()
                .for_each(|item| self.nested(item, depth - 1)),
            Value::Object(members) => {
                for (name, member) in members {
                    if is_secret_name(name) && !member.is_null() {
                        *member = Value::from(REDACTED);
                    } else {
                        self.nested(member, depth - 1);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor")
            .field("n_secrets", &self.secrets.len())
            .finish()
    }
}

/// True for names of headers, members and keys whose value is a secret.
pub fn is_secret_name(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_'))
        .flat_map(char::to_lowercase)
        .collect();
    NAMES.contains(&plain.as_str())
}

#[expect(
    clippy::expect_used,
    reason = "the pattern is a constant and compiles in a test"
)]
static BEARER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(bearer)\s+[A-Za-z0-9._~+/=-]{8,}").expect("a valid pattern")
});

/// `name: value`, `name=value`, `"name": "value"`, also inside a JSON string.
#[expect(
    clippy::expect_used,
    reason = "the pattern is a constant and compiles in a test"
)]
static MEMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)(\b(?:(?:x-)?(?:goog-)?api[_-]?key|(?:proxy-)?authorization|passw(?:or)?d|client[_-]?secret|secret",
        r"|(?:access|refresh|id)[_-]?token|(?:set-)?cookie)",
        r#"[\\"']*\s*[:=]\s*)(?:\\*"(?:[^"\\]|\\[^"])*\\*"|(?:(?:bearer|basic|token)\s+)?[^\s,;&}"'\\]+)"#,
    ))
    .expect("a valid pattern")
});

fn replace<'a>(
    pattern: &Regex,
    text: Cow<'a, str>,
    with: impl Fn(&Captures<'_>) -> String,
) -> Cow<'a, str> {
    match pattern.replace_all(&text, with) {
        Cow::Borrowed(_) => text,
        Cow::Owned(replaced) => Cow::Owned(replaced),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redactor() -> Redactor {
        Redactor::new(
            [
                "sk-live-1234".to_owned(),
                "pa\"ss\\word".to_owned(),
                "short".to_owned(),
            ]
            .map(SecretString::from),
        )
    }

    #[test]
    fn text_loses_its_secrets_and_nothing_else() {
        let cases = [
            ("GET /?k=sk-live-1234&x=1", "GET /?k=[redacted]&x=1"),
            ("xsk-live-1234x", "x[redacted]x"),
            (r#"{"a":"pa\"ss\\word"}"#, r#"{"a":"[redacted]"}"#),
            ("short words stay", "short words stay"),
            (
                "Authorization: Bearer abc.def-ghi",
                "Authorization: [redacted]",
            ),
            ("sent bearer abcdefgh", "sent bearer [redacted]"),
            ("a bearer of news", "a bearer of news"),
            ("authorization: Basic dTpw", "authorization: [redacted]"),
            ("a basic configuration", "a basic configuration"),
            (
                r#"{"api_key": "x", "b": 1}"#,
                r#"{"api_key": [redacted], "b": 1}"#,
            ),
            (r#""{\"api_key\":\"x\"}""#, r#""{\"api_key\":[redacted]}""#),
            ("x-api-key: abc", "x-api-key: [redacted]"),
            ("password=hunter2&a=b", "password=[redacted]&a=b"),
            ("ein Schlüssel", "ein Schlüssel"),
        ];
        for (text, expected) in cases {
            assert_eq!(redactor().text(text), expected);
        }
    }

    #[test]
    fn values_lose_secret_members_and_what_is_too_deep() {
        let mut value = json!({
            "Api-Key": "x", "Authorization": ["y"], "note": "uses sk-live-1234", "n": 1, "password": null,
            "list": [{"client_secret": 5}],
        });
        redactor().value(&mut value);
        assert_eq!(
            value,
            json!({
                "Api-Key": REDACTED, "Authorization": REDACTED, "note": "uses [redacted]", "n": 1, "password": null,
                "list": [{"client_secret": REDACTED}],
            })
        );
        let mut deep = json!("leaf");
        for _ in 0..20 {
            deep = json!([deep]);
        }
        redactor().value(&mut deep);
        assert!(deep.to_string().contains(REDACTED) && !deep.to_string().contains("leaf"));
    }

    #[test]
    fn no_cut_goes_through_a_secret_or_a_character() {
        let text = "ab sk-live-1234 é";
        for at in 0..=text.len() {
            let cut = redactor().cut(text.as_bytes(), at);
            let expected = match at {
                4..=14 => 3,
                17 => 16,
                at => at,
            };
            assert_eq!(cut, expected, "{at}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(format!("{:?}", redactor()), "Redactor { n_secrets: 3 }");
    }
}
