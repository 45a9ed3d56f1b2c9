//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::{Long, Short, Value};
use longshore_protocol::id::{SessionId, TurnId};
use longshore_protocol::value::session::Mode;

use super::daemon::{BegunBy, Daemon, DaemonOptions, StopWhen};

/// `--help`.
pub(super) const HELP: &str = include_str!("help.txt");

/// A command line, taken apart.
#[derive(Debug, PartialEq)]
pub(super) struct Parsed {
    pub(super) command: Command,
    pub(super) common: Common,
}

/// What to do.
#[derive(Debug, PartialEq)]
pub(super) enum Command {
    Help,
    Version,
    Serve,
    Acp,
    Daemon(Daemon),
    Attach,
    Run(Run),
    Demo,
    Doctor,
    Cron(Cron),
    Sessions(Sessions),
    Export {
        session: SessionId,
        output: Option<PathBuf>,
    },
    Schema {
        of: SchemaOf,
    },
}

/// Options that every command takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Common {
    /// `--home`: instead of `$LONGSHORE_HOME`.
    pub(crate) home: Option<PathBuf>,
    /// `--config`: instead of the home's `config.toml`.
    pub(crate) config: Option<PathBuf>,
    /// `-c key=value`, in order.
    pub(crate) assignments: Vec<String>,
    /// `--model`.
    pub(crate) model: Option<String>,
    /// `--log-level`.
    pub(crate) log_level: Option<String>,
    /// `--log-file`.
    pub(crate) log_file: Option<PathBuf>,
    /// `--log-format json`.
    pub(crate) log_json: bool,
}

/// Options of `longshore run`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Run {
    pub(super) prompt: Option<String>,
    pub(super) output: Output,
    pub(super) mode: Option<Mode>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) of: Of,
}

/// Which session `longshore run` works in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Of {
    /// A new one.
    #[default]
    New,
    /// The newest one of the directory.
    Newest,
    /// This one.
    Session(SessionId),
}

impl Of {
    fn choose(&mut self, chosen: Self) -> Result<(), lexopt::Error> {
        if *self != Self::New && *self != chosen {
            return Err("take --continue or one --session, not both".into());
        }
        *self = chosen;
        Ok(())
    }
}

/// What `longshore sessions` does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sessions {
    /// Lists them, the newest first.
    List(ListSessions),
    /// Says what there is to say of one.
    Show { session: SessionId },
    /// Gives one a title.
    Rename { session: SessionId, title: String },
    /// Makes one from another, up to a turn.
    Fork {
        session: SessionId,
        turn: Option<TurnId>,
    },
    /// Hides some from lists, or shows them again.
    Archive {
        sessions: Vec<SessionId>,
        archived: bool,
    },
    /// Removes some for good.
    Delete { sessions: Vec<SessionId> },
}

/// Options of `longshore sessions list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListSessions {
    /// Only those of this directory.
    pub(super) cwd: Option<PathBuf>,
    /// Only those with this text in the title or in a prompt.
    pub(super) text: Option<String>,
    /// The archived ones.
    pub(super) archived: bool,
    /// No more than so many.
    pub(super) limit: Option<usize>,
    /// As JSON, one a line.
    pub(super) json: bool,
}

/// What `longshore cron` does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cron {
    /// Lists the jobs of one session, or of all.
    List { session: Option<SessionId> },
    /// Deletes a job.
    Delete { session: SessionId, job: String },
}

/// How `longshore run` prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Output {
    #[default]
    Text,
    Json,
    StreamJson,
}

/// What `longshore schema` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaOf {
    Protocol,
    Config,
    Script,
}

/// Takes the arguments apart, the program's name left out.
pub(super) fn parse(arguments: Vec<OsString>) -> Result<Parsed, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut common = Common::default();
    let (mut run, mut list) = (Run::default(), ListSessions::default());
    let mut daemon = DaemonOptions::default();
    let mut output_file = None;
    let mut words: Vec<String> = Vec::new();
    let (mut help, mut version) = (false, false);
    while let Some(argument) = parser.next()? {
        let is_run = words.first().is_some_and(|word| word == "run");
        let is_daemon = words.first().is_some_and(|word| word == "daemon");
        let is_sessions = words.first().is_some_and(|word| word == "sessions");
        let is_export = words.first().is_some_and(|word| word == "export");
        match argument {
            Long("help") | Short('h') => help = true,
            Long("version") | Short('V') => version = true,
            Long("home") => common.home = Some(parser.value()?.into()),
            Long("config") => common.config = Some(parser.value()?.into()),
            Short('c') => common.assignments.push(text(parser.value()?)?),
            Long("model") => common.model = Some(text(parser.value()?)?),
            Long("log-level") => common.log_level = Some(text(parser.value()?)?),
            Long("log-file") => common.log_file = Some(parser.value()?.into()),
            Long("log-format") => {
                common.log_json = match text(parser.value()?)?.as_str() {
                    "json" => true,
                    "text" => false,
                    other => {
                        return Err(format!("--log-format takes text or json, not {other}").into());
                    }
                }
            }
            Short('p') | Long("prompt") if is_run => run.prompt = Some(text(parser.value()?)?),
            Long("output") if is_run => {
                run.output = match text(parser.value()?)?.as_str() {
                    "text" => Output::Text,
                    "json" => Output::Json,
                    "stream-json" => Output::StreamJson,
                    other => {
                        return Err(format!(
                            "--output takes text, json or stream-json, not {other}"
                        )
                        .into());
                    }
                }
            }
            Long("mode") if is_run => {
                run.mode = Some(match text(parser.value()?)?.as_str() {
                    "manual" => Mode::Manual,
                    "auto" => Mode::Auto,
                    "yolo" => Mode::Yolo,
                    other => {
                        return Err(
                            format!("--mode takes manual, auto or yolo, not {other}").into()
                        );
                    }
                });
            }
            Long("listen") if is_daemon => daemon.listen_at(&text(parser.value()?)?)?,
            Long("listen-anywhere") if is_daemon => daemon.anywhere = true,
            Long("when-quiet") if is_daemon => daemon.stop = StopWhen::Quiet,
            Long("begun-by") if is_daemon => {
                daemon.begun_by = BegunBy::parse(&text(parser.value()?)?)?;
            }
            Long("cwd") if is_run => run.cwd = Some(parser.value()?.into()),
            Long("continue") if is_run => run.of.choose(Of::Newest)?,
            Long("session") if is_run => {
                run.of.choose(Of::Session(text(parser.value()?)?.into()))?;
            }
            Long("cwd") if is_sessions => list.cwd = Some(parser.value()?.into()),
            Long("text") if is_sessions => list.text = Some(text(parser.value()?)?),
            Long("archived") if is_sessions => list.archived = true,
            Long("json") if is_sessions => list.json = true,
            Long("limit") if is_sessions => {
                let limit = text(parser.value()?)?;
                match limit.parse() {
                    Ok(limit) if limit > 0 => list.limit = Some(limit),
                    _ => {
                        return Err(format!("--limit takes a number from 1 on, not {limit}").into());
                    }
                }
            }
            Short('o') | Long("output") if is_export => output_file = Some(parser.value()?.into()),
            Value(word) => words.push(text(word)?),
            other => return Err(other.unexpected()),
        }
    }
    let stated = Stated {
        run,
        daemon,
        list,
        output_file,
    };
    let command = command(help, version, words, stated)?;
    Ok(Parsed { command, common })
}

/// Options that belong to one command.
struct Stated {
    run: Run,
    daemon: DaemonOptions,
    list: ListSessions,
    output_file: Option<PathBuf>,
}

fn command(
    help: bool,
    version: bool,
    words: Vec<String>,
    stated: Stated,
) -> Result<Command, lexopt::Error> {
    let Stated {
        mut run,
        daemon,
        list,
        output_file,
    } = stated;
    if help {
        return Ok(Command::Help);
    }
    if version {
        return Ok(Command::Version);
    }
    let mut words = words.into_iter();
    let command = match words.next().as_deref() {
        None | Some("serve") => Command::Serve,
        Some("acp") => Command::Acp,
        Some("daemon") => Command::Daemon(Daemon::parse(words.next().as_deref(), daemon)?),
        Some("attach") => Command::Attach,
        Some("demo") => Command::Demo,
        Some("doctor") => Command::Doctor,
        Some("help") => Command::Help,
        Some("schema") => Command::Schema {
            of: match words.next().as_deref() {
                None | Some("protocol") => SchemaOf::Protocol,
                Some("config") => SchemaOf::Config,
                Some("script") => SchemaOf::Script,
                Some(other) => {
                    return Err(
                        format!("schema takes protocol, config or script, not {other}").into(),
                    );
                }
            },
        },
        Some("cron") => Command::Cron(match words.next().as_deref() {
            None | Some("list") => Cron::List {
                session: words.next().map(SessionId::from),
            },
            Some("delete") => match (words.next(), words.next()) {
                (Some(session), Some(job)) => Cron::Delete {
                    session: session.into(),
                    job,
                },
                _ => return Err("cron delete takes a session and a job".into()),
            },
            Some(other) => return Err(format!("cron takes list or delete, not {other}").into()),
        }),
        Some("sessions") => Command::Sessions(sessions(&mut words, list)?),
        Some("export") => Command::Export {
            session: words
                .next()
                .map(SessionId::from)
                .ok_or("export takes a session")?,
            output: output_file,
        },
        Some("run") => {
            if run.prompt.is_none() {
                run.prompt = words.next();
            }
            Command::Run(run)
        }
        Some(other) => return Err(format!("there is no command {other}").into()),
    };
    match words.next() {
        None => Ok(command),
        Some(word) => {
            Err(format!("unexpected argument {word}; quote a prompt of several words").into())
        }
    }
}

fn sessions(
    words: &mut impl Iterator<Item = String>,
    list: ListSessions,
) -> Result<Sessions, lexopt::Error> {
    let what = words.next();
    let what = what.as_deref().unwrap_or("list");
    if what == "list" {
        return Ok(Sessions::List(list));
    }
    if list != ListSessions::default() {
        return Err(format!("sessions {what} takes no such option").into());
    }
    let missing = || format!("sessions {what} takes a session");
    let session = words.next().map(SessionId::from).ok_or_else(missing);
    let mut some = |first: SessionId| -> Vec<SessionId> {
        let others = words.by_ref().map(SessionId::from);
        std::iter::once(first).chain(others).collect()
    };
    Ok(match what {
        "show" => Sessions::Show { session: session? },
        "archive" | "unarchive" => Sessions::Archive {
            sessions: some(session?),
            archived: what == "archive",
        },
        "delete" => Sessions::Delete {
            sessions: some(session?),
        },
        "fork" => Sessions::Fork {
            session: session?,
            turn: words.next().map(TurnId::from),
        },
        "rename" => Sessions::Rename {
            session: session?,
            title: words
                .next()
                .ok_or("sessions rename takes a session and a title")?,
        },
        other => {
            return Err(format!(
                "sessions takes list, show, rename, fork, archive, unarchive or delete, not {other}"
            )
            .into());
        }
    })
}

fn text(value: OsString) -> Result<String, lexopt::Error> {
    value
        .into_string()
        .map_err(|value| format!("{} is not UTF-8", value.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[&str]) -> Result<Parsed, String> {
        parse(line.iter().map(OsString::from).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn commands() {
        let serve = Parsed {
            command: Command::Serve,
            common: Common::default(),
        };
        assert_eq!(parsed(&[]), Ok(serve));
        assert_eq!(parsed(&["acp"]).unwrap().command, Command::Acp);
        assert_eq!(
            parsed(&["schema", "config"]).unwrap().command,
            Command::Schema {
                of: SchemaOf::Config
            }
        );
        let delete = Cron::Delete {
            session: "s1".into(),
            job: "0badcafe".into(),
        };
        for (line, what) in [
            (&["cron"][..], Cron::List { session: None }),
            (&["cron", "list"], Cron::List { session: None }),
            (
                &["cron", "list", "s1"],
                Cron::List {
                    session: Some("s1".into()),
                },
            ),
            (&["cron", "delete", "s1", "0badcafe"], delete),
        ] {
            assert_eq!(parsed(line).unwrap().command, Command::Cron(what));
        }
        assert_eq!(parsed(&["attach"]).unwrap().command, Command::Attach);
        let stop = Command::Daemon(Daemon::Stop(StopWhen::Quiet));
        assert_eq!(
            parsed(&["daemon", "stop", "--when-quiet"]).unwrap().command,
            stop
        );
        assert_eq!(parsed(&["demo", "--help"]).unwrap().command, Command::Help);
        let run = parsed(&[
            "run", "fix it", "--output", "json", "--mode", "yolo", "--model", "m",
        ])
        .unwrap();
        let options = Run {
            prompt: Some("fix it".into()),
            output: Output::Json,
            mode: Some(Mode::Yolo),
            cwd: None,
            of: Of::New,
        };
        assert_eq!(run.command, Command::Run(options));
        assert_eq!(run.common.model.as_deref(), Some("m"));
    }

    #[test]
    fn sessions_and_exports() {
        let id = || SessionId::from("s1");
        let list = ListSessions {
            cwd: Some("/w".into()),
            text: Some("x".to_owned()),
            archived: true,
            limit: Some(3),
            json: true,
        };
        let listing = [
            "sessions",
            "list",
            "--cwd",
            "/w",
            "--text",
            "x",
            "--archived",
            "--limit",
            "3",
            "--json",
        ];
        for (line, what) in [
            (&["sessions"][..], Sessions::List(ListSessions::default())),
            (&listing[..], Sessions::List(list)),
            (
                &["sessions", "show", "s1"],
                Sessions::Show { session: id() },
            ),
            (
                &["sessions", "rename", "s1", "A title"],
                Sessions::Rename {
                    session: id(),
                    title: "A title".to_owned(),
                },
            ),
            (
                &["sessions", "fork", "s1"],
                Sessions::Fork {
                    session: id(),
                    turn: None,
                },
            ),
            (
                &["sessions", "fork", "s1", "t3"],
                Sessions::Fork {
                    session: id(),
                    turn: Some("t3".into()),
                },
            ),
            (
                &["sessions", "unarchive", "s1", "s2"],
                Sessions::Archive {
                    sessions: vec![id(), "s2".into()],
                    archived: false,
                },
            ),
            (
                &["sessions", "delete", "s1"],
                Sessions::Delete {
                    sessions: vec![id()],
                },
            ),
        ] {
            assert_eq!(parsed(line).unwrap().command, Command::Sessions(what));
        }
        assert_eq!(
            parsed(&["export", "s1", "-o", "a.zip"]).unwrap().command,
            Command::Export {
                session: id(),
                output: Some("a.zip".into())
            }
        );
        for (line, of) in [
            (&["run", "x", "--continue"][..], Of::Newest),
            (&["run", "--session", "s1", "x"], Of::Session(id())),
        ] {
            let Command::Run(run) = parsed(line).unwrap().command else {
                panic!("{line:?}");
            };
            assert_eq!(run.of, of);
        }
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        for (line, word) in [
            (&["fly"][..], "fly"),
            (&["run", "two", "words"], "words"),
            (&["serve", "--output", "json"], "--output"),
            (&["run", "--mode", "wild"], "wild"),
            (&["schema", "moon"], "moon"),
            (&["daemon", "moon"], "moon"),
            (&["daemon", "--listen", "moon"], "moon"),
            (
                &["daemon", "--listen", "ws://0.0.0.0:1"],
                "--listen-anywhere",
            ),
            (&["attach", "--when-quiet"], "--when-quiet"),
            (&["cron", "moon"], "moon"),
            (&["sessions", "moon", "s1"], "moon"),
            (&["sessions", "show"], "a session"),
            (&["sessions", "rename", "s1"], "a title"),
            (&["sessions", "show", "s1", "--json"], "option"),
            (&["sessions", "--limit", "none"], "none"),
            (&["export"], "a session"),
            (&["serve", "--continue"], "--continue"),
            (&["cron", "delete", "s1"], "a job"),
            (&["--log-format", "xml"], "xml"),
            (&["--nope"], "--nope"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(word), "{line:?}: {error}");
        }
    }
}
