//! The server that outlives its hosts: started once by whoever comes first, and going on when the last one has left.

use std::cell::Cell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::processes::{assert_ended, heeds_interrupts};
use crate::support::server::DEADLINE;
use crate::support::{Answer, Scratch, TestServer};

/// A scratch place whose daemon is stopped when the test is over.
pub(crate) struct Daemon {
    pub(crate) scratch: Scratch,
}

impl Daemon {
    pub(crate) fn with_script(yaml: &str) -> Self {
        let scratch = Scratch::new();
        scratch.script(yaml);
        Self { scratch }
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.scratch.longshore();
        command
            .args(words)
            .env("LONGSHORE_CLOCK_FILE", self.clock())
            .env("LONGSHORE_CRON_NO_JITTER", "1");
        command
    }

    fn clock(&self) -> PathBuf {
        self.scratch.root().join("clock")
    }

    /// Sets the time. Replaced whole: nobody reads half a number.
    fn set_clock(&self, now: &str) {
        let ms = now.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let fresh = self.clock().with_extension("new");
        fs::write(&fresh, ms.to_string()).unwrap();
        fs::rename(fresh, self.clock()).unwrap();
    }

    /// Runs `longshore daemon WORDS`.
    pub(crate) fn daemon(&self, words: &[&str]) -> Output {
        self.command(&["daemon"]).args(words).output().unwrap()
    }

    /// What `longshore daemon WORDS` says, and its exit code.
    pub(crate) fn says(&self, words: &[&str]) -> (String, Option<i32>) {
        let output = self.daemon(words);
        let said = [output.stdout, output.stderr].concat();
        (String::from_utf8(said).unwrap(), output.status.code())
    }

    /// An editor's end of an attach; nothing is said yet.
    pub(crate) fn attach(&self) -> TestServer {
        TestServer::spawn(&self.scratch, self.command(&["attach"]))
    }

    /// The same, as a host that can answer.
    pub(crate) fn host(&self) -> TestServer {
        let mut host = self.attach();
        host.initialize(json!({"approvals": true, "questions": true}));
        host
    }

    fn run_dir(&self) -> PathBuf {
        self.scratch.longshore_home().join("run")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.run_dir().join("daemon.sock")
    }

    /// The process of the daemon, by its lock.
    pub(crate) fn pid(&self) -> u32 {
        let lock = fs::read_to_string(self.run_dir().join("daemon.lock")).unwrap();
        lock.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// What the daemon says of itself.
    pub(crate) fn record(&self) -> Value {
        let path = self.run_dir().join(format!("{}.json", self.pid()));
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    fn status(&self) -> Value {
        let mut host = self.host();
        let status = host.request("server/status", json!({}));
        host.close(DEADLINE);
        status
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let stopped = self.daemon(&["stop"]);
        if thread::panicking() {
            return;
        }
        assert!(stopped.status.success(), "{stopped:?}");
        self.scratch.mark.assert_gone(&[], DEADLINE);
        assert!(!self.socket().exists());
    }
}

pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "waited for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

const SAYS_OK: &str = "turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last";

#[test]
fn it_is_started_asked_and_stopped() {
    let at = Daemon::with_script(SAYS_OK);
    assert_eq!(at.says(&["status"]), ("No daemon runs.\n".into(), Some(3)));
    assert_eq!(at.says(&["stop"]), ("No daemon runs.\n".into(), Some(0)));
    let (said, code) = at.says(&["start"]);
    let pid = at.pid();
    let version = env!("CARGO_PKG_VERSION");
    let runs = format!(
        "The daemon runs (process {pid}, version {version}).\nsocket: {}\n",
        at.socket().display()
    );
    assert_eq!((said, code), (runs, Some(0)));
    let mode = |path: PathBuf| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(at.run_dir()), mode(at.socket())), (0o700, 0o600));
    assert!(
        fs::symlink_metadata(at.socket())
            .unwrap()
            .file_type()
            .is_socket()
    );
    let record = at.record();
    assert_eq!(
        (&record["command"], &record["version"], &record["begunBy"]),
        (&json!("daemon"), &json!(version), &json!("start"))
    );

    let (said, code) = at.says(&["start"]);
    assert!(said.contains("runs already") && code == Some(0), "{said}");
    assert_eq!(at.pid(), pid);
    let mut host = at.host();
    host.create(&at.scratch, json!({}));
    let (said, code) = at.says(&["status"]);
    for line in ["hosts: 1 (e2e)", "sessions loaded: 1", "turns running: 0"] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    assert_eq!(code, Some(0));

    let asked = Instant::now();
    let (said, code) = at.says(&["stop"]);
    let stopped = format!("The daemon (process {pid}) has stopped.\n");
    assert_eq!((said, code), (stopped, Some(0)));
    assert!(
        asked.elapsed() < Duration::from_secs(6),
        "{:?}",
        asked.elapsed()
    );
    assert!(!at.run_dir().join(format!("{pid}.json")).exists());
    // Whoever was attached is told.
    assert_eq!(host.exit(DEADLINE).code(), Some(1));
    let told = host.stderr();
    assert!(told.contains("the daemon has ended"), "{told}");
    host.forget_stderr();
    let log = at.scratch.longshore_home().join("logs/longshore.log");
    assert!(
        fs::read_to_string(log)
            .unwrap()
            .contains("the daemon stops")
    );
}

#[test]
fn every_server_says_that_it_runs() {
    let scratch = Scratch::new();
    let mut server = TestServer::open(&scratch);
    let record = scratch
        .longshore_home()
        .join(format!("run/{}.json", server.pid()));
    until("its record", || record.exists());
    let said: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    assert_eq!(
        (&said["pid"], &said["command"]),
        (&json!(server.pid()), &json!("serve"))
    );
    server.close(DEADLINE);
    assert!(!record.exists());
}

#[test]
fn ten_that_come_at_once_share_one() {
    let at = Daemon::with_script(SAYS_OK);
    // A socket that a daemon left when it was killed is in nobody's way.
    fs::create_dir_all(at.run_dir()).unwrap();
    drop(std::os::unix::net::UnixListener::bind(at.socket()).unwrap());
    let mut hosts: Vec<TestServer> = (0..10).map(|_| at.attach()).collect();
    let pids: Vec<Value> = hosts
        .iter_mut()
        .map(|host| host.initialize(json!({}))["server"]["pid"].clone())
        .collect();
    assert_eq!(pids, vec![json!(at.pid()); 10]);
    let daemons: Vec<String> = at
        .scratch
        .mark
        .processes()
        .iter()
        .map(|process| format!("{process:?}"))
        .filter(|process| process.contains("--begun-by"))
        .collect();
    assert_eq!(daemons.len(), 1, "{daemons:#?}");
    let status = hosts[0].request("server/status", json!({}));
    assert_eq!(status["hosts"].as_array().unwrap().len(), 10);
    // Each leaves by the end of its input, and the daemon goes on.
    for mut host in hosts {
        assert_eq!(host.close(DEADLINE).code(), Some(0));
    }
    until("the hosts to be let go", || {
        at.status()["hosts"].as_array().unwrap().len() == 1
    });
    assert_eq!(at.record()["pid"], pids[0]);
}

/// Everybody who comes while daemons end and begin is answered by one of them.
#[test]
fn whoever_comes_as_it_stops_gets_the_next_one() {
    let at = Daemon::with_script(SAYS_OK);
    for round in 0..8 {
        let mut early = at.host();
        let mut stop = at.command(&["daemon", "stop"]);
        let mut stop = stop.stdout(Stdio::null()).spawn().unwrap();
        // Another moment of the end in each round.
        thread::sleep(Duration::from_millis(round * 5));
        let mut hosts: Vec<TestServer> = (0..3).map(|_| at.attach()).collect();
        for host in &mut hosts {
            let hello = host.initialize(json!({}));
            assert!(hello["server"]["pid"].is_u64(), "{hello}");
        }
        assert!(stop.wait().unwrap().success());
        assert_eq!(early.exit(DEADLINE).code(), Some(1));
        early.forget_stderr();
        for mut host in hosts {
            // The daemon that answered it may have been the one that was to stop.
            host.close(DEADLINE);
            host.forget_stderr();
        }
    }
}

#[test]
fn connections_have_a_bound() {
    let at = Daemon::with_script(SAYS_OK);
    at.host().close(DEADLINE);
    until("the host to be let go", || {
        at.status()["hosts"].as_array().unwrap().len() == 1
    });
    // What it answers to somebody who has not said who it is.
    let ask = || {
        let mut stream = UnixStream::connect(at.socket()).unwrap();
        stream
            .write_all(b"{\"id\":1,\"method\":\"ping\"}\n")
            .unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        (stream, serde_json::from_str::<Value>(&line).unwrap())
    };
    let mut open: Vec<UnixStream> = Vec::new();
    let refused = loop {
        assert!(open.len() < 300, "no bound");
        let (stream, said) = ask();
        if said["id"].is_null() {
            break said;
        }
        open.push(stream);
    };
    // Some that came before may not be let go yet.
    assert!((250..=256).contains(&open.len()), "{}", open.len());
    let data = &refused["error"]["data"];
    assert_eq!(
        (&data["kind"], &data["value"]),
        (&json!("limit_exceeded"), &json!(256))
    );
    drop(open);
    until("room again", || ask().1["id"] == 1);
}

#[test]
fn a_stop_takes_no_longer_for_what_does_not_want_to_end() {
    let stubborn = json!({"tool_call": {"name": "Bash", "args": {
        "command": "trap '' TERM; echo up; while :; do sleep 0.1; done", "timeout": 300,
    }}});
    let script = json!({"turns": [{"steps": [stubborn]}, {"steps": [{"text": "ok"}]}]});
    let at = Daemon::with_script(&script.to_string());
    let mut host = at.host();
    let session = host.create(&at.scratch, json!({"mode": "yolo"}));
    let turn = host.turn(&session, "Go.");
    host.event_where("tool/progress", |params| params["text"] == "up\n");
    let asked = Instant::now();
    assert_eq!(at.says(&["stop"]).1, Some(0));
    assert!(
        asked.elapsed() < Duration::from_secs(7),
        "{:?}",
        asked.elapsed()
    );
    at.scratch
        .mark
        .assert_gone(&[host.pid()], Duration::from_secs(1));
    // Hosts have seen how it ended.
    assert_eq!(host.ended(&turn)["reason"], "cancelled");
    host.exit(DEADLINE);
    host.forget_stderr();
    let mut host = at.host();
    let resumed = host.request("session/resume", json!({"sessionId": session}));
    assert_eq!(resumed["session"]["status"], "idle");
}

#[test]
fn a_shutdown_is_that_of_one_host() {
    let at = Daemon::with_script(SAYS_OK);
    let mut one = at.host();
    let mut other = at.host();
    let session = one.create(&at.scratch, json!({}));
    one.request("shutdown", json!({}));
    assert_eq!(one.exit(DEADLINE).code(), Some(0));
    other.request("session/attach", json!({"sessionId": session}));
    let turn = other.turn(&session, "Go.");
    assert_eq!(other.ended(&turn)["reason"], "completed");
}

#[test]
fn it_outlives_the_terminal_of_its_starter() {
    let at = Daemon::with_script(SAYS_OK);
    let mut host = at.host();
    let pid = at.pid();
    // A closed terminal says so to the group of whoever ran in it.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let (group, session, terminal) = (fields[2], fields[3], fields[4]);
    assert_eq!((group, session), (&*pid.to_string(), &*pid.to_string()));
    assert_eq!(terminal, "0", "it has no terminal");
    let hangup = Command::new("kill")
        .args(["-HUP", &pid.to_string()])
        .status();
    assert!(hangup.unwrap().success());
    host.request("ping", json!({}));
    host.close(DEADLINE);
    assert_eq!(at.status()["hosts"].as_array().unwrap().len(), 1);
    assert_eq!(at.pid(), pid);
}

#[test]
fn a_killed_one_is_replaced_and_its_hosts_are_told() {
    let at = Daemon::with_script(SAYS_OK);
    let mut host = at.host();
    let session = host.create(&at.scratch, json!({}));
    let turn = host.turn(&session, "Go.");
    host.ended(&turn);
    let killed = at.pid();
    let kill = Command::new("kill")
        .args(["-KILL", &killed.to_string()])
        .status();
    assert!(kill.unwrap().success());
    assert_eq!(host.exit(DEADLINE).code(), Some(1));
    assert!(
        host.stderr().contains("the daemon has ended"),
        "{}",
        host.stderr()
    );
    host.forget_stderr();
    let mut host = at.host();
    assert_ne!(at.pid(), killed);
    let resumed = host.request(
        "session/resume",
        json!({"sessionId": session, "replay": "transcript"}),
    );
    assert_eq!(resumed["transcript"]["items"][0]["turnId"], json!(turn));
    until("the record of the killed one to be removed", || {
        !at.run_dir().join(format!("{killed}.json")).exists()
    });
}

/// A command that goes on until the test writes a file.
fn held(file: &str) -> String {
    format!("while [ ! -e {file} ]; do sleep 0.02; done")
}

#[test]
fn turns_and_tasks_go_on_when_the_last_host_has_left() {
    let background = json!({"tool_call": {"name": "Bash", "args": {
        "command": held("later"), "description": "the test's task", "run_in_background": true,
    }}});
    let foreground =
        json!({"tool_call": {"name": "Bash", "args": {"command": held("go"), "timeout": 60}}});
    let script = json!({
        "turns": [{"steps": [background]}, {"steps": [foreground]}, {"steps": [{"text": "Done."}]}],
        "on_exhausted": "repeat_last",
    });
    let at = Daemon::with_script(&script.to_string());
    let mut host = at.host();
    let session = host.create(&at.scratch, json!({"mode": "yolo"}));
    let turn = host.turn(&session, "Go.");
    host.event("task/started");
    host.event_where("tool/running", |params| params["toolCallId"] == "call_2");
    let seqs = host
        .seen()
        .iter()
        .filter_map(|said| said["params"]["seq"].as_u64());
    let last = seqs.max();
    host.close(DEADLINE);

    until("the host to be let go", || {
        at.status()["hosts"].as_array().unwrap().len() == 1
    });
    assert_eq!(at.status()["runningTurns"], 1);
    at.scratch.write("go", "");
    until("the turn to end", || at.status()["runningTurns"] == 0);
    at.scratch.write("later", "");
    // What the task's end has to say is told to the model, with nobody there.
    let told = || {
        fs::read_to_string(at.scratch.trace())
            .unwrap()
            .contains("source_id")
    };
    until("the model to be told", told);
    until("that turn to end", || at.status()["runningTurns"] == 0);

    let mut host = at.host();
    let back = json!({"sessionId": session, "afterSeq": last});
    let attached = host.request("session/attach", back);
    assert_ne!(attached["resync"], true, "{attached}");
    assert_eq!(host.ended(&turn)["reason"], "completed");
    assert_eq!(host.event("task/ended")["task"]["status"], "completed");
    let woken = host.event_where("turn/started", |params| params["origin"] == "task");
    let ended = host.ended(woken["turnId"].as_str().unwrap());
    assert_eq!(ended["reason"], "completed");
}

const ASKS: &str = "turns:\n- steps: [{tool_call: {name: Bash, args: {command: touch asked}}}]\n- steps: [{text: ok}]\non_exhausted: repeat_last";

#[test]
fn an_approval_waits_for_the_next_host() {
    let at = Daemon::with_script(ASKS);
    let mut host = at.host();
    let session = host.create(&at.scratch, json!({}));
    let turn = host.turn(&session, "Go.");
    let asked = host.wait("approval/request", |said| {
        said["method"] == "approval/request"
    });
    // It dies without a word.
    host.kill();
    let mut next = at.host();
    let open = next.request("approval/list", json!({"sessionId": session}));
    assert_eq!(
        open["items"][0]["approvalId"],
        asked["params"]["approvalId"]
    );
    next.answer_approvals("allow_once");
    next.request("session/attach", json!({"sessionId": session}));
    assert_eq!(next.ended(&turn)["reason"], "completed");
    assert!(at.scratch.file("asked").exists());
}

#[test]
fn an_approval_outlives_the_daemon() {
    let at = Daemon::with_script(ASKS);
    let mut host = at.host();
    let session = host.create(&at.scratch, json!({}));
    let turn = host.turn(&session, "Go.");
    let asked = host.wait("approval/request", |said| {
        said["method"] == "approval/request"
    });
    assert_eq!(at.says(&["stop"]).1, Some(0));
    host.exit(DEADLINE);
    host.forget_stderr();
    let mut next = at.host();
    next.answer(move |method, params| {
        assert_eq!(method, "approval/request");
        assert_eq!(params["approvalId"], asked["params"]["approvalId"]);
        Answer::Result(json!({"optionId": "allow_once"}))
    });
    next.request("session/resume", json!({"sessionId": session}));
    assert_eq!(next.ended(&turn)["reason"], "completed");
    assert!(at.scratch.file("asked").exists());
}

#[test]
fn an_approval_that_nobody_comes_for_is_refused() {
    let at = Daemon::with_script(ASKS);
    at.scratch
        .configure_more("[permission]\ndetached_wait_s = 1\n");
    let mut host = at.host();
    let session = host.create(&at.scratch, json!({}));
    let turn = host.turn(&session, "Go.");
    host.wait("approval/request", |said| {
        said["method"] == "approval/request"
    });
    host.close(DEADLINE);
    until("the turn to end", || at.status()["runningTurns"] == 0);
    let mut host = at.host();
    let back = json!({"sessionId": session, "afterSeq": 0});
    host.request("session/attach", back);
    let completed = host.event("tool/completed");
    assert_eq!(completed["isError"], true, "{completed}");
    assert_eq!(host.ended(&turn)["reason"], "completed");
    assert!(!at.scratch.file("asked").exists());
}

#[test]
fn a_job_fires_with_no_host() {
    let at = Daemon::with_script(SAYS_OK);
    at.set_clock("2026-03-01T08:00:00Z");
    let mut host = at.host();
    let session = host.create(&at.scratch, json!({"timezone": "UTC"}));
    let job = json!({"sessionId": session, "prompt": "Look.", "cron": "0 9 * * *"});
    host.request("cron/create", job);
    host.close(DEADLINE);
    until("the host to be let go", || {
        at.status()["hosts"].as_array().unwrap().len() == 1
    });
    at.set_clock("2026-03-01T09:00:00Z");
    let fired =
        || fs::read_to_string(at.scratch.trace()).is_ok_and(|trace| trace.contains("Look."));
    until("the job to fire", fired);
    let mut host = at.host();
    let back = json!({"sessionId": session, "afterSeq": 0});
    host.request("session/attach", back);
    let fired = host.event("cron/fired");
    assert_eq!(fired["idealAt"], "2026-03-01T09:00:00.000+00:00");
    let ended = host.ended(fired["turnId"].as_str().unwrap());
    assert_eq!(ended["reason"], "completed");
}

/// Has the record of the running daemon say another version.
fn pretend_version(at: &Daemon, version: &str) {
    let mut record = at.record();
    record["version"] = json!(version);
    let path = at.run_dir().join(format!("{}.json", at.pid()));
    fs::write(path, record.to_string()).unwrap();
}

#[test]
fn another_version_is_said_and_a_newer_one_takes_over_when_no_turn_runs() {
    let foreground =
        json!({"tool_call": {"name": "Bash", "args": {"command": held("go"), "timeout": 60}}});
    let script = json!({"turns": [{"steps": [foreground]}, {"steps": [{"text": "ok"}]}], "on_exhausted": "repeat_last"});
    let at = Daemon::with_script(&script.to_string());
    let mut host = at.host();
    let old = at.pid();
    pretend_version(&at, "99.0.0");
    assert_eq!(at.says(&["start"]).1, Some(0));
    assert_eq!(at.pid(), old, "an older one takes nothing over");
    pretend_version(&at, "0.0.1");
    let mut warned = at.host();
    let said = warned.stderr();
    assert!(
        said.contains("of version 0.0.1") && said.contains("longshore daemon start"),
        "{said}"
    );
    warned.forget_stderr();
    warned.close(DEADLINE);

    let session = host.create(&at.scratch, json!({"mode": "yolo"}));
    let turn = host.turn(&session, "Go.");
    host.event("tool/running");
    let mut start = at
        .command(&["daemon", "start"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The turn goes on, and so does everything else.
    host.request("ping", json!({}));
    host.request("session/list", json!({}));
    assert_eq!((start.try_wait().unwrap(), at.pid()), (None, old));
    at.scratch.write("go", "");
    assert_eq!(host.ended(&turn)["reason"], "completed");
    assert!(start.wait().unwrap().success());
    assert_ne!(at.pid(), old);
    assert_ended(old, DEADLINE);
    assert_eq!(host.exit(DEADLINE).code(), Some(1));
    host.forget_stderr();
    let mut host = at.host();
    let resumed = host.request("session/resume", json!({"sessionId": session}));
    assert_eq!(resumed["session"]["turnCount"], 1, "{resumed}");
}

#[test]
fn what_is_taken_from_under_it_is_put_back_or_given_up() {
    let at = Daemon::with_script(SAYS_OK);
    let mut host = at.host();
    let first = at.pid();
    fs::remove_file(at.socket()).unwrap();
    until("the socket to be back", || at.socket().exists());
    at.host().request("ping", json!({}));
    assert_eq!(at.pid(), first);
    host.request("ping", json!({}));
    // Without its directory it can't be told from one that is none; the next one takes its place, and it goes.
    fs::remove_dir_all(at.run_dir()).unwrap();
    let mut next = at.host();
    assert_ne!(at.pid(), first);
    assert_eq!(host.exit(DEADLINE).code(), Some(1));
    host.forget_stderr();
    assert_ended(first, DEADLINE);
    next.request("ping", json!({}));
    assert!(at.socket().exists());
}

#[test]
fn bytes_are_carried_as_they_are() {
    let at = Daemon::with_script(SAYS_OK);
    let mut host = at.host();
    // A line of many megabytes, one that is none of JSON's, and ids of every spelling.
    let padding = " ".repeat(12 << 20);
    host.write(
        format!("{{\"jsonrpc\":\"2.0\",{padding}\"id\":1e2,\"method\":\"ping\"}}\r\n").as_bytes(),
    );
    host.write(b"\xff\n{\"id\":\"\\u0061\",\"method\":\"ping\"}\n");
    for line in [
        "{\"jsonrpc\":\"2.0\",\"id\":1e2,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\",\"result\":{}}",
    ] {
        let wanted: Value = serde_json::from_str(line).unwrap();
        host.wait(line, |said| *said == wanted);
        assert!(host.raw().iter().any(|said| said == line), "{line}");
    }
    host.wait("a parse error", |said| said["error"]["code"] == -32700);
    // One that has said all it has to say still hears the answers, however slowly it listens.
    host.pause();
    let ids: Vec<Value> = (0..500)
        .map(|_| host.send("model/list", json!({"more": "x".repeat(10_000)})))
        .collect();
    drop(host.take_stdin());
    host.read_on();
    for id in ids {
        host.reply(&id).unwrap();
    }
    assert_eq!(host.exit(DEADLINE).code(), Some(0));
}

#[test]
fn a_program_that_was_replaced_is_said_to_be() {
    let at = Daemon::with_script(SAYS_OK);
    let bin = Path::new(env!("CARGO_BIN_EXE_longshore"));
    let program = at.scratch.root().join("longshore");
    if fs::hard_link(bin, &program).is_err() {
        fs::copy(bin, &program).unwrap();
    }
    let started = at
        .scratch
        .command(&program)
        .args(["daemon", "start"])
        .output();
    assert!(started.unwrap().status.success());
    let mut host = at.attach();
    let warnings = |hello: Value| hello["warnings"].as_array().unwrap().clone();
    assert_eq!(warnings(host.initialize(json!({}))), [] as [Value; 0]);
    // As an installer does: the new file takes the name of the old one.
    let fresh = program.with_extension("new");
    fs::write(&fresh, "the next version").unwrap();
    fs::rename(fresh, &program).unwrap();
    let mut host = at.attach();
    let warned = warnings(host.initialize(json!({})));
    assert_eq!(warned[0]["topic"], "daemon", "{warned:?}");
    let message = warned[0]["message"].as_str().unwrap();
    assert!(
        message.contains("longshore daemon stop --when-quiet"),
        "{message}"
    );
}

#[test]
fn in_the_foreground_it_says_where_it_listens_and_ends_by_a_signal() {
    let at = Daemon::with_script(SAYS_OK);
    for signal in ["-INT", "-TERM"] {
        if signal == "-INT" && !heeds_interrupts() {
            continue;
        }
        let mut daemon = at.command(&["daemon"]);
        let mut daemon = daemon
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut stdout = BufReader::new(daemon.stdout.take().unwrap());
        stdout.read_line(&mut said).unwrap();
        assert_eq!(said, format!("listening at {}\n", at.socket().display()));
        // There can be no other.
        let other = at.daemon(&[]);
        assert_eq!(other.status.code(), Some(1), "{other:?}");
        let why = String::from_utf8(other.stderr).unwrap();
        assert!(
            why.contains(&format!("process {} is the daemon already", daemon.id())),
            "{why}"
        );
        let mut host = at.host();
        assert_eq!(at.record()["begunBy"], "person");
        let kill = Command::new("kill")
            .args([signal, &daemon.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        let ended = daemon.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), ended.stderr), (Some(0), Vec::new()));
        host.exit(DEADLINE);
        host.forget_stderr();
    }
}

#[test]
fn a_stop_can_wait_until_no_turn_runs() {
    let foreground =
        json!({"tool_call": {"name": "Bash", "args": {"command": held("go"), "timeout": 60}}});
    let script = json!({"turns": [{"steps": [foreground]}, {"steps": [{"text": "ok"}]}]});
    let at = Daemon::with_script(&script.to_string());
    let mut host = at.host();
    let session = host.create(&at.scratch, json!({"mode": "yolo"}));
    let turn = host.turn(&session, "Go.");
    host.event("tool/running");
    let mut stop = at
        .command(&["daemon", "stop", "--when-quiet"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    host.request("ping", json!({}));
    assert_eq!(stop.try_wait().unwrap(), None);
    at.scratch.write("go", "");
    assert_eq!(host.ended(&turn)["reason"], "completed");
    assert!(stop.wait().unwrap().success());
    host.exit(DEADLINE);
    host.forget_stderr();
}

#[test]
fn nobody_there_means_less_and_then_no_daemon() {
    let at = Daemon::with_script(SAYS_OK);
    at.scratch
        .configure_more("[session]\nunload_idle_s = 1800\n[daemon]\nidle_exit_s = 1800\n");
    at.set_clock("2026-03-01T08:00:00Z");
    let mut host = at.host();
    let pid = at.pid();
    let session = host.create(&at.scratch, json!({}));
    let turn = host.turn(&session, "Go.");
    host.ended(&turn);
    host.request("session/detach", json!({"sessionId": session}));
    let loaded =
        |host: &mut TestServer| host.request("server/status", json!({}))["loadedSessions"].clone();
    // Two looks at the least lie between the times: one that sees it rest, and one that finds it has rested.
    let mut minute = 0;
    while loaded(&mut host) == 1 {
        minute += 1;
        assert!(minute < 600, "it stays");
        at.set_clock(&format!(
            "2026-03-01T{:02}:{:02}:00Z",
            8 + minute / 60,
            minute % 60
        ));
    }
    assert!(minute >= 30, "unloaded after {minute} minutes");
    // A host is there: the daemon stays.
    at.set_clock("2026-03-02T08:00:00Z");
    host.request("ping", json!({}));
    host.close(DEADLINE);
    let day = Cell::new(2);
    until("the daemon to end", || {
        day.set(day.get() + 1);
        at.set_clock(&format!(
            "2026-{:02}-{:02}T08:00:00Z",
            3 + day.get() / 28 % 9,
            1 + day.get() % 28
        ));
        at.scratch
            .mark
            .processes()
            .iter()
            .all(|process| process.pid != pid)
    });
    assert!(!at.socket().exists());
    // Whoever comes next gets another one, and the session.
    let mut host = at.host();
    assert_ne!(at.pid(), pid);
    host.request("session/resume", json!({"sessionId": session}));
}
