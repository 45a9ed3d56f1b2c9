//! How tasks are told to a model: `key: value` lines, records apart by a line of three hyphens.

use std::fmt::{Display, Write};

use crate::kernel::task::{TaskDetail, TaskInfo, TaskStatus};

/// Between two records.
pub const SEPARATOR: &str = "---";

/// Lines under way. Keys are snake_case; what is absent has no line.
#[derive(Debug, Default)]
pub struct Lines(String);

impl Lines {
    /// Adds a value that is one line by nature.
    pub fn put(&mut self, key: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{key}: {value}");
    }

    /// Adds a value where there is one.
    pub fn put_some(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    /// Adds somebody's words: as JSON where they would not be one line, so that they can't pose as further lines.
    pub fn put_text(&mut self, key: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        if text.chars().any(char::is_control) {
            self.put(key, serde_json::Value::from(text));
        } else {
            self.put(key, text);
        }
    }

    /// Begins another record.
    pub fn separate(&mut self) {
        self.0.push_str(SEPARATOR);
        self.0.push('\n');
    }

    /// Everything there is to say about a task.
    pub fn put_task(&mut self, info: &TaskInfo) {
        self.put("task_id", &info.id);
        self.put("kind", info.kind().as_str());
        self.put("status", info.status.as_str());
        self.put_text("description", &info.description);
        if !info.detached {
            self.put("detached", false);
        }
        match &info.detail {
            TaskDetail::Process(process) => {
                self.put_text("command", &process.command);
                self.put_text("cwd", &process.cwd.display().to_string());
                self.put_some("pid", process.pid);
                self.put_some("exit_code", process.exit_code);
                self.put_some("signal", process.signal.as_ref());
            }
            TaskDetail::Agent {
                agent_id,
                subagent_type,
                model,
                effort,
            } => {
                self.put("agent_id", agent_id);
                self.put_text("subagent_type", subagent_type);
                self.put_some("model", model.as_ref());
                self.put_some("effort", effort.as_ref());
            }
            TaskDetail::Question {
                question_count,
                tool_call_id,
            } => {
                self.put("question_count", question_count);
                self.put_some("tool_call_id", tool_call_id.as_ref());
            }
        }
        self.put("started_at", info.started_at);
        self.put_some("ended_at", info.ended_at);
        self.put_some(
            "duration_ms",
            info.ended_at.map(|end| info.duration_ms(end)),
        );
        self.put_some("timeout_ms", info.timeout_ms);
        if let Some(reason) = &info.stop_reason {
            self.put_text("stop_reason", reason);
        }
        self.put_some("parent_task_id", info.parent.as_ref());
        self.put("output_size_bytes", info.output.size_bytes);
    }

    /// Why a task ended that did not end well by itself.
    pub fn put_terminal_reason(&mut self, info: &TaskInfo) {
        match info.status {
            TaskStatus::TimedOut => self.put("terminal_reason", "timed_out"),
            TaskStatus::Killed => self.put("terminal_reason", "stopped"),
            TaskStatus::Lost => self.put("terminal_reason", "lost"),
            TaskStatus::Failed => {
                if let Some(reason) = &info.stop_reason {
                    self.put_text("terminal_reason", &format!("failed: {reason}"));
                }
            }
            TaskStatus::Running | TaskStatus::Completed => {}
        }
    }

    /// The lines, each ended by a newline.
    pub fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_on_their_line() {
        let mut lines = Lines::default();
        lines.put("n", 3);
        lines.put_some("absent", None::<u32>);
        lines.put_text("empty", "");
        lines.put_text("plain", "a: \"b\"");
        lines.put_text("command", "echo a\nstatus: completed\t");
        lines.separate();
        assert_eq!(
            lines.finish(),
            "n: 3\nplain: a: \"b\"\ncommand: \"echo a\\nstatus: completed\\t\"\n---\n"
        );
    }
}
