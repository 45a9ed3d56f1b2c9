//! The instants at which an expression occurs in a time zone.
//!
//! A zone's time line is a row of *segments*: stretches between two changes of its offset from UTC. Inside a segment
//! local time runs evenly, so the search is one on the calendar; what happens where two segments meet is the whole of
//! what clock changes mean here:
//!
//! - Clocks go forward: local minutes are skipped. An interval job has no instant in them; a fixed-time job that was
//!   due in them occurs once, at the first minute after the change.
//! - Clocks go back: local minutes come twice. An interval job occurs in both, by elapsed time; a fixed-time job only
//!   the first time.
//!
//! A never-matching date is told from the calendar alone.

use jiff::tz::TimeZone;

use super::calendar::next_minute;
use super::expr::Expression;
use super::zone::Zone;
use crate::kernel::limits::CRON_HORIZON_DAYS;
use crate::kernel::time::Timestamp;

const HORIZON_S: i64 = CRON_HORIZON_DAYS * 86_400;
/// More than any change of an offset: calendars differ by no more than this.
const SLACK_MINUTES: i64 = 2 * 24 * 60;

impl Expression {
    /// The first instant strictly later than another; `None` where there is none within [`CRON_HORIZON_DAYS`].
    pub fn next_after(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        Occurrences::after(self, zone, after).next()
    }
}

/// The instants of an expression in ascending order. Ends where the next one is further away than the horizon.
pub struct Occurrences<'a> {
    expression: &'a Expression,
    rules: &'a TimeZone,
    segment: Segment,
    /// The local minute of this segment from which to search on.
    from: i64,
    /// A local minute of this segment that is due because its own was skipped.
    owed: Option<i64>,
    /// Seconds since 1970: the last instant given.
    last: i64,
}

/// A stretch of time with one offset. Seconds since 1970.
#[derive(Clone, Copy)]
struct Segment {
    offset: i64,
    /// Where it ends, exclusive; `i64::MAX` for the last.
    end: i64,
}

impl<'a> Occurrences<'a> {
    /// Those strictly later than an instant.
    pub fn after(expression: &'a Expression, zone: &'a Zone, after: Timestamp) -> Self {
        let rules = zone.rules();
        let last = after.0.div_euclid(1000);
        let segment = Segment::at(rules, last);
        let mut this = Self {
            expression,
            rules,
            segment,
            from: (last + segment.offset).div_euclid(60) + 1,
            owed: None,
            last,
        };
        if expression.is_fixed_time()
            && let Some((start, before)) = change_before(rules, last)
        {
            this.keep_appointments(start, before);
        }
        this
    }

    /// Goes on with the segment that begins where this one ends.
    fn enter_next(&mut self) {
        let (start, before) = (self.segment.end, self.segment.offset);
        self.segment = Segment::at(self.rules, start);
        self.from = ceil_minute(start + self.segment.offset);
        self.owed = None;
        if self.expression.is_fixed_time() {
            self.keep_appointments(start, before);
        }
    }

    /// What the change at the beginning of this segment means for a fixed-time job.
    fn keep_appointments(&mut self, start: i64, offset_before: i64) {
        // Where the local clock stood, and where it was put.
        let (stood, put) = (start + offset_before, start + self.segment.offset);
        if put < stood {
            self.from = self.from.max(ceil_minute(stood));
        } else if ceil_minute(put) >= self.from
            && next_minute(self.expression, ceil_minute(stood), ceil_minute(put) - 1).is_some()
        {
            self.owed = Some(ceil_minute(put));
        }
    }
}

impl Iterator for Occurrences<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        let horizon = self.last.saturating_add(HORIZON_S);
        loop {
            let furthest = (horizon + self.segment.offset).div_euclid(60);
            let found = match self.owed.take() {
                Some(owed) => Some(owed),
                None => next_minute(self.expression, self.from, furthest + SLACK_MINUTES),
            };
            // What the calendar does not have, no change of clocks brings about.
            let minute = found?;
            let at = minute * 60 - self.segment.offset;
            if at < self.segment.end {
                if at > horizon {
                    return None;
                }
                (self.from, self.last) = (minute + 1, at);
                return Some(Timestamp(at * 1000));
            }
            if self.segment.end > horizon {
                return None;
            }
            self.enter_next();
        }
    }
}

impl Segment {
    fn at(rules: &TimeZone, second: i64) -> Self {
        let Ok(instant) = jiff::Timestamp::from_second(second) else {
            // Beyond what calendars are kept for.
            return Self {
                offset: 0,
                end: i64::MAX,
            };
        };
        let end = rules.following(instant).next();
        Self {
            offset: i64::from(rules.to_offset(instant).seconds()),
            end: end.map_or(i64::MAX, |change| change.timestamp().as_second()),
        }
    }
}

/// The last change at or before a second, and the offset that was in force before it.
fn change_before(rules: &TimeZone, second: i64) -> Option<(i64, i64)> {
    let instant = jiff::Timestamp::from_second(second + 1).ok()?;
    let start = rules.preceding(instant).next()?.timestamp().as_second();
    let before = jiff::Timestamp::from_second(start - 1).ok()?;
    Some((start, i64::from(rules.to_offset(before).seconds())))
}

/// The first whole minute at or after a second.
fn ceil_minute(second: i64) -> i64 {
    -(-second).div_euclid(60)
}
