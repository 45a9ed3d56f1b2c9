//! From the first byte to the last.

use super::*;

#[tokio::test]
async fn a_client_is_told_what_is_served() {
    let agent = Agent::new();
    let mut client = agent.connect();
    let told = client
        .result(
            "initialize",
            json!({"protocolVersion": 1, "clientInfo": {"name": "c", "version": "1"}}),
        )
        .await;
    assert_eq!(told["protocolVersion"], 1);
    assert_eq!(told["agentInfo"]["name"], "longshore");
    assert_eq!(told["authMethods"][0]["id"], "configure-model");
    let capabilities = &told["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], true);
    assert_eq!(
        capabilities["promptCapabilities"],
        json!({"image": true, "audio": false, "embeddedContext": true})
    );
    assert_eq!(
        capabilities["mcpCapabilities"],
        json!({"http": false, "sse": false})
    );
    let served: Vec<&String> = capabilities["sessionCapabilities"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(
        served,
        [
            "list",
            "delete",
            "additionalDirectories",
            "fork",
            "resume",
            "close"
        ]
    );
}

#[tokio::test]
async fn any_whole_version_is_answered_with_ours() {
    for version in [0, 1, 2, 99, 65_536, u64::MAX] {
        let mut client = Agent::new().connect();
        let told = client
            .result("initialize", json!({"protocolVersion": version}))
            .await;
        assert_eq!(told["protocolVersion"], 1);
    }
}

#[tokio::test]
async fn what_is_no_version_is_refused_and_the_connection_lives() {
    let agent = Agent::new();
    let mut client = agent.connect();
    let path = Some("/protocolVersion".to_owned());
    for version in [json!("2025-01-01"), json!(1.5), json!(-1), json!(null)] {
        let refusal = client
            .refusal("initialize", json!({"protocolVersion": version}))
            .await;
        assert_eq!(refusal, (-32602, path.clone()), "{version}");
    }
    assert_eq!(client.refusal("initialize", json!({})).await.0, -32602);
    assert_eq!(client.refusal("initialize", json!([1])).await.0, -32602);
    client
        .result("initialize", json!({"protocolVersion": 1}))
        .await;
    assert_eq!(
        client
            .refusal("initialize", json!({"protocolVersion": 1}))
            .await
            .0,
        -32600
    );
}

#[tokio::test]
async fn nothing_is_served_before_initialize() {
    let agent = Agent::new();
    let mut client = agent.connect();
    for method in [
        "session/new",
        "session/list",
        "session/prompt",
        "authenticate",
        "foo/bar",
    ] {
        assert_eq!(
            client
                .refusal(method, json!({"cwd": agent.cwd(), "mcpServers": []}))
                .await
                .0,
            -32600,
            "{method}"
        );
    }
    client
        .notify("session/cancel", json!({"sessionId": "s"}))
        .await;
    client
        .result("initialize", json!({"protocolVersion": 1}))
        .await;
}

#[tokio::test]
async fn malformed_input_is_answered_and_survived() {
    let agent = Agent::new();
    let mut client = agent.client(json!({})).await;
    for (line, code) in [
        (r#"{"jsonrpc":"#, -32700),
        (
            r#"[{"jsonrpc":"2.0","id":7,"method":"session/list"}]"#,
            -32600,
        ),
        (r#"{"jsonrpc":"2.0"}"#, -32600),
    ] {
        client.line(line).await;
        let answer = client.next().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&Value::Null, &json!(code)),
            "{line}"
        );
    }
    client.line("\r").await;
    client.notify("_x/y", json!({})).await;
    client.notify("session/cancel", json!(7)).await;
    client
        .notify("session/cancel", json!({"sessionId": "unknown"}))
        .await;
    client
        .notify("$/cancel_request", json!({"requestId": 4711}))
        .await;
    assert!(client.is_silent().await);
    assert_eq!(client.refusal("foo/bar", json!({})).await.0, -32601);
    assert_eq!(
        client.refusal("session/archive", json!({})).await.0,
        -32601,
        "not advertised, not served"
    );
}

#[tokio::test]
async fn three_megabytes_are_a_prompt_like_any_other() {
    let (mut client, session) = Agent::new().session().await;
    let text = format!("{} hang", "x".repeat(3 << 20));
    let id = client.ask("session/prompt", prompt(&session, &text)).await;
    client.update("agent_message_chunk").await;
    client.cancel(&session).await;
    assert_eq!(client.answer(id).await["result"]["stopReason"], "cancelled");
}

#[tokio::test]
async fn without_a_model_sessions_are_gated_and_lists_are_not() {
    let agent = Agent::without_model();
    let mut client = agent.client(json!({})).await;
    for method in ["session/new", "authenticate"] {
        let params = json!({"cwd": agent.cwd(), "mcpServers": [], "methodId": "configure-model"});
        let reply = client.reply(method, params).await;
        let error = &reply["error"];
        assert_eq!(error["code"], -32000, "{method}: {reply}");
        assert_eq!(error["data"]["authMethods"], json!(["configure-model"]));
        assert!(
            error["data"]["reason"]
                .as_str()
                .unwrap()
                .contains("config.toml"),
            "{reply}"
        );
    }
    assert_eq!(
        client
            .refusal("authenticate", json!({"methodId": "other"}))
            .await,
        (-32602, Some("/methodId".to_owned()))
    );
    assert_eq!(
        client.result("session/list", json!({})).await,
        json!({"sessions": []})
    );
    assert_eq!(
        client
            .result("session/delete", json!({"sessionId": "s"}))
            .await,
        json!({})
    );
    assert_eq!(
        client
            .result("session/close", json!({"sessionId": "s"}))
            .await,
        json!({})
    );

    let mut client = Agent::new().client(json!({})).await;
    assert_eq!(
        client
            .result("authenticate", json!({"methodId": "configure-model"}))
            .await,
        json!({})
    );
}

#[tokio::test]
async fn the_end_of_input_cancels_prompts_and_they_are_answered() {
    let agent = Agent::new();
    let (mut client, session) = agent.session().await;
    let id = client.ask("session/prompt", prompt(&session, "hang")).await;
    client.update("agent_message_chunk").await;
    client.writer.shutdown().await.unwrap();
    assert_eq!(client.answer(id).await["result"]["stopReason"], "cancelled");
    let served = client.serving.await.unwrap();
    agent.sessions.shutdown(DEADLINE).await;
    assert!(served.close(DEADLINE).await, "everything was written");
    let mut rest = String::new();
    client.reader.read_line(&mut rest).await.unwrap();
    assert_eq!(rest, "");
    assert!(agent.hub.hosts().is_empty());
}
