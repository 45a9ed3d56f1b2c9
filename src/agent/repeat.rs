//! The streak of identical calls: a model that asks for the same thing step after step is reminded, then stopped.

use serde_json::Value;

use crate::kernel::limits::{REPEAT_REMINDERS, REPEAT_STOP};

/// Counts, over the steps of one turn, how often the same call came with nothing else between.
#[derive(Debug, Default)]
pub struct Streak {
    last: Option<String>,
    count: u32,
}

/// What the streak asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    None,
    /// Words for the model.
    Remind(&'static str),
    /// The same, and the turn ends.
    Stop(&'static str),
}

const FIRST: &str = "This is the same call as in the steps before, and nothing new can come of it. \
    Say what you expected to be different, or do something else.";
const SECOND: &str = "The same call has now been made five or more times in a row. Choose one: prove the \
    result wrong by other means, ask the user, or conclude from what you have.";
const THIRD: &str = "The same call keeps being repeated. Make no more calls: write your final answer from what \
    you know.";

impl Streak {
    /// Takes in the keys of one step's calls. Repeats within one step do not count.
    pub fn observe(&mut self, keys: &[String]) -> Advice {
        let Some(first) = keys.first() else { return Advice::None };
        if keys.iter().any(|key| key != first) {
            *self = Self::default();
            return Advice::None;
        }
        if self.last.as_ref() == Some(first) {
            self.count += 1;
        } else {
            *self = Self { last: Some(first.clone()), count: 1 };
        }
        let [first, second, third] = REPEAT_REMINDERS;
        match self.count {
            n if n >= REPEAT_STOP => Advice::Stop(THIRD),
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
            let mut members: Vec<_> = members.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
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

    #[test]
    fn insists_at_three_five_and_eight_and_stops_at_twelve() {
        let mut streak = Streak::default();
        let same = [String::from("Read a")];
        let advice: Vec<_> = (1..=12).map(|_| streak.observe(&same)).collect();
        assert_eq!(advice[..2], [Advice::None; 2]);
        assert_eq!(advice[2..4], [Advice::Remind(FIRST); 2]);
        assert_eq!(advice[4..7], [Advice::Remind(SECOND); 3]);
        assert_eq!(advice[7..11], [Advice::Remind(THIRD); 4]);
        assert_eq!(advice[11], Advice::Stop(THIRD));
    }

    #[test]
    fn another_call_between_starts_anew_and_one_step_counts_once() {
        let mut streak = Streak::default();
        let (a, b) = (String::from("a"), String::from("b"));
        for _ in 0..20 {
            assert_eq!(streak.observe(std::slice::from_ref(&a)), Advice::None);
            assert_eq!(streak.observe(std::slice::from_ref(&b)), Advice::None);
        }
        assert_eq!(streak.observe(&[a.clone(), a.clone(), a.clone(), a.clone()]), Advice::None);
        assert_eq!(streak.observe(&[a.clone(), b]), Advice::None);
        assert_eq!(streak.observe(&[a]), Advice::None);
    }

    #[test]
    fn keys_ignore_the_order_of_members_and_keep_rubbish_apart() {
        let a = key("T", &Ok(json!({"x": 1, "y": {"p": 1, "q": 2}})), "");
        let b = key("T", &Ok(json!({"y": {"q": 2, "p": 1}, "x": 1})), "");
        assert_eq!(a, b);
        assert_ne!(key("T", &Err("bad".into()), "{1"), key("T", &Err("bad".into()), "{2"));
    }
}
