//! Images that a provider would not take: they are left out of requests.
//!
//! The history keeps them. Those of a request that was too large are left out for the rest of the turn; those that a
//! provider could not use, for as long as the agent lives, so that they spoil no later request.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::kernel::message::{Message, Part};
use crate::provider::error::ErrorClass;

/// Images kept where a request was too large: the newest ones are what the work is about.
const KEPT: usize = 2;

/// What stands in the place of an image.
const MARKER: &str = "[An image stood here; the model's provider would not take it.]";

/// The images left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Too much for a request of this turn. An image is known by the place of its bytes, which a history does not move
    /// while a turn runs: the same image sent anew is another one.
    too_much: HashSet<usize>,
    /// Of no use to the provider, by a hash of their bytes: sent anew, they are of no more use.
    rejected: HashSet<u64>,
}

impl LeftOut {
    /// What was too much for the last turn may fit into this one.
    pub(super) fn begin_turn(&mut self) {
        self.too_much.clear();
    }

    /// After a request failed: leaves out more, where that may help. False where nothing more can be left out.
    pub(super) fn more(&mut self, class: ErrorClass, messages: &[Arc<Message>]) -> bool {
        let images = messages.iter().flat_map(|message| parts(message));
        let sent: Vec<&str> = images
            .filter_map(data)
            .filter(|data| !self.has(data))
            .collect();
        match class {
            ErrorClass::RequestTooLarge => {
                let n = if sent.len() > KEPT {
                    sent.len() - KEPT
                } else {
                    sent.len()
                };
                self.too_much
                    .extend(sent[..n].iter().map(|data| place(data)));
            }
            ErrorClass::ImageRejected => {
                self.rejected.extend(sent.iter().map(|data| hash(data)));
            }
            _ => return false,
        }
        !sent.is_empty()
    }

    /// Puts words in the place of the images left out.
    pub(super) fn apply(&self, messages: &mut [Arc<Message>]) {
        if self.too_much.is_empty() && self.rejected.is_empty() {
            return;
        }
        let is_left_out = |part: &Part| data(part).is_some_and(|data| self.has(data));
        for message in messages {
            if parts(message).iter().any(is_left_out) {
                for part in parts_mut(Arc::make_mut(message)) {
                    if is_left_out(part) {
                        *part = Part::text(MARKER);
                    }
                }
            }
        }
    }

    fn has(&self, data: &str) -> bool {
        self.too_much.contains(&place(data))
            || (!self.rejected.is_empty() && self.rejected.contains(&hash(data)))
    }
}

fn data(part: &Part) -> Option<&str> {
    match part {
        Part::Image { data, .. } => Some(data),
        Part::Text(_) | Part::Thinking(_) => None,
    }
}

fn place(data: &str) -> usize {
    data.as_ptr() as usize
}

fn hash(data: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    hasher.finish()
}

fn parts(message: &Message) -> &[Part] {
    let (Message::User { parts, .. }
    | Message::Assistant { parts, .. }
    | Message::ToolResult { parts, .. }) = message;
    parts
}

fn parts_mut(message: &mut Message) -> &mut [Part] {
    let (Message::User { parts, .. }
    | Message::Assistant { parts, .. }
    | Message::ToolResult { parts, .. }) = message;
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::message::MessageOrigin;

    fn image(name: &str) -> Part {
        Part::Image {
            mime: "image/png".into(),
            data: name.into(),
        }
    }

    fn shown(left_out: &LeftOut, history: &[Arc<Message>]) -> String {
        let mut messages = history.to_vec();
        left_out.apply(&mut messages);
        let parts = messages.iter().flat_map(|message| parts(message).to_vec());
        parts
            .map(|part| match part {
                Part::Image { data, .. } => data.to_string(),
                Part::Text(text) if *text == *MARKER => "-".into(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn too_large_keeps_the_newest_then_none_and_new_images_pass() {
        let parts = ["a", "b", "c", "d", "e"].map(image).to_vec();
        let mut history = vec![Arc::new(Message::User {
            parts,
            origin: MessageOrigin::User,
        })];
        let mut left_out = LeftOut::default();
        assert!(
            !left_out.more(ErrorClass::Overloaded, &history),
            "images are not to blame"
        );
        assert_eq!(shown(&left_out, &history), "abcde");
        assert!(left_out.more(ErrorClass::RequestTooLarge, &history));
        assert_eq!(shown(&left_out, &history), "---de");
        assert!(left_out.more(ErrorClass::RequestTooLarge, &history));
        assert_eq!(shown(&left_out, &history), "-----");
        assert!(!left_out.more(ErrorClass::RequestTooLarge, &history));
        // The same bytes anew are another image.
        history.push(Arc::new(Message::User {
            parts: vec![image("a")],
            origin: MessageOrigin::User,
        }));
        assert_eq!(shown(&left_out, &history), "-----a");
        assert!(
            matches!(&parts_of(&history[0])[0], Part::Image { .. }),
            "the history keeps them"
        );
        left_out.begin_turn();
        assert_eq!(shown(&left_out, &history), "abcdea");
    }

    #[test]
    fn what_was_rejected_stays_out_and_new_images_pass() {
        let message = |parts: Vec<Part>| {
            Arc::new(Message::User {
                parts,
                origin: MessageOrigin::User,
            })
        };
        let mut history = vec![message(vec![image("a"), image("b")])];
        let mut left_out = LeftOut::default();
        assert!(left_out.more(ErrorClass::ImageRejected, &history));
        assert_eq!(shown(&left_out, &history), "--");
        assert!(!left_out.more(ErrorClass::ImageRejected, &history));
        left_out.begin_turn();
        history.push(message(vec![image("c"), image("b")]));
        assert_eq!(shown(&left_out, &history), "--c-");
    }

    fn parts_of(message: &Message) -> &[Part] {
        parts(message)
    }
}
