use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

/// A duration of ISO 8601 in days, hours, minutes and seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IsoDuration(pub(super) Duration);

/// The longest of .NET in days, which stands for no limit.
const UNLIMITED_DAYS: u64 = 10_675_199;

/// In nanoseconds.
const SECOND: u128 = 1_000_000_000;

impl IsoDuration {
    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('P')?;
        let (days, time) = match rest.split_once('T') {
            Some((days, time)) if !time.is_empty() => (days, time),
            Some(_) => return None,
            None => (rest, ""),
        };
        if days.is_empty() && time.is_empty() {
            return None;
        }
        let mut nanos: u128 = 0;
        if !days.is_empty() {
            nanos += u128::from(whole(days.strip_suffix('D')?)?) * 86_400 * SECOND;
        }
        let mut time = time;
        for (unit, seconds) in [('H', 3_600), ('M', 60)] {
            if let Some((count, rest)) = time.split_once(unit) {
                nanos += u128::from(whole(count)?) * seconds * SECOND;
                time = rest;
            }
        }
        if let Some(count) = time.strip_suffix('S') {
            let (count, fraction) = count.split_once('.').unwrap_or((count, "0"));
            if fraction.is_empty() || fraction.len() > 9 {
                return None;
            }
            nanos += u128::from(whole(count)?) * SECOND + u128::from(whole(&format!("{fraction:0<9}"))?);
            time = "";
        }
        if !time.is_empty() {
            return None;
        }
        // A count of days has at most 20 digits: the seconds fit, or are as good as unlimited.
        let seconds = u64::try_from(nanos / SECOND).unwrap_or(u64::MAX);
        Some(Self(Duration::new(seconds, u32::try_from(nanos % SECOND).unwrap_or_default())))
    }

    /// Returns none for the longest duration.
    pub(super) fn limited(self) -> Option<Duration> {
        Some(self.0).filter(|duration| duration.as_secs() / 86_400 < UNLIMITED_DAYS)
    }
}

fn whole(digits: &str) -> Option<u64> {
    Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

impl<'de> Deserialize<'de> for IsoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = IsoDuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration of ISO 8601, such as \"PT1M30S\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<IsoDuration, E> {
                IsoDuration::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_days_hours_minutes_and_seconds() {
        let seconds = |text| IsoDuration::parse(text).map(|duration| duration.0.as_secs_f64());
        assert_eq!(seconds("PT1M"), Some(60.0));
        assert_eq!(seconds("PT1H30M5.5S"), Some(5_405.5));
        assert_eq!(seconds("P2DT1S"), Some(172_801.0));
        assert_eq!(seconds("P7D"), Some(604_800.0));
        assert_eq!(seconds("PT0S"), Some(0.0));
        for text in ["", "P", "PT", "1M", "PT1", "PT-1S", "P1M", "PT1S1M", "PT1.S", "PTS", "P1DT", "PT1e3S", "P 1D"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn the_longest_duration_is_no_limit() {
        assert_eq!(IsoDuration::parse("P10675199DT2H48M5.4775807S").unwrap().limited(), None);
        assert_eq!(IsoDuration::parse("P99999999999999999D").unwrap().limited(), None);
        assert!(IsoDuration::parse("P10000D").unwrap().limited().is_some());
    }
}
