use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use longshore_protocol::id::SessionId;
use longshore_protocol::value::model::ModelInfo;
use longshore_protocol::value::turn::FinishReason;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{DEMO, Format, Script, ScriptedClient, TraceSink, schema};
use crate::kernel::message::{Message, MessageOrigin, ModelCall, Part, ToolDef};
use crate::provider::assemble::{Assembler, Generated};
use crate::provider::error::{ErrorClass, ProviderError};
use crate::provider::{Delta, ModelClient, ModelRequest};

fn client(script: &str) -> ScriptedClient {
    traced(script, None)
}

fn traced(script: &str, trace: Option<Arc<dyn TraceSink>>) -> ScriptedClient {
    let info = ModelInfo {
        id: "demo".into(),
        name: "demo".into(),
        provider: "scripted".into(),
        max_context_size: 1000,
        capabilities: vec![],
        efforts: vec![],
    };
    let script = Script::parse(script, None).unwrap_or_else(|error| panic!("{error}"));
    ScriptedClient::new(info, script, Duration::from_secs(300), trace)
}

fn request(said: &str) -> ModelRequest {
    ModelRequest {
        session: SessionId::new("s1"),
        lane: "main".into(),
        cwd: "/repo".into(),
        script: None,
        system: "be brief".into(),
        messages: vec![Arc::new(Message::user(said, MessageOrigin::User))],
        tools: Arc::from([]),
        effort: None,
        attempt: 1,
    }
}

fn call(id: &str, provider_id: &str) -> Arc<Message> {
    Arc::new(Message::Assistant {
        parts: vec![],
        calls: vec![ModelCall {
            id: id.into(),
            provider_id: Some(provider_id.into()),
            name: "Read".into(),
            arguments: "{}".into(),
            extras: Map::new(),
        }],
        partial: false,
    })
}

fn result(id: &str, text: &str, is_error: bool) -> Arc<Message> {
    Arc::new(Message::ToolResult {
        call: id.into(),
        parts: vec![Part::text(text)],
        is_error,
        note: None,
    })
}

async fn deltas(
    client: &ScriptedClient,
    request: ModelRequest,
) -> (Vec<Delta>, Option<ProviderError>) {
    let mut stream = match client.stream(request, CancellationToken::new()).await {
        Ok(stream) => stream,
        Err(error) => return (vec![], Some(error)),
    };
    let mut deltas = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(delta) => deltas.push(delta),
            Err(error) => {
                assert!(stream.next().await.is_none(), "an error is the last item");
                return (deltas, Some(error));
            }
        }
    }
    (deltas, None)
}

async fn answer(
    client: &ScriptedClient,
    request: ModelRequest,
) -> Result<Generated, ProviderError> {
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

async fn said(client: &ScriptedClient, request: ModelRequest) -> String {
    match answer(client, request).await {
        Ok(generated) => text(&generated),
        Err(error) => format!("{:?} {error}", error.class),
    }
}

fn text(generated: &Generated) -> String {
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
async fn steps() {
    for (steps, wanted) in [
        ("[{text: 'a b'}, {text: ''}, {text: c}]", "a bc"),
        ("[{think: hm}, {text: a}]", "<hm>a"),
        (
            "[{think: {text: hm, signature: s}}, {think: more}, {text: a}]",
            "<hm><more>a",
        ),
        (
            "[{tool_call: {name: Read, args: {path: a.txt, n: 1}}}]",
            r#"[Read#call_main_1 {"path":"a.txt","n":1}]"#,
        ),
        (
            "[{tool_call: {id: c1, name: Read, args: '{\"bad', split: 3}}]",
            r#"[Read#c1 {"bad]"#,
        ),
        ("[{tool_call: {name: Read}}]", "[Read#call_main_1 {}]"),
        (
            "[{parallel: [{tool_call: {name: A, args: {x: 1}, split: 2}}, {tool_call: {name: B, args: {y: 2}, split: 3}}]}]",
            r#"[A#call_main_1 {"x":1}][B#call_main_2 {"y":2}]"#,
        ),
        (
            "[{tool_call: {id: a, index: 0, name: A, args: {x: 1}}}, {tool_call: {id: b, index: 0, name: B, args: {y: 2}}}]",
            r#"[A#a {"x":1}][B#b {"y":2}]"#,
        ),
        (
            "[{raw_delta: {tool_calls: [{function: {name: A, arguments: {x: 1}}}]}}, {raw_delta: {content: t, reasoning: r}}]",
            r#"<r>t[A# {"x":1}]"#,
        ),
        (
            "[{repeat: {count: 3, step: {repeat: {count: 2, step: {text: ab}}}}}]",
            "abababababab",
        ),
        (
            "[{repeat: {count: 2, step: {tool_call: {name: A}}}}]",
            "[A#call_main_1 {}][A#call_main_2 {}]",
        ),
        ("[{repeat: {count: 0, step: {text: ab}}}, {text: c}]", "c"),
        (
            "[{text: '{{last_user}} {{turn}} {{attempt}} {{session_id}} {{cwd}}'}]",
            "hi 1 1 s1 /repo",
        ),
        (
            "[{tool_call: {name: A, args: {p: '{{cwd}}/x'}}}]",
            r#"[A#call_main_1 {"p":"/repo/x"}]"#,
        ),
        (
            "[{text: a}, {cut: true}, {text: b}]",
            "StreamInterrupted the model's answer broke off before its end",
        ),
        (
            "[{think: a}]",
            "EmptyResponse the model answered with only thinking",
        ),
        (
            "[{text: a}, {error: {status: 500}}]",
            "Overloaded the provider answered 500",
        ),
        (
            "[{error: {status: 429, code: insufficient_quota, message: pay}}]",
            "QuotaExhausted the provider answered 429: pay",
        ),
        (
            "[{error: {kind: connection}}]",
            "Connection the connection was reset",
        ),
        (
            "[{error: {kind: timeout}}]",
            "Timeout the provider did not answer in time",
        ),
        (
            "[{error: {kind: overflow}}]",
            "ContextOverflow the conversation is too long for the model",
        ),
        (
            "[{error: {kind: filtered}}]",
            "Filtered the provider filtered the model's answer",
        ),
        (
            "[{error: {kind: auth}}]",
            "Auth the provider did not accept the key",
        ),
        (
            "[{error: {kind: quota, message: none left}}]",
            "QuotaExhausted none left",
        ),
        (
            "[{error: {kind: decode}}]",
            "Decode the provider's answer could not be read",
        ),
        (
            "[{text: '{{tool_result.c9}}'}]",
            "Script script.mismatch: lane main, turn 1: wanted a result of call c9, got none",
        ),
    ] {
        for chunk in ["whole", "word", "char", "{bytes: 2}"] {
            let script = format!("defaults: {{chunk: {chunk}}}\nturns: [{{steps: {steps}}}]");
            assert_eq!(
                said(&client(&script), request("hi")).await,
                wanted,
                "{script}"
            );
        }
    }
}

#[tokio::test]
async fn parallel_calls_come_interleaved() {
    let script = "turns: [{steps: [{parallel: [{tool_call: {name: A, args: '12', split: 2}}, {tool_call: {name: B, args: '34', split: 2}}]}]}]";
    let (deltas, _) = deltas(&client(script), request("")).await;
    let order: Vec<String> = deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::CallStarted { slot, .. } => Some(format!("+{slot}")),
            Delta::CallArguments { slot, text } => Some(format!("{slot}:{text}")),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["+0", "+1", "0:1", "1:3", "0:2", "1:4"]);
}

#[tokio::test]
async fn usage_and_finish() {
    for (turn, usage, finish) in [
        ("{steps: [{text: a}]}", None, FinishReason::Completed),
        (
            "{steps: [{text: a}], usage: {input_other: 3, output: 5, reasoning: 2}}",
            Some((3, 5, false)),
            FinishReason::Completed,
        ),
        (
            "{steps: [{text: abcde}], usage: auto}",
            Some((4, 2, true)),
            FinishReason::Completed,
        ),
        (
            "{steps: [{text: a}], finish: truncated}",
            None,
            FinishReason::Truncated,
        ),
        (
            "{steps: [{tool_call: {name: A}}]}",
            None,
            FinishReason::ToolCalls,
        ),
    ] {
        let got = answer(&client(&format!("turns: [{turn}]")), request("hi"))
            .await
            .unwrap();
        assert_eq!(
            got.usage
                .map(|usage| (usage.input(), usage.output, usage.estimated)),
            usage,
            "{turn}"
        );
        assert_eq!(got.finish, finish, "{turn}");
    }
}

#[tokio::test]
async fn a_lane_ends_as_the_script_says() {
    for (rule, third) in [
        (
            "error",
            "Script script.exhausted: lane main, turn 3: the script has 2 turns and no more",
        ),
        ("repeat_last", "two"),
        ("loop", "one"),
        ("echo", "hi"),
    ] {
        let client = client(&format!(
            "on_exhausted: {rule}\nturns: [{{steps: [{{text: one}}]}}, {{steps: [{{text: two}}]}}]"
        ));
        assert_eq!(said(&client, request("hi")).await, "one");
        assert_eq!(said(&client, request("hi")).await, "two");
        assert_eq!(said(&client, request("hi")).await, third);
        assert_eq!(
            said(&client, request("hi")).await,
            if rule == "loop" { "two" } else { third }
        );
    }
    let error = answer(
        &client("turns: []\non_exhausted: echo"),
        request("say {{this}}"),
    )
    .await
    .unwrap();
    assert_eq!(text(&error), "say {{this}}");
    let client = client("turns: [{steps: [{text: one}]}]");
    said(&client, request("")).await;
    let error = answer(&client, request("")).await.unwrap_err();
    assert_eq!(
        (error.script.clone(), error.retryable()),
        (Some(("main".to_owned(), 2)), false)
    );
}

#[tokio::test]
async fn failing_attempts_come_first_and_a_failed_turn_is_used_up() {
    let script = "
turns:
  - fail_first: [{status: 429, retry_after_ms: 50}, {kind: connection}]
    steps: [{text: 'try {{attempt}}'}]
  - steps: [{text: half}, {error: {status: 500}}]
  - steps: [{text: whole}]
";
    let client = client(script);
    let attempt = |n| ModelRequest {
        attempt: n,
        ..request("")
    };
    let first = answer(&client, attempt(1)).await.unwrap_err();
    assert_eq!(
        (first.class, first.retry_after),
        (ErrorClass::RateLimit, Some(Duration::from_millis(50)))
    );
    assert_eq!(
        answer(&client, attempt(2)).await.unwrap_err().class,
        ErrorClass::Connection
    );
    assert_eq!(said(&client, attempt(3)).await, "try 3");
    let (shown, error) = deltas(&client, attempt(1)).await;
    assert_eq!(
        (shown, error.unwrap().class),
        (vec![Delta::Text("half".into())], ErrorClass::Overloaded)
    );
    assert_eq!(said(&client, attempt(2)).await, "whole");
}

#[tokio::test]
async fn places_are_kept_by_session_and_lane() {
    let script = "
lanes:
  main: [{steps: [{text: m1}]}, {steps: [{text: m2}]}]
  subagent: {coder: [{steps: [{tool_call: {name: A}}]}]}
turns: [{steps: [{text: t1}]}, {steps: [{text: t2}]}]
";
    let client = client(script);
    let ask = |session: &str, lane: &str| ModelRequest {
        session: session.into(),
        lane: lane.into(),
        ..request("")
    };
    for (session, lane, wanted) in [
        ("s1", "main", "m1"),
        ("s2", "main", "m1"),
        ("s1", "subagent/coder", "[A#call_subagent/coder_1 {}]"),
        ("s1", "subagent/explore", "t1"),
        ("s1", "purpose/title", "t2"),
        ("s1", "main", "m2"),
    ] {
        assert_eq!(
            said(&client, ask(session, lane)).await,
            wanted,
            "{session} {lane}"
        );
    }
    let state = client.state(&"s2".into()).unwrap();
    assert_eq!(state, json!({"main": {"turn": 1, "failed": 0, "ids": 0}}));
    client.forget(&"s2".into());
    assert_eq!(client.state(&"s2".into()), None);
    let later = self::client(script);
    later.restore(&"s2".into(), state);
    assert_eq!(said(&later, ask("s2", "main")).await, "m2");
    later.restore(&"s3".into(), json!("nonsense"));
    assert_eq!(said(&later, ask("s3", "main")).await, "m1");
}

#[tokio::test]
async fn effort_does_not_move_the_place() {
    let client = client("turns: [{steps: [{text: one}]}, {steps: [{text: two}]}]");
    assert_eq!(said(&client, request("")).await, "one");
    assert_eq!(
        said(
            &client,
            ModelRequest {
                effort: Some("high".into()),
                ..request("")
            }
        )
        .await,
        "two"
    );
}

#[tokio::test]
async fn conditions() {
    let tools: Arc<[ToolDef]> = Arc::from([ToolDef {
        name: "Read".into(),
        description: "".into(),
        parameters: Arc::new(json!({})),
    }]);
    let mut asked = request("fix the bug");
    asked.tools = tools;
    asked.messages.push(call("call_1", "c1"));
    asked.messages.push(result("call_1", "all ok", true));
    asked
        .messages
        .push(Arc::new(Message::user("remember", MessageOrigin::Reminder)));
    for (condition, why) in [
        (
            "{last_user: 'fix.*bug', tools_include: [Read], tool_result: {id: c1, contains: ok}}",
            None,
        ),
        ("{last_role: tool, tool_failed: true}", None),
        ("{tool_result: {id: call_1, contains: all}}", None),
        (
            "{last_user: '^bug'}",
            Some("wanted last_user to match `^bug`, got \"fix the bug\""),
        ),
        (
            "{last_role: user}",
            Some("wanted last_role User, got Some(Tool)"),
        ),
        (
            "{tool_failed: false}",
            Some("wanted tool_failed false, got true"),
        ),
        (
            "{tools_include: [Bash]}",
            Some("wanted tool Bash, got Read"),
        ),
        (
            "{tool_result: {id: c2, contains: ok}}",
            Some("wanted a result of call c2, got none"),
        ),
        (
            "{tool_result: {id: c1, contains: no}}",
            Some("wanted the result of call c1 to contain \"no\", got \"all ok\""),
        ),
    ] {
        let expect = format!(
            "turns: [{{expect: {condition}, steps: [{{text: '{{{{last_tool_result}}}}'}}]}}]"
        );
        let wanted = why.map_or("all ok".to_owned(), |why| {
            format!("Script script.mismatch: lane main, turn 1: {why}")
        });
        let expecting = client(&expect);
        assert_eq!(said(&expecting, asked.clone()).await, wanted);
        if why.is_some() {
            assert_eq!(
                said(&expecting, asked.clone()).await,
                wanted,
                "a mismatch does not move on"
            );
        }
        let choose = format!(
            "turns: [{{choose: [{{when: {condition}, steps: [{{text: yes}}]}}, {{steps: [{{text: no}}]}}]}}]"
        );
        assert_eq!(
            said(&client(&choose), asked.clone()).await,
            if why.is_none() { "yes" } else { "no" }
        );
    }
    let nothing = client("turns: [{choose: [{when: {last_user: x}, steps: [{text: a}]}]}]");
    assert!(
        said(&nothing, request("y"))
            .await
            .contains("no choice fits: wanted last_user")
    );
}

#[tokio::test]
async fn goto_by_name_and_number() {
    let client = client(
        "turns: [{name: a, steps: [{text: one}]}, {goto: c, steps: [{text: two}]}, {steps: [{text: skipped}]}, {name: c, goto: 2, steps: [{text: four}]}]",
    );
    for wanted in ["one", "two", "four", "two"] {
        assert_eq!(said(&client, request("")).await, wanted);
    }
}

#[tokio::test]
async fn a_sessions_own_script_wins() {
    let client = client("turns: [{steps: [{text: shared}]}]");
    let own = |text: &str| ModelRequest {
        script: Some(text.into()),
        ..request("")
    };
    assert_eq!(
        said(&client, own("text: mine\n---\ntext: again")).await,
        "mine"
    );
    assert_eq!(
        said(&client, own("text: mine\n---\ntext: again")).await,
        "again"
    );
    let broken = answer(&client, own("turns: [{}]")).await.unwrap_err();
    assert_eq!(broken.class, ErrorClass::Script);
    assert!(
        broken.message.contains("turn 1: it has neither"),
        "{broken}"
    );
}

#[tokio::test]
async fn formats_are_told_apart() {
    let dsl = "# comment\n```\necho\nid: x\nthink: 'hm'\nthink_encrypted: sig\ntext:  spaced\ntool_call: {\"id\": \"c\", \"name\": \"A\", \"arguments\": \"{\\\"x\\\"\"}\ntool_call_part: :1}\nusage: input_other=3 output=4\nfinish_reason: tool_calls\n```\n---\nerror: 429 slow down\n---\nerror: connection gone\n---\ntext: \"a\\nb\"\ndelay: 5\n";
    for (format, script, wanted) in [
        (Format::Yaml, "turns:\n  - steps: [{text: a}]\n", "a"),
        (
            Format::Yaml,
            "# text: x\nversion: 1\nturns: [{steps: [{text: a}]}]",
            "a",
        ),
        (
            Format::Json,
            "{\"turns\": [{\"steps\": [{\"text\": \"a\"}]}]}",
            "a",
        ),
        (
            Format::Json,
            "{\n  \"version\": 1,\n  \"turns\": [{\"steps\": [{\"text\": \"a\"}]}]\n}",
            "a",
        ),
        (
            Format::JsonLines,
            "{\"steps\": [{\"text\": \"a\"}]}\n\n{\"steps\": [{\"text\": \"b\"}]}\n",
            "a",
        ),
        (Format::Echo, dsl, "<hm> spaced[A#c {\"x\":1}]"),
    ] {
        for format in [None, Some(format)] {
            let script =
                Script::parse(script, format).unwrap_or_else(|error| panic!("{format:?}: {error}"));
            let client = ScriptedClient::new(
                client("turns: [{steps: [{text: x}]}]").info,
                script,
                Duration::ZERO,
                None,
            );
            assert_eq!(said(&client, request("")).await, wanted, "{format:?}");
        }
    }
    let client = client(dsl);
    let first = answer(&client, request("")).await.unwrap();
    assert_eq!(
        first.usage.map(|usage| (usage.input_other, usage.output)),
        Some((3, 4))
    );
    assert_eq!(
        said(&client, request("")).await,
        "RateLimit the provider answered 429: slow down"
    );
    assert_eq!(said(&client, request("")).await, "Connection gone");
    assert_eq!(said(&client, request("")).await, "a\nb");
    for (name, format) in [
        ("a.json", Some(Format::Json)),
        ("a.YML", Some(Format::Yaml)),
        ("a.yaml", Some(Format::Yaml)),
        ("a.jsonl", Some(Format::JsonLines)),
        ("a.echo", Some(Format::Echo)),
        ("a.txt", None),
    ] {
        assert_eq!(
            Format::of_path(std::path::Path::new(name)),
            format,
            "{name}"
        );
    }
}

#[test]
fn mistakes_name_their_place() {
    for (script, words) in [
        (
            "version: 2\nturns: [{steps: [{text: a}]}]",
            vec!["version 2"],
        ),
        (
            "turns:\n  - steps:\n      - text: a\n        txet: b\n",
            vec!["line 4", "txet"],
        ),
        ("turns:\n  - setps: []\n", vec!["line 2", "setps"]),
        (
            "turns:\n  - steps:\n      - tool_call:\n          nmae: A\n",
            vec!["line 4", "nmae"],
        ),
        (
            "turns:\n  - steps:\n      - think:\n          text: a\n          sig: b\n",
            vec!["line 5", "sig"],
        ),
        (
            "lanes:\n  subagent:\n    coder:\n      - stpes: []\n",
            vec!["line 4", "stpes"],
        ),
        (
            "defaults: {chunk: letter}\nturns: []",
            vec!["line 1", "letter"],
        ),
        (
            "turns:\n  - steps: [{text: a}]\n    finish: done\n",
            vec!["line 3", "done"],
        ),
        (
            "{\n\"turns\": [\n{\"steps\": [{\"txet\": 1}]}]}",
            vec!["line 3", "txet"],
        ),
        (
            "{\"steps\": [{\"text\": \"a\"}]}\n{\"steps\": [{\"txet\": \"a\"}]}",
            vec!["line 2", "txet"],
        ),
        ("text: a\nnonsense: b\n", vec!["line 2", "nonsense"]),
        ("text: a\nimage_url: b\n", vec!["line 2", "image_url"]),
        ("turns: [{}]", vec!["turn 1", "neither"]),
        (
            "turns: [{steps: [{}]}]",
            vec!["turn 1", "step 1", "nothing"],
        ),
        (
            "turns: [{steps: [{text: a, think: b}]}]",
            vec!["turn 1", "step 1", "several"],
        ),
        (
            "turns: [{steps: [{hang: false}]}]",
            vec!["turn 1", "step 1", "nothing"],
        ),
        (
            "turns: [{steps: [{text: '{{nope}}'}]}]",
            vec!["turn 1", "step 1", "nope"],
        ),
        (
            "turns: [{steps: [{error: {}}]}]",
            vec!["turn 1", "step 1", "kind"],
        ),
        ("turns: [{steps: [{error: {status: 200}}]}]", vec!["200"]),
        (
            "turns: [{steps: [{text: a}], goto: x}]",
            vec!["turn 1", "goto", "`x`"],
        ),
        (
            "turns: [{steps: [{text: a}], goto: 2}]",
            vec!["goto", "turn 2"],
        ),
        (
            "turns: [{steps: [{text: a}], when: {last_user: a}}]",
            vec!["`when`"],
        ),
        (
            "turns: [{steps: [{text: a}], expect: {last_user: '('}}]",
            vec!["turn 1", "regular expression"],
        ),
        (
            "turns: [{steps: [{text: a}], choose: [{steps: [{text: b}]}]}]",
            vec!["`choose`"],
        ),
        ("turns: []", vec!["needs"]),
        ("", vec!["needs"]),
    ] {
        let message = Script::parse(script, None).unwrap_err().to_string();
        for word in words {
            assert!(message.contains(word), "{script}\n{message}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_are_kept() {
    let script = "defaults: {chunk: word, delay_ms: 10, first_delay_ms: 100}\nturns: [{steps: [{text: 'a b c'}, {delay_ms: 1000}, {text: d}]}]";
    let client = client(script);
    let begun = tokio::time::Instant::now();
    let mut stream = client
        .stream(request(""), CancellationToken::new())
        .await
        .unwrap();
    let mut at = Vec::new();
    while let Some(delta) = stream.next().await {
        delta.unwrap();
        at.push(begun.elapsed().as_millis());
    }
    assert_eq!(at, [100, 110, 120, 1130, 1130]);
}

#[tokio::test(start_paused = true)]
async fn a_hang_ends_by_its_idle_timeout_or_a_cancel() {
    let hanging =
        client("turns: [{steps: [{text: a}, {hang: true}]}, {steps: [{text: b}, {hang: true}]}]");
    let (shown, error) = deltas(&hanging, request("")).await;
    assert_eq!(
        (shown.len(), error.unwrap().class),
        (1, ErrorClass::Timeout)
    );

    let cancel = CancellationToken::new();
    let mut stream = hanging.stream(request(""), cancel.clone()).await.unwrap();
    assert_eq!(
        stream.next().await.unwrap().unwrap(),
        Delta::Text("b".into())
    );
    let begun = tokio::time::Instant::now();
    let (next, ()) = tokio::join!(stream.next(), async { cancel.cancel() });
    assert_eq!(next.unwrap().unwrap_err().class, ErrorClass::Cancelled);
    assert!(begun.elapsed().is_zero());
    assert!(stream.next().await.is_none());
    let refused = hanging.stream(request(""), cancel).await.err().unwrap();
    assert_eq!(refused.class, ErrorClass::Cancelled);
}

#[tokio::test]
async fn others_get_their_turn_during_a_flood() {
    let client = client(
        "defaults: {chunk: whole}\nturns: [{steps: [{repeat: {count: 100000, step: {text: twenty bytes of text}}}]}]",
    );
    let mut stream = client
        .stream(request(""), CancellationToken::new())
        .await
        .unwrap();
    let cancel = CancellationToken::new();
    let other = cancel.clone();
    let mut n = 0;
    tokio::join!(
        async {
            while let Some(delta) = stream.next().await {
                delta.unwrap();
                n += 1;
                if n == 1 {
                    cancel.cancel();
                }
            }
        },
        async { other.cancelled().await }
    );
    assert_eq!(n, 100_001);
}

#[derive(Default)]
struct Lines(Mutex<Vec<Value>>);

impl TraceSink for Lines {
    fn line(&self, json: &str) {
        self.0
            .lock()
            .unwrap()
            .push(serde_json::from_str(json).unwrap());
    }
}

#[tokio::test]
async fn the_trace_names_the_turn_and_hides_payloads() {
    let lines = Arc::new(Lines::default());
    let client = traced(
        "turns: [{fail_first: [{status: 500}], steps: [{text: a}]}]",
        Some(lines.clone()),
    );
    let mut asked = request("hi");
    let image = Part::Image {
        mime: "image/png".into(),
        data: "A".repeat(5000).into(),
    };
    asked.messages.push(Arc::new(Message::User {
        parts: vec![image],
        origin: MessageOrigin::User,
    }));
    said(&client, asked.clone()).await;
    said(&client, asked).await;
    let lines = lines.0.lock().unwrap();
    assert_eq!(
        (&lines[0]["played"], &lines[1]["played"]),
        (&json!("fail_first"), &json!("steps"))
    );
    assert_eq!(
        (&lines[1]["turn"], &lines[1]["lane"]),
        (&json!(1), &json!("main"))
    );
    assert_eq!(lines[1]["messages"][0]["content"][0]["text"], "hi");
    assert_eq!(
        lines[1]["messages"][1]["content"][0],
        json!({"image": "image/png", "base64_chars": 5000})
    );
}

#[tokio::test]
async fn the_demo_plays_through() {
    let client = client(DEMO);
    assert!(
        said(&client, request("hello"))
            .await
            .contains("scripted model")
    );
    let mut names = Vec::new();
    let mut asked = request("Show me the demo");
    for n in 1..=6 {
        let got = answer(&client, asked.clone()).await.unwrap();
        assert!(got.usage.is_some());
        if let Some(call) = got.calls.first() {
            assert!(call.is_complete(), "{}", call.arguments);
            names.push(format!("{} {}", call.name, call.arguments));
            let id = format!("call_{n}");
            asked
                .messages
                .push(self::call(&id, call.provider_id.as_deref().unwrap()));
            asked.messages.push(result(&id, "ok", false));
        } else {
            assert!(text(&got).contains("You refused the push"));
            assert_eq!(n, 6);
        }
    }
    assert_eq!(
        names,
        [
            r#"Grep {"pattern":"wrold","output_mode":"content"}"#,
            r#"Read {"path":"greeting.txt"}"#,
            r#"Edit {"path":"greeting.txt","old_string":"wrold","new_string":"world"}"#,
            r#"Bash {"command":"git diff --stat","description":"Show what changed"}"#,
            r#"Bash {"command":"git push --force origin main","description":"Overwrite the remote branch"}"#,
        ]
    );
    assert!(
        said(&client, request("and now?"))
            .await
            .starts_with("Hello!")
    );
}

#[test]
fn the_schema_has_every_member() {
    let schema = schema().to_value().to_string();
    for member in [
        "on_exhausted",
        "fail_first",
        "raw_delta",
        "tools_include",
        "retry_after_ms",
        "goto",
    ] {
        assert!(schema.contains(&format!("\"{member}\"")), "{member}");
    }
}
