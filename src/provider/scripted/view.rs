//! What a script can see of a request.

use crate::kernel::message::{Message, MessageOrigin, Part};
use crate::provider::ModelRequest;

use super::format::Role;
use super::program::Pattern;
use super::template::Slot;

/// A request, and the number of the turn that answers it.
pub(super) struct View<'a> {
    /// The request.
    pub(super) request: &'a ModelRequest,
    /// From 1.
    pub(super) turn: usize,
}

impl View<'_> {
    /// What a placeholder stands for.
    ///
    /// # Errors
    /// The call has no result in this conversation.
    pub(super) fn value(&self, slot: &Slot) -> Result<String, String> {
        Ok(match slot {
            Slot::LastUser => self.last_user(),
            Slot::LastToolResult => self.last_result().unwrap_or_default(),
            Slot::ToolResult(id) => self
                .result(id)
                .ok_or_else(|| format!("wanted a result of call {id}, got none"))?,
            Slot::Turn => self.turn.to_string(),
            Slot::Attempt => self.request.attempt.to_string(),
            Slot::SessionId => self.request.session.to_string(),
            Slot::Cwd => self.request.cwd.to_string(),
        })
    }

    /// Text of the last message that a person wrote.
    pub(super) fn last_user(&self) -> String {
        let last = self
            .request
            .messages
            .iter()
            .rev()
            .find_map(|message| match &**message {
                Message::User {
                    parts,
                    origin: MessageOrigin::User,
                } => Some(text(parts)),
                _ => None,
            });
        last.unwrap_or_default()
    }

    /// Why the request does not fit: what was wanted and what came. `None` where it fits.
    pub(super) fn mismatch(&self, pattern: &Pattern) -> Option<String> {
        if let Some(wanted) = &pattern.last_user {
            let got = self.last_user();
            if !wanted.is_match(&got) {
                return Some(format!(
                    "wanted last_user to match `{wanted}`, got {:?}",
                    cut(&got)
                ));
            }
        }
        if let Some(wanted) = pattern.last_role {
            let got = self.last_role();
            if got != Some(wanted) {
                return Some(format!("wanted last_role {wanted:?}, got {got:?}"));
            }
        }
        if let Some(wanted) = pattern.tool_failed
            && self.tool_failed() != wanted
        {
            return Some(format!("wanted tool_failed {wanted}, got {}", !wanted));
        }
        for wanted in &pattern.tools_include {
            if !self.request.tools.iter().any(|tool| *tool.name == **wanted) {
                let names: Vec<&str> = self.request.tools.iter().map(|tool| &*tool.name).collect();
                return Some(format!("wanted tool {wanted}, got {}", names.join(", ")));
            }
        }
        if let Some((id, contains)) = &pattern.tool_result {
            match self.result(id) {
                None => return Some(format!("wanted a result of call {id}, got none")),
                Some(got) if !got.contains(&**contains) => {
                    return Some(format!(
                        "wanted the result of call {id} to contain {contains:?}, got {:?}",
                        cut(&got)
                    ));
                }
                Some(_) => {}
            }
        }
        None
    }

    fn last_role(&self) -> Option<Role> {
        self.request
            .messages
            .iter()
            .rev()
            .find_map(|message| match &**message {
                Message::User {
                    origin: MessageOrigin::User | MessageOrigin::Notice | MessageOrigin::Shell,
                    ..
                } => Some(Role::User),
                Message::User {
                    origin: MessageOrigin::Reminder,
                    ..
                } => None,
                Message::Assistant { .. } => Some(Role::Assistant),
                Message::ToolResult { .. } => Some(Role::Tool),
            })
    }

    fn tool_failed(&self) -> bool {
        self.request
            .messages
            .iter()
            .rev()
            .take_while(|message| !matches!(&***message, Message::Assistant { .. }))
            .any(|message| matches!(&**message, Message::ToolResult { is_error: true, .. }))
    }

    fn last_result(&self) -> Option<String> {
        self.request
            .messages
            .iter()
            .rev()
            .find_map(|message| match &**message {
                Message::ToolResult { parts, .. } => Some(text(parts)),
                _ => None,
            })
    }

    fn result(&self, id: &str) -> Option<String> {
        let messages = &self.request.messages;
        let call = messages.iter().rev().find_map(|message| match &**message {
            Message::Assistant { calls, .. } => calls
                .iter()
                .rev()
                .find(|call| call.provider_id.as_deref() == Some(id) || call.id.as_str() == id)
                .map(|call| &call.id),
            _ => None,
        })?;
        messages.iter().rev().find_map(|message| match &**message {
            Message::ToolResult {
                call: of, parts, ..
            } if of == call => Some(text(parts)),
            _ => None,
        })
    }
}

fn text(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        })
        .collect()
}

fn cut(text: &str) -> &str {
    const SHOWN: usize = 120;
    text.char_indices()
        .nth(SHOWN)
        .map_or(text, |(at, _)| &text[..at])
}
