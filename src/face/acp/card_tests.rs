use super::*;

fn command_output(exit_code: Option<i32>, signal: Option<&str>) -> Display {
    Display::CommandOutput {
        text: "out\n".into(),
        exit_code,
        signal: signal.map(str::to_owned),
        truncated: false,
    }
}

fn changed(old_text: Option<&str>, new_text: Option<&str>) -> Display {
    Display::Diff {
        path: "/w/a.rs".into(),
        hunks: "@@ -1,2 +1,2 @@\n a\n-b\n+c\n@@ -9 +9 @@\n-x\n+y\n".into(),
        added: 2,
        removed: 2,
        old_text: old_text.map(str::to_owned),
        new_text: new_text.map(str::to_owned),
        line: Some(2),
        old_sha256: None,
        truncated: false,
    }
}

fn access(operation: Operation, path: Option<&str>) -> AccessInfo {
    AccessInfo {
        operation,
        path: path.map(str::to_owned),
        real_path: None,
        recursive: false,
    }
}

fn card(display: Display, accesses: Vec<AccessInfo>) -> Value {
    let card = Card {
        name: "Tool".into(),
        title: "do\n it".into(),
        display,
        accesses,
        input: json!({"a": 1}),
    };
    let mut call = serde_json::to_value(card.call("call_1")).unwrap();
    assert_eq!(call["title"], "do it");
    assert_eq!(call["name"], "Tool");
    assert_eq!(call["rawInput"], json!({"a": 1}));
    assert_eq!(call.get("status"), None, "pending is the default");
    let members = call.as_object_mut().unwrap();
    for name in ["toolCallId", "title", "name", "rawInput"] {
        members.remove(name);
    }
    call
}

#[test]
fn cards_of_every_sort_of_display() {
    for (display, accesses, expected) in [
        (
            Display::Command {
                command: "ls -l".into(),
                cwd: "/w".into(),
                description: Some("lists".into()),
            },
            vec![access(Operation::All, None)],
            json!({"kind": "execute", "content": [
                {"type": "content", "content": {"type": "text", "text": "```\nls -l\n```"}},
                {"type": "content", "content": {"type": "text", "text": "lists"}},
            ]}),
        ),
        (
            Display::FileRead {
                path: "/w/a".into(),
                line: Some(7),
            },
            vec![],
            json!({"kind": "read", "locations": [{"path": "/w/a", "line": 7}]}),
        ),
        (
            Display::FileRead {
                path: "/w/a".into(),
                line: None,
            },
            vec![],
            json!({"kind": "read", "locations": [{"path": "/w/a", "line": 1}]}),
        ),
        (
            Display::Search {
                query: "x".into(),
                path: "/w".into(),
                glob: None,
            },
            vec![],
            json!({"kind": "search", "locations": [{"path": "/w"}]}),
        ),
        (
            changed(Some("a\nb\n"), Some("a\nc\n")),
            vec![],
            json!({"kind": "edit", "locations": [{"path": "/w/a.rs", "line": 2}],
                "content": [{"type": "diff", "path": "/w/a.rs", "oldText": "a\nb\n", "newText": "a\nc\n"}]}),
        ),
        (
            changed(None, Some("new\n")),
            vec![],
            json!({"kind": "edit", "locations": [{"path": "/w/a.rs", "line": 2}],
                "content": [{"type": "diff", "path": "/w/a.rs", "newText": "new\n"}]}),
        ),
        (
            changed(None, None),
            vec![],
            json!({"kind": "edit", "locations": [{"path": "/w/a.rs", "line": 2}],
                "content": [{"type": "diff", "path": "/w/a.rs", "oldText": "a\nb\n…\nx\n", "newText": "a\nc\n…\ny\n",
                    "_meta": {"longshore": {"partial": true}}}]}),
        ),
        (
            Display::Todo { todos: vec![] },
            vec![],
            json!({"kind": "think"}),
        ),
        (
            Display::Error {
                message: "no such text".into(),
                code: None,
            },
            vec![access(Operation::Readwrite, Some("/w/b"))],
            json!({"kind": "edit", "locations": [{"path": "/w/b"}],
                "content": [{"type": "content", "content": {"type": "text", "text": "no such text"}}]}),
        ),
        (
            Display::Generic {
                summary: "s".into(),
                detail: None,
            },
            vec![],
            json!({}),
        ),
    ] {
        assert_eq!(card(display, accesses), expected);
    }
}

#[test]
fn endings() {
    let read = Display::FileRead {
        path: "/w/a".into(),
        line: None,
    };
    let diff = changed(Some("a\n"), Some("b\n"));
    let output = [Part::text("words")];
    let check =
        |started: Option<&Display>, display: Option<&Display>, is_error: bool, expected: Value| {
            let ending = Ending {
                started,
                display,
                output: &output,
                is_error,
            };
            let content: Vec<Value> = ending
                .content()
                .iter()
                .map(|entry| {
                    let entry = serde_json::to_value(entry).unwrap();
                    if entry["type"] == "content" {
                        entry["content"]["text"].clone()
                    } else {
                        entry["type"].clone()
                    }
                })
                .collect();
            assert_eq!(
                json!([ending.has_failed(), content]),
                expected,
                "{started:?} {display:?}"
            );
        };
    check(
        Some(&read),
        None,
        false,
        json!([false, ["```\nwords\n```"]]),
    );
    check(Some(&read), None, true, json!([true, ["words"]]));
    check(None, None, false, json!([false, ["```\nwords\n```"]]));
    check(Some(&read), Some(&diff), false, json!([false, ["diff"]]));
    check(Some(&diff), None, false, json!([false, ["diff"]]));
    check(Some(&diff), None, true, json!([true, ["words"]]));
    check(
        None,
        Some(&command_output(Some(0), None)),
        false,
        json!([false, ["```\nout\n```"]]),
    );
    check(
        None,
        Some(&command_output(Some(2), None)),
        false,
        json!([true, ["```\nout\n```", "Exit code 2"]]),
    );
    check(
        None,
        Some(&command_output(None, Some("KILL"))),
        true,
        json!([true, ["```\nout\n```", "Ended by signal KILL"]]),
    );
    let failed = Display::Error {
        message: "why".into(),
        code: None,
    };
    check(Some(&diff), Some(&failed), true, json!([true, ["why"]]));
}

#[test]
fn outcomes_as_data() {
    let output = [Part::text("words")];
    let raw = |display: Option<&Display>| {
        Ending {
            started: None,
            display,
            output: &output,
            is_error: false,
        }
        .raw_output()
    };
    assert_eq!(raw(None), json!({"output": "words"}));
    assert_eq!(
        raw(Some(&command_output(Some(3), None))),
        json!({"output": "out\n", "exitCode": 3, "signal": null})
    );
}

#[test]
fn long_texts_are_cut_between_characters() {
    let long = "é".repeat(CONTENT_BYTES);
    let cut = middle_cut(&long, CONTENT_BYTES + 1);
    assert!(cut.len() < CONTENT_BYTES + 100 && cut.contains("bytes left out"));
    assert_eq!(before("aé", 2), "a");
    assert_eq!(after("éa", 1), "a");
    assert_eq!(one_line(&"x".repeat(500)).chars().count(), TITLE_CHARS);
    let raw_input = raw(json!({"path": "/w/a", "content": "x".repeat(CONTENT_BYTES)}));
    assert_eq!(raw_input["path"], "/w/a");
    assert!(raw_input.to_string().len() < RAW_STRING_BYTES + 200);
}

#[test]
fn a_fence_is_longer_than_any_in_the_text() {
    assert_eq!(fenced("a", 10), "```\na\n```");
    assert_eq!(fenced("````\n", 10), "`````\n````\n`````");
}
