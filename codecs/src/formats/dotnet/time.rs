//! Times and spans of .NET as text: RFC 3339, and the durations of XML Schema.

use std::fmt::Write;

use crate::instant::date;

const SECOND: u64 = 10_000_000;
const DAY: u64 = 86_400 * SECOND;
/// From 0001-01-01 to 1970-01-01, in days.
const EPOCH: i64 = 719_162;
/// The ticks after the last time of .NET, at the end of the year 9999.
const END: u64 = 3_155_378_976_000_000_000;
/// A local time whose UTC is before the year 1 is stored as that much below 2^62, less than a day.
const WRAPPED: u64 = (1 << 62) - DAY;

/// Whether a number in the form of `DateTime.ToBinary` is a time.
pub(super) fn is_instant(binary: u64) -> bool {
    let (kind, ticks) = parts(binary);
    ticks < END || (kind >= 2 && !(END + DAY..WRAPPED).contains(&ticks))
}

/// Kind and ticks: 0 is a time without a zone, 1 is UTC, 2 and 3 are local times, whose ticks are those of UTC.
const fn parts(binary: u64) -> (u64, u64) {
    (binary >> 62, binary & ((1 << 62) - 1))
}

/// Returns the time as text, in UTC with `Z`, and without a zone if it has none.
pub(super) fn instant(binary: u64) -> String {
    let (kind, ticks) = parts(binary);
    let ticks = match ticks {
        WRAPPED.. => 0,
        _ => ticks.min(END - 1),
    };
    let (days, of_day) = (ticks / DAY, ticks % DAY);
    let (year, month, day) = date(i64::try_from(days).unwrap_or_default() - EPOCH);
    let seconds = of_day / SECOND;
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    fraction(&mut text, of_day % SECOND);
    if kind > 0 {
        text.push('Z');
    }
    text
}

/// Returns a span as a duration of days, hours, minutes and seconds: `P1DT2H3M4.5S`.
pub(super) fn span(ticks: i64) -> String {
    let mut text = String::from(if ticks < 0 { "-P" } else { "P" });
    let ticks = ticks.unsigned_abs();
    let (days, of_day) = (ticks / DAY, ticks % DAY);
    let seconds = of_day / SECOND;
    let (hours, minutes, seconds, rest) = (seconds / 3_600, seconds / 60 % 60, seconds % 60, of_day % SECOND);
    // Writing to a string does not fail.
    if days > 0 {
        let _ = write!(text, "{days}D");
    }
    if of_day > 0 || days == 0 {
        text.push('T');
    }
    for (count, unit) in [(hours, 'H'), (minutes, 'M')] {
        if count > 0 {
            let _ = write!(text, "{count}{unit}");
        }
    }
    if seconds > 0 || rest > 0 || ticks == 0 {
        let _ = write!(text, "{seconds}");
        fraction(&mut text, rest);
        text.push('S');
    }
    text
}

/// Appends ticks as the fraction of a second, without zeros at its end.
fn fraction(text: &mut String, ticks: u64) {
    if ticks > 0 {
        let digits = format!("{ticks:07}");
        text.push('.');
        text.push_str(digits.trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_text_with_the_zone_that_they_have() {
        assert_eq!(instant(0), "0001-01-01T00:00:00");
        assert_eq!(instant(1 << 62), "0001-01-01T00:00:00Z");
        assert_eq!(instant(2 << 62 | 1), "0001-01-01T00:00:00.0000001Z");
        assert_eq!(instant(621_355_968_000_000_000), "1970-01-01T00:00:00");
        assert_eq!(instant(1 << 62 | (END - 1)), "9999-12-31T23:59:59.9999999Z");
        assert!(is_instant(END - 1) && !is_instant(END) && !is_instant(1 << 62 | END));
        // Local times whose UTC is outside of the years 1 to 9999 are the nearest one.
        assert_eq!(instant(3 << 62 | ((1 << 62) - 1)), "0001-01-01T00:00:00Z");
        assert_eq!(instant(2 << 62 | END), "9999-12-31T23:59:59.9999999Z");
        assert!(
            is_instant(2 << 62 | END) && !is_instant(2 << 62 | (END + DAY)) && !is_instant(2 << 62 | (WRAPPED - 1))
        );
    }

    #[test]
    fn spans_are_durations() {
        for (ticks, text) in [
            (0, "PT0S"),
            (-1, "-PT0.0000001S"),
            (900_000_000, "PT1M30S"),
            (9_378_445_000_000, "P10DT20H30M44.5S"),
            (864_000_000_000, "P1D"),
            (i64::MIN, "-P10675199DT2H48M5.4775808S"),
        ] {
            assert_eq!(span(ticks), text);
        }
    }
}
