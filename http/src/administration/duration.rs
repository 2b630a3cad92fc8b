//! Durations of ISO 8601 in days, hours, minutes and seconds.

use std::{fmt::Write, time::Duration};

/// A duration without a limit: what the longest duration of .NET, `P10675199DT2H48M5.4775807S`, stands for.
pub const UNLIMITED: Duration = Duration::MAX;

const UNLIMITED_TEXT: &str = "P10675199DT2H48M5.4775807S";
const UNLIMITED_DAYS: u64 = 10_675_199;

/// Reads a duration. Years and months are refused. One of 10,675,199 days or more is [`UNLIMITED`].
pub(super) fn read(text: &str) -> Option<Duration> {
    let rest = text.trim().strip_prefix('P')?;
    let (days, mut time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((days, time)) => (days, time),
        None if rest.is_empty() => return None,
        None => (rest, ""),
    };
    let mut seconds: u64 = 0;
    if !days.is_empty() {
        let days = whole(days.strip_suffix('D')?)?;
        if days >= UNLIMITED_DAYS {
            return Some(UNLIMITED);
        }
        seconds = days * 86_400;
    }
    for (unit, each) in [('H', 3_600), ('M', 60)] {
        if let Some((count, rest)) = time.split_once(unit) {
            seconds = seconds.checked_add(whole(count)?.checked_mul(each)?)?;
            time = rest;
        }
    }
    let mut nanos = 0;
    if let Some(count) = time.strip_suffix('S') {
        let (count, fraction) = count.split_once('.').unwrap_or((count, "0"));
        if fraction.is_empty() || fraction.len() > 9 {
            return None;
        }
        seconds = seconds.checked_add(whole(count)?)?;
        nanos = u32::try_from(whole(&format!("{fraction:0<9}"))?).ok()?;
        time = "";
    }
    let duration = time.is_empty().then(|| Duration::new(seconds, nanos))?;
    Some(if duration.as_secs() / 86_400 >= UNLIMITED_DAYS { UNLIMITED } else { duration })
}

/// Writes a duration in ticks of 100 ns.
pub(super) fn write(duration: Duration) -> String {
    if duration.as_secs() / 86_400 >= UNLIMITED_DAYS {
        return UNLIMITED_TEXT.to_owned();
    }
    let (seconds, ticks) = (duration.as_secs(), duration.subsec_nanos() / 100);
    let mut text = String::from("P");
    if seconds >= 86_400 {
        let _ = write!(text, "{}D", seconds / 86_400);
    }
    let parts = [(seconds / 3_600 % 24, 'H'), (seconds / 60 % 60, 'M')];
    let in_minute = seconds % 60;
    if parts.iter().any(|(count, _)| *count > 0) || in_minute > 0 || ticks > 0 || text.len() == 1 {
        text.push('T');
    }
    for (count, unit) in parts.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, "{count}{unit}");
    }
    if ticks > 0 {
        let fraction = format!("{ticks:07}");
        let _ = write!(text, "{in_minute}.{}S", fraction.trim_end_matches('0'));
    } else if in_minute > 0 || text.ends_with('T') {
        let _ = write!(text, "{in_minute}S");
    }
    text
}

fn whole(digits: &str) -> Option<u64> {
    Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_they_are_written() {
        for (text, duration) in [
            ("PT0S", Duration::ZERO),
            ("PT1M", Duration::from_secs(60)),
            ("PT1M30.5S", Duration::from_millis(90_500)),
            ("P7D", Duration::from_secs(7 * 86_400)),
            ("P1DT2H3M4.0000005S", Duration::new(93_784, 500)),
            (UNLIMITED_TEXT, UNLIMITED),
        ] {
            assert_eq!(read(text), Some(duration), "{text}");
            assert_eq!(write(duration), text);
        }
        assert_eq!(read("PT90S"), Some(Duration::from_secs(90)));
        assert_eq!(read("P10675199DT2H48M5.477581S"), Some(UNLIMITED));
        assert_eq!(read("PT18446744073709551615S"), Some(UNLIMITED));
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in ["", "P", "PT", "P1Y", "P1M", "-PT1S", "PT1", "PT1.S", "PT-1S", "1", "PT99999999999999999999S"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
