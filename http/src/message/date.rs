//! Dates of RFC 1123: `Sun, 06 Nov 1994 08:49:37 GMT`.

use std::time::{Duration, SystemTime};

use consign_core::time::Timestamp;

/// Reads a date. Other forms of HTTP, and dates before 1970, are none.
pub(super) fn read(text: &str) -> Option<Timestamp> {
    let time = httpdate::parse_http_date(text).ok()?;
    let is_canonical = httpdate::fmt_http_date(time) == text;
    let millis = time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis();
    is_canonical.then_some(Timestamp::from_millis(i64::try_from(millis).ok()?))
}

/// Writes a date in whole seconds. None if it is before 1970.
pub(super) fn write(at: Timestamp) -> Option<String> {
    let millis = u64::try_from(at.as_millis()).ok()?;
    Some(httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(millis / 1_000)))
}
