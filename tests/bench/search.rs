//! Searches beside ripgrep, in interleaved pairs: how many times its wall time ours take.
//!
//! Ours are turns of the built program with a scripted model, from the request to `turn/ended`; ripgrep's from its start
//! to its end, with everything it prints read.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::Size;
use super::figures::median;
use super::server::Server;
use super::table::{Bar, Table};

/// Measures searches.
pub(crate) fn measure(size: Size, table: &mut Table) {
    let home = tempfile::TempDir::new().unwrap();
    let mut server = Server::ready(home.path());
    few(size, table, &mut server);
    let tree = tempfile::TempDir::new().unwrap();
    let n_files = size.of(30_000, 200);
    plant(tree.path(), n_files);
    mentions(size, table, &mut server, tree.path(), n_files);
    match ripgrep() {
        Some(rg) => beside(size, table, &mut server, tree.path(), &rg),
        None => println!("SKIPPED ripgrep"),
    }
}

fn ripgrep() -> Option<PathBuf> {
    let folder = std::env::var_os("LONGSHORE_PEERS_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/peers"),
        PathBuf::from,
    );
    Some(folder.join("rg/bin/rg")).filter(|rg| rg.is_file())
}

/// A session that makes the same call in every turn.
fn session(server: &mut Server, cwd: &Path, call: &Value) -> String {
    let turns = json!([{"steps": [{"tool_call": call}]}, {"steps": [{"text": "Done"}]}]);
    let script = json!({"version": 1, "on_exhausted": "loop", "turns": turns}).to_string();
    server.session(cwd, "demo", Some(&script))
}

fn ms(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64() * 1e3
}

fn few(size: Size, table: &mut Table, server: &mut Server) {
    let tree = tempfile::TempDir::new().unwrap();
    plant(tree.path(), 50);
    let n_steps = size.of(50, 5);
    let turns: Vec<Value> = (0..n_steps)
        .map(|n| {
            let args = json!({"pattern": format!("the end of {n}"), "output_mode": "content"});
            json!({"steps": [{"tool_call": {"name": "Grep", "args": args}}]})
        })
        .chain([json!({"steps": [{"text": "Done"}]})])
        .collect();
    let script = json!({"version": 1, "on_exhausted": "loop", "turns": turns}).to_string();
    let session = server.session(tree.path(), "demo", Some(&script));
    server.turn(&session);
    let figures = (0..size.of(11, 1)).map(|_| ms(|| server.turn(&session)) / n_steps as f64);
    table.row(
        "step with one Grep over 50 files, median",
        "ms",
        Bar::AtMost(3.0),
        median(figures.collect()),
    );
}

fn mentions(size: Size, table: &mut Table, server: &mut Server, tree: &Path, n_files: usize) {
    let wide = tempfile::TempDir::new().unwrap();
    let n_names = size.of(100_000, 500);
    for n in 0..n_names {
        let dir = wide
            .path()
            .join(format!("part{}/section{}", n % 40, (n / 40) % 25));
        if n < 1000 {
            fs::create_dir_all(&dir).unwrap();
        }
        fs::write(dir.join(format!("{}_{n}.rs", WORDS[n % WORDS.len()])), "").unwrap();
    }
    for (cwd, n, query) in [(wide.path(), n_names, "secmeas"), (tree, n_files, "d7 f12")] {
        let figures = (0..size.of(21, 1)).map(|_| {
            ms(|| {
                let found = server.call("file/search", json!({"cwd": cwd, "query": query}));
                assert_eq!(found["incomplete"], false);
            })
        });
        table.row(
            &format!("file/search among {n} files, median"),
            "ms",
            Bar::AtMost(100.0),
            median(figures.collect()),
        );
    }
}

/// A search as both are asked for it.
struct Pair {
    name: &'static str,
    tool: &'static str,
    args: Value,
    rg: &'static [&'static str],
}

fn beside(size: Size, table: &mut Table, server: &mut Server, tree: &Path, rg: &Path) {
    let pairs = [
        Pair {
            name: "Grep, a rare word, names of files",
            tool: "Grep",
            args: json!({"pattern": "needle"}),
            rg: &["--files-with-matches", "needle"],
        },
        Pair {
            name: "Grep, a rare word, lines",
            tool: "Grep",
            args: json!({"pattern": "needle", "output_mode": "content"}),
            rg: &["--line-number", "needle"],
        },
        Pair {
            name: "Grep, a word in every file, names of files",
            tool: "Grep",
            args: json!({"pattern": "measure"}),
            rg: &["--files-with-matches", "measure"],
        },
        Pair {
            name: "Grep, a word in every file, lines",
            tool: "Grep",
            args: json!({"pattern": "measure", "output_mode": "content"}),
            rg: &["--line-number", "measure"],
        },
        Pair {
            name: "Grep, a word in every file, numbers of matches",
            tool: "Grep",
            args: json!({"pattern": "measure", "output_mode": "count_matches"}),
            rg: &["--count-matches", "measure"],
        },
        Pair {
            name: "Grep, a class of words",
            tool: "Grep",
            args: json!({"pattern": r"\bneed\w+\s+\d+$", "output_mode": "content"}),
            rg: &["--line-number", "--crlf", r"\bneed\w+\s+\d+$"],
        },
        Pair {
            name: "Glob of 30,000, against --files -g",
            tool: "Glob",
            args: json!({"pattern": "**/*.rs"}),
            rg: &["--files", "-g", "**/*.rs"],
        },
        Pair {
            name: "Glob of 10,000, against --files --sortr=modified -g",
            tool: "Glob",
            args: json!({"pattern": "**/*7*.rs"}),
            rg: &["--files", "--sortr=modified", "-g", "**/*7*.rs"],
        },
    ];
    for Pair {
        name,
        tool,
        args,
        rg: flags,
    } in pairs
    {
        let session = session(server, tree, &json!({"name": tool, "args": args}));
        let theirs = || {
            let output = Command::new(rg)
                .args([
                    "--no-config",
                    "--hidden",
                    "--no-ignore-parent",
                    "--no-require-git",
                ])
                .args(flags)
                .arg("./")
                .current_dir(tree)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            assert!(output.status.success(), "{name}");
        };
        server.turn(&session);
        theirs();
        let mut ratios = Vec::new();
        for n in 0..size.of(20, 1) {
            // Whoever goes first alternates.
            let (ours, peer) = if n % 2 == 0 {
                let ours = ms(|| server.turn(&session));
                (ours, ms(theirs))
            } else {
                let peer = ms(theirs);
                (ms(|| server.turn(&session)), peer)
            };
            ratios.push(ours / peer);
        }
        table.row(name, "× rg", Bar::AtMost(1.1), median(ratios));
    }
}

const WORDS: [&str; 16] = [
    "search", "measure", "value", "string", "return", "session", "buffer", "index", "struct",
    "match", "result", "iterator", "closure", "pattern", "module", "channel",
];

/// Files of some kilobytes each in directories of some dozens.
fn plant(root: &Path, n_files: usize) {
    let mut seed: usize = 1;
    let mut roll = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    for n in 0..n_files {
        let dir = root.join(format!("d{}/e{}", n % 37, (n / 37) % 20));
        if n < 740 {
            fs::create_dir_all(&dir).unwrap();
        }
        let mut text = String::from("// measure\n");
        for line in 0..100 + roll() % 60 {
            let _ = write!(text, "    ");
            for _ in 0..4 + roll() % 6 {
                let _ = write!(text, "{} ", WORDS[roll() % WORDS.len()]);
            }
            let _ = writeln!(text, "{line}");
        }
        if n % 1000 == 3 {
            text.push_str("needle 42\n");
        }
        fs::write(dir.join(format!("f{n}.rs")), text).unwrap();
    }
}
