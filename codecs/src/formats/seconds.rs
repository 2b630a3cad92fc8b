//! Seconds since 1970-01-01, as formats mark them.

use crate::instant::date;

#[cfg(feature = "cbor")]
const MICROS: i64 = 1_000_000;

/// Seconds, and nanoseconds after them.
#[derive(Clone, Copy)]
pub(super) struct Seconds {
    pub(super) seconds: i64,
    pub(super) nanos: u32,
}

impl Seconds {
    /// To the microsecond: the precision of a float of 64 bits in these centuries.
    #[cfg(feature = "cbor")]
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    pub(super) fn of_float(seconds: f64) -> Option<Self> {
        // Three thousand centuries. NaN is in no range.
        if !(-1e13..1e13).contains(&seconds) {
            return None;
        }
        let whole = seconds.floor();
        let micros = ((seconds - whole) * 1e6).round() as i64;
        let seconds = whole as i64 + micros / MICROS;
        Some(Self { seconds, nanos: u32::try_from(micros % MICROS * 1_000).ok()? })
    }

    /// Returns the text of RFC 3339, within its range of years.
    pub(super) fn to_text(self) -> Option<String> {
        const DAY: i64 = 24 * 60 * 60;
        if !(-62_167_219_200..253_402_300_800).contains(&self.seconds) {
            return None;
        }
        let (year, month, day) = date(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY);
        let (hours, minutes, seconds) = (second / 3_600, second / 60 % 60, second % 60);
        let whole = format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}");
        let fraction = format!(".{:09}", self.nanos);
        Some(whole + fraction.trim_end_matches('0').trim_end_matches('.') + "Z")
    }
}

#[cfg(all(test, feature = "cbor"))]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_kept_to_the_microsecond() {
        for (seconds, text) in [
            (1_363_896_240.5, "2013-03-21T20:04:00.5Z"),
            (1_700_000_000.123, "2023-11-14T22:13:20.123Z"),
            (1_700_000_000.999_999_9, "2023-11-14T22:13:21Z"),
            (-0.25, "1969-12-31T23:59:59.75Z"),
            (0.0, "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(Seconds::of_float(seconds).and_then(Seconds::to_text).as_deref(), Some(text), "{seconds}");
        }
        for seconds in [f64::NAN, f64::INFINITY, 1e300, -1e14] {
            assert!(Seconds::of_float(seconds).is_none(), "{seconds}");
        }
    }
}
