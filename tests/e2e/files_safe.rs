//! Files that are being written when the server is killed, and disks that take no more.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::server::DEADLINE;
use crate::support::{Scratch, TestServer};

/// Bytes of the file that is written again and again.
const SIZE: usize = 1 << 20;

fn large() -> bool {
    std::env::var_os("LONGSHORE_TEST_SCALE").is_some()
}

/// A script in JSON, which is read much faster than YAML where it holds much text.
pub(crate) fn play(scratch: &Scratch, script: &Value) {
    let path = scratch.root().join("script.json");
    fs::write(&path, script.to_string()).unwrap();
    scratch.configure(&format!(
        "default_model = \"scripted\"\ndefault_permission_mode = \"yolo\"\n\
         [providers.scripted]\ntype = \"scripted\"\nscript = \"{}\"\n\
         [models.scripted]\nprovider = \"scripted\"\nmodel = \"scripted\"\n",
        path.display()
    ));
}

fn call(name: &str, args: Value) -> Value {
    json!({"steps": [{"tool_call": {"name": name, "args": args}}]})
}

fn content(word: &str) -> String {
    let line = format!("{word} {}\n", "-".repeat(90));
    format!("head of {word}\n{}", line.repeat(SIZE / line.len()))
}

fn temps(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let is_temp = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(".longshore-tmp-")
    };
    entries.map(|entry| entry.path()).filter(is_temp).collect()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "waited for {what}");
        thread::sleep(Duration::from_micros(300));
    }
}

/// Numbers that follow from a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// 500 kills with `LONGSHORE_TEST_SCALE=1`.
#[test]
fn a_file_is_wholly_old_or_wholly_new_whenever_the_server_is_killed() {
    let n_kills = if large() { 500 } else { 60 };
    let lanes = 3;
    let seen: Vec<(BTreeSet<usize>, usize)> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes)
            .map(|lane| scope.spawn(move || kill_again_and_again(lane + 1, n_kills / lanes)))
            .collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
    });
    let states: BTreeSet<usize> = seen
        .iter()
        .flat_map(|(states, _)| states)
        .copied()
        .collect();
    let n_left: usize = seen.iter().map(|(_, n_left)| n_left).sum();
    // The kills came at telling moments.
    assert!(states.len() > 1 && n_left > 0, "{states:?} {n_left}");
}

/// Kills a server that writes and edits one file. Gives the states that were found, and how many temporary files were
/// left to be removed.
fn kill_again_and_again(seed: u64, n_kills: u64) -> (BTreeSet<usize>, usize) {
    let scratch = Scratch::new();
    let (one, two) = (content("one"), content("two"));
    let states = [
        one.clone(),
        one.replacen("head of one", "changed one", 1),
        two.clone(),
        two.replacen("head of two", "changed two", 1),
    ];
    let edit = |word: &str| {
        let args = json!({"path": "f", "old_string": format!("head of {word}"), "new_string": format!("changed {word}")});
        call("Edit", args)
    };
    let read = call("Read", json!({"path": "f", "n_lines": 1}));
    let write = |text: &str| call("Write", json!({"path": "f", "content": text}));
    play(
        &scratch,
        &json!({"version": 1, "on_exhausted": "loop", "turns": [read, write(&two), edit("two"), write(&one), edit("one")]}),
    );
    scratch.write("f", &one);
    fs::set_permissions(scratch.file("f"), PermissionsExt::from_mode(0o640)).unwrap();
    let repository = scratch.repository();
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let (mut found, mut n_left) = (BTreeSet::new(), 0);
    for _ in 0..n_kills {
        let mut server = TestServer::open(&scratch);
        wait_until("the removal of temporary files", || {
            temps(&repository).is_empty()
        });
        let session = server.create(&scratch, json!({}));
        server.turn(&session, "Go on.");
        // The file has gone through some of its states by then.
        for _ in 0..random.below(5) {
            server.event("tool/completed");
        }
        if random.below(3) == 0 {
            server.event("tool/running");
            thread::sleep(Duration::from_millis(random.below(150)));
        } else {
            // While the new content is being written, or about to take the place of the old.
            let first = Instant::now() + Duration::from_millis(random.below(100));
            wait_until("a temporary file", || {
                Instant::now() >= first && !temps(&repository).is_empty()
            });
            thread::sleep(Duration::from_micros(random.below(3000)));
        }
        server.kill();
        n_left += temps(&repository).len();
        let now = fs::read_to_string(scratch.file("f")).unwrap();
        let state = states.iter().position(|state| *state == now);
        let shown: String = now.chars().take(30).collect();
        found.insert(state.unwrap_or_else(|| {
            panic!("neither old nor new: {} bytes from {shown:?} on", now.len())
        }));
        let mode = fs::metadata(scratch.file("f"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o640);
    }
    let server = TestServer::open(&scratch);
    wait_until("the removal of temporary files", || {
        temps(&repository).is_empty()
    });
    drop(server);
    (found, n_left)
}

/// A file system of a megabyte in memory, unmounted when dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, after saying `SKIPPED`, where it can't be mounted.
    pub(crate) fn mount(at: PathBuf) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(&at)
            .output()
            .is_ok_and(|output| output.status.success());
        if mounted {
            return Some(Self(at));
        }
        let required = std::env::var("LONGSHORE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "a small disk is required and can't be mounted");
        println!("SKIPPED full disk");
        None
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

/// Plays calls one after another in a directory and gives each one's outcome: whether it failed, and its text.
fn outcomes(scratch: &Scratch, cwd: &Path, calls: Vec<Value>) -> Vec<(bool, String)> {
    let n = calls.len();
    let mut turns = calls;
    turns.push(json!({"steps": [{"text": "Done."}]}));
    play(scratch, &json!({"version": 1, "turns": turns}));
    let mut server = TestServer::open(scratch);
    let session = server.create(scratch, json!({"cwd": cwd}));
    let turn = server.turn(&session, "Go on.");
    assert_eq!(server.ended(&turn)["reason"], "completed");
    let completed = server
        .seen()
        .iter()
        .filter(|message| message["method"] == "tool/completed");
    let outcomes: Vec<_> = completed
        .map(|message| {
            let params = &message["params"];
            (params["isError"] == true, params["output"].to_string())
        })
        .collect();
    assert_eq!(outcomes.len(), n);
    outcomes
}

#[test]
fn a_full_disk_leaves_every_file_as_it_was() {
    let scratch = Scratch::new();
    let Some(disk) = SmallDisk::mount(scratch.root().join("small")) else {
        return;
    };
    let old = "x".repeat(300 << 10) + "\nmark\n";
    let large = "y".repeat(900 << 10);
    fs::write(disk.0.join("f"), &old).unwrap();
    fs::write(disk.0.join("linked"), &old).unwrap();
    fs::hard_link(disk.0.join("linked"), disk.0.join("other")).unwrap();
    let read = |path: &str| call("Read", json!({"path": path, "n_lines": 1}));
    let got = outcomes(
        &scratch,
        &disk.0,
        vec![
            read("f"),
            read("linked"),
            call("Write", json!({"path": "f", "content": large})),
            call(
                "Edit",
                json!({"path": "f", "old_string": "mark", "new_string": large}),
            ),
            call("Write", json!({"path": "linked", "content": large})),
            call("Write", json!({"path": "d/new", "content": large})),
            call(
                "Write",
                json!({"path": "f", "content": large, "mode": "append"}),
            ),
            // There is room for this.
            call(
                "Edit",
                json!({"path": "f", "old_string": "mark", "new_string": "made"}),
            ),
        ],
    );
    for (n, (failed, output)) in got.iter().enumerate() {
        let is_full = output.contains("no space left on the device");
        assert_eq!(
            (*failed, is_full),
            ((2..7).contains(&n), (2..7).contains(&n)),
            "{n}: {output}"
        );
    }
    let now = |name: &str| fs::read_to_string(disk.0.join(name)).unwrap();
    assert_eq!(now("f"), old.replace("mark", "made"));
    assert!(now("linked") == old && now("other") == old);
    assert!(!disk.0.join("d").exists());
    assert!(temps(&disk.0).is_empty());
}

#[test]
fn a_file_that_its_owner_closed_is_not_opened_by_force() {
    let scratch = Scratch::new();
    scratch.write("f", "old\n");
    fs::set_permissions(scratch.file("f"), PermissionsExt::from_mode(0o444)).unwrap();
    let got = outcomes(
        &scratch,
        &scratch.repository(),
        vec![
            call("Read", json!({"path": "f"})),
            call("Write", json!({"path": "f", "content": "new\n"})),
            call(
                "Edit",
                json!({"path": "f", "old_string": "old", "new_string": "new"}),
            ),
            call(
                "Write",
                json!({"path": "f", "content": "new\n", "mode": "append"}),
            ),
        ],
    );
    for (failed, output) in &got[1..] {
        assert!(*failed && output.contains("is read-only"), "{output}");
    }
    assert_eq!(scratch.read("f"), "old\n");
    let mode = fs::metadata(scratch.file("f"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o444);
}
