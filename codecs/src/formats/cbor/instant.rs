//! Tag 1: seconds since 1970-01-01. Tag 100 (RFC 8943): days since then.

use super::{
    float::Float,
    reader::{Head, NEGATIVE, UNSIGNED},
};
use crate::formats::seconds::Seconds;

/// Returns the seconds of a number.
pub(super) fn seconds(head: Head) -> Option<Seconds> {
    let seconds = match head.major() {
        UNSIGNED => i64::try_from(head.argument).ok()?,
        NEGATIVE => !i64::try_from(head.argument).ok()?,
        _ => return Seconds::of_float(Float::of(head)?.wide()),
    };
    Some(Seconds { seconds, nanos: 0 })
}

/// Returns the beginning of a day, in UTC.
pub(super) fn midnight(head: Head) -> Option<Seconds> {
    let seconds = seconds(head)?.seconds.checked_mul(86_400)?;
    Some(Seconds { seconds, nanos: 0 })
}
