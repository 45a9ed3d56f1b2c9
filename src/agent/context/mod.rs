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

/// A place in a history that it can be taken back to.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    n_messages: usize,
    /// The last message as it was: what the user says next may be joined to it.
    last: Option<Arc<Message>>,
    reported: u64,
    added: u64,
}

impl Context {
    /// Where the history is now.
    pub fn mark(&self) -> Mark {
        Mark {
            n_messages: self.rendered.len(),
            last: self.rendered.last().cloned(),
            reported: self.reported,
            added: self.added,
        }
    }

    /// Takes the history back to where it was. The mark is one of its own, and it was not taken further back since.
    pub fn rewind(&mut self, mark: Mark) {
        let Mark {
            n_messages,
            last,
            reported,
            added,
        } = mark;
        self.rendered.truncate(n_messages);
        if let (Some(now), Some(then)) = (self.rendered.last_mut(), last) {
            *now = then;
        }
        (self.reported, self.added) = (reported, added);
    }

    /// Adds a message. Results must follow their calls at once: add an answer and its results by
    /// [`Context::push_exchange`].
    pub fn push(&mut self, message: Message) {
        self.added += render::estimate(&message);
        let message = render::render(message);
        if let Message::User {
            parts: more,
            origin: MessageOrigin::User,
        } = &message
            && let Some(last) = self.rendered.last_mut()
            && matches!(
                **last,
                Message::User {
                    origin: MessageOrigin::User,
                    ..
                }
            )
        {
            // Providers want roles to alternate; what the user said in two goes is one message to them.
            if let Message::User { parts, .. } = Arc::make_mut(last) {
                join(parts, more);
            }
            return;
        }
        self.rendered.push(Arc::new(message));
    }

    /// Adds an answer with all its results, in the provider's order. `tokens` is what the context holds once the answer
    /// stands in it, by the provider's count where it gave one.
    pub fn push_exchange(&mut self, answer: Message, tokens: u64, results: Vec<Message>) {
        self.push(answer);
        (self.reported, self.added) = (tokens, 0);
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

    /// Tokens the next request starts from: the provider's last count and an estimate of what came after it.
    pub fn tokens(&self) -> u64 {
        self.reported + self.added
    }
}

/// Joins what was said later to what was said before, by a blank line between texts: a blank part is refused by some
/// providers.
fn join(parts: &mut Vec<Part>, more: &[Part]) {
    let mut more = more.iter();
    if let Some(Part::Text(before)) = parts.last_mut()
        && let Some(Part::Text(after)) = more.as_slice().first()
    {
        *before = format!("{before}\n\n{after}").into();
        more.next();
    }
    parts.extend(more.cloned());
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
        assert_eq!(lengths, [1, 1, 1]);
        assert_eq!(
            *context.messages()[0],
            Message::user("one\n\ntwo", MessageOrigin::User)
        );
    }

    #[test]
    fn joined_goes_have_no_blank_part() {
        let image = Part::Image {
            mime: "image/png".into(),
            data: "x".into(),
        };
        let cases: [(Vec<Part>, Vec<Part>, Vec<Part>); 3] = [
            (
                vec![Part::text("a"), image.clone()],
                vec![Part::text("b")],
                vec![Part::text("a"), image.clone(), Part::text("b")],
            ),
            (
                vec![Part::text("a")],
                vec![image.clone()],
                vec![Part::text("a"), image.clone()],
            ),
            (
                vec![Part::text("a")],
                vec![Part::text("b"), image.clone()],
                vec![Part::text("a\n\nb"), image],
            ),
        ];
        for (mut parts, more, joined) in cases {
            join(&mut parts, &more);
            assert_eq!(parts, joined);
        }
    }

    #[test]
    fn a_history_goes_back_to_where_it_was() {
        let mut context = Context::default();
        context.push(Message::user("one", MessageOrigin::User));
        let (mark, before, tokens) = (context.mark(), context.messages(), context.tokens());
        // Joins the message before the mark.
        context.push(Message::user("two", MessageOrigin::User));
        let answer = Message::Assistant {
            parts: vec![Part::text("x")],
            calls: vec![],
            partial: false,
        };
        context.push_exchange(answer, 100, vec![]);
        context.rewind(mark);
        assert_eq!((context.messages(), context.tokens()), (before, tokens));
        context.rewind(Mark::default());
        assert!(context.is_empty() && context.tokens() == 0);
    }

    #[test]
    fn tokens_are_the_report_and_what_came_after() {
        let mut context = Context::default();
        context.push(Message::user("12345678", MessageOrigin::User));
        let estimated = context.tokens();
        assert!(estimated >= 2);
        let answer = Message::Assistant {
            parts: vec![Part::text("x")],
            calls: vec![],
            partial: false,
        };
        context.push_exchange(answer, 100, vec![]);
        assert_eq!(context.tokens(), 100, "the report counts the answer in");
        context.push(Message::user("12345678", MessageOrigin::User));
        assert_eq!(context.tokens(), 100 + estimated);
    }
}
