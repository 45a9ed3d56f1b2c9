//! How long a server asks us to wait, in the many ways servers say it.

use std::time::Duration;

use reqwest::header::HeaderMap;

use crate::kernel::time::Timestamp;

/// Numbers from here on are instants since 1970, not durations, in seconds and in milliseconds.
const EPOCH_SECONDS: f64 = 1e9;
const EPOCH_MILLIS: f64 = 1e12;

/// The wait that headers, a Google `retryDelay` or the message ask for; the first that says anything counts.
pub(crate) fn server_delay(
    headers: &HeaderMap,
    retry_delay: Option<&str>,
    message: &str,
    now: Timestamp,
) -> Option<Duration> {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
    };
    // The server's own clock, where it tells it, cannot be out of step with the instants it names.
    let now = header("date").and_then(http_date).unwrap_or(now);
    header("retry-after-ms")
        .and_then(|text| text.parse::<f64>().ok())
        .and_then(|ms| seconds(ms / 1000.0))
        .or_else(|| header("retry-after").and_then(|text| retry_after(text, now)))
        .or_else(|| rate_limit_reset(headers, now))
        .or_else(|| retry_delay.and_then(span))
        .or_else(|| in_words(message))
        .filter(|wait| !wait.is_zero())
}

fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    match text.parse::<f64>() {
        Ok(number) => seconds(number),
        Err(_) => span(text).or_else(|| http_date(text).map(|at| until(at, now))),
    }
}

/// `x-ratelimit-reset` and `x-ratelimit-reset-*`: the longest of those whose quantity is used up.
fn rate_limit_reset(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    headers
        .iter()
        .filter_map(|(name, value)| {
            let what = name.as_str().strip_prefix("x-ratelimit-reset")?;
            let left = headers
                .get(format!("x-ratelimit-remaining{what}"))
                .and_then(|left| left.to_str().ok());
            if left.is_some_and(|left| left.trim() != "0") {
                return None;
            }
            let text = value.to_str().ok()?.trim();
            match text.parse::<f64>() {
                Ok(ms) if ms >= EPOCH_MILLIS => Some(until(Timestamp(ms as i64), now)),
                Ok(s) if s >= EPOCH_SECONDS => Some(until(Timestamp((s * 1000.0) as i64), now)),
                Ok(s) => seconds(s),
                Err(_) => span(text).or_else(|| Timestamp::parse(text).map(|at| until(at, now))),
            }
        })
        .max()
}

/// "Please try again in 1.5s", "retry after 5 seconds".
fn in_words(message: &str) -> Option<Duration> {
    let lower = message.to_ascii_lowercase();
    ["try again in ", "retry in ", "retry after ", "wait "]
        .iter()
        .find_map(|lead| {
            let rest = &lower[lower.find(lead)? + lead.len()..];
            let first = rest.split_whitespace().next()?;
            let number = first.trim_end_matches(['.', ',', ';', ')']);
            match number.parse::<f64>() {
                Ok(number) => {
                    let unit = rest.split_whitespace().nth(1).unwrap_or("seconds");
                    seconds(
                        number
                            * unit_seconds(
                                unit.trim_end_matches(|c: char| !c.is_ascii_alphabetic()),
                            )?,
                    )
                }
                Err(_) => span(number),
            }
        })
}

/// `1.5s`, `300ms`, `6m0s`, `1h2m3.5s`.
fn span(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        total += number * unit_seconds(&rest[..letters])?;
        rest = &rest[letters..];
    }
    seconds(total)
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0))
}

fn http_date(text: &str) -> Option<Timestamp> {
    let at = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Timestamp(at.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    use super::server_delay;
    use crate::kernel::time::Timestamp;

    /// 2026-11-30T00:00:00Z.
    const NOW: Timestamp = Timestamp(1_795_996_800_000);

    fn delay(headers: &[(&str, &str)], retry_delay: Option<&str>, message: &str) -> Option<u128> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (
                    name.parse::<HeaderName>().unwrap(),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect();
        server_delay(&headers, retry_delay, message, NOW).map(|wait| wait.as_millis())
    }

    #[test]
    fn headers() {
        for (headers, ms) in [
            (vec![("retry-after", "2")], Some(2000)),
            (vec![("retry-after", "0.25")], Some(250)),
            (vec![("retry-after", "0")], None),
            (vec![("retry-after", "-1")], None),
            (vec![("retry-after", "soon")], None),
            (
                vec![("retry-after-ms", "1500"), ("retry-after", "9")],
                Some(1500),
            ),
            (
                vec![("retry-after", "Mon, 30 Nov 2026 00:00:05 GMT")],
                Some(5000),
            ),
            (vec![("retry-after", "Sun, 29 Nov 2026 23:59:59 GMT")], None),
            (
                vec![
                    ("date", "Mon, 30 Nov 2026 00:00:03 GMT"),
                    ("retry-after", "Mon, 30 Nov 2026 00:00:05 GMT"),
                ],
                Some(2000),
            ),
            (vec![("x-ratelimit-reset", "3")], Some(3000)),
            (vec![("x-ratelimit-reset", "1795996804")], Some(4000)),
            (vec![("x-ratelimit-reset", "1795996804500")], Some(4500)),
            (vec![("x-ratelimit-reset-tokens", "1m0.5s")], Some(60_500)),
            (
                vec![("x-ratelimit-reset-tokens", "2026-11-30T00:00:07Z")],
                Some(7000),
            ),
            (
                vec![
                    ("x-ratelimit-reset-tokens", "6m0s"),
                    ("x-ratelimit-remaining-tokens", "100"),
                    ("x-ratelimit-reset-requests", "20ms"),
                    ("x-ratelimit-remaining-requests", "0"),
                ],
                Some(20),
            ),
        ] {
            assert_eq!(delay(&headers, None, ""), ms, "{headers:?}");
        }
    }

    #[test]
    fn bodies_and_words() {
        assert_eq!(delay(&[], Some("17.5s"), "try again in 1s"), Some(17_500));
        for (message, ms) in [
            (
                "Rate limit reached. Please try again in 1.5s. Visit …",
                Some(1500),
            ),
            ("try again in 300 ms", Some(300)),
            ("Try again in 300ms.", Some(300)),
            ("try again in 6m0s", Some(360_000)),
            ("please retry after 5 seconds.", Some(5000)),
            ("Please retry in 17.3s", Some(17_300)),
            ("try again in a moment", None),
            ("no luck", None),
        ] {
            assert_eq!(delay(&[], None, message), ms, "{message}");
        }
    }
}
