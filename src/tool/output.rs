//! Keeping outcomes within what a model and a host can take: the general budget, and cuts of text for display.
//!
//! Output above the budget is kept whole in a file of the session, readable by its owner only, and the model gets the
//! beginning and the place. Counts are in characters, and no character is ever split.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use longshore_protocol::id::ToolCallId;

use super::{Outcome, ToolSpec, spill};
use crate::kernel::limits::{DISPLAY_BYTES, OUTPUT_CHARS, OUTPUT_PREVIEW_CHARS, SPILL_BYTES};
use crate::kernel::message::Part;

/// Characters of a model's text in a title.
const TITLE_CHARS: usize = 120;

/// Cuts text for one field of a display; tells whether anything was cut.
pub fn cut_display(text: &str) -> (&str, bool) {
    let mut end = text.len().min(DISPLAY_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    (&text[..end], end < text.len())
}

/// Text for a title: its first line, at most [`TITLE_CHARS`] characters.
pub fn one_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let cut = first_chars(line, TITLE_CHARS);
    if cut.len() < text.trim().len() {
        format!("{cut}…")
    } else {
        cut.to_owned()
    }
}

/// Text for one line, whatever names it holds: control characters are written as escapes.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// The first `n_chars` characters.
pub fn first_chars(text: &str, n_chars: usize) -> &str {
    match text.char_indices().nth(n_chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Applies the general budget to an outcome: text of more than [`OUTPUT_CHARS`] characters is kept in `results_dir` and
/// replaced by a preview.
///
/// Outcomes with images, of tools that cut their own output, and those known to be incomplete are left alone.
pub async fn within_budget(
    outcome: Outcome,
    spec: &ToolSpec,
    call: &ToolCallId,
    results_dir: &Path,
) -> Outcome {
    if spec.own_budget || outcome.truncated {
        return outcome;
    }
    let Some(text) = only_text(&outcome.output) else {
        return outcome;
    };
    let n_chars = text.chars().count();
    if n_chars <= OUTPUT_CHARS {
        return outcome;
    }
    let dir = results_dir.to_owned();
    let saved = spill::keep(dir, spec.name, call, text.clone(), SPILL_BYTES).await;
    let shorter = match &saved {
        Ok(path) => format!(
            "The output of {} (call {call}) has {n_chars} characters ({} bytes), more than is shown at once. The whole of \
             it is in {}; page through it with Read. It begins:\n\n{}",
            spec.name,
            text.len(),
            path.display(),
            first_chars(&text, OUTPUT_PREVIEW_CHARS)
        ),
        Err(error) => format!(
            "{}\n\n[Cut here: the output has {n_chars} characters, and the rest could not be kept ({error}).]",
            first_chars(&text, OUTPUT_CHARS)
        ),
    };
    Outcome {
        output: vec![Part::text(shorter)],
        truncated: true,
        ..outcome
    }
}

/// The text of an outcome that is nothing but text.
fn only_text(parts: &[Part]) -> Option<Arc<str>> {
    if let [Part::Text(text)] = parts {
        return Some(Arc::clone(text));
    }
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => Some(text.as_ref()),
            Part::Thinking(_) | Part::Image { .. } => None,
        })
        .collect();
    Some(texts?.join("\n").into())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests look at real files")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn spec(own_budget: bool) -> ToolSpec {
        ToolSpec {
            name: "mcp__a/b",
            description: "".into(),
            parameters: Arc::new(serde_json::Value::Null),
            dedupe: false,
            own_budget,
        }
    }

    fn text_of(outcome: &Outcome) -> String {
        only_text(&outcome.output).unwrap().to_string()
    }

    async fn budget(outcome: Outcome, own_budget: bool, dir: &Path) -> Outcome {
        within_budget(
            outcome,
            &spec(own_budget),
            &ToolCallId::from("call_7".to_owned()),
            dir,
        )
        .await
    }

    #[tokio::test]
    async fn long_text_is_kept_and_previewed() {
        let dir = tempfile::tempdir().unwrap();
        let results = dir.path().join("tool-results");
        let text = "é".repeat(OUTPUT_CHARS + 1);
        let outcome = budget(Outcome::text(text.as_str()), false, &results).await;
        let shown = text_of(&outcome);
        assert!(outcome.truncated && shown.chars().count() < OUTPUT_PREVIEW_CHARS + 500);
        assert!(shown.contains("50001 characters (100002 bytes)"), "{shown}");

        let kept: Vec<_> = std::fs::read_dir(&results)
            .unwrap()
            .map(|entry| entry.unwrap())
            .collect();
        assert_eq!(kept.len(), 1);
        let path = kept[0].path();
        assert!(shown.contains(path.to_str().unwrap()));
        let name = kept[0].file_name().into_string().unwrap();
        assert!(name.starts_with("mcp__a_b-call_7-"), "{name}");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&results), mode(&path)), (0o700, 0o600));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[tokio::test]
    async fn what_the_budget_leaves_alone() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(OUTPUT_CHARS + 1);
        let just_fits = "é".repeat(OUTPUT_CHARS);
        let image = Part::Image {
            mime: "image/png".into(),
            data: "AA==".into(),
        };
        let incomplete = Outcome {
            truncated: true,
            ..Outcome::text(long.as_str())
        };
        let mixed = Outcome::parts(vec![Part::text(long.as_str()), image]);
        for (outcome, own_budget) in [
            (Outcome::text(just_fits.as_str()), false),
            (Outcome::text(long.as_str()), true),
            (incomplete, false),
            (mixed, false),
        ] {
            let before = format!("{outcome:?}");
            let after = budget(outcome, own_budget, &dir.path().join("r")).await;
            assert_eq!(format!("{after:?}"), before);
        }
        assert!(!dir.path().join("r").exists());
    }

    #[tokio::test]
    async fn where_nothing_can_be_kept_the_text_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let outcome = budget(
            Outcome::text("x".repeat(OUTPUT_CHARS + 1)),
            false,
            &file.join("r"),
        )
        .await;
        let shown = text_of(&outcome);
        assert!(outcome.truncated && shown.starts_with(&"x".repeat(OUTPUT_CHARS)));
        assert!(
            shown.ends_with(".]") && shown.contains("Cut here"),
            "{}",
            &shown[OUTPUT_CHARS..]
        );
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(printable("a\nb\u{1b}[2J\u{85}"), "a\\nb\\u{1b}[2J\\u{85}");
        assert!(matches!(printable("é 中"), Cow::Borrowed("é 中")));
    }

    #[test]
    fn titles_are_one_short_line() {
        assert_eq!(one_line(" a b\n"), "a b");
        assert_eq!(one_line("a\nb"), "a…");
        assert_eq!(one_line(&"é".repeat(200)), "é".repeat(TITLE_CHARS) + "…");
    }

    #[test]
    fn display_text_is_cut_between_characters() {
        let text = "中".repeat(DISPLAY_BYTES);
        let (cut, is_cut) = cut_display(&text);
        assert!(is_cut && cut.len() <= DISPLAY_BYTES && cut.len() > DISPLAY_BYTES - 3);
        assert_eq!(cut_display("abc"), ("abc", false));
    }
}
