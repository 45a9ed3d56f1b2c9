//! What is measured.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::json;
use tempfile::TempDir;

use super::figures::{cpu, median, memory};
use super::server::Server;
use super::table::{Bar, Table};
use super::{Size, mock};

/// Measures every row.
pub(crate) fn measure(size: Size, table: &mut Table) {
    start(size, table);
    memory_rows(table);
    ten(size, table);
    sessions(size, table);
    warm_turn(size, table);
    stream(size, table);
    tools(size, table);
    let binary = fs::metadata(env!("CARGO_BIN_EXE_longshore")).unwrap().len();
    table.row(
        "binary, stripped",
        "MiB",
        Bar::AtMost(25.0),
        binary as f64 / f64::from(1 << 20),
    );
}

pub(crate) fn home() -> TempDir {
    TempDir::new().unwrap()
}

/// Milliseconds that something takes.
pub(crate) fn ms(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64() * 1e3
}

fn start(size: Size, table: &mut Table) {
    let home = home();
    let figures = (0..size.of(41, 2)).map(|_| {
        let begun = Instant::now();
        let mut server = Server::start(home.path());
        server.initialize();
        begun.elapsed().as_secs_f64() * 1e3
    });
    let figures = figures.collect();
    table.row(
        "spawn → initialize answered, median",
        "ms",
        Bar::AtMost(8.0),
        median(figures),
    );
}

fn memory_rows(table: &mut Table) {
    let home = home();
    let mut server = Server::ready(home.path());
    let fresh = memory(server.pid());
    table.row("PSS after initialize", "MiB", Bar::AtMost(8.0), fresh.pss);
    table.row(
        "its anonymous part",
        "MiB",
        Bar::AtMost(6.0),
        fresh.anonymous,
    );
    let session = server.session(home.path(), "demo", None);
    server.turn(&session);
    table.row(
        "PSS with one session that has had a turn",
        "MiB",
        Bar::AtMost(12.0),
        memory(server.pid()).pss,
    );
}

fn ten(size: Size, table: &mut Table) {
    let homes: Vec<TempDir> = (0..size.of(10, 2)).map(|_| home()).collect();
    let servers: Vec<Server> = homes
        .iter()
        .map(|home| Server::ready(home.path()))
        .collect();
    let total: f64 = servers.iter().map(|server| memory(server.pid()).pss).sum();
    table.row(
        "PSS of ten processes side by side",
        "MiB",
        Bar::AtMost(60.0),
        total,
    );
}

fn sessions(size: Size, table: &mut Table) {
    let home = home();
    let mut server = Server::ready(home.path());
    server.session(home.path(), "demo", None);
    let n = size.of(1000, 3);
    let before = memory(server.pid()).pss;
    let figures = (0..n)
        .map(|_| ms(|| drop(server.session(home.path(), "demo", None))))
        .collect();
    table.row(
        "session creation, durable, median",
        "ms",
        Bar::AtMost(2.0),
        median(figures),
    );
    let each = (memory(server.pid()).pss - before) * 1024.0 / n as f64;
    table.row(
        &format!("each further loaded idle session, of {n}"),
        "KiB",
        Bar::AtMost(100.0),
        each,
    );
}

fn warm_turn(size: Size, table: &mut Table) {
    let home = home();
    let config = format!(
        "default_model = \"m\"\n[providers.mock]\ntype = \"openai\"\nbase_url = \"{}\"\napi_key = \"none\"\n\
         [models.m]\nprovider = \"mock\"\nmodel = \"m\"\nmax_context_size = 100000\n",
        mock::start()
    );
    fs::write(home.path().join("config.toml"), config).unwrap();
    let mut server = Server::ready(home.path());
    let n = size.of(300, 3);
    let session = server.session(home.path(), "m", None);
    for _ in 0..size.of(30, 1) {
        server.turn(&session);
    }
    let used = cpu(server.pid());
    let figures = (0..n).map(|_| ms(|| server.turn(&session))).collect();
    let used = (cpu(server.pid()) - used) * 1e3 / n as f64;
    table.row(
        "warm turn over local HTTP, median (its fsync runs beside it)",
        "ms",
        Bar::AtMost(1.0),
        median(figures),
    );
    table.row(
        "processor time of a warm turn, fsync included",
        "ms",
        Bar::AtMost(0.6),
        used,
    );
}

fn stream(size: Size, table: &mut Table) {
    let home = home();
    let mut server = Server::ready(home.path());
    let n = size.of(20_000, 200);
    let script = format!(
        "version: 1\ndefaults: {{chunk: whole}}\non_exhausted: repeat_last\nturns:\n  - steps:\n      - repeat: \
         {{count: {n}, step: {{text: \"twenty bytes of text\"}}}}\n"
    );
    let session = server.session(home.path(), "demo", Some(&script));
    server.turn(&session);
    let (mut rates, mut costs, mut messages) = (Vec::new(), Vec::new(), 0);
    for _ in 0..size.of(11, 1) {
        let used = cpu(server.pid());
        server.send("turn/start", json!({"sessionId": session, "input": "go"}));
        let (mut first, mut last, mut bytes) = (None, Instant::now(), 0);
        messages = 0;
        loop {
            let line = server.read_line();
            if line.contains("\"method\":\"message/delta\"") {
                let message: serde_json::Value = serde_json::from_str(line).unwrap();
                bytes += message["params"]["text"].as_str().unwrap().len();
                last = Instant::now();
                first.get_or_insert(last);
                messages += 1;
            }
            if bytes == 20 * n {
                break;
            }
        }
        server.until_end();
        let took = (last - first.unwrap()).as_secs_f64().max(1e-6);
        rates.push(n as f64 / took);
        costs.push(cpu(server.pid()) - used);
    }
    let row = format!(
        "stream of {n} deltas of 20 bytes through one pipe, median (merged into {messages} messages)"
    );
    table.row(&row, "deltas/s", Bar::AtLeast(300_000.0), median(rates));
    table.row(
        "processor time of that stream, median",
        "s",
        Bar::AtMost(0.15),
        median(costs),
    );
}

fn tools(size: Size, table: &mut Table) {
    let home = home();
    fs::write(home.path().join("small.txt"), "one\ntwo\nthree\n").unwrap();
    let one = "  - steps:\n      - tool_call: {name: Read, args: {path: small.txt}}\n  - steps:\n      - text: Done\n";
    let script = format!("version: 1\non_exhausted: loop\nturns:\n{one}");
    let mut server = Server::ready(home.path());
    let session = server.session(home.path(), "demo", Some(&script));
    server.turn(&session);
    let figures = (0..size.of(100, 2))
        .map(|_| ms(|| server.turn(&session)))
        .collect();
    table.row(
        "turn with one call that reads a small file, median",
        "ms",
        Bar::AtMost(3.0),
        median(figures),
    );

    let steps = size.of(50, 5);
    let mut script = String::from("version: 1\non_exhausted: loop\nturns:\n");
    for n in 0..steps {
        file(home.path(), n);
        let _ = writeln!(
            script,
            "  - steps:\n      - tool_call: {{name: Read, args: {{path: f{n}.txt}}}}"
        );
    }
    script.push_str("  - steps:\n      - text: Done\n");
    let session = server.session(home.path(), "demo", Some(&script));
    server.turn(&session);
    let figures = (0..size.of(11, 1))
        .map(|_| ms(|| server.turn(&session)) / steps as f64)
        .collect();
    table.row(
        "a step of a turn of 50 reads, median",
        "ms",
        Bar::AtMost(0.6),
        median(figures),
    );
}

fn file(dir: &Path, n: usize) {
    fs::write(dir.join(format!("f{n}.txt")), format!("file {n}\n")).unwrap();
}
