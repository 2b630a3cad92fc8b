use std::fmt;

use super::CloudEventError;
use crate::time::Timestamp;

/// The value of an extension attribute. Bytes, URIs and instants are text, in the spelling that the specification gives
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attribute {
    /// A truth value.
    Boolean(bool),
    /// An integer of 32 bits.
    Integer(i32),
    /// Text.
    String(Box<str>),
}

impl Attribute {
    /// An integer beyond 32 bits, which some producers write, is its digits.
    pub(super) fn of_integer(value: i128) -> Self {
        i32::try_from(value).map_or_else(|_| Self::String(value.to_string().into()), Self::Integer)
    }

    /// Returns the text; `None` of other values.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => fmt::Display::fmt(value, f),
            Self::Integer(value) => fmt::Display::fmt(value, f),
            Self::String(value) => f.write_str(value),
        }
    }
}

impl From<bool> for Attribute {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i32> for Attribute {
    fn from(value: i32) -> Self {
        Self::Integer(value)
    }
}

impl From<&str> for Attribute {
    fn from(value: &str) -> Self {
        Self::String(value.into())
    }
}

impl From<String> for Attribute {
    fn from(value: String) -> Self {
        Self::String(value.into())
    }
}

/// Most bytes of a name. With a prefix it fits into the short strings of AMQP 0-9-1.
const LONGEST_NAME: usize = 128;

/// What JSON has for data is not an attribute.
const RESERVED: [&str; 2] = ["data", "data_base64"];

/// What SDKs let through when they do not validate.
pub(super) fn check_read_name(name: &str) -> Result<(), CloudEventError> {
    let is_name = (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        && !RESERVED.contains(&name);
    if is_name { Ok(()) } else { Err(CloudEventError::name(name)) }
}

/// What the specification requires of a name. That it should have 20 characters at most is advice, which SDKs do not
/// enforce.
pub(super) fn check_written_name(name: &str) -> Result<(), CloudEventError> {
    let is_name = (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && !RESERVED.contains(&name);
    if is_name { Ok(()) } else { Err(CloudEventError::written_name(name)) }
}

/// RFC 3339 of milliseconds since 1970, up to the year 9999.
pub(super) fn instant_of_millis(millis: i64) -> Option<String> {
    let instant = Timestamp::from_millis(millis);
    (instant.as_millis() == millis).then(|| instant.to_string())
}

/// RFC 3339 of ticks of 100 ns since the year 1.
pub(super) fn instant_of_ticks(ticks: i64) -> Option<String> {
    const TICKS: i64 = 10_000;
    const YEAR_1: i64 = -62_135_596_800_000;
    let text = instant_of_millis(ticks.div_euclid(TICKS) + YEAR_1)?;
    Some(match ticks.rem_euclid(TICKS) {
        0 => text,
        rest => format!("{}{rest:04}Z", text.trim_end_matches('Z')),
    })
}

/// `date-time` of RFC 3339, 5.6.
pub(super) fn is_instant(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let Some(at) = time.find(['Z', 'z', '+', '-']) else { return false };
    let (time, offset) = time.split_at(at);
    let (whole, fraction) = time.split_once('.').map_or((time, "0"), |(whole, fraction)| (whole, fraction));
    let offset = match offset.strip_prefix(['+', '-']) {
        Some(offset) => numbers(offset, ':', [(2, 0, 23), (2, 0, 59)]),
        None => offset.eq_ignore_ascii_case("Z"),
    };
    offset
        && numbers(date, '-', [(4, 0, 9_999), (2, 1, 12), (2, 1, 31)])
        && numbers(whole, ':', [(2, 0, 23), (2, 0, 59), (2, 0, 60)])
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether these are numbers of so many digits, from and to.
fn numbers<const N: usize>(text: &str, between: char, expected: [(usize, u16, u16); N]) -> bool {
    let mut parts = text.split(between);
    let all = expected.into_iter().all(|(digits, from, to)| {
        parts.next().is_some_and(|part| {
            part.len() == digits
                && part.bytes().all(|byte| byte.is_ascii_digit())
                && part.parse().is_ok_and(|number: u16| (from..=to).contains(&number))
        })
    });
    all && parts.next().is_none()
}
