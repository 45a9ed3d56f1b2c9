use serde_json::{Map, Value, json};

use super::{Arguments, CallPiece, CallSlots, Index, Repetition};
use crate::provider::Delta;

/// `[index, id, name, arguments]`, null where absent; arguments other than text come as a value.
fn piece(value: &Value) -> CallPiece {
    let text = |at: usize| value[at].as_str().map(str::to_owned);
    CallPiece {
        index: match &value[0] {
            Value::Number(n) => n.as_u64().map(Index::Number),
            Value::String(s) => Some(Index::Text(s.clone())),
            _ => None,
        },
        id: text(1),
        name: text(2),
        arguments: match &value[3] {
            Value::Null => None,
            Value::String(s) => Some(Arguments::Piece(s.clone())),
            other => Some(Arguments::Whole(other.to_string())),
        },
        extras: Map::new(),
    }
}

fn play(repetition: Repetition, pieces: &Value) -> (Vec<String>, usize, bool) {
    let mut slots = CallSlots::new(repetition);
    let mut out = Vec::new();
    for value in pieces.as_array().unwrap() {
        slots.feed(piece(value), &mut out);
    }
    let mut calls: Vec<String> = Vec::new();
    for delta in out {
        match delta {
            Delta::CallStarted {
                slot,
                provider_id,
                name,
                ..
            } => {
                assert_eq!(slot, calls.len(), "slots count from 0");
                calls.push(format!("{name}#{} ", provider_id.unwrap_or_default()));
            }
            Delta::CallArguments { slot, text } => calls[slot].push_str(&text),
            Delta::CallReplaced { slot, text } => {
                let head = calls[slot].find(' ').unwrap() + 1;
                calls[slot].truncate(head);
                calls[slot].push_str(&text);
            }
            other => panic!("{other:?}"),
        }
    }
    (calls, slots.n_orphans(), slots.any_unfinished())
}

#[test]
fn pieces_find_their_call() {
    for (what, pieces, calls) in [
        (
            "headers, then interleaved arguments",
            json!([
                [0, "a", "Read", ""],
                [1, "b", "Grep", ""],
                [0, null, null, "{\"p\":"],
                [1, null, null, "{\"q\":"],
                [0, null, null, "1}"],
                [1, null, null, "2}"]
            ]),
            vec!["Read#a {\"p\":1}", "Grep#b {\"q\":2}"],
        ),
        (
            "arguments before the name",
            json!([
                [0, null, null, "{\"p\""],
                [0, null, "", ":"],
                [0, "a", "Read", "1}"]
            ]),
            vec!["Read#a {\"p\":1}"],
        ),
        (
            "every call is number 0",
            json!([[0, "a", "Read", "{}"], [0, "b", "Grep", "{}"]]),
            vec!["Read#a {}", "Grep#b {}"],
        ),
        (
            "every call is number 0, and no ids",
            json!([[0, null, "Read", "{\"p\":1}"], [0, "", "Read", "{\"p\":2}"]]),
            vec!["Read# {\"p\":1}", "Read# {\"p\":2}"],
        ),
        (
            "no numbers, ids in each piece",
            json!([
                [null, "a", "Read", "{"],
                [null, "b", "Grep", "{"],
                [null, "a", null, "}"],
                [null, "b", null, "}"]
            ]),
            vec!["Read#a {}", "Grep#b {}"],
        ),
        (
            "neither numbers nor ids",
            json!([
                [null, null, "Read", "{"],
                [null, null, null, "}"],
                [null, null, "Grep", "{}"]
            ]),
            vec!["Read# {}", "Grep# {}"],
        ),
        (
            "gaps make no phantom",
            json!([
                [0, "a", "Read", "{}"],
                [3, "b", "Grep", "{}"],
                [7, "c", "Glob", "{}"]
            ]),
            vec!["Read#a {}", "Grep#b {}", "Glob#c {}"],
        ),
        (
            "the number changes after the head",
            json!([
                [0, "a", "Read", null],
                [1, null, null, "{\"p\":"],
                [1, null, null, "1}"]
            ]),
            vec!["Read#a {\"p\":1}"],
        ),
        (
            "the number changes, the id tells",
            json!([
                [0, "a", "Read", "{"],
                [1, "b", "Grep", "{"],
                [5, "a", null, "}"],
                [6, "b", null, "}"]
            ]),
            vec!["Read#a {}", "Grep#b {}"],
        ),
        (
            "numbers as text",
            json!([["x", "a", "Read", "{"], ["x", null, null, "}"]]),
            vec!["Read#a {}"],
        ),
        (
            "an object",
            json!([[0, "a", "Read", {"p": 1}]]),
            vec!["Read#a {\"p\":1}"],
        ),
        (
            "empty names and ids later on",
            json!([[0, "a", "Read", "{"], [0, "", "", "}"]]),
            vec!["Read#a {}"],
        ),
        (
            "the name in every piece",
            json!([[0, "a", "Read", "{\"p\":"], [0, "a", "Read", "1}"]]),
            vec!["Read#a {\"p\":1}"],
        ),
        (
            "the whole again at the end",
            json!([
                [0, "a", "Read", "{\"p\":"],
                [0, null, null, "1}"],
                [0, null, null, "{\"p\":1}"]
            ]),
            vec!["Read#a {\"p\":1}"],
        ),
        (
            "an empty object first",
            json!([
                [0, "a", "Read", "{}"],
                [0, null, null, "{\"p\":"],
                [0, null, null, "1}"]
            ]),
            vec!["Read#a {\"p\":1}"],
        ),
        (
            "braces in strings",
            json!([[0, "a", "Read", "{\"p\":\"}\\\"{"], [0, null, null, "\"}"]]),
            vec!["Read#a {\"p\":\"}\\\"{\"}"],
        ),
        (
            "a late id",
            json!([[0, null, "Read", "{"], [0, "a", null, "}"]]),
            vec!["Read# {}"],
        ),
    ] {
        let (got, orphans, unfinished) = play(Repetition::Pieces, &pieces);
        assert_eq!(got, calls, "{what}");
        assert_eq!((orphans, unfinished), (0, false), "{what}");
    }
}

#[test]
fn cumulative_arguments_come_out_once() {
    let pieces = json!([
        [0, "a", "Read", "{\"p\""],
        [0, null, null, "{\"p\":1"],
        [0, null, null, "{\"p\":1}"]
    ]);
    assert_eq!(
        play(Repetition::Cumulative, &pieces).0,
        ["Read#a {\"p\":1}"]
    );
    let early = json!([[0, null, null, "{"], [0, "a", "Read", "{\"p\":1}"]]);
    assert_eq!(play(Repetition::Cumulative, &early).0, ["Read#a {\"p\":1}"]);
}

#[test]
fn orphans_are_counted_and_cut_calls_seen() {
    let (calls, orphans, unfinished) = play(
        Repetition::Pieces,
        &json!([[null, null, null, "{}"], [0, "a", "Read", "{\"p\":"]]),
    );
    assert_eq!((calls.len(), orphans, unfinished), (1, 1, true));
}
