//! Times as .NET writes them.

use std::{ops::Range, time::Duration};

use crate::time::Timestamp;

/// RFC 3339, and the form of NServiceBus, `2026-02-03 04:05:06:789123 Z`. UTC where there is no offset; what is below a
/// millisecond is cut.
pub(super) fn instant(text: &str) -> Option<Timestamp> {
    const MARKS: [(usize, &[u8]); 5] = [(4, b"-"), (7, b"-"), (10, b"Tt "), (13, b":"), (16, b":")];
    let (head, rest) = text.trim().split_at_checked(19)?;
    if MARKS.into_iter().any(|(at, marks)| !marks.contains(&head.as_bytes()[at])) {
        return None;
    }
    let part = |range: Range<usize>, most| number(head.get(range)?, most);
    let day = day(part(0..4, 9_999)?, part(5..7, 12)?, part(8..10, 31)?)?;
    let seconds = part(11..13, 23)? * 3_600 + part(14..16, 59)? * 60 + part(17..19, 60)?;
    let (fraction, zone) = match rest.strip_prefix(['.', ':']) {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())),
        None => ("0", rest),
    };
    let millis = number(&format!("{fraction:0<3.3}"), 999)?;
    Some(Timestamp::from_millis((day * 86_400 + seconds - offset(zone.trim_start())?) * 1_000 + millis))
}

/// Seconds to the east of UTC.
fn offset(zone: &str) -> Option<i64> {
    if zone.is_empty() || zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone.strip_prefix(['+', '-'])?.split_once(':')?;
    Some(sign * (number(hours, 23)? * 3_600 + number(minutes, 59)? * 60))
}

/// A `TimeSpan` of .NET that is not negative: `[d.]hh:mm:ss[.fffffff]`.
pub(super) fn span(text: &str) -> Option<Duration> {
    let mut parts = text.trim().split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let (days, hours) = hours.split_once('.').unwrap_or(("0", hours));
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    if parts.next().is_some() {
        return None;
    }
    // 10,675,199 days are the longest.
    let seconds = number(days, 10_675_199)? * 86_400
        + number(hours, 23)? * 3_600
        + number(minutes, 59)? * 60
        + number(seconds, 59)?;
    let millis = number(&format!("{fraction:0<3.3}"), 999)?;
    Some(Duration::from_millis((seconds * 1_000 + millis).unsigned_abs()))
}

fn number(text: &str, most: i64) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number <= most)
}

/// The day of a date of the Gregorian calendar, from 1970-01-01. Years begin in March here, so that a leap day is the last.
fn day(year: i64, month: i64, day: i64) -> Option<i64> {
    if month == 0 || day == 0 {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: H-131.
    #[test]
    fn instants_of_both_libraries_are_read() {
        for (text, shown) in [
            ("2026-02-03T04:05:06.789Z", "2026-02-03T04:05:06.789Z"),
            ("2026-02-03T04:05:06.7891234Z", "2026-02-03T04:05:06.789Z"),
            ("2026-02-03 04:05:06:789123 Z", "2026-02-03T04:05:06.789Z"),
            ("2026-02-03T04:05:06", "2026-02-03T04:05:06.000Z"),
            ("2026-02-03t04:05:06.5z", "2026-02-03T04:05:06.500Z"),
            ("2026-02-03T04:05:06+01:30", "2026-02-03T02:35:06.000Z"),
            ("2026-12-31T23:59:59.999-00:01", "2027-01-01T00:00:59.999Z"),
            ("2000-02-29T00:00:00Z", "2000-02-29T00:00:00.000Z"),
            ("2100-03-01T00:00:00Z", "2100-03-01T00:00:00.000Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(instant(text).map(|instant| instant.to_string()).as_deref(), Some(shown), "{text}");
        }
        for text in ["", "2026-02-03", "2026-13-03T04:05:06Z", "2026-02-00T04:05:06Z", "2026-02-03T24:05:06Z"] {
            assert_eq!(instant(text), None, "{text}");
        }
        for text in
            ["2026-02-03T04:05:06.Zx", "2026-02-03T04:05:06 UTC", "2026-02-03T04:05:06+1", "+026-02-03T04:05:06Z"]
        {
            assert_eq!(instant(text), None, "{text}");
        }
        assert_eq!(instant("2026-02-0éT04:05:06Z"), None);
    }

    /// Rules: H-131.
    #[test]
    fn spans_are_read() {
        for (text, millis) in [
            ("00:00:10", Some(10_000)),
            ("01:02:03.4567891", Some(3_723_456)),
            ("3.00:00:00", Some(259_200_000)),
            ("10675199.02:48:05.4775807", Some(922_337_203_685_477)),
            ("-00:00:10", None),
            ("24:00:00", None),
            ("00:10", None),
            ("00:00:00:10", None),
            ("99999999999999999999.00:00:00", None),
            ("", None),
        ] {
            assert_eq!(span(text), millis.map(Duration::from_millis), "{text}");
        }
    }
}
