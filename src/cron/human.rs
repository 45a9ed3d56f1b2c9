//! An expression in words, where it is one of the common ones.

use super::expr::Expression;

const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const WORK: u8 = 0b011_1110;
const WEEKEND: u8 = 0b100_0001;

impl Expression {
    /// The schedule in words, or the expression itself where it has no short ones.
    pub fn in_words(&self) -> String {
        self.words().unwrap_or_else(|| self.as_str().to_owned())
    }

    fn words(&self) -> Option<String> {
        let fields: Vec<&str> = self.as_str().split(' ').collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return None;
        };
        if *month != "*" {
            return None;
        }
        let every_day = *day == "*" && *weekday == "*";
        match (single(minute), single(hour)) {
            (Some(minute), Some(hour)) => {
                let days = if every_day {
                    "every day".to_owned()
                } else if *weekday == "*" {
                    format!("on day {} of every month", single(day)?)
                } else if *day == "*" {
                    self.named_days()
                } else {
                    return None;
                };
                Some(format!("{hour:02}:{minute:02} {days}"))
            }
            _ if !every_day => None,
            (Some(minute), None) if *hour == "*" => Some(format!("minute {minute} of every hour")),
            (Some(minute), None) => match step(hour, 24)? {
                1 => Some(format!("minute {minute} of every hour")),
                n => Some(format!("every {n} hours at minute {minute}")),
            },
            (None, None) if *hour == "*" => match step(minute, 60) {
                None if *minute == "*" => Some("every minute".to_owned()),
                Some(1) => Some("every minute".to_owned()),
                Some(n) => Some(format!("every {n} minutes")),
                None => None,
            },
            _ => None,
        }
    }

    fn named_days(&self) -> String {
        match self.weekdays {
            WORK => "on weekdays".to_owned(),
            WEEKEND => "on weekends".to_owned(),
            set => {
                // Weeks begin with Monday when they are listed.
                let order = (1..7).chain([0]);
                let names: Vec<&str> = order
                    .filter(|n| set & (1 << n) != 0)
                    .map(|n: usize| WEEKDAYS[n])
                    .collect();
                format!("on {}", names.join(", "))
            }
        }
    }
}

/// A field that is one number.
fn single(field: &str) -> Option<u32> {
    field.parse().ok()
}

/// The `n` of a `*/n` that goes evenly into a whole; any other step begins anew with each hour or day, which no short
/// words say.
fn step(field: &str, whole: u32) -> Option<u32> {
    let n = field.strip_prefix("*/")?.parse().ok()?;
    (n > 0 && n < whole && whole.is_multiple_of(n)).then_some(n)
}
