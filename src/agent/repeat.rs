//! The streak of identical calls: a model that asks for the same thing step after step is reminded, then stopped.

use serde_json::Value;

use crate::kernel::limits::{INVALID_STOP, REPEAT_REMINDERS, REPEAT_STOP};

/// Counts, over the steps of one turn, how often the same call came with nothing else between, and how many steps in a
/// row asked for nothing that could be run.
#[derive(Debug, Default)]
pub struct Streak {
    last: Option<String>,
    count: u32,
    n_invalid: u32,
}

/// A call as the streak sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// See [`key`].
    pub key: String,
    /// What its arguments were.
    pub form: Form,
}

/// What the arguments of a call were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// They fit the tool.
    Good,
    /// There is no such tool, or they do not fit it.
    Invalid,
    /// They could not be read, which says nothing about what was meant.
    Unreadable,
}

/// What the streak asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    None,
    /// Words for the model.
    Remind(&'static str),
    /// Words for the model, and the turn ends.
    Stop(&'static str, Why),
}

/// Why a turn is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The same call [`REPEAT_STOP`] times in a row.
    Repeated,
    /// [`INVALID_STOP`] steps in a row without a call that could be run.
    Invalid,
}

const FIRST: &str = "This is the same call as in the steps before, and nothing new can come of it. \
    Say what you expected to be different, or do something else.";
const SECOND: &str = "The same call has now been made five or more times in a row. Choose one: prove the \
    result wrong by other means, ask the user, or conclude from what you have.";
const THIRD: &str = "The same call keeps being repeated. Make no more calls: write your final answer from what \
    you know.";

const INVALID: &str = "None of the last calls could be run: their tool or their arguments were wrong each time. Make no \
    more calls: write your final answer from what you know.";

impl Streak {
    /// Takes in one step's calls. Repeats within one step do not count.
    pub fn observe(&mut self, calls: &[Seen]) -> Advice {
        let Some(first) = calls.first() else {
            return Advice::None;
        };
        if calls.iter().all(|call| call.form == Form::Invalid) {
            self.n_invalid += 1;
        } else if calls.iter().any(|call| call.form == Form::Good) {
            self.n_invalid = 0;
        }
        if calls.iter().any(|call| call.key != first.key) {
            (self.last, self.count) = (None, 0);
        } else if self.last.as_ref() == Some(&first.key) {
            self.count += 1;
        } else {
            (self.last, self.count) = (Some(first.key.clone()), 1);
        }
        let [first, second, third] = REPEAT_REMINDERS;
        match self.count {
            n if n >= REPEAT_STOP => Advice::Stop(THIRD, Why::Repeated),
            _ if self.n_invalid >= INVALID_STOP => Advice::Stop(INVALID, Why::Invalid),
            n if n >= third => Advice::Remind(THIRD),
            n if n >= second => Advice::Remind(SECOND),
            n if n >= first => Advice::Remind(FIRST),
            _ => Advice::None,
        }
    }
}

/// The key of a call: its tool and its arguments, whatever the order of their members. Arguments that could not be read
/// count by their text, so different rubbish is not a repeat.
pub fn key(tool: &str, arguments: &Result<Value, String>, raw: &str) -> String {
    match arguments {
        Ok(value) => format!("{tool} {}", sorted(value)),
        Err(_) => format!("{tool} !{raw}"),
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members
                .iter()
                .map(|(name, value)| (name.clone(), sorted(value)))
                .collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn good(key: &str) -> Seen {
        Seen {
            key: key.to_owned(),
            form: Form::Good,
        }
    }

    #[test]
    fn insists_at_three_five_and_eight_and_stops_at_twelve() {
        let mut streak = Streak::default();
        let advice: Vec<_> = (1..=12)
            .map(|_| streak.observe(&[good("Read a")]))
            .collect();
        assert_eq!(advice[..2], [Advice::None; 2]);
        assert_eq!(advice[2..4], [Advice::Remind(FIRST); 2]);
        assert_eq!(advice[4..7], [Advice::Remind(SECOND); 3]);
        assert_eq!(advice[7..11], [Advice::Remind(THIRD); 4]);
        assert_eq!(advice[11], Advice::Stop(THIRD, Why::Repeated));
    }

    #[test]
    fn another_call_between_starts_anew_and_one_step_counts_once() {
        let mut streak = Streak::default();
        for _ in 0..20 {
            assert_eq!(streak.observe(&[good("a")]), Advice::None);
            assert_eq!(streak.observe(&[good("b")]), Advice::None);
        }
        assert_eq!(
            streak.observe(&[good("a"), good("a"), good("a"), good("a")]),
            Advice::None
        );
        assert_eq!(streak.observe(&[good("a"), good("b")]), Advice::None);
        assert_eq!(streak.observe(&[good("a")]), Advice::None);
    }

    #[test]
    fn only_steps_without_any_call_that_could_run_stop_a_turn() {
        let last = |forms: &[(Form, usize)]| {
            let mut streak = Streak::default();
            let mut n = 0;
            let mut advice = Advice::None;
            for (form, times) in forms {
                for _ in 0..*times {
                    n += 1;
                    advice = streak.observe(&[Seen {
                        key: format!("call {n}"),
                        form: *form,
                    }]);
                }
            }
            advice
        };
        let stopped = Advice::Stop(INVALID, Why::Invalid);
        assert_eq!(last(&[(Form::Invalid, 11)]), Advice::None);
        assert_eq!(last(&[(Form::Invalid, 12)]), stopped);
        assert_eq!(
            last(&[(Form::Invalid, 11), (Form::Good, 1), (Form::Invalid, 11)]),
            Advice::None
        );
        assert_eq!(last(&[(Form::Unreadable, 40)]), Advice::None);
        assert_eq!(
            last(&[
                (Form::Invalid, 11),
                (Form::Unreadable, 3),
                (Form::Invalid, 1)
            ]),
            stopped
        );
    }

    #[test]
    fn keys_ignore_the_order_of_members_and_keep_rubbish_apart() {
        let a = key("T", &Ok(json!({"x": 1, "y": {"p": 1, "q": 2}})), "");
        let b = key("T", &Ok(json!({"y": {"q": 2, "p": 1}, "x": 1})), "");
        assert_eq!(a, b);
        assert_ne!(
            key("T", &Err("bad".into()), "{1"),
            key("T", &Err("bad".into()), "{2")
        );
    }
}
