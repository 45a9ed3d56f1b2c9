//! `longshore demo`: the main job in one command, without key or network.
//!
//! It makes a scratch repository, spawns this very program as a server, attaches as a host, plays the scripted model's
//! turn, gives one approval and refuses one, and shows every event and the change that came of it.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use longshore_protocol::method::host::HostCapabilities;
use longshore_protocol::method::{session, spec, turn};
use longshore_protocol::value::approval::{ApprovalAnswer, ApprovalRequest, OptionId};
use longshore_protocol::value::content::Input;
use longshore_protocol::value::session::Mode;
use longshore_protocol::value::turn::WhenBusy;

use super::args::Common;
use super::driver::{Driver, Said};
use super::server;
use super::terminal::{complain, say};
use crate::os::env::{self, Env};
use crate::os::process::{Command, Processes, Stderr, Stdin, Stream};
use crate::os::{fs, nofile};

/// The model of the demonstration, and the input its script waits for.
const MODEL: &str = "demo";
const INPUT: &str =
    "Play the demo: mend the misspelt greeting, check the change, then try to push it.";

/// What the file says before and after.
const BEFORE: &str = "Hello, wrold!\nThis file greets whoever opens it.\n";
const AFTER: &str = "Hello, world!\nThis file greets whoever opens it.\n";

/// How long the server may take to end.
const END: Duration = Duration::from_secs(5);

/// Plays it. Fails where anything comes out otherwise than it should.
pub(super) fn run(env: Env, common: &Common) -> ExitCode {
    let _ = common;
    let runtime = match server::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("the runtime could not start: {error}")),
    };
    runtime.block_on(async {
        let scratch = std::env::temp_dir().join(format!("longshore-demo-{}", std::process::id()));
        let played = play(&env, &scratch).await;
        if let Err(error) = fs::remove_tree(&scratch) {
            complain(&format!(
                "longshore: the scratch directory stays behind: {error}"
            ));
        }
        match played {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => failed(&message),
        }
    })
}

fn failed(message: &str) -> ExitCode {
    complain(&format!("longshore: demo: {message}"));
    ExitCode::FAILURE
}

async fn play(env: &Env, scratch: &Path) -> Result<(), String> {
    let (repository, home) = (scratch.join("repository"), scratch.join("home"));
    let processes = Processes::new(nofile::raise());
    let world = World {
        env,
        processes: &processes,
        repository: &repository,
    };
    world.make_repository().await?;
    say(&format!(
        "A scratch repository stands in {}.",
        repository.display()
    ));

    let program =
        env::current_exe().map_err(|error| format!("this program can't be found: {error}"))?;
    let command = Command::new(program, &repository)
        .arg("serve")
        .env(env.iter())
        .env([("LONGSHORE_HOME", home.as_os_str())])
        .stdin(Stdin::Piped)
        .stderr(Stderr::Inherited);
    let mut server = processes
        .spawn(command)
        .await
        .map_err(|error| format!("no server: {error}"))?;
    let (stdin, stdout) = (server.take_stdin(), server.take_output(Stream::Stdout));
    let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
        return Err("the server has no pipes".into());
    };
    say(&format!(
        "A server runs as process {}; it speaks JSON-RPC on its standard streams.\n",
        server.pid()
    ));

    let mut driver = Driver::connect(stdout, stdin);
    let outcome = world.drive(&mut driver).await;
    driver.close().await;
    if tokio::time::timeout(END, server.wait()).await.is_err() {
        processes.kill_all(Duration::ZERO).await;
        return Err("the server did not end when its input ended".into());
    }
    outcome?;
    world.check().await
}

struct World<'a> {
    env: &'a Env,
    processes: &'a Processes,
    repository: &'a Path,
}

impl World<'_> {
    async fn make_repository(&self) -> Result<(), String> {
        fs::create_private_dirs(self.repository).map_err(|error| error.to_string())?;
        for (name, text) in [
            ("greeting.txt", BEFORE),
            ("README.md", "# A scratch repository\n"),
        ] {
            fs::write_private(&self.repository.join(name), text.as_bytes())
                .map_err(|error| error.to_string())?;
        }
        self.git(&["init", "-q", "-b", "main"]).await?;
        self.git(&["add", "."]).await?;
        let who = ["-c", "user.name=demo", "-c", "user.email=demo@localhost"];
        self.git(&[&who[..], &["commit", "-q", "-m", "A greeting"]].concat())
            .await?;
        Ok(())
    }

    async fn git(&self, arguments: &[&str]) -> Result<String, String> {
        let git = self
            .env
            .find_program("git")
            .ok_or("git is not installed; the demo needs it")?;
        let command = Command::new(git, self.repository)
            .args(arguments)
            .env(self.env.iter());
        let running = self
            .processes
            .spawn(command)
            .await
            .map_err(|error| format!("git: {error}"))?;
        let collected = running.collect(1 << 20).await;
        collected
            .success_text()
            .ok_or_else(|| format!("git {} failed", arguments.join(" ")))
    }

    /// Plays one turn as a host.
    async fn drive(&self, driver: &mut Driver) -> Result<(), String> {
        let failed = |what: &'static str| move |error| format!("{what} failed: {error}");
        let capabilities = HostCapabilities {
            approvals: true,
            ..HostCapabilities::default()
        };
        driver
            .initialize(capabilities)
            .await
            .map_err(failed("initialize"))?;
        let create = session::CreateParams {
            cwd: self.repository.display().to_string(),
            model: Some(MODEL.into()),
            mode: Some(Mode::Manual),
            ephemeral: true,
            ..session::CreateParams::default()
        };
        let created = driver
            .call::<spec::SessionCreate>(&create)
            .await
            .map_err(failed("session/create"))?;
        let session_id = created.session.session_id;
        let input = Input::Text(INPUT.into());
        let start = turn::StartParams {
            session_id,
            input,
            when_busy: WhenBusy::default(),
        };
        let started = driver
            .call::<spec::TurnStart>(&start)
            .await
            .map_err(failed("turn/start"))?;
        say(&format!("> {INPUT}\n"));
        let mut answered = Vec::new();
        while let Some(said) = driver.next().await {
            match said {
                Said::Event { method, params } => {
                    show(&method, &params);
                    if method == "turn/ended" && params["turnId"] == started.turn_id.as_str() {
                        return judge(&params, &answered);
                    }
                }
                Said::Approval(request, respond) => {
                    let answer = decide(&request);
                    answered.push(answer.option_id);
                    respond.approval(&answer);
                }
            }
        }
        Err("the server went away in mid-turn".into())
    }

    /// The file must say what the turn was about, and nothing else may have changed.
    async fn check(&self) -> Result<(), String> {
        let diff = self.git(&["diff", "--no-color"]).await?;
        say(&format!("\ngit diff says:\n{diff}"));
        let text = fs::read_to_string(&self.repository.join("greeting.txt"))
            .map_err(|error| error.to_string())?;
        if text != AFTER {
            return Err(format!("greeting.txt says {text:?}, not {AFTER:?}"));
        }
        let changed = self.git(&["status", "--porcelain"]).await?;
        if changed != " M greeting.txt\n" {
            return Err(format!("more changed than should have:\n{changed}"));
        }
        say("One file changed, by one word. The refused command was not run.");
        Ok(())
    }
}

/// Looking at the change is allowed, pushing it is not.
fn decide(request: &ApprovalRequest) -> ApprovalAnswer {
    let command = request.input["command"].as_str().unwrap_or_default();
    let allowed = command == "git diff --stat";
    say(&format!("  ? {} asks to run: {command}", request.tool));
    say(if allowed {
        "  ! allowed once"
    } else {
        "  ! rejected"
    });
    let option = if allowed {
        OptionId::AllowOnce
    } else {
        OptionId::Reject
    };
    let feedback = (!allowed).then(|| "Never push by force from a demo.".to_owned());
    ApprovalAnswer {
        option_id: Some(option),
        feedback,
        ..ApprovalAnswer::default()
    }
}

fn judge(ended: &serde_json::Value, answered: &[Option<OptionId>]) -> Result<(), String> {
    if ended["reason"] != "completed" {
        return Err(format!("the turn ended otherwise than completed: {ended}"));
    }
    if *answered != [Some(OptionId::AllowOnce), Some(OptionId::Reject)] {
        return Err(format!(
            "one approval was to be given and one refused, but it was {answered:?}"
        ));
    }
    Ok(())
}

/// One line an event: its name and what matters of it.
fn show(method: &str, params: &serde_json::Value) {
    let text = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
    let detail = match method {
        // Deltas repeat what the completed item says.
        "message/delta" | "thinking/delta" | "tool/delta" | "session/usage" => return,
        "message/completed" | "thinking/completed" => text("text"),
        "tool/started" => text("title"),
        "tool/completed" => {
            let output = params["output"][0]["text"].as_str().unwrap_or_default();
            let first = output.lines().next().unwrap_or_default();
            format!(
                "{}{first}",
                if params["isError"] == true {
                    "failed: "
                } else {
                    ""
                }
            )
        }
        "session/status" => text("status"),
        "turn/ended" => text("reason"),
        _ => String::new(),
    };
    let seq = params["seq"]
        .as_u64()
        .map_or_else(|| "    ".to_owned(), |seq| format!("{seq:>3} "));
    say(&format!(
        "{seq}{method:<20} {}",
        detail.replace('\n', "\n                         ")
    ));
}
