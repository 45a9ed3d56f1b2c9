//! Look up and validate: what can be said about a call from its name and its argument text alone.

use std::collections::HashMap;
use std::sync::Arc;

use longshore_protocol::value::turn::FinishReason;
use serde_json::Value;

use super::super::TurnCx;
use super::super::repeat;
use crate::kernel::message::ModelCall;
use crate::tool::{Outcome, Tool, args};

/// A call with readable arguments and a known tool, or the reason why it can't run.
pub(super) struct Prepared {
    /// The tool's name as the model wrote it.
    pub(super) name: Arc<str>,
    /// For telling repeats.
    pub(super) key: String,
    /// The arguments, `{}` where they could not be read.
    pub(super) input: Arc<Value>,
    /// The tool, or what the model is told instead.
    pub(super) tool: Result<Arc<dyn Tool>, Outcome>,
}

/// Prepares one call.
pub(super) fn prepare(cx: &TurnCx, call: &ModelCall, finish: FinishReason) -> Prepared {
    let arguments = args::parse(&call.arguments).map_err(|refusal| refusal.message);
    let key = repeat::key(&call.name, &arguments, &call.arguments);
    let (input, tool) = match arguments {
        Ok(input) => check(cx, call, input, finish),
        Err(reason) if runs(finish) => {
            let message = format!("The arguments of {} are not valid: {reason}. Nothing was run.", call.name);
            (Value::Object(serde_json::Map::new()), Err(Outcome::failed(message)))
        }
        Err(_) => (Value::Object(serde_json::Map::new()), Err(Outcome::failed(CUT))),
    };
    Prepared { name: call.name.clone(), key, input: Arc::new(input), tool }
}

/// Validates other arguments for a call that was prepared already.
pub(super) fn prepare_edited(cx: &TurnCx, name: &Arc<str>, input: Value) -> Prepared {
    let key = repeat::key(name, &Ok(input.clone()), "");
    let (input, tool) = look_up(cx, name, input);
    Prepared { name: name.clone(), key, input: Arc::new(input), tool }
}

const CUT: &str = "This call was not run, because the answer was cut off before it was whole. Make it again, \
    with shorter arguments where the answer's length was the reason.";

/// Calls of a cut answer are never run, even where they look whole.
fn runs(finish: FinishReason) -> bool {
    matches!(finish, FinishReason::ToolCalls | FinishReason::Completed | FinishReason::Other)
}

fn check(
    cx: &TurnCx,
    call: &ModelCall,
    input: Value,
    finish: FinishReason,
) -> (Value, Result<Arc<dyn Tool>, Outcome>) {
    if runs(finish) { look_up(cx, &call.name, input) } else { (input, Err(Outcome::failed(CUT))) }
}

fn look_up(cx: &TurnCx, name: &str, mut input: Value) -> (Value, Result<Arc<dyn Tool>, Outcome>) {
    let checked = cx.tools.get(name).and_then(|entry| {
        entry.check(&mut input)?;
        Ok(entry.tool().clone())
    });
    (input, checked.map_err(|refusal| Outcome::failed(refusal.message)))
}

/// For each call, the earlier one whose result it shares: the same arguments to a tool that only looks.
pub(super) fn twins(cx: &TurnCx, calls: &[Prepared]) -> Vec<Option<usize>> {
    let mut first: HashMap<&str, usize> = HashMap::new();
    calls
        .iter()
        .enumerate()
        .map(|(n, call)| {
            let dedupes = cx.tools.get(&call.name).is_ok_and(|entry| entry.tool().spec().dedupe);
            if !dedupes {
                return None;
            }
            match first.get(call.key.as_str()) {
                Some(&twin) => Some(twin),
                None => {
                    first.insert(&call.key, n);
                    None
                }
            }
        })
        .collect()
}
