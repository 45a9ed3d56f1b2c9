//! Images that a provider would not take: they are left out of requests for the rest of the turn.
//!
//! The history keeps them. What is left out is known by the image itself, so one that is made later is sent again.

use std::collections::HashSet;
use std::sync::Arc;

use crate::kernel::message::{Message, Part};
use crate::provider::error::ErrorClass;

/// Images kept where a request was too large: the newest ones are what the work is about.
const KEPT: usize = 2;

/// What stands in the place of an image.
const MARKER: &str = "[An image stood here; the model's provider would not take it.]";

/// The images left out in one turn. An image is known by the place of its bytes, which a history never moves.
#[derive(Debug, Default)]
pub(super) struct LeftOut(HashSet<usize>);

impl LeftOut {
    /// After a request failed: leaves out more, where that may help. False where nothing more can be left out.
    pub(super) fn more(&mut self, class: ErrorClass, messages: &[Arc<Message>]) -> bool {
        let sent: Vec<usize> = images(messages)
            .filter(|image| !self.0.contains(image))
            .collect();
        let n = match class {
            ErrorClass::RequestTooLarge if sent.len() > KEPT => sent.len() - KEPT,
            ErrorClass::RequestTooLarge | ErrorClass::ImageRejected => sent.len(),
            _ => 0,
        };
        self.0.extend(&sent[..n]);
        n > 0
    }

    /// Puts words in the place of the images left out.
    pub(super) fn apply(&self, messages: &mut [Arc<Message>]) {
        if self.0.is_empty() {
            return;
        }
        for message in messages {
            if parts(message)
                .iter()
                .any(|part| place(part).is_some_and(|image| self.0.contains(&image)))
            {
                for part in parts_mut(Arc::make_mut(message)) {
                    if place(part).is_some_and(|image| self.0.contains(&image)) {
                        *part = Part::text(MARKER);
                    }
                }
            }
        }
    }
}

fn images(messages: &[Arc<Message>]) -> impl Iterator<Item = usize> {
    messages
        .iter()
        .flat_map(|message| parts(message))
        .filter_map(place)
}

fn place(part: &Part) -> Option<usize> {
    match part {
        Part::Image { data, .. } => Some(data.as_ptr() as usize),
        Part::Text(_) | Part::Thinking(_) => None,
    }
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
        assert!(left_out.more(ErrorClass::ImageRejected, &history));
        assert_eq!(shown(&left_out, &history), "------");
        assert!(
            matches!(&parts_of(&history[0])[0], Part::Image { .. }),
            "the history keeps them"
        );
    }

    fn parts_of(message: &Message) -> &[Part] {
        parts(message)
    }
}
