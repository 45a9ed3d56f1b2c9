//! The last look at a drawing before it leaves: no text field is longer than a host should have to draw.
//!
//! Tools cut what they know to be long, and say so in their own way. What passes here is cut whatever the tool, because
//! a drawing goes into the journal and to every host.

use longshore_protocol::value::display::Display;

use super::output::cut_display;

/// The drawing with every text field cut to what a display may hold; where it has a mark for that, it is set.
pub fn capped(display: Display) -> Display {
    match display {
        // The command is what a person approves, so it is whole; the system takes none of more than 128 KiB.
        Display::Command {
            command,
            cwd,
            description,
        } => Display::Command {
            command,
            cwd,
            description: description.map(cut),
        },
        Display::CommandOutput {
            mut text,
            exit_code,
            signal,
            truncated,
        } => Display::CommandOutput {
            truncated: cut_marked(&mut text) || truncated,
            text,
            exit_code,
            signal,
        },
        Display::FileRead { path, line } => Display::FileRead { path, line },
        Display::FileWrite {
            path,
            mut content,
            truncated,
        } => Display::FileWrite {
            path,
            truncated: cut_marked(&mut content) || truncated,
            content,
        },
        // Both texts have a limit of their own, and are of use only whole.
        Display::Diff {
            path,
            mut hunks,
            added,
            removed,
            old_text,
            new_text,
            line,
            old_sha256,
            truncated,
        } => Display::Diff {
            path,
            truncated: cut_marked(&mut hunks) || truncated,
            hunks,
            added,
            removed,
            old_text,
            new_text,
            line,
            old_sha256,
        },
        Display::Search { query, path, glob } => Display::Search {
            query: cut(query),
            path,
            glob: glob.map(cut),
        },
        Display::SearchResults {
            query,
            mut text,
            truncated,
        } => Display::SearchResults {
            query: cut(query),
            truncated: cut_marked(&mut text) || truncated,
            text,
        },
        Display::Todo { mut todos } => {
            for todo in &mut todos {
                cut_in_place(&mut todo.title);
            }
            Display::Todo { todos }
        }
        Display::Question { mut questions } => {
            for question in &mut questions {
                cut_in_place(&mut question.question);
                cut_in_place(&mut question.header);
                for option in &mut question.options {
                    cut_in_place(&mut option.label);
                    cut_in_place(&mut option.description);
                }
            }
            Display::Question { questions }
        }
        Display::Task { task_id, summary } => Display::Task {
            task_id,
            summary: cut(summary),
        },
        Display::Text {
            mut text,
            truncated,
        } => Display::Text {
            truncated: cut_marked(&mut text) || truncated,
            text,
        },
        Display::Error { message, code } => Display::Error {
            message: cut(message),
            code,
        },
        Display::Generic { summary, detail } => Display::Generic {
            summary: cut(summary),
            detail: detail.map(cut),
        },
    }
}

/// Cuts a field whose drawing has a mark for that; true where anything was cut.
fn cut_marked(text: &mut String) -> bool {
    let (kept, is_cut) = cut_display(text);
    let end = kept.len();
    text.truncate(end);
    is_cut
}

/// Cuts a field without such a mark: an ellipsis stands for the rest.
fn cut_in_place(text: &mut String) {
    if cut_marked(text) {
        text.push('…');
    }
}

fn cut(mut text: String) -> String {
    cut_in_place(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kernel::limits::DISPLAY_BYTES;

    fn through(display: &Value) -> Value {
        let display: Display = serde_json::from_value(display.clone()).unwrap();
        serde_json::to_value(capped(display)).unwrap()
    }

    /// Every kind, with `text` wherever one may be long.
    fn kinds(text: &str) -> Vec<Value> {
        let option = json!({"id": "o", "label": text, "description": text});
        let question = json!({"id": "q", "question": text, "header": text, "options": [option],
            "multiSelect": false, "allowOther": false});
        vec![
            json!({"kind": "command", "command": "ls", "cwd": "/", "description": text}),
            json!({"kind": "commandOutput", "text": text, "exitCode": 1}),
            json!({"kind": "fileRead", "path": "/a", "line": 3}),
            json!({"kind": "fileWrite", "path": "/a", "content": text}),
            json!({"kind": "diff", "path": "/a", "hunks": text, "added": 1, "removed": 2, "oldText": "a",
                "newText": "b", "line": 4}),
            json!({"kind": "search", "query": text, "path": "/a", "glob": text}),
            json!({"kind": "searchResults", "query": text, "text": text}),
            json!({"kind": "todo", "todos": [{"title": text, "status": "done"}]}),
            json!({"kind": "question", "questions": [question]}),
            json!({"kind": "task", "taskId": "bash-00000001", "summary": text}),
            json!({"kind": "text", "text": text}),
            json!({"kind": "error", "message": text, "code": "denied"}),
            json!({"kind": "generic", "summary": text, "detail": text}),
        ]
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        for kind in kinds(&"é".repeat(DISPLAY_BYTES / 2)) {
            assert_eq!(through(&kind), kind);
        }
    }

    #[test]
    fn long_texts_are_cut_and_marked() {
        let fits = "x".repeat(DISPLAY_BYTES);
        let with_ellipsis = format!("{fits}…");
        for mut kind in kinds(&(fits.clone() + "y")) {
            let cut = through(&kind);
            let before = kind.clone();
            let marked = ["text", "content", "hunks"]
                .into_iter()
                .find(|field| kind.get(field).is_some());
            if let Some(field) = marked {
                kind[field] = json!(fits);
                kind["truncated"] = json!(true);
            }
            let expected = kind
                .to_string()
                .replace(&(fits.clone() + "y"), &with_ellipsis);
            assert_eq!(cut, serde_json::from_str::<Value>(&expected).unwrap());
            assert!(cut != before || kind["kind"] == "fileRead");
        }
    }

    #[test]
    fn a_mark_that_was_set_stays() {
        let kind = json!({"kind": "text", "text": "a", "truncated": true});
        assert_eq!(through(&kind), kind);
    }
}
