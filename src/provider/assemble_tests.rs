use longshore_protocol::value::turn::FinishReason;
use longshore_protocol::value::usage::Usage;
use serde_json::Map;

use super::{Assembler, Generated};
use crate::kernel::message::Part;
use crate::provider::Delta;
use crate::provider::error::{ErrorClass, ProviderError};

fn text(text: &str) -> Delta {
    Delta::Text(text.into())
}

fn think(text: &str, signature: Option<&str>) -> Delta {
    Delta::Thinking {
        text: text.into(),
        signature: signature.map(Into::into),
    }
}

fn call(slot: usize, name: &str) -> Delta {
    Delta::CallStarted {
        slot,
        provider_id: None,
        name: name.into(),
        extras: Map::new(),
    }
}

fn args(slot: usize, text: &str) -> Delta {
    Delta::CallArguments {
        slot,
        text: text.into(),
    }
}

fn end(finish: FinishReason) -> Delta {
    Delta::Finished { finish, raw: None }
}

fn assemble(deltas: &[Delta]) -> Result<Generated, ProviderError> {
    let mut assembler = Assembler::new();
    for delta in deltas {
        assembler.push(delta);
    }
    assembler.finish()
}

fn show(parts: &[Part]) -> Vec<String> {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => format!("text {text}"),
            Part::Thinking(thinking) => match &thinking.signature {
                Some(signature) => format!("think {} #{signature}", thinking.text),
                None => format!("think {}", thinking.text),
            },
            Part::Image { .. } => "image".into(),
        })
        .collect()
}

#[test]
fn parts_merge_with_their_like_and_keep_their_order() {
    for (deltas, parts) in [
        (vec![text("a"), text(""), text("b")], vec!["text ab"]),
        (
            vec![think("a", None), text("b"), think("c", None), text("d")],
            vec!["think a", "text b", "think c", "text d"],
        ),
        (
            vec![
                think("a", None),
                think("b", Some("s")),
                think("c", None),
                text("x"),
            ],
            vec!["think ab #s", "think c", "text x"],
        ),
        (vec![think("", None), text("x")], vec!["think ", "text x"]),
        (
            vec![text("a"), call(0, "Read"), text("b")],
            vec!["text a", "text b"],
        ),
    ] {
        let mut all = deltas.clone();
        all.push(end(FinishReason::Completed));
        assert_eq!(show(&assemble(&all).unwrap().parts), parts, "{deltas:?}");
    }
}

#[test]
fn interleaved_calls_are_routed_and_ordered_by_slot() {
    let mut deltas: Vec<Delta> = (0..100)
        .map(|slot| call(slot, &format!("T{slot}")))
        .collect();
    for piece in ["{\"n\":", "1", "}"] {
        deltas.extend((0..100).rev().map(|slot| args(slot, piece)));
    }
    deltas.push(end(FinishReason::Completed));
    let generated = assemble(&deltas).unwrap();
    assert_eq!(generated.calls.len(), 100);
    assert_eq!(generated.finish, FinishReason::ToolCalls);
    for (slot, call) in generated.calls.iter().enumerate() {
        assert_eq!(
            (call.slot, &*call.name, &*call.arguments),
            (slot, &*format!("T{slot}"), "{\"n\":1}")
        );
    }
}

#[test]
fn a_replacement_takes_the_place_of_what_came_before() {
    let generated = assemble(&[
        call(0, "Read"),
        args(0, "{}"),
        Delta::CallReplaced {
            slot: 0,
            text: "{\"a\"".into(),
        },
        args(0, ":1}"),
        args(7, "orphan"),
        end(FinishReason::ToolCalls),
    ])
    .unwrap();
    assert_eq!(generated.calls[0].arguments, "{\"a\":1}");
}

#[test]
fn a_megabyte_of_arguments_in_ten_thousand_pieces() {
    let piece = "x".repeat(105);
    let mut assembler = Assembler::new();
    assembler.push(&call(0, "Write"));
    for _ in 0..10_000 {
        assembler.push(&args(0, &piece));
        assembler.push(&text("t"));
    }
    assembler.push(&end(FinishReason::ToolCalls));
    let generated = assembler.finish().unwrap();
    assert_eq!(generated.calls[0].arguments.len(), 1_050_000);
    assert_eq!(
        show(&generated.parts),
        [format!("text {}", "t".repeat(10_000))]
    );
}

#[test]
fn answers_without_anything_to_show_are_errors() {
    for (deltas, class, word) in [
        (vec![], ErrorClass::StreamInterrupted, "broke off"),
        (
            vec![text("half")],
            ErrorClass::StreamInterrupted,
            "broke off",
        ),
        (
            vec![call(0, "Read"), args(0, "{\"pa")],
            ErrorClass::StreamInterrupted,
            "broke off",
        ),
        (
            vec![end(FinishReason::Completed)],
            ErrorClass::EmptyResponse,
            "nothing",
        ),
        (
            vec![think("hm", None), text(" \n"), end(FinishReason::Completed)],
            ErrorClass::EmptyResponse,
            "only thinking",
        ),
        (
            vec![think("hm", None), end(FinishReason::Truncated)],
            ErrorClass::EmptyResponse,
            "truncated",
        ),
        (
            vec![think("hm", None), end(FinishReason::Filtered)],
            ErrorClass::Filtered,
            "filtered",
        ),
    ] {
        let error = assemble(&deltas).unwrap_err();
        assert_eq!(error.class, class, "{deltas:?}");
        assert!(error.message.contains(word), "{}", error.message);
        assert_eq!(error.retryable(), class != ErrorClass::Filtered);
    }
}

#[test]
fn the_shape_decides_the_finish_reason() {
    for (deltas, said, meant) in [
        (
            vec![text("x")],
            FinishReason::ToolCalls,
            FinishReason::Completed,
        ),
        (
            vec![call(0, "Read")],
            FinishReason::Completed,
            FinishReason::ToolCalls,
        ),
        (
            vec![call(0, "Read")],
            FinishReason::Truncated,
            FinishReason::Truncated,
        ),
        (
            vec![think("x", None), call(0, "Read")],
            FinishReason::Other,
            FinishReason::ToolCalls,
        ),
        (
            vec![text("x")],
            FinishReason::Filtered,
            FinishReason::Filtered,
        ),
    ] {
        let mut all = deltas;
        all.push(end(said));
        assert_eq!(assemble(&all).unwrap().finish, meant);
    }
}

#[test]
fn cut_calls_are_told_from_whole_ones() {
    for (arguments, whole) in [
        ("", true),
        ("{}", true),
        ("{\"a\":1}", true),
        ("{\"a\":", false),
        ("not json", false),
    ] {
        let generated = assemble(&[
            call(0, "Read"),
            args(0, arguments),
            end(FinishReason::Truncated),
        ])
        .unwrap();
        assert_eq!(generated.calls[0].is_complete(), whole, "{arguments}");
    }
}

#[test]
fn the_last_usage_counts_and_survives_a_failure() {
    let usage = Usage {
        output: 7,
        ..Usage::default()
    };
    let mut assembler = Assembler::new();
    assembler.push(&Delta::Usage(Usage::default()));
    assembler.push(&Delta::Usage(usage));
    assembler.push(&text("half"));
    assert_eq!(assembler.usage(), Some(&usage));
    assert_eq!(show(&assembler.into_partial()), ["text half"]);
}
