//! Look up and validate: what can be said about a call from its name and its argument text alone.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use longshore_protocol::value::turn::FinishReason;
use serde_json::Value;

use super::super::TurnCx;
use super::super::repeat::{self, Form, Seen};
use crate::kernel::message::ModelCall;
use crate::tool::{Outcome, Tool, args};

/// A call with readable arguments and a known tool, or the reason why it can't run.
pub(super) struct Prepared {
    /// The tool's name as the model wrote it.
    pub(super) name: Arc<str>,
    /// For telling repeats.
    pub(super) seen: Seen,
    /// The arguments, `{}` where they could not be read.
    pub(super) input: Arc<Value>,
    /// The tool, or what the model is told instead.
    pub(super) tool: Result<Arc<dyn Tool>, Outcome>,
}

/// Prepares one call.
pub(super) fn prepare(cx: &TurnCx, call: &ModelCall, finish: FinishReason) -> Prepared {
    let arguments = args::parse(&call.arguments).map_err(|refusal| refusal.message);
    let key = repeat::key(&call.name, &arguments, &call.arguments);
    let unread = |outcome| {
        (
            Value::Object(serde_json::Map::new()),
            Form::Unreadable,
            Err(outcome),
        )
    };
    let (input, form, tool) = match arguments {
        Ok(input) if runs(finish) => look_up(cx, &call.name, input),
        Ok(input) => (input, Form::Unreadable, Err(Outcome::failed(CUT))),
        Err(reason) if runs(finish) => unread(Outcome::failed(format!("{}: {reason}", call.name))),
        Err(_) => unread(Outcome::failed(CUT)),
    };
    Prepared {
        name: call.name.clone(),
        seen: Seen { key, form },
        input: Arc::new(input),
        tool,
    }
}

/// Validates other arguments for a call that was prepared already.
pub(super) fn prepare_edited(cx: &TurnCx, name: &Arc<str>, input: Value) -> Prepared {
    let key = repeat::key(name, &Ok(input.clone()), "");
    let (input, form, tool) = look_up(cx, name, input);
    Prepared {
        name: name.clone(),
        seen: Seen { key, form },
        input: Arc::new(input),
        tool,
    }
}

const CUT: &str = "This call was not run, because the answer was cut off before it was whole. Make it again, \
    with shorter arguments where the answer's length was the reason.";

/// Calls of a cut answer are never run, even where they look whole.
fn runs(finish: FinishReason) -> bool {
    matches!(
        finish,
        FinishReason::ToolCalls | FinishReason::Completed | FinishReason::Other
    )
}

fn look_up(
    cx: &TurnCx,
    name: &str,
    mut input: Value,
) -> (Value, Form, Result<Arc<dyn Tool>, Outcome>) {
    let checked = cx.tools.get(name).and_then(|entry| {
        entry.check(&mut input)?;
        Ok(entry.tool().clone())
    });
    match checked {
        Ok(tool) => (input, Form::Good, Ok(tool)),
        Err(refusal) => (input, Form::Invalid, Err(Outcome::failed(refusal.message))),
    }
}

/// For each call, the earlier one whose result it shares: the same arguments to a tool that only looks, with no call
/// between them that may change what it sees.
pub(super) fn twins(calls: &[Prepared]) -> Vec<Option<usize>> {
    let mut first: HashMap<&str, usize> = HashMap::new();
    let mut twins = Vec::with_capacity(calls.len());
    for (n, call) in calls.iter().enumerate() {
        let twin = match &call.tool {
            Ok(tool) if tool.spec().dedupe => match first.entry(&call.seen.key) {
                Entry::Occupied(earlier) => Some(*earlier.get()),
                Entry::Vacant(none) => {
                    none.insert(n);
                    None
                }
            },
            Ok(_) => {
                first.clear();
                None
            }
            // It is not run, so it changes nothing.
            Err(_) => None,
        };
        twins.push(twin);
    }
    twins
}
