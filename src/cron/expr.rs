//! Cron expressions: five fields, read once into sets of bits.
//!
//! `*`, numbers, ranges, lists and steps, as in Vixie cron; names of months and weekdays; the `@` words, stored as the
//! five fields they stand for. Where both day fields are restricted, a day that fits either matches; only a bare `*` is
//! no restriction.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::field::Field;

/// An expression that was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Expression {
    text: Arc<str>,
    pub(super) minutes: u64,
    pub(super) hours: u32,
    pub(super) days: u32,
    pub(super) months: u16,
    pub(super) weekdays: u8,
    pub(super) any_day: bool,
    pub(super) any_weekday: bool,
    fixed_time: bool,
}

/// Why an expression can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExpressionError {
    /// The field at fault, where one is.
    pub field: Option<Field>,
    /// For the model and for people; names the field.
    pub message: String,
}

/// Words that stand for five fields.
const WORDS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

impl Expression {
    /// The expression in its one form: single spaces, `@` words written out.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True where neither minute nor hour holds a `*`. Such a job keeps its appointment when clocks change: once a day
    /// that it is due, also when its time is skipped or comes twice. Any other job runs by elapsed time.
    pub fn is_fixed_time(&self) -> bool {
        self.fixed_time
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let words: Vec<&str> = match words.as_slice() {
            [word] if word.starts_with('@') => expand(word)?.split(' ').collect(),
            _ => words,
        };
        let fields: [&str; 5] = words
            .as_slice()
            .try_into()
            .map_err(|_| wrong_count(&words))?;
        let mut sets = [0; 5];
        for ((set, field), text) in sets.iter_mut().zip(Field::ALL).zip(fields) {
            *set = field.parse(text).map_err(|reason| ExpressionError {
                field: Some(field),
                message: format!("the {field} field {reason}"),
            })?;
        }
        let [minutes, hours, days, months, weekdays] = sets;
        Ok(Self {
            text: fields.join(" ").into(),
            minutes,
            hours: hours as u32,
            days: days as u32,
            months: months as u16,
            weekdays: weekdays as u8,
            any_day: fields[2] == "*",
            any_weekday: fields[4] == "*",
            fixed_time: !fields[0].contains('*') && !fields[1].contains('*'),
        })
    }
}

fn expand(word: &str) -> Result<&'static str, ExpressionError> {
    let found = WORDS
        .iter()
        .find(|(known, _)| word.eq_ignore_ascii_case(known));
    found.map(|(_, fields)| *fields).ok_or_else(|| {
        let hint = if word.eq_ignore_ascii_case("@reboot") {
            "`@reboot` is not supported: jobs follow the clock, not restarts".to_owned()
        } else {
            let known: Vec<&str> = WORDS.iter().map(|(known, _)| *known).collect();
            format!(
                "unknown word; write five fields (minute hour day-of-month month day-of-week) or one of {}",
                known.join(", ")
            )
        };
        ExpressionError {
            field: None,
            message: hint,
        }
    })
}

fn wrong_count(words: &[&str]) -> ExpressionError {
    let wanted = "an expression has 5 fields: minute hour day-of-month month day-of-week";
    let message = match words.len() {
        0 => format!("the expression is empty; {wanted}"),
        6 | 7 => format!(
            "{} fields; {wanted}; there is no seconds field and no year field",
            words.len()
        ),
        n => format!("{n} fields; {wanted}"),
    };
    match Field::ALL.get(words.len()) {
        Some(field) if !words.is_empty() => ExpressionError {
            field: Some(*field),
            message: format!("{message}; the {field} field is missing"),
        },
        _ => ExpressionError {
            field: None,
            message,
        },
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.text)
    }
}
