//! When a job is due: its expression's instants, moved by its jitter, and how many came due since the last fire.
//!
//! *Ideal* is the instant the expression names, *due* the one at which the job fires. Jitter moves a recurring job
//! later, never earlier and never as far as its next ideal instant, and depends on its id alone: the same job has the
//! same place in a crowd for ever. One-shot jobs are due when they say.

use std::sync::Arc;

use super::expr::Expression;
use super::occur::Occurrences;
use super::zone::Zone;
use crate::kernel::limits::{CRON_COALESCE_MAX, CRON_JITTER_MAX, CRON_JITTER_PART};
use crate::kernel::time::Timestamp;

const DAY_MS: i64 = 86_400_000;

/// What decides when a job is due. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// When.
    pub expression: Arc<Expression>,
    /// On which clock.
    pub zone: Zone,
    /// Whether it fires again and again.
    pub recurring: bool,
    /// Between 0 and 1: how much of the greatest jitter this job has. 0 where jitter is off.
    pub jitter: f64,
}

/// One appointment of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The instant the expression names.
    pub ideal: Timestamp,
    /// When the job fires.
    pub due: Timestamp,
}

/// What came due since a job fired last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Ideal instants that one fire answers for; at least 1, at most [`CRON_COALESCE_MAX`].
    pub n_coalesced: u32,
    /// The first of them.
    pub first: Timestamp,
    /// The last of them: from here on the next one is looked for.
    pub last: Timestamp,
}

impl Timing {
    /// The first appointment after an instant. `None` where there is none within the horizon.
    pub fn next(&self, base: Timestamp) -> Option<Slot> {
        let mut ideals = Occurrences::after(&self.expression, &self.zone, base);
        let ideal = ideals.next()?;
        let due = self.due_at(ideal, ideals.next());
        Some(Slot { ideal, due })
    }

    /// What is due at `now` of everything after `base`; `None` where nothing is yet.
    pub fn due(&self, base: Timestamp, now: Timestamp) -> Option<Due> {
        let first = self.next(base)?;
        if first.due > now {
            return None;
        }
        if !self.recurring {
            return Some(Due {
                n_coalesced: 1,
                first: first.ideal,
                last: first.ideal,
            });
        }
        let (mut n, mut last) = (1, first.ideal);
        let mut ideals = Occurrences::after(&self.expression, &self.zone, first.ideal).peekable();
        while let Some(ideal) = ideals.next() {
            if n >= CRON_COALESCE_MAX {
                // Counting has an end; the next fire belongs to what comes, not to what is long past.
                last = self.last_due(last, now);
                break;
            }
            if ideal > now || self.due_at(ideal, ideals.peek().copied()) > now {
                break;
            }
            (n, last) = (n + 1, ideal);
        }
        Some(Due {
            n_coalesced: n,
            first: first.ideal,
            last,
        })
    }

    /// The last ideal instant after `floor` that is due at `now`: looks back over ever longer stretches, since what is
    /// frequent has one close by.
    fn last_due(&self, floor: Timestamp, now: Timestamp) -> Timestamp {
        let mut back = DAY_MS / 12;
        loop {
            let from = floor.max(now.plus_ms(-back));
            let mut found = None;
            let mut ideals = Occurrences::after(&self.expression, &self.zone, from).peekable();
            while let Some(ideal) = ideals.next_if(|ideal| *ideal <= now) {
                if self.due_at(ideal, ideals.peek().copied()) <= now {
                    found = Some(ideal);
                }
            }
            match found {
                Some(ideal) => return ideal,
                None if from == floor => return floor,
                None => back *= 2,
            }
        }
    }

    fn due_at(&self, ideal: Timestamp, following: Option<Timestamp>) -> Timestamp {
        if !self.recurring || self.jitter <= 0.0 {
            return ideal;
        }
        let gap_ms = following.map_or(DAY_MS, |following| following.0 - ideal.0);
        let most_ms = (gap_ms / CRON_JITTER_PART).min(CRON_JITTER_MAX.as_millis() as i64);
        ideal.plus_ms((most_ms as f64 * self.jitter) as i64)
    }
}

/// The place in a crowd that an id of 8 hex digits stands for: 0 up to, not including, 1.
pub fn jitter_of(id: &str) -> f64 {
    u32::from_str_radix(id, 16).map_or(0.0, |bits| f64::from(bits) / 4_294_967_296.0)
}

/// The instant after which a job's next appointment is looked for; `None` where that is not known any more.
///
/// It is the job's last fire, or its making where it has not fired. Either may lie in the future, where the clock was set
/// back: then nothing is due again until the clock gets there. More than a day ahead it is no memory but damage: then what
/// counts is when that was found, so that nothing is replayed and the job is not silent for ever.
pub fn base_of(created: Timestamp, cursor: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let is_damage = |at: Timestamp| at > now.plus_ms(DAY_MS);
    match cursor {
        Some(cursor) if is_damage(cursor) => None,
        Some(cursor) if is_damage(created) => Some(cursor),
        Some(cursor) => Some(cursor.max(created)),
        None => Some(created).filter(|created| !is_damage(*created)),
    }
}
