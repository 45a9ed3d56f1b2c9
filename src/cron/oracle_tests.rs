//! Against other judges: the crate `croner` on random triples, and a plain scan of minutes around clock changes.
//!
//! Where the rules differ from croner's on purpose, a triple is set aside by [`differs`], which lists the reasons; what is
//! set aside is judged by the scan and by the hand values of `dst_tests`.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use croner::errors::CronError;
use croner::{
    CivilDate, CivilDateTime, CivilTime, Cron, CronDateTime, JobType, Resolution, Weekday,
};
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::expr::Expression;
use super::field::Field;
use super::occur::Occurrences;
use super::zone::Zone;
use crate::kernel::limits::CRON_HORIZON_DAYS;
use crate::kernel::time::Timestamp;

const FIRST: i64 = 0;
/// 2100-01-01.
const LAST: i64 = 4_102_444_800;
const DAY: i64 = 86_400;

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, n: i64) -> i64 {
        (self.roll() % n as u64) as i64
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as i64) as usize]
    }
}

/// All zones of the database, read once.
fn zones() -> Vec<Zone> {
    let zones: Vec<Zone> = jiff::tz::db()
        .available()
        .filter_map(|name| Zone::find(name.as_str()))
        .collect();
    assert!(zones.len() > 400, "the database has all zones");
    zones
}

/// One field as we read it, and as croner reads it.
fn field(dice: &mut Dice, field: Field, stars: i64) -> (String, String) {
    let (min, max) = field.bounds();
    let (min, max) = (i64::from(min), i64::from(max));
    if dice.below(10) < stars {
        return ("*".into(), "*".into());
    }
    // Not beyond day 28 too often: dates that never come are another test's.
    let n = |dice: &mut Dice| min + dice.below(max - min + 1);
    let one = |text: String| (text.clone(), text);
    match dice.below(6) {
        0 | 1 => one(n(dice).to_string()),
        2 => {
            let (a, b) = (n(dice), n(dice));
            one(format!("{}-{}", a.min(b), a.max(b)))
        }
        3 => {
            let step = 1 + dice.below(max);
            one(format!("*/{step}"))
        }
        4 => {
            let (from, step) = (n(dice), 1 + dice.below(max));
            // Croner wants the end of such a range written out.
            (format!("{from}/{step}"), format!("{from}-{max}/{step}"))
        }
        _ => {
            let values: Vec<String> = (0..2 + dice.below(3))
                .map(|_| n(dice).to_string())
                .collect();
            one(values.join(","))
        }
    }
}

fn expression(dice: &mut Dice) -> (String, String) {
    let stars = [3, 3, 7, 8, 7];
    let fields = Field::ALL.map(|kind| {
        let n = Field::ALL
            .iter()
            .position(|other| *other == kind)
            .unwrap_or(0);
        field(dice, kind, stars[n])
    });
    let ours: Vec<&str> = fields.iter().map(|(ours, _)| ours.as_str()).collect();
    let theirs: Vec<&str> = fields.iter().map(|(_, theirs)| theirs.as_str()).collect();
    (ours.join(" "), theirs.join(" "))
}

/// An instant anywhere in the range, every other one near a change of the zone's clocks.
fn instant(dice: &mut Dice, zone: &Zone) -> i64 {
    let any = FIRST + dice.below(LAST - FIRST);
    if dice.below(2) == 0 {
        return any;
    }
    let from = jiff::Timestamp::from_second(any).unwrap();
    match zone.rules().following(from).next() {
        Some(change) => {
            let near = change.timestamp().as_second() - DAY / 4 + dice.below(DAY / 3);
            near.clamp(FIRST, LAST)
        }
        None => any,
    }
}

#[test]
fn a_hundred_thousand_triples_agree_with_croner() {
    let zones = Arc::new(zones());
    let halves = [0, 1].map(|half| {
        let zones = zones.clone();
        std::thread::spawn(move || compare(&mut Dice(2026 + half), &zones, 50_000))
    });
    let (mut agreed, mut aside) = (0, 0);
    for half in halves {
        let (same, other) = half.join().unwrap();
        (agreed, aside) = (agreed + same, aside + other);
    }
    assert!(agreed >= 100_000);
    assert!(aside < agreed / 10, "{aside} of {agreed} were set aside");
}

fn compare(dice: &mut Dice, zones: &[Zone], n: usize) -> (usize, usize) {
    let (mut agreed, mut aside) = (0, 0);
    while agreed < n {
        let ((ours, theirs), zone) = (expression(dice), dice.pick(zones).clone());
        let parsed: Expression = ours.parse().unwrap();
        let croner: Cron = theirs.parse().unwrap();
        // Several instants for one expression: reading is the dear part of a triple.
        for _ in 0..4 {
            let at = instant(dice, &zone);
            let our_next = parsed.next_after(Timestamp(at * 1000), &zone);
            let Some(next) = our_next.map(|next| next.0 / 1000) else {
                // Croner looks further ahead than anybody waits; that is the one limit it does not share.
                break;
            };
            assert!(next > at, "{ours} in {zone:?} after {at} gave {next}");
            let origin = Instant {
                at,
                rules: zone.rules(),
            };
            let their_next = croner
                .find_next_occurrence(&origin, false)
                .map(|found| found.at);
            if their_next.as_ref().ok() == Some(&next) {
                agreed += 1;
            } else if differs(&parsed, &croner, &zone, at, next) {
                aside += 1;
            } else {
                panic!("{ours} in {zone:?} after {at}: {next}, croner {their_next:?}");
            }
        }
    }
    (agreed, aside)
}

/// Where our rule is another one on purpose. Only a change of clocks on the way makes a difference.
///
/// 1. A list, range or step in minute or hour is fixed-time here; croner takes single values only as fixed.
/// 2. A fixed-time job whose skipped time lies before midnight, or on a day that was skipped whole, runs at the first
///    minute of the next day here; croner asks whether that day is in the expression, and gives up after two hours.
fn differs(expression: &Expression, croner: &Cron, zone: &Zone, at: i64, next: i64) -> bool {
    let changes: Vec<(i64, i64, i64)> = changes(zone, at - 2 * DAY, next + 2 * DAY);
    let lists =
        expression.is_fixed_time() && croner.determine_job_type() == JobType::IntervalWildcard;
    let local_day = |at: i64, offset: i64| (at + offset).div_euclid(DAY);
    changes.iter().any(|(start, before, after)| {
        let gap = after > before;
        let days =
            local_day(*start, *before) != local_day(*start, *after) || after - before > 2 * 3600;
        lists || (gap && expression.is_fixed_time() && days)
    })
}

/// Changes of offset in a stretch of time: where, from, to.
fn changes(zone: &Zone, from: i64, to: i64) -> Vec<(i64, i64, i64)> {
    let start = jiff::Timestamp::from_second(from).unwrap();
    let mut before = i64::from(zone.rules().to_offset(start).seconds());
    let mut found = Vec::new();
    for change in zone.rules().following(start) {
        let (at, after) = (
            change.timestamp().as_second(),
            i64::from(change.offset().seconds()),
        );
        if at > to {
            break;
        }
        if after != before {
            found.push((at, before, after));
        }
        before = after;
    }
    found
}

/// What a plain scan of every minute says: an interval job occurs at each minute whose local clock matches; a fixed-time
/// job at the first of those that show the same, and where its minute was skipped, at the first minute after.
fn scan(expression: &Expression, zone: &Zone, from: i64, to: i64) -> Vec<i64> {
    let matches = |minute: i64| super::calendar::next_minute(expression, minute, minute).is_some();
    let ceil = |second: i64| second.div_euclid(60) + i64::from(second.rem_euclid(60) != 0);
    // The clock has shown something before the scan, too.
    let begin = from - 2 * DAY;
    let changes = changes(zone, begin, to);
    let offset = zone
        .rules()
        .to_offset(jiff::Timestamp::from_second(begin).unwrap());
    let first = (begin, i64::from(offset.seconds()));
    let starts: Vec<(i64, i64)> = std::iter::once(first)
        .chain(changes.iter().map(|(at, _, after)| (*at, *after)))
        .collect();
    let (mut found, mut shown) = (BTreeSet::new(), HashSet::new());
    for (n, (start, offset)) in starts.iter().enumerate() {
        let end = starts.get(n + 1).map_or(to + 1, |(end, _)| *end);
        let minutes = ceil(start + offset)..ceil(end + offset);
        let before = n.checked_sub(1).map(|n| starts[n].1);
        let mut owed = expression.is_fixed_time()
            && before.is_some_and(|before| (ceil(start + before)..minutes.start).any(matches));
        for minute in minutes {
            let fresh = !expression.is_fixed_time() || shown.insert(minute);
            if owed || (fresh && matches(minute)) {
                found.insert(minute * 60 - offset);
            }
            owed = false;
        }
    }
    found
        .into_iter()
        .filter(|at| *at > from && *at <= to)
        .collect()
}

#[test]
fn around_clock_changes_a_scan_of_minutes_finds_the_same() {
    let (zones, mut dice) = (zones(), Dice(7));
    let mut n_changes = 0;
    while n_changes < 40 {
        let zone = dice.pick(&zones).clone();
        let somewhere = FIRST + dice.below(LAST - FIRST);
        let Some((change, ..)) = changes(&zone, somewhere, somewhere + 400 * DAY)
            .first()
            .copied()
        else {
            continue;
        };
        n_changes += 1;
        let (from, to) = (change - DAY / 2, change + DAY / 2);
        for n in 0..8 {
            let text = if n % 2 == 0 {
                // What is likely to fall into the change.
                format!(
                    "{} {} * * *",
                    dice.pick(&["0", "30", "*/20", "15-45/15", "*"]),
                    dice.pick(&["0", "1-3", "2", "0-23", "*"])
                )
            } else {
                expression(&mut dice).0
            };
            let parsed: Expression = text.parse().unwrap();
            let found: Vec<i64> = Occurrences::after(&parsed, &zone, Timestamp(from * 1000))
                .map(|at| at.0 / 1000)
                .take_while(|at| *at <= to)
                .collect();
            assert_eq!(
                found,
                scan(&parsed, &zone, from, to),
                "{text} in {zone:?} around {change}"
            );
            // Each is what is found when asked anew from the one before.
            let mut at = Timestamp(from * 1000);
            for expected in found.iter().take(30) {
                at = parsed.next_after(at, &zone).unwrap();
                assert_eq!(at.0 / 1000, *expected, "{text} in {zone:?} around {change}");
            }
        }
    }
}

#[test]
fn in_every_zone_instants_ascend_and_none_comes_twice() {
    let mut dice = Dice(11);
    for zone in zones() {
        for _ in 0..6 {
            let (text, _) = expression(&mut dice);
            let parsed: Expression = text.parse().unwrap();
            let mut at = Timestamp(instant(&mut dice, &zone) * 1000 + dice.below(1000));
            for _ in 0..25 {
                let Some(next) = parsed.next_after(at, &zone) else {
                    break;
                };
                assert!(next > at, "{text} in {zone:?}: {at} then {next}");
                assert!(
                    next.0 - at.0 <= CRON_HORIZON_DAYS * DAY * 1000,
                    "{text} in {zone:?}"
                );
                assert_eq!(next.0 % 1000, 0);
                // Asked from just before, it is the same: nothing lies between.
                assert_eq!(
                    parsed.next_after(next.plus_ms(-1), &zone),
                    Some(next),
                    "{text} in {zone:?}"
                );
                at = next;
            }
        }
    }
}

/// An instant in a zone, for croner.
#[derive(Clone)]
struct Instant<'a> {
    at: i64,
    rules: &'a TimeZone,
}

impl Instant<'_> {
    fn civil(&self) -> jiff::civil::DateTime {
        self.rules
            .to_datetime(jiff::Timestamp::from_second(self.at).unwrap())
    }
}

impl CronDateTime for Instant<'_> {
    fn to_civil(&self) -> CivilDateTime {
        let civil = self.civil();
        CivilDateTime::new(
            CivilDate::from_parts_unchecked(
                civil.year().into(),
                civil.month() as u32,
                civil.day() as u32,
            ),
            CivilTime::from_parts_unchecked(
                civil.hour() as u32,
                civil.minute() as u32,
                civil.second() as u32,
            ),
        )
    }

    fn civil_weekday(&self) -> Weekday {
        Weekday::from_days_from_sunday(self.civil().weekday().to_sunday_zero_offset() as u32)
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let year = i16::try_from(civil.year()).map_err(|_| CronError::InvalidDate)?;
        let civil = jiff::civil::DateTime::new(
            year,
            civil.month() as i8,
            civil.day() as i8,
            civil.hour() as i8,
            civil.minute() as i8,
            civil.second() as i8,
            0,
        )
        .map_err(|_| CronError::InvalidDate)?;
        let with = |offset: jiff::tz::Offset| {
            let at = offset
                .to_timestamp(civil)
                .map_err(|_| CronError::InvalidTime)?;
            Ok(Self {
                at: at.as_second(),
                rules: self.rules,
            })
        };
        Ok(match self.rules.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => Resolution::Single(with(offset)?),
            AmbiguousOffset::Fold { before, after } => {
                Resolution::Ambiguous(with(before)?, with(after)?)
            }
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        Some(Self {
            at: self.at.checked_add(seconds)?,
            rules: self.rules,
        })
    }

    fn cmp_instant(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}
