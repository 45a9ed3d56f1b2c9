//! Ten hosts on the socket of one daemon, most of them bad ones, while a model says megabytes.
//!
//! 20 MB in the normal run, 200 MB with `LONGSHORE_TEST_SCALE=1`. All hosts end with the same durable events, and the
//! daemon's memory stays within a bound that is asserted and printed.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::support::server::DEADLINE;

/// One message of the model.
const MESSAGE_BYTES: usize = 256 << 10;
/// What each of its deltas holds.
const DELTA_BYTES: usize = 1024;
/// Hosts that read all the time, beside the one that starts the turns.
const HEALTHY: usize = 3;
/// Hosts that read nothing until the end.
const STALLED: usize = 3;
/// Hosts that leave and come back with `afterSeq`.
const RETURNING: usize = 2;
// And one that reads a byte a second.

/// What the hosts may cost the daemon beside what was said, which the session remembers: the queues of the four that do
/// not read, of 16 MiB each, what is on its way to the others, and what an allocator keeps.
const HOSTS_BYTES: u64 = 4 * (16 << 20) + (96 << 20);

/// How long a read waits before it looks whether all is over.
const LOOK: Duration = Duration::from_millis(50);

/// One end of a connection, and the durable events that came over it and those before it.
struct Host {
    reader: BufReader<UnixStream>,
    /// What came of the next line so far.
    line: Vec<u8>,
    /// When a line came last.
    heard: Instant,
    /// Number and hash of each durable event.
    got: Vec<(u64, u64)>,
    n_ended: u64,
    n_resyncs: usize,
}

impl Host {
    fn connect(socket: &Path, session: Option<&str>, got: Vec<(u64, u64)>) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(LOOK)).unwrap();
        let mut host = Self {
            reader: BufReader::new(stream),
            line: Vec::new(),
            heard: Instant::now(),
            got,
            n_ended: 0,
            n_resyncs: 0,
        };
        let hello = json!({"protocolVersion": 1, "host": {"name": "e2e", "version": "1"}});
        host.request("initialize", hello);
        if let Some(session) = session {
            let params = json!({"sessionId": session, "afterSeq": host.last()});
            let attached = host.request("session/attach", params);
            assert_ne!(attached["resync"], true);
        }
        host
    }

    fn last(&self) -> u64 {
        self.got.last().map_or(0, |(seq, _)| *seq)
    }

    fn send(&mut self, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(self.reader.get_mut(), "{line}").unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params);
        loop {
            let Some(message) = self.take() else { continue };
            if message["id"] == 1 && message.get("method").is_none() {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// Takes the next line; nothing where it is a delta, or none came for a while.
    fn take(&mut self) -> Option<Value> {
        match self.reader.read_until(b'\n', &mut self.line) {
            Ok(0) => panic!("the daemon hung up"),
            Ok(_) => {}
            Err(error) => {
                let kinds = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
                assert!(kinds.contains(&error.kind()), "{error}");
                assert!(self.heard.elapsed() < DEADLINE, "nothing more came");
                return None;
            }
        }
        self.take_line()
    }

    fn take_line(&mut self) -> Option<Value> {
        self.heard = Instant::now();
        let line = std::mem::take(&mut self.line);
        // Most lines are these; a host that is to keep up with a machine does not take them apart.
        if line.starts_with(b"{\"jsonrpc\":\"2.0\",\"method\":\"message/delta\"") {
            return None;
        }
        let message: Value = serde_json::from_slice(&line).unwrap();
        if let Some(seq) = message["params"]["seq"].as_u64() {
            assert_eq!(seq, self.last() + 1, "no gap, no repeat");
            let mut hasher = DefaultHasher::new();
            line.hash(&mut hasher);
            self.got.push((seq, hasher.finish()));
        }
        self.n_ended += u64::from(message["method"] == "turn/ended");
        self.n_resyncs += usize::from(message["method"] == "resync");
        Some(message)
    }

    fn read_to(&mut self, last: u64) {
        self.heard = Instant::now();
        while self.last() < last {
            self.take();
        }
    }
}

/// Proportional memory of a process, in bytes.
fn pss_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.unwrap().trim().trim_end_matches("kB").trim();
    kib.parse::<u64>().unwrap() * 1024
}

#[test]
#[cfg(target_os = "linux")]
fn ten_hosts_of_a_daemon_end_with_the_same_events() {
    let n_turns = if std::env::var_os("LONGSHORE_TEST_SCALE").is_some() {
        800
    } else {
        80
    };
    let text = "0123456789abcdef".repeat(DELTA_BYTES / 16);
    let step = json!({"repeat": {"count": MESSAGE_BYTES / DELTA_BYTES, "step": {"text": text}}});
    let script = json!({
        "defaults": {"chunk": "whole"},
        "on_exhausted": "repeat_last",
        "turns": [{"steps": [step]}],
    });
    let at = Daemon::with_script(&script.to_string());
    assert_eq!(at.says(&["start"]).1, Some(0));
    let (socket, pid) = (at.socket(), at.pid());
    let mut driver = Host::connect(&socket, None, Vec::new());
    let params = json!({"cwd": at.scratch.repository(), "mode": "yolo"});
    let created = driver.request("session/create", params);
    let session = created["session"]["sessionId"].as_str().unwrap().to_owned();
    let over = AtomicU64::new(0);
    let before = pss_bytes(pid);
    let mut peak = before;
    let results = thread::scope(|scope| {
        let host = || Host::connect(&socket, Some(&session), Vec::new());
        let mut others = Vec::new();
        for _ in 0..HEALTHY {
            let mut host = host();
            others.push(scope.spawn(move || {
                while host.n_ended < n_turns {
                    host.take();
                }
                host
            }));
        }
        for _ in 0..STALLED {
            let (mut host, over) = (host(), &over);
            others.push(scope.spawn(move || {
                host.read_to(finished(over));
                host
            }));
        }
        let (dripping, over) = (host(), &over);
        others.push(scope.spawn(move || drip(dripping, over)));
        for n in 0..RETURNING {
            let (socket, session) = (socket.clone(), session.clone());
            others.push(scope.spawn(move || come_and_go(&socket, &session, over, n as u64)));
        }
        for turn in 1..=n_turns {
            let params = json!({"sessionId": session, "input": "Go on."});
            driver.send("turn/start", params);
            while driver.n_ended < turn {
                driver.take();
            }
            peak = peak.max(pss_bytes(pid));
        }
        over.store(driver.last(), Ordering::SeqCst);
        let results: Vec<Host> = others
            .into_iter()
            .map(|other| other.join().unwrap())
            .collect();
        peak = peak.max(pss_bytes(pid));
        results
    });
    assert_eq!(results.len() + 1, 10);
    assert_eq!(driver.n_resyncs, 0, "the driver kept up");
    for (n, host) in results.iter().enumerate() {
        assert_eq!(host.got, driver.got, "host {n}");
    }
    let (said, grown) = (n_turns * MESSAGE_BYTES as u64, peak - before);
    println!(
        "{} MiB said, {} durable events at each of 10 hosts of a daemon; its memory grew by {} MiB at most",
        said >> 20,
        driver.got.len(),
        grown >> 20
    );
    assert!(grown <= said + HOSTS_BYTES, "grew by {} MiB", grown >> 20);
}

/// The number of the last event, once there is one.
fn finished(over: &AtomicU64) -> u64 {
    loop {
        let last = over.load(Ordering::SeqCst);
        if last > 0 {
            return last;
        }
        thread::sleep(LOOK);
    }
}

/// Reads a byte a second until all is over.
fn drip(mut host: Host, over: &AtomicU64) -> Host {
    let (mut next, mut byte) = (Instant::now(), [0]);
    while over.load(Ordering::SeqCst) == 0 {
        if Instant::now() >= next && host.reader.read(&mut byte).is_ok_and(|n| n == 1) {
            host.line.push(byte[0]);
            if byte[0] == b'\n' {
                host.take_line();
            }
            next += Duration::from_secs(1);
        }
        thread::sleep(Duration::from_millis(10));
    }
    host.read_to(finished(over));
    host
}

/// Leaves after some lines, without a word, and comes back for what it missed.
fn come_and_go(socket: &Path, session: &str, over: &AtomicU64, seed: u64) -> Host {
    let (mut got, mut random) = (Vec::new(), seed + 1);
    loop {
        let mut host = Host::connect(socket, Some(session), got);
        // A few numbers that jump about are random enough.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        for _ in 0..random >> 54 {
            let last = over.load(Ordering::SeqCst);
            if last > 0 {
                host.read_to(last);
                return host;
            }
            host.take();
        }
        got = host.got;
    }
}
