//! What a command's end is called, for the model and for people.

use std::time::Duration;

use longshore_protocol::value::display::Display;

use super::capture::Shown;
use super::utf8::{cut_after, cut_before};
use crate::kernel::limits::{COMMAND_TIMEOUT_MAX, DISPLAY_BYTES};
use crate::kernel::task::TaskInfo;
use crate::os::process::{Exit, Status};
use crate::tool::Outcome;

/// Share of a display given to the beginning of a text too long for it, in percent; as for the model.
const DISPLAY_HEAD_PERCENT: usize = 40;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// The command ended by itself.
    Exited(Exit),
    /// It was ended because its time was over.
    TimedOut {
        /// The time it had.
        limit: Duration,
    },
    /// It was ended because it wrote too much.
    Flooded {
        /// What it could have written.
        limit_bytes: u64,
    },
    /// Somebody else than the turn's user stopped it.
    Stopped {
        /// Why.
        reason: Option<String>,
    },
    /// The turn was cancelled.
    Interrupted {
        /// Whether everything it started has ended by now.
        is_over: bool,
    },
}

/// Everything there is to say about a finished command.
pub(super) struct Report {
    /// How it ended.
    pub(super) ending: Ending,
    /// How its process ended, where that is known.
    pub(super) exit: Option<Exit>,
    /// What it wrote.
    pub(super) shown: Shown,
    /// The task it was: how much it wrote, and where all of it is, if not in the text.
    pub(super) info: TaskInfo,
    /// The task that what it left running has become.
    pub(super) residual: Option<TaskInfo>,
    /// A line about the time it was given, where not the one that was asked for.
    pub(super) timeout_note: Option<String>,
    /// Output could not be read.
    pub(super) read_error: Option<String>,
    /// Whether it has ended; otherwise its log is still being written.
    pub(super) is_over: bool,
}

impl Report {
    /// The outcome of the call.
    pub(super) fn into_outcome(self) -> Outcome {
        let truncated = self.info.output.log_path.is_some();
        let output = match &self.shown {
            Shown::Text(text) => text.clone(),
            Shown::Binary => format!(
                "binary output, {} bytes, not shown",
                self.info.output.size_bytes
            ),
        };
        let notes = self.notes();
        let told = self.ending_line();
        let reference = self.reference();
        let is_silent = output.is_empty() && notes.is_empty();
        let success = is_silent.then(|| "The command succeeded without output.".to_owned());
        let is_error = told.is_some();
        let closing = told.clone().or(success);

        let model_lines = notes.iter().chain(&reference).chain(&closing);
        let model_text = with_lines(&output, model_lines);
        // Exit code and signal have fields of their own.
        let display_line = told.filter(|_| !matches!(self.ending, Ending::Exited(_)));
        let (text, is_display_cut) =
            cut_middle(with_lines(&output, notes.iter().chain(&display_line)));
        let display = Display::CommandOutput {
            text,
            exit_code: self.exit.and_then(|exit| match exit.status {
                Status::Code(code) => Some(code),
                Status::Signal(_) | Status::Unknown => None,
            }),
            signal: self.exit.and_then(|exit| exit.status.signal_name()),
            truncated: truncated || is_display_cut,
        };
        Outcome {
            is_error,
            truncated,
            ..Outcome::text(model_text).with_display(display)
        }
    }

    /// Lines beside the output that do not make it a failure.
    fn notes(&self) -> Vec<String> {
        let left_running = self.exit.map_or(0, |exit| exit.left_running);
        let survivors = match (left_running, &self.residual) {
            (0, _) => None,
            (1, Some(task)) => Some(format!(
                "1 background process was left running; it goes on as task {}.",
                task.id
            )),
            (n, Some(task)) => Some(format!(
                "{n} background processes were left running; they go on as task {}.",
                task.id
            )),
            (1, None) => {
                Some("1 background process that the command left running was ended.".to_owned())
            }
            (n, None) => Some(format!(
                "{n} background processes that the command left running were ended."
            )),
        };
        self.timeout_note
            .clone()
            .into_iter()
            .chain(survivors)
            .collect()
    }

    /// How it failed; `None` where it did not.
    fn ending_line(&self) -> Option<String> {
        if let Some(error) = &self.read_error {
            return Some(format!("The output could not be read to its end: {error}."));
        }
        match &self.ending {
            Ending::Exited(exit) => match exit.status {
                Status::Code(0) => None,
                Status::Code(code) => Some(format!("The command failed with exit code {code}.")),
                Status::Signal(number) => Some(format!(
                    "The command was killed by {} (exit code {}).",
                    crate::os::process::signal_name(number),
                    128 + number
                )),
                Status::Unknown => Some("It is unknown how the command ended.".to_owned()),
            },
            Ending::TimedOut { limit } if *limit < COMMAND_TIMEOUT_MAX => Some(format!(
                "The command was killed by timeout ({} s). If it needs longer, give a larger `timeout`.",
                limit.as_secs()
            )),
            Ending::TimedOut { limit } => Some(format!(
                "The command was killed by timeout ({} s), which is the longest there is.",
                limit.as_secs()
            )),
            Ending::Flooded { limit_bytes } => Some(format!(
                "The command was killed because it wrote more than {limit_bytes} bytes, the most a command may write. \
                 Redirect its output to a file and look at parts of it, or have it write less."
            )),
            Ending::Stopped {
                reason: Some(reason),
            } => Some(format!("The command was stopped: {reason}.")),
            Ending::Stopped { reason: None } => Some("The command was stopped.".to_owned()),
            Ending::Interrupted { is_over: true } => {
                Some("The command was interrupted by user.".to_owned())
            }
            Ending::Interrupted { is_over: false } => Some(
                "The command was interrupted by user; its processes are still being ended."
                    .to_owned(),
            ),
        }
    }

    /// Where the whole output is.
    fn reference(&self) -> Option<String> {
        let output = &self.info.output;
        let path = output.log_path.as_ref()?;
        let mut lines = vec![
            format!("task_id: {}", self.info.id),
            format!("output_path: {}", path.display()),
            format!("output_size_bytes: {}", output.size_bytes),
        ];
        if output.log_gap_bytes > 0 {
            lines.push(format!(
                "log_gap_bytes: {} (between the beginning and the end kept there)",
                output.log_gap_bytes
            ));
        }
        let problem = output.log_problem.as_deref();
        let problem = problem.or((!self.is_over).then_some("it is still being written"));
        lines.push(match problem {
            Some(problem) => format!("log_incomplete: {problem}"),
            None => {
                "next_step: if you need more of the output, read the file at output_path in pages."
                    .to_owned()
            }
        });
        Some(lines.join("\n"))
    }
}

/// A text, and lines below it.
fn with_lines<'a>(text: &str, lines: impl Iterator<Item = &'a String>) -> String {
    let mut whole = text.to_owned();
    for line in lines {
        if !whole.is_empty() && !whole.ends_with('\n') {
            whole.push('\n');
        }
        whole.push_str(line);
    }
    whole
}

/// Cuts a text for display, in the middle; tells whether anything was cut.
pub(super) fn cut_middle(text: String) -> (String, bool) {
    const MARK: &str = "\n[…]\n";
    if text.len() <= DISPLAY_BYTES {
        return (text, false);
    }
    let room = DISPLAY_BYTES - MARK.len();
    let head_bytes = room * DISPLAY_HEAD_PERCENT / 100;
    let head = &text[..cut_before(&text, head_bytes)];
    let tail = &text[cut_after(&text, text.len() - (room - head_bytes))..];
    ([head, MARK, tail].concat(), true)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::kernel::message::Part;
    use crate::tool::shell::testing::ended_task;

    fn exit(status: Status) -> Exit {
        Exit {
            status,
            stopped: false,
            left_running: 0,
        }
    }

    fn report(ending: Ending, text: &str) -> Report {
        Report {
            exit: match &ending {
                Ending::Exited(exit) => Some(*exit),
                _ => None,
            },
            ending,
            shown: Shown::Text(text.to_owned()),
            info: ended_task(text.len() as u64),
            residual: None,
            timeout_note: None,
            read_error: None,
            is_over: true,
        }
    }

    fn text(outcome: &Outcome) -> &str {
        let [Part::Text(text)] = outcome.output.as_slice() else {
            panic!("{outcome:?}")
        };
        text
    }

    #[test]
    fn endings() {
        let exited = |status| Ending::Exited(exit(status));
        let limit = Duration::from_secs(3);
        for (ending, output, expected, is_error) in [
            (exited(Status::Code(0)), "out\n", "out\n", false),
            (
                exited(Status::Code(0)),
                "",
                "The command succeeded without output.",
                false,
            ),
            (
                exited(Status::Code(7)),
                "out",
                "out\nThe command failed with exit code 7.",
                true,
            ),
            (
                exited(Status::Code(7)),
                "",
                "The command failed with exit code 7.",
                true,
            ),
            (
                exited(Status::Signal(9)),
                "",
                "The command was killed by SIGKILL (exit code 137).",
                true,
            ),
            (
                exited(Status::Unknown),
                "",
                "It is unknown how the command ended.",
                true,
            ),
            (
                Ending::TimedOut { limit },
                "a\n",
                "a\nThe command was killed by timeout (3 s). If",
                true,
            ),
            (
                Ending::TimedOut {
                    limit: COMMAND_TIMEOUT_MAX,
                },
                "",
                "The command was killed by timeout (300 s), which is the longest there is.",
                true,
            ),
            (
                Ending::Flooded { limit_bytes: 9 },
                "a\n",
                "a\nThe command was killed because it wrote more than 9",
                true,
            ),
            (
                Ending::Stopped {
                    reason: Some("enough".to_owned()),
                },
                "a",
                "a\nThe command was stopped: enough.",
                true,
            ),
            (
                Ending::Interrupted { is_over: true },
                "a",
                "a\nThe command was interrupted by user.",
                true,
            ),
            (
                Ending::Interrupted { is_over: false },
                "",
                "The command was interrupted by user; its",
                true,
            ),
        ] {
            let outcome = report(ending.clone(), output).into_outcome();
            assert!(
                text(&outcome).starts_with(expected),
                "{ending:?}: {}",
                text(&outcome)
            );
            assert_eq!(
                (outcome.is_error, outcome.truncated),
                (is_error, false),
                "{ending:?}"
            );
        }
    }

    #[test]
    fn everything_at_once_in_its_order() {
        let mut ended = exit(Status::Code(1));
        ended.left_running = 2;
        let mut info = ended_task(900);
        info.output.log_path = Some(PathBuf::from("/r/x.log"));
        info.output.log_gap_bytes = 5;
        let outcome = Report {
            info,
            timeout_note: Some("clamped".to_owned()),
            ..report(Ending::Exited(ended), "head\n")
        }
        .into_outcome();
        assert_eq!(
            text(&outcome),
            "head\nclamped\n2 background processes that the command left running were ended.\n\
             task_id: bash-00000001\noutput_path: /r/x.log\noutput_size_bytes: 900\n\
             log_gap_bytes: 5 (between the beginning and the end kept there)\n\
             next_step: if you need more of the output, read the file at output_path in pages.\n\
             The command failed with exit code 1."
        );
        let Some(Display::CommandOutput {
            text,
            exit_code,
            signal,
            truncated,
        }) = outcome.display
        else {
            panic!()
        };
        assert_eq!(
            text,
            "head\nclamped\n2 background processes that the command left running were ended."
        );
        assert_eq!(
            (exit_code, signal, truncated, outcome.truncated),
            (Some(1), None, true, true)
        );
    }

    #[test]
    fn a_read_error_is_a_failure_whatever_the_exit_code() {
        let outcome = Report {
            read_error: Some("broken".to_owned()),
            ..report(Ending::Exited(exit(Status::Code(0))), "part")
        }
        .into_outcome();
        assert!(outcome.is_error && text(&outcome).ends_with("read to its end: broken."));
    }

    #[test]
    fn displays_keep_both_ends() {
        let long = format!("begin{}end", "é".repeat(DISPLAY_BYTES));
        let (cut, is_cut) = cut_middle(long);
        assert!(is_cut && cut.len() <= DISPLAY_BYTES && cut.len() > DISPLAY_BYTES - 8);
        assert!(cut.starts_with("begin") && cut.ends_with("end"));
    }
}
