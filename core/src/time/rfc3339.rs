//! Instants as text (RFC 3339, 5.6).

use super::Timestamp;

/// The instant that a text names. Fractions of a millisecond are cut off; a leap second is the second after it.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let (date, rest) = text.split_at_checked(10)?;
    let time = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, rest) = time.split_at_checked(8)?;
    let (millis, zone) = fraction(rest)?;
    let [hours, minutes, seconds] = numbers(clock, b':', [(0, 23), (0, 59), (0, 60)])?;
    let days = days(date)?;
    let seconds = ((days * 24 + hours) * 60 + minutes - offset(zone)?) * 60 + seconds;
    Some(Timestamp::from_millis(seconds * 1_000 + millis))
}

/// The milliseconds of a fraction, if there is one, and what follows it.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some((0, text)) };
    let end = rest.bytes().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = rest.split_at(end);
    if digits.is_empty() {
        return None;
    }
    let digits = digits.bytes().chain(*b"00").take(3);
    Some((digits.fold(0, |millis, digit| millis * 10 + i64::from(digit - b'0')), rest))
}

/// Minutes that local time is ahead of UTC.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let [hours, minutes] = numbers(&zone[1..], b':', [(0, 23), (0, 59)])?;
    Some(sign * (hours * 60 + minutes))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(date: &str) -> Option<i64> {
    let (year, rest) = date.split_at_checked(4)?;
    let [year] = numbers_of::<1>(year, b'-', 4, [(0, 9_999)])?;
    let [month, day] = numbers(rest.strip_prefix('-')?, b'-', [(1, 12), (1, 31)])?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day > last {
        return None;
    }
    // Years begin in March here, so that a leap day is the last one; 1970-01-01 is day 719,468 from 0000-03-01.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468)
}

/// Numbers of two digits, each within its range.
fn numbers<const N: usize>(text: &str, between: u8, ranges: [(i64, i64); N]) -> Option<[i64; N]> {
    numbers_of(text, between, 2, ranges)
}

fn numbers_of<const N: usize>(text: &str, between: u8, digits: usize, ranges: [(i64, i64); N]) -> Option<[i64; N]> {
    let mut numbers = [0; N];
    let mut parts = text.as_bytes().split(|&byte| byte == between);
    for (number, (from, to)) in numbers.iter_mut().zip(ranges) {
        let part = parts.next().filter(|part| part.len() == digits && part.iter().all(u8::is_ascii_digit))?;
        *number = part.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        if !(from..=to).contains(number) {
            return None;
        }
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_an_instant() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2023-11-14T22:13:20Z", 1_700_000_000_000),
            ("2023-11-14t22:13:20.123z", 1_700_000_000_123),
            ("2023-11-14 22:13:20.1+00:00", 1_700_000_000_100),
            ("2023-11-14T23:43:20.123999999+01:30", 1_700_000_000_123),
            ("2023-11-14T17:13:20-05:00", 1_700_000_000_000),
            ("2000-02-29T23:59:59.999Z", 951_868_799_999),
            ("1998-12-31T23:59:60Z", 915_148_800_000),
            ("1969-12-31T23:59:59.999Z", -1),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
            ("0001-01-01T00:00:00.000Z", -62_135_596_800_000),
            ("9999-12-31T23:59:59.999Z", Timestamp::MAX.as_millis()),
            ("9999-12-31T23:59:59.999-23:59", Timestamp::MAX.as_millis()),
        ] {
            assert_eq!(parse(text).map(Timestamp::as_millis), Some(millis), "{text}");
        }
    }

    #[test]
    fn text_that_the_rfc_does_not_allow_is_not_an_instant() {
        for text in [
            "",
            "2023-11-14",
            "2023-11-14T22:13:20",
            "2023-11-14T22:13Z",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:20.5",
            "2023-11-14T22:13:20+0100",
            "2023-11-14T22:13:20+24:00",
            "2023-11-14T22:13:20Zz",
            "2023-11-14_22:13:20Z",
            "2023-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2023-04-31T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-00-01T00:00:00Z",
            "2023-01-00T00:00:00Z",
            "2023-01-01T24:00:00Z",
            "2023-01-01T00:60:00Z",
            "2023-01-01T00:00:61Z",
            "+023-01-01T00:00:00Z",
            "2023-1-001T00:00:00Z",
            "2023-01-01T00:00:00é",
            "2023-01-0éT00:00:00Z",
            "1700000000",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn each_day_is_read_as_it_is_written() {
        for day in (-719_528..=2_932_896).step_by(97) {
            let at = Timestamp::from_millis(day * 86_400_000 + 1);
            assert_eq!(parse(&at.to_string()), Some(at), "{at}");
        }
    }
}
