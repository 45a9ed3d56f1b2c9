//! Sessions: made, opened again, listed, configured, closed and removed.

use super::*;

#[tokio::test]
async fn a_session_needs_a_directory_that_is_there() {
    let agent = Agent::new();
    let mut client = agent.client(json!({})).await;
    let cwd = agent.cwd();
    for (params, path) in [
        (json!({"cwd": "rel/x", "mcpServers": []}), "/cwd"),
        (
            json!({"cwd": format!("{cwd}/missing"), "mcpServers": []}),
            "/cwd",
        ),
        (json!({"mcpServers": []}), ""),
        (
            json!({"cwd": cwd, "mcpServers": [], "additionalDirectories": ["x"]}),
            "/additionalDirectories/0",
        ),
        (
            json!({"cwd": cwd, "mcpServers": [], "additionalDirectories": ["/no/such/dir"]}),
            "/additionalDirectories",
        ),
        (
            json!({"cwd": cwd, "mcpServers": [{"type": "acp", "name": "m", "id": "1"}]}),
            "/mcpServers/0/type",
        ),
        (
            json!({"cwd": cwd, "mcpServers": [], "systemPrompt":
                {"mode": "append", "content": [{"type": "text", "text": "Be brief."}]}}),
            "/systemPrompt",
        ),
    ] {
        let (code, at) = client.refusal("session/new", params.clone()).await;
        assert_eq!((code, at.as_deref()), (-32602, Some(path)), "{params}");
    }
}

#[tokio::test]
async fn the_answer_comes_before_everything_else_of_a_session() {
    let agent = Agent::new();
    let mut client = agent.client(json!({})).await;
    let servers = json!([{"name": "mine", "command": "x", "args": [], "env": []}]);
    let id = client
        .ask(
            "session/new",
            json!({"cwd": agent.cwd(), "mcpServers": servers}),
        )
        .await;
    let answer = client.next().await;
    assert_eq!(answer["id"], id, "{answer}");
    assert_eq!(answer["result"]["modes"]["currentModeId"], "default");
    assert_eq!(answer["result"]["configOptions"][0]["currentValue"], "demo");
    let told = client.update("agent_thought_chunk").await;
    assert!(
        told["content"]["text"].as_str().unwrap().contains("mine"),
        "servers are not connected in silence"
    );
    // Some clients leave the list out.
    client
        .result("session/new", json!({"cwd": agent.cwd()}))
        .await;
}

#[tokio::test]
async fn modes_are_set_and_told_after_the_answer() {
    let (mut client, session) = Agent::new().session().await;
    let mode = |id: &str| json!({"sessionId": session, "modeId": id});
    for (id, told) in [
        ("yolo", true),
        ("yolo", false),
        ("auto", true),
        ("default", true),
    ] {
        assert_eq!(client.result("session/set_mode", mode(id)).await, json!({}));
        assert_eq!(
            client.updates(),
            Vec::<Value>::new(),
            "nothing before the answer"
        );
        if told {
            assert_eq!(
                client.update("current_mode_update").await["currentModeId"],
                id
            );
            client.update("config_option_update").await;
        }
        assert!(
            client.is_silent().await,
            "told once, by nothing where nothing changes: {id}"
        );
    }
    assert_eq!(
        client.refusal("session/set_mode", mode("plan")).await,
        (-32602, Some("/modeId".to_owned()))
    );
    assert_eq!(
        client
            .refusal(
                "session/set_mode",
                json!({"sessionId": "x", "modeId": "auto"})
            )
            .await
            .0,
        -32002
    );
}

#[tokio::test]
async fn options_are_set_and_answered_whole() {
    let (mut client, session) = Agent::new().session().await;
    let option =
        |id: &str, value: Value| json!({"sessionId": session, "configId": id, "value": value});
    let result = client
        .result("session/set_config_option", option("mode", json!("auto")))
        .await;
    let ids: Vec<&Value> = result["configOptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| &option["id"])
        .collect();
    assert_eq!(ids, ["model", "mode"]);
    assert_eq!(result["configOptions"][1]["currentValue"], "auto");
    client.update("current_mode_update").await;
    assert_eq!(
        client.update("config_option_update").await["configOptions"],
        result["configOptions"]
    );
    client
        .result("session/set_config_option", option("model", json!("demo")))
        .await;
    assert!(client.is_silent().await);
    for (id, value, path) in [
        ("mode", json!("plan"), "/value"),
        ("model", json!("gpt-99"), "/value"),
        ("colour", json!("red"), "/configId"),
        ("thinking", json!("high"), "/configId"),
    ] {
        let refusal = client
            .refusal("session/set_config_option", option(id, value))
            .await;
        assert_eq!(refusal, (-32602, Some(path.to_owned())), "{id}");
    }
    let model = |id: &str| json!({"sessionId": session, "modelId": id});
    assert_eq!(
        client.result("session/set_model", model("demo")).await,
        json!({})
    );
    assert_eq!(
        client.refusal("session/set_model", model("gpt-99")).await,
        (-32602, Some("/modelId".to_owned()))
    );
}

/// What a client has on its screen: text by message, and calls by id, whatever they came in.
fn screen(updates: &[Value]) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    for update in updates {
        let kind = update["sessionUpdate"].as_str().unwrap();
        if let Some(text) = update["content"]["text"].as_str() {
            match items
                .iter_mut()
                .find(|item| item["id"] == update["messageId"])
            {
                Some(item) => {
                    item["text"] = format!("{}{text}", item["text"].as_str().unwrap()).into();
                }
                None => items.push(json!({"id": update["messageId"], "kind": kind, "text": text})),
            }
        } else if let Some(id) = update["toolCallId"].as_str() {
            let mut members = update.as_object().unwrap().clone();
            members.remove("sessionUpdate");
            match items.iter_mut().find(|item| item["toolCallId"] == id) {
                Some(item) => item.as_object_mut().unwrap().extend(members),
                None => items.push(Value::Object(members)),
            }
        }
    }
    // An empty list and none are the same on a screen.
    for item in &mut items {
        item.as_object_mut()
            .unwrap()
            .retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
    }
    items
}

/// The last plan.
fn plan(updates: &[Value]) -> &Value {
    updates
        .iter()
        .rfind(|update| update["sessionUpdate"] == "plan")
        .unwrap()
}

#[tokio::test]
async fn a_loaded_session_looks_as_it_did_live() {
    let agent = Agent::new();
    let cwd = agent.cwd();
    let (mut client, session) = agent.session().await;
    let id = client
        .ask("session/prompt", prompt(&session, "write it"))
        .await;
    let request = client.asked("session/request_permission").await;
    client.select(&request, "approve_once").await;
    client.answer(id).await;
    client.play(&session, "todo").await;
    let updates = client.updates();
    let live = screen(&updates);
    agent.sessions.shutdown(DEADLINE).await;
    drop(client);

    let agent = agent.again();
    let mut client = agent.client(json!({})).await;
    let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    let result = client.result("session/load", params.clone()).await;
    assert_eq!(result["modes"]["currentModeId"], "default");
    let replay = client.updates();
    let shown = screen(&replay);
    let users: Vec<&Value> = shown
        .iter()
        .filter(|item| item["kind"] == "user_message_chunk")
        .map(|item| &item["text"])
        .collect();
    assert_eq!(users, ["write it", "todo"]);
    let shown: Vec<Value> = shown
        .into_iter()
        .filter(|item| item["kind"] != "user_message_chunk")
        .collect();
    assert_eq!(shown, live);
    assert_eq!(plan(&replay), plan(&updates));
    let calls: Vec<&Value> = replay
        .iter()
        .filter(|update| update["toolCallId"].is_string())
        .collect();
    assert!(
        calls
            .iter()
            .all(|call| call["sessionUpdate"] == "tool_call" && call["status"] == "completed"),
        "{calls:#?}"
    );
    assert_eq!(client.play(&session, "hello").await, "end_turn");

    // Loading what is loaded already replays it all the same.
    client.updates();
    client.result("session/load", params.clone()).await;
    assert_eq!(screen(&client.updates()).len(), live.len() + 2 + 2);

    let mut other = agent.client(json!({})).await;
    other.result("session/resume", params).await;
    assert_eq!(other.kinds(), [""; 0], "a resume shows no history");
    assert_eq!(other.play(&session, "hello").await, "end_turn");
    assert!(!other.kinds().contains(&"user_message_chunk".to_owned()));
}

#[tokio::test]
async fn a_session_without_a_prompt_can_be_loaded() {
    let agent = Agent::new();
    let cwd = agent.cwd();
    let (client, session) = agent.session().await;
    agent.sessions.shutdown(DEADLINE).await;
    drop(client);
    let agent = agent.again();
    let mut client = agent.client(json!({})).await;
    client
        .result(
            "session/load",
            json!({"sessionId": session, "cwd": cwd, "mcpServers": []}),
        )
        .await;
    assert_eq!(client.updates(), Vec::<Value>::new());
    assert_eq!(client.play(&session, "hello").await, "end_turn");
}

#[tokio::test]
async fn a_load_in_a_running_turn_shows_it_and_its_ask() {
    let agent = Agent::new();
    let (mut client, session) = agent.session().await;
    let id = client
        .ask("session/prompt", prompt(&session, "write it"))
        .await;
    let request = client.asked("session/request_permission").await;
    client.updates();

    let mut other = agent.client(json!({})).await;
    other
        .result(
            "session/load",
            json!({"sessionId": session, "cwd": agent.cwd(), "mcpServers": []}),
        )
        .await;
    let updates = other.updates();
    let card = updates
        .iter()
        .find(|update| update["sessionUpdate"] == "tool_call")
        .unwrap();
    assert_eq!(card["status"], "pending");
    let same = other.asked("session/request_permission").await;
    assert_eq!(same["params"]["toolCall"]["toolCallId"], card["toolCallId"]);

    client.select(&request, "approve_once").await;
    assert_eq!(client.answer(id).await["result"]["stopReason"], "end_turn");
    let taken_back = other.asked("$/cancel_request").await;
    assert_eq!(taken_back["params"]["requestId"], same["id"]);
    other.update("session_info_update").await;
    assert_eq!(other.states(), ["in_progress", "completed"]);
}

#[tokio::test]
async fn a_resume_of_what_is_open_loses_nothing() {
    let agent = Agent::new();
    let (mut client, session) = agent.session().await;
    let id = client
        .ask("session/prompt", prompt(&session, "write it"))
        .await;
    let request = client.asked("session/request_permission").await;
    client.updates();
    let params = json!({"sessionId": session, "cwd": agent.cwd()});
    client.result("session/resume", params).await;
    client.select(&request, "approve_once").await;
    assert_eq!(client.answer(id).await["result"]["stopReason"], "end_turn");
    assert!(
        !client
            .seen
            .iter()
            .any(|message| message["method"] == "session/request_permission")
    );
    assert_eq!(client.states(), ["in_progress", "completed"]);
}

#[tokio::test]
async fn what_cannot_be_opened_says_why() {
    let agent = Agent::new();
    let (mut client, session) = agent.session().await;
    let home = agent.dir.path().join("home").display().to_string();
    for method in ["session/load", "session/resume"] {
        let params = |id: &str, cwd: &str| json!({"sessionId": id, "cwd": cwd, "mcpServers": []});
        assert_eq!(
            client
                .refusal(method, params("01unknown", &agent.cwd()))
                .await
                .0,
            -32002
        );
        assert_eq!(
            client.refusal(method, params(&session, &home)).await,
            (-32602, Some("/cwd".to_owned()))
        );
        assert_eq!(
            client.refusal(method, params(&session, "rel")).await,
            (-32602, Some("/cwd".to_owned()))
        );
        client
            .result(method, params(&session, &format!("{}/", agent.cwd())))
            .await;
    }
    assert_eq!(
        client
            .refusal("session/prompt", prompt("01unknown", "x"))
            .await
            .0,
        -32002
    );
    let other = agent
        .client(json!({}))
        .await
        .refusal("session/prompt", prompt(&session, "x"))
        .await;
    assert_eq!(other.0, -32002, "not opened by this client");
}

#[tokio::test]
async fn further_directories_are_replaced_by_what_is_sent() {
    let agent = Agent::new();
    let cwd = agent.cwd();
    let dir = agent.dir.path().join("more");
    std::fs::create_dir(&dir).unwrap();
    let dir = std::fs::canonicalize(dir).unwrap().display().to_string();
    let mut client = agent.client(json!({})).await;
    let params = json!({"cwd": cwd, "mcpServers": [], "additionalDirectories": [dir]});
    let session = client.result("session/new", params).await["sessionId"].clone();
    let listed = client.result("session/list", json!({"cwd": cwd})).await;
    assert_eq!(listed["sessions"][0]["additionalDirectories"], json!([dir]));
    client
        .result("session/resume", json!({"sessionId": session, "cwd": cwd}))
        .await;
    let listed = client.result("session/list", json!({"cwd": cwd})).await;
    assert_eq!(listed["sessions"][0].get("additionalDirectories"), None);
}

#[tokio::test]
async fn lists_are_filtered_and_cursors_checked() {
    let agent = Agent::new();
    let (mut client, session) = agent.session().await;
    client.play(&session, "hello").await;
    let listed = client
        .result("session/list", json!({"cwd": format!("{}/", agent.cwd())}))
        .await;
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(listed["sessions"][0]["sessionId"], session.as_str());
    assert_eq!(listed["sessions"][0]["title"], "hello");
    assert_eq!(listed.get("nextCursor"), None);
    assert_eq!(
        client
            .result("session/list", json!({"cwd": "/elsewhere"}))
            .await,
        json!({"sessions": []})
    );
    assert_eq!(
        client.refusal("session/list", json!({"cwd": "rel"})).await,
        (-32602, Some("/cwd".to_owned()))
    );
    assert_eq!(
        client.refusal("session/list", json!({"cursor": "x"})).await,
        (-32602, Some("/cursor".to_owned()))
    );
}

#[tokio::test]
async fn a_close_answers_its_prompts_first() {
    let (mut client, session) = Agent::new().session().await;
    let running = client.ask("session/prompt", prompt(&session, "hang")).await;
    let waiting = client
        .ask("session/prompt", prompt(&session, "hello"))
        .await;
    client.update("agent_message_chunk").await;
    let close = client
        .ask("session/close", json!({"sessionId": session}))
        .await;
    let mut answered = Vec::new();
    while answered.len() < 3 {
        let message = client.next().await;
        if let Some(id) = message["id"].as_u64() {
            let is_cancelled = message["result"]["stopReason"] == "cancelled";
            assert!(is_cancelled || id == close, "{message}");
            answered.push(id);
        }
    }
    assert_eq!(
        answered.last(),
        Some(&close),
        "{answered:?}: {running}, {waiting}"
    );
    assert!(client.is_silent().await);
    assert_eq!(
        client
            .refusal("session/prompt", prompt(&session, "x"))
            .await
            .0,
        -32002
    );
    assert_eq!(
        client
            .result("session/close", json!({"sessionId": session}))
            .await,
        json!({})
    );
}

#[tokio::test]
async fn a_delete_is_for_good_and_can_be_said_twice() {
    let agent = Agent::new();
    let (mut client, session) = agent.session().await;
    let running = client.ask("session/prompt", prompt(&session, "hang")).await;
    client.update("agent_message_chunk").await;
    let delete = client
        .ask("session/delete", json!({"sessionId": session}))
        .await;
    assert_eq!(
        client.answer(running).await["result"]["stopReason"],
        "cancelled"
    );
    assert_eq!(client.answer(delete).await["result"], json!({}));
    assert_eq!(
        client
            .result("session/delete", json!({"sessionId": session}))
            .await,
        json!({})
    );
    assert_eq!(
        client.result("session/list", json!({})).await,
        json!({"sessions": []})
    );
    let load = json!({"sessionId": session, "cwd": agent.cwd(), "mcpServers": []});
    assert_eq!(client.refusal("session/load", load).await.0, -32002);
}

/// What the user said, as a client shows it.
fn words(client: &mut Client) -> Vec<String> {
    let shown = screen(&client.updates());
    shown
        .iter()
        .filter(|item| item["kind"] == "user_message_chunk")
        .map(|item| item["text"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_loaded_session_is_shown_without_what_was_taken_back() {
    let agent = Agent::new();
    let (mut client, session) = agent.session().await;
    for text in ["one", "two", "three"] {
        client.play(&session, text).await;
    }
    let handle = agent.sessions.open(&session.as_str().into()).await.unwrap();
    handle.undo(2).await.unwrap();
    client.play(&session, "four").await;
    let params = json!({"sessionId": session, "cwd": agent.cwd(), "mcpServers": []});
    for _ in 0..2 {
        let mut other = agent.client(json!({})).await;
        other.result("session/load", params.clone()).await;
        assert_eq!(words(&mut other), ["one", "four"]);
        handle.undo(1).await.unwrap();
        client.play(&session, "four").await;
    }
    handle.clear().await.unwrap();
    let mut other = agent.client(json!({})).await;
    other.result("session/load", params).await;
    assert_eq!(words(&mut other), [""; 0]);
}

#[tokio::test]
async fn a_fork_is_a_session_of_its_own() {
    let agent = Agent::new();
    let (mut client, session) = agent.session().await;
    client.play(&session, "one").await;
    // The other one may be running.
    let id = client
        .ask("session/prompt", prompt(&session, "write it"))
        .await;
    let request = client.asked("session/request_permission").await;
    client.updates();
    let params = json!({"sessionId": session, "cwd": agent.cwd(), "mcpServers": []});
    let result = client.result("session/fork", params.clone()).await;
    let fork = result["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(fork, session);
    assert_eq!(result["modes"]["currentModeId"], "default");
    assert_eq!(words(&mut client), [""; 0], "its client has the history");
    assert_eq!(client.play(&fork, "two").await, "end_turn");
    client.select(&request, "approve_once").await;
    assert_eq!(client.answer(id).await["result"]["stopReason"], "end_turn");

    let mut other = agent.client(json!({})).await;
    let params = json!({"sessionId": fork, "cwd": agent.cwd(), "mcpServers": []});
    other.result("session/load", params).await;
    assert_eq!(words(&mut other), ["one", "two"]);

    for (more, code, path) in [
        (json!({"sessionId": "nope"}), -32002, None),
        (json!({"cwd": "relative"}), -32602, Some("/cwd")),
        (json!({"cwd": "/no/such/dir"}), -32602, Some("/cwd")),
        (json!({"cursorId": "c1"}), -32602, Some("/cursorId")),
    ] {
        let mut params = json!({"sessionId": session, "cwd": agent.cwd(), "mcpServers": []});
        let members = params.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        let refusal = client.refusal("session/fork", params).await;
        assert_eq!(refusal, (code, path.map(str::to_owned)), "{more}");
    }
}
