//! Tag 1: seconds since 1970-01-01.

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
