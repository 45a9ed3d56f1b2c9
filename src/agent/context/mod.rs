//! What the model has seen, and what is sent to it.
//!
//! History is append-only. Each message is rendered for the wire once, when it is added, so a step's cost does not grow
//! with the length of the conversation.

pub mod input;
pub mod prompt;
pub mod render;

use std::sync::Arc;

use crate::kernel::message::{Message, MessageOrigin, Part};

/// The history of one agent.
#[derive(Debug, Default)]
pub struct Context {
    rendered: Vec<Arc<Message>>,
    /// Tokens by the provider's last report, and an estimate of what was added since.
    reported: u64,
    added: u64,
}

impl Context {
    /// Adds a message. Results must follow their calls at once: add an answer and its results by
    /// [`Context::push_exchange`].
    pub fn push(&mut self, message: Message) {
        self.added += render::estimate(&message);
        let message = render::render(message);
        match (self.rendered.last_mut(), &message) {
            (
                Some(last),
                Message::User { parts: more, origin: MessageOrigin::User },
            ) if matches!(**last, Message::User { origin: MessageOrigin::User, .. }) => {
                // Providers want roles to alternate; what the user said in two goes is one message to them.
                if let Message::User { parts, .. } = Arc::make_mut(last) {
                    parts.push(Part::text("\n\n"));
                    parts.extend(more.iter().cloned());
                }
            }
            _ => self.rendered.push(Arc::new(message)),
        }
    }

    /// Adds an answer with all its results, in the provider's order.
    pub fn push_exchange(&mut self, answer: Message, results: Vec<Message>) {
        self.push(answer);
        for result in results {
            self.push(result);
        }
    }

    /// The messages for a request.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        self.rendered.clone()
    }

    /// True where nothing was said yet.
    pub fn is_empty(&self) -> bool {
        self.rendered.is_empty()
    }

    /// True where an image would be sent.
    pub fn has_images(&self) -> bool {
        self.rendered.iter().any(|message| render::has_images(message))
    }

    /// Takes in the provider's count of everything up to now.
    pub fn reported(&mut self, tokens: u64) {
        self.reported = tokens;
        self.added = 0;
    }

    /// Tokens the next request starts from: the provider's last count and an estimate of what came after it.
    pub fn tokens(&self) -> u64 {
        self.reported + self.added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_goes_of_the_user_are_one_message_and_reminders_stay_apart() {
        let mut context = Context::default();
        context.push(Message::user("one", MessageOrigin::User));
        context.push(Message::user("two", MessageOrigin::User));
        context.push(Message::user("note", MessageOrigin::Reminder));
        context.push(Message::user("three", MessageOrigin::User));
        let lengths: Vec<usize> = context
            .messages()
            .iter()
            .map(|message| match &**message {
                Message::User { parts, .. } => parts.len(),
                _ => 0,
            })
            .collect();
        assert_eq!(lengths, [3, 1, 1]);
    }

    #[test]
    fn tokens_are_the_report_and_what_came_after() {
        let mut context = Context::default();
        context.push(Message::user("12345678", MessageOrigin::User));
        let estimated = context.tokens();
        assert!(estimated >= 2);
        context.reported(100);
        assert_eq!(context.tokens(), 100);
        context.push(Message::user("12345678", MessageOrigin::User));
        assert_eq!(context.tokens(), 100 + estimated);
    }
}
