//! Ids of calls as a provider takes them: letters, digits, `_` and `-`, at most 64, each once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use longshore_protocol::id::ToolCallId;

use crate::kernel::message::{Message, ModelCall};

const MAX_CHARS: usize = 64;

/// Our ids and the provider's, for one request.
pub(super) struct WireIds(HashMap<ToolCallId, String>);

impl WireIds {
    /// Gives each call of a conversation its id. Those that can stay as they came keep theirs.
    pub(super) fn of(messages: &[Arc<Message>]) -> Self {
        let calls = || {
            messages.iter().flat_map(|message| match &**message {
                Message::Assistant { calls, .. } => calls.as_slice(),
                _ => &[],
            })
        };
        let mut taken = HashSet::new();
        let mut ids = HashMap::new();
        for keep in [true, false] {
            for call in calls() {
                let wanted = wanted(call);
                let clean = sanitized(wanted);
                if (clean == wanted) != keep || ids.contains_key(&call.id) {
                    continue;
                }
                let mut id = clean.clone();
                let mut n = 1;
                while taken.contains(&id) {
                    n += 1;
                    let suffix = format!("_{n}");
                    id = clean[..clean.len().min(MAX_CHARS - suffix.len())].to_owned() + &suffix;
                }
                taken.insert(id.clone());
                ids.insert(call.id.clone(), id);
            }
        }
        Self(ids)
    }

    /// The provider's id of a call.
    pub(super) fn get(&self, id: &ToolCallId) -> String {
        self.0
            .get(id)
            .cloned()
            .unwrap_or_else(|| sanitized(id.as_str()))
    }
}

fn wanted(call: &ModelCall) -> &str {
    call.provider_id
        .as_deref()
        .filter(|id| !id.is_empty())
        .unwrap_or(call.id.as_str())
}

fn sanitized(id: &str) -> String {
    let clean: String = id
        .chars()
        .take(MAX_CHARS)
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    if clean.is_empty() {
        "call".to_owned()
    } else {
        clean
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Map;

    use super::WireIds;
    use crate::kernel::message::{Message, ModelCall};

    #[test]
    fn ids_are_valid_and_unique() {
        let long = "x".repeat(70);
        for (wanted, got) in [
            (vec!["a", "b"], vec!["a", "b"]),
            (vec!["call:a/b", "call_a_b"], vec!["call_a_b_2", "call_a_b"]),
            (vec!["a", "a", "a"], vec!["a", "a_2", "a_3"]),
            (vec!["", "x"], vec!["call_1", "x"]),
            (
                vec![&*long, &*long],
                vec![&long[..64], &*format!("{}_2", &long[..62])],
            ),
            (vec!["ä"], vec!["_"]),
        ] {
            let calls: Vec<ModelCall> = wanted
                .iter()
                .enumerate()
                .map(|(n, id)| ModelCall {
                    id: format!("call_{}", n + 1).into(),
                    provider_id: Some((*id).into()),
                    name: "Read".into(),
                    arguments: "".into(),
                    extras: Map::new(),
                })
                .collect();
            let ours: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
            let ids = WireIds::of(&[Arc::new(Message::Assistant {
                parts: vec![],
                calls,
                partial: false,
            })]);
            assert_eq!(
                ours.iter().map(|id| ids.get(id)).collect::<Vec<_>>(),
                got,
                "{wanted:?}"
            );
        }
    }
}
