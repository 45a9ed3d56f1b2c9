//! Permission requests and questions.

use super::*;

const PERMISSION: &str = "session/request_permission";

/// A prompt whose call is asked about, and the request.
async fn asked(client: &mut Client, session: &str) -> (u64, Value) {
    let id = client
        .ask("session/prompt", prompt(session, "write it"))
        .await;
    let request = client.asked(PERMISSION).await;
    (id, request)
}

#[tokio::test]
async fn an_allowed_call_goes_through_its_states() {
    let agent = Agent::new();
    let (mut client, session) = agent.session().await;
    let (id, request) = asked(&mut client, &session).await;
    let card = client
        .updates()
        .into_iter()
        .find(|update| update["sessionUpdate"] == "tool_call")
        .unwrap();
    assert_eq!(card["status"], "pending", "said, though it is the default");
    assert_eq!(card["kind"], "edit");
    let call = &request["params"]["toolCall"];
    assert_eq!(
        (&call["toolCallId"], &call["title"]),
        (&card["toolCallId"], &card["title"])
    );
    assert_eq!(call["rawInput"]["path"], "a.txt");
    let kinds: Vec<&Value> = request["params"]["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| &option["kind"])
        .collect();
    assert!(
        kinds.contains(&&json!("allow_once")) && kinds.contains(&&json!("reject_once")),
        "{kinds:?}"
    );

    client.select(&request, "approve_once").await;
    assert_eq!(client.answer(id).await["result"]["stopReason"], "end_turn");
    let updates = client.updates();
    let of_call: Vec<&Value> = updates
        .iter()
        .filter(|update| update["toolCallId"] == card["toolCallId"])
        .collect();
    let states: Vec<&Value> = of_call.iter().map(|update| &update["status"]).collect();
    assert_eq!(states, ["in_progress", "completed"]);
    let last = of_call.last().unwrap();
    assert_eq!(last["content"][0]["type"], "diff");
    assert_eq!(last["content"][0]["newText"], "hello\n");
    assert_eq!(last["content"][0]["path"], format!("{}/a.txt", agent.cwd()));
    assert_eq!(
        std::fs::read_to_string(agent.dir.path().join("a.txt")).unwrap(),
        "hello\n"
    );
}

#[tokio::test]
async fn whatever_does_not_approve_refuses_the_call_and_the_turn_goes_on() {
    for answer in [
        json!({"result": {"outcome": {"outcome": "selected", "optionId": "reject"}}}),
        json!({"result": {"outcome": {"outcome": "selected", "optionId": "zzz"}}}),
        json!({"result": {"outcome": "approve_once"}}),
        json!({"result": null}),
        json!({"error": {"code": -32603, "message": "no"}}),
        json!({"error": {"code": -32601, "message": "what?"}}),
    ] {
        let agent = Agent::new();
        let (mut client, session) = agent.session().await;
        let (id, request) = asked(&mut client, &session).await;
        let mut message = json!({"jsonrpc": "2.0", "id": request["id"]});
        message
            .as_object_mut()
            .unwrap()
            .extend(answer.as_object().unwrap().clone());
        client.send(message).await;
        assert_eq!(
            client.answer(id).await["result"]["stopReason"],
            "end_turn",
            "{answer}"
        );
        assert_eq!(
            client.states().last().map(String::as_str),
            Some("failed"),
            "{answer}"
        );
        assert!(!agent.dir.path().join("a.txt").exists(), "{answer}");
    }
}

#[tokio::test]
async fn always_means_not_asked_again() {
    let agent = Agent::new();
    let (mut client, session) = agent.session().await;
    let (id, request) = asked(&mut client, &session).await;
    let options = request["params"]["options"].as_array().unwrap();
    let always = options
        .iter()
        .find(|option| option["kind"] == "allow_always")
        .unwrap();
    assert!(
        always["name"].as_str().unwrap().contains("Write"),
        "the label says what is allowed: {always}"
    );
    client
        .select(&request, always["optionId"].as_str().unwrap())
        .await;
    client.answer(id).await;
    std::fs::write(agent.dir.path().join("a.txt"), "other\n").unwrap();
    let id = client
        .ask("session/prompt", prompt(&session, "write it"))
        .await;
    assert_eq!(client.answer(id).await["result"]["stopReason"], "end_turn");
    assert!(
        !client
            .seen
            .iter()
            .any(|message| message["method"] == PERMISSION)
    );
}

#[tokio::test]
async fn a_cancel_takes_the_request_back() {
    let (mut client, session) = Agent::new().session().await;
    let (id, request) = asked(&mut client, &session).await;
    client.cancel(&session).await;
    assert_eq!(client.answer(id).await["result"]["stopReason"], "cancelled");
    let taken_back = client
        .seen
        .iter()
        .find(|message| message["method"] == "$/cancel_request")
        .unwrap();
    assert_eq!(taken_back["params"]["requestId"], request["id"]);
    assert_eq!(client.states().last().map(String::as_str), Some("failed"));
    // An answer that comes too late is nobody's.
    client.select(&request, "approve_once").await;
    assert!(client.is_silent().await);
}

#[tokio::test]
async fn a_dialog_that_is_cancelled_cancels_the_turn() {
    for says_so_itself in [false, true] {
        let (mut client, session) = Agent::new().session().await;
        let (id, request) = asked(&mut client, &session).await;
        client
            .respond(&request, json!({"outcome": {"outcome": "cancelled"}}))
            .await;
        if says_so_itself {
            client.cancel(&session).await;
        }
        assert_eq!(client.answer(id).await["result"]["stopReason"], "cancelled");
        assert_eq!(client.states().last().map(String::as_str), Some("failed"));
        assert!(client.is_silent().await);
    }
}

#[tokio::test]
async fn a_mode_that_allows_the_call_ends_the_request() {
    let agent = Agent::new();
    let (mut client, session) = agent.session().await;
    let (id, _) = asked(&mut client, &session).await;
    client
        .result(
            "session/set_mode",
            json!({"sessionId": session, "modeId": "yolo"}),
        )
        .await;
    assert_eq!(client.answer(id).await["result"]["stopReason"], "end_turn");
    assert!(agent.dir.path().join("a.txt").exists());
}

#[tokio::test]
async fn questions_are_one_form() {
    let agent = Agent::new();
    let mut client = agent.client(json!({"elicitation": {"form": {}}})).await;
    let session = client.new_session(&agent.cwd()).await;
    let id = client.ask("session/prompt", prompt(&session, "ask")).await;
    let form = client.asked("elicitation/create").await;
    let properties = form["params"]["requestedSchema"]["properties"]
        .as_object()
        .unwrap();
    assert!(
        properties.contains_key("q0") && properties.contains_key("q1"),
        "{properties:?}"
    );
    let first = |name: &str| properties[name]["oneOf"][1]["const"].clone();
    let content = json!({"q0": first("q0"), "q1": first("q1")});
    client
        .respond(&form, json!({"action": "accept", "content": content}))
        .await;
    assert_eq!(client.answer(id).await["result"]["stopReason"], "end_turn");
    answered_b_and_d(&mut client);
}

#[tokio::test]
async fn questions_are_permissions_one_after_another_without_forms() {
    let agent = Agent::new();
    for by_form in [false, true] {
        let capabilities = if by_form {
            json!({"elicitation": {"form": {}}})
        } else {
            json!({})
        };
        let mut client = agent.client(capabilities).await;
        let session = client.new_session(&agent.cwd()).await;
        let id = client.ask("session/prompt", prompt(&session, "ask")).await;
        if by_form {
            // It said that it could, but it can't.
            let form = client.asked("elicitation/create").await;
            let error = json!({"code": -32601, "message": "no forms"});
            client
                .send(json!({"jsonrpc": "2.0", "id": form["id"], "error": error}))
                .await;
        }
        for (n, question) in ["Which?", "How?"].into_iter().enumerate() {
            let request = client.asked(PERMISSION).await;
            assert_eq!(request["params"]["toolCall"]["title"], question);
            client.select(&request, &format!("q{n}_opt_1")).await;
        }
        assert_eq!(client.answer(id).await["result"]["stopReason"], "end_turn");
        answered_b_and_d(&mut client);
    }
}

fn answered_b_and_d(client: &mut Client) {
    let updates = client.updates();
    let done = updates
        .iter()
        .rfind(|update| update["status"] == "completed")
        .unwrap();
    let output = done["rawOutput"]["output"].as_str().unwrap();
    assert!(
        output.contains(r#""B""#) && output.contains(r#""D""#),
        "{output}"
    );
}

#[tokio::test]
async fn a_form_that_is_declined_ends_neither_turn_nor_session() {
    let agent = Agent::new();
    let mut client = agent.client(json!({"elicitation": {"form": {}}})).await;
    let session = client.new_session(&agent.cwd()).await;
    let id = client.ask("session/prompt", prompt(&session, "ask")).await;
    let form = client.asked("elicitation/create").await;
    client.respond(&form, json!({"action": "decline"})).await;
    assert_eq!(client.answer(id).await["result"]["stopReason"], "end_turn");
}
