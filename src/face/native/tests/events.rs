//! What hosts see, and how they are asked.

use std::collections::BTreeSet;

use longshore_protocol::event::Event;
use longshore_protocol::value::approval::AskResolution;
use longshore_protocol::value::task::Task;

use super::*;
use crate::kernel::ask::{Ask, AskOutcome};
use crate::kernel::event::{CallOrigin, DomainEvent, Stamped};
use crate::kernel::message::Part;
use crate::kernel::port::AskHost;

#[tokio::test]
async fn a_reply_comes_before_what_it_sets_going() {
    let server = Server::new();
    let mut host = server.host(json!({})).await;
    let mut watcher = server.host(json!({})).await;
    let session = server.session(&mut host, HELLO).await;
    watcher.event("session/created").await;
    // `result` takes the very next message for the reply.
    let started = host
        .result("turn/start", json!({"sessionId": session, "input": "hi"}))
        .await;
    assert_eq!(started, json!({"turnId": "t1", "state": "running"}));
    let events = host.until("turn/ended").await;
    let seen = names(&events);
    let place = |name: &str| {
        seen.iter()
            .position(|seen| *seen == name)
            .unwrap_or_else(|| panic!("{name} in {seen:?}"))
    };
    let order = [
        "turn/started",
        "step/started",
        "message/delta",
        "message/completed",
        "step/ended",
        "turn/ended",
    ];
    assert!(order.map(place).is_sorted(), "{seen:?}");
    let numbers = seqs(&events);
    assert!(
        numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "{numbers:?}"
    );

    let wait = json!({"sessionId": session, "turnId": "t1"});
    let status = host.event("session/status").await;
    assert_eq!(status["status"], "idle");
    let waited = host.result("turn/wait", wait).await;
    assert_eq!(
        (&waited["reason"], &waited["text"]),
        (&json!("completed"), &json!("Hello there"))
    );
    watcher.result("ping", json!({})).await;
}

#[tokio::test]
async fn a_host_that_comes_back_gets_exactly_what_it_missed() {
    let server = Server::new();
    let mut host = server.host(json!({"liveEvents": false})).await;
    let params = json!({"cwd": server.cwd(), "model": "demo", "script": HELLO});
    let session = host.result("session/create", params).await["session"]["sessionId"].clone();
    host.result("turn/start", json!({"sessionId": session, "input": "hi"}))
        .await;
    let mut all = seqs(&host.until("turn/ended").await);
    let last = *all.last().unwrap();
    assert_eq!(all.len() as u64, last, "all durable events were seen");
    host.result("session/detach", json!({"sessionId": session}))
        .await;
    host.result("turn/start", json!({"sessionId": session, "input": "more"}))
        .await;
    host.result("turn/wait", json!({"sessionId": session, "turnId": "t2"}))
        .await;

    let attached = host
        .result(
            "session/attach",
            json!({"sessionId": session, "afterSeq": last}),
        )
        .await;
    // It has the turns, or they are on their way.
    assert_eq!(attached["snapshot"]["turns"], json!([]));
    assert_eq!(attached["snapshot"]["status"], "idle");
    let missed = seqs(&host.until("turn/ended").await);
    assert_eq!(
        missed,
        (last + 1..=attached["lastSeq"].as_u64().unwrap()).collect::<Vec<_>>()
    );
    all.extend(missed);

    // The same, read as a list.
    let read = host
        .result(
            "session/events",
            json!({"sessionId": session, "limit": 200}),
        )
        .await;
    let items = read["items"].as_array().unwrap();
    assert_eq!(seqs(items), all);
    assert!(items[0].get("jsonrpc").is_none() && items[0]["params"]["sessionId"] == session);
    let page = json!({"sessionId": session, "afterSeq": 2, "limit": 3});
    assert_eq!(
        seqs(
            host.result("session/events", page).await["items"]
                .as_array()
                .unwrap()
        ),
        [3, 4, 5]
    );

    for after in [-1, 9999] {
        let attached = host
            .result(
                "session/attach",
                json!({"sessionId": session, "afterSeq": after}),
            )
            .await;
        assert_eq!(attached["resync"], true);
        assert_eq!(attached["snapshot"]["turns"].as_array().unwrap().len(), 2);
    }
    assert_eq!(
        host.refusal(
            "session/attach",
            json!({"sessionId": session, "afterSeq": "x"})
        )
        .await
        .1,
        -32602
    );

    let resumed = host
        .result(
            "session/resume",
            json!({"sessionId": session, "replay": "events"}),
        )
        .await;
    assert_eq!(resumed["lastSeq"], json!(all.len()));
    let replayed: Vec<u64> = {
        let mut events = host.until("turn/ended").await;
        events.extend(host.until("turn/ended").await);
        seqs(&events)
    };
    assert_eq!(replayed, all);
    let resumed = host
        .result(
            "session/resume",
            json!({"sessionId": session, "replay": "transcript", "limit": 1}),
        )
        .await;
    assert_eq!(resumed["transcript"]["items"][0]["turnId"], "t2");
    host.result("ping", json!({})).await;
}

#[tokio::test]
async fn hosts_leave_out_what_they_do_not_want() {
    let server = Server::new();
    let unwanted = [
        "message/completed",
        "session/created",
        "step/started",
        "no/such",
    ];
    let mut host = server.host(json!({"optOut": unwanted})).await;
    let mut quiet = server.host(json!({"liveEvents": false})).await;
    let params = json!({"cwd": server.cwd(), "model": "demo", "script": HELLO});
    let session = host.result("session/create", params).await["session"]["sessionId"].clone();
    quiet
        .result("session/attach", json!({"sessionId": session}))
        .await;
    host.result("turn/start", json!({"sessionId": session, "input": "hi"}))
        .await;
    let events = host.until("turn/ended").await;
    assert!(unwanted.iter().all(|name| !names(&events).contains(name)));
    assert!(names(&events).contains(&"message/delta"));
    let events = quiet.until("turn/ended").await;
    assert_eq!(seqs(&events).len(), events.len(), "durable events only");
    assert!(names(&events).contains(&"message/completed"));
}

fn approval(session: &str) -> Ask {
    let option = |id: &str| json!({"optionId": id, "label": id});
    let request = json!({
        "approvalId": "a1", "sessionId": session, "agentId": "main", "turnId": "t1", "toolCallId": "call_1",
        "tool": "Bash", "title": "Run it", "display": {"kind": "text", "text": "x"}, "accesses": [], "input": {},
        "options": [option("allow_once"), option("reject")],
        "reason": {"policy": "fallback", "message": "It has effects."}, "createdAt": "1970-01-01T00:00:00.000Z",
    });
    Ask::Approval(serde_json::from_value(request).unwrap())
}

#[tokio::test]
async fn asks_go_to_all_and_one_answer_settles_them() {
    let server = Server::new();
    let mut first = server
        .host(json!({"approvals": true, "optOut": ["session/created"]}))
        .await;
    let mut second = server
        .host(json!({"approvals": true, "optOut": ["session/created"]}))
        .await;
    let params = json!({"cwd": server.cwd(), "model": "demo", "script": HELLO});
    let session = first.result("session/create", params).await["session"]["sessionId"].clone();
    let hub = Arc::clone(&server.native.deps.hub);
    let ask = |cancel: &CancellationToken| {
        let ask = Arc::new(approval(session.as_str().unwrap()));
        TaskTracker::new().spawn(hub.ask(ask, cancel.clone()))
    };
    let cancel = CancellationToken::new();
    let outcome = ask(&cancel);
    let request = first.next().await;
    assert_eq!(
        (&request["method"], &request["params"]["approvalId"]),
        (&json!("approval/request"), &json!("a1"))
    );

    // The second host attaches late: the reply first, then the same ask.
    let attached = second
        .result("session/attach", json!({"sessionId": session}))
        .await;
    assert_eq!(
        attached["snapshot"]["openAsks"]["approvals"][0]["approvalId"],
        "a1"
    );
    let again = second.next().await;
    assert_eq!(again["params"], request["params"]);
    let listed = second
        .result("approval/list", json!({"sessionId": session}))
        .await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);

    // A wrong answer is said and asked once more; a right one settles it for both.
    first
        .send(json!({"jsonrpc": "2.0", "id": request["id"], "result": "yes"}))
        .await;
    let warning = first.event("warning").await;
    assert!(
        warning["message"]
            .as_str()
            .unwrap()
            .contains("it is no object"),
        "{warning}"
    );
    let request = first.next().await;
    assert_eq!(request["method"], "approval/request");
    first
        .send(json!({"jsonrpc": "2.0", "id": request["id"], "result": {"decision": "allow"}}))
        .await;
    let AskOutcome::Answered { by, .. } = outcome.await.unwrap() else {
        panic!("an answer")
    };
    assert_eq!(by.as_str(), "h1");
    let taken_back = second.next().await;
    assert_eq!(taken_back["method"], "$/cancelRequest");
    assert_eq!(taken_back["params"]["id"], again["id"]);
    let resolve = json!({"sessionId": session, "approvalId": "a1", "optionId": "reject"});
    assert_eq!(
        second.refusal("approval/resolve", resolve.clone()).await.0,
        "already_resolved"
    );

    // Out of band.
    let outcome = ask(&cancel);
    assert_eq!(first.next().await["method"], "approval/request");
    assert_eq!(second.next().await["method"], "approval/request");
    second.ask("approval/resolve", resolve).await;
    let AskOutcome::Answered { by, .. } = outcome.await.unwrap() else {
        panic!("an answer")
    };
    assert_eq!(by.as_str(), "h2");
    assert_eq!(first.next().await["method"], "$/cancelRequest");
}

#[tokio::test]
async fn a_host_without_the_method_ends_an_ask_at_once() {
    let server = Server::new();
    let mut host = server.host(json!({"approvals": true})).await;
    let session = server.session(&mut host, HELLO).await;
    let ask = Arc::new(approval(&session));
    let outcome =
        TaskTracker::new().spawn(server.native.deps.hub.ask(ask, CancellationToken::new()));
    let request = host.next().await;
    let error = json!({"code": -32601, "message": "no"});
    host.send(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
        .await;
    assert!(matches!(
        outcome.await.unwrap(),
        AskOutcome::Unanswered { .. }
    ));
}

/// Every fact as a line: valid by the schema, of the right kind, and without a member twice.
#[test]
fn every_event_is_as_the_schema_says() {
    let document = longshore_protocol::schema::document();
    let mut schema = document.clone();
    schema["anyOf"] = json!([{"$ref": "#/$defs/EventMessage"}]);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut kinds = BTreeSet::new();
    for event in samples() {
        let kind = project::kind(&event);
        // Made once per session, before there is anybody to number it for.
        assert_eq!(kind.durable(), !event.is_live(), "{}", kind.name());
        let seq = kind.durable().then_some(7);
        let stamped = Stamped::new(
            SessionId::from("s1"),
            "main".into(),
            seq,
            Timestamp(0),
            event,
        );
        let mut line = Vec::new();
        project::write(&stamped, &mut line);
        project::write(&stamped, &mut line);
        let text = String::from_utf8(line).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], lines[1], "cached or not");
        let value: Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(value["method"], kind.name());
        assert_eq!(value["params"]["sessionId"], "s1", "{value}");
        assert_eq!(value["params"]["seq"].as_u64(), seq);
        assert_eq!(value["params"]["at"], "1970-01-01T00:00:00.000Z");
        let errors: Vec<_> = validator
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{value}: {errors:?}");
        for name in ["sessionId", "agentId", "at"] {
            // Asks name the session in their own right; it must not stand there twice.
            assert!(lines[0].matches(&format!("\"{name}\":")).count() <= 2);
        }
        let envelope: Result<DuplicateCheck, _> = serde_json::from_str(lines[0]);
        assert!(envelope.is_ok(), "{}", lines[0]);
        kinds.insert(kind.name());
    }
    let mut resync = Vec::new();
    project::write_resync(&"s1".into(), 3, Timestamp(0), &mut resync);
    let resync: Value = serde_json::from_slice(&resync).unwrap();
    assert!(validator.is_valid(&resync), "{resync}");
    kinds.insert(Event::Resync.name());
    let all: BTreeSet<_> = Event::ALL.iter().map(|event| event.name()).collect();
    assert_eq!(kinds, all, "every row of the table has a sample");
}

/// Refuses members that occur twice, as derived readers do.
#[derive(serde::Deserialize)]
struct DuplicateCheck {
    #[serde(rename = "params")]
    _params: Params,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    #[serde(rename = "sessionId")]
    _session_id: String,
    #[serde(rename = "agentId")]
    _agent_id: String,
    #[serde(rename = "at")]
    _at: String,
}

fn samples() -> Vec<DomainEvent> {
    let turn = || "t1".into();
    let value = |value: Value| value;
    let session = json!({
        "sessionId": "s1", "title": "", "cwd": "/", "additionalDirs": [], "mode": "manual", "status": "idle",
        "createdAt": "", "updatedAt": "", "turnCount": 0, "usage": {}, "ephemeral": false, "archived": false,
    });
    let failure =
        crate::kernel::fault::Fault::new(longshore_protocol::error::ErrorKind::Overloaded, "m")
            .to_failure();
    let Ask::Approval(approval) = approval("s1") else {
        panic!("an approval")
    };
    let question = json!({
        "questionId": "q1", "sessionId": "s1", "agentId": "main", "turnId": "t1", "toolCallId": "call_1",
        "questions": [], "createdAt": "",
    });
    let usage = longshore_protocol::value::usage::Usage::default;
    use longshore_protocol::value::cron::CronChange;
    use longshore_protocol::value::turn::{FinishReason, Origin, StopReason, TurnReason};
    use longshore_protocol::value::{session as sessions, tool::ProgressStream};
    let job = json!({
        "jobId": "0badcafe", "cron": "0 9 * * *", "schedule": "09:00 every day", "prompt": "p", "recurring": true,
        "timezone": "UTC", "createdAt": "2026-01-01T09:00:00.000Z", "fires": 0, "usage": {},
    });
    let fire = json!({
        "jobId": "0badcafe", "fireId": "f1", "cron": "0 9 * * *", "prompt": "p", "recurring": true,
        "coalescedCount": 1, "stale": false, "firedAt": "2026-01-01T09:00:00.000Z",
    });
    vec![
        DomainEvent::SessionCreated {
            session: serde_json::from_value(value(session)).unwrap(),
        },
        DomainEvent::SessionUpdated {
            changed: sessions::SessionPatch::default(),
        },
        DomainEvent::SessionStatus {
            status: sessions::Status::Idle,
            waiting: sessions::WaitingFor::default(),
        },
        DomainEvent::SessionUsage {
            context_tokens: 1,
            context_window: 2,
            total: usage(),
        },
        DomainEvent::SessionClosed,
        DomainEvent::SessionDeleted,
        DomainEvent::SessionCleared,
        DomainEvent::TurnsUndone {
            turns: vec![turn()],
        },
        DomainEvent::TurnQueued {
            turn: turn(),
            input: Vec::new(),
        },
        DomainEvent::TurnStarted {
            turn: turn(),
            origin: Origin::User,
            input: Vec::new(),
            wakes: Vec::new(),
        },
        DomainEvent::TurnSteered {
            turn: turn(),
            origin: Origin::Task,
            input: Vec::new(),
            wakes: Vec::new(),
        },
        DomainEvent::TurnEnded {
            turn: turn(),
            reason: TurnReason::Failed,
            stop: StopReason::Error,
            error: Some(failure.clone()),
            usage: usage(),
            duration_ms: 1,
        },
        DomainEvent::StepStarted {
            turn: turn(),
            step: 1,
        },
        DomainEvent::StepRetrying {
            turn: turn(),
            step: 1,
            attempt: 2,
            max_attempts: 3,
            delay_ms: 4,
            error: failure,
            discard: Vec::new(),
        },
        DomainEvent::StepEnded {
            turn: turn(),
            step: 1,
            finish: FinishReason::Completed,
            usage: usage(),
        },
        DomainEvent::StepInterrupted {
            turn: turn(),
            step: 1,
            finish: FinishReason::Interrupted,
        },
        DomainEvent::MessageDelta {
            item: "i1".into(),
            offset: 0,
            text: "\u{2028}\n".into(),
        },
        DomainEvent::MessageCompleted {
            turn: turn(),
            item: "i1".into(),
            text: "x".into(),
            partial: true,
        },
        DomainEvent::ThinkingDelta {
            item: "i1".into(),
            offset: 0,
            text: "x".into(),
        },
        DomainEvent::ThinkingCompleted {
            turn: turn(),
            item: "i1".into(),
            text: "x".into(),
            signature: Some("secret".into()),
            partial: false,
        },
        DomainEvent::ToolDelta {
            call: "call_1".into(),
            name: "Read".into(),
            offset: 0,
            text: "x".into(),
        },
        DomainEvent::ToolStarted {
            turn: turn(),
            call: "call_1".into(),
            name: "Read".into(),
            input: Arc::new(json!({})),
            title: "x".into(),
            display: approval.display.clone(),
            accesses: Vec::new(),
            origin: CallOrigin::default(),
        },
        DomainEvent::ToolRunning {
            call: "call_1".into(),
        },
        DomainEvent::ToolProgress {
            call: "call_1".into(),
            stream: ProgressStream::Stdout,
            offset: 0,
            text: "x".into(),
        },
        DomainEvent::ToolCompleted {
            turn: turn(),
            call: "call_1".into(),
            is_error: false,
            output: vec![
                Part::text("x"),
                Part::Image {
                    mime: "image/png".into(),
                    data: "AA==".into(),
                },
            ],
            note: Some("secret".into()),
            display: None,
            duration_ms: 1,
            truncated: true,
            told: vec![],
        },
        DomainEvent::ApprovalRequested { request: approval },
        DomainEvent::ApprovalResolved {
            approval: "a1".into(),
            outcome: AskResolution::Answered,
            option: None,
            feedback: None,
        },
        DomainEvent::QuestionRequested {
            request: serde_json::from_value(question).unwrap(),
        },
        DomainEvent::QuestionResolved {
            question: "q1".into(),
            outcome: AskResolution::Expired,
        },
        DomainEvent::TodoUpdated { todos: Vec::new() },
        DomainEvent::ShellStarted {
            command_id: "c1".into(),
            command: "ls".into(),
        },
        DomainEvent::ShellOutput {
            command_id: "c1".into(),
            stream: ProgressStream::Stdout,
            offset: 0,
            text: "a".into(),
        },
        DomainEvent::ShellEnded {
            command_id: "c1".into(),
            is_error: false,
            exit_code: Some(0),
            signal: None,
            task_id: None,
        },
        DomainEvent::TaskStarted {
            task: Arc::new(Task::begun("bash-00000001".into())),
        },
        DomainEvent::TaskUpdated {
            task: Arc::new(Task::begun("bash-00000001".into())),
        },
        DomainEvent::TaskEnded {
            task: Arc::new(Task::begun("bash-00000001".into())),
            tail: "out".into(),
        },
        DomainEvent::CronChanged {
            change: CronChange::Created,
            job: serde_json::from_value(job).unwrap(),
        },
        DomainEvent::CronFired {
            turn: turn(),
            fire: serde_json::from_value(fire).unwrap(),
        },
        DomainEvent::CronMissed {
            turn: turn(),
            count: 1,
        },
        DomainEvent::Warning {
            warning: Warning::new("ask", "x"),
        },
    ]
}
