//! No key, no configuration, no network; and configurations that are broken.

use serde_json::json;

use crate::support::{Scratch, TestServer};

#[test]
fn without_a_model_everything_but_turns_works() {
    let scratch = Scratch::new();
    let mut server = TestServer::start(&scratch);
    let initialized = server.initialize(json!({"approvals": true}));
    assert_eq!(initialized["protocolVersion"], 1);
    assert_eq!(initialized["server"]["pid"], server.pid());
    assert_eq!(initialized["warnings"], json!([]));
    assert!(initialized.get("defaultModel").is_none());
    let models = server.request("model/list", json!({}));
    assert_eq!(models["items"][0]["id"], "demo", "{models}");

    let session = server.create(
        &scratch,
        json!({"title": "Nothing configured", "metadata": {"of": "the host"}}),
    );
    let got = server.request("session/get", json!({"sessionId": session}));
    assert_eq!(got["session"]["title"], "Nothing configured");
    assert_eq!(got["session"]["metadata"], json!({"of": "the host"}));
    server.request("session/set", json!({"sessionId": session, "mode": "yolo"}));
    assert_eq!(
        server.event("session/updated")["changed"],
        json!({"mode": "yolo"})
    );
    server.request("tool/list", json!({"sessionId": session}));
    server.request("todo/get", json!({"sessionId": session}));
    server.request("approval/list", json!({"sessionId": session}));
    server.request("session/transcript", json!({"sessionId": session}));
    server.request("ping", json!({}));
    assert_eq!(
        server.request("server/status", json!({}))["loadedSessions"],
        1
    );

    let error = server.refused(
        "turn/start",
        json!({"sessionId": session, "input": "Hello"}),
    );
    assert_eq!(error["code"], -32013);
    assert_eq!(error["data"]["kind"], "model_not_configured");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("default_model") && message.contains("config.toml"),
        "{message}"
    );

    // The model that needs nothing is there once it is named.
    server.request(
        "session/set",
        json!({"sessionId": session, "model": "demo"}),
    );
    let turn = server.turn(&session, "Hello");
    let waited = server.request("turn/wait", json!({"sessionId": session, "turnId": turn}));
    assert!(
        waited["text"].as_str().unwrap().contains("scripted"),
        "{waited}"
    );
    server.request("session/close", json!({"sessionId": session}));
    server.request("shutdown", json!({}));
    assert_eq!(
        server.exit(std::time::Duration::from_secs(6)).code(),
        Some(0)
    );
}

#[test]
fn a_broken_configuration_stops_turns_and_nothing_else() {
    let scratch = Scratch::new();
    scratch.configure("default_model = \"demo\"\n[permission\n");
    let mut server = TestServer::start(&scratch);
    let initialized = server.initialize(json!({}));
    let warning = &initialized["warnings"][0];
    assert_eq!(warning["line"], 2, "{initialized}");
    assert!(warning["file"].as_str().unwrap().ends_with("config.toml"));
    let session = server.create(&scratch, json!({"model": "demo"}));
    let error = server.refused(
        "turn/start",
        json!({"sessionId": session, "input": "Hello"}),
    );
    assert_eq!(error["data"]["kind"], "config_invalid", "{error}");

    let output = scratch
        .longshore()
        .args(["run", "-p", "Hello"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn errors_say_what_is_wrong_with_which_field() {
    let scratch = Scratch::new();
    let mut server = TestServer::open(&scratch);
    let session = server.create(&scratch, json!({"model": "demo"}));
    let missing = scratch.file("nowhere");
    for (method, params, code, kind) in [
        (
            "session/create",
            json!({"cwd": "relative"}),
            -32602,
            "invalid_params",
        ),
        (
            "session/create",
            json!({"cwd": missing}),
            -32602,
            "invalid_params",
        ),
        (
            "session/create",
            json!({"cwd": scratch.repository(), "model": "demoo"}),
            -32013,
            "model_unknown",
        ),
        (
            "session/create",
            json!({"cwd": scratch.repository(), "mode": "wild"}),
            -32602,
            "invalid_params",
        ),
        (
            "session/get",
            json!({"sessionId": "01nosuchsession"}),
            -32010,
            "session_not_found",
        ),
        (
            "turn/wait",
            json!({"sessionId": session, "turnId": "t99"}),
            -32010,
            "turn_not_found",
        ),
        (
            "turn/steer",
            json!({"sessionId": session, "input": "x", "whenIdle": "reject"}),
            -32011,
            "no_active_turn",
        ),
        (
            "session/list",
            json!({"cursor": "rubbish"}),
            -32602,
            "invalid_params",
        ),
        ("no/such", json!({}), -32601, "method_not_found"),
    ] {
        let error = server.refused(method, params.clone());
        assert_eq!(
            (error["code"].as_i64(), error["data"]["kind"].as_str()),
            (Some(code), Some(kind)),
            "{method} {params}: {error}"
        );
    }
    let error = server.refused("turn/start", json!({"sessionId": session, "input": 5}));
    assert_eq!(
        (error["code"].as_i64(), error["data"]["path"].as_str()),
        (Some(-32602), Some("/input")),
        "{error}"
    );
}
