//! File tools on large files, as whole turns: from the request of a turn with one call to its end, everything that
//! belongs to a turn included. The pages of the files are in memory, as they are for files one works with.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::{Value, json};

use super::Size;
use super::figures::median;
use super::rows::{home, ms};
use super::server::Server;
use super::table::{Bar, Table};

/// A line of text files, with its newline.
const LINE: &str = "a line of text as one finds it in a log, sixty bytes in all\n";

/// Text at the beginning of the large file: more than is judged.
const HEAD_BYTES: usize = 9 << 20;

/// Text at its end. What lies between is a hole that no read looks at.
const TAIL_BYTES: usize = 1 << 20;

/// Measures every row.
pub(crate) fn measure(size: Size, table: &mut Table) {
    reads(size, table);
    edits(size, table);
}

fn reads(size: Size, table: &mut Table) {
    let (home, work) = (home(), home());
    large(&work.path().join("large.log"));
    fs::write(
        work.path().join("ten.txt"),
        LINE.repeat((10 << 20) / LINE.len()),
    )
    .unwrap();
    for (what, bar, args) in [
        (
            "turn that reads 1,000 lines near the start of 1 GiB, median",
            5.0,
            json!({"path": "large.log", "line_offset": 101, "n_lines": 1000}),
        ),
        (
            "turn that reads the last 100 lines of 1 GiB, median",
            20.0,
            json!({"path": "large.log", "line_offset": -100}),
        ),
        (
            "turn that reads 1,000 lines of 10 MiB, median",
            15.0,
            json!({"path": "ten.txt", "line_offset": 80_000}),
        ),
    ] {
        let figure = turns(
            size,
            home.path(),
            work.path(),
            &[json!({"name": "Read", "args": args})],
        );
        table.row(what, "ms", Bar::AtMost(bar), figure);
    }
}

fn edits(size: Size, table: &mut Table) {
    // A home is guarded against edits, so the file lies elsewhere.
    let (home, work) = (home(), home());
    // The figure is to be the work beside the fsync of the file.
    fs::write(home.path().join("config.toml"), "[files]\nfsync = false\n").unwrap();
    for (mib, bar) in [(1, 10.0), (10, 30.0)] {
        let half = LINE.repeat((mib << 19) / LINE.len());
        fs::write(
            work.path().join("f.txt"),
            format!("{half}here: left\n{half}"),
        )
        .unwrap();
        let edit = |old: &str, new: &str| {
            let args = json!({"path": "f.txt", "old_string": old, "new_string": new});
            json!({"name": "Edit", "args": args})
        };
        let calls = [
            edit("here: left", "here: right"),
            edit("here: right", "here: left"),
        ];
        let figure = turns(size, home.path(), work.path(), &calls);
        table.row(
            &format!("turn that edits a file of {mib} MiB without its fsync, median"),
            "ms",
            Bar::AtMost(bar),
            figure,
        );
    }
}

/// The median of turns that make one of these calls each, in a row and over again.
fn turns(size: Size, home: &Path, work: &Path, calls: &[Value]) -> f64 {
    let steps: Vec<Value> = calls
        .iter()
        .flat_map(|call| {
            [
                json!({"steps": [{"tool_call": call}]}),
                json!({"steps": [{"text": "Done"}]}),
            ]
        })
        .collect();
    let script = json!({"version": 1, "on_exhausted": "loop", "turns": steps}).to_string();
    let mut server = Server::ready(home);
    let session = server.session(work, "demo", Some(&script));
    for _ in 0..size.of(4, 0) {
        server.turn(&session);
    }
    let figures = (0..size.of(41, 2)).map(|_| {
        let mut n_calls = 0;
        let figure = ms(|| n_calls = server.turn_with_calls(&session));
        assert_eq!(n_calls, 1, "the call failed");
        figure
    });
    median(figures.collect())
}

/// 1 GiB that begins and ends with text.
fn large(path: &Path) {
    let mut file = File::create(path).unwrap();
    let size = 1 << 30;
    file.set_len(size).unwrap();
    file.write_all(LINE.repeat(HEAD_BYTES / LINE.len()).as_bytes())
        .unwrap();
    let tail = LINE.repeat(TAIL_BYTES / LINE.len());
    file.write_all_at(tail.as_bytes(), size - tail.len() as u64)
        .unwrap();
}
