//! The protocol by which a codec passes on an instant that its format marks as one. `consign-codecs` has the other end of it.

/// The name of the newtype struct that requests an instant.
pub(super) const INSTANT: &str = "$consign::Instant";

/// The type of the timestamp extension of `MessagePack`.
pub(super) const EXTENSION: i8 = -1;

/// Returns year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
pub(super) const fn date(day: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that a leap day is the last one. 0000-03-01 is 719,468 days before 1970-01-01; 400
    // years have 146,097 days.
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let leap_days = of_era / 1_460 - of_era / 36_524 + of_era / 146_096;
    let year = (of_era - leap_days) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Months from March on have 153 days in every five.
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year + next_year, month, of_month)
}

/// Returns seconds since 1970 and nanoseconds after them, from the 4, 8 or 12 bytes of that extension.
pub(super) fn from_extension(bytes: &[u8]) -> Option<(i64, u32)> {
    let (seconds, nanos) = match bytes.len() {
        4 => (i64::from(u32::from_be_bytes(bytes.try_into().ok()?)), 0),
        8 => {
            let both = u64::from_be_bytes(bytes.try_into().ok()?);
            (i64::try_from(both & 0x3_ffff_ffff).ok()?, u32::try_from(both >> 34).ok()?)
        }
        12 => {
            let (nanos, seconds) = bytes.split_first_chunk()?;
            (i64::from_be_bytes(seconds.try_into().ok()?), u32::from_be_bytes(*nanos))
        }
        _ => return None,
    };
    (nanos < 1_000_000_000).then_some((seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_before_the_year_0000_is_of_the_same_calendar() {
        for (day, expected) in [
            (0, (1970, 1, 1)),
            (-719_468, (0, 3, 1)),
            (-719_469, (0, 2, 29)),
            (-719_528, (0, 1, 1)),
            (-719_529, (-1, 12, 31)),
            (-719_893, (-1, 1, 1)),
            (-719_528 - 146_097, (-400, 1, 1)),
            (-719_528 - 146_098, (-401, 12, 31)),
        ] {
            assert_eq!(date(day), expected, "{day}");
        }
    }

    /// Rules: P-110.
    #[test]
    fn an_extension_has_seconds_and_nanoseconds() {
        let eight = |nanos: u64, seconds: u64| (nanos << 34 | seconds).to_be_bytes();
        let twelve = |nanos: u32, seconds: i64| [&nanos.to_be_bytes()[..], &seconds.to_be_bytes()].concat();
        for (bytes, expected) in [
            (&[0, 0, 0, 7][..], Some((7, 0))),
            (&[0xff; 4], Some((4_294_967_295, 0))),
            (&eight(0, 0x3_ffff_ffff), Some((0x3_ffff_ffff, 0))),
            (&eight(999_999_999, 1), Some((1, 999_999_999))),
            (&eight(1_000_000_000, 1), None),
            (&twelve(5, -1), Some((-1, 5))),
            (&twelve(999_999_999, i64::MIN), Some((i64::MIN, 999_999_999))),
            (&twelve(1_000_000_000, 0), None),
            (&[], None),
            (&[0; 5], None),
            (&[0; 13], None),
        ] {
            assert_eq!(from_extension(bytes), expected, "{bytes:?}");
        }
    }
}
