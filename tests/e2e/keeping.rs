//! Sessions that are removed, and what is left of them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

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
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, words));
        } else if fs::read(&path)
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
