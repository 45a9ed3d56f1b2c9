//! Cron jobs through the real binary, with a clock that stands in a file.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Scratch, TestServer};

const SAYS_OK: &str = "turns: [{steps: [{text: ok}]}]\non_exhausted: repeat_last";
/// The first answer never ends, the others do at once.
const HANGS_FIRST: &str = "turns: [{steps: [{text: Half}, {hang: true}]}, {steps: [{text: ok}]}]\non_exhausted: repeat_last";

/// A scratch place whose time is what the test says.
struct Clocked {
    scratch: Scratch,
}

impl Clocked {
    fn new(script: &str, now: &str) -> Self {
        let clocked = Self {
            scratch: Scratch::new(),
        };
        clocked.scratch.script(script);
        clocked.set(now);
        clocked
    }

    /// Sets the time. Replaced whole: nobody reads half a number.
    fn set(&self, now: &str) {
        let ms = now.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let path = self.scratch.root().join("clock");
        fs::write(path.with_extension("new"), ms.to_string()).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = self.scratch.longshore();
        command
            .env("LONGSHORE_CLOCK_FILE", self.scratch.root().join("clock"))
            .env("LONGSHORE_CRON_NO_JITTER", "1");
        command
    }

    fn open(&self) -> TestServer {
        let mut server = TestServer::spawn(&self.scratch, self.command());
        server.initialize(json!({"approvals": true, "questions": true}));
        server
    }
}

fn create(server: &mut TestServer, session: &str, more: Value) -> Value {
    let mut params = json!({"sessionId": session, "prompt": "Look."});
    let members = params.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    server.request("cron/create", params)["job"].clone()
}

fn jobs(server: &mut TestServer, session: &str) -> Vec<Value> {
    let listed = server.request("cron/list", json!({"sessionId": session}));
    listed["items"].as_array().unwrap().clone()
}

/// The text that began a turn.
fn input(started: &Value) -> String {
    let parts = started["input"].as_array().unwrap();
    parts
        .iter()
        .map(|part| part["text"].as_str().unwrap())
        .collect()
}

fn count(server: &TestServer, session: &str, event: &str) -> usize {
    let names = server.event_names(session);
    names.iter().filter(|name| **name == event).count()
}

#[test]
fn a_job_fires_while_nothing_runs() {
    let at = Clocked::new(SAYS_OK, "2026-03-01T11:58:30Z");
    let mut server = at.open();
    let session = server.create(&at.scratch, json!({"timezone": "europe/berlin"}));
    let job = create(&mut server, &session, json!({"cron": "0  13 * *\t*"}));
    assert_eq!(job["cron"], "0 13 * * *");
    assert_eq!(job["timezone"], "Europe/Berlin");
    assert_eq!(job["nextFireAt"], "2026-03-01T13:00:00.000+01:00");
    let id = job["jobId"].as_str().unwrap().to_owned();
    let changed = server.event("cron/changed");
    assert_eq!(
        (&changed["change"], &changed["job"]),
        (&json!("created"), &job)
    );

    at.set("2026-03-01T11:59:59.999Z");
    server.request("ping", json!({}));
    at.set("2026-03-01T12:00:00.250Z");
    let started = server.event("turn/started");
    assert_eq!(started["origin"], "cron");
    let text = input(&started);
    assert!(text.contains("<prompt>\nLook.\n</prompt>"), "{text}");
    let fired = server.event("cron/fired");
    assert_eq!(
        (&fired["jobId"], &fired["coalescedCount"], &fired["turnId"]),
        (&json!(id), &json!(1), &started["turnId"])
    );
    assert_eq!(fired["idealAt"], "2026-03-01T13:00:00.000+01:00");
    assert_eq!(fired["firedAt"], "2026-03-01T13:00:00.250+01:00");
    server.ended(started["turnId"].as_str().unwrap());

    // Nobody fires in between, and what was missed is one fire.
    at.set("2026-03-02T11:59:00Z");
    let listed = jobs(&mut server, &session);
    assert_eq!(
        (&listed[0]["fires"], &listed[0]["nextFireAt"]),
        (&json!(1), &json!("2026-03-02T13:00:00.000+01:00"))
    );
    at.set("2026-03-04T15:00:00Z");
    let fired = server.event("cron/fired");
    assert_eq!(fired["coalescedCount"], 3);
    server.ended(fired["turnId"].as_str().unwrap());
    assert_eq!(count(&server, &session, "cron/fired"), 2);

    // By hand, paused or not; the schedule stays.
    let name = json!({"sessionId": session, "jobId": id});
    let paused = server.request("cron/pause", name.clone());
    assert_eq!(
        (&paused["job"]["paused"], &paused["job"]["nextFireAt"]),
        (&json!("host"), &Value::Null)
    );
    let by_hand = server.request("cron/fire", name.clone());
    let fired = server.event("cron/fired");
    assert_eq!(fired["turnId"], by_hand["turnId"]);
    assert_eq!(fired["idealAt"], Value::Null);
    server.ended(by_hand["turnId"].as_str().unwrap());
    let resumed = server.request("cron/resume", name.clone());
    assert_eq!(
        resumed["job"]["nextFireAt"],
        "2026-03-05T13:00:00.000+01:00"
    );
    server.request("cron/delete", name.clone());
    let error = server.refused("cron/fire", name);
    assert_eq!(error["data"]["kind"], "job_not_found");
    assert_eq!(jobs(&mut server, &session), Vec::<Value>::new());
}

#[test]
fn what_comes_due_during_a_turn_follows_it_in_one() {
    let at = Clocked::new(HANGS_FIRST, "2026-03-01T08:00:00Z");
    let mut server = at.open();
    let session = server.create(&at.scratch, json!({"timezone": "UTC"}));
    for (cron, prompt) in [("30 9 * * *", "second"), ("0 9 * * *", "first")] {
        create(
            &mut server,
            &session,
            json!({"cron": cron, "prompt": prompt}),
        );
    }
    let turn = server.turn(&session, "Go.");
    server.event("message/delta");
    at.set("2026-03-01T10:00:00Z");
    let listed = jobs(&mut server, &session);
    assert_eq!(
        listed[0]["nextFireAt"], "2026-03-01T09:30:00.000+00:00",
        "due, and waiting"
    );
    assert_eq!(count(&server, &session, "cron/fired"), 0);
    server.request("turn/cancel", json!({"sessionId": session}));
    server.ended(&turn);
    let started = server.event_where("turn/started", |params| params["origin"] == "cron");
    let text = input(&started);
    assert!(
        text.find("first").unwrap() < text.find("second").unwrap(),
        "{text}"
    );
    for _ in 0..2 {
        assert_eq!(server.event("cron/fired")["turnId"], started["turnId"]);
    }
    server.ended(started["turnId"].as_str().unwrap());
    assert_eq!(count(&server, &session, "turn/started"), 2);
}

#[test]
fn a_killed_server_neither_loses_nor_repeats_a_fire() {
    let at = Clocked::new(HANGS_FIRST, "2026-03-01T08:00:00Z");
    let mut server = at.open();
    let session = server.create(&at.scratch, json!({"timezone": "UTC"}));
    let daily = create(
        &mut server,
        &session,
        json!({"cron": "0 9 * * *", "prompt": "daily"}),
    );
    let once = json!({"cron": "0 9 * * *", "prompt": "once", "recurring": false});
    create(&mut server, &session, once);
    let later = json!({"cron": "0 12 * * *", "prompt": "later", "recurring": false});
    create(&mut server, &session, later);
    at.set("2026-03-01T09:00:00Z");
    let started = server.event("turn/started");
    assert!(input(&started).contains("once"));
    server.event("message/delta");
    server.kill();

    // What had begun a turn does not begin another.
    at.set("2026-03-01T09:10:00Z");
    let mut server = at.open();
    server.request("session/resume", json!({"sessionId": session}));
    let listed = jobs(&mut server, &session);
    let prompts: Vec<&Value> = listed.iter().map(|job| &job["prompt"]).collect();
    assert_eq!(prompts, ["daily", "later"], "what was to fire once has");
    assert_eq!(listed[0]["jobId"], daily["jobId"]);
    assert_eq!(
        (&listed[0]["fires"], &listed[0]["nextFireAt"]),
        (&json!(1), &json!("2026-03-02T09:00:00.000+00:00"))
    );
    assert_eq!(count(&server, &session, "cron/fired"), 0);
    server.kill();

    // What came due while nothing ran is made up for, once: the daily job once for two days, the other as missed.
    at.set("2026-03-03T13:00:00Z");
    let mut server = at.open();
    server.request("session/resume", json!({"sessionId": session}));
    let started = server.event("turn/started");
    let text = input(&started);
    assert!(
        text.contains("<cron-missed count=\"1\">") && text.contains("2026-03-01T12:00:00"),
        "{text}"
    );
    let mut fired = [server.event("cron/fired"), server.event("cron/fired")];
    fired.sort_by_key(|fire| fire["prompt"].to_string());
    assert_eq!(
        (&fired[0]["coalescedCount"], &fired[1]["missed"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(server.event("cron/missed")["count"], 1);
    let completed = server.event_where("cron/changed", |params| params["change"] == "completed");
    assert_eq!(completed["job"]["prompt"], "later");
    // What the model had said so far died with the server, so it hangs again.
    server.request("turn/cancel", json!({"sessionId": session}));
    server.ended(started["turnId"].as_str().unwrap());
    drop(server);
    let mut server = at.open();
    server.request("session/resume", json!({"sessionId": session}));
    assert_eq!(jobs(&mut server, &session)[0]["fires"], 2);
    server.request("session/close", json!({"sessionId": session}));
    assert_eq!(count(&server, &session, "turn/started"), 0);
}

#[test]
fn jobs_keep_their_appointments_when_clocks_change() {
    let at = Clocked::new(SAYS_OK, "2026-03-28T12:00:00Z");
    let mut server = at.open();
    let session = server.create(&at.scratch, json!({"timezone": "Europe/Berlin"}));
    create(&mut server, &session, json!({"cron": "30 2 * * *"}));
    for (now, ideal) in [
        // There was no 02:30 on that day.
        ("2026-03-29T01:00:00Z", "2026-03-29T03:00:00.000+02:00"),
        ("2026-03-30T00:30:00Z", "2026-03-30T02:30:00.000+02:00"),
    ] {
        assert_eq!(jobs(&mut server, &session)[0]["nextFireAt"], ideal);
        at.set(now);
        let fired = server.event("cron/fired");
        assert_eq!(
            (&fired["idealAt"], &fired["coalescedCount"]),
            (&json!(ideal), &json!(1))
        );
        server.ended(fired["turnId"].as_str().unwrap());
    }
    // Back in autumn: each real hour, though one of them shows the same.
    let session = server.create(&at.scratch, json!({"timezone": "Europe/Berlin"}));
    at.set("2026-10-24T23:45:00Z");
    create(&mut server, &session, json!({"cron": "30 * * * *"}));
    for (now, ideal) in [
        ("2026-10-25T00:30:00Z", "2026-10-25T02:30:00.000+02:00"),
        ("2026-10-25T01:30:00Z", "2026-10-25T02:30:00.000+01:00"),
        ("2026-10-25T02:30:00Z", "2026-10-25T03:30:00.000+01:00"),
    ] {
        at.set(now);
        let own = session.clone();
        let fired = server.event_where("cron/fired", move |fired| {
            fired["sessionId"] == own.as_str()
        });
        assert_eq!(
            (&fired["idealAt"], &fired["coalescedCount"]),
            (&json!(ideal), &json!(1))
        );
        server.ended(fired["turnId"].as_str().unwrap());
    }
}

#[test]
fn the_model_makes_jobs_and_an_answer_for_one_covers_no_other() {
    let script = r#"
turns:
  - steps:
      - tool_call: {name: CronCreate, args: {cron: "0 9 * * 1-5", prompt: "Look at the build."}}
      - tool_call: {name: CronCreate, args: {cron: "0 9 * * 1-5", prompt: "Look at the build."}}
      - tool_call: {name: CronCreate, args: {cron: "0 9 * * 1-5", prompt: "Delete everything."}}
      - tool_call: {name: CronCreate, args: {cron: "0 25 * * *", prompt: "Never."}}
  - steps: [{tool_call: {name: CronList, args: {}}}]
  - steps: [{text: done}]
"#;
    let at = Clocked::new(script, "2026-03-01T08:00:00Z");
    let mut server = at.open();
    let session = server.create(&at.scratch, json!({"timezone": "UTC"}));
    server.answer_approvals("allow_session");
    let turn = server.turn(&session, "Go.");
    let ended = server.ended(&turn);
    assert_eq!(ended["reason"], "completed", "{ended}");
    assert_eq!(
        count(&server, &session, "approval/requested"),
        2,
        "the same, and another"
    );
    let outputs: Vec<(bool, String)> = server
        .seen()
        .iter()
        .filter(|message| message["method"] == "tool/completed")
        .map(|message| {
            let params = &message["params"];
            let text = params["output"][0]["text"].as_str().unwrap().to_owned();
            (params["isError"] == true, text)
        })
        .collect();
    assert_eq!(outputs.len(), 5);
    assert_eq!(
        outputs.iter().filter(|(failed, _)| *failed).count(),
        1,
        "{outputs:?}"
    );
    let refused = outputs.iter().find(|(failed, _)| *failed).unwrap();
    assert!(refused.1.contains("hour field"), "{}", refused.1);
    let made = outputs
        .iter()
        .filter(|(_, text)| text.contains("next_fire: 2026-03-02T09:00:00.000+00:00"));
    assert_eq!(made.count(), 4, "three results and the list: {outputs:?}");
    assert!(
        outputs
            .iter()
            .any(|(_, text)| text.starts_with("cron_jobs: 3\n---\nid: "))
    );
    assert_eq!(jobs(&mut server, &session).len(), 3);
}

#[test]
fn where_jobs_are_switched_off_they_stay_and_do_not_fire() {
    let at = Clocked::new(SAYS_OK, "2026-03-01T08:00:00Z");
    let mut server = at.open();
    let session = server.create(&at.scratch, json!({"timezone": "UTC"}));
    create(&mut server, &session, json!({"cron": "0 9 * * *"}));
    drop(server);
    at.set("2026-03-01T10:00:00Z");
    let mut command = at.command();
    command.env("LONGSHORE_DISABLE_CRON", "1");
    let mut server = TestServer::spawn(&at.scratch, command);
    server.initialize(json!({}));
    server.request("session/resume", json!({"sessionId": session}));
    let listed = jobs(&mut server, &session);
    assert_eq!((listed.len(), &listed[0]["nextFireAt"]), (1, &Value::Null));
    let params = json!({"sessionId": session, "cron": "x", "prompt": "x"});
    let error = server.refused("cron/create", params);
    assert_eq!(error["data"]["kind"], "not_supported", "{error}");
    assert_eq!(count(&server, &session, "cron/fired"), 0);
    drop(server);
    // Switched on again, it is made up for.
    let mut server = at.open();
    server.request("session/resume", json!({"sessionId": session}));
    let fired = server.event("cron/fired");
    server.ended(fired["turnId"].as_str().unwrap());
}

#[test]
fn jobs_can_be_listed_and_deleted_without_a_host() {
    let at = Clocked::new(SAYS_OK, "2026-03-01T08:00:00Z");
    let mut server = at.open();
    let session = server.create(&at.scratch, json!({"timezone": "UTC", "title": "Builds"}));
    let job = create(
        &mut server,
        &session,
        json!({"cron": "0 9 * * *", "prompt": "Look\nat it."}),
    );
    let id = job["jobId"].as_str().unwrap();
    let run = |arguments: &[&str]| {
        let output = at.command().args(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (code, out, err) = run(&["cron", "list"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    for word in [
        session.as_str(),
        "Builds",
        id,
        "09:00 every day",
        "2026-03-01T09:00:00.000+00:00",
        "Look at it.",
    ] {
        assert!(out.contains(word), "{word}: {out}");
    }
    let (code, _, err) = run(&["cron", "delete", &session, id]);
    assert_eq!(code, Some(1));
    assert!(err.contains("in use"), "{err}");
    drop(server);
    assert_eq!(run(&["cron", "delete", &session, "00000000"]).0, Some(1));
    let (code, out, err) = run(&["cron", "delete", &session, id]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(run(&["cron", "list"]).1.contains("no cron jobs"));
}
