//! The built program as a server, and a host that does as little as possible.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A server process.
pub(crate) struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
    line: String,
}

impl Server {
    /// Starts one with a home of its own.
    pub(crate) fn start(home: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longshore"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("LONGSHORE_HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let output = BufReader::with_capacity(1 << 20, output);
        Self {
            child,
            input,
            output,
            next_id: 0,
            line: String::new(),
        }
    }

    /// Starts one and greets it.
    pub(crate) fn ready(home: &Path) -> Self {
        let mut server = Self::start(home);
        server.initialize();
        server
    }

    /// Greets it.
    pub(crate) fn initialize(&mut self) {
        let host = json!({"name": "bench", "version": "1"});
        self.call("initialize", json!({"protocolVersion": 1, "host": host}));
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request and waits for its answer, whatever else comes.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        loop {
            let message = self.read();
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params});
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{request}").unwrap();
        self.next_id
    }

    /// The next message.
    pub(crate) fn read(&mut self) -> Value {
        serde_json::from_str(self.read_line()).unwrap()
    }

    /// The next line, unread.
    pub(crate) fn read_line(&mut self) -> &str {
        self.line.clear();
        assert!(
            self.output.read_line(&mut self.line).unwrap() > 0,
            "the server is gone"
        );
        &self.line
    }

    /// Makes a session on a model.
    pub(crate) fn session(&mut self, cwd: &Path, model: &str, script: Option<&str>) -> String {
        let params = json!({"cwd": cwd, "model": model, "script": script, "mode": "yolo"});
        self.call("session/create", params)["session"]["sessionId"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Runs a turn to its end.
    pub(crate) fn turn(&mut self, session: &str) {
        self.send("turn/start", json!({"sessionId": session, "input": "go"}));
        self.until_end();
    }

    /// Runs a turn to its end and counts the calls that succeeded.
    pub(crate) fn turn_with_calls(&mut self, session: &str) -> usize {
        self.send("turn/start", json!({"sessionId": session, "input": "go"}));
        self.until_end()
    }

    /// Reads on until a turn has ended well, and counts the calls that succeeded meanwhile.
    pub(crate) fn until_end(&mut self) -> usize {
        let mut n_calls = 0;
        loop {
            let line = self.read_line();
            if line.contains("\"method\":\"tool/completed\"") && line.contains("\"isError\":false")
            {
                n_calls += 1;
            }
            if line.contains("\"method\":\"turn/ended\"") {
                assert!(line.contains("\"reason\":\"completed\""), "{line}");
                return n_calls;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        let status = self.child.wait().unwrap();
        if !std::thread::panicking() {
            assert!(status.success(), "the server ended with {status}");
        }
    }
}
