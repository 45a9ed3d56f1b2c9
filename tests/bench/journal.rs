//! Long journals: loading a session from one, and replaying it to a host.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use longshore::kernel::event::{CallOrigin, DomainEvent, Stamped, StateRecord};
use longshore::kernel::message::Part;
use longshore::kernel::port::{EventSink, Publish};
use longshore::os::clock::{Clock, SystemClock};
use longshore::os::fs::RealDisk;
use longshore::session::journal::write::{self, Journal, Opening};
use longshore::store::append_log::AppendLog;
use longshore_protocol::id::{AgentId, ItemId, SessionId, ToolCallId, TurnId};
use longshore_protocol::value::content::ContentPart;
use longshore_protocol::value::display::Display;
use longshore_protocol::value::session::Session;
use longshore_protocol::value::turn::{FinishReason, Origin, StopReason, TurnReason};
use longshore_protocol::value::usage::Usage;
use serde_json::json;

use super::Size;
use super::figures::{median, memory};
use super::rows::home;
use super::server::Server;
use super::table::{Bar, Table};

/// Bytes that the results of a turn's call take in a long journal, so that ten thousand turns take 100 MiB.
const LONG_OUTPUT: usize = 6_700;

/// Measures the rows.
pub(crate) fn measure(size: Size, table: &mut Table) {
    let n_turns = size.of(200, 5);
    let home = home();
    lay(home.path(), "short", n_turns, 1_000);
    let figures = (0..size.of(21, 1))
        .map(|_| loading(home.path(), "short").1)
        .collect();
    table.row(
        &format!("load of a session of {n_turns} turns, spawn → loaded, median"),
        "ms",
        Bar::AtMost(20.0),
        median(figures),
    );
    let n_turns = size.of(10_000, 20);
    let bytes = lay(home.path(), "long", n_turns, LONG_OUTPUT);
    let mib = bytes as f64 / f64::from(1 << 20);
    let mut peaks = Vec::new();
    let figures = (0..size.of(5, 1))
        .map(|_| {
            let (server, ms) = loading(home.path(), "long");
            peaks.push(memory(server.pid()).pss);
            ms / 1e3
        })
        .collect();
    table.row(
        &format!(
            "resume of a journal of {mib:.0} MiB, {n_turns} turns, spawn → loaded, median ({:.0} MiB of memory then)",
            median(peaks)
        ),
        "s",
        Bar::AtMost(0.7),
        median(figures),
    );
    let figures = (0..size.of(5, 1))
        .map(|_| replay(home.path(), "long"))
        .collect();
    table.row(
        &format!("replay of its events to a host, {mib:.0} MiB of journal, median"),
        "MB/s",
        Bar::AtLeast(200.0),
        median(figures),
    );
}

/// Milliseconds from the spawn of a server until a session is loaded.
fn loading(home: &Path, session: &str) -> (Server, f64) {
    let begun = Instant::now();
    let mut server = Server::ready(home);
    server.call("session/resume", json!({"sessionId": session}));
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    (server, ms)
}

/// Megabytes a second at which a host gets all events of a session that is loaded.
fn replay(home: &Path, session: &str) -> f64 {
    let (mut server, _) = loading(home, session);
    let begun = Instant::now();
    let params = json!({"sessionId": session, "afterSeq": 0});
    let last = server.call("session/attach", params)["lastSeq"]
        .as_u64()
        .unwrap();
    let (wanted, mut n_bytes) = (format!("\"seq\":{last},"), 0);
    loop {
        let line = server.read_line();
        n_bytes += line.len();
        let head = line.as_bytes().get(..300).unwrap_or(line.as_bytes());
        if memchr::memmem::find(head, wanted.as_bytes()).is_some() {
            break;
        }
    }
    n_bytes as f64 / 1e6 / begun.elapsed().as_secs_f64()
}

struct Nobody;

impl Publish for Nobody {
    fn publish(&self, _: Arc<Stamped>) {}
}

/// Lays out a session with so many turns, through the journal's own writer. Gives the length of its journal.
pub(crate) fn lay(home: &Path, id: &str, n_turns: usize, output_bytes: usize) -> u64 {
    let dir = home.join("sessions/wd_bench_000000000000").join(id);
    fs::create_dir_all(&dir).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let now = clock.now();
    let opening = Opening {
        session: SessionId::from(id),
        dir: dir.clone(),
        clock,
        publish: Arc::new(Nobody),
        disk: Arc::new(RealDisk),
        lock: None,
    };
    let log = AppendLog::open(&write::path(&dir)).unwrap().log;
    let journal = Journal::new(opening, log, now);
    journal
        .head(&head(home, id, &now.to_string()), None)
        .unwrap();
    let mut output = String::with_capacity(output_bytes);
    while output.len() < output_bytes {
        let n = output.len();
        let _ = writeln!(
            output,
            "    let line_{n} = read(\"file {n}\", &mut buffer)?;"
        );
    }
    let output: Arc<str> = output.into();
    for n in 1..=n_turns {
        turn(&journal, n, &output);
    }
    fs::metadata(write::path(&dir)).unwrap().len()
}

fn head(home: &Path, id: &str, now: &str) -> Session {
    serde_json::from_value(json!({
        "sessionId": id, "title": "", "cwd": home, "additionalDirs": [], "model": "demo", "mode": "yolo",
        "status": "idle", "createdAt": now, "updatedAt": now, "turnCount": 0, "usage": {}, "ephemeral": false,
        "archived": false
    }))
    .unwrap()
}

/// A turn of two steps, the first of them with one call.
fn turn(journal: &Journal, n: usize, output: &Arc<str>) {
    let (main, turn) = (AgentId::main(), TurnId::from(format!("t{n}")));
    let (call, usage) = (ToolCallId::from(format!("call_{n}")), Usage::default());
    let says = |event| {
        journal.durable(&main, event).unwrap();
    };
    let item = |part: usize| ItemId::from(format!("i{}", 3 * n + part));
    let ends = |step, finish| DomainEvent::StepEnded {
        turn: turn.clone(),
        step,
        finish,
        usage,
    };
    let spent = |context_tokens| {
        let spent = StateRecord::Spent {
            usage,
            context_tokens,
        };
        journal.state(&main, spent).unwrap();
    };
    says(DomainEvent::TurnStarted {
        turn: turn.clone(),
        origin: Origin::User,
        input: vec![ContentPart::Text {
            text: format!("Look at file {n} and say what is wrong with it."),
        }],
        wakes: vec![],
    });
    says(DomainEvent::StepStarted {
        turn: turn.clone(),
        step: 1,
    });
    says(DomainEvent::MessageCompleted {
        turn: turn.clone(),
        item: item(0),
        text: "I will read it first.".into(),
        partial: false,
    });
    spent(n as u64);
    let input = json!({"path": format!("src/file_{n}.rs")});
    says(DomainEvent::ToolStarted {
        turn: turn.clone(),
        call: call.clone(),
        name: "Read".into(),
        title: format!("Read src/file_{n}.rs"),
        display: Display::Generic {
            summary: format!("src/file_{n}.rs"),
            detail: None,
        },
        accesses: vec![],
        origin: CallOrigin {
            provider_id: Some(format!("toolu_{n:024}").into()),
            arguments: input.to_string().into(),
            ..CallOrigin::default()
        },
        input: Arc::new(input),
    });
    says(DomainEvent::ToolRunning { call: call.clone() });
    says(DomainEvent::ToolCompleted {
        turn: turn.clone(),
        call,
        is_error: false,
        output: vec![Part::Text(output.clone())],
        note: None,
        display: None,
        duration_ms: 3,
        truncated: false,
        told: vec![],
    });
    says(ends(1, FinishReason::ToolCalls));
    says(DomainEvent::StepStarted {
        turn: turn.clone(),
        step: 2,
    });
    says(DomainEvent::MessageCompleted {
        turn: turn.clone(),
        item: item(1),
        text: "The third line reads past the end of its buffer. "
            .repeat(20)
            .into(),
        partial: false,
    });
    spent(n as u64 + 1);
    says(ends(2, FinishReason::Completed));
    says(DomainEvent::TurnEnded {
        turn: turn.clone(),
        reason: TurnReason::Completed,
        stop: StopReason::EndTurn,
        error: None,
        usage,
        duration_ms: 900,
    });
}
