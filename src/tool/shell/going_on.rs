//! What a call says whose command goes on without it.

use std::fmt::Write as _;

use longshore_protocol::value::display::Display;

use super::capture::{Captured, Shown};
use super::report::cut_middle;
use super::run::TimeLimit;
use crate::background::DetachCause;
use crate::kernel::task::TaskInfo;
use crate::tool::Outcome;

/// The command was started in the background.
pub(super) fn started(info: &TaskInfo, timeout_note: Option<&str>) -> Outcome {
    let mut text = "The command was started in the background.\n".to_owned();
    text.push_str(&lines(info));
    if let Some(note) = timeout_note {
        text.push('\n');
        text.push_str(note);
    }
    Outcome::text(text)
}

/// The command was begun in the foreground and goes on.
pub(super) fn detached(
    info: &TaskInfo,
    captured: Captured,
    cause: DetachCause,
    limit: &TimeLimit,
) -> Outcome {
    let mut text = match (cause, limit.limit) {
        (DetachCause::TimeLimit, Some(limit)) => format!(
            "The command did not end within {} s. It was not killed: it goes on in the background.\n",
            limit.as_secs()
        ),
        _ => "The user moved the command to the background, where it goes on.\n".to_owned(),
    };
    text.push_str(&lines(info));
    if let Some(note) = &limit.note {
        text.push('\n');
        text.push_str(note);
    }
    let output = match captured.shown {
        Shown::Text(output) => output,
        Shown::Binary => format!("binary output, {} bytes, not shown", info.output.size_bytes),
    };
    text.push_str("\n\n");
    if output.is_empty() {
        text.push_str("It has not written anything so far.");
    } else {
        text.push_str("Output so far:\n");
        text.push_str(&output);
    }
    let (shown, is_cut) = cut_middle(output);
    let display = Display::CommandOutput {
        text: shown,
        exit_code: None,
        signal: None,
        truncated: is_cut || !captured.is_whole,
    };
    Outcome {
        truncated: !captured.is_whole,
        ..Outcome::text(text).with_display(display)
    }
}

/// What the model is to know of a task that runs.
fn lines(info: &TaskInfo) -> String {
    let mut text = format!("task_id: {}", info.id);
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{name}: {value}");
    };
    if let Some(pid) = info.process().and_then(|detail| detail.pid) {
        line("pid", &pid);
    }
    if !info.description.is_empty() {
        line("description", &one_line(&info.description));
    }
    line("status", &info.status.as_str());
    if let Some(path) = &info.output.log_path {
        line("output_path", &path.display());
    }
    line("automatic_notification", &true);
    line(
        "next_step",
        &"go on with other work; you are told when it ends. Do not wait for it or poll it.",
    );
    line(
        "human_hint",
        &"the user sees it among the tasks of this session and can stop it there.",
    );
    text
}

/// A value of several lines would look like further lines.
fn one_line(value: &str) -> String {
    if value.contains(char::is_control) {
        serde_json::Value::from(value).to_string()
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;

    use super::*;
    use crate::kernel::message::Part;
    use crate::kernel::task::{ProcessDetail, TaskDetail, TaskStatus};
    use crate::tool::shell::testing::ended_task;

    fn running(description: &str) -> TaskInfo {
        TaskInfo {
            detail: TaskDetail::Process(ProcessDetail {
                pid: Some(42),
                ..ProcessDetail::default()
            }),
            description: description.to_owned(),
            status: TaskStatus::Running,
            ended_at: None,
            ..ended_task(3)
        }
    }

    fn text(outcome: &Outcome) -> &str {
        assert!(!outcome.is_error);
        let [Part::Text(text)] = outcome.output.as_slice() else {
            panic!("{outcome:?}")
        };
        text
    }

    #[test]
    fn what_the_model_reads() {
        expect![[r#"
            The command was started in the background.
            task_id: bash-00000001
            pid: 42
            description: "two\nlines"
            status: running
            automatic_notification: true
            next_step: go on with other work; you are told when it ends. Do not wait for it or poll it.
            human_hint: the user sees it among the tasks of this session and can stop it there.
            timeout: clamped"#]]
        .assert_eq(text(&started(&running("two\nlines"), Some("timeout: clamped"))));
        let limit = TimeLimit {
            limit: Some(Duration::from_secs(1)),
            note: None,
        };
        let captured = Captured {
            shown: Shown::Text("task_id: 1\n".to_owned()),
            is_whole: true,
        };
        expect![[r"
            The command did not end within 1 s. It was not killed: it goes on in the background.
            task_id: bash-00000001
            pid: 42
            status: running
            automatic_notification: true
            next_step: go on with other work; you are told when it ends. Do not wait for it or poll it.
            human_hint: the user sees it among the tasks of this session and can stop it there.

            Output so far:
            task_id: 1
        "]]
        .assert_eq(text(&detached(&running(""), captured, DetachCause::TimeLimit, &limit)));
        let silent = detached(&running(""), Captured::default(), DetachCause::Host, &limit);
        assert!(text(&silent).starts_with("The user moved the command"));
        assert!(text(&silent).ends_with("It has not written anything so far."));
    }
}
