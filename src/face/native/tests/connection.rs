//! From the first byte of a connection to its last.

use super::*;

#[tokio::test]
async fn initialize_comes_first_and_once() {
    let server = Server::new();
    let mut host = server.connect();
    host.send(json!({"method": "session/list", "params": {}}))
        .await;
    assert_eq!(
        host.refusal("ping", json!({})).await,
        ("not_initialized".into(), -32002)
    );
    assert_eq!(host.refusal("no/such", json!({})).await.1, -32002);
    assert_eq!(
        host.refusal("initialize", json!({"protocolVersion": 1}))
            .await
            .1,
        -32602
    );
    let hello =
        json!({"protocolVersion": 9, "host": {"name": "test", "version": "1"}, "new": true});
    let result = host.result("initialize", hello.clone()).await;
    assert_eq!(result["protocolVersion"], 1);
    assert_eq!(
        result["server"],
        json!({"name": "longshore", "version": "0", "pid": 1})
    );
    assert_eq!(result["limits"]["maxInFlight"], 256);
    assert_eq!(result["models"][0]["id"], "demo");
    assert_eq!(result["warnings"][0]["message"], "a problem");
    assert_eq!(
        host.refusal("initialize", hello).await,
        ("invalid_request".into(), -32600)
    );
    assert_eq!(
        host.refusal("no/such", json!({})).await,
        ("method_not_found".into(), -32601)
    );
    assert_eq!(host.result("ping", json!({})).await, json!({}));
    let status = host.result("server/status", json!({})).await;
    assert_eq!(status["hosts"][0]["name"], "test");
}

#[tokio::test]
async fn params_are_objects_and_strict_on_demand() {
    let server = Server::new();
    let mut host = server.host(json!({})).await;
    let reply = host.reply("session/create", json!({"cwd": 5})).await;
    assert_eq!(reply["error"]["data"]["path"], "/cwd");
    assert_eq!(reply["error"]["data"]["expected"], "a string");
    assert_eq!(host.refusal("ping", json!([])).await.0, "invalid_params");
    host.result("ping", json!({"more": 1})).await;

    let mut strict = server.connect();
    let hello = |more: Value| {
        let mut hello =
            json!({"protocolVersion": 1, "host": {"name": "t", "version": "1"}, "strict": true});
        hello
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        hello
    };
    let reply = strict.reply("initialize", hello(json!({"typo": 1}))).await;
    assert_eq!(reply["error"]["data"]["path"], "/typo");
    strict.result("initialize", hello(json!({}))).await;
    assert_eq!(
        strict.refusal("ping", json!({"more": 1})).await.0,
        "invalid_params"
    );
}

/// Each method finds its handler: what it says about nothing is never that it does not exist.
#[tokio::test]
async fn every_method_is_served() {
    use longshore_protocol::method::Method;

    let server = Server::new();
    let mut host = server.host(json!({})).await;
    for method in Method::ALL {
        if matches!(method, Method::Shutdown) {
            continue;
        }
        let params = json!({"sessionId": "none", "turnId": "t1", "input": "x", "cwd": "/no/such", "approvalId": "a1",
            "questionId": "q1", "jobId": "0badcafe", "cron": "@daily", "prompt": "x", "protocolVersion": 1, "host": {"name": "t", "version": "1"}, "optionId": "reject",
            "command": "true", "commandId": "c1", "taskId": "bash-00000000"});
        let reply = host.reply(method.name(), params).await;
        let kind = &reply["error"]["data"]["kind"];
        let expected = match method {
            Method::Initialize => json!("invalid_request"),
            Method::Ping
            | Method::ServerStatus
            | Method::ModelList
            | Method::SessionList
            | Method::SessionDetach => Value::Null,
            // It takes a session or a directory, not both.
            Method::SessionCreate | Method::FileSearch => json!("invalid_params"),
            _ => json!("session_not_found"),
        };
        assert_eq!(*kind, expected, "{}: {reply}", method.name());
    }
}

#[tokio::test]
async fn one_batch_can_do_it_all() {
    let server = Server::new();
    let mut host = server.connect();
    let hello = json!({"protocolVersion": 1, "host": {"name": "test", "version": "1"}});
    host.send(json!([
        {"id": 1, "method": "initialize", "params": hello},
        {"id": 2, "method": "session/create", "params": {"cwd": server.cwd(), "model": "demo", "script": HELLO}},
        {"method": "ping"},
        {"id": 3, "method": "ping"},
    ]))
    .await;
    let replies = host.next().await;
    assert_eq!(replies.as_array().unwrap().len(), 3, "{replies}");
    let created = replies
        .as_array()
        .unwrap()
        .iter()
        .find(|reply| reply["id"] == 2)
        .unwrap();
    let session = created["result"]["session"]["sessionId"].clone();
    host.event("session/created").await;
    host.result("turn/start", json!({"sessionId": session, "input": "hi"}))
        .await;
    host.until("turn/ended").await;
}

#[tokio::test]
async fn a_wait_is_cancelled_at_once() {
    let server = Server::new();
    let mut host = server.host(json!({})).await;
    let session = server.session(&mut host, HANG).await;
    let turn = host
        .result("turn/start", json!({"sessionId": session, "input": "hi"}))
        .await["turnId"]
        .clone();
    host.until("step/started").await;
    let wait = host
        .ask("turn/wait", json!({"sessionId": session, "turnId": turn}))
        .await;
    host.send(json!({"method": "$/cancelRequest", "params": {"id": wait}}))
        .await;
    let reply = host.next().await;
    assert_eq!(
        (&reply["id"], &reply["error"]["code"]),
        (&json!(wait), &json!(-32800))
    );

    // The turn itself goes on until it is cancelled.
    let wait = host
        .ask("turn/wait", json!({"sessionId": session, "turnId": turn}))
        .await;
    let cancel = host.ask("turn/cancel", json!({"sessionId": session})).await;
    let (mut waited, mut cancelled) = (Value::Null, Value::Null);
    while waited.is_null() || cancelled.is_null() {
        let message = host.next().await;
        if message["id"] == wait {
            waited = message["result"].clone();
        } else if message["id"] == cancel {
            cancelled = message["result"].clone();
        }
    }
    assert_eq!(
        (&waited["reason"], &cancelled["cancelled"]),
        (&json!("cancelled"), &json!(true))
    );
}

#[tokio::test]
async fn a_shutdown_is_answered_and_ends_everything() {
    let server = Server::new();
    let mut host = server.host(json!({})).await;
    let other = server.host(json!({})).await;
    let session = server.session(&mut host, HANG).await;
    host.result("turn/start", json!({"sessionId": session, "input": "hi"}))
        .await;
    host.until("step/started").await;
    let id = host.ask("shutdown", json!({})).await;
    let mut messages = Vec::new();
    loop {
        let message = host.next().await;
        if message["id"] == id {
            assert_eq!(message["result"], json!({}));
            break;
        }
        messages.push(message);
    }
    assert!(
        names(&messages).contains(&"turn/ended"),
        "{:?}",
        names(&messages)
    );
    for host in [host, other] {
        let served = tokio::time::timeout(DEADLINE, host.serving)
            .await
            .unwrap()
            .unwrap();
        assert!(served.close(DEADLINE).await);
    }
    assert!(server.native.deps.stop.is_cancelled());
    assert!(server.native.deps.hub.hosts().is_empty());
    tokio::time::timeout(DEADLINE, server.tasks.wait())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_host_that_closes_its_side_still_gets_its_answers() {
    let server = Server::new();
    let mut host = server.host(json!({})).await;
    let session = server.session(&mut host, HANG).await;
    let turn = host
        .result("turn/start", json!({"sessionId": session, "input": "hi"}))
        .await["turnId"]
        .clone();
    host.until("step/started").await;
    let wait = host
        .ask("turn/wait", json!({"sessionId": session, "turnId": turn}))
        .await;
    host.writer.shutdown().await.unwrap();
    let served = tokio::time::timeout(DEADLINE, &mut host.serving)
        .await
        .unwrap()
        .unwrap();
    server.native.deps.sessions.shutdown(DEADLINE).await;
    let closing = TaskTracker::new().spawn(served.close(DEADLINE));
    loop {
        let message = host.next().await;
        if message["id"] == wait {
            assert_eq!(message["result"]["reason"], "cancelled");
            break;
        }
    }
    assert!(closing.await.unwrap(), "everything was written");
}

#[tokio::test]
async fn a_host_that_vanishes_is_let_go() {
    let server = Server::new();
    let host = server.host(json!({})).await;
    let served = host.leave().await;
    assert_eq!(server.native.deps.hub.hosts().len(), 1);
    drop(served);
    assert!(server.native.deps.hub.hosts().is_empty());
}
