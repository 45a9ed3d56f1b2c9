//! The server under test and the host that talks to it.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Scratch;

/// For every wait: far beyond what anything takes, so that only a hang meets it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// What the host does with a reverse request.
pub(crate) enum Answer {
    /// This result.
    Result(Value),
    /// This error code.
    Error(i64),
    /// This error, whole.
    Refusal(Value),
    /// Nothing, now or ever.
    Silence,
}

type Answers = Box<dyn FnMut(&str, &Value) -> Answer + Send>;

/// A running server with one host.
pub(crate) struct TestServer {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    reading: Arc<(Mutex<bool>, Condvar)>,
    /// Everything the server said, in order.
    seen: Vec<Value>,
    /// The same as it came.
    raw: Vec<String>,
    /// Places in `seen` that a wait has taken.
    taken: HashSet<usize>,
    /// Ids of requests not answered yet.
    waiting: HashSet<String>,
    /// Ids that were sent more than once on purpose.
    reused: HashSet<String>,
    next_id: u64,
    answers: Option<Answers>,
    stderr: PathBuf,
    ended: bool,
    /// True where what it writes to stderr is expected.
    may_complain: bool,
}

impl TestServer {
    /// Starts the server of a scratch place, speaking the native protocol; nothing is sent yet.
    pub(crate) fn start(scratch: &Scratch) -> Self {
        Self::spawn(scratch, scratch.longshore())
    }

    /// Starts it and opens the connection as a host that can answer approvals and questions.
    pub(crate) fn open(scratch: &Scratch) -> Self {
        let mut server = Self::start(scratch);
        server.initialize(json!({"approvals": true, "questions": true}));
        server
    }

    /// Starts a command that speaks JSON-RPC on its standard streams.
    pub(crate) fn spawn(scratch: &Scratch, mut command: Command) -> Self {
        let stderr = tempfile::Builder::new()
            .prefix("stderr-")
            .tempfile_in(scratch.root())
            .unwrap();
        let stderr = stderr.into_temp_path().keep().unwrap();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        let reading = Arc::new((Mutex::new(true), Condvar::new()));
        let gate = reading.clone();
        thread::spawn(move || {
            loop {
                drop(
                    gate.1
                        .wait_while(gate.0.lock().unwrap(), |reading| !*reading)
                        .unwrap(),
                );
                let mut line = Vec::new();
                match stdout.read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) if sender.send(line).is_err() => return,
                    Ok(_) => {}
                }
            }
        });
        Self {
            child,
            stdin,
            lines,
            reading,
            seen: Vec::new(),
            raw: Vec::new(),
            taken: HashSet::new(),
            waiting: HashSet::new(),
            reused: HashSet::new(),
            next_id: 1,
            answers: None,
            stderr,
            ended: false,
            may_complain: false,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An id that the test sends more than once, so that it may be answered more than once.
    pub(crate) fn may_reuse(&mut self, id: &Value) {
        self.reused.insert(id.to_string());
    }

    /// Stops reading what the server says; what is in pipes and buffers by then may still come.
    pub(crate) fn pause(&mut self) {
        *self.reading.0.lock().unwrap() = false;
    }

    /// Reads again.
    pub(crate) fn read_on(&mut self) {
        *self.reading.0.lock().unwrap() = true;
        self.reading.1.notify_all();
    }

    /// The lines the server wrote so far, as they came.
    pub(crate) fn raw(&self) -> &[String] {
        &self.raw
    }

    /// How reverse requests are answered from here on.
    pub(crate) fn answer(&mut self, answers: impl FnMut(&str, &Value) -> Answer + Send + 'static) {
        self.answers = Some(Box::new(answers));
    }

    /// Answers every approval by this option.
    pub(crate) fn answer_approvals(&mut self, option: &'static str) {
        self.answer(move |method, _| {
            assert_eq!(method, "approval/request");
            Answer::Result(json!({"optionId": option}))
        });
    }

    /// Opens the connection.
    pub(crate) fn initialize(&mut self, capabilities: Value) -> Value {
        self.request(
            "initialize",
            json!({
                "protocolVersion": 1,
                "host": {"name": "e2e", "version": "1"},
                "capabilities": capabilities,
            }),
        )
    }

    /// Makes a session in the scratch repository and gives its id. `more` is merged into the params.
    pub(crate) fn create(&mut self, scratch: &Scratch, more: Value) -> String {
        let mut params = json!({"cwd": scratch.repository()});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let created = self.request("session/create", params);
        created["session"]["sessionId"].as_str().unwrap().to_owned()
    }

    /// Starts a turn and gives its id.
    pub(crate) fn turn(&mut self, session: &str, input: &str) -> String {
        let started = self.request("turn/start", json!({"sessionId": session, "input": input}));
        started["turnId"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of a turn and gives the params of `turn/ended`.
    pub(crate) fn ended(&mut self, turn: &str) -> Value {
        let turn = turn.to_owned();
        self.event_where("turn/ended", move |params| {
            params["turnId"] == turn.as_str()
        })
    }

    /// Sends a request and gives its result.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        match self.reply(&id) {
            Ok(result) => result,
            Err(error) => self.fail(&format!("{method} was refused: {error}")),
        }
    }

    /// Sends a request and gives its error.
    #[track_caller]
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        match self.reply(&id) {
            Ok(result) => self.fail(&format!("{method} was not refused: {result}")),
            Err(error) => error,
        }
    }

    /// Sends a request and gives its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> Value {
        let id = json!(self.next_id);
        self.next_id += 1;
        self.waiting.insert(id.to_string());
        self.write_value(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a notification.
    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.write_value(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// The reply to a request: its result or its error.
    #[track_caller]
    pub(crate) fn reply(&mut self, id: &Value) -> Result<Value, Value> {
        self.waiting.insert(id.to_string());
        let wanted = id.clone();
        let reply = self.wait(&format!("the reply to {id}"), move |message| {
            message.get("method").is_none() && message["id"] == wanted
        });
        self.waiting.remove(&id.to_string());
        match reply.get("error") {
            None => Ok(reply["result"].clone()),
            Some(error) => Err(error.clone()),
        }
    }

    /// The next event of this name that no earlier wait has taken.
    #[track_caller]
    pub(crate) fn event(&mut self, name: &str) -> Value {
        self.event_where(name, |_| true)
    }

    /// The next event of this name with such params.
    #[track_caller]
    pub(crate) fn event_where(
        &mut self,
        name: &str,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Value {
        let method = name.to_owned();
        let message = self.wait(name, move |message| {
            message["method"] == method.as_str()
                && message.get("id").is_none()
                && wanted(&message["params"])
        });
        message["params"].clone()
    }

    /// The first message that no wait has taken and that is wanted; takes it.
    #[track_caller]
    pub(crate) fn wait(&mut self, what: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        let end = Instant::now() + DEADLINE;
        let mut from = 0;
        loop {
            for at in from..self.seen.len() {
                if !self.taken.contains(&at) && wanted(&self.seen[at]) {
                    self.taken.insert(at);
                    return self.seen[at].clone();
                }
            }
            from = self.seen.len();
            match self
                .lines
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                Ok(line) => self.read(&line),
                Err(RecvTimeoutError::Timeout) => self.fail(&format!("no {what} came")),
                Err(RecvTimeoutError::Disconnected) => {
                    self.fail(&format!("the server ended before {what} came"))
                }
            }
        }
    }

    /// Reads and answers the server until something is so that no message tells.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, condition: impl Fn() -> bool) {
        let end = Instant::now() + DEADLINE;
        while !condition() {
            match self.lines.recv_timeout(Duration::from_millis(10)) {
                Ok(line) => self.read(&line),
                Err(RecvTimeoutError::Timeout) if Instant::now() < end => {}
                Err(error) => self.fail(&format!("waited for {what}: {error}")),
            }
        }
    }

    /// Everything the server said so far, in order.
    pub(crate) fn seen(&self) -> &[Value] {
        &self.seen
    }

    /// Names of the events of a session so far, in order.
    pub(crate) fn event_names(&self, session: &str) -> Vec<&str> {
        self.seen
            .iter()
            .filter(|message| {
                message.get("id").is_none() && message["params"]["sessionId"] == session
            })
            .filter_map(|message| message["method"].as_str())
            .collect()
    }

    /// Takes in one line of the server.
    fn read(&mut self, line: &[u8]) {
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) if line.ends_with(b"\n") => message,
            _ => self.fail(&format!(
                "not a line of JSON: {:?}",
                String::from_utf8_lossy(line)
            )),
        };
        let messages = match &message {
            Value::Array(messages) => messages.clone(),
            _ => vec![message.clone()],
        };
        for message in &messages {
            if message["jsonrpc"] != "2.0" {
                self.fail(&format!("not JSON-RPC 2.0: {message}"));
            }
            if message.get("method").is_some() {
                continue;
            }
            let again = self.seen.iter().any(|earlier| {
                earlier.get("method").is_none()
                    && !message["id"].is_null()
                    && earlier["id"] == message["id"]
            });
            if again && !self.reused.contains(&message["id"].to_string()) {
                self.fail(&format!("answered twice: {message}"));
            }
        }
        self.seen.push(message.clone());
        self.raw
            .push(String::from_utf8_lossy(line).trim_end().to_owned());
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
            return;
        };
        let Some(answers) = &mut self.answers else {
            return;
        };
        let reply = match answers(method, &message["params"]) {
            Answer::Result(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Answer::Error(code) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "the test says so"}})
            }
            Answer::Refusal(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
            Answer::Silence => return,
        };
        self.taken.insert(self.seen.len() - 1);
        self.write_value(&reply);
    }

    /// Writes one message.
    pub(crate) fn write_value(&mut self, message: &Value) {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        self.write(&line);
    }

    /// Writes bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        if let Err(error) = stdin.write_all(bytes).and_then(|()| stdin.flush()) {
            self.fail(&format!("the server does not read: {error}"));
        }
    }

    /// Gives stdin away, for a thread that writes.
    pub(crate) fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().unwrap()
    }

    /// Gives stdin back.
    pub(crate) fn put_stdin(&mut self, stdin: ChildStdin) {
        self.stdin = Some(stdin);
    }

    /// Reads what is said within a time, which is the test's own and waits for nothing.
    pub(crate) fn read_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while let Ok(line) = self
            .lines
            .recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            self.read(&line);
        }
    }

    /// Ends the process without a word, as `kill -9` does, and reads what it had said; half a line at the end is nothing
    /// said.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.ended = true;
        self.read_on();
        while let Ok(line) = self.lines.recv() {
            if line.ends_with(b"\n") {
                self.answers = None;
                self.read(&line);
            }
        }
    }

    /// What it writes to stderr is expected from here on: its disk is full.
    pub(crate) fn may_complain(&mut self) {
        self.may_complain = true;
    }

    /// What the server wrote to stderr.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// What was written to stderr was expected.
    pub(crate) fn forget_stderr(&mut self) {
        fs::write(&self.stderr, "").unwrap();
    }

    /// Closes stdin, reads what is still said, and gives the exit status.
    pub(crate) fn close(&mut self, within: Duration) -> ExitStatus {
        self.read_on();
        drop(self.stdin.take());
        self.exit(within)
    }

    /// Waits for the process to end by itself.
    pub(crate) fn exit(&mut self, within: Duration) -> ExitStatus {
        let end = Instant::now() + within;
        loop {
            match self
                .lines
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                Ok(line) => self.read(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => self.fail("stdout stays open"),
            }
        }
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.ended = true;
                return status;
            }
            if Instant::now() > end {
                self.fail("the process does not end");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Fails the test with everything that is known.
    #[track_caller]
    pub(crate) fn fail(&self, what: &str) -> ! {
        let mut said = String::new();
        let skipped = self.seen.len().saturating_sub(200);
        for (at, message) in self.seen.iter().enumerate().skip(skipped) {
            let mark = !self.taken.contains(&at);
            let mut line = message.to_string();
            if line.len() > 600 {
                let end = (0..=600)
                    .rev()
                    .find(|at| line.is_char_boundary(*at))
                    .unwrap_or(0);
                line.truncate(end);
            }
            said.extend([if mark { "* " } else { "  " }, &line, "\n"]);
        }
        panic!(
            "{what}\n--- said ({} messages; * not waited for) ---\n{said}--- stderr ---\n{}--- open requests: {:?}\n",
            self.seen.len(),
            self.stderr(),
            self.waiting,
        );
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            return;
        }
        if !self.ended {
            let status = self.close(DEADLINE);
            assert_eq!(
                status.code(),
                Some(0),
                "exit of the server; stderr: {}",
                self.stderr()
            );
            let answered: HashSet<String> = self
                .seen
                .iter()
                .filter(|said| said.get("method").is_none())
                .map(|said| said["id"].to_string())
                .collect();
            let open: Vec<&String> = self.waiting.difference(&answered).collect();
            assert!(open.is_empty(), "never answered: {open:?}");
        }
        if !self.may_complain {
            assert_eq!(self.stderr(), "", "a healthy run is silent on stderr");
        }
    }
}
