//! Ten hosts of one session, most of them bad ones, while a model says megabytes: all end with the same durable events.
//!
//! 20 MB in the normal run, 200 MB with `LONGSHORE_TEST_SCALE=1`. The bound of the memory is asserted and printed.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that says what it measured"
)]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use longshore::face::native::Native;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::{Host, MEMORY, Server, pss_bytes};

/// One message of the model.
const MESSAGE_BYTES: usize = 256 << 10;
/// What each of its deltas holds.
const DELTA_BYTES: usize = 256;

/// Hosts that read all the time; the first of them starts the turns.
const HEALTHY: usize = 4;
/// Hosts that read nothing until the end.
const STALLED: usize = 3;
/// Hosts that leave and come back with `afterSeq`.
const RETURNING: usize = 2;
// And one that reads a byte a second.

/// What the hosts may cost beside what was said itself, which the session remembers: the full queues of the four hosts
/// that do not read ([`longshore::kernel::limits::HOST_QUEUE_BYTES`] each), what is on its way to the others, and what
/// an allocator keeps.
const HOSTS_BYTES: u64 = 4 * (16 << 20) + (96 << 20);

/// A durable event as a host got it: its number and what its whole line hashes to.
type Got = (u64, u64);

/// What the durable events of a session were to one host.
struct Seen {
    who: String,
    got: Vec<Got>,
    n_resyncs: usize,
}

impl Seen {
    fn new(who: impl Into<String>) -> Self {
        Self {
            who: who.into(),
            got: Vec::new(),
            n_resyncs: 0,
        }
    }

    fn last(&self) -> u64 {
        self.got.last().map_or(0, |(seq, _)| *seq)
    }

    /// Takes in a line; true where it says that the turn has ended.
    fn take(&mut self, line: &str) -> bool {
        let head = &line[..line.len().min(60)];
        // Most lines are these; a host that is to keep up with a machine does not take them apart.
        if head.contains("\"message/delta\"") {
            return false;
        }
        if head.contains("\"resync\"") {
            self.n_resyncs += 1;
        }
        let message: Value = serde_json::from_str(line).unwrap();
        if let Some(seq) = message["params"]["seq"].as_u64() {
            assert_eq!(seq, self.last() + 1, "{}: no gap, no repeat", self.who);
            let mut hasher = DefaultHasher::new();
            line.hash(&mut hasher);
            self.got.push((seq, hasher.finish()));
        }
        message["method"] == "turn/ended"
    }

    /// Reads until the last event is there.
    async fn read_to(&mut self, host: &mut Host, last: u64) {
        let mut line = String::new();
        while self.last() < last {
            host.line(&mut line).await;
            self.take(&line);
        }
    }
}

fn script() -> String {
    let text = "0123456789abcdef".repeat(DELTA_BYTES / 16);
    let step = json!({"repeat": {"count": MESSAGE_BYTES / DELTA_BYTES, "step": {"text": text}}});
    json!({"defaults": {"chunk": "whole"}, "on_exhausted": "repeat_last", "turns": [{"steps": [step]}]})
        .to_string()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_hosts_end_with_the_same_events() {
    let _gauge = MEMORY.lock().await;
    let n_turns = if std::env::var_os("LONGSHORE_TEST_SCALE").is_some() {
        800
    } else {
        80
    };
    let mut server = Server::start();
    let mut driver = server.host().await;
    let params =
        json!({"cwd": server.workspace(), "model": "demo", "mode": "yolo", "script": script()});
    let created = driver.request(2, "session/create", params).await;
    let session = created["session"]["sessionId"].as_str().unwrap().to_owned();
    let (over, ended) = watch::channel(0_u64);
    let mut others = JoinSet::new();
    for n in 1..HEALTHY {
        let host = attached(&mut server, &session).await;
        others.spawn(steady(host, n_turns, format!("healthy {n}")));
    }
    for n in 0..STALLED {
        let host = attached(&mut server, &session).await;
        others.spawn(stalled(host, ended.clone(), format!("stalled {n}")));
    }
    let host = attached(&mut server, &session).await;
    others.spawn(dripping(host, ended.clone()));
    for n in 0..RETURNING {
        let (native, session, ended) = (server.native(), session.clone(), ended.clone());
        others.spawn(async move { returning(native, &session, ended, n as u64).await });
    }
    drop(ended);

    let before = pss_bytes();
    let (mut seen, mut peak, mut line) = (Seen::new("driver"), before, String::new());
    for turn in 0..n_turns {
        let params = json!({"sessionId": session, "input": "Go on."});
        driver.send(3 + turn, "turn/start", params).await;
        loop {
            driver.line(&mut line).await;
            if seen.take(&line) {
                break;
            }
        }
        peak = peak.max(pss_bytes());
    }
    assert_eq!(seen.n_resyncs, 0, "the driver kept up");
    over.send_replace(seen.last());
    let mut results = vec![seen];
    while let Some(result) = others.join_next().await {
        results.push(result.unwrap());
        peak = peak.max(pss_bytes());
    }

    assert_eq!(results.len(), HEALTHY + STALLED + 1 + RETURNING);
    let driver = &results[0];
    assert_eq!(driver.got.len() as u64, driver.last());
    for result in &results[1..] {
        assert_eq!(result.got, driver.got, "{}", result.who);
    }
    let said = n_turns * MESSAGE_BYTES as u64;
    let grown = peak - before;
    let n_resyncs: usize = results.iter().map(|result| result.n_resyncs).sum();
    println!(
        "{} MiB said, {} durable events at each of {} hosts, {n_resyncs} resyncs; memory grew by {} MiB at most",
        said >> 20,
        driver.got.len(),
        results.len(),
        grown >> 20
    );
    assert!(
        grown <= said + HOSTS_BYTES,
        "grew by {} MiB, of which the session remembers {} MiB",
        grown >> 20,
        said >> 20
    );
    server.stop().await;
}

async fn attached(server: &mut Server, session: &str) -> Host {
    let mut host = server.host().await;
    let params = json!({"sessionId": session, "afterSeq": 0});
    host.request(2, "session/attach", params).await;
    host
}

async fn finished(mut ended: watch::Receiver<u64>) -> u64 {
    *ended.wait_for(|last| *last > 0).await.unwrap()
}

async fn steady(mut host: Host, n_turns: u64, who: String) -> Seen {
    let (mut seen, mut line, mut n_ended) = (Seen::new(who), String::new(), 0);
    while n_ended < n_turns {
        host.line(&mut line).await;
        n_ended += u64::from(seen.take(&line));
    }
    seen
}

async fn stalled(mut host: Host, ended: watch::Receiver<u64>, who: String) -> Seen {
    let mut seen = Seen::new(who);
    let last = finished(ended).await;
    seen.read_to(&mut host, last).await;
    seen
}

/// Reads a byte a second until the turns are over.
async fn dripping(mut host: Host, ended: watch::Receiver<u64>) -> Seen {
    let (mut begun, mut byte) = (Vec::new(), [0]);
    let over = finished(ended);
    tokio::pin!(over);
    let last = loop {
        tokio::select! {
            last = &mut over => break last,
            () = tokio::time::sleep(Duration::from_secs(1)) => {
                host.reader.read_exact(&mut byte).await.unwrap();
                begun.push(byte[0]);
            }
        }
    };
    // What was read so far is the beginning of a line, or some lines and one.
    let mut seen = Seen::new("dripping");
    let mut text = String::from_utf8(begun).unwrap();
    if !text.is_empty() && !text.ends_with('\n') {
        let mut rest = String::new();
        host.line(&mut rest).await;
        text.push_str(&rest);
    }
    for line in text.split_inclusive('\n') {
        seen.take(line);
    }
    seen.read_to(&mut host, last).await;
    seen
}

/// Leaves after some lines, without a word, and comes back for what it missed.
async fn returning(
    native: Arc<Native>,
    session: &str,
    ended: watch::Receiver<u64>,
    seed: u64,
) -> Seen {
    let mut seen = Seen::new(format!("returning {seed}"));
    let (mut serving, mut line, mut random) = (JoinSet::new(), String::new(), seed + 1);
    loop {
        let mut host = come_back(&native, &mut serving, session, &seen).await;
        // A few numbers that jump about are random enough.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        for _ in 0..random >> 54 {
            tokio::select! {
                () = host.line(&mut line) => { seen.take(&line); }
                // What was begun of a line comes again with the rest.
                last = finished(ended.clone()) => {
                    drop(host);
                    let mut host = come_back(&native, &mut serving, session, &seen).await;
                    seen.read_to(&mut host, last).await;
                    return seen;
                }
            }
        }
    }
}

async fn come_back(
    native: &Arc<Native>,
    serving: &mut JoinSet<()>,
    session: &str,
    seen: &Seen,
) -> Host {
    let mut host = Host::connect(native, serving).await;
    let params = json!({"sessionId": session, "afterSeq": seen.last()});
    let attached = host.request(2, "session/attach", params).await;
    assert_ne!(attached["resync"], true, "{}", seen.who);
    host
}
