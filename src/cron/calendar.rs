//! The next minute of a local calendar that an expression matches; local time only, without zones.
//!
//! A local minute is a count of minutes since 1970-01-01T00:00 on the local clock. The search steps over whole months,
//! days and hours by the sets of the expression, so a date that never comes costs a look at each month, not at each
//! minute.

use super::expr::Expression;
use crate::kernel::time::{civil, days_of};

const MINUTES_PER_DAY: i64 = 24 * 60;

/// The first matching local minute at or after `from` and not after `last`.
pub fn next_minute(expression: &Expression, from: i64, last: i64) -> Option<i64> {
    let (day, minute) = (
        from.div_euclid(MINUTES_PER_DAY),
        from.rem_euclid(MINUTES_PER_DAY),
    );
    let last_day = last.div_euclid(MINUTES_PER_DAY);
    let found = match next_day(expression, day, last_day)? {
        same if same == day => match minute_of_day(expression, minute as u32) {
            Some(minute) => same * MINUTES_PER_DAY + i64::from(minute),
            None => first_of(expression, next_day(expression, day + 1, last_day)?)?,
        },
        later => first_of(expression, later)?,
    };
    (found <= last).then_some(found)
}

fn first_of(expression: &Expression, day: i64) -> Option<i64> {
    let minute = minute_of_day(expression, 0)?;
    Some(day * MINUTES_PER_DAY + i64::from(minute))
}

/// The first matching minute of a day at or after `from`.
fn minute_of_day(expression: &Expression, from: u32) -> Option<u32> {
    let (hour, minute) = (from / 60, from % 60);
    if expression.hours & (1 << hour) != 0 {
        let left = expression.minutes & (u64::MAX << minute);
        if left != 0 {
            return Some(hour * 60 + left.trailing_zeros());
        }
    }
    let left = expression.hours & (u32::MAX << hour << 1);
    (left != 0).then(|| left.trailing_zeros() * 60 + expression.minutes.trailing_zeros())
}

/// The first matching day at or after `from` and not after `last`, in days since 1970-01-01.
fn next_day(expression: &Expression, from: i64, last: i64) -> Option<i64> {
    let (mut year, mut month, day) = civil(from);
    let mut first = from - (day - 1);
    let mut day = day;
    while first <= last {
        let next = if month == 12 {
            days_of(year + 1, 1, 1)
        } else {
            days_of(year, month + 1, 1)
        };
        if expression.months & (1 << month) != 0 {
            let left = days_in(expression, first, next - first) & (u32::MAX << day);
            if left != 0 {
                let found = first + i64::from(left.trailing_zeros()) - 1;
                return (found <= last).then_some(found);
            }
        }
        (year, month) = if month == 12 {
            (year + 1, 1)
        } else {
            (year, month + 1)
        };
        (first, day) = (next, 1);
    }
    None
}

/// The matching days of a month: bit `n` is day `n`.
fn days_in(expression: &Expression, first: i64, n_days: i64) -> u32 {
    let all = (u32::MAX << 1) & ((1u64 << (n_days + 1)) - 1) as u32;
    let by_day = expression.days & all;
    // 1970-01-01 was a Thursday.
    let weekday = (first + 4).rem_euclid(7) as u32;
    let week = u64::from(expression.weekdays);
    let week = ((week >> weekday) | (week << (7 - weekday))) & 0x7f;
    let by_weekday = ((week * 0x1020_4081) << 1) as u32 & all;
    match (expression.any_day, expression.any_weekday) {
        (true, true) => all,
        (false, true) => by_day,
        (true, false) => by_weekday,
        (false, false) => by_day | by_weekday,
    }
}
