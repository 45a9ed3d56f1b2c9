use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use longshore_protocol::id::SessionId;
use longshore_protocol::value::model::ModelInfo;
use longshore_protocol::value::turn::FinishReason;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::ChatClient;
use super::fake::{Act, Fake};
use crate::config::values::{ModelConfig, ProviderConfig, Wire};
use crate::http::Http;
use crate::kernel::message::{Message, MessageOrigin, ModelCall, Part, Thinking, ToolDef};
use crate::kernel::time::Timestamp;
use crate::provider::assemble::{Assembler, Generated};
use crate::provider::error::{ErrorClass, ProviderError};
use crate::provider::registry::tests::{model, provider};
use crate::provider::{Delta, ModelClient, ModelRequest};

/// 2026-11-30T00:00:00Z.
const NOW: Timestamp = Timestamp(1_795_996_800_000);

fn client_with(provider: &ProviderConfig, model: &ModelConfig) -> ChatClient {
    let info = ModelInfo {
        id: "m".into(),
        name: "m".into(),
        provider: "p".into(),
        max_context_size: model.max_context_size,
        capabilities: vec![],
        efforts: vec![],
    };
    ChatClient::new(info, provider, model, Arc::new(Http::new(Arc::new(|| NOW)))).unwrap()
}

fn at(fake: &Fake) -> ProviderConfig {
    ProviderConfig {
        base_url: Some(format!("http://{}/v1", fake.address)),
        ..provider(Wire::Chat)
    }
}

fn client(fake: &Fake) -> ChatClient {
    client_with(&at(fake), &model("p"))
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        session: SessionId::new("s1"),
        lane: "main".into(),
        cwd: "/repo".into(),
        script: None,
        system: "be brief".into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: Arc::from([]),
        effort: None,
        attempt: 1,
    }
}

fn hello() -> ModelRequest {
    request(vec![Message::user("hello", MessageOrigin::User)])
}

fn call(id: &str, provider_id: Option<&str>, arguments: &str) -> ModelCall {
    ModelCall {
        id: id.into(),
        provider_id: provider_id.map(Into::into),
        name: "Read".into(),
        arguments: arguments.into(),
        extras: Map::new(),
    }
}

fn asked_for(calls: Vec<ModelCall>) -> Message {
    Message::Assistant {
        parts: vec![],
        calls,
        partial: false,
    }
}

fn result(id: &str, parts: Vec<Part>) -> Message {
    Message::ToolResult {
        call: id.into(),
        parts,
        is_error: false,
        note: None,
    }
}

fn image() -> Part {
    Part::Image {
        mime: "image/png".into(),
        data: "AAAA".into(),
    }
}

fn head(status: &str, headers: &[&str]) -> String {
    let mut head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
    for header in headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    head + "\r\n"
}

/// A response whose body ends with the connection.
fn answer(status: &str, headers: &[&str], body: impl AsRef<[u8]>) -> Vec<Act> {
    vec![Act::Send(
        [head(status, headers).as_bytes(), body.as_ref()].concat(),
    )]
}

fn events(body: impl AsRef<[u8]>) -> Vec<Act> {
    answer("200 OK", &["content-type: text/event-stream"], body)
}

fn chunk(delta: Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": delta}]})
    )
}

fn finish(reason: &str) -> String {
    format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    )
}

async fn deltas(client: &ChatClient, request: ModelRequest) -> (Vec<Delta>, Option<ProviderError>) {
    let mut stream = match client.stream(request, CancellationToken::new()).await {
        Ok(stream) => stream,
        Err(error) => return (vec![], Some(error)),
    };
    let mut deltas = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(delta) => deltas.push(delta),
            Err(error) => return (deltas, Some(error)),
        }
    }
    (deltas, None)
}

async fn generate(client: &ChatClient, request: ModelRequest) -> Result<Generated, ProviderError> {
    let (deltas, error) = deltas(client, request).await;
    if let Some(error) = error {
        return Err(error);
    }
    let mut assembler = Assembler::new();
    for delta in &deltas {
        assembler.push(delta);
    }
    assembler.finish()
}

/// What the server was asked for a request.
async fn body_of(provider: ProviderConfig, model: &ModelConfig, request: ModelRequest) -> Value {
    let fake = Fake::start(vec![events(
        chunk(json!({"content": "ok"})) + "data: [DONE]\n\n",
    )])
    .await;
    let provider = ProviderConfig {
        base_url: at(&fake).base_url,
        ..provider
    };
    generate(&client_with(&provider, model), request)
        .await
        .unwrap();
    fake.asked()[0].body.clone()
}

fn show(generated: &Generated) -> String {
    let mut out = String::new();
    for part in &generated.parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Thinking(thinking) => write!(out, "<{}>", thinking.text).unwrap(),
            Part::Image { .. } => {}
        }
    }
    for call in &generated.calls {
        let id = call.provider_id.as_deref().unwrap_or_default();
        write!(out, "[{}#{id} {}]", call.name, call.arguments).unwrap();
    }
    out
}

#[tokio::test]
async fn responses_of_every_framing() {
    let text = chunk(json!({"role": "assistant", "content": null}))
        + &chunk(json!({"content": "hé"}))
        + &chunk(json!({"content": "llo"}));
    let tool = json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}]});
    let whole = json!({"choices": [{"message": {"role": "assistant", "content": "héllo"}, "finish_reason": "stop"}]});
    for (what, mime, body, shown, finished) in [
        (
            "plain",
            "text/event-stream",
            text.clone() + &finish("stop") + "data: [DONE]\n\n",
            "héllo",
            FinishReason::Completed,
        ),
        (
            "no end mark",
            "text/event-stream",
            text.clone() + &finish("stop"),
            "héllo",
            FinishReason::Completed,
        ),
        (
            "no finish reason",
            "text/event-stream",
            text.clone() + "data: [DONE]",
            "héllo",
            FinishReason::Completed,
        ),
        (
            "unterminated last line",
            "text/event-stream",
            text.clone() + finish("length").trim_end(),
            "héllo",
            FinishReason::Truncated,
        ),
        (
            "crlf",
            "text/event-stream",
            (text.clone() + &finish("stop")).replace('\n', "\r\n"),
            "héllo",
            FinishReason::Completed,
        ),
        (
            "cr and byte order mark",
            "text/event-stream",
            "\u{feff}".to_owned() + &(text.clone() + &finish("stop")).replace('\n', "\r"),
            "héllo",
            FinishReason::Completed,
        ),
        (
            "comments and empty chunks",
            "text/event-stream",
            format!(
                ": ping\n\ndata: {{\"choices\":[],\"usage\":{{}},\"error\":null}}\n\n{text}{}",
                finish("stop")
            ),
            "héllo",
            FinishReason::Completed,
        ),
        (
            "one document",
            "application/json",
            whole.to_string(),
            "héllo",
            FinishReason::Completed,
        ),
        (
            "one document, laid out",
            "application/json; charset=utf-8",
            format!("{whole:#}"),
            "héllo",
            FinishReason::Completed,
        ),
        (
            "events under a wrong type",
            "application/json",
            text.clone() + &finish("stop"),
            "héllo",
            FinishReason::Completed,
        ),
        (
            "lines of json",
            "application/x-ndjson",
            (text.clone() + &finish("stop")).replace("data: ", ""),
            "héllo",
            FinishReason::Completed,
        ),
        (
            "stop with a call",
            "text/event-stream",
            chunk(tool.clone()) + &finish("stop"),
            "[Read#c1 {}]",
            FinishReason::ToolCalls,
        ),
        (
            "function_call",
            "text/event-stream",
            chunk(tool.clone()) + &finish("function_call"),
            "[Read#c1 {}]",
            FinishReason::ToolCalls,
        ),
        (
            "null finish after a call",
            "text/event-stream",
            chunk(tool)
                + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":null}]}\n\ndata: [DONE]\n\n",
            "[Read#c1 {}]",
            FinishReason::ToolCalls,
        ),
        (
            "refusal",
            "text/event-stream",
            chunk(json!({"refusal": "no"})) + &finish("stop"),
            "no",
            FinishReason::Filtered,
        ),
        (
            "unknown reason",
            "text/event-stream",
            text.clone() + &finish("weird"),
            "héllo",
            FinishReason::Other,
        ),
    ] {
        for size in [1, 3, 7, usize::MAX] {
            let mut acts = vec![Act::Send(
                head("200 OK", &[&format!("content-type: {mime}")]).into_bytes(),
            )];
            acts.extend(
                body.as_bytes()
                    .chunks(size)
                    .map(|piece| Act::Send(piece.to_vec())),
            );
            let fake = Fake::start(vec![acts]).await;
            let generated = generate(&client(&fake), hello())
                .await
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(
                (&*show(&generated), generated.finish),
                (shown, finished),
                "{what} by {size}"
            );
        }
    }
}

#[tokio::test]
async fn failures_of_every_kind() {
    let half = chunk(json!({"content": "ha"}));
    let half_call = chunk(
        json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "Read", "arguments": "{\"pa"}}]}),
    );
    let reset = |body: &str| {
        let mut acts = answer(
            "200 OK",
            &["content-type: text/event-stream", "content-length: 9999"],
            body,
        );
        acts.push(Act::Reset);
        acts
    };
    for (what, acts, class, n_deltas) in [
        (
            "cut in the arguments",
            events(&half_call),
            ErrorClass::StreamInterrupted,
            2,
        ),
        (
            "cut, though the end mark came",
            events(half_call.clone() + "data: [DONE]\n\n"),
            ErrorClass::StreamInterrupted,
            2,
        ),
        (
            "cut in text",
            events(&half),
            ErrorClass::StreamInterrupted,
            1,
        ),
        (
            "short body",
            answer(
                "200 OK",
                &["content-type: text/event-stream", "content-length: 9999"],
                &half,
            ),
            ErrorClass::StreamInterrupted,
            1,
        ),
        ("reset", reset(""), ErrorClass::StreamInterrupted, 0),
        ("nothing", events(""), ErrorClass::StreamInterrupted, 0),
        (
            "error field",
            events(half.clone() + "error: {\"code\":400,\"message\":\"exceeds context size\"}\n\n"),
            ErrorClass::ContextOverflow,
            1,
        ),
        (
            "error chunk",
            events(half.clone() + "data: {\"error\":{\"code\":\"rate_limit_exceeded\"}}\n\n"),
            ErrorClass::RateLimit,
            1,
        ),
        (
            "error event",
            events(half.clone() + "event: error\ndata: {\"message\":\"Overloaded\"}\n\n"),
            ErrorClass::Overloaded,
            1,
        ),
        (
            "error object",
            events(
                "data: {\"object\":\"error\",\"message\":\"too many requests\",\"code\":429}\n\n",
            ),
            ErrorClass::RateLimit,
            0,
        ),
        (
            "content refused",
            events(
                half.clone()
                    + "data: {\"error\":{\"code\":400,\"message\":\"content refused\"}}\n\n",
            ),
            ErrorClass::Status,
            1,
        ),
        (
            "error document",
            answer(
                "200 OK",
                &["content-type: application/json"],
                "{\"error\":{\"message\":\"overloaded\"}}",
            ),
            ErrorClass::Overloaded,
            0,
        ),
        (
            "not json",
            events("data: {\"choices\": oops\n\n"),
            ErrorClass::Decode,
            0,
        ),
        (
            "a page",
            answer("200 OK", &["content-type: text/html"], "<html></html>"),
            ErrorClass::Decode,
            0,
        ),
        (
            "401",
            answer("401 Unauthorized", &[], "{\"error\":\"bad key\"}"),
            ErrorClass::Auth,
            0,
        ),
        (
            "413 of a prompt",
            answer(
                "413 Too Large",
                &[],
                "{\"error\":{\"message\":\"prompt is too long: 9 > 8 maximum\"}}",
            ),
            ErrorClass::ContextOverflow,
            0,
        ),
        (
            "413 of a page",
            answer(
                "413 Too Large",
                &[],
                "<title>413 Request Entity Too Large</title>",
            ),
            ErrorClass::RequestTooLarge,
            0,
        ),
        (
            "429 quota",
            answer(
                "429 x",
                &[],
                "{\"error\":{\"type\":\"insufficient_quota\",\"message\":\"m\"}}",
            ),
            ErrorClass::QuotaExhausted,
            0,
        ),
        ("503", answer("503 x", &[], ""), ErrorClass::Overloaded, 0),
        (
            "redirect",
            answer("307 x", &["location: https://evil.example/v1"], ""),
            ErrorClass::Status,
            0,
        ),
    ] {
        let fake = Fake::start(vec![acts]).await;
        let (shown, error) = deltas(&client(&fake), hello()).await;
        let error = error.unwrap_or_else(|| panic!("{what}: {shown:?}"));
        assert_eq!(
            (error.class, shown.len()),
            (class, n_deltas),
            "{what}: {error}"
        );
        assert_eq!(fake.asked().len(), 1, "{what}");
    }
}

#[tokio::test]
async fn empty_answers() {
    for (body, class) in [
        (
            chunk(json!({"reasoning_content": "hm"})) + &finish("length"),
            ErrorClass::EmptyResponse,
        ),
        (
            chunk(json!({"reasoning_content": "hm"})) + &finish("content_filter"),
            ErrorClass::Filtered,
        ),
        (
            chunk(json!({"content": "  "})) + &finish("stop"),
            ErrorClass::EmptyResponse,
        ),
    ] {
        let fake = Fake::start(vec![events(body)]).await;
        assert_eq!(
            generate(&client(&fake), hello()).await.unwrap_err().class,
            class
        );
    }
}

#[tokio::test]
async fn what_servers_say_about_waiting() {
    for (headers, seconds) in [
        (vec!["retry-after: 2"], Some(2)),
        (vec!["retry-after: Mon, 30 Nov 2026 00:00:05 GMT"], Some(5)),
        (vec!["retry-after: 3600", "x-request-id: r1"], Some(3600)),
        (vec![], None),
    ] {
        let fake = Fake::start(vec![answer("429 Too Many", &headers, "{}")]).await;
        let error = deltas(&client(&fake), hello()).await.1.unwrap();
        assert_eq!(
            error.retry_after,
            seconds.map(Duration::from_secs),
            "{headers:?}"
        );
        assert_eq!(error.request_id.is_some(), headers.len() == 2);
    }
}

#[tokio::test]
async fn nobody_there_is_a_connection_error() {
    let fake = Fake::start(vec![vec![]]).await;
    let provider = at(&fake);
    drop(fake);
    tokio::task::yield_now().await;
    let error = deltas(&client_with(&provider, &model("p")), hello())
        .await
        .1
        .unwrap();
    assert_eq!(error.class, ErrorClass::Connection, "{error}");
    assert!(error.message.contains("127.0.0.1"), "{error}");
    let fake = Fake::start(vec![vec![Act::Reset]]).await;
    assert_eq!(
        deltas(&client(&fake), hello()).await.1.unwrap().class,
        ErrorClass::Connection
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_times_out() {
    let fake = Fake::start(vec![vec![Act::Hold]]).await;
    let provider = ProviderConfig {
        connect_timeout: Duration::ZERO,
        ..at(&fake)
    };
    let error = deltas(&client_with(&provider, &model("p")), hello())
        .await
        .1
        .unwrap();
    assert_eq!(error.class, ErrorClass::Timeout, "{error}");
    assert!(error.message.contains("300s"), "{error}");
}

#[tokio::test]
async fn a_silent_stream_times_out_and_a_finished_one_does_not() {
    for (body, class) in [
        (chunk(json!({"content": "ha"})), Some(ErrorClass::Timeout)),
        (chunk(json!({"content": "ha"})) + &finish("stop"), None),
    ] {
        let mut acts = events(body);
        acts.push(Act::Hold);
        let fake = Fake::start(vec![acts]).await;
        let mut stream = client(&fake)
            .stream(hello(), CancellationToken::new())
            .await
            .unwrap();
        assert_eq!(
            stream.next().await.unwrap().unwrap(),
            Delta::Text("ha".into())
        );
        tokio::time::pause();
        let begun = tokio::time::Instant::now();
        let rest: Vec<_> = stream.collect().await;
        let waited = begun.elapsed().as_secs();
        tokio::time::resume();
        let failed = rest.last().unwrap().as_ref().err().map(|error| error.class);
        assert_eq!(
            (failed, waited),
            (class, if class.is_some() { 300 } else { 10 })
        );
    }
}

#[tokio::test]
async fn pings_are_signs_of_life() {
    let mut acts = events(chunk(json!({"content": "a"})));
    for _ in 0..60 {
        acts.push(Act::Pause(Duration::from_secs(10)));
        acts.push(Act::Send(b": ping\n\n".to_vec()));
    }
    acts.push(Act::Send(finish("stop").into_bytes()));
    let fake = Fake::start(vec![acts]).await;
    let mut stream = client(&fake)
        .stream(hello(), CancellationToken::new())
        .await
        .unwrap();
    stream.next().await.unwrap().unwrap();
    tokio::time::pause();
    let rest: Vec<_> = stream.collect().await;
    assert!(
        matches!(rest.last(), Some(Ok(Delta::Finished { .. }))),
        "{rest:?}"
    );
}

#[tokio::test]
async fn a_cancel_ends_each_phase_at_once() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let fake = Fake::start(vec![vec![Act::Hold]]).await;
    let before = client(&fake).stream(hello(), cancel).await.err().unwrap();
    assert_eq!(
        (before.class, fake.asked().len()),
        (ErrorClass::Cancelled, 0)
    );

    let cancel = CancellationToken::new();
    let waiting = client(&fake).stream(hello(), cancel.clone());
    let (headers, ()) = tokio::join!(waiting, async {
        while fake.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    });
    assert_eq!(headers.err().unwrap().class, ErrorClass::Cancelled);

    let mut acts = events(chunk(json!({"content": "a"})));
    acts.push(Act::Hold);
    let fake = Fake::start(vec![acts]).await;
    let client = client(&fake);
    let cancel = CancellationToken::new();
    let mut stream = client.stream(hello(), cancel.clone()).await.unwrap();
    stream.next().await.unwrap().unwrap();
    let (next, ()) = tokio::join!(stream.next(), async { cancel.cancel() });
    assert_eq!(next.unwrap().unwrap_err().class, ErrorClass::Cancelled);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn usage_of_every_shape() {
    let said = json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 5}});
    let last = |value: &Value| format!("data: {}\n\n", json!({"choices": [], "usage": value}));
    let text = chunk(json!({"content": "abcdefgh"})) + &finish("stop");
    let in_choice = format!(
        "data: {}\n\n",
        json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop", "usage": {"prompt_tokens": 7, "completion_tokens": 1, "cached_tokens": 3}}]})
    );
    for (what, body, wanted) in [
        (
            "after the finish",
            text.clone() + &last(&said) + "data: [DONE]\n\n",
            (40, 60, 20, Some(5), false),
        ),
        ("in the choice", in_choice, (4, 3, 1, None, false)),
        (
            "empty",
            text.clone() + &last(&json!({})),
            (5, 0, 2, None, true),
        ),
        (
            "null",
            text.clone() + &last(&Value::Null),
            (5, 0, 2, None, true),
        ),
        ("absent", text, (5, 0, 2, None, true)),
    ] {
        let fake = Fake::start(vec![events(body)]).await;
        let usage = generate(&client(&fake), hello())
            .await
            .unwrap()
            .usage
            .unwrap();
        let got = (
            usage.input_other,
            usage.input_cache_read,
            usage.output,
            usage.reasoning,
            usage.estimated,
        );
        assert_eq!(got, wanted, "{what}");
    }
}

#[tokio::test]
async fn a_call_cut_by_the_output_limit_is_truncated() {
    let body = chunk(
        json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "Read", "arguments": "{\"pa"}}]}),
    ) + &finish("tool_calls")
        + "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2000}}\n\n";
    for (max, finished) in [
        (2000, FinishReason::Truncated),
        (4000, FinishReason::ToolCalls),
    ] {
        let fake = Fake::start(vec![events(&body)]).await;
        let model = ModelConfig {
            max_output_size: Some(max),
            ..model("p")
        };
        let generated = generate(&client_with(&at(&fake), &model), hello())
            .await
            .unwrap();
        assert_eq!(
            (generated.finish, generated.calls[0].is_complete()),
            (finished, false)
        );
    }
}

#[tokio::test]
async fn thinking_goes_back_under_the_name_it_came_by() {
    let thinking = |text: &str, signature: Option<&str>| {
        Part::Thinking(Thinking {
            text: text.into(),
            signature: signature.map(Into::into),
        })
    };
    let history = |signature| {
        request(vec![
            Message::user("a", MessageOrigin::User),
            Message::Assistant {
                parts: vec![thinking("hm", signature), Part::text("b")],
                calls: vec![],
                partial: false,
            },
            Message::user("c", MessageOrigin::User),
        ])
    };
    let fake = Fake::start(vec![events(
        chunk(json!({"reasoning": "hm", "content": "b"})) + &finish("stop"),
    )])
    .await;
    let client = client(&fake);
    generate(&client, history(None)).await.unwrap();
    generate(&client, history(None)).await.unwrap();
    generate(&client, history(Some(r#"[{"type":"t","data":"D"}]"#)))
        .await
        .unwrap();
    let asked = fake.asked();
    let sent = |n: usize| asked[n].body["messages"][2].clone();
    assert_eq!(
        sent(0),
        json!({"role": "assistant", "content": "b", "reasoning_content": "hm"})
    );
    assert_eq!(
        sent(1),
        json!({"role": "assistant", "content": "b", "reasoning": "hm"})
    );
    assert_eq!(
        sent(2)["reasoning_details"],
        json!([{"type": "t", "data": "D"}])
    );
    assert_eq!(
        asked[0].body["reasoning_effort"], "medium",
        "the history holds thinking"
    );

    let pinned = ModelConfig {
        reasoning_key: Some("thoughts".into()),
        ..model("p")
    };
    let off = ModelRequest {
        effort: Some("off".into()),
        ..history(None)
    };
    let body = body_of(provider(Wire::Chat), &pinned, off).await;
    assert_eq!(body["messages"][2]["thoughts"], "hm");
    assert_eq!(body.get("reasoning_effort"), None);
}

#[tokio::test]
async fn the_conversation_as_it_is_sent() {
    let mut extras = Map::new();
    extras.insert(
        "extra_content".into(),
        json!({"google": {"thought_signature": "s"}}),
    );
    let mut signed = call("call_3", Some("call_a_b"), "{\"p\":1}");
    signed.extras = extras;
    let noted = Message::ToolResult {
        call: "call_3".into(),
        parts: vec![Part::text("three")],
        is_error: true,
        note: Some("take care".into()),
    };
    let body = body_of(
        provider(Wire::Chat),
        &model("p"),
        request(vec![
            Message::User {
                parts: vec![Part::text("look"), image()],
                origin: MessageOrigin::User,
            },
            asked_for(vec![
                call("call_1", Some("call:a/b"), "not json"),
                call("call_2", None, ""),
                signed,
            ]),
            result("call_1", vec![Part::text("one"), image()]),
            result("call_2", vec![image()]),
            noted,
            Message::User {
                parts: vec![Part::text("go"), Part::text("on")],
                origin: MessageOrigin::Reminder,
            },
            Message::Assistant {
                parts: vec![Part::text("ok")],
                calls: vec![],
                partial: true,
            },
        ]),
    )
    .await;
    let png = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let read = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "Read", "arguments": arguments}});
    let mut third = read("call_a_b", "{\"p\":1}");
    third["extra_content"] = json!({"google": {"thought_signature": "s"}});
    let messages = json!([
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "look"}, png]},
        {"role": "assistant", "content": null, "tool_calls": [read("call_a_b_2", "{}"), read("call_2", "{}"), third]},
        {"role": "tool", "tool_call_id": "call_a_b_2", "content": "one"},
        {"role": "tool", "tool_call_id": "call_2", "content": "The images follow."},
        {"role": "tool", "tool_call_id": "call_a_b", "content": "three\ntake care"},
        {"role": "user", "content": [
            {"type": "text", "text": "Images of tool result call_a_b_2:"}, png,
            {"type": "text", "text": "Images of tool result call_2:"}, png,
        ]},
        {"role": "user", "content": "go\non"},
        {"role": "assistant", "content": "ok"},
    ]);
    assert_eq!(body["messages"], messages, "{:#}", body["messages"]);
}

#[tokio::test]
async fn models_without_sight_get_a_note() {
    let blind = ModelConfig {
        capabilities: vec!["tool_use".into()],
        ..model("p")
    };
    let asked = request(vec![Message::User {
        parts: vec![Part::text("look"), image()],
        origin: MessageOrigin::User,
    }]);
    let body = body_of(provider(Wire::Chat), &blind, asked).await;
    assert_eq!(
        body["messages"][1]["content"],
        "look\n[an image (image/png) that this model cannot see]"
    );
}

#[tokio::test]
async fn parameters() {
    let tools: Arc<[ToolDef]> = Arc::from([ToolDef {
        name: "Read".into(),
        description: "Reads".into(),
        parameters: Arc::new(json!({"type": "object"})),
    }]);
    let compat = |members: Value| ProviderConfig {
        compat: members.as_object().unwrap().clone(),
        ..provider(Wire::Chat)
    };
    let named = |name: &str| ModelConfig {
        model: name.into(),
        max_output_size: Some(4096),
        ..model("p")
    };
    let with_tools = ModelRequest { tools, ..hello() };
    let high = ModelRequest {
        effort: Some("high".into()),
        ..hello()
    };
    let tuned = ModelConfig {
        temperature: Some(0.5),
        top_p: Some(0.9),
        extra_body: json!({"top_p": 0.1, "a": {"c": 2}})
            .as_object()
            .unwrap()
            .clone(),
        ..model("p")
    };
    let extra = ProviderConfig {
        extra_body: json!({"a": {"b": 1, "c": 1}}).as_object().unwrap().clone(),
        ..provider(Wire::Chat)
    };
    let narrow = ModelConfig {
        max_context_size: 2000,
        ..named("m")
    };
    let long = request(vec![Message::user("x".repeat(2000), MessageOrigin::User)]);
    let full = request(vec![Message::user("x".repeat(7000), MessageOrigin::User)]);
    for (what, provider, model, request, wanted) in [
        (
            "plain",
            provider(Wire::Chat),
            model("p"),
            hello(),
            json!({"model": "m-1", "stream": true, "stream_options": {"include_usage": true}, "tools": null, "max_tokens": null, "reasoning_effort": null, "temperature": null, "prompt_cache_key": null, "parallel_tool_calls": null}),
        ),
        (
            "tools",
            compat(json!({"parallel_tool_calls": false})),
            model("p"),
            with_tools,
            json!({"parallel_tool_calls": false, "tools": [{"type": "function", "function": {"name": "Read", "description": "Reads", "parameters": {"type": "object"}}}]}),
        ),
        (
            "max_tokens",
            provider(Wire::Chat),
            named("gpt-4o"),
            hello(),
            json!({"max_tokens": 4096, "max_completion_tokens": null}),
        ),
        (
            "gpt-5",
            provider(Wire::Chat),
            named("gpt-5-mini"),
            hello(),
            json!({"max_tokens": null, "max_completion_tokens": 4096}),
        ),
        (
            "o3 of a gateway",
            provider(Wire::Chat),
            named("openai/o3"),
            hello(),
            json!({"max_tokens": null, "max_completion_tokens": 4096}),
        ),
        (
            "a field of its own",
            compat(json!({"max_tokens_field": "n"})),
            named("gpt-5"),
            hello(),
            json!({"n": 4096, "max_completion_tokens": null}),
        ),
        (
            "what is left",
            provider(Wire::Chat),
            narrow.clone(),
            long,
            json!({"max_tokens": 1497}),
        ),
        (
            "nothing left",
            provider(Wire::Chat),
            narrow,
            full,
            json!({"max_tokens": null}),
        ),
        (
            "effort",
            provider(Wire::Chat),
            model("p"),
            high,
            json!({"reasoning_effort": "high"}),
        ),
        (
            "sampling and extra members",
            extra,
            tuned,
            hello(),
            json!({"temperature": 0.5, "top_p": 0.1, "a": {"b": 1, "c": 2}}),
        ),
        (
            "dropped",
            compat(json!({"drop_params": ["stream_options"]})),
            model("p"),
            hello(),
            json!({"stream_options": null}),
        ),
        (
            "no usage",
            compat(json!({"stream_usage": false})),
            model("p"),
            hello(),
            json!({"stream_options": null}),
        ),
        (
            "developer",
            compat(json!({"developer_role": true})),
            model("p"),
            hello(),
            json!({"messages": [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "hello"}]}),
        ),
        (
            "no system role",
            compat(json!({"system_in_user": true})),
            model("p"),
            hello(),
            json!({"messages": [{"role": "user", "content": "be brief\nhello"}]}),
        ),
    ] {
        let body = body_of(provider, &model, request).await;
        for (name, value) in wanted.as_object().unwrap() {
            assert_eq!(
                body.get(name).unwrap_or(&Value::Null),
                value,
                "{what}: {name}"
            );
        }
    }
}

#[tokio::test]
async fn headers_query_and_keys() {
    let fake = Fake::start(vec![events(
        chunk(json!({"content": "ok"})) + &finish("stop"),
    )])
    .await;
    let mut provider = at(&fake);
    provider.api_key = Some(Ok("sk-test".to_owned().into()));
    provider
        .headers
        .insert("X-Team".into(), Ok("blue".to_owned().into()));
    provider
        .headers
        .insert("X-Empty".into(), Ok(String::new().into()));
    provider.query.insert("api-version".into(), "2026 1".into());
    generate(&client_with(&provider, &model("p")), hello())
        .await
        .unwrap();
    provider
        .headers
        .insert("AUTHORIZATION".into(), Ok("Basic x".to_owned().into()));
    provider.base_url = Some(format!("http://{}/v1/chat/completions/", fake.address));
    generate(&client_with(&provider, &model("p")), hello())
        .await
        .unwrap();
    let asked = fake.asked();
    assert_eq!(
        asked[0].line,
        "POST /v1/chat/completions?api-version=2026+1 HTTP/1.1"
    );
    assert!(
        asked[1].line.starts_with("POST /v1/chat/completions?"),
        "{}",
        asked[1].line
    );
    assert!(
        asked[0].headers.contains("authorization: bearer sk-test"),
        "{}",
        asked[0].headers
    );
    assert!(asked[0].headers.contains("x-team: blue") && !asked[0].headers.contains("x-empty"));
    assert!(asked[0].headers.contains("user-agent: longshore/"));
    assert_eq!(asked[1].headers.matches("authorization:").count(), 1);
    assert!(asked[1].headers.contains("authorization: basic x"));
}

#[tokio::test]
async fn keys_do_not_reach_errors_or_other_origins() {
    let other = Fake::start(vec![events(finish("stop"))]).await;
    let fake = Fake::start(vec![
        answer(
            "401 x",
            &[],
            "{\"error\":{\"message\":\"key sk-test-12345 is wrong\"}}",
        ),
        answer(
            "307 x",
            &[&format!(
                "location: http://{}/v1/chat/completions",
                other.address
            )],
            "",
        ),
    ])
    .await;
    let mut provider = at(&fake);
    provider.api_key = Some(Ok("sk-test-12345".to_owned().into()));
    let client = client_with(&provider, &model("p"));
    let error = deltas(&client, hello()).await.1.unwrap();
    assert_eq!(
        error.message,
        "the provider answered 401: key [redacted] is wrong"
    );
    assert!(!error.body.unwrap().contains("sk-test"));
    let error = deltas(&client, hello()).await.1.unwrap();
    assert!(
        error.message.contains("redirects to http://127.0.0.1"),
        "{error}"
    );
    assert!(other.asked().is_empty());
}

#[tokio::test]
async fn errors_say_what_can_be_done() {
    for (status, body, word) in [
        ("400 x", "unknown reasoning effort", "efforts low, high"),
        (
            "400 x",
            "m does not support tools",
            "choose a model that takes tools",
        ),
    ] {
        let fake = Fake::start(vec![answer(
            status,
            &[],
            json!({"error": {"message": body}}).to_string(),
        )])
        .await;
        let model = ModelConfig {
            support_efforts: vec!["low".into(), "high".into()],
            ..model("p")
        };
        let error = deltas(&client_with(&at(&fake), &model), hello())
            .await
            .1
            .unwrap();
        assert!(
            error.message.contains(word) && !error.retryable(),
            "{error}"
        );
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let body = chunk(json!({"content": "ok"})) + &finish("stop") + "data: [DONE]\n\n";
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let first = format!("{head}{:x}\r\n{body}\r\n", body.len());
    let acts = vec![
        Act::Send(first.into_bytes()),
        Act::Send(b"0\r\n\r\n".to_vec()),
        Act::Next,
    ];
    let fake = Fake::start(vec![acts]).await;
    let client = client(&fake);
    for _ in 0..3 {
        generate(&client, hello()).await.unwrap();
        // The connection goes back to its pool in a task of its own.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!((fake.asked().len(), fake.n_connections()), (3, 1));
}
