//! What the model is told about running commands: put together from what is really so for its agent.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::bash::TEXT;
use crate::kernel::limits::{
    COMMAND_HEAD_CHARS, COMMAND_LINE_CHARS, COMMAND_TAIL_CHARS, COMMAND_TIMEOUT,
    COMMAND_TIMEOUT_MAX, TASK_TIMEOUT_MAX,
};

/// What the description depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Description {
    /// The shell's name.
    pub(super) shell: String,
    pub(super) background: Background,
}

/// Whether commands can run in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Background {
    /// They cannot, because the agent could not look after them: a command that takes too long is killed, and what one
    /// leaves running is ended.
    Unavailable,
    /// They can.
    Available {
        /// What becomes of a foreground command whose time is over.
        at_limit: AtLimit,
        /// How long a command in the background may run where its call names no time; `None` is for ever.
        default_limit: Option<Duration>,
        /// What becomes of what a command leaves running.
        left_running: LeftRunning,
    },
}

/// What becomes of a foreground command whose time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtLimit {
    /// It goes on in the background.
    Background,
    /// It is killed.
    Kill,
}

/// What becomes of what a command leaves running with `&`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftRunning {
    /// It goes on as a task.
    Task,
    /// It is ended.
    Ended,
}

impl Description {
    /// The tool's description.
    pub(super) fn text(&self) -> String {
        TEXT.trim()
            .replace("{shell}", &self.shell)
            .replace("{background}", &self.background.text())
            .replace("{head_chars}", &COMMAND_HEAD_CHARS.to_string())
            .replace("{tail_chars}", &COMMAND_TAIL_CHARS.to_string())
            .replace("{line_chars}", &COMMAND_LINE_CHARS.to_string())
    }

    /// Adds what the texts of the arguments depend on to their schema.
    pub(super) fn complete(&self, mut schema: Value) -> Value {
        let mut describe = |field: &str, text: String| {
            if let Some(property) = schema.pointer_mut(&format!("/properties/{field}")) {
                property["description"] = text.into();
            }
        };
        describe("timeout", self.background.timeout_text());
        let (run, no_limit) = match self.background {
            Background::Unavailable => (
                "Unavailable here: a command runs in the foreground only. Leave it out.",
                "Unavailable here. Leave it out.",
            ),
            Background::Available { .. } => (
                "True to start the command in the background and return at once. Needs a `description`.",
                "True for a command in the background without any time limit. No effect in the foreground.",
            ),
        };
        describe("run_in_background", run.to_owned());
        describe("disable_timeout", no_limit.to_owned());
        schema
    }
}

impl Background {
    fn text(self) -> String {
        let (default_s, max_s) = (COMMAND_TIMEOUT.as_secs(), COMMAND_TIMEOUT_MAX.as_secs());
        let limit = format!("`timeout` seconds ({default_s} when left out, {max_s} at most)");
        let Self::Available {
            at_limit,
            default_limit,
            left_running,
        } = self
        else {
            return format!(
                "Background mode is unavailable: a command runs in the foreground, for at most {limit}, and is killed when \
                 its time is over. What it leaves running with `&` is ended when it returns."
            );
        };
        let mut text = format!("In the foreground a command may take {limit}. ");
        text.push_str(match at_limit {
            AtLimit::Background => {
                "When its time is over it goes on in the background, and the result says so."
            }
            AtLimit::Kill => "When its time is over it is killed.",
        });
        text.push_str(
            "\n- `run_in_background` starts a command and returns at once: for servers, watchers and long builds whose result \
             you do not need yet. You are told when it ends, so do not wait for it or poll it. ",
        );
        let max_s = TASK_TIMEOUT_MAX.as_secs();
        // Writing to a string cannot fail.
        let _ = match default_limit {
            Some(limit) => write!(
                text,
                "It is killed after `timeout` seconds ({} when left out, {max_s} at most), unless `disable_timeout` is set.",
                limit.as_secs()
            ),
            None => write!(
                text,
                "It has no time limit unless `timeout` gives one ({max_s} seconds at most)."
            ),
        };
        text.push_str(match left_running {
            LeftRunning::Task => {
                " What a command leaves running with `&` goes on as a task of its own, which the result names."
            }
            LeftRunning::Ended => {
                " What a command leaves running with `&` is ended when it returns."
            }
        });
        text
    }

    /// The field `timeout`. Its defaults are told in words: models copy a `default`, and then it is a choice.
    fn timeout_text(self) -> String {
        let (default_s, max_s) = (COMMAND_TIMEOUT.as_secs(), COMMAND_TIMEOUT_MAX.as_secs());
        let foreground = format!(
            "Time limit in seconds (not milliseconds); {default_s} when left out, {max_s} at most"
        );
        match self {
            Self::Unavailable => {
                format!("{foreground}. The command is killed when it is over.")
            }
            Self::Available { default_limit, .. } => {
                let background = match default_limit {
                    Some(limit) => format!("{} when left out", limit.as_secs()),
                    None => "none when left out".to_owned(),
                };
                let max_s = TASK_TIMEOUT_MAX.as_secs();
                format!("{foreground}. In the background {background}, {max_s} at most.")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn available(
        at_limit: AtLimit,
        default_limit: Option<u64>,
        left_running: LeftRunning,
    ) -> Background {
        Background::Available {
            at_limit,
            default_limit: default_limit.map(Duration::from_secs),
            left_running,
        }
    }

    fn check(background: Background, prose: Expect, timeout: Expect) {
        prose.assert_eq(&background.text());
        timeout.assert_eq(&background.timeout_text());
        let description = Description {
            shell: "sh".to_owned(),
            background,
        };
        let text = description.text();
        assert!(text.contains("with `sh -c`") && text.contains(&background.text()));
        assert!(!text.contains('{') && !text.contains("default\""), "{text}");
    }

    #[test]
    fn every_state() {
        check(
            Background::Unavailable,
            expect![
                "Background mode is unavailable: a command runs in the foreground, for at most `timeout` seconds (60 when left out, 300 at most), and is killed when its time is over. What it leaves running with `&` is ended when it returns."
            ],
            expect![
                "Time limit in seconds (not milliseconds); 60 when left out, 300 at most. The command is killed when it is over."
            ],
        );
        check(
            available(AtLimit::Background, Some(600), LeftRunning::Task),
            expect![[r"
                In the foreground a command may take `timeout` seconds (60 when left out, 300 at most). When its time is over it goes on in the background, and the result says so.
                - `run_in_background` starts a command and returns at once: for servers, watchers and long builds whose result you do not need yet. You are told when it ends, so do not wait for it or poll it. It is killed after `timeout` seconds (600 when left out, 86400 at most), unless `disable_timeout` is set. What a command leaves running with `&` goes on as a task of its own, which the result names."]],
            expect![
                "Time limit in seconds (not milliseconds); 60 when left out, 300 at most. In the background 600 when left out, 86400 at most."
            ],
        );
        check(
            available(AtLimit::Kill, Some(30), LeftRunning::Task),
            expect![[r"
                In the foreground a command may take `timeout` seconds (60 when left out, 300 at most). When its time is over it is killed.
                - `run_in_background` starts a command and returns at once: for servers, watchers and long builds whose result you do not need yet. You are told when it ends, so do not wait for it or poll it. It is killed after `timeout` seconds (30 when left out, 86400 at most), unless `disable_timeout` is set. What a command leaves running with `&` goes on as a task of its own, which the result names."]],
            expect![
                "Time limit in seconds (not milliseconds); 60 when left out, 300 at most. In the background 30 when left out, 86400 at most."
            ],
        );
        check(
            available(AtLimit::Background, None, LeftRunning::Ended),
            expect![[r"
                In the foreground a command may take `timeout` seconds (60 when left out, 300 at most). When its time is over it goes on in the background, and the result says so.
                - `run_in_background` starts a command and returns at once: for servers, watchers and long builds whose result you do not need yet. You are told when it ends, so do not wait for it or poll it. It has no time limit unless `timeout` gives one (86400 seconds at most). What a command leaves running with `&` is ended when it returns."]],
            expect![
                "Time limit in seconds (not milliseconds); 60 when left out, 300 at most. In the background none when left out, 86400 at most."
            ],
        );
        check(
            available(AtLimit::Kill, None, LeftRunning::Task),
            expect![[r"
                In the foreground a command may take `timeout` seconds (60 when left out, 300 at most). When its time is over it is killed.
                - `run_in_background` starts a command and returns at once: for servers, watchers and long builds whose result you do not need yet. You are told when it ends, so do not wait for it or poll it. It has no time limit unless `timeout` gives one (86400 seconds at most). What a command leaves running with `&` goes on as a task of its own, which the result names."]],
            expect![
                "Time limit in seconds (not milliseconds); 60 when left out, 300 at most. In the background none when left out, 86400 at most."
            ],
        );
    }
}
