//! Old journals load for ever: each fixture gives today what it gave when it was made.
//!
//! A fixture is a session's directory as some build left it, below `tests/fixtures/journals/v<version of its lines>/`, and
//! `projection.json`, what is known from it. Neither is ever edited. Where a fixture has no projection yet it is written,
//! and the test fails, so that somebody looks at it.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read files that lie beside the sources"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use longshore_protocol::id::SessionId;
use serde_json::{Value, json};

use super::journal::convert::Fact;
use super::journal::read::{Damage, Flow, Mark, each, events};
use super::journal::record::{Line, VERSION};
use super::journal::write;
use super::store::{self, Loaded};
use super::transcript::Fold;
use crate::agent::testing::{event_line, valid_for_provider};
use crate::kernel::message::{Message, Part};
use crate::store::blob::BlobId;

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/journals");
    let mut found = Vec::new();
    for version in std::fs::read_dir(&root).unwrap() {
        let version = version.unwrap().path();
        if version.is_dir() {
            let sessions = std::fs::read_dir(version).unwrap();
            found.extend(sessions.map(|entry| entry.unwrap().path()));
        }
    }
    found.sort();
    found
}

fn version_of(fixture: &Path) -> u32 {
    let folder = fixture
        .parent()
        .unwrap()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap();
    folder.strip_prefix('v').unwrap().parse().unwrap()
}

/// The session of a fixture is the one its head names.
fn id_of(fixture: &Path) -> SessionId {
    let mut id = None;
    each(fixture, &mut Damage::default(), |entry| {
        if let Fact::Created { session, .. } = entry.fact {
            id = Some(session.session_id);
        }
        Flow::Stop
    })
    .unwrap();
    id.unwrap()
}

/// What is known from a session's directory, in words that do not follow the types of the engine.
fn projection(dir: &Path) -> Value {
    let id = id_of(dir);
    let loaded = store::load_open(&id, dir).unwrap();
    let history = loaded.agent.context.messages();
    let events: Vec<String> = events(&id, dir, Mark::default(), 0, usize::MAX)
        .unwrap()
        .events
        .iter()
        .map(|stamped| {
            let seq = stamped.seq.unwrap_or_default();
            format!("{seq} {} {}", stamped.agent, event_line(&stamped.event))
        })
        .collect();
    let mut fold = Fold::new();
    each(dir, &mut Damage::default(), |entry| {
        if let Fact::Event(event) = &entry.fact {
            fold.take(entry.at, event);
        }
        Flow::On
    })
    .unwrap();
    let Loaded {
        session,
        script,
        agent,
        model_state,
        left,
        last,
        next_turn,
        gone,
        tasks,
        jobs,
        damage,
        warnings,
        ..
    } = loaded;
    let turn = left.turn.as_ref();
    let step = turn.and_then(|turn| turn.step.as_ref());
    json!({
        "session": session,
        "script": script.as_deref().map(short),
        "last": [last.0, last.1.to_string()],
        "nextTurn": next_turn,
        "gone": gone.iter().map(ToString::to_string).collect::<BTreeSet<_>>(),
        "history": history.iter().map(|message| said(message)).collect::<Vec<_>>(),
        "contextTokens": agent.context.tokens(),
        "usage": agent.usage,
        "todos": agent.todos,
        "grants": agent.grants.iter().map(|grant| json!([grant.rule, grant.cwd])).collect::<Vec<_>>(),
        "told": agent.told.iter().map(|key| format!("{key:?}")).collect::<BTreeSet<_>>().len(),
        "ids": [agent.ids.items, agent.ids.calls, agent.ids.approvals, agent.ids.questions],
        "modelState": model_state,
        "open": {
            "turn": turn.map(|open| &open.turn),
            "step": step.map(|step| step.number),
            "calls": step.iter().flat_map(|step| &step.calls).filter(|call| call.result.is_none())
                .map(|call| &call.call.id).collect::<Vec<_>>(),
            "queued": left.queued.iter().map(|queued| &queued.turn).collect::<Vec<_>>(),
            "approvals": left.approvals.iter().map(|request| &request.approval_id).collect::<Vec<_>>(),
            "questions": left.questions.iter().map(|request| &request.question_id).collect::<Vec<_>>(),
        },
        "openTasks": tasks.open,
        "endedTasks": tasks.ended.iter().map(|(task, tail)| json!([task, short(tail)])).collect::<Vec<_>>(),
        "jobs": jobs.jobs().iter().map(|job| json!({
            "id": job.id, "cron": job.cron, "prompt": job.prompt, "recurring": job.recurring, "timezone": job.timezone,
            "createdAt": job.created_at.0, "fires": job.fires, "unattended": job.unattended_fires, "usage": job.usage,
            "paused": job.paused,
        })).collect::<Vec<_>>(),
        "jobsAside": jobs.aside().len(),
        "damage": damage.iter().map(|place| &place.message).collect::<Vec<_>>(),
        "warnings": warnings,
        "turns": shortened(serde_json::to_value(fold.finish()).unwrap()),
        "events": events,
    })
}

fn said(message: &Message) -> Value {
    match message {
        Message::User { parts, origin } => {
            json!({"role": "user", "origin": format!("{origin:?}").to_lowercase(), "parts": said_parts(parts)})
        }
        Message::Assistant {
            parts,
            calls,
            partial,
        } => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    json!([
                        call.id,
                        call.provider_id,
                        call.name,
                        short(&call.arguments),
                        call.extras
                    ])
                })
                .collect();
            json!({"role": "assistant", "parts": said_parts(parts), "calls": calls, "partial": partial})
        }
        Message::ToolResult {
            call,
            parts,
            is_error,
            note,
        } => {
            json!({"role": "tool", "call": call, "parts": said_parts(parts), "isError": is_error, "note": note})
        }
    }
}

fn said_parts(parts: &[Part]) -> Vec<Value> {
    let part = |part: &Part| match part {
        Part::Text(text) => json!(["text", short(text)]),
        Part::Thinking(thinking) => json!(["thinking", short(&thinking.text), thinking.signature]),
        Part::Image { mime, data } => json!(["image", mime, short(data)]),
    };
    parts.iter().map(part).collect()
}

/// A text, or what tells a long one from others.
fn short(text: &str) -> String {
    if text.len() <= 400 {
        text.to_owned()
    } else {
        format!(
            "{} bytes, sha256 {}",
            text.len(),
            BlobId::of(text.as_bytes())
        )
    }
}

fn shortened(value: Value) -> Value {
    match value {
        Value::String(text) => short(&text).into(),
        Value::Array(items) => items.into_iter().map(shortened).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (name, shortened(value)))
            .collect(),
        other => other,
    }
}

#[test]
fn every_journal_ever_written_loads() {
    let fixtures = fixtures();
    assert!(!fixtures.is_empty());
    for fixture in &fixtures {
        let name = fixture.display();
        let found = projection(fixture);
        let path = fixture.join("projection.json");
        let Ok(expected) = std::fs::read(&path) else {
            let text = serde_json::to_string_pretty(&found).unwrap() + "\n";
            std::fs::write(&path, text).unwrap();
            panic!("{name} had no projection; look at the one that was written");
        };
        let expected: Value = serde_json::from_slice(&expected).unwrap();
        for (key, expected) in expected.as_object().unwrap() {
            assert_eq!(&found[key], expected, "{name}: {key}");
        }
        let loaded = store::load(&id_of(fixture), fixture).unwrap();
        let history = loaded.agent.context.messages();
        if !name.to_string().contains("kinds") {
            valid_for_provider(&history).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
        let text = std::fs::read_to_string(write::path(fixture)).unwrap();
        for line in text.lines() {
            let version = serde_json::from_str::<Value>(line).unwrap()["v"].clone();
            assert_eq!(version, version_of(fixture), "{name}");
        }
    }
    let versions: BTreeSet<u32> = fixtures.iter().map(|fixture| version_of(fixture)).collect();
    assert_eq!(
        versions,
        (1..=VERSION).collect(),
        "a journal of every version"
    );
}

/// A kind of record without a fixture could be changed without anybody noticing. Whoever adds one adds a fixture with it,
/// in a folder of its own.
#[test]
fn every_kind_of_record_stands_in_a_fixture() {
    let unknown = format!(r#"{{"v":{VERSION},"at":0,"agent":"main","type":"no such kind"}}"#);
    let error = serde_json::from_str::<Line>(&unknown)
        .unwrap_err()
        .to_string();
    let (_, kinds) = error.split_once("expected one of ").unwrap();
    let kinds: BTreeSet<&str> = kinds.split('`').skip(1).step_by(2).collect();
    assert!(kinds.len() > 30, "{error}");
    let mut found = BTreeSet::new();
    for fixture in fixtures() {
        if version_of(&fixture) == VERSION {
            let text = std::fs::read_to_string(write::path(&fixture)).unwrap();
            found.extend(text.lines().map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                line["type"].as_str().unwrap().to_owned()
            }));
        }
    }
    let missing: Vec<&&str> = kinds
        .iter()
        .filter(|kind| !found.contains(**kind))
        .collect();
    assert!(missing.is_empty(), "no fixture has {missing:?}");
}
