//! Sessions that are hidden, written into a file, removed, or not kept at all.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{Scratch, TestServer};

const SAYS_OK: &str = "turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last";

/// The directory of a session, wherever it is.
fn dir_of(scratch: &Scratch, session: &str) -> Option<PathBuf> {
    let keys = fs::read_dir(scratch.longshore_home().join("sessions")).unwrap();
    keys.map(|key| key.unwrap().path().join(session))
        .find(|dir| dir.is_dir())
}

/// Every file below a directory whose bytes hold these words.
fn holding(dir: &Path, words: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(holding(&path, words));
        } else if kind.is_file()
            && fs::read(&path)
                .unwrap()
                .windows(words.len())
                .any(|window| window == words.as_bytes())
        {
            found.push(path);
        }
    }
    found
}

#[test]
fn nothing_is_left_of_a_deleted_session() {
    let scratch = Scratch::new();
    scratch.script(SAYS_OK);
    let mut server = TestServer::open(&scratch);
    let mut watcher = TestServer::open(&scratch);
    let (kept, gone) = (
        server.create(&scratch, json!({})),
        server.create(&scratch, json!({})),
    );
    for session in [&kept, &gone] {
        let job = json!({"sessionId": session, "cron": "0 9 * * *", "prompt": "Look."});
        server.request("cron/create", job);
        let turn = server.turn(session, &format!("The word of {session}."));
        server.ended(&turn);
    }
    let words = format!("The word of {gone}.");
    let in_use = watcher.refused("session/delete", json!({"sessionId": gone}));
    assert_eq!(in_use["data"]["kind"], "session_locked", "{in_use}");
    assert_eq!(in_use["data"]["pid"], server.pid());
    assert!(dir_of(&scratch, &gone).is_some());

    // Closed first, so that the lists have noted it.
    server.request("session/close", json!({"sessionId": gone}));
    assert!(!holding(&scratch.longshore_home(), &words).is_empty());
    server.request("session/delete", json!({"sessionId": gone}));
    let deleted = server.event("session/deleted");
    assert_eq!(deleted["sessionId"], gone.as_str());
    assert_eq!(
        holding(&scratch.longshore_home(), &words),
        Vec::<PathBuf>::new()
    );
    assert_eq!(dir_of(&scratch, &gone), None);
    for method in [
        "session/delete",
        "session/get",
        "session/resume",
        "session/close",
    ] {
        let refused = server.refused(method, json!({"sessionId": gone}));
        assert_eq!(refused["data"]["kind"], "session_not_found", "{method}");
    }

    // One that runs is ended first.
    server.request("session/delete", json!({"sessionId": kept}));
    server.event("session/closed");
    assert!(dir_of(&scratch, &kept).is_none());
    let listed = server.request("session/list", json!({}));
    assert_eq!(listed["items"], json!([]));
}

/// A kill while a session is removed leaves all of it or nothing, and no session that is half there.
#[test]
fn what_a_kill_leaves_of_a_removal_goes_with_the_next_start() {
    let scratch = Scratch::new();
    scratch.script(SAYS_OK);
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    let turn = server.turn(&session, "Hello");
    server.ended(&turn);
    server.request("session/close", json!({"sessionId": session}));
    server.kill();
    let aside = scratch.longshore_home().join("run/aside").join(&session);
    fs::create_dir_all(aside.parent().unwrap()).unwrap();
    fs::rename(dir_of(&scratch, &session).unwrap(), &aside).unwrap();

    let mut server = TestServer::open(&scratch);
    let listed = server.request("session/list", json!({}));
    assert_eq!(listed["items"], json!([]));
    server.until("what was aside to be removed", || !aside.exists());
}

fn ids(listed: &Value) -> Vec<&str> {
    let items = listed["items"].as_array().unwrap();
    items
        .iter()
        .map(|session| session["sessionId"].as_str().unwrap())
        .collect()
}

#[test]
fn an_archived_session_is_out_of_sight_and_nothing_else() {
    let scratch = Scratch::new();
    scratch.script(SAYS_OK);
    let mut server = TestServer::open(&scratch);
    let (a, b) = (
        server.create(&scratch, json!({"title": "a"})),
        server.create(&scratch, json!({"title": "b"})),
    );
    let archived = server.request("session/archive", json!({"sessionId": a}));
    assert_eq!(archived["session"]["archived"], true);
    let updated = server.event("session/updated");
    assert_eq!(updated["changed"], json!({"archived": true}));
    let lists = |server: &mut TestServer| {
        let shown = server.request("session/list", json!({}));
        let hidden = server.request("session/list", json!({"archived": true}));
        let names = |listed: &Value| ids(listed).iter().map(ToString::to_string).collect();
        let both: (Vec<String>, Vec<String>) = (names(&shown), names(&hidden));
        both
    };
    assert_eq!(lists(&mut server), (vec![b.clone()], vec![a.clone()]));
    let turn = server.turn(&a, "Hello");
    server.ended(&turn);
    server.kill();

    // It holds, and a session that is not loaded is left so: another process can have it.
    let mut server = TestServer::open(&scratch);
    assert_eq!(lists(&mut server), (vec![b.clone()], vec![a.clone()]));
    server.request("session/archive", json!({"sessionId": b}));
    server.request(
        "session/archive",
        json!({"sessionId": a, "archived": false}),
    );
    let mut other = TestServer::open(&scratch);
    assert_eq!(lists(&mut other), (vec![a.clone()], vec![b.clone()]));
    let resumed = other.request("session/resume", json!({"sessionId": b}));
    assert_eq!(resumed["session"]["archived"], true);
    let refused = server.refused("session/archive", json!({"sessionId": b}));
    assert_eq!(refused["data"]["kind"], "session_locked");
}

#[test]
fn a_session_that_is_not_kept_works_like_any_other_and_leaves_nothing() {
    let scratch = Scratch::new();
    scratch.script(SAYS_OK);
    let mut server = TestServer::open(&scratch);
    let kept = server.create(&scratch, json!({}));
    let session = server.create(&scratch, json!({"ephemeral": true, "title": "Passing"}));
    let words = "Words that nobody keeps.";
    for _ in 0..2 {
        let turn = server.turn(&session, words);
        server.ended(&turn);
    }
    server.request("session/undo", json!({"sessionId": session}));
    assert_eq!(
        ids(&server.request("session/list", json!({}))),
        [kept.as_str()]
    );
    let listed = server.request("session/list", json!({"ephemeral": true}));
    assert_eq!(ids(&listed), [session.as_str()]);
    let none = server.request(
        "session/list",
        json!({"ephemeral": true, "text": "nowhere"}),
    );
    assert_eq!(none["items"], json!([]));
    let attached = server.request("session/attach", json!({"sessionId": session}));
    assert_eq!(attached["snapshot"]["turns"].as_array().unwrap().len(), 1);

    // A copy is not kept either.
    let forked = server.request("session/fork", json!({"sessionId": session}));
    assert_eq!(
        (
            &forked["session"]["ephemeral"],
            &forked["session"]["turnCount"]
        ),
        (&json!(true), &json!(1))
    );
    let copy = forked["session"]["sessionId"].as_str().unwrap().to_owned();
    assert!(!holding(&scratch.longshore_home(), words).is_empty());
    server.request("session/close", json!({"sessionId": session}));
    server.request("session/delete", json!({"sessionId": copy}));
    assert_eq!(
        holding(&scratch.longshore_home(), words),
        Vec::<PathBuf>::new()
    );
    for method in [
        "session/resume",
        "session/get",
        "session/fork",
        "session/export",
    ] {
        let refused = server.refused(method, json!({"sessionId": session}));
        assert_eq!(refused["data"]["kind"], "session_not_found", "{method}");
    }

    // What a kill leaves goes with the next start.
    let session = server.create(&scratch, json!({"ephemeral": true}));
    let turn = server.turn(&session, words);
    server.ended(&turn);
    server.kill();
    let mut server = TestServer::open(&scratch);
    let home = scratch.longshore_home();
    server.until("what was not to be kept to be removed", || {
        holding(&home.join("run"), words).is_empty()
    });
    assert_eq!(
        ids(&server.request("session/list", json!({}))),
        [kept.as_str()]
    );
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// The files in a zip.
fn unzipped(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut archive = zip::ZipArchive::new(File::open(path).unwrap()).unwrap();
    let mut files = Vec::new();
    for n in 0..archive.len() {
        let mut file = archive.by_index(n).unwrap();
        let (name, mut bytes) = (file.name().unwrap().into_owned(), Vec::new());
        file.read_to_end(&mut bytes).unwrap();
        files.push((name, bytes));
    }
    files
}

#[test]
fn an_export_has_everything_but_the_secrets() {
    const SECRET: &str = "sk-very-secret-0123456789";
    let scratch = Scratch::new();
    scratch.script(
        r#"
turns:
  - steps: [{tool_call: {name: Bash, args: {command: "cat key; seq 1 30000; cat key", run_in_background: true, description: prints}}}]
  - steps: [{tool_call: {name: WaitFor, args: {timeout: 60}}}]
  - steps: [{tool_call: {name: Bash, args: {command: "seq 1 60000; cat key"}}}]
  - steps: [{text: ok}]
on_exhausted: repeat_last
"#,
    );
    scratch.configure_more(&format!(
        "[providers.other]\ntype = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key = \"{SECRET}\"\n"
    ));
    scratch.write("key", format!("the key is {SECRET}\n"));
    let mut server = TestServer::open(&scratch);
    server.answer_approvals("allow_once");
    let session = server.create(&scratch, json!({}));
    let words = format!("{} {SECRET} {}", "long ".repeat(20_000), "words");
    let turn = server.turn(&session, &words);
    server.ended(&turn);
    let dir = dir_of(&scratch, &session).unwrap();
    let outside = scratch.root().join("outside");
    fs::write(&outside, "not of this session").unwrap();
    fs::create_dir_all(dir.join("tool-results")).unwrap();
    fs::write(
        dir.join("tool-results/spilled.txt"),
        format!("x {SECRET} y"),
    )
    .unwrap();
    std::os::unix::fs::symlink(&outside, dir.join("tool-results/link")).unwrap();
    std::os::unix::fs::symlink(scratch.root(), dir.join("plans")).unwrap();
    assert!(!holding(&dir, SECRET).is_empty());

    // While it is loaded, to a place that is named.
    let target = scratch.root().join("out.zip");
    let params = json!({"sessionId": session, "path": target});
    let exported = server.request("session/export", params.clone());
    assert_eq!(exported["path"], target.to_str().unwrap());
    assert_eq!(exported["leftOut"], json!(["plans", "tool-results/link"]));
    assert_eq!(exported["bytes"], fs::metadata(&target).unwrap().len());
    let files = unzipped(&target);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert!(
        names.contains(&"journal.jsonl") && names.contains(&"manifest.json"),
        "{names:?}"
    );
    for kind in ["blobs/", "tasks/", "tool-results/"] {
        assert!(
            names.iter().any(|name| name.starts_with(kind)),
            "{kind}: {names:?}"
        );
    }
    assert!(
        names.iter().any(|name| name.ends_with("/output.log")),
        "{names:?}"
    );
    assert!(!names.contains(&"lock"));
    for (name, bytes) in &files {
        let text = String::from_utf8_lossy(bytes);
        assert!(!text.contains(SECRET), "{name}");
        assert!(!text.contains("not of this session"), "{name}");
        if name == "journal.jsonl" {
            for line in text.lines() {
                serde_json::from_str::<Value>(line).unwrap();
            }
        }
    }
    let manifest = files
        .iter()
        .find(|(name, _)| name == "manifest.json")
        .unwrap();
    let manifest: Value = serde_json::from_slice(&manifest.1).unwrap();
    assert_eq!(
        (
            &manifest["format"],
            &manifest["sessionId"],
            &manifest["session"]["turnCount"]
        ),
        (&json!(1), &json!(session), &json!(1))
    );
    let entries = manifest["files"].as_array().unwrap();
    assert_eq!(entries.len(), files.len() - 1);
    assert_eq!(exported["files"], entries.len());
    let mut n_redacted = 0;
    for entry in entries {
        let (_, bytes) = files
            .iter()
            .find(|(name, _)| entry["path"] == name.as_str())
            .unwrap();
        let hex = hex(&Sha256::digest(bytes));
        assert_eq!(
            (&entry["bytes"], &entry["sha256"]),
            (&json!(bytes.len()), &json!(hex))
        );
        n_redacted += u64::from(entry["redacted"] == true);
    }
    assert!(n_redacted >= 3, "{manifest}");
    assert_eq!(exported["redacted"], n_redacted);

    // Nothing is written over unasked, and nothing half written is left.
    let refused = server.refused("session/export", params);
    assert_eq!(refused["data"]["path"], "/path", "{refused}");
    for path in ["relative.zip", "/no/such/dir/x.zip"] {
        let refused = server.refused(
            "session/export",
            json!({"sessionId": session, "path": path}),
        );
        assert_eq!(refused["data"]["kind"], "invalid_params", "{refused}");
    }
    server.request(
        "session/export",
        json!({"sessionId": session, "path": target, "overwrite": true}),
    );
    // Least of all over what longshore keeps.
    for kept in ["config.toml", "run/own.zip", "sessions/own.zip"] {
        let path = scratch.longshore_home().join(kept);
        let refused = server.refused(
            "session/export",
            json!({"sessionId": session, "path": path, "overwrite": true}),
        );
        assert_eq!(refused["data"]["kind"], "invalid_params", "{kept}");
        assert!(!kept.ends_with("zip") || !path.exists());
    }
    let beside: Vec<String> = fs::read_dir(scratch.root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("zip"))
        .collect();
    assert_eq!(beside, ["out.zip"]);

    // By itself it goes below longshore's own directory; other processes may do it meanwhile.
    let mut other = TestServer::open(&scratch);
    let exported = other.request("session/export", json!({"sessionId": session}));
    let path = Path::new(exported["path"].as_str().unwrap());
    assert!(
        path.starts_with(scratch.longshore_home().join("exports")),
        "{path:?}"
    );
    assert_eq!(unzipped(path).len(), files.len());
}

/// A session that can't be loaded any more is one that somebody wants to look at.
#[test]
fn a_damaged_session_can_be_exported() {
    let scratch = Scratch::new();
    scratch.script(SAYS_OK);
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    server.request("session/close", json!({"sessionId": session}));
    let dir = dir_of(&scratch, &session).unwrap();
    fs::write(dir.join("journal.jsonl"), "no line of ours\n").unwrap();
    fs::remove_file(dir.join("meta.json")).unwrap();
    let exported = server.request("session/export", json!({"sessionId": session}));
    let files = unzipped(Path::new(exported["path"].as_str().unwrap()));
    let journal = files
        .iter()
        .find(|(name, _)| name == "journal.jsonl")
        .unwrap();
    assert_eq!(journal.1, b"no line of ours\n");
    // It can also be removed.
    server.request("session/delete", json!({"sessionId": session}));
    assert!(dir_of(&scratch, &session).is_none());
}

#[test]
fn whoever_takes_up_a_damaged_session_is_told_what_it_lost() {
    let scratch = Scratch::new();
    scratch.script(SAYS_OK);
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({}));
    let turn = server.turn(&session, "Hello");
    server.ended(&turn);
    server.request("session/close", json!({"sessionId": session}));
    let of_session = json!({"sessionId": session});
    let whole = server.request("session/resume", of_session.clone());
    assert_eq!(whole.get("warnings"), None, "{whole}");
    server.request("session/close", of_session.clone());

    let path = dir_of(&scratch, &session).unwrap().join("journal.jsonl");
    let journal = fs::read_to_string(&path).unwrap();
    let (before, line) = journal.split_once("message_completed").unwrap();
    fs::write(&path, format!("{before}message_com\u{1}{line}")).unwrap();
    let told = |result: &Value| {
        let warnings = result["warnings"].as_array().unwrap();
        assert!(
            warnings.iter().any(|warning| warning["topic"] == "journal"),
            "{result}"
        );
    };
    told(&server.request("session/resume", of_session.clone()));
    // Hosts that come later are told, too.
    told(&server.request("session/attach", of_session.clone())["snapshot"]);
    server.request("session/close", of_session.clone());

    // Whole lines that are gone leave no trace in what is left.
    for kept in [
        journal.split_inclusive('\n').take(3).collect(),
        String::new(),
    ] {
        fs::write(&path, kept).unwrap();
        told(&server.request("session/resume", of_session.clone()));
        server.request("session/close", of_session.clone());
        let again = server.request("session/resume", of_session.clone());
        assert_eq!(again.get("warnings"), None, "it is told once: {again}");
        server.request("session/close", of_session.clone());
    }
}

/// Whenever the process dies, a session that is being deleted is there as a whole or not at all.
#[test]
fn a_kill_leaves_no_half_of_a_session() {
    let scratch = Scratch::new();
    scratch.script(SAYS_OK);
    let mut server = TestServer::open(&scratch);
    let mut sessions = Vec::new();
    for n in 0..10 {
        let session = server.create(&scratch, json!({"title": n.to_string()}));
        let turn = server.turn(&session, &"long ".repeat(20_000));
        server.ended(&turn);
        server.request("session/close", json!({"sessionId": session}));
        sessions.push(session);
    }
    drop(server);
    for (n, session) in sessions.iter().enumerate() {
        let mut server = TestServer::open(&scratch);
        server.send("session/delete", json!({"sessionId": session}));
        // No message tells how far it is: any moment will do.
        std::thread::sleep(std::time::Duration::from_millis(n as u64));
        server.kill();
    }
    let mut server = TestServer::open(&scratch);
    let aside = scratch.longshore_home().join("run/aside");
    server.until("what was aside to be removed", || {
        fs::read_dir(&aside).map_or(true, |mut left| left.next().is_none())
    });
    let listed = server.request("session/list", json!({}));
    for session in &sessions {
        let is_listed = ids(&listed).contains(&session.as_str());
        assert_eq!(is_listed, dir_of(&scratch, session).is_some(), "{session}");
        if is_listed {
            let resumed = server.request(
                "session/resume",
                json!({"sessionId": session, "replay": "transcript"}),
            );
            assert_eq!(resumed["transcript"]["items"].as_array().unwrap().len(), 1);
        }
    }
}
