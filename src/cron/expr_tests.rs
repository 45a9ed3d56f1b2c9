//! What an expression may look like, which local minutes it matches, and how it reads in words.

use super::calendar::next_minute;
use super::expr::Expression;
use super::field::Field;
use super::zone::Zone;
use crate::kernel::time::Timestamp;

fn parse(text: &str) -> Expression {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The first instants after one, in UTC, without seconds.
fn utc(text: &str, after: &str, n: usize) -> Vec<String> {
    let (expression, mut at) = (parse(text), Timestamp::parse(after).unwrap());
    let next = || {
        at = expression.next_after(at, &Zone::utc())?;
        Some(at.to_string().replace(":00.000Z", ""))
    };
    std::iter::from_fn(next).take(n).collect()
}

#[test]
fn what_it_matches() {
    for (text, after, expected) in [
        (
            "*/5 * * * *",
            "2026-01-01T12:00:00.000Z",
            vec!["2026-01-01T12:05", "2026-01-01T12:10"],
        ),
        (
            "*/5 * * * *",
            "2026-01-01T11:59:59.999Z",
            vec!["2026-01-01T12:00"],
        ),
        (
            "5/10 * * * *",
            "2026-01-01T12:50:00Z",
            vec!["2026-01-01T12:55", "2026-01-01T13:05"],
        ),
        (
            "10-30/10,45 6 * * *",
            "2026-01-01T00:00:00Z",
            vec![
                "2026-01-01T06:10",
                "2026-01-01T06:20",
                "2026-01-01T06:30",
                "2026-01-01T06:45",
                "2026-01-02T06:10",
            ],
        ),
        // Both day fields: either will do.
        (
            "0 0 1 * 1",
            "2026-06-20T00:00:00Z",
            vec![
                "2026-06-22T00:00",
                "2026-06-29T00:00",
                "2026-07-01T00:00",
                "2026-07-06T00:00",
            ],
        ),
        (
            "0 0 */2 * 1",
            "2026-06-01T00:00:00Z",
            vec![
                "2026-06-03T00:00",
                "2026-06-05T00:00",
                "2026-06-07T00:00",
                "2026-06-08T00:00",
                "2026-06-09T00:00",
            ],
        ),
        // One of them: that one alone.
        (
            "0 0 * * 1",
            "2026-06-20T00:00:00Z",
            vec!["2026-06-22T00:00", "2026-06-29T00:00"],
        ),
        (
            "0 0 31 * *",
            "2026-01-31T00:00:00Z",
            vec!["2026-03-31T00:00", "2026-05-31T00:00"],
        ),
        (
            "0 0 29 2 *",
            "2026-01-01T00:00:00Z",
            vec!["2028-02-29T00:00", "2032-02-29T00:00"],
        ),
        (
            "59 23 31 12 *",
            "2026-12-31T23:59:00Z",
            vec!["2027-12-31T23:59"],
        ),
        (
            "0 0 * * 5-7",
            "2026-06-18T00:00:00Z",
            vec![
                "2026-06-19T00:00",
                "2026-06-20T00:00",
                "2026-06-21T00:00",
                "2026-06-26T00:00",
            ],
        ),
    ] {
        assert_eq!(utc(text, after, expected.len()), expected, "{text}");
    }
}

#[test]
fn spellings_of_the_same() {
    for (text, stored) in [
        ("@daily", "0 0 * * *"),
        ("@Midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("  0\t9 \n * *   1-5 ", "0 9 * * 1-5"),
    ] {
        assert_eq!(parse(text).as_str(), stored);
    }
    for (one, other) in [
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * sun", "0 0 * * 0"),
        ("0 0 * * Mon-FRI", "0 0 * * 1-5"),
        ("0 0 1 jan,Jul *", "0 0 1 1,7 *"),
        ("5/10 * * * *", "5-59/10 * * * *"),
        ("05 * * * *", "5 * * * *"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
    ] {
        let (one, other) = (parse(one), parse(other));
        let sets = |expression: &Expression| {
            (
                expression.minutes,
                expression.hours,
                expression.days,
                expression.months,
                expression.weekdays,
            )
        };
        assert_eq!(sets(&one), sets(&other), "{one:?} {other:?}");
    }
}

#[test]
fn what_is_refused_and_why() {
    use Field::{DayOfMonth, DayOfWeek, Hour, Minute, Month};
    for (text, field, why) in [
        ("-5 * * * *", Some(Minute), "incomplete range"),
        ("1e1 * * * *", Some(Minute), "`1e1`"),
        ("0x10 * * * *", Some(Minute), "`0x10`"),
        ("+5 * * * *", Some(Minute), "`+5`"),
        ("*/0 * * * *", Some(Minute), "a step is 1 or more"),
        ("*/x * * * *", Some(Minute), "no number"),
        ("*/ * * * *", Some(Minute), "no number"),
        ("5-1 * * * *", Some(Minute), "write `5-59,0-1`"),
        ("1,,2 * * * *", Some(Minute), "empty list entry"),
        (", * * * *", Some(Minute), "empty list entry"),
        ("1- * * * *", Some(Minute), "incomplete range"),
        ("1-2-3 * * * *", Some(Minute), "`2-3`"),
        ("1/2/3 * * * *", Some(Minute), "`2/3`"),
        ("60 * * * *", Some(Minute), "not in 0-59"),
        ("99999999999 * * * *", Some(Minute), "not in 0-59"),
        ("** * * * *", Some(Minute), "`**`"),
        ("* 24 * * *", Some(Hour), "not in 0-23"),
        ("* 22-2 * * *", Some(Hour), "write `22-23,0-2`"),
        ("* * 0 * *", Some(DayOfMonth), "not in 1-31"),
        ("* * L * *", Some(DayOfMonth), "28-31"),
        ("* * 15W * *", Some(DayOfMonth), "1-5"),
        ("* * ? * *", Some(DayOfMonth), "write `*`"),
        ("* * * 13 *", Some(Month), "not in 1-12"),
        ("* * * janu *", Some(Month), "`janu`"),
        ("* * * mon *", Some(Month), "`mon`"),
        ("* * * * 8", Some(DayOfWeek), "not in 0-7"),
        ("* * * * 1#2", Some(DayOfWeek), "n-th weekday"),
        ("* * * * 5L", Some(DayOfWeek), "last"),
        ("* * * * fri-sun", Some(DayOfWeek), "write `5-6,0`"),
        ("* * * *", Some(DayOfWeek), "day-of-week field is missing"),
        ("0 * * * * *", None, "no seconds field"),
        ("", None, "empty"),
        ("  ", None, "empty"),
        ("@reboot", None, "not restarts"),
        ("@every 5m", Some(DayOfMonth), "2 fields"),
        ("@fortnightly", None, "@daily"),
    ] {
        let error = text.parse::<Expression>().expect_err(text);
        assert_eq!(error.field, field, "{text}: {error}");
        assert!(error.message.contains(why), "{text}: {error}");
        if let Some(field) = field {
            assert!(
                error.message.contains(&field.to_string()),
                "{text}: {error}"
            );
        }
    }
}

#[test]
fn a_date_that_never_comes_is_told_at_once() {
    let at = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
    let berlin = Zone::find("Europe/Berlin").unwrap();
    for text in ["0 0 31 2 *", "0 0 30 2 *", "* * 31 4,6,9,11 *"] {
        assert_eq!(parse(text).next_after(at, &berlin), None, "{text}");
    }
    // No year without it is too far, but eight are.
    let at = Timestamp::parse("2096-03-01T00:00:00Z").unwrap();
    assert_eq!(parse("0 0 29 2 *").next_after(at, &Zone::utc()), None);
}

#[test]
fn the_search_goes_by_sets_and_not_by_minutes() {
    // Five thousand years without a hit: done in the time that a scan by minutes needs for some months.
    let never = parse("0 0 31 2 *");
    assert_eq!(next_minute(&never, 0, 5000 * 366 * 1440), None);
    let rare = parse("0 0 29 2 1");
    let minutes = next_minute(&rare, 0, i64::from(i32::MAX)).unwrap();
    assert_eq!(
        Timestamp(minutes * 60_000).to_string(),
        "1970-02-02T00:00:00.000Z"
    );
}

#[test]
fn fixed_time_is_what_holds_no_star_in_minute_and_hour() {
    for (text, fixed) in [
        ("30 2 * * *", true),
        ("0,30 2 * * *", true),
        ("0-30/10 1-5 * * *", true),
        ("5/10 2 * * *", true),
        ("0 * * * *", false),
        ("*/5 2 * * *", false),
        ("30 */2 * * *", false),
        ("1,* 2 * * *", false),
    ] {
        assert_eq!(parse(text).is_fixed_time(), fixed, "{text}");
    }
}

#[test]
fn in_words() {
    for (text, words) in [
        ("* * * * *", "every minute"),
        ("*/1 * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/7 * * * *", "*/7 * * * *"),
        ("7 * * * *", "minute 7 of every hour"),
        ("0 */6 * * *", "every 6 hours at minute 0"),
        ("0 */5 * * *", "0 */5 * * *"),
        ("5 9 * * *", "09:05 every day"),
        ("0 9 * * 1-5", "09:00 on weekdays"),
        ("0 9 * * mon,tue,wed,thu,fri", "09:00 on weekdays"),
        ("0 9 * * 6,7", "09:00 on weekends"),
        ("0 9 * * 0,1,3", "09:00 on Monday, Wednesday, Sunday"),
        ("30 18 15 * *", "18:30 on day 15 of every month"),
        ("30 18 1,15 * *", "30 18 1,15 * *"),
        ("0 9 1 * 1", "0 9 1 * 1"),
        ("0 9 * 6 *", "0 9 * 6 *"),
        ("0,30 9 * * *", "0,30 9 * * *"),
        ("*/5 9-17 * * *", "*/5 9-17 * * *"),
        ("*/5 * * * 1-5", "*/5 * * * 1-5"),
    ] {
        assert_eq!(parse(text).in_words(), words, "{text}");
    }
}

#[test]
fn zones() {
    assert_eq!(Zone::find("europe/berlin").unwrap().name(), "Europe/Berlin");
    assert_eq!(Zone::find(" UTC ").unwrap().name(), "UTC");
    for unknown in [
        "",
        "Mars/Olympus",
        "Etc/Unknown",
        "../../etc/passwd",
        "+02:00",
    ] {
        assert!(Zone::find(unknown).is_none(), "{unknown}");
    }
    let at = Timestamp::parse("2026-07-01T00:00:00.250Z").unwrap();
    for (zone, local) in [
        ("Europe/Berlin", "2026-07-01T02:00:00.250+02:00"),
        ("America/New_York", "2026-06-30T20:00:00.250-04:00"),
        ("Asia/Kathmandu", "2026-07-01T05:45:00.250+05:45"),
        ("UTC", "2026-07-01T00:00:00.250+00:00"),
    ] {
        assert_eq!(Zone::find(zone).unwrap().local(at), local);
    }
}
