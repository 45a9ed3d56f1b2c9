//! Real commands, from arguments to outcome. Nothing is waited for by sleeping: commands tell by output when they are
//! ready, and ends are seen through the processes themselves.

#![expect(clippy::disallowed_methods, reason = "these tests look at real files")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use longshore_protocol::value::display::Display;
use longshore_protocol::value::tool::ProgressStream;
use rustix::process::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{Bash, Shell};
use crate::background::testing::{Heard, Told, parts};
use crate::background::{StopOptions, Tasks, Unheard, Which, Whose, Window};
use crate::config::values::{ShellConfig, TaskConfig};
use crate::kernel::access::{Access, RealAccess};
use crate::kernel::message::Part;
use crate::kernel::rule::Subject;
use crate::kernel::task::{TaskInfo, TaskStatus};
use crate::os::env::Env;
use crate::os::process::ExitWatch;
use crate::path::Workspace;
use crate::schema::Validator;
use crate::tool::{Call, CallCx, ExecCx, Outcome, Progress, Refusal, Tool, args};

/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// What "at once" means on a busy machine.
const SOON: Duration = Duration::from_secs(10);

struct Bench {
    _dir: TempDir,
    ws: PathBuf,
    results: PathBuf,
    shell: Arc<Shell>,
    tasks: Tasks,
    heard: Arc<Heard>,
    looks_after_tasks: bool,
    ambient: Vec<(&'static str, &'static str)>,
}

impl Bench {
    fn new() -> Self {
        Self::with_ambient(&[])
    }

    fn with_ambient(vars: &[(&'static str, &'static str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let ws = root.join("ws");
        std::fs::create_dir(&ws).unwrap();
        let ambient = [
            &[
                ("PATH", "/usr/local/bin:/usr/bin:/bin"),
                ("HOME", "/nonexistent"),
            ],
            vars,
        ]
        .concat();
        let results = root.join("tasks");
        Self {
            _dir: dir,
            ws,
            shell: shell(&ambient, &ShellConfig::default(), &TaskConfig::default()),
            tasks: Tasks::for_tests(&results),
            heard: Arc::default(),
            looks_after_tasks: false,
            results,
            ambient,
        }
    }

    fn configured(config: &ShellConfig) -> Self {
        let mut bench = Self::new();
        bench.shell = shell(&bench.ambient, config, &TaskConfig::default());
        bench
    }

    /// For an agent that can look after commands in the background.
    fn with_background(config: &ShellConfig, tasks: &TaskConfig) -> Self {
        let mut bench = Self::new();
        bench.shell = shell(&bench.ambient, config, tasks);
        let mut parts = parts(&bench.results, bench.heard.clone());
        parts.limits.max_running = tasks.max_running;
        bench.tasks = Tasks::open(parts);
        bench.looks_after_tasks = true;
        bench
    }

    /// Ends everything that still runs.
    async fn close(&self) {
        self.tasks.close("the test is over", PATIENCE).await;
    }

    fn active(&self) -> Vec<TaskInfo> {
        self.tasks.list(Whose::Anyones, Which::Active)
    }

    fn with_grace(grace: Duration) -> Self {
        let mut bench = Self::new();
        let mut parts = parts(&bench.results, Arc::new(Unheard));
        parts.limits.grace = grace;
        bench.tasks = Tasks::open(parts);
        bench
    }

    /// Validates and resolves.
    fn resolve(&self, mut args: Value) -> Result<Call, Refusal> {
        let bash = Bash::new(
            self.shell.clone(),
            self.tasks.clone(),
            self.looks_after_tasks,
        );
        let spec = bash.spec();
        args::normalize(&mut args, &spec.parameters);
        Validator::compile(&spec.parameters)
            .unwrap()
            .check(&args)
            .map_err(Refusal::new)?;
        let cx = CallCx {
            session: "session-1".into(),
            agent: "main".into(),
            workspace: Arc::new(Workspace::of_dir(&self.ws)),
            todos: Arc::default(),
            host_files: None,
        };
        bash.resolve(args, &cx)
    }

    fn cx(&self, progress: Arc<dyn Progress>, cancel: &CancellationToken) -> ExecCx {
        ExecCx {
            call: "call_1".into(),
            cancel: cancel.clone(),
            accesses: vec![RealAccess::all()],
            progress,
            ask_user: None,
            results_dir: self.results.clone(),
        }
    }

    async fn call(&self, args: Value) -> Outcome {
        let call = self.resolve(args).unwrap();
        let cx = self.cx(Arc::new(Seen::default()), &CancellationToken::new());
        tokio::time::timeout(PATIENCE, (call.execute)(cx))
            .await
            .expect("the call returns")
    }

    async fn run(&self, command: &str) -> Outcome {
        self.call(json!({"command": command})).await
    }

    /// Runs a command and cancels when it has written `cue`.
    async fn run_and_cancel(
        &self,
        command: &str,
        cue: &'static str,
    ) -> (Outcome, Duration, Arc<Seen>) {
        let call = self.resolve(json!({"command": command})).unwrap();
        let cancel = CancellationToken::new();
        let seen = Arc::new(Seen {
            cue: Some((cue, cancel.clone())),
            ..Seen::default()
        });
        let outcome =
            tokio::time::timeout(PATIENCE, (call.execute)(self.cx(seen.clone(), &cancel)))
                .await
                .unwrap();
        let since = seen
            .cancelled_at
            .lock()
            .unwrap()
            .expect("the cue came")
            .elapsed();
        (outcome, since, seen)
    }

    /// The one log there is, which the outcome names with its size.
    fn log(&self, outcome: &Outcome) -> Vec<u8> {
        let logs = std::fs::read_dir(&self.results)
            .unwrap()
            .map(|entry| entry.unwrap().path().join("output.log"));
        let logs: Vec<_> = logs.filter(|log| log.exists()).collect();
        let [file] = logs.as_slice() else {
            panic!("{logs:?}")
        };
        let named = format!("output_path: {}\n", file.display());
        assert!(text(outcome).contains(&named), "{}", text(outcome));
        assert!(outcome.truncated);
        std::fs::read(file).unwrap()
    }

    fn assert_no_log(&self) {
        let left = std::fs::read_dir(&self.results);
        assert!(left.is_err() || left.unwrap().next().is_none());
    }
}

fn now() -> Instant {
    Instant::now()
}

fn shell(ambient: &[(&str, &str)], config: &ShellConfig, tasks: &TaskConfig) -> Arc<Shell> {
    let env = Env::of(ambient.iter().copied());
    Arc::new(Shell::new(&env, config, tasks))
}

/// Keeps what was shown; cancels on a cue.
#[derive(Default)]
struct Seen {
    shown: Mutex<Vec<(Option<ProgressStream>, String)>>,
    cue: Option<(&'static str, CancellationToken)>,
    cancelled_at: Mutex<Option<Instant>>,
}

impl Progress for Seen {
    fn output(&self, stream: ProgressStream, text: &str) {
        let mut shown = self.shown.lock().unwrap();
        let mut cancelled_at = self.cancelled_at.lock().unwrap();
        assert!(cancelled_at.is_none(), "shown after the cancel: {text}");
        shown.push((Some(stream), text.to_owned()));
        if let Some((cue, cancel)) = &self.cue {
            let all: String = shown.iter().map(|(_, text)| text.as_str()).collect();
            if all.contains(cue) {
                *cancelled_at = Some(now());
                cancel.cancel();
            }
        }
    }

    fn status(&self, text: &str) {
        self.shown.lock().unwrap().push((None, text.to_owned()));
    }
}

fn text(outcome: &Outcome) -> &str {
    let [Part::Text(text)] = outcome.output.as_slice() else {
        panic!("{outcome:?}")
    };
    text
}

#[track_caller]
fn assert_ok(outcome: &Outcome, expected: &str) {
    assert_eq!((outcome.is_error, text(outcome)), (false, expected));
}

#[track_caller]
fn assert_failed(outcome: &Outcome, expected: &str) {
    assert_eq!((outcome.is_error, text(outcome)), (true, expected));
}

/// The number in the first line.
fn pid_in(text: &str) -> Pid {
    Pid::from_raw(text.lines().next().unwrap().trim().parse().unwrap()).unwrap()
}

async fn assert_dies(pid: Pid) {
    if let Ok(watch) = ExitWatch::open(pid) {
        assert!(
            tokio::time::timeout(PATIENCE, watch.exited()).await.is_ok(),
            "process {pid:?} lives on"
        );
    }
}

#[tokio::test]
async fn output_exit_codes_and_signals() {
    let bench = Bench::new();
    assert_ok(&bench.run("echo hi").await, "hi\n");
    assert_ok(
        &bench.run("true").await,
        "The command succeeded without output.",
    );
    assert_failed(
        &bench.run("echo out; echo err >&2; exit 7").await,
        "out\nerr\nThe command failed with exit code 7.",
    );
    assert_failed(
        &bench.run("exit 3").await,
        "The command failed with exit code 3.",
    );
    assert_failed(
        &bench.run("kill -9 $$").await,
        "The command was killed by SIGKILL (exit code 137).",
    );
    // A command that looks like an option is a command.
    let outcome = bench.run("-x").await;
    assert!(
        outcome.is_error && text(&outcome).contains("127"),
        "{}",
        text(&outcome)
    );
    bench.assert_no_log();
}

#[tokio::test]
async fn the_display_has_code_and_signal_apart() {
    let bench = Bench::new();
    for (command, code, signal_name) in [
        ("echo x; exit 7", Some(7), None),
        ("echo x; kill $$", None, Some("SIGTERM")),
    ] {
        let Some(Display::CommandOutput {
            text,
            exit_code,
            signal,
            truncated,
        }) = bench.run(command).await.display
        else {
            panic!("{command}");
        };
        assert_eq!(
            (text.as_str(), exit_code, signal.as_deref(), truncated),
            ("x\n", code, signal_name, false)
        );
    }
}

#[test]
fn what_a_call_says_of_itself() {
    let bench = Bench::new();
    let call = bench
        .resolve(json!({"command": "ls \\\n -l", "cwd": "sub/../other", "description": " list "}))
        .unwrap();
    assert_eq!(call.accesses, [Access::All]);
    assert_eq!(call.title, "ls \\ -l");
    let cwd = bench.ws.join("other");
    assert_eq!(
        call.subject,
        Subject::Command {
            command: "ls \\\n -l".to_owned(),
            cwd: cwd.clone()
        }
    );
    let expected = Display::Command {
        command: "ls \\\n -l".to_owned(),
        cwd: cwd.display().to_string(),
        description: Some("list".to_owned()),
    };
    assert_eq!(call.display, expected);
    assert!(call.preview.is_none());
    let cwd_of = |args: Value| match bench.resolve(args).unwrap().subject {
        Subject::Command { cwd, .. } => cwd,
        other => panic!("{other:?}"),
    };
    assert_eq!(cwd_of(json!({"command": "ls"})), bench.ws);
    assert_eq!(
        cwd_of(json!({"command": "ls", "cwd": "../up"})),
        bench.ws.parent().unwrap().join("up")
    );
    assert_eq!(cwd_of(json!({"command": "ls", "cwd": "/"})), Path::new("/"));
}

#[test]
fn what_is_refused() {
    let bench = Bench::new();
    for args in [
        json!({}),
        json!({"command": ""}),
        json!({"command": " \n\t"}),
        json!({"command": "a\u{0}b"}),
        json!({"comand": "ls"}),
        json!({"command": "ls", "run_in_background": true, "description": "list"}),
        json!({"command": "ls", "run_in_background": 1}),
        json!({"command": "ls", "timeout": 0}),
        json!({"command": "ls", "timeout": -5}),
        json!({"command": "ls", "timeout": 1.5}),
        json!({"command": "ls", "cwd": "a\u{0}b"}),
        json!({"command": "ls", "cwd": ""}),
    ] {
        assert!(bench.resolve(args.clone()).is_err(), "{args}");
    }
    assert!(
        bench
            .resolve(json!({"command": "ls", "timeout": 5.0, "cwd": null}))
            .is_ok()
    );
}

#[tokio::test]
async fn input_has_ended_already() {
    let bench = Bench::new();
    let begun = now();
    assert_ok(
        &bench.run("cat").await,
        "The command succeeded without output.",
    );
    assert_ok(&bench.run("read x; echo [$x]").await, "[]\n");
    assert_ok(
        &bench
            .run("test -t 0 || test -t 1 || test -t 2 || echo none")
            .await,
        "none\n",
    );
    assert!(begun.elapsed() < SOON);
}

#[tokio::test]
async fn a_missing_directory_runs_nothing() {
    let bench = Bench::new();
    let outcome = bench
        .call(json!({"command": "false || touch marker", "cwd": "missing"}))
        .await;
    assert!(outcome.is_error);
    assert!(
        text(&outcome).starts_with("The command was not run: cannot start in "),
        "{}",
        text(&outcome)
    );
    assert!(text(&outcome).contains("ws/missing") && text(&outcome).contains("`cwd`"));
    assert_eq!(std::fs::read_dir(&bench.ws).unwrap().count(), 0);
    std::fs::write(bench.ws.join("file"), "").unwrap();
    assert!(
        bench
            .call(json!({"command": "touch marker", "cwd": "file"}))
            .await
            .is_error
    );
    assert!(!bench.ws.join("marker").exists());
}

#[tokio::test]
async fn directories_may_have_any_name() {
    let bench = Bench::new();
    let odd = bench.ws.join("a b's \"$(x)\" -");
    std::fs::create_dir(&odd).unwrap();
    let outcome = bench
        .call(json!({"command": "pwd", "cwd": odd.display().to_string()}))
        .await;
    assert_ok(&outcome, &format!("{}\n", odd.display()));
    assert_ok(
        &bench.run("pwd").await,
        &format!("{}\n", bench.ws.display()),
    );
    assert_ok(&bench.run("cd / && echo $PWD | tr a-z A-Z").await, "/\n");
}

#[tokio::test]
async fn without_a_shell_nothing_runs() {
    for path in ["/nonexistent/sh", "no-such-shell", "bin/sh"] {
        let config = ShellConfig {
            path: Some(path.into()),
            ..ShellConfig::default()
        };
        let bench = Bench::configured(&config);
        std::fs::create_dir(bench.ws.join("bin")).unwrap();
        std::fs::copy("/bin/sh", bench.ws.join("bin/sh")).unwrap();
        let outcome = bench.run("echo hi").await;
        assert!(outcome.is_error, "{path}");
        assert!(
            text(&outcome).starts_with(&format!("The command was not run: cannot run {path}")),
            "{}",
            text(&outcome)
        );
    }
}

#[tokio::test]
async fn too_long_a_command_line_is_explained() {
    let bench = Bench::new();
    let outcome = bench.run(&format!(": {}", "x".repeat(4 << 20))).await;
    assert!(outcome.is_error);
    assert!(
        text(&outcome).contains("too long") && text(&outcome).contains("file"),
        "{}",
        text(&outcome)
    );
}

#[tokio::test]
async fn what_commands_find_around_them() {
    let bench = Bench::with_ambient(&[
        ("KEPT", "k"),
        ("TERM", "xterm"),
        ("LONGSHORE_API_KEY", "secret"),
    ]);
    let show = "echo $LONGSHORE $LONGSHORE_SESSION_ID $TERM $PAGER $GIT_TERMINAL_PROMPT $KEPT$LONGSHORE_API_KEY $SHELL";
    let expected = format!(
        "1 session-1 dumb cat 0 k {}\n",
        bench.shell.program().display()
    );
    assert_ok(&bench.run(show).await, &expected);
    let first = text(&bench.run("echo $LONGSHORE_TASK_ID").await).to_owned();
    let second = text(&bench.run("echo $LONGSHORE_TASK_ID").await).to_owned();
    assert!(
        first.starts_with("bash-") && first.len() == "bash-12345678\n".len() && first != second
    );
    let kept = Bench::with_ambient(&[("GIT_TERMINAL_PROMPT", "1")]);
    assert_ok(
        &kept
            .run("echo $GIT_TERMINAL_PROMPT${GIT_SSH_COMMAND-unset}")
            .await,
        "1unset\n",
    );
}

#[tokio::test]
async fn at_the_time_limit_everything_ends_before_the_result() {
    let bench = Bench::new();
    let begun = now();
    let outcome = bench
        .call(json!({"command": "(sleep 100; touch late) & echo $!; sleep 100", "timeout": 1}))
        .await;
    assert!(begun.elapsed() >= Duration::from_secs(1) && begun.elapsed() < SOON);
    assert!(
        outcome.is_error && text(&outcome).contains("The command was killed by timeout (1 s)."),
        "{}",
        text(&outcome)
    );
    assert_dies(pid_in(text(&outcome))).await;
    assert!(!bench.ws.join("late").exists());
    bench.assert_no_log();
}

#[tokio::test]
async fn a_time_limit_beyond_the_cap_is_said_to_be_cut() {
    let outcome = Bench::new()
        .call(json!({"command": "echo hi", "timeout": 120_000}))
        .await;
    assert_ok(
        &outcome,
        "hi\ntimeout: 120000 seconds were requested, 300 seconds (the maximum) applied.",
    );
}

#[tokio::test]
async fn who_ignores_the_first_signal_is_killed_after_the_grace() {
    let bench = Bench::with_grace(Duration::from_millis(200));
    let command = "(trap '' TERM; echo $BASHPID; while :; do sleep 100; done) & wait";
    let outcome = bench.call(json!({"command": command, "timeout": 1})).await;
    assert!(
        text(&outcome).contains("killed by timeout (1 s)"),
        "{}",
        text(&outcome)
    );
    assert_dies(pid_in(text(&outcome))).await;
}

#[tokio::test]
async fn a_cancel_returns_soon_with_what_there_was() {
    let bench = Bench::with_grace(Duration::from_secs(3));
    let command = "trap '' TERM; echo $$; echo ready; sleep 100; sleep 100";
    let (outcome, since, _) = bench.run_and_cancel(command, "ready").await;
    assert!(
        since >= Duration::from_millis(900) && since < Duration::from_millis(2500),
        "{since:?}"
    );
    let pid = pid_in(text(&outcome));
    let expected = format!(
        "{}\nready\nThe command was interrupted by user; its processes are still being ended.",
        pid.as_raw_nonzero()
    );
    assert_failed(&outcome, &expected);
    // The call is over, the killing goes on.
    assert_dies(pid).await;
}

#[tokio::test]
async fn a_cancel_of_an_obedient_command_is_quick() {
    let bench = Bench::new();
    let (outcome, since, _) = bench
        .run_and_cancel("echo ready; exec sleep 100", "ready")
        .await;
    assert_failed(&outcome, "ready\nThe command was interrupted by user.");
    assert!(since < SOON);
    let (outcome, _, seen) = bench
        .run_and_cancel("while :; do echo flood; done", "flood")
        .await;
    assert!(outcome.is_error && text(&outcome).contains("interrupted by user"));
    assert!(
        seen.shown
            .lock()
            .unwrap()
            .iter()
            .all(|(stream, _)| stream.is_some())
    );
}

#[tokio::test]
async fn a_call_cancelled_before_it_began_runs_nothing() {
    let bench = Bench::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let call = bench.resolve(json!({"command": "touch marker"})).unwrap();
    let outcome = (call.execute)(bench.cx(Arc::new(Seen::default()), &cancel)).await;
    assert_failed(
        &outcome,
        "The call was aborted before start; the command was not run.",
    );
    assert!(!bench.ws.join("marker").exists());
}

#[tokio::test]
async fn what_a_command_leaves_running_does_not_hold_its_result() {
    let bench = Bench::new();
    let begun = now();
    let outcome = bench.run("sleep 100 & echo $!; echo done").await;
    assert!(begun.elapsed() < SOON);
    let pid = pid_in(text(&outcome));
    let expected = format!(
        "{}\ndone\n1 background process that the command left running was ended.",
        pid.as_raw_nonzero()
    );
    assert_ok(&outcome, &expected);
    assert_dies(pid).await;

    // One that goes on writing is no reason to wait either.
    let outcome = bench
        .run("(while :; do echo x; sleep 0.01; done) & echo fg")
        .await;
    assert!(
        !outcome.is_error && text(&outcome).contains("fg\n") && text(&outcome).ends_with(" ended.")
    );
    assert!(begun.elapsed() < SOON);
}

#[tokio::test]
async fn a_flood_is_ended_and_its_log_is_named() {
    let config = ShellConfig {
        output_kill_bytes: 2 << 20,
        ..ShellConfig::default()
    };
    let bench = Bench::configured(&config);
    let outcome = bench.run("yes").await;
    assert!(outcome.is_error);
    let expected = "The command was killed because it wrote more than 2097152 bytes";
    assert_eq!(text(&outcome).matches(expected).count(), 1);
    assert!(text(&outcome).contains("Redirect its output to a file"));
    assert!(text(&outcome).chars().count() < 52_000);
    let log = bench.log(&outcome);
    assert!(log.len() > 2 << 20 && log.len() < 4 << 20, "{}", log.len());
}

#[tokio::test]
async fn long_output_is_in_the_log_byte_by_byte() {
    use std::os::unix::fs::PermissionsExt;

    let bench = Bench::new();
    let outcome = bench.run("seq 1 100000").await;
    let shown = text(&outcome);
    assert!(
        !outcome.is_error
            && shown.starts_with("1\n2\n")
            && shown.contains("\n99999\n100000\ntask_id: bash-")
    );
    assert!(shown.contains(" lines omitted …]") && shown.contains("\noutput_size_bytes: 588895\n"));
    let expected: String = (1..=100_000).map(|n| n.to_string() + "\n").collect();
    assert_eq!(bench.log(&outcome), expected.as_bytes());
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let named = shown.split_once("\noutput_path: ").unwrap().1;
    let log = Path::new(named.lines().next().unwrap());
    assert_eq!((mode(log), mode(log.parent().unwrap())), (0o600, 0o700));
    assert!(matches!(
        outcome.display,
        Some(Display::CommandOutput {
            truncated: true,
            ..
        })
    ));
}

#[tokio::test]
async fn more_than_memory_holds_passes_through() {
    let bench = Bench::new();
    let outcome = bench
        .run("yes abcdefg | head -c 20000000; echo the end")
        .await;
    let shown = text(&outcome);
    assert!(
        !outcome.is_error
            && shown.starts_with("abcdefg\n")
            && shown.contains("\nthe end\ntask_id: bash-")
    );
    assert!(shown.contains("\noutput_size_bytes: 20000008\n"));
    let log = bench.log(&outcome);
    assert_eq!(log.len(), 20_000_008);
    assert!(log.ends_with(b"abcdefg\nthe end\n"));
}

#[tokio::test]
async fn where_no_log_can_be_written_the_command_still_runs() {
    let bench = Bench::new();
    std::fs::write(&bench.results, "a file stands in the way").unwrap();
    let outcome = bench.run("seq 1 100000; echo still > mark").await;
    assert!(
        !outcome.is_error && text(&outcome).contains("\nlog_incomplete: cannot create directory")
    );
    assert_eq!(std::fs::read(bench.ws.join("mark")).unwrap(), b"still\n");
}

#[tokio::test]
async fn bytes_that_are_no_text() {
    let bench = Bench::new();
    assert_ok(
        &bench.run(r"printf '\377\376abc'").await,
        "\u{fffd}\u{fffd}abc",
    );
    assert_ok(
        &bench
            .run(r"printf 'a\342'; sleep 0.1; printf '\202\254b'")
            .await,
        "a€b",
    );
    assert_ok(
        &bench
            .run(r"printf '\360\237'; sleep 0.1; printf '\230\200'")
            .await,
        "😀",
    );
    bench.assert_no_log();
    let outcome = bench.run("head -c 1048576 /dev/urandom").await;
    assert!(!outcome.is_error);
    let expected = "binary output, 1048576 bytes, not shown\ntask_id: bash-";
    assert!(
        text(&outcome).starts_with(expected) && text(&outcome).len() < 500,
        "{}",
        text(&outcome)
    );
    assert_eq!(bench.log(&outcome).len(), 1 << 20);
}

#[tokio::test]
async fn colours_and_progress_are_taken_out() {
    let bench = Bench::new();
    assert_ok(
        &bench
            .run(r"printf '\033[1;31mred\033[0m\n10%%\r50%%\r100%%\n'")
            .await,
        "red\n100%\n",
    );
}

#[tokio::test]
async fn output_is_shown_while_the_command_runs() {
    let bench = Bench::new();
    // The command ends because its output was seen.
    let (_, _, seen) = bench
        .run_and_cancel("echo err >&2; echo live; exec sleep 100", "live")
        .await;
    let shown = seen.shown.lock().unwrap();
    let of = |wanted| -> String {
        shown
            .iter()
            .filter(|(stream, _)| *stream == Some(wanted))
            .map(|(_, text)| text.as_str())
            .collect()
    };
    assert_eq!(of(ProgressStream::Stdout), "live\n");
}

#[tokio::test]
async fn git_neither_pages_nor_edits_nor_colours() {
    let bench = Bench::with_ambient(&[
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ]);
    let set_up = "git init -q . && git config user.name n && git config user.email e@x && \
                  git commit -q --allow-empty -m first && git commit -q --allow-empty -m second";
    let outcome = bench.run(set_up).await;
    if text(&outcome).contains("exit code 127") {
        // There is no git here.
        return;
    }
    assert_ok(&outcome, "The command succeeded without output.");
    assert_ok(
        &bench
            .run("git -c color.ui=always log --format='%C(red)%s'")
            .await,
        "second\nfirst\n",
    );
    let outcome = bench.run("git commit --allow-empty").await;
    assert!(
        outcome.is_error && text(&outcome).contains("editor"),
        "{}",
        text(&outcome)
    );
}

#[tokio::test]
async fn a_command_in_the_background() {
    let bench = Bench::with_background(&ShellConfig::default(), &TaskConfig::default());
    let refused =
        bench.resolve(json!({"command": "ls", "run_in_background": true, "description": " "}));
    assert!(refused.err().unwrap().message.contains("`description`"));
    let args =
        json!({"command": "cat; echo up", "run_in_background": true, "description": "say up"});
    let call = bench.resolve(args.clone()).unwrap();
    assert_eq!(call.title, "Starting in background: cat; echo up");
    let outcome = bench.call(args).await;
    let (told, id) = (text(&outcome), bench.heard.ended(1).await[0].0.id.clone());
    assert!(
        !outcome.is_error && told.contains(&format!("\ntask_id: {id}\npid: ")),
        "{told}"
    );
    assert!(
        told.contains("\ndescription: say up\nstatus: running\n"),
        "{told}"
    );
    let info = bench.tasks.get(Whose::Anyones, &id).unwrap();
    assert_eq!(
        (info.status, info.timeout_ms),
        (TaskStatus::Completed, Some(600_000))
    );
    let told = bench.heard.told();
    assert!(matches!(told.first(), Some(Told::Started(_))));
    assert_eq!(bench.heard.ended(1).await[0].1, "up\n");
}

#[tokio::test]
async fn background_time_limits() {
    let unlimited = TaskConfig {
        bash_timeout: None,
        ..TaskConfig::default()
    };
    let bench = Bench::with_background(&ShellConfig::default(), &unlimited);
    let start = async |more: Value| {
        let mut args =
            json!({"command": "sleep 600", "run_in_background": true, "description": "s"});
        args.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let outcome = bench.call(args).await;
        assert!(!outcome.is_error, "{}", text(&outcome));
    };
    start(json!({"timeout": 1})).await;
    let ended = bench.heard.ended(1).await;
    assert_eq!(ended[0].0.status, TaskStatus::TimedOut);
    start(json!({})).await;
    assert_eq!(bench.active()[0].timeout_ms, None);
    start(json!({"timeout": 90_000})).await;
    assert_eq!(bench.active()[0].timeout_ms, Some(86_400_000));
    start(json!({"timeout": 5, "disable_timeout": true})).await;
    assert_eq!(bench.active()[0].timeout_ms, None);
    bench.close().await;
}

#[tokio::test]
async fn a_foreground_command_whose_time_is_over_goes_on() {
    let bench = Bench::with_background(&ShellConfig::default(), &TaskConfig::default());
    let gate = bench.ws.join("gate");
    let command = "echo A; while [ ! -e gate ]; do sleep 0.05; done; echo B";
    let outcome = bench.call(json!({"command": command, "timeout": 1})).await;
    let [task] = &bench.active()[..] else {
        panic!("one task runs")
    };
    let told = text(&outcome);
    assert!(
        told.starts_with("The command did not end within 1 s. It was not killed"),
        "{told}"
    );
    assert!(
        told.contains(&format!("task_id: {}\n", task.id)) && told.ends_with("Output so far:\nA\n")
    );
    assert_eq!((outcome.is_error, task.timeout_ms), (false, Some(600_000)));
    std::fs::write(gate, "").unwrap();
    let (info, tail) = bench.heard.ended(1).await.remove(0);
    assert_eq!(
        (info.status, tail.as_str()),
        (TaskStatus::Completed, "A\nB\n")
    );

    let killing = TaskConfig {
        auto_background: false,
        ..TaskConfig::default()
    };
    let bench = Bench::with_background(&ShellConfig::default(), &killing);
    let outcome = bench
        .call(json!({"command": "echo A; sleep 600", "timeout": 1}))
        .await;
    assert!(text(&outcome).starts_with("A\nThe command was killed by timeout (1 s)."));
    assert!(bench.active().is_empty() && bench.heard.told().is_empty());
}

#[tokio::test]
async fn what_is_left_running_is_named_or_ended() {
    let bench = Bench::with_background(&ShellConfig::default(), &TaskConfig::default());
    let outcome = bench.run("sleep 600 & echo hi").await;
    let [residual] = &bench.active()[..] else {
        panic!("{}", text(&outcome))
    };
    let note = format!(
        "1 background process was left running; it goes on as task {}.",
        residual.id
    );
    assert_ok(&outcome, &format!("hi\n{note}"));
    let stop = bench
        .tasks
        .stop(Whose::Anyones, &residual.id, StopOptions::default());
    assert_eq!(stop.await.unwrap().status, TaskStatus::Killed);
    // Also what left the group, as long as it holds the output.
    let outcome = bench.run("setsid sleep 600 & echo hi").await;
    assert!(
        text(&outcome).contains("it goes on as task"),
        "{}",
        text(&outcome)
    );
    bench.close().await;

    let config = ShellConfig {
        kill_survivors: true,
        ..ShellConfig::default()
    };
    let bench = Bench::with_background(&config, &TaskConfig::default());
    let outcome = bench.run("sleep 600 & echo hi").await;
    assert_ok(
        &outcome,
        "hi\n1 background process that the command left running was ended.",
    );
    assert!(bench.active().is_empty());
}

#[tokio::test]
async fn no_more_tasks_than_may_run() {
    let one = TaskConfig {
        max_running: 1,
        ..TaskConfig::default()
    };
    let bench = Bench::with_background(&ShellConfig::default(), &one);
    let args = json!({"command": "echo x >> ran; sleep 600", "run_in_background": true, "description": "d"});
    let outcomes = futures::future::join_all([bench.call(args.clone()), bench.call(args)]).await;
    let refused: Vec<_> = outcomes.iter().filter(|outcome| outcome.is_error).collect();
    let [refused] = &refused[..] else {
        panic!("{outcomes:?}")
    };
    assert!(text(refused).contains("1 tasks are running, which is the most there may be (1)"));
    for _ in 0..5 {
        assert_ok(&bench.run("echo free").await, "free\n");
    }
    bench.close().await;
    assert_eq!(bench.heard.ended(1).await.len(), 1);
}

#[tokio::test]
async fn a_long_background_output_is_read_by_pages() {
    let bench = Bench::with_background(&ShellConfig::default(), &TaskConfig::default());
    let args = json!({"command": "seq 1 20000", "run_in_background": true, "description": "count"});
    bench.call(args).await;
    let (info, tail) = bench.heard.ended(1).await.remove(0);
    assert!(tail.ends_with("\n20000\n") && tail.len() <= 4096);
    let page = bench
        .tasks
        .output(Whose::Anyones, &info.id, Window::From(2), 4);
    assert_eq!(page.await.unwrap().bytes, b"2\n3\n");
}
