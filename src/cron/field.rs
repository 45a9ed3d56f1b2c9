//! The five fields of an expression: what each may hold, and reading one into a set of bits.

use std::fmt;

/// One of the five fields, in the order they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// 0 to 59.
    Minute,
    /// 0 to 23.
    Hour,
    /// 1 to 31.
    DayOfMonth,
    /// 1 to 12, or the first three letters of an English name.
    Month,
    /// 0 to 7, both ends Sunday, or the first three letters of an English name.
    DayOfWeek,
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Field {
    /// All of them, in the order they are written.
    pub const ALL: [Self; 5] = [
        Self::Minute,
        Self::Hour,
        Self::DayOfMonth,
        Self::Month,
        Self::DayOfWeek,
    ];

    /// The lowest and the highest number it may hold.
    pub fn bounds(self) -> (u32, u32) {
        match self {
            Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, 7),
        }
    }

    /// Reads one field into a set: bit `n` is set where `n` matches. Sunday is bit 0, however it was written.
    ///
    /// # Errors
    /// What is wrong with it, as the rest of a sentence that begins with the field's name.
    pub(super) fn parse(self, text: &str) -> Result<u64, String> {
        let mut set = 0;
        for term in text.split(',') {
            set |= self.term(term)?;
        }
        if self == Self::DayOfWeek && set & (1 << 7) != 0 {
            set = (set & !(1 << 7)) | 1;
        }
        Ok(set)
    }

    fn term(self, term: &str) -> Result<u64, String> {
        let (min, max) = self.bounds();
        if term.is_empty() {
            return Err("has an empty list entry".to_owned());
        }
        let (range, step) = match term.split_once('/') {
            None => (term, None),
            Some((range, step)) => (range, Some(step_of(step)?)),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (min, max),
            None => {
                let value = self.value(range)?;
                // A step needs somewhere to go: `5/10` is from 5 on.
                (value, if step.is_some() { max } else { value })
            }
            Some((first, last)) => (self.value(first)?, self.value(last)?),
        };
        if first > last {
            return Err(format!(
                "has a range that goes down; write `{}` instead",
                self.wrapped(first, last)
            ));
        }
        let step = step.unwrap_or(1) as usize;
        Ok((first..=last)
            .step_by(step)
            .fold(0, |set, value| set | 1 << value))
    }

    fn value(self, text: &str) -> Result<u32, String> {
        let (min, max) = self.bounds();
        if let Some(value) = number(text) {
            if (min..=max).contains(&value) {
                return Ok(value);
            }
            return Err(format!(
                "holds `{}`, which is not in {min}-{max}",
                shown(text)
            ));
        }
        let (names, base): (&[&str], u32) = match self {
            Self::Month => (&MONTHS, 1),
            Self::DayOfWeek => (&WEEKDAYS, 0),
            _ => (&[], 0),
        };
        if let Some(n) = names
            .iter()
            .position(|name| text.eq_ignore_ascii_case(name))
        {
            return Ok(base + n as u32);
        }
        Err(match self.foreign(text) {
            Some(hint) => format!("holds `{}`: {hint}", shown(text)),
            None if text.is_empty() => "has an incomplete range".to_owned(),
            None => format!("holds `{}`, which is not in {min}-{max}", shown(text)),
        })
    }

    /// What to write instead of an extension of other crons.
    fn foreign(self, text: &str) -> Option<&'static str> {
        if text.contains('?') {
            Some("`?` is not supported; write `*`")
        } else if text.contains('#') {
            Some(
                "`#` (n-th weekday) is not supported; run on that weekday and let the prompt check the day of the month",
            )
        } else if self == Self::DayOfMonth && text.contains(['W', 'w']) {
            Some("`W` (nearest weekday) is not supported; use days of the week, such as `1-5`")
        } else if matches!(self, Self::DayOfMonth | Self::DayOfWeek) && text.contains(['L', 'l']) {
            Some(
                "`L` (last) is not supported; use `28-31` or a list, and let the prompt check the date",
            )
        } else {
            None
        }
    }

    /// A descending range as the list it was probably meant to be.
    fn wrapped(self, first: u32, last: u32) -> String {
        let (min, max) = self.bounds();
        let top = if self == Self::DayOfWeek { 6 } else { max };
        let piece = |from: u32, to: u32| {
            if from >= to {
                from.to_string()
            } else {
                format!("{from}-{to}")
            }
        };
        format!("{},{}", piece(first, top), piece(min, last))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day-of-month",
            Self::Month => "month",
            Self::DayOfWeek => "day-of-week",
        })
    }
}

/// The distance of a term such as `*/5`.
fn step_of(text: &str) -> Result<u32, String> {
    match number(text) {
        Some(step) if step >= 1 => Ok(step),
        Some(_) => Err("has a step of 0; a step is 1 or more".to_owned()),
        None => Err(format!("has a step that is no number: `{}`", shown(text))),
    }
}

/// Digits and nothing else: no sign, no exponent.
fn number(text: &str) -> Option<u32> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| text.parse().ok()).flatten()
}

/// What was written, cut to what fits into a message.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(20).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
