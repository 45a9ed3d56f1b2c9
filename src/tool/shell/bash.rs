//! Bash: runs a command.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Shell;
use super::run::Job;
use crate::background::Tasks;
use crate::kernel::access::Access;
use crate::kernel::limits::{
    COMMAND_HEAD_CHARS, COMMAND_LINE_CHARS, COMMAND_TAIL_CHARS, COMMAND_TIMEOUT,
    COMMAND_TIMEOUT_MAX,
};
use crate::kernel::rule::Subject;
use crate::path::PathError;
use crate::tool::{Call, CallCx, Refusal, Tool, ToolSpec, args};

/// The longest title.
const TITLE_CHARS: usize = 200;

/// What the model gives.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BashArgs {
    /// The command line.
    #[schemars(length(min = 1))]
    command: String,
    /// Directory to run it in; the session's directory when left out, and where relative paths start.
    #[serde(default)]
    cwd: Option<String>,
    // Described by its schema, which knows the limits.
    #[serde(default)]
    #[schemars(schema_with = "timeout_schema")]
    timeout: Option<u64>,
    /// What the command is for, in a few words, for the user.
    #[serde(default)]
    description: Option<String>,
}

/// No `default`: models copy it, and then it is a choice.
fn timeout_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let (default_s, max_s) = (COMMAND_TIMEOUT.as_secs(), COMMAND_TIMEOUT_MAX.as_secs());
    schemars::json_schema!({
        "type": "integer",
        "minimum": 1,
        "description": format!(
            "Time limit in seconds (not milliseconds); {default_s} when left out, {max_s} at most. The command is killed \
             when it is over."
        ),
    })
}

/// See the module.
#[derive(Debug)]
pub struct Bash {
    spec: ToolSpec,
    shell: Arc<Shell>,
    tasks: Tasks,
}

impl Bash {
    /// The tool's name.
    pub const NAME: &'static str = "Bash";

    /// Makes the tool.
    pub fn new(shell: Arc<Shell>, tasks: Tasks) -> Self {
        let spec = ToolSpec {
            name: Self::NAME,
            description: Description {
                shell: shell.name(),
                background: Background::Unavailable,
            }
            .text()
            .into(),
            parameters: Arc::new(args::schema_of::<BashArgs>()),
            dedupe: false,
            own_budget: true,
        };
        Self { spec, shell, tasks }
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        let args: BashArgs = args::typed(args)?;
        if args.command.trim().is_empty() {
            return Err(Refusal::new("The `command` is blank. Nothing was run."));
        }
        if args.command.contains('\0') {
            return Err(Refusal::new(
                "The `command` holds a NUL character, which no command line can. Nothing was run.",
            ));
        }
        let cwd = match &args.cwd {
            Some(written) => directory(written, cx)?,
            None => cx.workspace.cwd.clone(),
        };
        let (time_limit, timeout_note) = time_limit(args.timeout)?;
        let description = args
            .description
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty());
        let job = Job {
            shell: Arc::clone(&self.shell),
            tasks: self.tasks.clone(),
            session: cx.session.clone(),
            agent: cx.agent.clone(),
            description: description.clone().unwrap_or_default(),
            command: args.command.clone(),
            cwd: cwd.clone(),
            time_limit,
            timeout_note,
        };
        Ok(Call {
            accesses: vec![Access::All],
            title: title(&args.command),
            display: Display::Command {
                command: args.command.clone(),
                cwd: cwd.display().to_string(),
                description,
            },
            subject: Subject::Command {
                command: args.command,
                cwd,
            },
            preview: None,
            execute: Box::new(move |cx| job.run(cx).boxed()),
        })
    }
}

/// The directory by name alone; the spawn itself finds out whether it is there. A relative one may lead out of the
/// workspace: what a command touches is not bound by where it starts.
fn directory(written: &str, cx: &CallCx) -> Result<PathBuf, Refusal> {
    match cx.workspace.resolve_root(written) {
        Ok(lexical) => Ok(lexical.path),
        Err(PathError::Outside { path, .. }) => Ok(path),
        Err(error) => Err(Refusal {
            kind: Some(error.kind()),
            message: format!("`cwd`: {error} Nothing was run."),
        }),
    }
}

/// The time a command gets, and a line where it is not what was asked for.
fn time_limit(requested_s: Option<u64>) -> Result<(Duration, Option<String>), Refusal> {
    let max_s = COMMAND_TIMEOUT_MAX.as_secs();
    match requested_s {
        None => Ok((COMMAND_TIMEOUT, None)),
        Some(0) => Err(Refusal::new(
            "`timeout` must be at least 1 second. Nothing was run.",
        )),
        Some(seconds) if seconds <= max_s => Ok((Duration::from_secs(seconds), None)),
        Some(seconds) => {
            let note = format!(
                "timeout: {seconds} seconds were requested, {max_s} seconds (the maximum) applied."
            );
            Ok((COMMAND_TIMEOUT_MAX, Some(note)))
        }
    }
}

/// A command on one line: line breaks with what surrounds them become a space, other control characters too.
fn title(command: &str) -> String {
    let lines: Vec<&str> = command
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let one_line = lines.join(" ").replace(char::is_control, " ");
    match one_line.char_indices().nth(TITLE_CHARS) {
        None => one_line,
        Some(_) => one_line
            .chars()
            .take(TITLE_CHARS - 1)
            .chain(['…'])
            .collect(),
    }
}

/// What the description depends on.
#[derive(Debug)]
struct Description {
    /// The shell's name.
    shell: String,
    background: Background,
}

/// Whether commands can run in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Background {
    /// They cannot: a command that takes too long is killed.
    Unavailable,
}

impl Description {
    fn text(&self) -> String {
        let background = match self.background {
            Background::Unavailable => format!(
                "Background mode is unavailable: a command runs in the foreground, for at most `timeout` seconds ({} \
                 when left out, {} at most), and is killed when its time is over. What it leaves running with `&` is \
                 ended when it returns.",
                COMMAND_TIMEOUT.as_secs(),
                COMMAND_TIMEOUT_MAX.as_secs()
            ),
        };
        include_str!("bash.md")
            .trim()
            .replace("{shell}", &self.shell)
            .replace("{background}", &background)
            .replace("{head_chars}", &COMMAND_HEAD_CHARS.to_string())
            .replace("{tail_chars}", &COMMAND_TAIL_CHARS.to_string())
            .replace("{line_chars}", &COMMAND_LINE_CHARS.to_string())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn what_the_model_is_told() {
        let description = Description {
            shell: "sh".to_owned(),
            background: Background::Unavailable,
        };
        expect![[r"
            Runs a command with `sh -c` and returns what it printed: standard output and standard error together, as they came.

            - Every call starts a new, non-interactive shell in the session's directory, or in `cwd`. Directory changes, variables and functions do not carry over to the next call. Prefer `cwd` to a leading `cd`.
            - Join steps that depend on one another with `&&` in one command. Quote paths that hold spaces.
            - Background mode is unavailable: a command runs in the foreground, for at most `timeout` seconds (60 when left out, 300 at most), and is killed when its time is over. What it leaves running with `&` is ended when it returns.
            - Standard input is empty and there is no terminal: programs that ask for input or a password fail instead of waiting. Use their non-interactive options. Pagers and colours are off; an editor that is started fails, so give commit messages and the like as arguments.
            - A command that fails says so in its last line, with the exit code or signal.
            - Of long output you see the first 20000 and the last 30000 characters, and of each line the first 2000. The whole of it is then in a file that the result names. Have commands print less where you can.
            - Binary output is not shown, only saved."]].assert_eq(&description.text());
        expect![[r#"
            {
              "type": "object",
              "additionalProperties": false,
              "properties": {
                "command": {
                  "type": "string",
                  "description": "The command line.",
                  "minLength": 1
                },
                "cwd": {
                  "type": "string",
                  "description": "Directory to run it in; the session's directory when left out, and where relative paths start."
                },
                "timeout": {
                  "type": "integer",
                  "minimum": 1,
                  "description": "Time limit in seconds (not milliseconds); 60 when left out, 300 at most. The command is killed when it is over."
                },
                "description": {
                  "type": "string",
                  "description": "What the command is for, in a few words, for the user."
                }
              },
              "required": [
                "command"
              ]
            }"#]].assert_eq(&serde_json::to_string_pretty(&args::schema_of::<BashArgs>()).unwrap());
    }

    #[test]
    fn titles_are_one_line() {
        let long = "x".repeat(TITLE_CHARS + 1);
        let cut = format!("{}…", "x".repeat(TITLE_CHARS - 1));
        for (command, expected) in [
            ("echo 'a  b'", "echo 'a  b'"),
            ("  a \\\n    -b\n\n\tc\r\n", "a \\ -b c"),
            ("a\x1b[31m\u{7}", "a [31m "),
            (&long[1..], &long[1..]),
            (&long, &cut),
        ] {
            assert_eq!(title(command), expected);
        }
    }

    #[test]
    fn time_limits() {
        assert_eq!(time_limit(None), Ok((Duration::from_secs(60), None)));
        assert_eq!(time_limit(Some(300)), Ok((Duration::from_secs(300), None)));
        assert!(time_limit(Some(0)).is_err());
        let (limit, note) = time_limit(Some(120_000)).unwrap();
        assert_eq!(limit, Duration::from_secs(300));
        assert_eq!(
            note.unwrap(),
            "timeout: 120000 seconds were requested, 300 seconds (the maximum) applied."
        );
    }
}
