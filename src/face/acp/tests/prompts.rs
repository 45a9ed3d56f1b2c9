//! Prompts: what they become, and how they end.

use super::*;

#[tokio::test]
async fn a_prompt_streams_and_ends() {
    let (mut client, session) = Agent::new().session().await;
    let result = client
        .result("session/prompt", prompt(&session, "hello"))
        .await;
    assert_eq!(
        result,
        json!({"stopReason": "end_turn", "usage": {"totalTokens": 12, "inputTokens": 7, "outputTokens": 5}})
    );
    let updates = client.updates();
    let text: String = updates
        .iter()
        .filter_map(|update| update["content"]["text"].as_str())
        .collect();
    assert_eq!(text, "You said: hello");
    let ids: Vec<&Value> = updates
        .iter()
        .filter(|update| update["content"].is_object())
        .map(|update| &update["messageId"])
        .collect();
    assert!(
        ids.iter().all(|id| id.is_string() && *id == ids[0]),
        "{ids:?}"
    );
    let kinds: Vec<&str> = updates
        .iter()
        .map(|update| update["sessionUpdate"].as_str().unwrap())
        .collect();
    assert!(
        kinds.contains(&"usage_update") && kinds.last() == Some(&"session_info_update"),
        "{kinds:?}"
    );
    assert!(
        !kinds.contains(&"user_message_chunk"),
        "the client knows its own words"
    );
    assert!(client.is_silent().await, "nothing follows the answer");
}

#[tokio::test]
async fn blocks_that_cannot_be_taken_are_named() {
    let (mut client, session) = Agent::new().session().await;
    let text = json!({"type": "text", "text": "x"});
    for (blocks, path) in [
        (json!([]), "/prompt"),
        (
            json!([text, {"type": "audio", "data": "", "mimeType": "audio/wav"}]),
            "/prompt/1",
        ),
        (json!([text, {"type": "smell"}]), "/prompt/1/type"),
        (
            json!([text, {"type": "image", "data": "!!", "mimeType": "image/png"}]),
            "/prompt/1",
        ),
        (
            json!([text, {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]),
            "/prompt/1",
        ),
    ] {
        let refusal = client
            .refusal(
                "session/prompt",
                json!({"sessionId": session, "prompt": blocks}),
            )
            .await;
        assert_eq!(refusal, (-32602, Some(path.to_owned())), "{blocks}");
    }
    assert_eq!(client.play(&session, "hello").await, "end_turn");
}

#[tokio::test]
async fn resources_reach_the_model() {
    let (mut client, session) = Agent::new().session().await;
    let blocks = json!([
        {"type": "resource_link", "uri": "file:///w/a%20b.rs", "name": "a b.rs"},
        {"type": "resource", "resource": {"uri": "file:///w/c.rs", "text": "fn main"}},
    ]);
    client
        .result(
            "session/prompt",
            json!({"sessionId": session, "prompt": blocks}),
        )
        .await;
    let updates = client.updates();
    let text: String = updates
        .iter()
        .filter_map(|update| update["content"]["text"].as_str())
        .collect();
    assert!(
        text.contains("/w/a b.rs") && text.contains("fn main"),
        "{text}"
    );
}

#[tokio::test]
async fn a_bare_unknown_command_stays_here() {
    let agent = Agent::new();
    let (mut client, session) = agent.session().await;
    assert_eq!(client.play(&session, "/no-such-cmd").await, "end_turn");
    let updates = client.updates();
    assert_eq!(updates.len(), 1, "{updates:?}");
    assert_eq!(
        updates[0]["content"]["text"],
        "There is no command /no-such-cmd."
    );

    client.play(&session, "/etc/hosts is a file").await;
    let updates = client.updates();
    let text: String = updates
        .iter()
        .filter_map(|update| update["content"]["text"].as_str())
        .collect();
    assert_eq!(text, "You said: /etc/hosts is a file");

    let mut client = agent.client(json!({"session": {"notices": {}}})).await;
    let session = client.new_session(&agent.cwd()).await;
    client.play(&session, "/no-such-cmd").await;
    assert_eq!(client.kinds(), ["notice"]);
}

#[tokio::test]
async fn a_cancel_ends_the_turn_and_nothing_follows() {
    let (mut client, session) = Agent::new().session().await;
    client.cancel(&session).await;
    assert_eq!(
        client.play(&session, "hello").await,
        "end_turn",
        "it came before the prompt"
    );
    let id = client.ask("session/prompt", prompt(&session, "hang")).await;
    client.update("agent_message_chunk").await;
    client.cancel(&session).await;
    assert_eq!(client.answer(id).await["result"]["stopReason"], "cancelled");
    assert!(client.is_silent().await);
    assert_eq!(client.play(&session, "hello").await, "end_turn");
}

#[tokio::test]
async fn a_cancel_reaches_prompts_that_have_not_begun() {
    let (mut client, session) = Agent::new().session().await;
    let mut ids = Vec::new();
    for text in ["hang", "hello", "hello"] {
        ids.push(client.ask("session/prompt", prompt(&session, text)).await);
    }
    client.cancel(&session).await;
    let later = client
        .ask("session/prompt", prompt(&session, "hello later"))
        .await;
    let mut reasons = HashMap::new();
    while reasons.len() < 4 {
        let message = client.next().await;
        match message["id"].as_u64() {
            Some(id) => {
                reasons.insert(id, message["result"]["stopReason"].clone());
            }
            None => client.seen.push(message),
        }
    }
    for id in ids {
        assert_eq!(reasons[&id], "cancelled");
    }
    assert_eq!(reasons[&later], "end_turn");
}

#[tokio::test]
async fn prompts_wait_for_one_another_up_to_a_limit() {
    let (mut client, session) = Agent::new().session().await;
    let first = client.ask("session/prompt", prompt(&session, "hang")).await;
    client.update("agent_message_chunk").await;
    let mut waiting = Vec::new();
    for n in 0..MAX_QUEUED_PROMPTS {
        waiting.push(
            client
                .ask("session/prompt", prompt(&session, &format!("number {n}")))
                .await,
        );
    }
    let reply = client
        .reply("session/prompt", prompt(&session, "too many"))
        .await;
    assert_eq!(reply["error"]["code"], -32600);
    assert_eq!(reply["error"]["data"]["code"], "turn.agent_busy");
    // One that waits is taken back by its own id; the first is ended by its own too.
    let taken = waiting.remove(0);
    client
        .notify("$/cancel_request", json!({"requestId": taken}))
        .await;
    assert_eq!(
        client.answer(taken).await["result"]["stopReason"],
        "cancelled"
    );
    client.updates();
    client
        .notify("$/cancel_request", json!({"requestId": first}))
        .await;
    assert_eq!(
        client.answer(first).await["result"]["stopReason"],
        "cancelled"
    );
    client.updates();
    for (n, id) in waiting.into_iter().enumerate() {
        assert_eq!(client.answer(id).await["result"]["stopReason"], "end_turn");
        let text: String = client
            .updates()
            .iter()
            .filter_map(|update| update["content"]["text"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(
            text,
            format!("You said: number {}", n + 1),
            "all of one turn, and of no other"
        );
    }
}

#[tokio::test]
async fn failures_are_errors_with_a_kind_and_the_session_goes_on() {
    let (mut client, session) = Agent::new().session().await;
    let reply = client
        .reply("session/prompt", prompt(&session, "fail"))
        .await;
    let error = &reply["error"];
    assert_eq!(error["code"], -32603, "{reply}");
    assert_eq!(error["data"]["status"], 400);
    assert!(error["data"]["kind"].is_string() && error["message"].is_string());
    assert!(client.is_silent().await);
    assert_eq!(client.play(&session, "hello").await, "end_turn");
}

#[tokio::test]
async fn a_filtered_answer_is_a_refusal_with_its_reason() {
    let (mut client, session) = Agent::new().session().await;
    assert_eq!(client.play(&session, "filter").await, "refusal");
    let updates = client.updates();
    assert!(
        updates
            .iter()
            .any(|update| update["sessionUpdate"] == "agent_message_chunk"),
        "{updates:?}"
    );
}

#[tokio::test]
async fn the_checklist_is_the_plan() {
    let (mut client, session) = Agent::new().session().await;
    client.play(&session, "todo").await;
    let updates = client.updates();
    let plan = updates
        .iter()
        .find(|update| update["sessionUpdate"] == "plan")
        .unwrap();
    assert_eq!(
        plan["entries"],
        json!([{"content": "one", "priority": "medium", "status": "completed"}])
    );
}

#[tokio::test]
async fn two_sessions_do_not_wait_for_one_another() {
    let agent = Agent::new();
    let (mut client, first) = agent.session().await;
    let second = client.new_session(&agent.cwd()).await;
    let id = client.ask("session/prompt", prompt(&first, "hang")).await;
    client.update("agent_message_chunk").await;
    assert_eq!(client.play(&second, "hello").await, "end_turn");
    client.cancel(&first).await;
    assert_eq!(client.answer(id).await["result"]["stopReason"], "cancelled");
}
