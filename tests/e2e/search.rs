//! Searches as a model and a host make them, and the same searches by ripgrep.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Answer, Scratch, TestServer, peers};

/// Plays these calls, a step for each, and gives what the model read of each.
fn play(server: &mut TestServer, cwd: &Path, calls: &[(&str, Value)]) -> Vec<Completed> {
    let turns: Vec<Value> = calls
        .iter()
        .map(|(name, args)| json!({"steps": [{"tool_call": {"name": name, "args": args}}]}))
        .chain([json!({"steps": [{"text": "Done."}]})])
        .collect();
    let script = json!({"version": 1, "turns": turns}).to_string();
    let params = json!({"cwd": cwd, "model": "demo", "mode": "yolo", "script": script});
    let created = server.request("session/create", params);
    let session = created["session"]["sessionId"].as_str().unwrap().to_owned();
    let turn = server.turn(&session, "Go.");
    let completed = calls.iter().map(|_| {
        let params = server.event_where("tool/completed", |params| {
            params["sessionId"] == session.as_str()
        });
        Completed {
            is_error: params["isError"].as_bool().unwrap(),
            text: params["output"][0]["text"].as_str().unwrap().to_owned(),
        }
    });
    let completed = completed.collect();
    assert_eq!(server.ended(&turn)["reason"], "completed");
    server.request("session/close", json!({"sessionId": session}));
    completed
}

struct Completed {
    is_error: bool,
    text: String,
}

#[test]
fn secrets_are_told_by_name_and_by_nothing_else() {
    let scratch = Scratch::new();
    scratch.write(".env", "TEST_KEY=s3cret\n");
    fs::create_dir(scratch.file("keys")).unwrap();
    scratch.write("keys/id_rsa", "TEST_KEY s3cret\n");
    scratch.write(".env.example", "TEST_KEY=\n");
    scratch.write(".gitignore", ".env\n");
    let mut server = TestServer::open(&scratch);
    // Naming a secret is asked about, even though none is opened.
    server.answer_approvals("allow_once");
    let mut calls = Vec::new();
    for pattern in ["TEST_KEY", "s3c", "^TEST_KEY=s"] {
        for mode in ["files_with_matches", "content", "count_matches"] {
            for path in [".", ".env", "keys/id_rsa"] {
                let args = json!({"pattern": pattern, "output_mode": mode, "path": path});
                calls.push(("Grep", args));
            }
        }
    }
    let glob = json!({"pattern": "**/{.env*,id_*}", "include_ignored": true});
    calls.push(("Glob", glob));
    let results = play(&mut server, &scratch.repository(), &calls);
    for ((_, args), result) in calls.iter().zip(&results) {
        assert!(!result.text.contains("s3cret"), "{args}: {}", result.text);
        let told = match args["path"].as_str() {
            Some(path @ (".env" | "keys/id_rsa")) => {
                format!("[Skipped 1 protected file without opening it: {path}.]")
            }
            _ => "[Skipped 2 protected files without opening them: .env, keys/id_rsa.]".to_owned(),
        };
        assert!(result.text.ends_with(&told), "{args}: {}", result.text);
        let finds = result.text.contains(".env.example");
        let expected =
            args.get("path").is_none() || (args["path"] == "." && args["pattern"] == "TEST_KEY");
        assert_eq!(finds, expected, "{args}: {}", result.text);
    }
}

#[test]
fn nothing_found_is_told_from_could_not_look() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.file("empty")).unwrap();
    let mut server = TestServer::open(&scratch);
    server.answer_approvals("allow_once");
    let calls = ["missing", "greeting.txt", "empty", ".git"]
        .map(|path| ("Glob", json!({"pattern": "*.rs", "path": path})));
    let results = play(&mut server, &scratch.repository(), &calls);
    for (result, (is_error, expected)) in results.iter().zip([
        (true, "does not exist"),
        (true, "is a file, not a directory"),
        (false, "No files found."),
        (true, "version control"),
    ]) {
        assert_eq!(result.is_error, is_error, "{}", result.text);
        assert!(result.text.contains(expected), "{}", result.text);
    }
}

#[test]
fn searches_need_nothing_of_a_client() {
    let scratch = Scratch::new();
    let steps = [
        ("Grep", json!({"pattern": "Hello"})),
        ("Glob", json!({"pattern": "*.txt"})),
        ("Read", json!({"path": "greeting.txt"})),
        (
            "Bash",
            json!({"command": "cat greeting.txt", "description": "Show it"}),
        ),
    ];
    let turns: Vec<Value> = steps
        .iter()
        .map(|(name, args)| json!({"steps": [{"tool_call": {"name": name, "args": args}}]}))
        .chain([json!({"steps": [{"text": "Done."}]})])
        .collect();
    scratch.script(&json!({"version": 1, "turns": turns}).to_string());
    let mut command = scratch.longshore();
    command.arg("acp");
    let mut server = TestServer::spawn(&scratch, command);
    server.answer(|method, params| {
        assert_eq!(method, "session/request_permission");
        let options = params["options"].as_array().unwrap();
        let once = options.iter().find(|option| option["kind"] == "allow_once");
        let option = &once.unwrap()["optionId"];
        Answer::Result(json!({"outcome": {"outcome": "selected", "optionId": option}}))
    });
    server.request(
        "initialize",
        json!({"protocolVersion": 1, "clientCapabilities": {}}),
    );
    let params = json!({"cwd": scratch.repository(), "mcpServers": []});
    let session = server.request("session/new", params)["sessionId"].clone();
    let prompt = json!([{"type": "text", "text": "Look around."}]);
    let ended = server.request(
        "session/prompt",
        json!({"sessionId": session, "prompt": prompt}),
    );
    assert_eq!(ended["stopReason"], "end_turn");
    let statuses: Vec<&str> = server
        .seen()
        .iter()
        .map(|message| &message["params"]["update"])
        .filter(|update| update["sessionUpdate"] == "tool_call_update")
        .filter_map(|update| update["status"].as_str())
        .filter(|status| ["completed", "failed"].contains(status))
        .collect();
    assert_eq!(statuses, ["completed"; 4]);
}

#[test]
fn files_are_found_by_what_is_typed_of_their_names() {
    let scratch = Scratch::new();
    for dir in ["src/session", "target", ".longshore"] {
        fs::create_dir_all(scratch.file(dir)).unwrap();
    }
    for file in [
        "src/session/actor.rs",
        "src/main.rs",
        "target/main.o",
        ".env",
        "src/Actors.md",
    ] {
        scratch.write(file, "x");
    }
    scratch.write(".gitignore", "target/\n");
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"model": "demo"}));
    let mut paths = |params: Value| -> Vec<String> {
        let found = server.request("file/search", params);
        assert_eq!(found["incomplete"], false);
        let items = found["items"].as_array().unwrap().iter();
        items
            .map(|item| item["path"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        paths(json!({"sessionId": session, "query": "actor"})),
        ["src/Actors.md", "src/session/actor.rs"]
    );
    assert_eq!(
        paths(json!({"cwd": scratch.repository(), "query": "main"})),
        ["src/main.rs"]
    );
    assert_eq!(
        paths(json!({"cwd": scratch.file("src"), "query": "sact", "limit": 1})),
        ["session/actor.rs"]
    );
    let all: BTreeSet<String> = paths(json!({"sessionId": session})).into_iter().collect();
    let expected = [
        ".gitignore",
        ".longshore",
        "greeting.txt",
        "src",
        "src/Actors.md",
        "src/main.rs",
        "src/session",
        "src/session/actor.rs",
    ];
    assert_eq!(all, expected.map(str::to_owned).into());

    let found = server.request(
        "file/search",
        json!({"sessionId": session, "query": "src/ses"}),
    );
    let first = &found["items"][0];
    assert_eq!(
        (&first["path"], &first["isDirectory"]),
        (&json!("src/session"), &json!(true))
    );
    assert_eq!(first["positions"], json!([0, 1, 2, 3, 4, 5, 6]));
    assert!(first["score"].as_u64().unwrap() > 0);

    for (params, kind) in [
        (json!({"query": "x"}), "invalid_params"),
        (
            json!({"query": "x", "cwd": "/", "sessionId": session}),
            "invalid_params",
        ),
        (json!({"query": "x", "cwd": "src"}), "invalid_params"),
        (
            json!({"query": "x", "cwd": scratch.file("missing")}),
            "invalid_params",
        ),
        (
            json!({"query": "x", "sessionId": "none"}),
            "session_not_found",
        ),
    ] {
        let error = server.refused("file/search", params.clone());
        assert_eq!(error["data"]["kind"], kind, "{params}: {error}");
    }
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        usize::try_from((drawn >> 33) % sides as u64).unwrap()
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.roll(100) < chance
    }

    fn pick<'l, T>(&mut self, list: &'l [T]) -> &'l T {
        &list[self.roll(list.len())]
    }
}

/// A search, for both programs.
struct Case {
    args: Value,
    rg: Vec<String>,
    /// Of what ripgrep prints, only paths for which this holds: our globs are filters, its globs are not.
    keeps: fn(&str) -> bool,
}

const WORDS: [&str; 14] = [
    "fn",
    "let",
    "the",
    "self",
    "use",
    "unsafe impl",
    "TODO|FIXME",
    r"\bmut\s+self\b",
    r"^pub (struct|enum) \w+",
    r"[A-Z]{4,}_[A-Z]+",
    r"\d{4}",
    r"end$",
    r"^\s*//!",
    r"\w+::\w+\(\)",
];

const ACROSS: [&str; 6] = [
    r"\{\s*\n\s*\}",
    r"struct \w+ \{[^}]*\}",
    r"fn \w+\(\)\s*\{\n",
    r"let .{1,40}\n\s*let",
    r"end$",
    "self",
];

fn has_extension(path: &str, wanted: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|extension| extension == wanted)
}

fn case(dice: &mut Dice, places: &[String], base: &[String]) -> Case {
    let mut rg = base.to_vec();
    let multiline = dice.percent(20);
    let pattern = if multiline {
        *dice.pick(&ACROSS)
    } else {
        *dice.pick(&WORDS)
    };
    let mode = *dice.pick(&["files_with_matches", "content", "content", "count_matches"]);
    let mut args = json!({"pattern": pattern, "output_mode": mode, "head_limit": 0});
    let mut set = |name: &str, value: Value| args[name] = value;
    match mode {
        "files_with_matches" => rg.push("--files-with-matches".to_owned()),
        "count_matches" => rg.push("--count-matches".to_owned()),
        _ => rg.push("--line-number".to_owned()),
    }
    if multiline {
        set("multiline", true.into());
        rg.extend(["--multiline", "--multiline-dotall"].map(str::to_owned));
    }
    if dice.percent(30) {
        set("-i", true.into());
        rg.push("--ignore-case".to_owned());
    }
    // Given together, the flags mean different things to both.
    let flags: &[&str] = if dice.percent(50) {
        &["-C"]
    } else {
        &["-A", "-B"]
    };
    for flag in flags {
        if mode == "content" && dice.percent(40) {
            let n = dice.roll(4);
            set(flag, n.into());
            rg.extend([(*flag).to_owned(), n.to_string()]);
        }
    }
    if dice.percent(30) {
        set("include_ignored", true.into());
        rg.push("--no-ignore".to_owned());
    }
    if dice.percent(20) {
        let kind = *dice.pick(&["rust", "md", "toml", "c", "txt"]);
        set("type", kind.into());
        rg.extend(["--type".to_owned(), kind.to_owned()]);
    }
    let mut keeps: fn(&str) -> bool = |_| true;
    if dice.percent(25) {
        let (glob, filter): (&str, fn(&str) -> bool) = *dice.pick::<(&str, fn(&str) -> bool)>(&[
            ("*.rs", |path| has_extension(path, "rs")),
            ("!*.rs", |path| !has_extension(path, "rs")),
            ("*.{md,toml}", |path| {
                has_extension(path, "md") || has_extension(path, "toml")
            }),
            ("**/src/**", |path| {
                path.contains("/src/") || path.starts_with("src/")
            }),
            ("!src", |path| !path.split('/').any(|name| name == "src")),
            ("**/*", |_| true),
        ]);
        set("glob", glob.into());
        keeps = filter;
    }
    let place = if places.is_empty() {
        "./".to_owned()
    } else {
        let place = dice.pick(places).clone();
        set("path", place.as_str().into());
        place
    };
    rg.extend(["-e".to_owned(), pattern.to_owned(), "--".to_owned(), place]);
    Case { args, rg, keeps }
}

/// What every run of ripgrep has: what longshore does on purpose, said in its flags.
fn base_flags(root: &Path) -> Vec<String> {
    let mut flags: Vec<String> = [
        "--no-config",
        "--no-messages",
        "--color=never",
        "--no-heading",
        "--with-filename",
        "--hidden",
        "--crlf",
        "--sort=path",
        "--null",
    ]
    .map(str::to_owned)
    .into();
    for closed in [
        ".git",
        ".svn",
        ".hg",
        ".bzr",
        ".jj",
        ".sl",
        ".env",
        ".longshore-tmp-*",
    ] {
        flags.push(format!("--glob=!{closed}"));
    }
    let in_repository = root.ancestors().any(|dir| dir.join(".git").exists());
    if !in_repository {
        flags.extend(["--no-require-git", "--no-ignore-parent"].map(str::to_owned));
    }
    flags
}

/// A line of ripgrep, written as we write it; separators have no path.
struct Line {
    path: String,
    text: String,
}

fn by_ripgrep(rg: &Path, scratch: &Scratch, root: &Path, case: &Case) -> Vec<Line> {
    let mode = case.args["output_mode"].as_str().unwrap();
    let output = scratch
        .command(rg)
        .args(&case.rg)
        .current_dir(root)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Each path ends in a NUL; in a list of paths nothing else stands between them.
    let end = if mode == "files_with_matches" {
        '\0'
    } else {
        '\n'
    };
    let mut lines: Vec<Line> = Vec::new();
    for line in text.split(end).filter(|line| !line.is_empty()) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line == "--" {
            // A separator counts where lines stand on both sides of it.
            if lines.last().is_some_and(|last| last.text != "--") {
                lines.push(Line {
                    path: String::new(),
                    text: line.to_owned(),
                });
            }
            continue;
        }
        let (path, rest) = match mode {
            "files_with_matches" => (line, ""),
            _ => match line.split_once('\0') {
                Some(parts) => parts,
                // A remark about a binary file.
                None => continue,
            },
        };
        let path = path.strip_prefix("./").unwrap_or(path).to_owned();
        let sign = match mode {
            "files_with_matches" => "",
            "count_matches" => ":",
            _ => {
                let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
                &number[..1]
            }
        };
        if (case.keeps)(&path) {
            let text = format!("{path}{sign}{rest}");
            lines.push(Line { path, text });
        }
    }
    if lines.last().is_some_and(|last| last.text == "--") {
        lines.pop();
    }
    lines
}

/// Compares what both found.
fn compare(case: &Case, ours: &str, theirs: &[Line]) {
    let mode = case.args["output_mode"].as_str().unwrap();
    let mut lines: Vec<&str> = ours.split('\n').collect();
    let mut notices = Vec::new();
    while lines.last().is_some_and(|line| line.starts_with('[')) {
        notices.extend(lines.pop());
    }
    if lines == ["No matches found."]
        || lines == ["No matches found in files that are not protected."]
    {
        lines.clear();
    }
    let n_theirs = theirs.iter().filter(|line| line.text != "--").count();
    let shown = notices
        .iter()
        .find(|notice| notice.starts_with("[Showing "));
    match mode {
        "content" => {
            if let Some(shown) = shown {
                assert!(
                    shown.contains(&format!(" of {n_theirs};")),
                    "{shown} {n_theirs}"
                );
                assert!(lines.len() <= theirs.len());
            } else {
                assert_eq!(lines.len(), theirs.len(), "{lines:#?}");
            }
            for (line, Line { path, text }) in lines.iter().zip(theirs) {
                if text.len() < 500 {
                    assert_eq!(line, text);
                } else {
                    // Of a long line a window is shown.
                    assert!(line.starts_with(path), "{line} {text}");
                }
            }
        }
        "count_matches" => {
            let n_matches: u64 = theirs
                .iter()
                .map(|line| line.text.rsplit_once(':').unwrap().1)
                .map(|number| number.parse::<u64>().unwrap())
                .sum();
            if n_theirs > 0 {
                let header = lines.remove(0);
                let files = if n_theirs == 1 { "file" } else { "files" };
                let matches = if n_matches == 1 { "match" } else { "matches" };
                let expected = format!("{n_matches} {matches} in {n_theirs} {files}.");
                assert!(header.starts_with(&expected), "{header}: {expected}");
            }
            let expected: Vec<&str> = theirs.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(lines[..], expected[..lines.len()]);
            assert!(shown.is_some() || lines.len() == expected.len());
        }
        _ => {
            // Ours are newest first.
            let mut sorted = lines.clone();
            sorted.sort_unstable();
            let mut expected: Vec<&str> = theirs.iter().map(|line| line.path.as_str()).collect();
            expected.sort_unstable();
            if let Some(shown) = shown {
                assert!(
                    shown.contains(&format!(" of {n_theirs};")),
                    "{shown} {n_theirs}"
                );
                assert!(
                    sorted
                        .iter()
                        .all(|line| expected.binary_search(line).is_ok())
                );
            } else {
                assert_eq!(sorted, expected);
            }
        }
    }
}

fn compare_all(
    rg: &Path,
    scratch: &Scratch,
    root: &Path,
    places: &[String],
    n_cases: usize,
    seed: u64,
) {
    let mut server = TestServer::open(scratch);
    let mut dice = Dice(seed);
    let base = base_flags(root);
    let cases: Vec<Case> = (0..n_cases)
        .map(|_| case(&mut dice, places, &base))
        .collect();
    let mut n_found = 0;
    for some in cases.chunks(10) {
        let calls: Vec<_> = some
            .iter()
            .map(|case| ("Grep", case.args.clone()))
            .collect();
        for (case, result) in some.iter().zip(play(&mut server, root, &calls)) {
            println!("{} | rg {}", case.args, case.rg.join(" "));
            assert!(!result.is_error, "{}", result.text);
            let theirs = by_ripgrep(rg, scratch, root, case);
            n_found += usize::from(!theirs.is_empty());
            compare(case, &result.text, &theirs);
        }
    }
    assert!(
        n_found * 2 > n_cases,
        "{n_found} of {n_cases} found anything"
    );
}

/// A repository with everything in it that searches meet.
fn plant(scratch: &Scratch) {
    let mut dice = Dice(7);
    let mut dirs = vec![String::new()];
    for n in 0..30 {
        let above = dice.pick(&dirs).clone();
        let name = *dice.pick(&["src", "d", ".hidden", "build", "vendor"]);
        let dir = format!(
            "{above}{name}{}/",
            if dice.percent(50) {
                String::new()
            } else {
                n.to_string()
            }
        );
        fs::create_dir_all(scratch.file(&dir)).unwrap();
        dirs.push(dir);
    }
    for n in 0..400 {
        let dir = dice.pick(&dirs).clone();
        let extension = *dice.pick(&["rs", "md", "toml", "txt", "c", "log"]);
        scratch.write(&format!("{dir}f{n}.{extension}"), text(&mut dice));
    }
    for name in [".gitignore", ".ignore", ".rgignore"] {
        for _ in 0..8 {
            let dir = dice.pick(&dirs).clone();
            let rules = [
                "*.log",
                "build/",
                "/src",
                "!*.md",
                "vendor*",
                "**/d/*.txt",
                "f1*",
                "!f12*",
                "*.c",
                "!build/",
                "d/**",
                "# nothing",
                "f[2-4]?.rs",
                "/f*.toml",
                "",
                "\\!x",
                "*.txt ",
            ];
            let lines: Vec<&str> = (0..3).map(|_| *dice.pick(&rules)).collect();
            scratch.write(&format!("{dir}{name}"), lines.join("\n"));
        }
    }
    scratch.write(".git/info/exclude", "f9*\n");
    // A repository in the repository, and a secret.
    fs::create_dir_all(scratch.file(&format!("{}inner/.git", dirs[3]))).unwrap();
    scratch.write(&format!("{}inner/a.log", dirs[3]), "let the end\n");
    scratch.write(".env", "let the end\n");
}

fn text(dice: &mut Dice) -> Vec<u8> {
    let mut text = String::new();
    let ending = if dice.percent(20) { "\r\n" } else { "\n" };
    for _ in 0..dice.roll(60) {
        let line = *dice.pick(&[
            "fn main() {",
            "}",
            "    let x = self.y;",
            "the end",
            "",
            "use std::fs;",
            "pub struct Thing {",
            "unsafe impl Send",
            "// TODO",
            "//! A document",
            "MAX_SIZE 2026",
            "Self::new()",
            "übergröße the end",
            "    let mut self_ = 1;",
            "struct A { b }",
        ]);
        text.push_str(line);
        text.push_str(ending);
    }
    if dice.percent(10) {
        text.push_str(&"long ".repeat(300));
        text.push_str("the end");
    }
    match dice.roll(20) {
        0 => format!("\u{feff}{text}")
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect(),
        1 => format!("\u{feff}{text}").into_bytes(),
        2 => [text.as_bytes(), b"\0", text.as_bytes()].concat(),
        3 => [text.as_bytes(), b"caf\xE9 the end\n", text.as_bytes()].concat(),
        // A NUL behind what one read takes in.
        4 => [text.repeat(100).as_bytes(), b"\0 let\n", text.as_bytes()].concat(),
        _ => text.into_bytes(),
    }
}

fn ripgrep() -> Option<PathBuf> {
    let rg = peers::folder("ripgrep", "rg/bin/rg")?.join("rg/bin/rg");
    let said = Command::new(&rg).arg("--version").output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    peers::met("ripgrep", said.split_whitespace().nth(1).unwrap());
    Some(rg)
}

/// How much more than usual is done.
fn scale() -> usize {
    std::env::var("LONGSHORE_TEST_SCALE").map_or(1, |scale| scale.parse().unwrap())
}

#[test]
fn the_same_lines_as_ripgrep_in_a_generated_repository() {
    let Some(rg) = ripgrep() else {
        return;
    };
    let scratch = Scratch::new();
    plant(&scratch);
    compare_all(&rg, &scratch, &scratch.repository(), &[], 120 * scale(), 11);
}

#[test]
fn the_same_lines_as_ripgrep_outside_a_repository() {
    let Some(rg) = ripgrep() else {
        return;
    };
    let scratch = Scratch::new();
    plant(&scratch);
    fs::remove_dir_all(scratch.file(".git")).unwrap();
    let places = ["src", "d", "."].map(str::to_owned);
    let places: Vec<_> = places
        .into_iter()
        .filter(|place| scratch.file(place).is_dir())
        .collect();
    compare_all(
        &rg,
        &scratch,
        &scratch.repository(),
        &places,
        30 * scale(),
        13,
    );
}

#[test]
fn the_same_lines_as_ripgrep_in_the_sources_of_crates() {
    let Some(rg) = ripgrep() else {
        return;
    };
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(
        || Path::new(&std::env::var_os("HOME").unwrap()).join(".cargo"),
        PathBuf::from,
    );
    let Some(root) = fs::read_dir(cargo.join("registry/src"))
        .ok()
        .and_then(|mut registries| registries.next())
        .map(|registry| registry.unwrap().path())
    else {
        println!("SKIPPED the sources of crates: they are not on this machine");
        return;
    };
    let mut crates: Vec<String> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    crates.sort();
    let scratch = Scratch::new();
    compare_all(&rg, &scratch, &root, &crates, 50 * scale(), 17);
}
