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
use super::describe::{Background, Description};
use super::run::{Job, Place, TimeLimit};
use crate::background::Tasks;
use crate::kernel::access::Access;
use crate::kernel::limits::{COMMAND_TIMEOUT, COMMAND_TIMEOUT_MAX, TASK_TIMEOUT_MAX};
use crate::kernel::rule::Subject;
use crate::path::PathError;
use crate::tool::{Call, CallCx, Refusal, Tool, ToolSpec, args};

/// What the model reads, with places for what is so for its agent.
pub(super) const TEXT: &str = include_str!("bash.md");

/// The longest title.
const TITLE_CHARS: usize = 200;

/// The longest command in the title of a start in the background.
const BACKGROUND_TITLE_CHARS: usize = 50;

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
    // Described by what is so for the agent, as are the last two.
    #[serde(default)]
    #[schemars(schema_with = "timeout_schema")]
    timeout: Option<u64>,
    /// What the command is for, in a few words, for the user.
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    #[schemars(schema_with = "flag_schema")]
    run_in_background: bool,
    #[serde(default)]
    #[schemars(schema_with = "flag_schema")]
    disable_timeout: bool,
}

fn timeout_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "integer", "minimum": 1})
}

fn flag_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "boolean"})
}

/// See the module.
#[derive(Debug)]
pub struct Bash {
    spec: ToolSpec,
    shell: Arc<Shell>,
    tasks: Tasks,
    background: Background,
}

impl Bash {
    /// The tool's name.
    pub const NAME: &'static str = "Bash";

    /// Makes the tool for an agent that has, or has not, what it takes to look after commands in the background.
    pub fn new(shell: Arc<Shell>, tasks: Tasks, looks_after_tasks: bool) -> Self {
        let background = if looks_after_tasks {
            shell.background()
        } else {
            Background::Unavailable
        };
        let description = Description {
            shell: shell.name(),
            background,
        };
        let spec = ToolSpec {
            name: Self::NAME,
            description: description.text().into(),
            parameters: Arc::new(description.complete(args::schema_of::<BashArgs>())),
            dedupe: false,
            own_budget: true,
        };
        Self {
            spec,
            shell,
            tasks,
            background,
        }
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
        let description = args
            .description
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty());
        let place = self.place(args.run_in_background, description.as_deref())?;
        let disable_timeout = args.disable_timeout && place == Place::Background;
        let limit = TimeLimit::of(args.timeout, disable_timeout, place, self.background)?;
        let job = Job {
            shell: Arc::clone(&self.shell),
            tasks: self.tasks.clone(),
            session: cx.session.clone(),
            agent: cx.agent.clone(),
            description: description.clone().unwrap_or_default(),
            command: args.command.clone(),
            cwd: cwd.clone(),
            place,
            limit,
            background: self.background,
        };
        let title = match place {
            Place::Foreground => title(&args.command, TITLE_CHARS),
            Place::Background => {
                let command = title(&args.command, BACKGROUND_TITLE_CHARS);
                format!("Starting in background: {command}")
            }
        };
        Ok(Call {
            accesses: vec![Access::All],
            title,
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

impl Bash {
    /// Where a command runs.
    fn place(&self, in_background: bool, description: Option<&str>) -> Result<Place, Refusal> {
        if !in_background {
            return Ok(Place::Foreground);
        }
        if self.background == Background::Unavailable {
            return Err(Refusal::new(
                "Background mode is unavailable here, so `run_in_background` can't be used. Nothing was run.",
            ));
        }
        if description.is_none() {
            return Err(Refusal::new(
                "A command in the background needs a `description`: say in a few words what it is for. Nothing was run.",
            ));
        }
        Ok(Place::Background)
    }
}

impl TimeLimit {
    /// What a command gets, where it was asked for so many seconds.
    fn of(
        requested_s: Option<u64>,
        disabled: bool,
        place: Place,
        background: Background,
    ) -> Result<Self, Refusal> {
        let (usual, most) = match (place, background) {
            (Place::Background, Background::Available { default_limit, .. }) => {
                (default_limit, TASK_TIMEOUT_MAX)
            }
            _ => (Some(COMMAND_TIMEOUT), COMMAND_TIMEOUT_MAX),
        };
        let max_s = most.as_secs();
        let (limit, note) = match requested_s {
            Some(0) => {
                return Err(Refusal::new(
                    "`timeout` must be at least 1 second. Nothing was run.",
                ));
            }
            _ if disabled => (None, None),
            None => (usual, None),
            Some(seconds) if seconds <= max_s => (Some(Duration::from_secs(seconds)), None),
            Some(seconds) => {
                let note = format!(
                    "timeout: {seconds} seconds were requested, {max_s} seconds (the maximum) applied."
                );
                (Some(most), Some(note))
            }
        };
        Ok(Self { limit, note })
    }
}

/// A command on one line: line breaks with what surrounds them become a space, other control characters too.
fn title(command: &str, max_chars: usize) -> String {
    let lines: Vec<&str> = command
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let one_line = lines.join(" ").replace(char::is_control, " ");
    match one_line.char_indices().nth(max_chars) {
        None => one_line,
        Some(_) => one_line.chars().take(max_chars - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::tool::shell::describe::{AtLimit, LeftRunning};

    const BACKGROUND: Background = Background::Available {
        at_limit: AtLimit::Background,
        default_limit: Some(Duration::from_secs(600)),
        left_running: LeftRunning::Task,
    };

    fn parameters(background: Background) -> Value {
        let description = Description {
            shell: "sh".to_owned(),
            background,
        };
        description.complete(args::schema_of::<BashArgs>())
    }

    #[test]
    fn what_the_model_is_told() {
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
                  "description": "Time limit in seconds (not milliseconds); 60 when left out, 300 at most. In the background 600 when left out, 86400 at most."
                },
                "description": {
                  "type": "string",
                  "description": "What the command is for, in a few words, for the user."
                },
                "run_in_background": {
                  "type": "boolean",
                  "default": false,
                  "description": "True to start the command in the background and return at once. Needs a `description`."
                },
                "disable_timeout": {
                  "type": "boolean",
                  "default": false,
                  "description": "True for a command in the background without any time limit. No effect in the foreground."
                }
              },
              "required": [
                "command"
              ]
            }"#]].assert_eq(&serde_json::to_string_pretty(&parameters(BACKGROUND)).unwrap());
        let without = parameters(Background::Unavailable);
        let told = |field: &str| without["properties"][field]["description"].to_string();
        assert!(told("run_in_background").contains("Unavailable here"));
        assert!(told("timeout").contains("killed when it is over"));
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
            assert_eq!(title(command, TITLE_CHARS), expected);
        }
    }

    #[test]
    fn time_limits() {
        let unlimited = Background::Available {
            at_limit: AtLimit::Kill,
            default_limit: None,
            left_running: LeftRunning::Task,
        };
        let foreground = [Background::Unavailable, BACKGROUND, unlimited]
            .map(|background| (Place::Foreground, background));
        for (place, background) in foreground {
            for (requested, expected) in [(None, 60), (Some(300), 300), (Some(120_000), 300)] {
                let given = TimeLimit::of(requested, false, place, background).unwrap();
                assert_eq!(given.limit, Some(Duration::from_secs(expected)));
                assert_eq!(given.note.is_some(), requested == Some(120_000));
            }
        }
        for (requested, disabled, background, expected) in [
            (None, false, BACKGROUND, Some(600)),
            (None, true, BACKGROUND, None),
            (Some(5), true, BACKGROUND, None),
            (Some(90_000), false, BACKGROUND, Some(86_400)),
            (None, false, unlimited, None),
            (Some(1), false, unlimited, Some(1)),
            (Some(90_000), false, unlimited, Some(86_400)),
        ] {
            let given = TimeLimit::of(requested, disabled, Place::Background, background).unwrap();
            assert_eq!(
                given.limit,
                expected.map(Duration::from_secs),
                "{requested:?}"
            );
        }
        let note = TimeLimit::of(Some(120_000), false, Place::Foreground, BACKGROUND).unwrap();
        assert_eq!(
            note.note.unwrap(),
            "timeout: 120000 seconds were requested, 300 seconds (the maximum) applied."
        );
        let zero = TimeLimit::of(Some(0), true, Place::Background, BACKGROUND);
        assert!(zero.is_err());
    }
}
