//! Hand values for changes of clocks: where the rules differ from other crons on purpose, they are judged by these.

use super::expr::Expression;
use super::zone::Zone;
use crate::kernel::time::Timestamp;

/// The instants after one, on the zone's clock, without seconds.
fn local(zone: &str, text: &str, after: &str, n: usize) -> Vec<String> {
    let zone = Zone::find(zone).unwrap();
    let expression: Expression = text.parse().unwrap();
    let mut at = Timestamp(after.parse::<jiff::Timestamp>().unwrap().as_millisecond());
    let next = || {
        let next = expression.next_after(at, &zone)?;
        assert!(next > at, "{text}");
        at = next;
        Some(zone.local(next).replace(":00.000", " "))
    };
    std::iter::from_fn(next).take(n).collect()
}

fn check(zone: &str, cases: &[(&str, &str, &[&str])]) {
    for (text, after, expected) in cases {
        assert_eq!(
            local(zone, text, after, expected.len()),
            *expected,
            "{zone}: {text} after {after}"
        );
    }
}

#[test]
fn new_york() {
    check(
        "America/New_York",
        &[
            // Forward at 02:00 on 8 March: the day keeps its appointment.
            (
                "30 2 * * *",
                "2026-03-07T12:00:00-05:00",
                &[
                    "2026-03-08T03:00 -04:00",
                    "2026-03-09T02:30 -04:00",
                    "2026-03-10T02:30 -04:00",
                ],
            ),
            // What falls on one instant fires once.
            (
                "0,30 2 * * *",
                "2026-03-07T12:00:00-05:00",
                &[
                    "2026-03-08T03:00 -04:00",
                    "2026-03-09T02:00 -04:00",
                    "2026-03-09T02:30 -04:00",
                ],
            ),
            (
                "30 2,3 * * *",
                "2026-03-07T12:00:00-05:00",
                &[
                    "2026-03-08T03:00 -04:00",
                    "2026-03-08T03:30 -04:00",
                    "2026-03-09T02:30 -04:00",
                ],
            ),
            (
                "0 2,3 * * *",
                "2026-03-07T12:00:00-05:00",
                &["2026-03-08T03:00 -04:00", "2026-03-09T02:00 -04:00"],
            ),
            // Asked in the very minute after the change.
            (
                "30 2 * * *",
                "2026-03-08T03:00:00-04:00",
                &["2026-03-09T02:30 -04:00"],
            ),
            (
                "30 2 * * *",
                "2026-03-08T01:59:59-05:00",
                &["2026-03-08T03:00 -04:00"],
            ),
            // Interval jobs go on after the gap.
            (
                "*/30 2 * * *",
                "2026-03-07T12:00:00-05:00",
                &["2026-03-09T02:00 -04:00", "2026-03-09T02:30 -04:00"],
            ),
            (
                "0 * * * *",
                "2026-03-08T00:30:00-05:00",
                &[
                    "2026-03-08T01:00 -05:00",
                    "2026-03-08T03:00 -04:00",
                    "2026-03-08T04:00 -04:00",
                ],
            ),
            // Back at 02:00 on 1 November: the first 01:30 counts.
            (
                "30 1 * * *",
                "2026-10-31T12:00:00-04:00",
                &["2026-11-01T01:30 -04:00", "2026-11-02T01:30 -05:00"],
            ),
            (
                "0,30 1 * * *",
                "2026-11-01T01:10:00-04:00",
                &["2026-11-01T01:30 -04:00", "2026-11-02T01:00 -05:00"],
            ),
            // Asked inside the repeated hour.
            (
                "30 1 * * *",
                "2026-11-01T01:10:00-05:00",
                &["2026-11-02T01:30 -05:00"],
            ),
            (
                "0 2 * * *",
                "2026-11-01T01:10:00-05:00",
                &["2026-11-01T02:00 -05:00"],
            ),
            // Interval jobs run in both, an hour apart.
            (
                "0 * * * *",
                "2026-11-01T00:30:00-04:00",
                &[
                    "2026-11-01T01:00 -04:00",
                    "2026-11-01T01:00 -05:00",
                    "2026-11-01T02:00 -05:00",
                ],
            ),
            (
                "*/5 * * * *",
                "2026-11-01T01:10:00-05:00",
                &["2026-11-01T01:15 -05:00", "2026-11-01T01:20 -05:00"],
            ),
            (
                "*/30 * * * *",
                "2026-11-01T01:20:00-04:00",
                &[
                    "2026-11-01T01:30 -04:00",
                    "2026-11-01T01:00 -05:00",
                    "2026-11-01T01:30 -05:00",
                    "2026-11-01T02:00 -05:00",
                ],
            ),
        ],
    );
}

#[test]
fn berlin() {
    check(
        "Europe/Berlin",
        &[
            (
                "30 2 * * *",
                "2026-03-28T12:00:00+01:00",
                &["2026-03-29T03:00 +02:00", "2026-03-30T02:30 +02:00"],
            ),
            (
                "30 2 * * *",
                "2026-10-24T12:00:00+02:00",
                &["2026-10-25T02:30 +02:00", "2026-10-26T02:30 +01:00"],
            ),
            (
                "30 * * * *",
                "2026-03-29T00:45:00+01:00",
                &["2026-03-29T01:30 +01:00", "2026-03-29T03:30 +02:00"],
            ),
            (
                "30 * * * *",
                "2026-10-25T01:45:00+02:00",
                &[
                    "2026-10-25T02:30 +02:00",
                    "2026-10-25T02:30 +01:00",
                    "2026-10-25T03:30 +01:00",
                ],
            ),
        ],
    );
}

#[test]
fn a_gap_at_midnight_does_not_skip_the_day() {
    check(
        "America/Sao_Paulo",
        &[
            (
                "0 0 * * *",
                "2018-11-03T12:00:00-03:00",
                &["2018-11-04T01:00 -02:00", "2018-11-05T00:00 -02:00"],
            ),
            (
                "15 0 4 11 *",
                "2018-11-03T12:00:00-03:00",
                &["2018-11-04T01:00 -02:00"],
            ),
            (
                "0 * * * *",
                "2018-11-03T22:30:00-03:00",
                &["2018-11-03T23:00 -03:00", "2018-11-04T01:00 -02:00"],
            ),
        ],
    );
}

#[test]
fn offsets_that_are_no_whole_hours() {
    check(
        "Australia/Lord_Howe",
        &[
            // Half an hour forward at 02:00, half an hour back at 02:00.
            (
                "15 2 * * *",
                "2026-10-03T12:00:00+10:30",
                &["2026-10-04T02:30 +11:00", "2026-10-05T02:15 +11:00"],
            ),
            (
                "45 1 * * *",
                "2026-04-04T12:00:00+11:00",
                &["2026-04-05T01:45 +11:00", "2026-04-06T01:45 +10:30"],
            ),
            (
                "*/15 * * * *",
                "2026-04-05T01:20:00+11:00",
                &[
                    "2026-04-05T01:30 +11:00",
                    "2026-04-05T01:45 +11:00",
                    "2026-04-05T01:30 +10:30",
                    "2026-04-05T01:45 +10:30",
                    "2026-04-05T02:00 +10:30",
                ],
            ),
        ],
    );
    check(
        "Asia/Kathmandu",
        &[
            (
                "0 9 * * *",
                "2026-01-01T00:00:00+05:45",
                &["2026-01-01T09:00 +05:45"],
            ),
            // A quarter of an hour was skipped for good at the turn of 1986.
            (
                "5 0 * * *",
                "1985-12-31T12:00:00+05:30",
                &["1986-01-01T00:15 +05:45", "1986-01-02T00:05 +05:45"],
            ),
        ],
    );
}

#[test]
fn a_change_that_is_no_whole_minute() {
    // Clocks went 44 minutes and 30 seconds forward at midnight.
    check(
        "Africa/Monrovia",
        &[(
            "30 0 * * *",
            "1972-01-06T12:00:00Z",
            &["1972-01-07T00:45 +00:00", "1972-01-08T00:30 +00:00"],
        )],
    );
}

#[test]
fn a_day_that_was_left_out() {
    // The date line moved: there was no 30 December.
    check(
        "Pacific/Apia",
        &[
            (
                "30 9 * * *",
                "2011-12-29T08:00:00-10:00",
                &[
                    "2011-12-29T09:30 -10:00",
                    "2011-12-31T00:00 +14:00",
                    "2011-12-31T09:30 +14:00",
                ],
            ),
            (
                "*/30 9 * * *",
                "2011-12-29T09:10:00-10:00",
                &["2011-12-29T09:30 -10:00", "2011-12-31T09:00 +14:00"],
            ),
        ],
    );
}

#[test]
fn a_day_that_was_left_out_at_its_own_noon() {
    // 21 August 1993 did not happen here: what was due in it comes with the first minute of the next day.
    check(
        "Pacific/Kwajalein",
        &[(
            "0 12 * * *",
            "1993-08-20T00:00:00-12:00",
            &[
                "1993-08-20T12:00 -12:00",
                "1993-08-22T00:00 +12:00",
                "1993-08-22T12:00 +12:00",
            ],
        )],
    );
}
