//! Servers that are killed at any moment, and disks that fill up, in the middle of busy sessions.
//!
//! What a host was told with a number is a promise: it is there after any kill, with the same number and the same
//! content. What a call did is never done twice, and no effect comes before the record that it begins.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::files_safe::{Random, SmallDisk};
use crate::support::{Scratch, TestServer};

/// Kills that one session goes through.
const KILLS_PER_SESSION: u64 = 10;

fn large() -> bool {
    std::env::var_os("LONGSHORE_TEST_SCALE").is_some()
}

/// 10,000 kills with `LONGSHORE_TEST_SCALE=1`.
#[test]
fn nothing_that_was_said_is_lost_whenever_the_server_is_killed() {
    let n_kills = if large() { 10_000 } else { 300 };
    let lanes = 3;
    let seen: Vec<Tally> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes)
            .map(|lane| scope.spawn(move || Lane::new(lane + 1).run(n_kills / lanes)))
            .collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
    });
    let sum = |what: fn(&Tally) -> usize| seen.iter().map(what).sum::<usize>();
    // The kills came at telling moments.
    let (n_said, n_cut, n_ran) = (sum(|t| t.said), sum(|t| t.cut), sum(|t| t.ran));
    assert!(
        n_said > 10 * n_kills as usize && n_cut > 0 && n_ran > n_kills as usize / 2,
        "{n_said} events, {n_cut} calls cut off, {n_ran} commands run"
    );
}

/// What came of the kills.
#[derive(Default)]
struct Tally {
    /// Events that a host was told before a kill.
    said: usize,
    /// Calls that a kill cut off.
    cut: usize,
    /// Commands that did their work.
    ran: usize,
}

/// One home whose server is killed again and again.
struct Lane {
    scratch: Scratch,
    random: Random,
    tally: Tally,
    /// Lines of the trace that were looked at.
    n_traced: usize,
}

impl Lane {
    fn new(seed: u64) -> Self {
        let scratch = Scratch::new();
        let append = "n=$(cat /proc/sys/kernel/random/uuid); echo $n >> ran; echo $n";
        let bash = json!({"tool_call": {"name": "Bash", "args": {"command": append}}});
        let write = json!({"tool_call": {"name": "Write", "args": {"path": "w{{turn}}", "content": "w{{turn}}"}}});
        let large = json!({"tool_call": {"name": "Write", "args": {"path": "large", "content": "x".repeat(70 << 10)}}});
        let read = json!({"tool_call": {"name": "Read", "args": {"path": "greeting.txt"}}});
        let todo = json!({"tool_call": {"name": "TodoList", "args": {"todos": [{"title": "t{{turn}}", "status": "done"}]}}});
        let (think, text) = (
            json!({"think": "Hm {{turn}}."}),
            json!({"text": "step {{turn}}"}),
        );
        let answer = |steps: Vec<&Value>| json!({"steps": steps});
        let turns = [
            answer(vec![&think, &text, &bash]),
            answer(vec![&write, &read, &bash]),
            answer(vec![&text, &todo]),
            answer(vec![&bash, &bash]),
            answer(vec![&think, &large]),
            answer(vec![&bash]),
            answer(vec![&text]),
        ];
        crate::files_safe::play(
            &scratch,
            &json!({"version": 1, "on_exhausted": "loop", "defaults": {"chunk": "whole"}, "turns": turns}),
        );
        Self {
            scratch,
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            tally: Tally::default(),
            n_traced: 0,
        }
    }

    fn run(mut self, n_kills: u64) -> Tally {
        let mut left = n_kills;
        while left > 0 {
            let n = left.min(KILLS_PER_SESSION);
            self.session(n);
            left -= n;
        }
        self.tally
    }

    /// One session that lives through kills and then comes to a good end.
    fn session(&mut self, n_kills: u64) {
        let _ = fs::remove_file(self.scratch.file("ran"));
        let mut said: BTreeMap<u64, Value> = BTreeMap::new();
        let mut server = TestServer::open(&self.scratch);
        let session = server.create(&self.scratch, json!({}));
        for n in 0..n_kills {
            go_on(&mut server, &session, &format!("Go on, {n}."));
            if self.random.below(4) == 0 {
                let params =
                    json!({"sessionId": session, "input": "And then.", "whenBusy": "queue"});
                server.request("turn/start", params);
            }
            // Between two kills there is one more turn at most, so most moments are in the middle of one.
            let us = self.random.below(200_000);
            server.read_for(Duration::from_micros(us));
            server.kill();
            remember(&mut said, server.seen(), &session);
            self.tally.said += said.len();
            server = TestServer::open(&self.scratch);
            let resume = json!({"sessionId": session});
            server.request("session/resume", resume);
            let ran = self.ran();
            let events = all_events(&mut server, &session);
            self.check(&ran, &events, &said, &format!("after kill {n}"));
            said = events;
        }
        let turn = go_on(&mut server, &session, "To the end.");
        assert_eq!(server.ended(&turn)["reason"], "completed");
        let ran = self.ran();
        let events = all_events(&mut server, &session);
        self.check(&ran, &events, &said, "at the end");
        let begun = named(&events, "turn/started").map(|event| &event["turnId"]);
        let ended: HashSet<&Value> = named(&events, "turn/ended")
            .map(|event| &event["turnId"])
            .collect();
        let open: Vec<&Value> = begun.filter(|turn| !ended.contains(turn)).collect();
        assert!(open.is_empty(), "without an end: {open:?}");
        self.check_requests();
        self.tally.ran += self.ran().lines().count();
        let n_turns = named(&events, "turn/started").count();
        let listed = server.request("session/list", json!({}));
        let items = listed["items"].as_array().unwrap();
        let own = items.iter().find(|item| item["sessionId"] == *session);
        assert_eq!(own.unwrap()["turnCount"], n_turns);
        drop(server);
        // The next process finds the same, though the index was never told of most of it.
        let mut server = TestServer::open(&self.scratch);
        let listed = server.request("session/list", json!({}));
        let items = listed["items"].as_array().unwrap();
        let own = items.iter().find(|item| item["sessionId"] == *session);
        assert_eq!(own.unwrap()["turnCount"], n_turns);
    }

    /// What the commands have left behind.
    fn ran(&self) -> String {
        fs::read_to_string(self.scratch.file("ran")).unwrap_or_default()
    }

    /// `ran` is what the commands had left behind before the events were read: the session goes on meanwhile.
    fn check(
        &mut self,
        ran: &str,
        events: &BTreeMap<u64, Value>,
        said: &BTreeMap<u64, Value>,
        when: &str,
    ) {
        let numbers: Vec<u64> = events.keys().copied().collect();
        let all: Vec<u64> = (1..=numbers.len() as u64).collect();
        assert_eq!(numbers, all, "{when}: no gap, no repeat");
        for (seq, event) in said {
            assert_eq!(
                events.get(seq),
                Some(event),
                "{when}: event {seq} is not what was said"
            );
        }
        // Nothing runs twice, and nothing before the record that it does.
        let mut running = HashSet::new();
        for event in named(events, "tool/running") {
            assert!(
                running.insert(&event["toolCallId"]),
                "{when}: twice: {event}"
            );
        }
        let is_bash = |event: &&Value| event["name"] == "Bash";
        let begun = named(events, "tool/started").filter(is_bash);
        let n_begun = begun
            .filter(|event| running.contains(&event["toolCallId"]))
            .count();
        let n_ran = ran.lines().count();
        assert!(
            n_ran <= n_begun,
            "{when}: {n_ran} effects of {n_begun} commands"
        );
        let now = self.ran();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for line in now.lines() {
            *counts.entry(line).or_default() += 1;
        }
        for event in named(events, "tool/completed") {
            let output = event["output"][0]["text"].as_str().unwrap_or_default();
            let first = output.lines().next().unwrap_or_default();
            if event["isError"] == false && is_uuid(first) {
                assert_eq!(counts.get(first), Some(&1), "{when}: {event}");
            }
            self.tally.cut += usize::from(output.contains("unknown"));
        }
    }

    /// Every request so far was one that any model takes.
    fn check_requests(&mut self) {
        let text = fs::read_to_string(self.scratch.trace()).unwrap();
        // A kill may have cut the line that was being written, and the next one follows it.
        let requests = text.lines().skip(self.n_traced);
        let requests: Vec<Value> = requests
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        assert!(!requests.is_empty());
        for request in &requests {
            let mut open: Vec<&Value> = Vec::new();
            let mut ids = HashSet::new();
            for message in request["messages"].as_array().unwrap() {
                match message["role"].as_str().unwrap() {
                    "tool" => {
                        assert!(!open.is_empty(), "a result of nothing: {request}");
                        assert_eq!(open.remove(0), &message["call"], "{request}");
                    }
                    role => {
                        assert!(open.is_empty(), "no result of {open:?}: {request}");
                        for call in message["calls"].as_array().into_iter().flatten() {
                            assert!(role == "assistant" && ids.insert(&call["id"]), "{request}");
                            open.push(&call["id"]);
                        }
                    }
                }
            }
            assert!(open.is_empty(), "no result of {open:?}: {request}");
        }
        self.n_traced = text.lines().count();
    }
}

/// Begins a turn, after what goes on by itself after a restart.
fn go_on(server: &mut TestServer, session: &str, input: &str) -> String {
    let params = json!({"sessionId": session, "input": input, "whenBusy": "queue"});
    let started = server.request("turn/start", params);
    started["turnId"].as_str().unwrap().to_owned()
}

/// Keeps what a host was told with a number, as `session/events` gives it.
fn remember(said: &mut BTreeMap<u64, Value>, seen: &[Value], session: &str) {
    for message in seen {
        let params = &message["params"];
        let Some(seq) = params["seq"]
            .as_u64()
            .filter(|_| params["sessionId"] == session)
        else {
            continue;
        };
        let event = json!({"method": message["method"], "params": params});
        if let Some(other) = said.insert(seq, event.clone()) {
            assert_eq!(other, event, "event {seq} was told in two ways");
        }
    }
}

fn all_events(server: &mut TestServer, session: &str) -> BTreeMap<u64, Value> {
    let mut events = BTreeMap::new();
    loop {
        let after = events.keys().last().copied().unwrap_or(0);
        let page = json!({"sessionId": session, "afterSeq": after, "limit": 200});
        let page = server.request("session/events", page);
        for event in page["items"].as_array().unwrap() {
            events.insert(event["params"]["seq"].as_u64().unwrap(), event.clone());
        }
        if events.keys().last().copied().unwrap_or(0) >= page["lastSeq"].as_u64().unwrap() {
            return events;
        }
    }
}

/// The params of the events of a name.
fn named<'a>(events: &'a BTreeMap<u64, Value>, name: &'a str) -> impl Iterator<Item = &'a Value> {
    let of_name = events.values().filter(move |event| event["method"] == name);
    of_name.map(|event| &event["params"])
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// Two servers make sessions as fast as they can and are killed; every one that was answered can be opened, and the index
/// is no more than a cache of them.
#[test]
fn every_session_that_was_made_is_found_whatever_became_of_the_index() {
    let n_rounds = if large() { 100 } else { 4 };
    let scratch = Scratch::new();
    let mut random = Random(77);
    let mut made: HashSet<String> = HashSet::new();
    for _ in 0..n_rounds {
        let mut servers = [TestServer::open(&scratch), TestServer::open(&scratch)];
        for server in &mut servers {
            for _ in 0..25 {
                server.send(
                    "session/create",
                    json!({"cwd": scratch.repository(), "model": "demo"}),
                );
            }
        }
        for server in &mut servers {
            server.read_for(Duration::from_micros(random.below(60_000)));
            server.kill();
            let created = server.seen().iter().filter_map(|message| {
                message["result"]["session"]["sessionId"]
                    .as_str()
                    .map(str::to_owned)
            });
            made.extend(created);
        }
    }
    assert!(made.len() > n_rounds, "{}", made.len());
    let index = scratch.longshore_home().join("sessions/index.jsonl");
    let whole = fs::read_to_string(&index).unwrap();
    let lines: Vec<&str> = whole.lines().filter(|line| !line.is_empty()).collect();
    let half = lines.len() / 2;
    let glued = format!(
        "{}{}\n{}",
        lines[..half].concat(),
        &lines[half][..20],
        lines[half + 1..].join("\n")
    );
    for damaged in [
        whole.clone(),
        glued,
        "\0".repeat(5000),
        whole[..whole.len() / 2].to_owned(),
    ] {
        fs::write(&index, damaged).unwrap();
        let mut server = TestServer::open(&scratch);
        assert!(listed(&mut server).is_superset(&made));
    }
    fs::remove_file(&index).unwrap();
    let mut server = TestServer::open(&scratch);
    assert!(listed(&mut server).is_superset(&made));
    for id in &made {
        server.request("session/resume", json!({"sessionId": id}));
    }
}

fn listed(server: &mut TestServer) -> HashSet<String> {
    let mut ids = HashSet::new();
    let mut cursor = Value::Null;
    loop {
        let page = server.request("session/list", json!({"limit": 200, "cursor": cursor}));
        for item in page["items"].as_array().unwrap() {
            ids.insert(item["sessionId"].as_str().unwrap().to_owned());
        }
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            return ids;
        }
    }
}

#[test]
fn a_full_disk_fails_a_turn_and_nothing_else() {
    let scratch = Scratch::new();
    let Some(disk) = SmallDisk::mount(scratch.longshore_home()) else {
        return;
    };
    let write = json!({"tool_call": {"name": "Write", "args": {"path": "w", "content": "w"}}});
    let script = json!({"version": 1, "on_exhausted": "loop", "turns": [
        {"steps": [{"text": "one"}, write]},
        {"steps": [{"text": "two"}]},
    ]});
    crate::files_safe::play(&scratch, &script);
    let mut server = TestServer::open(&scratch);
    server.may_complain();
    let session = server.create(&scratch, json!({}));
    let good = server.turn(&session, "Before.");
    let ended = server.ended(&good);
    assert_eq!(ended["reason"], "completed", "{ended}");
    fill(&disk);
    // However often it is tried, it ends by the same clear word, and everything else goes on.
    for n in 0..3 {
        let turn = server.turn(&session, "x".repeat(20_000 * (n + 1)).as_str());
        let ended = server.ended(&turn);
        assert_eq!(ended["reason"], "failed", "{ended}");
        assert_eq!(ended["error"]["kind"], "storage_full", "{ended}");
        assert_eq!(ended["error"]["retryable"], true, "{ended}");
        server.request("ping", json!({}));
        let got = server.request("session/get", json!({"sessionId": session}));
        assert_eq!(got["session"]["status"], "idle");
        server.request("session/transcript", json!({"sessionId": session}));
    }
    let refused = server.refused("session/create", json!({"cwd": scratch.repository()}));
    assert_eq!(refused["data"]["kind"], "storage_full", "{refused}");
    // A session can be opened and read all the same.
    assert!(server.close(Duration::from_secs(20)).success());
    let mut server = TestServer::open(&scratch);
    server.may_complain();
    server.request(
        "session/resume",
        json!({"sessionId": session, "replay": "events"}),
    );
    empty(&disk);
    let turn = server.turn(&session, "After.");
    let ended = server.ended(&turn);
    assert_eq!(ended["reason"], "completed", "{ended}");
    let events = all_events(&mut server, &session);
    let numbers: Vec<u64> = events.keys().copied().collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let transcript = server.request("session/transcript", json!({"sessionId": session}));
    let turns = transcript["items"].as_array().unwrap();
    assert!(
        turns.iter().all(|turn| turn["reason"].is_string()),
        "{turns:?}"
    );
    let reasons: Vec<&Value> = [turns.first(), turns.last()]
        .map(|turn| &turn.unwrap()["reason"])
        .into();
    assert_eq!(reasons, ["completed", "completed"]);
    drop(server);
    let mut server = TestServer::open(&scratch);
    server.request("session/resume", json!({"sessionId": session}));
    let again = all_events(&mut server, &session);
    for (seq, event) in &events {
        assert_eq!(again.get(seq), Some(event), "the log is whole");
    }
    assert!(
        named(&again, "warning").next().is_none(),
        "nothing of it is damaged"
    );
}

/// The disk fills up in the middle of a turn; once there is space again, the turn's end is written before anything else.
#[test]
fn the_end_of_a_turn_that_a_full_disk_did_not_take_is_written_later() {
    let scratch = Scratch::new();
    let Some(disk) = SmallDisk::mount(scratch.longshore_home()) else {
        return;
    };
    // More than the rest of the journal's last page holds.
    let wait = "until [ -e full ]; do sleep 0.01; done; head -c 9000 /dev/zero | tr '\\0' x";
    let script = json!({"version": 1, "on_exhausted": "loop", "turns": [
        {"steps": [{"tool_call": {"name": "Bash", "args": {"command": wait}}}]},
        {"steps": [{"text": "done"}]},
    ]});
    crate::files_safe::play(&scratch, &script);
    let mut server = TestServer::open(&scratch);
    server.may_complain();
    let session = server.create(&scratch, json!({}));
    let turn = server.turn(&session, "Go.");
    server.event("tool/running");
    fill(&disk);
    scratch.write("full", "");
    let ended = server.ended(&turn);
    assert_eq!(ended["error"]["kind"], "storage_full", "{ended}");
    empty(&disk);
    let next = server.turn(&session, "Again.");
    let kept = server.ended(&turn);
    assert!(kept["seq"].is_u64(), "{kept}");
    assert_eq!(server.ended(&next)["reason"], "completed");
    let events = all_events(&mut server, &session);
    let order: Vec<String> = events
        .values()
        .map(|event| event["method"].as_str().unwrap())
        .filter(|name| {
            ["turn/", "tool/completed"]
                .iter()
                .any(|part| name.starts_with(part))
        })
        .map(str::to_owned)
        .collect();
    assert_eq!(
        order,
        [
            "turn/started",
            "tool/completed",
            "turn/ended",
            "turn/started",
            "turn/ended"
        ]
    );
}

fn fill(disk: &SmallDisk) {
    let path = disk.path().join("filler");
    let mut n = 1 << 20;
    let mut filler = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    while n > 0 {
        if std::io::Write::write_all(&mut filler, &vec![b'x'; n]).is_err() {
            n /= 2;
        }
    }
}

fn empty(disk: &SmallDisk) {
    fs::remove_file(disk.path().join("filler")).unwrap();
}
